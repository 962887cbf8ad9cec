"""Gather what the pod store shows of the pods that may hold the members of one group; see `core.members`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from ..core.evidence.chain import Incarnation, IncarnationState
from ..core.group import GroupView, KafkaProblem, MemberView
from ..core.ids.naming import Naming, ordinal_of_pod
from ..core.members.address import pod_of
from ..core.members.carriers import UNATTRIBUTED, UNSEEN
from ..core.members.holding import Seat
from ..core.members.memory import Members, Sight, without_ended
from ..core.members.node_gone import NodeLifecycle, is_node_gone
from ..core.members.suspects import Suspect
from ..core.roles import Role
from ..core.seats import holders_of
from ..kube.nodes.store import NodeStore
from ..kube.pods.store import PodStore

CLOCKS_APART_S: Final = 10.0
"""The clocks of the operator and of the API server differ by less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SightGatherer:
    """Whatever is asked of pods.

    Parameters
    ----------
    lifecycle: what the deletion of a Node says of its machine.
    may_be_of: whether a pod of another namespace may be a member of the StaticGroup's Kafka group.
    now_s: operator's clock, seconds since the Unix epoch. clock_ahead_s: how far the API server's clock is ahead of it.
    """

    pods: PodStore
    nodes: NodeStore
    lifecycle: NodeLifecycle
    may_be_of: Callable[[Incarnation], bool]
    now_s: Callable[[], float]
    clock_ahead_s: Callable[[], float]

    async def gather(
        self, namespace: str, naming: Naming, role: Role, group: GroupView | KafkaProblem, members: Members, described_at_s: float,
        *, ids_since_s: float = 0.0,
    ) -> Sight:
        """Return what is known after one describe, once the pod watch has passed a consistent read behind it.

        Parameters
        ----------
        ids_since_s: since when an id of the StaticGroup can be known to anybody, seconds since the Unix epoch; 0.0: for ever.

        Notes
        -----
        The read is made only where a member is described for the first time.
        """
        new = _new_members(naming, role, group, members)
        has_passed = bool(new) and await self.pods.reach_present(namespace)
        # No await from here on: all of it is one moment of the watch.
        watch, watch_since_s = self.pods.watch(namespace)
        doubtful = tuple(self._suspects_of(namespace, naming, members, ids_since_s))
        sight = Sight(
            watch=watch, watch_since_s=watch_since_s, described_at_s=described_at_s,
            dated_at_s=described_at_s + max(0.0, self.clock_ahead_s()), ends=self.pods.ends,
            ended=frozenset(self._ended(members, doubtful)), back=frozenset(self._back(members)), suspects=doubtful,
            live=frozenset(self._live(members)), has_passed=has_passed,
        )
        if not has_passed:
            return sight
        suspects = without_ended(members, sight).suspects
        carrying, addressed, last_end = {}, {}, {}
        for instance_id, member in new.items():
            seat = Seat(instance_id, naming, namespace)
            pods = tuple(self._pods_of(seat))
            live = [pod for pod in pods if pod.state is IncarnationState.LIVE]
            own = [s for s in suspects if seat.may_be_held_by(s)]
            carrying[instance_id] = frozenset((*(pod.uid for pod in live), *(s.uid for s in own)))
            last_end[instance_id] = max((pod.ended_no for pod in pods), default=0)
            uid = pod_of(member, live, own, described_at_s=described_at_s)
            if uid is not None:
                addressed[instance_id] = uid
        return replace(sight, carrying=carrying, addressed=addressed, last_end=last_end)

    def _pods_of(self, seat: Seat) -> Iterator[Incarnation]:
        """Yield every known pod that may hold an id."""
        near = self.pods.chain(seat.namespace, pod_names=seat.pod_names, instance_ids=seat.carried_as)
        far = (i for i in self.pods.carriers(seat.carried_as) if i.namespace != seat.namespace and self.may_be_of(i))
        return (pod for pod in (*near, *far) if seat.may_be_held_by(pod))

    def _suspects_of(self, namespace: str, naming: Naming, members: Members, ids_since_s: float) -> Iterator[Suspect]:
        """Yield the suspects of the pod store that may hold an id of ours, and the carriers of a member that nothing is known of."""
        for pod in self.pods.doubtful():
            own = naming.own_ids(pod)
            is_seat = pod.namespace == namespace and bool(naming.schemes) and ordinal_of_pod(naming.schemes[0].workload_name, pod.pod_name) is not None
            is_older = not own and max(pod.created_at_s, pod.since_s + CLOCKS_APART_S) < ids_since_s and not pod.object_present
            if is_older:  # a container reads its environment from the object, which was gone before the ids were made
                continue
            if is_seat or (own and (pod.namespace == namespace or self.may_be_of(pod))):
                yield _suspect(pod, own)
        lost: dict[str, set[str]] = {}
        for instance_id, attribution in members.attributions.items():
            for uid in attribution.carriers - {UNSEEN, UNATTRIBUTED}:
                if self.pods.watch(namespace)[0] and self.pods.get(uid) is None:
                    lost.setdefault(uid, set()).add(instance_id)
        known = {s.uid for s in members.suspects}
        for uid, ids in lost.items():
            if uid not in known:
                name = next(iter(naming.pod_names_of(min(ids))), "")
                yield Suspect(uid=uid, namespace=namespace, pod_name=name, instance_ids=frozenset(ids), since_s=self.now_s())

    def _ended(self, members: Members, doubtful: Iterable[Suspect]) -> Iterator[str]:
        """Yield the carriers and suspects that have a certificate, and those whose node is gone."""
        suspects = {s.uid: s for s in (*doubtful, *members.suspects)}
        for uid in {uid for a in members.attributions.values() for uid in a.carriers} | suspects.keys():
            suspect, pod = suspects.get(uid), self.pods.get(uid)
            is_certified = pod is not None and pod.state is IncarnationState.DEAD
            if is_certified and not (suspect is not None and suspect.has_lost_run):
                yield uid
            elif suspect is None and pod is not None and pod.state is IncarnationState.SUSPECT:
                suspect = _suspect(pod, pod.instance_ids)  # silent for so long that it is none for members to come
            if suspect is not None and self.nodes.is_complete and is_node_gone(suspect, self.nodes.present_node(suspect.node_name), self.lifecycle):
                yield uid

    def _back(self, members: Members) -> Iterator[str]:
        """Yield the suspects whose objects are there after all."""
        for suspect in members.suspects:
            pod = self.pods.get(suspect.uid)
            if pod is not None and pod.state is IncarnationState.LIVE and pod.object_present and not suspect.has_lost_run:
                yield suspect.uid

    def _live(self, members: Members) -> Iterator[str]:
        """Yield the carriers of members whose objects exist and have not ended."""
        for uid in {uid for a in members.attributions.values() for uid in a.carriers}:
            pod = self.pods.get(uid)
            if pod is not None and pod.state is IncarnationState.LIVE and not pod.has_lost:
                yield uid


def _new_members(naming: Naming, role: Role, group: GroupView | KafkaProblem, members: Members) -> dict[str, MemberView]:
    """Return the members of ours that were not described before, by id; none of an id that several are described with."""
    if isinstance(group, KafkaProblem):
        return {}
    held = ((i, found) for i, found in holders_of(role, group).items() if naming.ordinal_of(i) is not None)
    alone = ((i, found[0]) for i, found in held if len(found) == 1)
    return {i: m for i, m in alone if members.attribution(i, m.member_id) is None}


def _suspect(pod: Incarnation, instance_ids: frozenset[str]) -> Suspect:
    return Suspect(
        uid=pod.uid,
        namespace=pod.namespace,
        pod_name=pod.pod_name,
        instance_ids=instance_ids,
        since_s=pod.since_s,
        node_name=pod.node_name if pod.is_node_known else "",  # of a Node that was never seen, absence says nothing
        placed_at_s=pod.placed_at_s,
        provider=pod.provider,
        has_lost_run=pod.has_lost,
        addresses=frozenset(pod.addresses),
    )
