"""Count the rebalances of dynamic members like `counterfactual.replay`, but simulate only where needed.

The one idea: whether a rebalance is in progress at the next stop or return depends on a few numbers: the members that
have to join again, and the time of their next heartbeats. Counting an eager group needs only those. Stops are split
into knots: a knot begins with the whole group stable, so earlier knots do not matter. A knot that the numbers do not
decide (a second process is killed before the first one's session ends, or a member comes or goes at the very moment in
which it ends) is simulated, with the same clients, coordinator and clock, unless it is so large that one group would
delay a fleet: then the count stands, off by an eighth at worst. Source: KIP-345 and `coordinator_model.classic`:
prepareRebalance, completeClassicGroupJoin, expireClassicGroupMemberHeartbeat.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from .counterfactual import NEVER_MS, GroupSetup, Membership, Rebalancing, Replay, Stop, heartbeat_phases_ms

_BEAT, _DOWN, _UP = 0, 1, 3
"""The ranks of `Replay.expect`: the order of steps at one moment."""
_AT_REST: Final = -1
PLAYED_MAX: Final = 200_000
"""Largest simulated knot, in stops times the square of the members: half a second of one core."""

COOPERATIVE_PLAYED_MAX: Final = 2_000_000
"""Largest day of a cooperative group that is simulated whole, in the same unit: seconds of one core."""
STOPS_MAX: Final = 30
OTHERS_MAX: Final = 30
"""A larger day is simulated in parts of so many stops, with so many members besides those that stop."""


def count_rebalances(setup: GroupSetup, stops: Sequence[Stop]) -> int:
    """Count the rebalances of a timeline with dynamic members.

    Parameters
    ----------
    stops: of one group; no member stops while it is away.

    Returns
    -------
    Exactly the count of `replay` with `Membership.DYNAMIC`; beyond `PLAYED_MAX` and `COOPERATIVE_PLAYED_MAX` an
    approximation.

    Raises
    ------
    RuntimeError
        When the group does not become stable.
    """
    if setup.rebalancing is Rebalancing.CONSUMER:
        # Each leave, expiry or join increments the group epoch, even during another rebalance (KIP-848).
        return sum(1 + (stop.back_ms is not None) for stop in stops)
    if setup.rebalancing is Rebalancing.COOPERATIVE:
        # Which members join again depends on the assignment (KIP-429), so it must be simulated.
        if len(stops) * setup.members**2 <= COOPERATIVE_PLAYED_MAX:
            return _played(setup, stops)
        parts = (knot[at : at + STOPS_MAX] for knot in knots(setup, stops) for at in range(0, len(knot), STOPS_MAX))
        return sum(_played(*_smaller(setup, part)) for part in parts)
    counted = 0
    for knot in knots(setup, stops):
        group = _EagerGroup(setup)
        estimate = group.count(knot)
        is_played = not group.is_exact and (len(knot) + 2) * setup.members**2 <= PLAYED_MAX
        counted += _played(setup, knot) if is_played else estimate
    return counted


def _smaller(setup: GroupSetup, stops: Sequence[Stop]) -> tuple[GroupSetup, list[Stop]]:
    """Leave out most members that do not stop, with their partitions."""
    numbers: dict[int, int] = {}
    renamed = [replace(stop, member=numbers.setdefault(stop.member, len(numbers))) for stop in stops]
    members = min(setup.members, len(numbers) + OTHERS_MAX)
    return replace(
        setup, members=members, partitions=max(members, setup.partitions * members // setup.members)
    ), renamed


def _played(setup: GroupSetup, stops: Sequence[Stop]) -> int:
    return Replay(setup, Membership.DYNAMIC, 0).run(stops).rebalances


def knots(setup: GroupSetup, stops: Sequence[Stop]) -> Iterator[list[Stop]]:
    """Cut a timeline, ordered by ends, where all members are back and the group is stable for a heartbeat.

    A member may be killed in a join phase, which then waits for it: each kill prolongs a knot by a session.
    """
    settled_ms = setup.heartbeat_interval_ms + 1
    knot: list[Stop] = []
    back_ms = killed_ms = killed = 0
    for stop in sorted(stops, key=lambda stop: stop.down_ms):
        rest_ms = max(back_ms + settled_ms, killed_ms + killed * (setup.session_timeout_ms + 2 * settled_ms))
        if knot and stop.down_ms - setup.heartbeat_interval_ms > rest_ms:
            yield knot
            knot, killed = [], 0
        knot.append(stop)
        back_ms = max(back_ms, NEVER_MS if stop.back_ms is None else stop.back_ms)
        if not _leaves(setup, stop):
            killed_ms, killed = stop.down_ms, killed + 1
    if knot:
        yield knot


def _leaves(setup: GroupSetup, stop: Stop) -> bool:
    return stop.is_clean and setup.leaves_on_close


class _EagerGroup:
    """A group with eager rebalances: its members, those that wait in the join phase, and when the others join.

    A killed member stays in the group until `session_timeout_ms` after its end, because in a stable group every
    heartbeat is recent. This is exact for one killed member at a time; with more, `is_exact` is false.
    """

    def __init__(self, setup: GroupSetup) -> None:
        self.setup = setup
        self.phases = heartbeat_phases_ms(setup, 0)
        self.turns = sorted((phase, member) for member, phase in enumerate(self.phases))
        self.present = set(range(setup.members))
        self.joined: set[int] = set()
        """Members that joined other than by a heartbeat in the join phase."""
        self.have_all_joined = False
        """Whether every member had a heartbeat in the join phase."""
        self.since_ms = _AT_REST
        """When the join phase began."""
        self.gone_ms: list[int] = []
        """When the sessions of killed members end, ascending."""
        self.rebalances = 0
        self.is_exact = True

    def count(self, stops: Sequence[Stop]) -> int:
        """Count the rebalances of a knot."""
        steps = sorted(self._steps(stops))
        moments = [moment for moment, rank, _ in steps if rank != _BEAT]
        for moment, rank, number in steps:
            self._advance(moment)
            stop = stops[number]
            if rank == _UP:
                self._joins(stop.member, moment)
            elif rank == _DOWN and _leaves(self.setup, stop):
                self._leaves(stop.member, moment)
            elif rank == _DOWN:
                self._is_killed(stop.member, moment, moments)
        self._advance(NEVER_MS)
        return self.rebalances

    def _steps(self, stops: Sequence[Stop]) -> Iterator[tuple[int, int, int]]:
        interval = self.setup.heartbeat_interval_ms
        for number, stop in enumerate(stops):
            phase = self.phases[stop.member]
            yield (stop.down_ms - phase) // interval * interval + phase, _BEAT, number
            yield stop.down_ms, _DOWN, number
            if stop.back_ms is not None:
                yield stop.back_ms, _UP, number

    def _is_killed(self, member: int, at_ms: int, moments: Sequence[int]) -> None:
        """Keep a killed member in the group until its session ends."""
        gone_ms = at_ms + self.setup.session_timeout_ms
        near_ms = self.setup.heartbeat_interval_ms + 1
        near = bisect.bisect_right(moments, gone_ms + near_ms) - bisect.bisect_left(moments, gone_ms - near_ms)
        if self.since_ms != _AT_REST or self.gone_ms or near:
            self.is_exact = False
        self.gone_ms.append(gone_ms)
        self.present.discard(member)
        self.joined.discard(member)

    def _joins(self, member: int, at_ms: int) -> None:
        self._begin(at_ms)
        self.present.add(member)
        self.joined.add(member)
        self._complete_if_all_are_there()

    def _leaves(self, member: int, at_ms: int) -> None:
        self._begin(at_ms)
        self.present.discard(member)
        self.joined.discard(member)
        self._complete_if_all_are_there()

    def _begin(self, at_ms: int) -> None:
        if self.since_ms == _AT_REST:
            self.since_ms, self.have_all_joined = at_ms, False
            self.joined.clear()

    def _complete_if_all_are_there(self) -> None:
        self.have_all_joined = self.have_all_joined or self._last_turn_ms() is None
        if not self.gone_ms and self.have_all_joined:
            self.since_ms = _AT_REST
            self.rebalances += 1

    def _advance(self, until_ms: int) -> None:
        """Advance time: members join with their heartbeats, and the sessions of killed members end."""
        while self.gone_ms and self.gone_ms[0] <= until_ms:
            self._beat(self.gone_ms[0])
            self._begin(self.gone_ms.pop(0))
            self._complete_if_all_are_there()
        self._beat(until_ms)

    def _beat(self, until_ms: int) -> None:
        if self.since_ms == _AT_REST or self.have_all_joined:
            return
        if until_ms == self.since_ms:
            self._join_now()
        last_ms = self._last_turn_ms()
        if last_ms is None or last_ms <= until_ms:
            self.have_all_joined = True
            self._complete_if_all_are_there()

    def _join_now(self) -> None:
        """Let members join whose heartbeat is due at the very start of the join phase."""
        phase = self.since_ms % self.setup.heartbeat_interval_ms
        at = bisect.bisect_left(self.turns, (phase, 0))
        while at < len(self.turns) and self.turns[at][0] == phase:
            self.joined.add(self.turns[at][1])
            at += 1

    def _last_turn_ms(self) -> int | None:
        """Return the last heartbeat of the present members that have not joined; None without such members."""
        interval, count = self.setup.heartbeat_interval_ms, len(self.turns)
        # The member whose phase has just passed waits longest.
        last = bisect.bisect_left(self.turns, (self.since_ms % interval, count)) - 1
        for index in range(last, last - count, -1):
            phase, member = self.turns[index]
            if member in self.present and member not in self.joined:
                return self.since_ms + interval - (self.since_ms - phase) % interval
        return None
