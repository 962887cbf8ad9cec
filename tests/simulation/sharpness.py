"""Products with one rule broken, and the scene in which an oracle of the simulation notices it: the oracles are only
worth what they catch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mutants.catalog import Mutant

REPOSITORY = Path(__file__).resolve().parents[2]
OPERATOR, TESTS = REPOSITORY / "operator", REPOSITORY / "tests"
JUDGE = """
import os
import sys
import staticgroup
from simulation.scenes import SCENES
from simulator.world.world import World
assert staticgroup.__file__.startswith(sys.argv[1]), staticgroup.__file__
def stop(world, violation):
    if violation.oracle == sys.argv[2]:
        print(violation, flush=True)
        os._exit(0)
World._violated = stop
SCENES[sys.argv[3]].run()
"""
"""Ends at the first violation: what a broken product does afterwards proves nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """One broken rule.

    Parameters
    ----------
    oracle: which must notice. scene: in which the rule matters.
    """

    mutant: Mutant
    oracle: str
    scene: str


def _broken(name: str, oracle: str, scene: str, path: str, *changes: tuple[str, str]) -> Broken:
    return Broken(mutant=Mutant(name=name, path=path, changes=changes, tests=()), oracle=oracle, scene=scene)


BROKEN: tuple[Broken, ...] = (
    _broken(
        "time takes pods out of the carriers of a member", "S1", "lost and unwanted", "core/members/carriers.py",
        ("        left = self.carriers.difference(ended)\n", "        left = frozenset()\n"),
    ),
    _broken(
        "a pod that vanished is dead", "S1", "lost and unwanted", "core/evidence/chain.py",
        ("        known, state=PodState.SUSPECT, object_present", "        known, state=PodState.DEAD, object_present"),
    ),
    _broken(
        "suspects are carriers of nobody", "S1", "lost beside its heir", "runtime/members.py",
        ("(*(pod.uid for pod in live), *(s.uid for s in own))", "(pod.uid for pod in live)"),
    ),
    _broken(
        "the pod that carries an id now held it before", "S1", "lost beside its heir", "core/members/memory.py",
        (
            "        carrying=sight.carrying.get(instance_id, frozenset()) if",
            "        carrying=frozenset(sorted(sight.carrying.get(instance_id, frozenset()))[-1:]) if",
        ),
    ),
    _broken(
        "a watch that begins has seen all", "S1", "lost while nobody looked", "core/members/memory.py",
        ("    is_young, is_other = not is_covered(members.watch, sight.watch), ", "    is_young, is_other = False, "),
    ),
    _broken(
        "ids that outlived the memory of them are taken for new",
        "S1",
        "lost before the status was emptied",
        "core/injection.py",
        ('    return "" if is_carried else snapshot.watch\n', "    return snapshot.watch\n"),
    ),
    _broken(
        "members are attributed without a barrier", "S1", "lost behind a slow watch", "runtime/members.py",
        ("has_passed = bool(new) and await self.pods.reach_present(namespace)", "has_passed = bool(new)"),
    ),
    _broken(
        "a member that no pod explains is dead", "S1", "copied out of the cluster", "core/guards.py",
        ("    unscoped,\n", ""),
    ),
    _broken(
        # Each of the two rules refuses alone what a kubelet or a controller writes over containers that run.
        "neither the containers nor their writer are asked",
        "S1",
        "failed by a kubelet that runs it",
        "core/evidence/certificate.py",
        ("        or _container_refusal(version, ever if runs_known else None)\n", ""),
        ("    if not version.phase_has_statuses:\n", "    if False:\n"),
    ),
    _broken(
        "the deletion of a Node counts whatever its lifecycle",
        "S1",
        "node deleted by anybody",
        "core/members/node_gone.py",
        ("    if lifecycle is NodeLifecycle.UNTRUSTED:\n", "    if False:\n"),
    ),
    _broken(
        "a Node that is missing was deleted", "S1", "node forgotten by a restored etcd", "runtime/members.py",
        ("            is_forgotten = suspect.since_s < since_s + CLOCKS_APART_S\n", "            is_forgotten = False\n"),
    ),
    _broken(
        "a pod has one node", "S1", "bound twice by a restored etcd", "kube/pods/book.py",
        (
            '        if before is not None and before.node_name not in ("", version.node_name):\n',
            "        if before is not None and False:\n",
        ),
    ),
    _broken(
        "members leave by instance id alone", "S5", "removed", "kafka/calls/leaving.py",
        ("member_id=e.member_id,", 'member_id="",'),
    ),
    _broken(
        "the Lease is not asked", "S14", "holder that stood still", "kube/lease.py",
        ("return self._renewed_s is not None and self._clock_s() - self._renewed_s <", "return True or 0 <"),
        ("if held and self.holding is None and", "if False and"),
    ),
    _broken(
        "suspension is ignored", "S14", "suspended", "runtime/reconciler.py",
        ("if group.spec.mode is Mode.SUSPENDED:", "if False:"),
        (
            'return spec.model_copy(update={"mode": Mode.OBSERVE}) if self.force_observe else spec',
            'return spec.model_copy(update={"mode": Mode.MANAGE})',
        ),
    ),
    _broken(
        "mode Observe acts", "S14", "observed", "runtime/executor.py",
        ("if spec.mode is Mode.OBSERVE:", "if False:"),
    ),
)


def judged(broken: Broken) -> str:
    """Play the scene of a broken product until the oracle notices.

    Returns
    -------
    The first violation; "" when it did not notice.

    Raises
    ------
    MutantNotApplicable: the source has moved on.
    subprocess.CalledProcessError: the scene ended with an exception.
    """
    with tempfile.TemporaryDirectory(prefix="sharpness-") as room:
        shutil.copytree(OPERATOR / "staticgroup", Path(room) / "staticgroup")
        broken.mutant.apply(Path(room))
        environment = os.environ | {"PYTHONPATH": os.pathsep.join((room, str(OPERATOR), str(TESTS)))}
        command = [sys.executable, "-c", JUDGE, room, broken.oracle, broken.scene]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=1800
        ).stdout.strip()
