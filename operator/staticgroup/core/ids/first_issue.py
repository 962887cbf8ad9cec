"""What blocks a StaticGroup's first ids: members that hold them already, or more members of a pod than it has ids.

A broker lets the newest holder of an id in and fences the one before, wherever that one runs (KIP-345). So as long as
no pod has an id by this StaticGroup, its group shows whether ids would fence anybody. Later its own pods hold them.
"""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import Final

from ...api.identifiers import IdScheme
from ...api.ordinals import Ordinals
from ...api.reasons import Reason
from ..evidence.chain import PodState
from ..findings import Obstacle
from ..group import GroupView, MemberView
from ..snapshot import Snapshot
from .naming import Naming

_NAMED_MAX: Final = 3
"""Members that a sentence names."""


def obstacle_to_first_ids(
    scheme: IdScheme, snapshot: Snapshot, issued: Ordinals, *, is_scoped: bool, is_drawn: bool
) -> Obstacle | None:
    """Return what the group shows against the first ids; None when nothing.

    Parameters
    ----------
    scheme: of the ids to issue. is_scoped: they contain a scope.
    issued: ordinals that were given ids before by this StaticGroup.
    is_drawn: the scope was drawn for this StaticGroup, so its ids are unique and issued even while the group is
        unreadable.
    """
    group = snapshot.group
    if isinstance(group, GroupView):
        elsewhere = None if is_drawn else _held_elsewhere(scheme, snapshot, group, issued, is_scoped=is_scoped)
        return elsewhere or _too_many_members(scheme, snapshot, group)
    if is_drawn:
        return None
    return Obstacle(
        reason=Reason.MEMBERSHIP_UNKNOWN,
        sentence="these ids may be in use elsewhere (they have no part unique to this StaticGroup), and the group "
        "cannot be read",
        remedy="see the conditions Connected and Authorized",
    )


def _held_elsewhere(
    scheme: IdScheme, snapshot: Snapshot, group: GroupView, issued: Ordinals, *, is_scoped: bool
) -> Obstacle | None:
    """Say that members hold ids which no pod of this cluster has given them.

    Whatever a client appends to an id with the scope belongs to that id. Without a scope web-1-0 may be a pod of
    another workload. A suspect explains nothing: it may come from another cluster's status alone.
    """
    seen = (pod for pod in (*snapshot.known, *snapshot.pods, *snapshot.others) if pod.state is not PodState.SUSPECT)
    carried = {i for pod in seen for i in pod.instance_ids}
    naming = Naming(schemes=(scheme,))

    def is_elsewhere(instance_id: str) -> bool:
        found = scheme.appended_to(instance_id) if is_scoped else None
        ordinal = found[0] if found is not None else scheme.ordinal_of(instance_id)
        return ordinal is not None and ordinal not in issued and carried.isdisjoint(naming.carried_as(instance_id))

    static = [(m.instance_id, m) for m in group.members if m.instance_id is not None]
    held = sorted(((i, m) for i, m in static if is_elsewhere(i)), key=itemgetter(0))
    if not held:
        return None
    named = ", ".join(f"{instance_id} from {_address(m)}" for instance_id, m in held[:_NAMED_MAX])
    return Obstacle(
        reason=Reason.IDS_HELD_ELSEWHERE,
        sentence=f"{len(held)} members hold ids that these pods would get, and no pod of this cluster shows them: "
        f"{named}{' …' if len(held) > _NAMED_MAX else ''}",
        remedy="see what runs there: if it has ended, wait for its session; if it is another cluster, set another "
        "spec.idTemplate here; if it is your application with its own ids, set spec.client.type to Own; afterwards "
        "restart the pods without an id",
    )


def _too_many_members(scheme: IdScheme, snapshot: Snapshot, group: GroupView) -> Obstacle | None:
    """Say that a pod has more members than ids, so that its consumers would fence each other.

    A dynamic member is described with the address from which it joined. So a pod has too many where all of them are
    more than the ids of all pods, and those of one address, which no other workload has, more than the ids of one.
    """
    pods = sum(p.state is PodState.LIVE for p in snapshot.pods)
    ids = len(scheme.env_suffixes) * len(scheme.suffixes)
    dynamic = [m for m in group.members if m.instance_id is None]
    counted = Counter(_address(m) for m in dynamic).most_common(1)
    if len(dynamic) <= pods * ids or counted[0][1] <= ids:
        return None
    address, most = counted[0]
    return Obstacle(
        reason=Reason.TOO_MANY_MEMBERS,
        sentence=f"{len(dynamic)} members without an id are in the group, {most} of them from {address}, and {pods} "
        f"pods would get {ids} {'ids' if ids > 1 else 'id'} each: consumers of one pod that share an id fence each "
        "other",
        remedy="set spec.client.concurrency to that of the Spring or Kafka Streams client, or give each consumer of a "
        "pod an entry of spec.client.env (spec.client.type Custom) with a suffix of its own, or a group.id of its own",
    )


def _address(member: MemberView) -> str:
    return member.client_host.removeprefix("/") or "an unknown address"
