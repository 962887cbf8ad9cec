"""Count the rebalances of dynamic members as `counterfactual.replay` does, and simulate only where stops meet.

The one idea: most stops find a group at rest and leave it at rest before anything else happens. Such a stop costs what it
always costs, whoever the members are: one rebalance for the end and one for the return. So it is counted and not played;
the coordinator is asked about the others, with the same clients and the same clock.
"""

from __future__ import annotations

from collections.abc import Sequence

from .counterfactual import GroupSetup, Membership, Rebalancing, Replay, Stop


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
        return Replay(setup, Membership.DYNAMIC, 0).run(stops).rebalances
    return _Counting(setup).count(sorted(stops, key=lambda stop: stop.down_ms))


class _Counting:
    """A group with eager rebalances: a replay that is begun when the first stop needs it."""

    def __init__(self, setup: GroupSetup) -> None:
        self.setup = setup
        self.replay: Replay | None = None
        self.settled_ms = setup.heartbeat_interval_ms + 1
        """So long after its last step a rebalance is over: the others come with their next heartbeat."""
        self.known = 0

    def count(self, stops: Sequence[Stop]) -> int:
        back_ms = 0
        for stop, following in zip(stops, [*stops[1:], None], strict=True):
            if self._is_alone(stop, following, back_ms) and self._is_at_rest(
                stop.down_ms - self.setup.heartbeat_interval_ms
            ):
                self.known += 2
            else:
                self._play(stop)
            back_ms = max(back_ms, stop.back_ms or 0)
        if self.replay is None:
            return self.known
        self.replay.carry_on(None)
        return self.known + self.replay.replayed.rebalances

    def _is_alone(self, stop: Stop, following: Stop | None, back_ms: int) -> bool:
        """Say whether the group has come to terms with the end before the return, and with both before the next stop.

        `back_ms`: the last return of the stops before.
        """
        if stop.back_ms is None:
            return False
        noticed_ms = 0 if stop.is_clean and self.setup.leaves_on_close else self.setup.session_timeout_ms
        if stop.back_ms - stop.down_ms < noticed_ms + self.settled_ms:
            return False
        if back_ms + self.settled_ms > stop.down_ms:
            return False
        return following is None or following.down_ms >= stop.back_ms + self.settled_ms

    def _is_at_rest(self, moment: int) -> bool:
        """Say whether nothing is under way. `moment`: before the last heartbeat of who stops next, which may be played."""
        if self.replay is None:
            return True
        self.replay.carry_on(moment)
        return not self.replay.steps and self.replay.is_at_rest()

    def _play(self, stop: Stop) -> None:
        if self.replay is None:
            self.replay = Replay(self.setup, Membership.DYNAMIC, 0)
            self.replay.form(stop.down_ms)
        self.replay.carry_on(stop.down_ms - self.setup.heartbeat_interval_ms)
        self.replay.expect(stop)
