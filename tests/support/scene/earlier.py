"""Earlier versions of the operator, as they were released: the chart, the CRDs and an image built from the sources of a commit.

The one idea: what two versions do to each other is seen only when both run. The sources come from the git history and lie
in the user's cache, so the checkout stays as it is.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tarfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from support.devcluster.cache import built
from support.devcluster.images import build_image
from support.devcluster.progress import step
from support.scene.stage import CHART, OPERATOR_IMAGE, RELEASE, REPOSITORY, SYSTEM, Stage
from support.waiting import until

BEFORE_CONTINUITY = "dc86fb59ffd0eb7019b22a3a3fb7a805ba5f49e1"
"""The last commit whose operator keeps its position on the Lease as `staticgroup.io/watch-continuity`, and no continuity."""
BEFORE_SEATS = "12a30ef1b28f0d12c18315dc8d36a39d179a0abb"
"""The last one before one table of seats, `suffix: Auto` and the timeouts in force and to come in `status.timeout`."""
DEPLOYMENT = f"deployment/{RELEASE}-operator"
POSITION, POSITION_BEFORE = "staticgroup.io/watch-position", "staticgroup.io/watch-continuity"
"""Where operators of the checkout, and where those of `BEFORE_CONTINUITY`, keep the position of their watch on the Lease."""


def is_known(commit: str) -> bool:
    """Tell whether the git history holds a commit; a shallow clone or a source archive does not."""
    look = ["git", "-C", str(REPOSITORY), "cat-file", "-e", f"{commit}^{{commit}}"]
    return subprocess.run(look, capture_output=True, check=False).returncode == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """An earlier version, ready to be installed on a stage.

    Parameters
    ----------
    commit: it was built from.
    values: chart values besides the image's, of this version and of the checkout's alike.
    """

    stage: Stage
    commit: str
    sources: Path
    values: dict[str, Any]

    @classmethod
    def bring(cls, stage: Stage, commit: str, **values: Any) -> Earlier:
        """Unpack the sources, build the image and load it into every node, unless that was done before."""
        sources = built(f"earlier-{commit[:12]}", partial(_unpack, commit))
        found = cls(stage=stage, commit=commit, sources=sources, values=values)
        build_image(found.image, sources)
        stage.cluster.load_image(found.image)
        return found

    @property
    def image(self) -> str:
        """The reference of its image in the nodes."""
        return f"localhost/staticgroup:{self.commit[:12]}"

    def install(self, *, wait: bool = True, **values: Any) -> None:
        """Put this version in the place of whatever is installed, with its own chart."""
        repository, _, tag = self.image.rpartition(":")
        merged = {"image": {"repository": repository, "tag": tag, "pullPolicy": "Never"}, **self.values, **values}
        with step("helm upgrade to the earlier version"):
            self._helm("upgrade", RELEASE, str(self.sources / "charts" / "staticgroup"), "--values", "-", wait=wait,
                       stdin=yaml.safe_dump(merged))  # fmt: skip

    def upgrade(self) -> None:
        """Put the checkout's in its place as docs/guide/install.md tells users to, and do not wait for the rollout.

        The build is named besides, as `Stage.install` does, so that afterwards nothing differs from what that installs.
        """
        stage, tag = self.stage, OPERATOR_IMAGE.rpartition(":")[2]
        build = f"podAnnotations.staticgroup\\.io/build={stage.operator_build}"
        stage.values = {}
        with step("helm upgrade from the earlier version"):
            stage.helm("upgrade", RELEASE, str(CHART), "--namespace", SYSTEM, "--reset-then-reuse-values",
                       "--set", f"image.tag={tag}", "--set-string", build)  # fmt: skip

    def roll_back(self, *, wait: bool = True) -> None:
        """Put in place again what was installed before."""
        with step("helm rollback"):
            self._helm("rollback", RELEASE, wait=wait)

    def _helm(self, *arguments: str, wait: bool, stdin: str = "") -> None:
        # Tests scale the Deployment by hand too, after which its replicas are not Helm's own any more.
        options = ["--namespace", SYSTEM, "--force-conflicts", *(["--wait", "--timeout", "120s"] if wait else [])]
        self.stage.values = {}  # `Stage.install` must not believe that its own values are in force
        self.stage.helm(*arguments, *options, stdin=stdin)

    def is_of(self, pod: dict[str, Any]) -> bool:
        """Tell whether a pod of the operator is of this version."""
        return bool(pod["spec"]["containers"][0]["image"] == self.image)

    def roll_back_halfway(self) -> None:
        """Have replicas of both versions, because the rollout of the checkout's has been stopped in the middle."""
        stage = self.stage
        self.roll_back(wait=False)
        until(lambda: not all(self.is_of(p) for p in stage.items("pods", SYSTEM)), deadline_s=30, what="a pod of the other version")
        stage.kubectl("rollout", "pause", DEPLOYMENT, "-n", SYSTEM)

        def ready() -> bool:
            pods = stage.operator_pods()
            kinds = [self.is_of(p) for p in pods]
            is_all = all(c["status"] == "True" for p in pods for c in p["status"]["conditions"] if c["type"] == "Ready")
            return is_all and kinds.count(True) >= 2 and kinds.count(False) >= 1

        until(ready, deadline_s=90, what="two replicas of the earlier version beside one of the other")

    def hand_over(self, *, to_earlier: bool, to: str = "", by_silence: bool = False) -> str:
        """Let the oldest standby of one version, or the one that is named, get the Lease; returns its name.

        Parameters
        ----------
        by_silence: the holder does not end, but is paused until its time is over, and goes on as a standby afterwards.
        """
        stage, holder = self.stage, self.stage.lease_holder()
        pods = sorted(stage.operator_pods(), key=lambda p: p["metadata"]["creationTimestamp"])
        standbys = [p for p in pods if p["metadata"]["name"] != holder and self.is_of(p) == to_earlier]
        heir = to or str(standbys[0]["metadata"]["name"])
        expected = {POSITION, POSITION_BEFORE} if to_earlier and self.commit == BEFORE_CONTINUITY else {POSITION}
        with pausing(stage) as pause_all_but:

            def has_followed() -> bool:
                pause_all_but({heir, "" if by_silence else holder})  # those too that began in between
                return stage.lease_holder() == heir and positions(stage).keys() == expected

            pause_all_but({heir, "" if by_silence else holder})
            if not by_silence:
                stage.kubectl("delete", "pod", holder, "-n", SYSTEM, "--wait=false")
            until(has_followed, deadline_s=45, what=f"{heir} at work after {holder}")
        until(lambda: len(stage.operator_pods()) == len(pods), deadline_s=60, what="a replica in the place of the holder")
        return heir


def _unpack(commit: str, directory: Path) -> None:
    archive = directory / "sources.tar"
    subprocess.run(["git", "-C", str(REPOSITORY), "archive", f"--output={archive}", commit], check=True)
    with tarfile.open(archive) as tar:
        tar.extractall(directory, filter="data")
    archive.unlink()


def take_away(stage: Stage) -> None:
    """Let no operator run, of any version."""
    stage.kubectl("scale", DEPLOYMENT, "-n", SYSTEM, "--replicas=0")
    until(lambda: not stage.items("pods", SYSTEM), deadline_s=60, what="no operator")


def positions(stage: Stage) -> dict[str, str]:
    """Return the epochs that the Lease tells of, by whose they are."""
    notes = stage.lease()["metadata"].get("annotations", {})
    return {key: json.loads(notes[key])["epoch"] for key in (POSITION, POSITION_BEFORE) if key in notes}


@contextmanager
def pausing(stage: Stage) -> Iterator[Callable[[Collection[str]], None]]:
    """Give a function that lets all replicas but some do nothing, not even try to get the Lease, until the end."""
    paused: set[int] = set()

    def pause_all_but(names: Collection[str]) -> None:
        for pid in {pid for name, pids in stage.operator_processes().items() if name not in names for pid in pids} - paused:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                paused.add(pid)

    try:
        yield pause_all_but
    finally:
        for pid in paused:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def restart_standbys(stage: Stage) -> None:
    """Have standbys that began when a position had been stored, and go on from it."""
    holder, before = stage.lease_holder(), {p["metadata"]["name"] for p in stage.operator_pods()}
    stage.kubectl("delete", "pod", *(before - {holder}), "-n", SYSTEM)
    until(lambda: len(stage.operator_pods()) == len(before), deadline_s=60, what="new standbys")
    stage.kubectl("rollout", "status", DEPLOYMENT, "-n", SYSTEM, "--timeout=60s")
