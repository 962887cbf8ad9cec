"""`staticgroup restored`, and what it does to an operator that runs and to one that starts afterwards."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from typing import Any

import pytest
from staticgroup.runtime.commands.restored import ATTEMPTS_MAX, say_restored

from staticgroup import cli
from staticgroup.kube.lease import CONTINUITY_ANNOTATION, RESTORED_ANNOTATION, RESTORED_BY_ANNOTATION
from staticgroup.kube.transport import connect
from staticgroup.runtime.commands import confirm_gap as confirm_gap_command
from staticgroup.runtime.commands import restored as restored_command
from staticgroup.runtime.process import kube_client
from unit.kube.raw_objects import eventually

from ..test_operator import LEASE, Cluster, cluster, left

__all__ = ["cluster"]

STATEMENT = "etcd was restored\nfrom the backup of Monday"
REST = 2**31 - 1


@pytest.fixture(autouse=True)
def as_caller(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async def connected() -> Any:
        return connect(cluster.server.configuration())

    monkeypatch.setattr(kube_client, "connected", connected)
    monkeypatch.setattr(restored_command, "RETRY_S", 0)


async def say(statement: str = STATEMENT, by: str = "", name: str = "staticgroup-operator") -> int:
    return await say_restored(statement, by, "ops", name)


def lease(cluster: Cluster, **annotations: str) -> None:
    metadata = {"namespace": "ops", "name": "staticgroup-operator", "labels": {"kept": "yes"}, "annotations": annotations}
    cluster.server.put({"metadata": metadata, "spec": {"holderIdentity": "one"}}, LEASE[0])


def annotations(cluster: Cluster) -> dict[str, str]:
    return dict(cluster.server.objects[LEASE]["metadata"]["annotations"])


def blind(cluster: Cluster) -> list[tuple[str, str]]:
    spans = (cluster.status.get("continuity") or {}).get("blind") or ()
    return [(s["ordinals"], s["reason"]) for s in spans]


# the command -------------------------------------------------------------------------------------------------------


async def test_word_is_added_to_the_lease_and_nothing_else_is_changed(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    lease(cluster, **{CONTINUITY_ANNOTATION: "position"})
    assert await say() == 0
    kept = cluster.server.objects[LEASE]
    assert (kept["spec"], kept["metadata"]["labels"]) == ({"holderIdentity": "one"}, {"kept": "yes"})
    mark = annotations(cluster).pop(RESTORED_ANNOTATION)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ-[0-9a-f]{8}", mark)
    assert annotations(cluster) == {
        CONTINUITY_ANNOTATION: "position",
        RESTORED_ANNOTATION: mark,
        RESTORED_BY_ANNOTATION: "alice: etcd was restored from the backup of Monday",
    }
    told = capsys.readouterr().out
    for part in ("alice has said", mark, "Every seat of every StaticGroup", "staticgroup confirm-gap --list"):
        assert part in told


class Stopped(datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Stopped:
        return cls(2026, 1, 2, 3, 4, 5, tzinfo=tz)


async def test_word_is_always_a_new_one(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also two that are said in one second."""
    monkeypatch.setattr(restored_command, "datetime", Stopped)
    lease(cluster)
    marks = set()
    for _ in range(3):
        assert await say(by="bob") == 0
        marks.add(annotations(cluster)[RESTORED_ANNOTATION])
    assert len(marks) == 3
    assert {mark.rpartition("-")[0] for mark in marks} == {"2026-01-02T03:04:05Z"}


async def test_word_is_written_over_the_version_that_was_read_and_again_after_a_conflict(cluster: Cluster) -> None:
    lease(cluster)
    cluster.server.failing["update", LEASE[0]] = [409, 409]
    assert await say() == 0
    assert RESTORED_ANNOTATION in annotations(cluster)
    assert len([path for method, path in cluster.server.requests if method == "PUT"]) == 3
    assert len([path for method, path in cluster.server.requests if method == "GET"]) == 3


async def test_what_the_holder_writes_between_the_read_and_the_write_is_not_lost(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease(cluster)
    transport = connect(cluster.server.configuration())
    real, positions = transport.call, iter(["first", "second"])

    async def call(verb: str, *arguments: Any, **options: Any) -> Any:
        position = next(positions, None) if verb == "update" else None
        if position is not None:
            lease(cluster, **{CONTINUITY_ANNOTATION: position})
        return await real(verb, *arguments, **options)

    async def connected() -> Any:
        return transport

    monkeypatch.setattr(transport, "call", call)
    monkeypatch.setattr(kube_client, "connected", connected)
    assert await say() == 0
    assert annotations(cluster)[CONTINUITY_ANNOTATION] == "second"
    assert RESTORED_ANNOTATION in annotations(cluster)


@pytest.mark.parametrize(
    ("verb", "statuses", "says"),
    [
        ("update", [409] * ATTEMPTS_MAX, "say it again"),
        ("update", [403], "you may not update leases.coordination.k8s.io in namespace ops; it needs get and update"),
        ("get", [403], "you may not get leases.coordination.k8s.io in namespace ops; it needs get and update"),
        ("update", [503], "leases.coordination.k8s.io"),
    ],
)
async def test_word_that_was_not_written_is_told_so(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], verb: str, statuses: list[int], says: str
) -> None:
    lease(cluster)
    cluster.server.failing[verb, LEASE[0]] = list(statuses)
    assert await say() == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert says in told.err
    assert annotations(cluster) == {}


async def test_lease_that_does_not_exist_is_named(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert await say(name="another") == 1
    assert "there is no Lease ops/another; name the operator's with --lease-namespace" in capsys.readouterr().err


@pytest.mark.parametrize("changes", [{"statement": " "}, {"statement": "x" * 501}, {"by": "b" * 257}])
async def test_word_out_of_bounds_is_refused(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], changes: dict[str, str]
) -> None:
    lease(cluster)
    assert await say(**changes) == 1
    assert "this cannot be said: " in capsys.readouterr().err
    assert annotations(cluster) == {}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ("from-settings", "staticgroup-operator")),
        (["--lease-namespace", "ops", "--lease-name", "mine"], ("ops", "mine")),
    ],
)
def test_lease_is_that_of_the_settings_unless_it_is_named(
    arguments: list[str], expected: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    async def said(*words: str) -> int:
        asked.append(words)
        return 0

    monkeypatch.setattr(restored_command, "say_restored", said)
    monkeypatch.setenv("STATICGROUP_NAMESPACE", "from-settings")
    assert cli.main(["restored", "--statement", "x", *arguments]) == 0
    assert asked == [("x", "", *expected)]


# what follows ------------------------------------------------------------------------------------------------------


async def test_operator_that_runs_counts_every_seat_as_blind_and_removes_no_departed_member(cluster: Cluster) -> None:
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        epoch = operator.pods.epoch
        assert await say() == 0
        await eventually(lambda: blind(cluster) == [(f"0-{REST}", "Restored")], 20)
        assert operator.pods.epoch not in ("", epoch)
        await eventually(lambda: annotations(cluster)[RESTORED_ANNOTATION] in annotations(cluster)[CONTINUITY_ANNOTATION], 20)
        cluster.scale(2)
        cluster.end(2)
        await eventually(lambda: any(c["reason"] == "WatchGap" for c in cluster.status["conditions"]), 20)
    assert left(cluster) == []


async def test_words_about_the_gap_end_what_the_word_about_the_restore_began(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The runbook: restored, confirm-gap --list, the command that it shows."""
    monkeypatch.setattr("staticgroup.runtime.words.CHECK_S", 0.05)
    async with cluster.operating():
        await cluster.populated()
        assert await say() == 0
        await eventually(lambda: blind(cluster) != [], 20)
        capsys.readouterr()
        assert await confirm_gap_command.list_spans("") == 0
        (typed,) = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("    ")]
        until = datetime.fromisoformat(typed[5])  # in whole seconds, rounded up
        await eventually(lambda: datetime.now(UTC) >= until, 20)
        assert await confirm_gap_command.confirm_gap(typed[3], typed[5], "all were terminated", "") == 0
        await eventually(lambda: blind(cluster) == [], 20)
        cluster.scale(2)
        cluster.end(2)
        await eventually(lambda: cluster.id_of(2) not in cluster.kafka.members, 20)
    assert left(cluster) == [cluster.id_of(2)]


async def test_word_that_is_known_already_changes_nothing(cluster: Cluster) -> None:
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        assert await say() == 0
        await eventually(lambda: blind(cluster) != [], 20)
        epoch, gaps = operator.pods.epoch, operator.pods.gap_count
        known = cluster.server.objects[LEASE]
        version = known["metadata"]["resourceVersion"]
        cluster.server.put(known, LEASE[0])  # the same value once more
        await eventually(lambda: int(cluster.server.objects[LEASE]["metadata"]["resourceVersion"]) > int(version) + 3, 20)
        assert (operator.pods.epoch, operator.pods.gap_count) == (epoch, gaps)
    async with cluster.operating("two") as (operator, _):
        assert operator.pods.epoch == epoch
        assert len(blind(cluster)) == 1


async def test_operator_that_starts_after_the_word_counts_every_seat_as_blind(cluster: Cluster) -> None:
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        epoch = operator.pods.epoch
        await eventually(lambda: epoch in annotations(cluster).get(CONTINUITY_ANNOTATION, ""), 20)
    assert await say() == 0
    cluster.scale(2)
    cluster.end(2)
    async with cluster.operating("two") as (operator, _):
        await eventually(lambda: [ordinals for ordinals, _ in blind(cluster)] == [f"0-{REST}"], 20)
        assert operator.pods.epoch != epoch
        await eventually(lambda: any(c["reason"] == "WatchGap" for c in cluster.status["conditions"]), 20)
    assert left(cluster) == []


async def test_operator_that_finds_no_lease_counts_every_seat_as_blind_by_itself(cluster: Cluster) -> None:
    async with cluster.operating():
        await cluster.populated()
    cluster.server.remove("ops", "staticgroup-operator", LEASE[0])
    async with cluster.operating("two"):
        await eventually(lambda: blind(cluster) == [(f"0-{REST}", "MemoryLost")], 20)
