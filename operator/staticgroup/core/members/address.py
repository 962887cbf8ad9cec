"""Which pod a member speaks from, where its address tells.

A member of a consumer or streams group shows the address of its latest join, a static classic one that of the first
member of its seat. So the address names the pod of a member only where the member itself speaks the newer protocol, the address is
the pod's own and not its node's, the pod had shown it before the group was described, and each suspect that carries the id
was seen with other addresses.

Sources: GroupMetadataManager.consumerGroupHeartbeat and streamsGroupHeartbeat (setClientHost at each join),
classicGroupJoinExistingStaticMember (the member keeps its client host).
"""

from __future__ import annotations

from collections.abc import Iterable

from ..evidence.chain import KnownPod
from ..group import MemberView
from .suspects import Suspect


def pod_of(
    member: MemberView, live: Iterable[KnownPod], suspects: Iterable[Suspect], *, described_at_s: float
) -> str | None:
    """Return the uid of the one live pod that a member speaks from; None where its address does not tell.

    Parameters
    ----------
    live, suspects: every pod that carries its id and is live or suspect.
    described_at_s: when the group was asked for, operator's clock, seconds since the Unix epoch.
    """
    address = member.client_host.removeprefix("/")
    if not member.is_host_current or not address or any(not s.addresses or address in s.addresses for s in suspects):
        return None
    there = [pod for pod in live if address in pod.addresses]
    is_known = len(there) == 1 and there[0].shown_at_s < described_at_s
    return there[0].uid if is_known else None
