"""Fixtures of the end-to-end tests: one stage for all, one play for each, and the promise checked after every test."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from support.argo import argo_rollouts
from support.devcluster.images import slot_waiter_image
from support.devcluster.kafka_broker import Brokers, BrokerSettings
from support.devcluster.progress import say
from support.scene.figures import FIGURES
from support.scene.play import Play
from support.scene.stage import Stage
from support.scene.witnesses import ProcessTable, live_removals

HAS_FAILED = pytest.StashKey[bool]()


NODE_DRILLS = ("test_node_drills", "test_slow_rolls", "test_restore_drills")
"""Nodes of the cluster fail in them, and its etcd goes back in time, so they come last."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the drills of nodes at the end."""
    items.sort(key=lambda item: item.path.stem in NODE_DRILLS)


def pytest_terminal_summary() -> None:
    """Print what was measured in this run."""
    for line in FIGURES.read_text().splitlines() if FIGURES.exists() else ():
        row = json.loads(line)
        print(f"{row.pop('name')}: " + ", ".join(f"{k} {v}" for k, v in row.items() if k != "at_ms"))


@pytest.fixture(scope="session")
def stage() -> Stage:
    """The cluster E2E_CLUSTER (default sg-e2e) with one broker and both images; it stays up for the next run."""
    return Stage.up(os.environ.get("E2E_CLUSTER", "sg-e2e"))


@pytest.fixture(scope="session")
def installed(stage: Stage) -> Stage:
    """The stage with the operator installed from its chart, with its default values."""
    stage.install()
    return stage


@contextmanager
def slots_served(stage: Stage, **workloads: bool) -> Iterator[Stage]:
    """Have the stage's operator give slots meanwhile, to pods of these kinds of workload."""
    reference, _ = slot_waiter_image()
    stage.cluster.load_image(reference)
    repository, _, tag = reference.rpartition(":")
    stage.install(workloads=workloads, slots={"image": {"repository": repository, "tag": tag}})
    yield stage
    stage.install()


@pytest.fixture(scope="module")
def serves_deployments(installed: Stage) -> Iterator[Stage]:
    """The stage, whose operator serves Deployments too until the module ends."""
    with slots_served(installed, deployments=True):
        yield installed


@pytest.fixture(scope="module")
def serves_rollouts(installed: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The stage with Argo's controller, whose operator serves its Rollouts too until the module ends."""
    with argo_rollouts(installed, tmp_path_factory.mktemp("argo")), slots_served(
        installed, deployments=True, argoRollouts=True
    ):
        yield installed


@pytest.fixture(scope="session")
def process_table() -> Iterator[ProcessTable]:
    """The process table, sampled during the whole session."""
    table = ProcessTable().start()
    yield table
    table.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let fixtures know whether their test has failed, while its objects still exist."""
    report = yield
    if report.when == "call":
        item.stash[HAS_FAILED] = report.failed
    return report


def print_state(play: Play) -> None:
    """Print the next things to inspect: status, pods, the operators' and the brokers' lines about the group.

    A test that fails once in thirty runs must say why the first time, because its cluster is gone afterwards.
    """
    say(f"status of {play.name}: {json.dumps(play.status(), indent=1)}")
    for pod in play.pods():
        metadata = {k: pod["metadata"].get(k) for k in ("uid", "deletionTimestamp")}
        say(f"pod {pod['metadata']['name']}: {json.dumps(metadata)}")
        say(json.dumps(pod["status"]))
    logs = play.stage.operator_logs()
    say("\n".join([line for line in logs.splitlines() if play.name in line][-80:]))
    say("\n".join(str(e) for e in play.events()[-80:]))


@pytest.fixture
def new_play(
    request: pytest.FixtureRequest, installed: Stage, process_table: ProcessTable
) -> Iterator[Callable[..., Play]]:
    """Open plays; afterwards no live member may have been removed, by process table and brokers' log."""
    opened: list[Play] = []

    def make(suffix: str = "", kind: type[Play] = Play, **options: Any) -> Play:
        stem = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-")[:28].strip("-")
        name = f"{stem}{'-' + suffix if suffix else ''}-{os.urandom(2).hex()}"
        opened.append(kind(stage=installed, name=name, **options).open())
        return opened[-1]

    yield make
    if request.node.stash.get(HAS_FAILED, False):
        for each in opened:
            print_state(each)
    logs = {each.brokers.bootstrap: each.brokers.group_log for each in opened}
    logs[installed.brokers.bootstrap] = installed.brokers.group_log
    accusations = [each for log in logs.values() for each in live_removals(log, process_table)]
    for each in opened:
        each.close()
    assert accusations == []


@pytest.fixture
def has_failed(request: pytest.FixtureRequest) -> Callable[[], bool]:
    """Say afterwards whether the test has failed."""
    return lambda: bool(request.node.stash.get(HAS_FAILED, False))


@pytest.fixture(scope="session")
def three_brokers(stage: Stage) -> Iterator[Brokers]:
    """Three brokers beside the stage's own, for tests in which a coordinator dies."""
    brokers = Brokers.up(
        BrokerSettings(name=f"{stage.cluster.name}-three", nodes=3, bind=stage.cluster.state.host_address), report=say
    )
    yield brokers
    brokers.down()


PASSWORDS = {"admin": "admin-canary-5512", "watcher": "watcher-canary-5512", "remover": "remover-canary-5512"}


@pytest.fixture(scope="session")
def secure_brokers(stage: Stage) -> Brokers:
    """A broker that demands TLS, a login and rights of the operator; consumers may use its plain listener.

    It stays up as the stage does: one process of the suite ends before another that still needs it.
    """
    settings = BrokerSettings(
        name=f"{stage.cluster.name}-secure", bind=stage.cluster.state.host_address, security=True, users=PASSWORDS
    )
    return Brokers.up(settings, report=say)
