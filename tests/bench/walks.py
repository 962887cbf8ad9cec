"""`python -m bench.walks` counts the files that a removal round and a pod's end pass through.

A *file* is a module of `staticgroup` of which a function is entered; a *change of file* is a call of a function that
stands in another file than its caller. The round is the reconciler's own over fakes of its gateways; the end of a pod
goes from the watch event, as the stream takes it, to the queue.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import staticgroup
from staticgroup.kube.transport import connect
from staticgroup.runtime.operator import Operator
from staticgroup.runtime.process.settings import Settings
from support.fake_apiserver import FakeApiServer
from support.fake_gateways import FakeKafka
from unit.kube.raw_objects import at, composed, pod
from unit.kube.raw_objects import ended as container_ended
from unit.kube.raw_objects import running as container_running
from unit.runtime.operator_world import KEY, departing, static_group

HOME = Path(staticgroup.__file__).parent
PLANNERS = ("issue", "plan_timeout", "plan_injection", "build_seat_table", "naming_of", "judge", "decide", "survey")
"""What a round is to decide once."""
FILES_MAX, CHANGES_MAX, EVENT_FILES_MAX = 45, 350, 15


@dataclass
class Walk:
    """What was entered while it was recorded."""

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    changes: int = 0

    @property
    def files(self) -> Counter[str]:
        """How many functions were entered in each file."""
        found: Counter[str] = Counter()
        for (file, _), count in self.calls.items():
            found[file] += count
        return found

    def times(self, function: str) -> int:
        """How often a function of this name was entered, in whatever file."""
        return sum(count for (_, name), count in self.calls.items() if name == function)


@contextmanager
def recorded() -> Iterator[Walk]:
    """Record every call of a function of `staticgroup` in this thread."""
    walk = Walk()

    def file_of(frame: FrameType | None) -> str:
        path = frame.f_code.co_filename if frame is not None else ""
        return path[len(str(HOME)) + 1 :] if path.startswith(str(HOME)) else ""

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and (file := file_of(frame)):
            walk.calls[file, frame.f_code.co_name] += 1
            walk.changes += file_of(frame.f_back) not in ("", file)

    sys.setprofile(profile)
    try:
        yield walk
    finally:
        sys.setprofile(None)


async def removal_round() -> Walk:
    """Record the round that removes one of three members, whose pod has ended."""
    world = await departing()
    before = len(world.left)
    with recorded() as walk:
        await world.round()
    assert len(world.left) == before + 1, "this round removed no member"
    return walk


async def end_of_a_pod() -> Walk:
    """Record how the end of a pod comes from an event of the pod watch to the queue of rounds."""
    server = FakeApiServer()
    transport = connect(server.configuration())
    operator = Operator(Settings(identity="one", namespace="ops"), transport, kafka=FakeKafka())
    operator.stores.put_group(KEY, static_group())
    operator.is_active = True
    stream = next(iter(operator.pods._streams.values()))
    running = composed(pod(statuses=[container_running()]))
    stream._take_event({"type": "ADDED", "object": at(running, 101)})
    operator.queue.forget(KEY)
    over = composed(pod(phase="Succeeded", statuses=[container_ended()], deletionTimestamp="2026-01-01T00:01:00Z"))
    with recorded() as walk:
        stream._take_event({"type": "MODIFIED", "object": at(over, 102)})
    assert len(operator.queue), "this end asked for no round"
    await transport.close()
    return walk


def report(
    name: str, walk: Walk, *, files_max: int, changes_max: int | None, say: Callable[[str], None], details: bool
) -> bool:
    """Print one walk; returns False where it is longer than it may be."""
    files = walk.files
    bound = f" of {changes_max}" if changes_max is not None else ""
    say(
        f"{name}: {len(files)} of {files_max} files, {walk.changes}{bound} changes of file, {sum(files.values())} "
        f"calls of {len(walk.calls)} functions"
    )
    for planner in PLANNERS:
        if walk.times(planner):
            say(f"  {planner}: {walk.times(planner)}")
    if details:
        for file, count in files.most_common():
            say(f"  {count:5} {file}")
    return len(files) <= files_max and (changes_max is None or walk.changes <= changes_max)


def main() -> int:
    """Print both walks and return 1 where one is longer than it may be."""
    parser = argparse.ArgumentParser(prog="python -m bench.walks", description=__doc__)
    parser.add_argument("--details", action="store_true", help="name every file with the calls into it")
    arguments = parser.parse_args()
    walks = (
        ("a removal round", asyncio.run(removal_round()), FILES_MAX, CHANGES_MAX),
        ("the end of a pod, from event to queue", asyncio.run(end_of_a_pod()), EVENT_FILES_MAX, None),
    )
    are_short = [
        report(name, walk, files_max=files_max, changes_max=changes_max, say=print, details=arguments.details)
        for name, walk, files_max, changes_max in walks
    ]
    return 0 if all(are_short) else 1


if __name__ == "__main__":
    sys.exit(main())
