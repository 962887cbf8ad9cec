"""Runs of the fleet learner on a cluster as a user starts them: Jobs of the CronJob, and their pods."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from support.devcluster.cluster import Cluster
from support.waiting import until

NAMESPACE = "fleet-learner"


class Watcher:
    """Poll the namespace's pods while jobs run, and keep the last state of each."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.pods: dict[str, dict[str, Any]] = {}
        self.log: dict[str, str] = {}

    def look(self) -> None:
        """Record the present pods."""
        for pod in json.loads(self.cluster.kubectl("get", "pods", "-n", NAMESPACE, "-o", "json"))["items"]:
            name = pod["metadata"]["name"]
            self.pods[name] = pod
            if pod["status"]["phase"] in ("Running", "Failed"):
                with suppress(RuntimeError):  # gone meanwhile
                    self.log[name] = self.cluster.kubectl("logs", "-n", NAMESPACE, name)

    def drivers(self, job: str) -> list[dict[str, Any]]:
        """Return the pods of a Job."""
        return [pod for pod in self.pods.values() if pod["metadata"]["labels"].get("job-name") == job]

    def executors(self, driver: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the pods that a driver owns."""
        owner = driver["metadata"]["uid"]
        return [p for p in self.pods.values() if owner in (o["uid"] for o in p["metadata"].get("ownerReferences", []))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A finished run: its Job and the pods that it had."""

    job: dict[str, Any]
    drivers: list[dict[str, Any]]
    executors: list[dict[str, Any]]
    log: str

    @property
    def end(self) -> str:
        """Return the type of the Job's last condition."""
        return str([c["type"] for c in self.job["status"]["conditions"] if c["status"] == "True"][-1])

    @property
    def terminated(self) -> dict[str, Any]:
        """Return how the last driver ended."""
        return dict(self.drivers[-1]["status"]["containerStatuses"][0]["state"]["terminated"])

    @property
    def seconds(self) -> float:
        """Return how long the last driver's container ran."""
        end, start = (datetime.fromisoformat(self.terminated[name]) for name in ("finishedAt", "startedAt"))
        return (end - start).total_seconds()

    @property
    def reasons(self) -> list[str | None]:
        """Return the reasons of the Job's conditions."""
        return [c.get("reason") for c in self.job["status"]["conditions"]]


def begin(cluster: Cluster, name: str, *words: str) -> None:
    """Start an extra run as a user does, with additional arguments."""
    line = ("create", "job", "-n", NAMESPACE, name, "--from=cronjob/fleet-learner", "--dry-run=client", "-o", "json")
    job = json.loads(cluster.kubectl(*line))
    job["spec"]["template"]["spec"]["containers"][0]["args"] += words
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(job))


def ended(watcher: Watcher, *names: str) -> list[Run]:
    """Wait until these Jobs have ended, and return their runs."""
    cluster = watcher.cluster

    def jobs() -> list[dict[str, Any]] | None:
        watcher.look()
        found = json.loads(cluster.kubectl("get", "jobs", *names, "-n", NAMESPACE, "-o", "json"))
        items: list[dict[str, Any]] = found.get("items", [found])
        return items if all(_is_over(job) for job in items) else None

    try:
        over = until(jobs, deadline_s=1200, what=f"{', '.join(names)} end", poll_s=0.5)
    except AssertionError as late:
        raise AssertionError(f"{late}\n{watcher.log}") from late
    watcher.look()
    return [_run(watcher, job) for job in over]


def _is_over(job: dict[str, Any]) -> bool:
    true = {c["type"] for c in job["status"].get("conditions", []) if c["status"] == "True"}
    return bool(true & {"Complete", "Failed"})


def _run(watcher: Watcher, job: dict[str, Any]) -> Run:
    drivers = watcher.drivers(job["metadata"]["name"])
    executors = [executor for driver in drivers for executor in watcher.executors(driver)]
    log = watcher.cluster.kubectl("logs", "-n", NAMESPACE, drivers[-1]["metadata"]["name"])
    return Run(job=job, drivers=drivers, executors=executors, log=log)
