"""Tell a restart from a departure and a join: a dynamic member that comes back has a new name.

The one idea: a restart makes two rebalances, and each leaves a half behind that waits for the other: a departure for
somebody who looks like it, and, after a crash, a join for somebody who is found dead. The likest pair is matched first:
the same client id and host, the same client id, then any whose number fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fleet_learner.offsets.codec import Member

RETURN_MAX_MS: Final = 5 * 60_000
"""A dynamic member that joins so soon after one departed, and looks like it, is taken for the same one."""
STATIC_BACK_MAX_MS: Final = 30 * 60_000
"""So long after it was gone an instance id counts as back: no session timeout that a broker allows by default is longer."""


@dataclass(frozen=True, slots=True)
class Half:
    """A member that departed and may come back, or that joined and whose former self may be found dead.

    Parameters
    ----------
    members: so many there were before.
    """

    member: Member
    at_ms: int
    members: int
    has_joined: bool = False

    @property
    def kept_ms(self) -> int:
        """How long it waits."""
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
        """Match who came and went in a rebalance, and remember the rest.

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
    """Match members with halves of the other sort, the likest first; by member.id."""
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
    """A pod has another address after a restart, and some clients have another id: then the number must fit."""
    if half.member.instance_id is not None or member.instance_id is not None:
        return False
    if half.has_joined:  # anybody may have joined: it takes the same id, and the number as before
        return count == half.members and half.member.client_id == member.client_id
    return count <= half.members
