"""Who was there when it joined: the pods that must have ended before a member may be removed.

* A member id belongs to one process for ever. A member's process lived when the member joined, so when the member is
  first described, its pod is one of those that carry the id and are live or suspect then, or it has ended already.
  These pods are the member's *carriers*. Only a certificate takes a pod out of them, and none is ever added: a pod that
  was born after the member joined is not its pod. A member whose carriers are known and have all ended is dead.
* A pod is a *suspect* when its object is gone without a certificate (a force delete, a lost node), or when its kubelet
  or runtime has lost a run of it. A suspect is among the carriers of every member that joins an id it carries, because
  its process may join again. Once it has been silent for `settle_s` it is dropped for members to come. No time ever
  takes it out of the carriers of a member.
* A member of a consumer or streams group shows the address of its latest join, a static classic one that of the first
  member of its seat. So an address names the pod of a member only where the member itself uses the newer protocol, the
  address is the pod's own and not its node's, the pod had shown it before the group was described, and each suspect
  that carries the id was seen with other addresses.

Sources: GroupMetadataManager.classicGroupJoinNewStaticMember (the coordinator draws the member id at each join without
one), KIP-848 and KIP-1071 (the client draws it, once for each consumer object), KIP-345 (static membership),
GroupMetadataManager.consumerGroupHeartbeat and streamsGroupHeartbeat (setClientHost at each join),
classicGroupJoinExistingStaticMember (the member keeps its client host).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ..evidence.chain import KnownPod
from ..group import MemberView

UNSEEN: Final = "unseen"
"""Stands among the carriers for pods that nobody can have seen, because the pod watch was not whole; it never ends."""
UNATTRIBUTED: Final = "unattributed"
"""Stands for the pod of a member that no pod explains; it never ends."""
DIGEST_LENGTH: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """The pods that may hold one member, as of its first description.

    Parameters
    ----------
    member: `digest_of` its member id.
    first_seen_s: when it was first described, operator's clock, seconds since the Unix epoch.
    carriers: uids of the pods that have not ended, and perhaps UNSEEN or UNATTRIBUTED. Empty: its process is dead.
    """

    member: str
    first_seen_s: float
    carriers: frozenset[str]

    def is_of(self, member_id: str) -> bool:
        """True when this is about the member with this id."""
        return self.member == digest_of(member_id)

    def without(self, ended: Collection[str]) -> Attribution:
        """Return it without the pods that have a certificate; carriers of one member only shrink."""
        left = self.carriers.difference(ended)
        return self if left == self.carriers else replace(self, carriers=left)

    @property
    def is_guessed(self) -> bool:
        """True when a pod that nobody saw may hold the member."""
        return not self.carriers.isdisjoint((UNSEEN, UNATTRIBUTED))


def digest_of(text: str) -> str:
    """Return what stands for a text in a status, such as a member id: the first hex digits of its SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]


def attribute(
    member_id: str, *, carrying: Iterable[str], is_watch_young: bool, has_one_ended: bool, now_s: float
) -> Attribution:
    """Say which pods may hold a member that a description shows for the first time.

    Parameters
    ----------
    carrying: uids of the live or suspect pods that carry its id, once the pod watch has passed a consistent read that
        began after the description.
    is_watch_young: pods may have come and gone unseen, so one that nobody saw may hold it.
    has_one_ended: a pod that carries the id got its certificate since the description before.
    now_s: operator's clock, seconds since the Unix epoch.
    """
    carriers = frozenset((*carrying, UNSEEN)) if is_watch_young else frozenset(carrying)
    if not carriers and not has_one_ended:  # an empty set alone proves nothing: nobody has ever seen such a pod
        carriers = frozenset((UNATTRIBUTED,))
    return Attribution(member=digest_of(member_id), first_seen_s=now_s, carriers=carriers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """One suspect.

    Parameters
    ----------
    instance_ids: ids that any version of it carried, as it carried them.
    since_s: when it became one, operator's clock, seconds since the Unix epoch.
    node_name: that it was bound to; "" when it was to none.
    machine: what stands for that node's machine, see `node_gone.machine_of`; "": the Node's absence proves nothing.
    provider: scheme of its node's spec.providerID, such as aws; "" when not known.
    has_lost_run: a process of it may run of which its kubelet tells nothing, so no later object version proves its end.
    addresses: own addresses that it was seen with.
    silent_since_s: since when every description showed each of its seats empty or with a member not its own, monotonic
        seconds; None when the last one did not. Lost at a restart, which only lengthens the wait.
    """

    uid: str
    namespace: str
    pod_name: str
    instance_ids: frozenset[str]
    since_s: float
    node_name: str = ""
    machine: str = ""
    provider: str = ""
    has_lost_run: bool = False
    addresses: frozenset[str] = frozenset()
    silent_since_s: float | None = None

    @property
    def case(self) -> str:
        """Name this suspicion: a pod that is there again and gone again is another one."""
        return f"{self.uid}@{self.since_s}@{self.has_lost_run}"


def after_description(
    suspects: Iterable[Suspect], held: Mapping[str, Attribution | None], may_hold: Callable[[Suspect, str], bool], *,
    present: Collection[str], asked_at_s: float, answered_at_s: float, is_first: bool, settle_s: float,
) -> tuple[Suspect, ...]:
    """Return the suspects that still count for members to come after one description of the group.

    Parameters
    ----------
    held: each id that a member holds, with the member's attribution; None where it has none yet.
    may_hold: whether a suspect carries an id.
    present: uids of those whose objects exist: as long as one does, nobody forgets that a run of it was lost.
    asked_at_s, answered_at_s: of the description, monotonic seconds: a silence lasts from an answer to a question.
    is_first: no description came before within a poll interval, so every silence begins anew.
    settle_s: how long a silence must last, seconds.
    """
    kept = []
    for suspect in suspects:
        ids = (i for i, attribution in held.items() if _may_be_of(attribution, suspect))
        if suspect.uid in present or any(may_hold(suspect, i) for i in ids):
            kept.append(replace(suspect, silent_since_s=None))
            continue
        since_s = answered_at_s if is_first or suspect.silent_since_s is None else suspect.silent_since_s
        if asked_at_s - since_s < settle_s:
            kept.append(replace(suspect, silent_since_s=since_s))
    return tuple(kept)


def _may_be_of(attribution: Attribution | None, suspect: Suspect) -> bool:
    """True unless it is known that a member is not of this suspect."""
    return attribution is None or attribution.is_guessed or suspect.uid in attribution.carriers


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
