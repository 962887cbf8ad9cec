"""Drills drawn at random, a batch of them to each failure of a node; a run that was cut off goes on where it was.

The one idea: what a batch is depends on the seed and its number alone, and each that was done is one line of a file, so the same seed
makes the same drills and passes over those that are done. What must come of a drill is known for most; of the others it must be told.
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

from support.drills.cases import UNHURRIED_S, Act
from support.drills.troubles import Evidence, Trouble
from support.scene.figures import FIGURES

SEED_VARIABLE = "DRILL_SEED"
DRILLS_MIN = 200
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
    TOLD = "removed, or held and told"


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
        e = self.evidence
        settings = f"{e.node_lifecycle}{', taint' if e.trusts_taint else ''}{', runtime' if e.asks_runtime else ''}"
        settings += ", kubelet" if e.trusts_kubelet else ""
        blow = f", {self.blow.value} of {self.operators}" if self.blow else ""
        return f"batch {self.number}: {self.trouble.value}, then {self.ending.value} ({settings}{blow}); {acts}"

    def fate(self, drill: Drawn) -> Fate:
        """Return what must come of a drill."""
        is_plain = drill.act in (Act.SCALED, Act.REPLACED, Act.ORPHANED)
        # Who hears of a vanish later than within the grace period does not know that it came in time.
        if not is_plain or self.blow or drill.grace_s < UNHURRIED_S or self.trouble is Trouble.UNPLUGGED:
            return Fate.TOLD
        if self.ending in (Ending.REPAIRED, Ending.REBOOTED):
            return Fate.REMOVED if self.evidence.hears_kubelets else Fate.HELD
        is_word = self.evidence.trusts_taint if self.ending is Ending.TAINTED else self.evidence.node_lifecycle != "Untrusted"
        return Fate.REMOVED if is_word else Fate.HELD


def draw(seed: int, number: int) -> Batch:
    """Return a batch. The owner's words are drawn only where they are true: nobody swears that a machine is off which runs."""
    block = Random(f"{seed} block {number // BLOCK}")
    evidence = Evidence(
        node_lifecycle=block.choice(["Untrusted", "Cloud", "Fixed"]),
        trusts_taint=block.random() < 0.5,
        asks_runtime=block.random() < 0.6,
        trusts_kubelet=block.random() < 0.3,
        margin_s=block.choice([10, 10, 20]),
    )
    operators = block.choice([1, 2, 2])
    rng = Random(f"{seed} batch {number}")
    trouble = rng.choice(list(Trouble))
    endings = [Ending.REPAIRED, Ending.REBOOTED]
    if trouble is Trouble.OFF or evidence.node_lifecycle == "Untrusted":
        endings.append(Ending.NODE_DELETED)
    if trouble is Trouble.OFF or not evidence.trusts_taint:
        endings.append(Ending.TAINTED)
    return Batch(
        number=number, evidence=evidence, operators=operators, trouble=trouble, ending=rng.choice(endings),
        blow=rng.choice([Blow.NONE, Blow.NONE, Blow.ACTIVE_KILLED, Blow.ALL_KILLED]), delay_s=round(rng.uniform(0, 8), 1),
        drills=tuple(_drill(rng) for _ in range(rng.randint(4, 6))),
    )  # fmt: skip


def _drill(rng: Random) -> Drawn:
    act = rng.choice(list(Act))
    replicas = rng.randint(2, 4)
    leaving = rng.randint(1, replicas - 1)
    return Drawn(act=act, replicas=replicas, leaving=leaving, grace_s=1 if act is Act.OVERDUE else rng.choice([5, 10, UNHURRIED_S]))


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
        """Do every batch that is left, write what it showed, and say how far it is; returns how many drills are done."""
        self.file.parent.mkdir(exist_ok=True)
        for batch in self.left():
            count = sum(row["drills"] for row in self.done())
            say(f"seed {self.seed}, {count} of {DRILLS_MIN} drills done; {batch.words}")
            shown = one(batch)
            with self.file.open("a") as file:
                file.write(json.dumps({"number": batch.number, "drills": len(batch.drills), "what": batch.words, **shown}) + "\n")
        return sum(int(row["drills"]) for row in self.done())
