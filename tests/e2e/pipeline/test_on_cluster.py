"""A run of the fleet learner as pods: driver and executor on a real cluster, from the manifests that users apply.

The one idea: what the cluster learned must be, byte for byte, what one process learns on the same journal here. That
executors did the work is asked of Spark's own log of events, that nobody had a right too many of the API server.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet_learner.fleet_truth import FleetSettings
from fleet_learner.progress import Progress
from fleet_learner.simulated_journal import write_files
from support.devcluster.cluster import Cluster
from support.scene.figures import record
from support.scene.fleet_image import FLEET_IMAGE, REPOSITORY, build_fleet_image
from support.scene.stage import until

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(1800)]

NAMESPACE = "fleet-learner"
UID = 65532
FLEET = FleetSettings(seed=5, groups=8, days=6, k8s_clusters=2)
AS_OF = datetime.fromtimestamp(FLEET.end_ms / 1000, UTC).isoformat()
EXECUTOR = "spark-role=executor"
COMPONENT = "app.kubernetes.io/component"
SMALL = {
    "spark.executor.instances": "1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "1g",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "4",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.dir": "file:///data/events",
    "spark.eventLog.compress": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """A cluster with the image, and the folder that its pods have as /data."""

    cluster: Cluster
    data: Path
    archive_bytes: int


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A cluster of one node; it is taken away afterwards unless it was there before."""
    cluster = Cluster(os.environ.get("E2E_FLEET_CLUSTER", "sg-fleet"))
    was_there = cluster.is_healthy()
    archive = build_fleet_image()
    data = tmp_path_factory.mktemp("data")
    for folder in (data, *list(data.parents)[:2]):
        folder.chmod(0o755)  # pods are nobody's friend here: pytest's folders are for their owner only
    (data / "events").mkdir()
    write_files(data / "journal", FLEET, Progress())
    for path in (data, *data.rglob("*")):
        os.chown(path, UID, UID)
    try:
        cluster.up()
        cluster.load_image(FLEET_IMAGE)
        yield Ground(cluster=cluster, data=data, archive_bytes=archive.stat().st_size)
    finally:
        if not was_there:
            cluster.down()


@pytest.fixture(scope="module")
def applied(ground: Ground, tmp_path_factory: pytest.TempPathFactory) -> Ground:
    """The shipped manifests with a volume, a journal and a size that fit the development cluster."""
    overlay = tmp_path_factory.mktemp("overlay")
    shutil.copytree(REPOSITORY / "deploy" / "fleet-learner", overlay / "fleet-learner")
    base = overlay / "fleet-learner" / "base"
    settings = [line.split(None, 1) for line in (base / "spark.properties").read_text().splitlines() if "." in line]
    usual = {words[0]: words[1] for words in settings if not words[0].startswith("#")}
    (base / "spark.properties").write_text("".join(f"{key} {value}\n" for key, value in (usual | SMALL).items()))
    learner = yaml.safe_load((base / "fleet.yaml").read_text())
    del learner["kafka"]
    (base / "fleet.yaml").write_text(yaml.safe_dump(learner | {"journal_files": "/data/journal"}))
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "fleet-learner"},
        "spec": {
            "capacity": {"storage": "50Gi"},
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": str(ground.data), "type": "Directory"},
        },
    }
    (overlay / "volume.yaml").write_text(yaml.safe_dump(volume))
    claim = [{"op": "add", "path": "/spec/storageClassName", "value": ""}]
    memory = "/spec/jobTemplate/spec/template/spec/containers/0/resources"
    small = {"requests": {"cpu": "250m", "memory": "2Gi"}, "limits": {"memory": "3Gi"}}
    until_then = "/spec/jobTemplate/spec/template/spec/containers/0/args"
    job = [
        {"op": "replace", "path": memory, "value": small},
        *({"op": "add", "path": f"{until_then}/-", "value": word} for word in ("--as-of", AS_OF)),
    ]
    repository, _, tag = FLEET_IMAGE.rpartition(":")
    kustomization = {
        "resources": ["fleet-learner", "volume.yaml"],
        "images": [{"name": "fleet-learner", "newName": repository, "newTag": tag}],
        "replacements": yaml.safe_load((overlay / "fleet-learner" / "kustomization.yaml").read_text())["replacements"],
        "patches": [
            {"target": {"kind": "PersistentVolumeClaim"}, "patch": yaml.safe_dump(claim)},
            {"target": {"kind": "CronJob"}, "patch": yaml.safe_dump(job)},
        ],
    }
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    ground.cluster.kubectl("apply", "--server-side", "-k", str(overlay))
    return ground


class Watcher:
    """Look at the namespace's pods while a job runs, and keep the last that was seen of each."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.pods: dict[str, dict[str, Any]] = {}
        self.log: dict[str, str] = {}

    def look(self) -> None:
        for pod in json.loads(self.cluster.kubectl("get", "pods", "-n", NAMESPACE, "-o", "json"))["items"]:
            name = pod["metadata"]["name"]
            self.pods[name] = pod
            if pod["status"]["phase"] in ("Running", "Failed"):
                with suppress(RuntimeError):  # gone meanwhile
                    self.log[name] = self.cluster.kubectl("logs", "-n", NAMESPACE, name)

    def role(self, role: str) -> list[dict[str, Any]]:
        return [pod for pod in self.pods.values() if pod["metadata"]["labels"].get(COMPONENT) == role]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A finished run."""

    watcher: Watcher
    job: dict[str, Any]
    driver_log: str
    seconds: float


@pytest.fixture(scope="module")
def run(applied: Ground) -> Run:
    """One run, started as a user starts one out of turn."""
    cluster = applied.cluster
    watcher = Watcher(cluster)
    cluster.kubectl("create", "job", "-n", NAMESPACE, "by-hand", "--from=cronjob/fleet-learner")

    def ended() -> dict[str, Any] | None:
        watcher.look()
        job: dict[str, Any] = json.loads(cluster.kubectl("get", "job", "by-hand", "-n", NAMESPACE, "-o", "json"))
        ends = {"Complete", "Failed"}
        return job if ends & {c["type"] for c in job["status"].get("conditions", []) if c["status"] == "True"} else None

    try:
        job = until(ended, deadline_s=1200, what="the job ends", poll_s=0.5)
    except AssertionError as late:
        raise AssertionError(f"{late}\n{watcher.log}") from late
    (driver,) = [pod for pod in watcher.role("driver")][-1:]
    log = cluster.kubectl("logs", "-n", NAMESPACE, driver["metadata"]["name"])
    state = driver["status"]["containerStatuses"][0]["state"].get("terminated", {})
    return Run(watcher=watcher, job=job, driver_log=log, seconds=_seconds(state))


def _seconds(state: dict[str, Any]) -> float:
    if not state:
        return float("nan")
    return (datetime.fromisoformat(state["finishedAt"]) - datetime.fromisoformat(state["startedAt"])).total_seconds()


def events(data: Path) -> list[dict[str, Any]]:
    """Return Spark's own log of events of all runs."""
    files = [path for path in (data / "events").rglob("*") if path.is_file() and not path.name.startswith(".")]
    lines = (line for path in sorted(files) for line in path.read_text().splitlines())
    return [json.loads(line) for line in lines if line.startswith("{")]


def digests(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "_manifest" not in path.parts
    }


def tables(root: Path) -> dict[str, Any]:
    """Return what the manifests say of every table; a plan names the source's folder, which differs."""
    found = sorted(root.rglob("_manifest/????????????.json"))
    return {path.relative_to(root).as_posix(): json.loads(path.read_text())["tables"] for path in found}


def test_the_job_completes_and_leaves_report_and_recommendations(applied: Ground, run: Run) -> None:
    assert [c["type"] for c in run.job["status"]["conditions"] if c["status"] == "True"][-1] == "Complete", (
        run.driver_log
    )
    report = applied.data / "fleet" / "output" / "report" / "report.html"
    assert report.read_text().startswith("<!")
    assert "report: /data/fleet/output/report/report.html" in run.driver_log
    record(
        "fleet learner on a cluster",
        image_mb=round(applied.archive_bytes / 1e6),
        driver_s=run.seconds,
        journal_mb=round(sum(p.stat().st_size for p in (applied.data / "journal").iterdir()) / 1e6, 1),
    )


def test_the_work_was_done_by_the_executors_pod(applied: Ground, run: Run) -> None:
    (executor,) = run.watcher.role("executor")
    seen = events(applied.data)
    (added,) = (e for e in seen if e["Event"] == "SparkListenerExecutorAdded")
    assert added["Executor Info"]["Host"] == executor["status"]["podIP"]
    tasks = [e for e in seen if e["Event"] == "SparkListenerTaskEnd"]
    assert len(tasks) > 50
    assert {(e["Task Info"]["Executor ID"], e["Task Info"]["Host"]) for e in tasks} == {
        (added["Executor ID"], executor["status"]["podIP"])
    }
    assert {e["Task End Reason"]["Reason"] for e in tasks} == {"Success"}
    record("fleet learner's executor", tasks=len(tasks), cpu_s=round(sum(_cpu_ns(e) for e in tasks) / 1e9, 1))


def _cpu_ns(event: dict[str, Any]) -> int:
    return int(event["Task Metrics"]["Executor CPU Time"])


def test_the_cluster_learns_byte_for_byte_what_one_process_learns(applied: Ground, run: Run, tmp_path: Path) -> None:
    here = tmp_path / "fleet"
    done = subprocess.run(
        [sys.executable, "-m", "fleet_learner", "run", f"--root={here}", f"--journal-files={applied.data / 'journal'}",
         "--master=local[2]", f"--as-of={AS_OF}"],
        cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": "operator"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert tables(here)
    assert tables(applied.data / "fleet") == tables(here)
    assert digests(applied.data / "fleet") == digests(here)


def test_executors_go_with_the_run(applied: Ground, run: Run) -> None:
    until(
        lambda: "No resources" in _pods(applied.cluster, EXECUTOR) or not _pods(applied.cluster, EXECUTOR).strip(),
        deadline_s=60,
        what="the executor's pod is gone",
    )
    (executor,) = run.watcher.role("executor")
    assert [owner["kind"] for owner in executor["metadata"]["ownerReferences"]] == ["Pod"]


def _pods(cluster: Cluster, selector: str) -> str:
    return cluster.kubectl("get", "pods", "-n", NAMESPACE, "-l", selector, "--no-headers", "--ignore-not-found")


def test_nothing_was_asked_for_that_was_not_allowed(run: Run) -> None:
    assert not re.search(r"[Ff]orbidden|code=403|Unauthorized", run.driver_log)


def rights(cluster: Cluster, account: str, namespace: str) -> set[str]:
    """Return what an account may do in a namespace beyond what every account may."""

    def lines(who: str) -> set[str]:
        listed = cluster.kubectl("auth", "can-i", "--list", "--no-headers", f"--as={who}", "-n", namespace)
        return {re.sub(r"\s+", " ", line.strip()) for line in listed.splitlines()}

    return lines(f"system:serviceaccount:{NAMESPACE}:{account}") - lines("system:serviceaccount:default:default")


def test_the_accounts_have_these_rights_and_no_other(applied: Ground) -> None:
    cluster = applied.cluster
    pods = {"pods [] [] [create delete deletecollection get list watch]"}
    assert rights(cluster, "fleet-learner-driver", NAMESPACE) == pods
    assert rights(cluster, "fleet-learner-driver", "default") == set()
    assert rights(cluster, "fleet-learner-executor", NAMESPACE) == set()
