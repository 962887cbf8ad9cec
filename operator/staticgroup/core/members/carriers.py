"""Who was there when it joined: the pods that must have ended before a member may be removed.

A member id belongs to one process for ever. The process of a member lived when the member joined, so when the member is
first described, its pod is one of those that carry the id and are live or suspect then, or it has ended already. These
pods are the member's *carriers*. A certificate takes its pod out of them; nothing else does, and nothing is ever added:
a pod that was born after the member joined is not its pod. A member whose carriers are known and have all ended is dead.

Sources: GroupMetadataManager.classicGroupJoinNewStaticMember (the coordinator draws the member id at each join without
one), KIP-848 and KIP-1071 (the client draws it, once for each consumer object), KIP-345 (static membership).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

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


def digest_of(member_id: str) -> str:
    """Return what stands for a member id in a status: the first hex digits of its SHA-256."""
    return hashlib.sha256(member_id.encode()).hexdigest()[:DIGEST_LENGTH]


def attribute(
    member_id: str, *, carrying: Iterable[str], is_watch_young: bool, has_one_ended: bool, now_s: float
) -> Attribution:
    """Say which pods may hold a member that a description shows for the first time.

    Parameters
    ----------
    carrying: uids of the pods that carry its id and are live or suspect, after the pod watch has passed a consistent read
        that began after the description.
    is_watch_young: pods may have come and gone unseen, so one that nobody saw may hold it.
    has_one_ended: a pod that carries the id got its certificate since the description before.
    now_s: operator's clock, seconds since the Unix epoch.
    """
    carriers = frozenset((*carrying, UNSEEN)) if is_watch_young else frozenset(carrying)
    if not carriers and not has_one_ended:  # an empty set alone proves nothing: nobody has ever seen such a pod
        carriers = frozenset((UNATTRIBUTED,))
    return Attribution(member=digest_of(member_id), first_seen_s=now_s, carriers=carriers)
