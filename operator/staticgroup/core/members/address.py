"""Which pod a member speaks from, where its address tells.

A member of a consumer or streams group shows the address of its latest heartbeat, a static classic one that of its first
incarnation. So the address names the pod of a member only where the member itself speaks the newer protocol, the address is
the pod's own and not its node's, and no other pod that carries the id was ever seen with it.

Sources: GroupMetadataManager.consumerGroupHeartbeat and streamsGroupHeartbeat (setClientHost at each join),
classicGroupJoinExistingStaticMember (the member keeps its client host).
"""

from __future__ import annotations

from collections.abc import Iterable

from ..evidence.chain import Incarnation, IncarnationState
from ..group import MemberView


def pod_of(member: MemberView, carrying: Iterable[Incarnation]) -> Incarnation | None:
    """Return the one live pod that a member speaks from; None where its address does not tell.

    Parameters
    ----------
    carrying: every pod that carries its id and is live or suspect.
    """
    address = member.client_host.removeprefix("/")
    if member.member_epoch is None or not address:
        return None
    there = [pod for pod in carrying if address in pod.addresses]
    is_one = len(there) == 1 and there[0].state is IncarnationState.LIVE
    return there[0] if is_one else None
