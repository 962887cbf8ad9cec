"""Count the rebalances of dynamic members as `counterfactual.replay` does, and simulate only what has to be simulated.

The one idea: whether a rebalance is under way when the next stop or return comes depends on a few numbers: who has to join
again, and when each of them has its next heartbeat. So an eager group is counted with those alone. Stops are taken in knots: a
knot begins with the whole group at rest, so nothing of the knots before matters. What hangs together in a way that the numbers
do not tell (a second process is killed before the first one's session is over, or somebody comes or goes in the very moment in
which it ends) is played, with the same clients, the same coordinator and the same clock.
Source: KIP-345 and `coordinator_model.classic`: prepareRebalance, completeClassicGroupJoin, expireClassicGroupMemberHeartbeat.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from typing import Final

from .counterfactual import NEVER_MS, GroupSetup, Membership, Rebalancing, Replay, Stop, heartbeat_phases_ms

_BEAT, _DOWN, _UP = 0, 1, 3
"""The ranks of `Replay.expect`: what comes first of one moment."""
_AT_REST: Final = -1


def count_rebalances(setup: GroupSetup, stops: Sequence[Stop]) -> int:
    """Count the rebalances that a timeline makes with dynamic members.

    Parameters
    ----------
    stops: of one group; no member stops while it is away.

    Returns
    -------
    What `replay` counts with `Membership.DYNAMIC`, to the last one.

    Raises
    ------
    RuntimeError
        When the group does not come to rest.
    """
    if setup.rebalancing is Rebalancing.CONSUMER:
        # Whoever leaves, expires or joins moves the group epoch by one, whatever else is under way (KIP-848).
        return sum(1 + (stop.back_ms is not None) for stop in stops)
    if setup.rebalancing is Rebalancing.COOPERATIVE:
        # Who joins once more depends on who has which partitions (KIP-429): nothing is known without playing it.
        return _played(setup, stops)
    counted = 0
    for knot in knots(setup, stops):
        told = _EagerGroup(setup).count(knot)
        counted += _played(setup, knot) if told is None else told
    return counted


def _played(setup: GroupSetup, stops: Sequence[Stop]) -> int:
    return Replay(setup, Membership.DYNAMIC, 0).run(stops).rebalances


def knots(setup: GroupSetup, stops: Sequence[Stop]) -> Iterator[list[Stop]]:
    """Cut a timeline, in the order of its ends, wherever all members are back and the group is at rest for a heartbeat.

    A killed member may die in a join phase, which counts it in once more: each one holds a knot up for a session.
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
    """A group with eager rebalances: who is in it, who waits in the join phase, and when the others join.

    At most one killed member is in it. Its session is over `session_timeout_ms` after its end, since a group at rest has just
    heard of everybody.
    """

    def __init__(self, setup: GroupSetup) -> None:
        self.setup = setup
        self.phases = heartbeat_phases_ms(setup, 0)
        self.present = set(range(setup.members))
        self.away: set[int] = set()
        """Of the present ones, those who have not joined again yet."""
        self.since_ms = _AT_REST
        """When the join phase began."""
        self.gone_ms: int | None = None
        """When the killed member's session is over."""
        self.rebalances = 0

    def count(self, stops: Sequence[Stop]) -> int | None:
        """Count the rebalances of a knot; None when it has to be played."""
        steps = sorted(self._steps(stops))
        moments = [moment for moment, rank, _ in steps if rank != _BEAT]
        for moment, rank, number in steps:
            self._advance(moment)
            stop = stops[number]
            if rank == _UP:
                self._joins(stop.member, moment)
            elif rank == _DOWN and _leaves(self.setup, stop):
                self._leaves(stop.member, moment)
            elif rank == _DOWN and not self._is_killed(stop.member, moment, moments):
                return None
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

    def _is_killed(self, member: int, at_ms: int, moments: Sequence[int]) -> bool:
        """Let a killed member lie in the group until its session is over; False: that is not simple enough."""
        if self.since_ms != _AT_REST or self.gone_ms is not None:
            return False
        self.gone_ms = at_ms + self.setup.session_timeout_ms
        near_ms = self.setup.heartbeat_interval_ms + 1
        self.present.discard(member)
        return bisect.bisect_left(moments, self.gone_ms - near_ms) == bisect.bisect_right(
            moments, self.gone_ms + near_ms
        )

    def _joins(self, member: int, at_ms: int) -> None:
        if self.since_ms == _AT_REST:
            self._begin(at_ms)
        self.present.add(member)
        self._complete_if_all_are_there()

    def _leaves(self, member: int, at_ms: int) -> None:
        self.present.discard(member)
        self.away.discard(member)
        if self.since_ms == _AT_REST:
            self._begin(at_ms)
        self._complete_if_all_are_there()

    def _begin(self, at_ms: int) -> None:
        self.since_ms, self.away = at_ms, set(self.present)

    def _complete_if_all_are_there(self) -> None:
        if not self.away and self.gone_ms is None:
            self.since_ms = _AT_REST
            self.rebalances += 1

    def _advance(self, until_ms: int) -> None:
        """Let time pass: members join with their heartbeats, and the killed member's session ends."""
        gone_ms = self.gone_ms
        if gone_ms is not None and gone_ms <= until_ms:
            self._beat(gone_ms)
            self.gone_ms = None
            if self.since_ms == _AT_REST:
                self._begin(gone_ms)
            self._complete_if_all_are_there()
        self._beat(until_ms)

    def _beat(self, until_ms: int) -> None:
        if self.since_ms == _AT_REST or not self.away:
            return
        self.away = {member for member in self.away if self._next_beat_ms(member, until_ms) > until_ms}
        self._complete_if_all_are_there()

    def _next_beat_ms(self, member: int, until_ms: int) -> int:
        """Return when a member's turn is since the join phase began: in that very moment only if something else is then."""
        interval = self.setup.heartbeat_interval_ms
        past_ms = (self.since_ms - self.phases[member]) % interval
        return self.since_ms if past_ms == 0 and until_ms == self.since_ms else self.since_ms + interval - past_ms
