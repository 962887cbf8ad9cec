"""Whether members stay in the group while their pods restart, or leave it when they close.

A static member that closes stays until its session ends, so its successor comes back without a rebalance. Some clients
are set to leave all the same (spring-cloud-stream and Kafka Streams by CloseOptions, KIP-1092; @platformatic/kafka
always), and then every restart costs two rebalances. What was seen last counts.
"""

from __future__ import annotations

from typing import Final

from ..evidence.chain import KnownPod, PodState
from ..group import GroupType, GroupView
from ..members.memory import Members
from ..snapshot import History, LeftOnClose, Snapshot

MARGIN_S: Final = 10.0
"""So much earlier than its session could end a member is gone that has left: two heartbeats, and the clocks."""


def seen_to_close(
    snapshot: Snapshot, group: GroupView, before: History, after: Members, now_s: float
) -> LeftOnClose | None:
    """Return what is remembered of members that left when they closed; None when the last one seen to close stayed.

    Parameters
    ----------
    before: of earlier rounds. after: the members as described now. now_s: seconds since the Unix epoch.
    """
    pods = {pod.uid: pod for pod in snapshot.known}
    removed = {record.instance_id for record in before.removals}
    found = before.left_on_close
    for instance_id, was in sorted(before.members.attributions.items()):
        now = after.attributions.get(instance_id)
        if now is not None and now.member == was.member:
            has_stayed = bool(was.carriers) and not now.carriers  # its pod has ended since, and it is still described
            found = None if has_stayed else found
            continue
        if now is not None:  # its successor holds the seat, and may have taken it over from it
            continue
        pod = pods.get(next(iter(was.carriers))) if len(was.carriers) == 1 else None
        if pod is None or instance_id in removed or not _is_early(pod, _session_s(pod, snapshot, group), now_s):
            continue
        count = found.count + 1 if found is not None else 1
        found = LeftOnClose(instance_id=instance_id, pod_name=pod.pod_name, at_s=now_s, count=count)
    return found


def _session_s(pod: KnownPod, snapshot: Snapshot, group: GroupView) -> float:
    """Return the shortest time after its last heartbeat for which a member stays; 0.0: it is not known."""
    if group.group_type is GroupType.CLASSIC:
        return min(pod.session_timeouts_ms, default=0) / 1000
    bounds = snapshot.bounds.of(group.group_type) if snapshot.bounds is not None else None
    return (bounds.group_ms or 0) / 1000 if bounds is not None else 0.0


def _is_early(pod: KnownPod, session_s: float, now_s: float) -> bool:
    """True when a member is gone whose pod ends now, or ended so lately that its session cannot be over."""
    if pod.state is PodState.LIVE:
        return pod.is_deleting and pod.runs
    return pod.state is PodState.DEAD and now_s - pod.since_s < session_s - MARGIN_S
