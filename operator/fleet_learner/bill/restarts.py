"""Recognise a restart in a departure and a join: a dynamic member that returns has a new member id.

The one idea: a restart makes two rebalances, and each is one half of a pair: a departure waits for a similar member
that joins, and, after a crash, a join waits for a similar member that expires. The most similar pair is matched first:
the same client id and host, the same client id, then any pair that restores the number of members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fleet_learner.offsets.codec import Member

RETURN_MAX_MS: Final = 5 * 60_000
"""A dynamic member that joins this soon after a similar one departed is taken for the same one."""
STATIC_BACK_MAX_MS: Final = 30 * 60_000
"""An instance id counts as returned within this time, the longest session timeout of a default broker."""


@dataclass(frozen=True, slots=True)
class Half:
    """A member that departed and may return, or one that joined and whose predecessor may expire.

    Parameters
    ----------
    members: their number before the rebalance.
    """

    member: Member
    at_ms: int
    members: int
    has_joined: bool = False

    @property
    def kept_ms(self) -> int:
        """How long it waits for its other half."""
        return RETURN_MAX_MS if self.member.instance_id is None else STATIC_BACK_MAX_MS


class Halves:
    """Remember the halves of one group."""

    def __init__(self) -> None:
        self._left: list[Half] = []

    def take(
        self,
        before: Mapping[str, Member],
        after: Mapping[str, Member],
        *,
        gone: Sequence[Member],
        came: Sequence[Member],
        at_ms: int,
    ) -> tuple[dict[str, Half], dict[str, Half]]:
        """Match the members that joined and departed in a rebalance, and remember the unmatched ones.

        Returns
        -------
        By member.id: matches with halves of earlier rebalances, and matches within this one.
        """
        self._left = [half for half in self._left if at_ms - half.at_ms <= half.kept_ms]
        departures = [half for half in self._left if not half.has_joined]
        joins = [half for half in self._left if half.has_joined and half.member.member_id in after]
        of_now = [Half(member, at_ms, len(before)) for member in gone]
        back = _matched(departures, came, len(after))
        now = _matched(of_now, [m for m in came if m.member_id not in back], len(after))
        replaced = {half.member.member_id for half in now.values()}
        found_dead = _matched(joins, [m for m in gone if m.member_id not in replaced], len(after))
        new = [m for m in came if before and m.member_id not in back | now and m.instance_id is None]
        fresh = [half for half in of_now if half.member.member_id not in found_dead]
        fresh += [Half(member, at_ms, len(before), has_joined=True) for member in new]
        taken = {id(half) for half in (*back.values(), *now.values(), *found_dead.values())}
        self._left = [half for half in (*self._left, *fresh) if id(half) not in taken]
        return back | found_dead, now


def _matched(memory: Iterable[Half], members: Iterable[Member], count: int) -> dict[str, Half]:
    """Match members with halves of the other kind, the most similar first; by member.id."""
    left, found = list(memory), dict[str, Half]()
    for is_like in (_is_same_place, _is_same_client, _fits):
        for member in members:
            if member.member_id in found:
                continue
            match = next((half for half in left if is_like(half, member, count)), None)
            if match is not None:
                left.remove(match)
                found[member.member_id] = match
    return found


def _is_same_place(half: Half, member: Member, count: int) -> bool:
    if half.member.instance_id is not None or member.instance_id is not None:
        return half.member.instance_id == member.instance_id
    return _is_same_client(half, member, count) and half.member.client_host == member.client_host


def _is_same_client(half: Half, member: Member, count: int) -> bool:
    return _fits(half, member, count) and half.member.client_id == member.client_id


def _fits(half: Half, member: Member, count: int) -> bool:
    """A restarted pod has another address, and some clients another id: then the number of members must fit."""
    if half.member.instance_id is not None or member.instance_id is not None:
        return False
    if half.has_joined:  # a join alone proves little: require the same id and the same number of members
        return count == half.members and half.member.client_id == member.client_id
    return count <= half.members
