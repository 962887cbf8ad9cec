"""Bring a position up to a resourceVersion by a short watch of its own, beside the main one.

A watch from the position brings every event that is still missing at once, and then a bookmark that says there is no
more. Trouble here ends only the replay: the main stream, which may still hold those events, decides what a gap is.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from ...problem import KubeProblem
from ...transport import CONNECTION_ERRORS, PODS, Json, Transport
from .position import Position
from .sink import Gap

REPLAY_SERVER_TIMEOUT_S: Final = 3
"""Shortest watch that brings a bookmark: seen after 0.4-1.7 s; with 2 s or less none comes."""
REPLAY_SLACK_S: Final = 3.0


class Replay:
    """The replays of one scope, one at a time.

    Parameters
    ----------
    scope: a namespace; "" for all.
    take_event: folds an event and moves the position; a Gap when the event cannot be believed.
    """

    def __init__(
        self, transport: Transport, scope: str, position: Position, take_event: Callable[[Json], Gap | None]
    ) -> None:
        self._transport = transport
        self._scope = scope
        self._position = position
        self._take_event = take_event
        self._task: asyncio.Task[None] | None = None
        self._target = 0

    async def catch_up(self, resource_version: int) -> bool:
        """Bring the position up to a resourceVersion; concurrent callers share one replay.

        Returns
        -------
        False when neither an event nor a bookmark reached it: ask again, never assume.
        """
        is_ours = False
        while self._position.reached < resource_version and not is_ours:
            # A replay that is under way may end short of a target it did not know of; then ours follows, once.
            self._target = max(self._target, resource_version)
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._replay())
                is_ours = True
            reached = asyncio.ensure_future(
                self._position.reach(resource_version, REPLAY_SERVER_TIMEOUT_S + REPLAY_SLACK_S)
            )
            try:
                await asyncio.wait({self._task, reached}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                reached.cancel()
        return self._position.reached >= resource_version

    async def _replay(self) -> None:
        query = {"resourceVersion": str(self._position.reached), "timeoutSeconds": str(REPLAY_SERVER_TIMEOUT_S)}
        try:
            async with (
                asyncio.timeout(REPLAY_SERVER_TIMEOUT_S + REPLAY_SLACK_S),
                self._transport.watch(PODS, namespace=self._scope, query=query) as stream,
            ):
                if isinstance(stream, KubeProblem):
                    return
                while self._position.reached < self._target:
                    event = await stream.next_event(REPLAY_SERVER_TIMEOUT_S + REPLAY_SLACK_S)
                    if event is None or self._take_event(event) is not None:
                        return
        except CONNECTION_ERRORS:
            return
        finally:
            self._target = 0

    @property
    def tasks(self) -> tuple[asyncio.Task[None], ...]:
        """What is under way, or was last."""
        return () if self._task is None else (self._task,)
