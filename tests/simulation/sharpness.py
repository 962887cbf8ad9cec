"""Products with one rule broken, and the schedule in which an oracle of the simulation is known to notice it.

The oracles are only worth what they catch. After a change that makes schedules run otherwise, find new seeds with
`python -m simulation.sharpness` (from the repository, with `operator` and `tests` on the path).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mutants.catalog import Mutant
from simulator.schedules.drawing import ChangeKind
from simulator.schedules.repository import APPLIED_AGAIN
from simulator.schedules.schedule import changes, kinds, run

REPOSITORY = Path(__file__).resolve().parents[2]
OPERATOR = REPOSITORY / "operator"
SEARCHED = range(600)
SEEDS_MAX = 3
JUDGE = """
import os
import sys
import staticgroup
from simulator.schedules.drawing import ChangeKind
from simulator.schedules.schedule import run
from simulator.world.world import World
assert staticgroup.__file__.startswith(sys.argv[1]), staticgroup.__file__
def told(world, violation):
    if violation.oracle == sys.argv[2]:
        print(seed, violation, sep="\\n", flush=True)
        os._exit(0)
World._violated = told
for seed in map(int, sys.argv[3:]):
    run(seed)
"""
"""Ends at the first violation: what a broken product makes of the rest of a schedule can take minutes and tells nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """One broken rule.

    Parameters
    ----------
    oracle: which must notice, in the schedule of one of these seeds.
    needs: the kind of fault, or of change, in which the rule matters.
    """

    mutant: Mutant
    oracle: str
    needs: str
    seeds: tuple[int, ...]


def _broken(name: str, oracle: str, needs: str, seeds: tuple[int, ...], path: str, *changes: tuple[str, str]) -> Broken:
    mutant = Mutant(name=name, path=path, changes=changes, tests=())
    return Broken(mutant=mutant, oracle=oracle, needs=needs, seeds=seeds)


BROKEN: tuple[Broken, ...] = (
    _broken(
        "every chain is proven",
        "S1",
        "zombie_of_a_lost_node",
        (8, 9),
        "core/evidence/chain.py",
        (
            "    if not continuous:\n",
            '    if chain:\n        return verdict(ChainClause.PROVEN, "")\n    if not continuous:\n',
        ),
    ),
    _broken(
        "a pod that vanished is dead",
        "S1",
        "zombie_of_a_lost_node",
        (8, 9),
        "core/evidence/chain.py",
        (
            "    gone = replace(known, state=PodState.SUSPECT,",
            "    gone = replace(known, state=PodState.DEAD,",
        ),
    ),
    _broken(
        "a gap of the watch is ignored",
        "S2",
        "zombie_is_born_in_a_gap",
        (39, 59, 84),
        "core/evidence/continuity.py",
        ("        return not self.spans_of(ordinal)\n", "        return True\n"),
    ),
    _broken(
        # Each of the two rules refuses alone what a kubelet or a controller writes over containers that run.
        "neither the containers nor their writer are asked",
        "S2",
        "kubelet_rejects_running_pods",
        (9, 10),
        "core/evidence/certificate.py",
        ("        or _container_refusal(version, ever if runs_known else None)\n", ""),
        ("    if not version.phase_has_statuses:\n", "    if False:\n"),
    ),
    _broken(
        "the barrier is dropped",
        "S2",
        "zombie_is_born_behind_a_slow_watch",
        (54, 59, 200),
        "core/guards.py",
        ("    no_barrier,\n", ""),
    ),
    _broken(
        "intent and pod are not read afresh",
        "S1",
        "zombie_is_born_behind_a_slow_watch",
        (54, 59, 200),
        "core/guards.py",
        ("    not_read_afresh,\n    expected_again,\n    pod_present,\n    no_barrier,\n", ""),
    ),
    _broken(
        "the deletion of a Node counts whatever its lifecycle",
        "S1",
        "node_is_deleted_after_its_pod",
        (401,),
        "core/evidence/nodes.py",
        ("        return self.lifecycle is not NodeLifecycle.UNTRUSTED\n", "        return True\n"),
    ),
    _broken(
        "members leave by instance id alone",
        "S5",
        "zombie_of_a_lost_node",
        (0,),
        "kafka/calls/leaving.py",
        ("member_id=e.member_id,", 'member_id="",'),
    ),
    _broken(
        "the Lease is not asked",
        "S14",
        "operator_freezes_while_it_reads",
        (106,),
        "kube/lease.py",
        ("return self._renewed_s is not None and self._clock_s() - self._renewed_s <", "return True or 0 <"),
        ("if held and self._holding is None and", "if False and"),
    ),
    _broken(
        "suspension is ignored",
        "S14",
        "group_is_suspended",
        (16,),
        "runtime/reconciler.py",
        ("if group.spec.suspend:", "if False:"),
        (
            'return spec.model_copy(update={"mode": Mode.OBSERVE}) if self.force_observe else spec',
            'return spec.model_copy(update={"suspend": False})',
        ),
    ),
    _broken(
        "mode Observe acts",
        "S14",
        "mode_is_observe",
        (112, 260),
        "runtime/executor.py",
        ("if spec.mode is Mode.OBSERVE:", "if False:"),
    ),
    _broken(
        "ids that somebody else may have are removed",
        "S1",
        ChangeKind.OUTSIDER.value,
        (40, 186, 203),
        "core/guards.py",
        ("    unscoped,\n", ""),
    ),
    *(
        _broken(
            f"ids that outlived their StaticGroup are taken for new ({oracle})",
            oracle,
            APPLIED_AGAIN,
            seeds,
            "core/plan.py",
            ("if history.injected is None and spec.identity.scope is not None:", "if False:"),
            ("if history.injected is None and injection.injected.watch_epoch == EPOCH_UNKNOWN:", "if False:"),
        )
        for oracle, seeds in (("S1", (338, 471)), ("S2", (217, 226)))
    ),
)


def judged(broken: Broken, seeds: Sequence[int]) -> tuple[int, str] | None:
    """Run a broken product through schedules until the oracle notices.

    Returns
    -------
    (seed, the first violation); None when it did not notice.

    Raises
    ------
    MutantNotApplicable: the source has moved on.
    subprocess.CalledProcessError: a schedule ended with an exception.
    """
    with tempfile.TemporaryDirectory(prefix="sharpness-") as room:
        shutil.copytree(OPERATOR / "staticgroup", Path(room) / "staticgroup")
        broken.mutant.apply(Path(room))
        environment = os.environ | {"PYTHONPATH": os.pathsep.join((room, str(OPERATOR)))}
        command = [sys.executable, "-c", JUDGE, room, broken.oracle, *map(str, seeds)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=1800)
    if not done.stdout:
        return None
    seed, violation = done.stdout.splitlines()
    return int(seed), violation


def is_broken_anyway(oracle: str, seed: int) -> bool:
    """Tell whether the whole product breaks the same promise in a schedule, which then says nothing about a mutant."""
    return any(violation.oracle == oracle for violation in run(seed).violations)


def candidates(broken: Broken) -> list[int]:
    """Return the seeds whose schedules have the fault or the change in which the rule matters."""
    return [seed for seed in SEARCHED if broken.needs in kinds(seed) | changes(seed)]


def main(names: Sequence[str]) -> int:
    """Print for each broken product the first schedules in which the oracle notices it; 1 when one is never noticed."""
    missed = 0
    for broken in BROKEN:
        if names and broken.mutant.name not in names:
            continue
        seeds: list[int] = []
        left = candidates(broken)
        while len(seeds) < SEEDS_MAX and (found := judged(broken, left)) is not None:
            left = left[left.index(found[0]) + 1 :]
            if is_broken_anyway(broken.oracle, found[0]):
                continue
            seeds.append(found[0])
            print(f"{broken.mutant.name:40} {found[0]:>4}  {found[1]}", flush=True)
        missed += not seeds
        print(f"{broken.mutant.name:40} {tuple(seeds) or 'NEVER NOTICED'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
