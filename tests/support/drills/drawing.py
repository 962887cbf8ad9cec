"""Drills drawn at random, a batch of them to each failure of a node; a run that was cut off goes on where it was.

The one idea: what a batch is depends on the seed and its number alone, and each that was done is one line of a file, so
the same seed makes the same drills and passes over those that are done. The outcome of most drills is
known; of the others the status must report it.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any

from support.drills.cases import Act
from support.drills.troubles import Evidence, Trouble
from support.scene.figures import FIGURES

SEED_VARIABLE = "DRILL_SEED"
DRILLS_MIN = 200
PROVIDER_IDS = (
    "aws:///eu-west-1a/i-0123456789abcdef0", "gce://shop/europe-west1-b/node-1", "kind://docker/kind/node-1",
)  # fmt: skip
"""The last one names no cloud."""
BLOCK = 4
"""Batches one after the other that share what the operator may conclude, because another setting starts it again."""


class Ending(StrEnum):
    """What becomes of a node that failed."""

    REPAIRED = "repaired"
    REBOOTED = "rebooted"
    NODE_DELETED = "its Node deleted"
    TAINTED = "tainted out-of-service"


class Fate(StrEnum):
    """What must come of the departed members of a drill."""

    REMOVED = "removed"
    HELD = "held"
    REPORTED = "removed, or held and reported"


class Blow(StrEnum):
    """What befalls the operator between the failure and its end."""

    NONE = ""
    ACTIVE_KILLED = "the active replica killed"
    ALL_KILLED = "all replicas killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What is done to one group's pods."""

    act: Act
    replicas: int
    leaving: int
    grace_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One failure of a node, and the drills that go through it."""

    number: int
    evidence: Evidence
    operators: int
    trouble: Trouble
    ending: Ending
    blow: Blow
    delay_s: float
    drills: tuple[Drawn, ...]

    @property
    def words(self) -> str:
        """The batch in a line."""
        acts = ", ".join(f"{d.act.name.lower()} {d.replicas}-{d.leaving} grace {d.grace_s} s" for d in self.drills)
        settings = self.evidence.node_lifecycle + (
            f" with {self.evidence.provider_id}" if self.evidence.provider_id else ""
        )
        blow = f", {self.blow.value} of {self.operators}" if self.blow else ""
        return f"batch {self.number}: {self.trouble.value}, then {self.ending.value} ({settings}{blow}); {acts}"

    def fate(self, drill: Drawn) -> Fate:
        """Return what must come of a drill."""
        if drill.act not in (Act.SCALED, Act.REPLACED, Act.ORPHANED, Act.OVERDUE):
            return Fate.REPORTED
        # Nothing that a kubelet does later, and no statement of a user, proves the end of what vanished; only that its
        # machine is gone.
        return Fate.REMOVED if self.ending is Ending.NODE_DELETED and self.evidence.trusts_deletion else Fate.HELD


def draw(seed: int, number: int) -> Batch:
    """Return a batch; a Node whose deletion counts as proof is deleted only when its machine is off."""
    block = Random(f"{seed} block {number // BLOCK}")
    evidence = Evidence(
        node_lifecycle=block.choice(["Auto", "Auto", "Untrusted", "Cloud", "Fixed"]),
        provider_id=block.choice(["", *PROVIDER_IDS]),
    )
    operators = block.choice([1, 2, 2])
    rng = Random(f"{seed} batch {number}")
    trouble = rng.choice(list(Trouble))
    endings = [Ending.REPAIRED, Ending.REBOOTED, Ending.TAINTED]
    if trouble is Trouble.OFF or not evidence.trusts_deletion:
        endings.append(Ending.NODE_DELETED)
    return Batch(
        number=number, evidence=evidence, operators=operators, trouble=trouble, ending=rng.choice(endings),
        blow=rng.choice([Blow.NONE, Blow.NONE, Blow.ACTIVE_KILLED, Blow.ALL_KILLED]), delay_s=round(rng.uniform(0, 8),
        1),
        drills=tuple(_drill(rng) for _ in range(rng.randint(4, 6))),
    )  # fmt: skip


def _drill(rng: Random) -> Drawn:
    act = rng.choice(list(Act))
    replicas = rng.randint(2, 4)
    leaving = rng.randint(1, replicas - 1)
    return Drawn(
        act=act, replicas=replicas, leaving=leaving, grace_s=1 if act is Act.OVERDUE else rng.choice([5, 10, 25])
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """All batches of one seed, and the file that says which are done."""

    seed: int

    @classmethod
    def of_environment(cls) -> Series:
        """Return the series of DRILL_SEED, or of a new seed."""
        return cls(seed=int(os.environ.get(SEED_VARIABLE) or secrets.randbelow(1 << 32)))

    @property
    def file(self) -> Path:
        """Where each batch that is done is a line."""
        return FIGURES.parent / f"drills-{self.seed}.jsonl"

    def done(self) -> list[dict[str, Any]]:
        """Return what was written of the batches that are done."""
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []

    def left(self) -> Iterator[Batch]:
        """Yield the batches that are to be done until there are drills enough."""
        done = {row["number"] for row in self.done()}
        number, drills = 0, 0
        while drills < DRILLS_MIN:
            batch = draw(self.seed, number)
            drills, number = drills + len(batch.drills), number + 1
            if batch.number not in done:
                yield batch

    def run(self, one: Callable[[Batch], dict[str, Any]], say: Callable[[str], None]) -> int:
        """Do every remaining batch, write its figures, and print the progress; returns how many drills are done."""
        self.file.parent.mkdir(exist_ok=True)
        for batch in self.left():
            count = sum(row["drills"] for row in self.done())
            say(f"seed {self.seed}, {count} of {DRILLS_MIN} drills done; {batch.words}")
            shown = one(batch)
            with self.file.open("a") as file:
                file.write(
                    json.dumps({"number": batch.number, "drills": len(batch.drills), "what": batch.words, **shown})
                    + "\n"
                )
        return sum(int(row["drills"]) for row in self.done())
