"""How far one walks through the code: `python -m bench.walks` counts the files of one removal round and of one pod's end.

A *file* is a module of `staticgroup` of which a function is entered; a *change of file* is a call of a function that stands in
another file than its caller. The round is the reconciler's own over fakes of its gateways; the end of a pod
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
from unit.runtime.operator_world import departing

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
    assert len(world.left) == before + 1, "this round removed nobody"
    return walk


def report(name: str, walk: Walk, *, files_max: int, changes_max: int | None, say: Callable[[str], None], details: bool) -> bool:
    """Print one walk; returns False where it is longer than it may be."""
    files = walk.files
    bound = f" of {changes_max}" if changes_max is not None else ""
    say(f"{name}: {len(files)} of {files_max} files, {walk.changes}{bound} changes of file, {sum(files.values())} calls of {len(walk.calls)} functions")
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
    rounds = asyncio.run(removal_round())
    is_short = report("a removal round", rounds, files_max=FILES_MAX, changes_max=CHANGES_MAX, say=print, details=arguments.details)
    return 0 if is_short else 1


if __name__ == "__main__":
    sys.exit(main())
