"""The fleet learner as pods: drivers and executors on a real cluster, from the manifests that users apply.

The one idea: the cluster's rows must equal those of one local process on the same journal, although the first run lost
its executor, its driver and its Job, and two more runs were started at once to continue it. Spark's event log shows
that executors did the work, the API server that no account had needless rights.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
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
from deltalake import DeltaTable

from e2e.pipeline.fleet_jobs import NAMESPACE, Run, Watcher, begin, ended
from fleet_learner.cli import EXIT_CONFLICT, EXIT_USAGE
from fleet_learner.lake.runs import FOLDER
from fleet_learner.progress import Progress
from fleet_learner.simulated.journal import write_files
from fleet_learner.simulated.truth import FleetSettings
from support.devcluster.cluster import Cluster
from support.scene.figures import record
from support.scene.fleet_image import FLEET_IMAGE, REPOSITORY, build_fleet_image
from support.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(1800)]

UID = 65532
FLEET = FleetSettings(seed=5, groups=8, days=6, k8s_clusters=2)
AS_OF = datetime.fromtimestamp(FLEET.end_ms / 1000, UTC).isoformat()
EXECUTOR = "spark-role=executor"
# Cores and memory overhead are the shipped values, so that too small values fail here.
SMALL = {
    "spark.executor.instances": "1", "spark.executor.memory": "1g", "spark.kubernetes.executor.request.cores": "500m",
    "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "4", "spark.eventLog.enabled": "true",
    "spark.eventLog.dir": "file:///data/events", "spark.eventLog.compress": "false",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """A cluster with the image, and the folder that its pods have as /data."""

    cluster: Cluster
    data: Path
    archive_bytes: int


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A cluster of one node, which is deleted afterwards unless it existed before."""
    cluster = Cluster(os.environ.get("E2E_FLEET_CLUSTER", "sg-fleet"))
    was_there = cluster.is_healthy()
    archive = build_fleet_image()
    data = tmp_path_factory.mktemp("data")
    for folder in (data, *list(data.parents)[:2]):
        folder.chmod(0o755)  # pods run as another user, and pytest's folders are for their owner only
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
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "fleet-learner"},
        "spec": {
            "capacity": {"storage": "50Gi"}, "accessModes": ["ReadWriteMany"], "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": str(ground.data), "type": "Directory"},
        },
    }  # fmt: skip
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """A run that lost its executor, then its driver, then its Job: its plan, and the state published by then."""

    drivers: list[dict[str, Any]]
    executors: list[list[dict[str, Any]]]
    plan: Path
    plan_text: str
    plan_inode: int
    published: list[str]


@pytest.fixture(scope="module")
def interrupted(applied: Ground) -> Interrupted:
    cluster, root = applied.cluster, applied.data / "fleet"
    watcher = Watcher(cluster)

    def files_of(table: str) -> bool:
        watcher.look()
        return any((root / table).rglob("*.parquet"))

    def driver(number: int) -> dict[str, Any] | None:
        watcher.look()
        found = watcher.drivers("interrupted")
        return found[number] if len(found) > number and watcher.executors(found[number]) else None

    begin(cluster, "interrupted")
    until(lambda: files_of("bronze/events"), deadline_s=600, what="an executor has written a file", poll_s=0.5)
    cluster.kubectl("delete", "pods", "-n", NAMESPACE, "-l", EXECUTOR, "--grace-period=0", "--force")
    until(lambda: files_of("silver/beats"), deadline_s=300, what="another executor has written on", poll_s=0.5)
    for pid in cluster.pod_processes(watcher.drivers("interrupted")[0]["metadata"]["uid"]):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until(lambda: driver(1), deadline_s=300, what="the Job's second driver has an executor", poll_s=0.5)
    cluster.kubectl("delete", "job", "interrupted", "-n", NAMESPACE)
    until(lambda: not _pods(cluster), deadline_s=120, what="driver and executor are gone")
    (plan,) = (root / FOLDER).glob("*.plan.json")
    drivers = watcher.drivers("interrupted")
    return Interrupted(
        drivers=drivers, executors=[watcher.executors(each) for each in drivers], plan=plan, plan_text=plan.read_text(),
        plan_inode=plan.stat().st_ino, published=sorted(runs_in(root)),
    )  # fmt: skip


def _pods(cluster: Cluster) -> list[str]:
    return cluster.kubectl("get", "pods", "-n", NAMESPACE, "-o", "name").split()


@pytest.fixture(scope="module")
def runs(applied: Ground, interrupted: Interrupted) -> dict[str, Run]:
    """Two runs that were started at once, by their result."""
    for name in ("one", "other"):
        begin(applied.cluster, name)
    return {run.end: run for run in ended(Watcher(applied.cluster), "one", "other")}


@pytest.fixture(scope="module")
def run(runs: dict[str, Run]) -> Run:
    """The one that published."""
    assert "Complete" in runs, {end: each.log for end, each in runs.items()}
    return runs["Complete"]


def events(data: Path, executor: dict[str, Any]) -> list[dict[str, Any]]:
    """Return Spark's own log of events of an executor's application."""
    application = executor["metadata"]["labels"]["spark-app-selector"]
    files = sorted((data / "events" / f"eventlog_v2_{application}").glob("events_*"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def runs_in(root: Path) -> dict[str, Any]:
    """Return the published state of every table, without the plan, which names the source's folder."""
    found = sorted(root.rglob(f"{FOLDER}/????????????.json"))
    return {path.relative_to(root).as_posix(): json.loads(path.read_text())["tables"] for path in found}


def content(root: Path) -> dict[str, list[str]]:
    """Return the rows of every published table, sorted, as another implementation of Delta's protocol reads them."""
    found = {}
    for name, tables in runs_in(root).items():
        lake = (root / name).parents[1]
        for table, state in tables.items():
            rows = DeltaTable(lake / table, version=state["version"]).to_pyarrow_table()
            names = sorted(rows.column_names)
            found[f"{name} {table}"] = sorted(map(str, rows.select(names).to_pylist()))
    return found


def outputs(root: Path) -> dict[str, str]:
    """Return the digest of all published files."""
    files = sorted(path for path in (root / "output").rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_job_completes_and_leaves_report_and_recommendations(applied: Ground, run: Run) -> None:
    report = applied.data / "fleet" / "output" / "report" / "report.html"
    assert report.read_text().startswith("<!")
    assert "report: /data/fleet/output/report/report.html" in run.log
    assert (run.end, run.terminated["exitCode"]) == ("Complete", 0)
    record(
        "fleet learner on a cluster", image_mb=round(applied.archive_bytes / 1e6), driver_s=run.seconds,
        journal_mb=round(_bytes(applied.data / "journal") / 1e6, 1),
        left_mb=round(_bytes(applied.data / "fleet") / 1e6, 1),
    )  # fmt: skip


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_the_work_was_done_by_the_executors_pod(applied: Ground, run: Run) -> None:
    (executor,) = run.executors
    seen = events(applied.data, executor)
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


def test_the_cluster_learns_row_for_row_what_one_process_learns(applied: Ground, run: Run, tmp_path: Path) -> None:
    here = tmp_path / "fleet"
    done = subprocess.run(
        [sys.executable, "-m", "fleet_learner", "run", f"--root={here}", f"--journal-files={applied.data / 'journal'}",
         "--master=local[2]", f"--as-of={AS_OF}"],
        cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": "operator"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert content(here)
    assert content(applied.data / "fleet") == content(here)
    assert outputs(applied.data / "fleet") == outputs(here)


def test_a_lost_executor_is_replaced_and_a_lost_driver_is_tried_again(interrupted: Interrupted) -> None:
    assert [len(executors) for executors in interrupted.executors] == [2, 1]
    (container,) = interrupted.drivers[0]["status"]["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == 128 + signal.SIGKILL


def test_a_run_whose_job_was_deleted_is_finished_by_the_next(
    applied: Ground, interrupted: Interrupted, run: Run
) -> None:
    """Its uncommitted files were ignored and its plan was carried out; the rows are compared above."""
    assert interrupted.published == []
    assert (interrupted.plan.read_text(), interrupted.plan.stat().st_ino) == (
        interrupted.plan_text, interrupted.plan_inode,
    )  # fmt: skip
    first = f"{interrupted.plan.name.removesuffix('.plan.json')}.json"
    assert sorted(runs_in(applied.data / "fleet")) == [f"{FOLDER}/{first}", f"learned/{FOLDER}/{first}"]


def test_of_two_runs_at_once_one_publishes_and_the_other_is_not_tried_again(runs: dict[str, Run]) -> None:
    assert sorted(runs) == ["Complete", "Failed"]
    loser = runs["Failed"]
    assert loser.terminated["exitCode"] == EXIT_CONFLICT
    assert "another run was faster" in loser.log
    assert len(loser.drivers) == 1
    assert "PodFailurePolicy" in loser.reasons


def test_wrong_usage_is_not_tried_again_and_the_pod_says_what_was_wrong(applied: Ground, run: Run) -> None:
    begin(applied.cluster, "wrong", "--window-days", "0")
    (wrong,) = ended(Watcher(applied.cluster), "wrong")
    assert (wrong.end, wrong.terminated["exitCode"]) == ("Failed", EXIT_USAGE)
    assert len(wrong.drivers) == 1
    assert "PodFailurePolicy" in wrong.reasons
    assert "window_days" in wrong.terminated["message"]


def test_executors_go_with_the_run(applied: Ground, run: Run) -> None:
    until(
        lambda: not applied.cluster.kubectl("get", "pods", "-n", NAMESPACE, "-l", EXECUTOR, "-o", "name").split(),
        deadline_s=60,
        what="the executors' pods are gone",
    )
    (executor,) = run.executors
    assert [owner["kind"] for owner in executor["metadata"]["ownerReferences"]] == ["Pod"]


def test_nothing_was_asked_for_that_was_not_allowed(run: Run) -> None:
    assert not re.search(r"[Ff]orbidden|code=403|Unauthorized", run.log)


def test_the_guides_overlay_sets_both_images_and_keeps_what_it_does_not_name(ground: Ground, tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (REPOSITORY / "docs/guide/fleet-learner.md").read_text(), re.DOTALL)
    (overlay,) = (block for block in blocks if "resources: [deploy/fleet-learner]" in block)
    shutil.copytree(REPOSITORY / "deploy" / "fleet-learner", tmp_path / "deploy" / "fleet-learner")
    (tmp_path / "kustomization.yaml").write_text(overlay)
    (tmp_path / "fleet.yaml").write_text("root: /data/mine\n")
    made = {e["kind"]: e for e in yaml.safe_load_all(ground.cluster.kubectl("kustomize", str(tmp_path)))}
    (driver,) = made["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    image = next(each["value"] for each in driver["env"] if each["name"] == "IMAGE")
    assert driver["image"] == image == "registry.example/fleet-learner:0.1.0"
    shipped = (REPOSITORY / "deploy" / "fleet-learner" / "base" / "spark.properties").read_text()
    assert made["ConfigMap"]["data"]["fleet.yaml"] == "root: /data/mine\n"
    assert made["ConfigMap"]["data"]["spark.properties"] == shipped
    assert made["ConfigMap"]["metadata"]["name"] == "fleet-learner"


def rights(cluster: Cluster, account: str, namespace: str) -> set[str]:
    """Return an account's rights in a namespace beyond those of every account."""

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
