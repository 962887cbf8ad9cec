"""From a person's word to the removal: heard by the operator, told once, and kept over restarts."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from staticgroup.api import names
from staticgroup.core.evidence.spans import GapWord
from staticgroup.core.evidence.words import Word
from staticgroup.kube.problem import problem_of
from staticgroup.kube.transport import connect
from staticgroup.runtime.commands.doctor import findings
from staticgroup.runtime.operator import Operator
from staticgroup.runtime.process.settings import Settings
from staticgroup.runtime.words import Words
from unit.kube.raw_objects import eventually

from .operator_world import OperatorWorld, guards, static_group
from .test_operator import Cluster, cluster, left

__all__ = ["cluster"]

WORDS = "podendconfirmations.staticgroup.io"
GAP_WORDS = "watchgapconfirmations.staticgroup.io"


async def lost() -> OperatorWorld:
    """Return a world scaled from 3 to 2 whose web-2 was force-deleted, seen by a round."""
    world = await OperatorWorld().started()
    world.scale(2)
    world.remove_object(2)
    await world.settled(2)
    assert guards(world) == ["DeathNotProven"]
    return world


def word(world: OperatorWorld, **changes: Any) -> Word:
    values: dict[str, Any] = {
        "namespace": "shop", "pod_name": "web-2", "pod_uid": "u2", "said_by": "alice", "statement": "scrapped",
        "said_at_s": float(int(world.now_s)),
    }  # fmt: skip
    return Word(**(values | changes))


def audited(caplog: pytest.LogCaptureFixture, message: str) -> list[dict[str, Any]]:
    return [r.__dict__ for r in caplog.records if r.name == "staticgroup.audit" and r.message == message]


async def test_the_member_of_a_confirmed_suspect_is_removed_and_all_of_it_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = await lost()
    with caplog.at_level(logging.INFO, "staticgroup.audit"):
        world.pods.book.hear([word(world)])
        await world.settled(4)
    assert [i for _, i in world.left] == [world.id_of(2)]
    (line,) = audited(caplog, "suspect confirmed")
    assert (line["pod"], line["uid"], line["node"], line["confirmed_by"]) == ("web-2", "u2", "n1", "alice")
    assert line["evidence"] == "confirmed by alice: scrapped"
    (removal,) = audited(caplog, "member removal")
    assert "uid u2 E2 (confirmed by alice: scrapped)" in removal["evidence"]
    (event,) = [e for e in world.kube.events if e[1] == "SuspectConfirmed"]
    assert event[0] == "Normal"
    assert "pod web-2 uid u2 on node n1" in event[2]
    assert world.status.last_removal is None
    assert world.status.last_confirmed_removal is not None


async def test_a_confirmed_end_holds_after_a_restart_without_the_word_and_is_not_told_again() -> None:
    world = await lost()
    world.declare(static_group(generation=2, removal={"policy": "Never"}))
    world.pods.book.hear([word(world)])
    await world.settled(2)
    assert world.left == []
    world.restart()
    world.declare(static_group(generation=3))
    await world.settled(4)
    assert [i for _, i in world.left] == [world.id_of(2)]
    assert [reason for _, reason, _ in world.kube.events].count("SuspectConfirmed") == 1


async def test_a_confirmed_pod_that_comes_back_before_its_removal_keeps_its_member() -> None:
    world = await lost()
    world.pods.book.hear([word(world)])
    world.start(2, "u2", joins=False)
    await world.settled(4)
    assert world.left == []
    world.remove_object(2)
    world.pods.book.hear([word(world, said_at_s=world.now_s - 5)])
    await world.settled(4)
    assert world.left == []
    assert guards(world) == ["DeathNotProven"]


async def test_a_suspended_group_tells_the_word_too(caplog: pytest.LogCaptureFixture) -> None:
    world = await lost()
    world.declare(static_group(generation=2, suspend=True))
    world.pods.book.hear([word(world)])
    with caplog.at_level(logging.INFO, "staticgroup.audit"):
        await world.settled(2)
        world.declare(static_group(generation=3))
        await world.settled(2)
    assert len(audited(caplog, "suspect confirmed")) == 1


# reading them ------------------------------------------------------------------------------------------------------


class Ear:
    """What the pod store is told."""

    def __init__(self) -> None:
        self.heard: list[list[Word]] = []

    def hear(self, words: list[Word]) -> None:
        self.heard.append(list(words))


def resource(name: str, namespace: str = "shop", **spec: Any) -> dict[str, Any]:
    said = {"podName": "web-2", "podUid": name, "statement": "scrapped", "by": "alice"}
    metadata = {"namespace": namespace, "name": name, "creationTimestamp": "2027-01-15T08:00:00Z"}
    return {"metadata": metadata, "spec": said | spec}


def reader(world: OperatorWorld, *scopes: str) -> tuple[Words, Ear]:
    ear = Ear()
    return Words(kube=world.kube, pods=ear, scopes=scopes or ("",)), ear  # type: ignore[arg-type]


async def test_words_of_every_served_namespace_are_heard_together() -> None:
    world = OperatorWorld()
    for namespace, name in (("shop", "a"), ("market", "b"), ("elsewhere", "c")):
        world.kube.put_object(names.CONFIRMATION_PLURAL, resource(name, namespace))
    confirmations, ear = reader(world, "shop", "market")
    await confirmations.read()
    assert {w.pod_uid for w in ear.heard[-1]} == {"a", "b"}


async def test_a_kind_that_is_not_installed_is_no_words_and_is_found_when_it_is(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = OperatorWorld()
    confirmations, ear = reader(world)
    real = world.kube.list_objects

    async def missing(plural: str, namespace: str) -> Any:
        return problem_of(404, verb="list", resource=WORDS)

    monkeypatch.setattr(world.kube, "list_objects", missing)
    await confirmations.read()
    await confirmations.read()
    assert ear.heard == [[], []]
    assert len([r for r in caplog.records if "cannot be read" in r.message]) == 1
    monkeypatch.setattr(world.kube, "list_objects", real)
    world.kube.put_object(names.CONFIRMATION_PLURAL, resource("a"))
    await confirmations.read()
    assert [w.pod_uid for w in ear.heard[-1]] == ["a"]


@pytest.mark.parametrize("status", [0, 403, 503])
async def test_words_that_cannot_be_read_now_stay_as_they_were(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = OperatorWorld()
    world.kube.put_object(names.CONFIRMATION_PLURAL, resource("a"))
    confirmations, ear = reader(world)
    await confirmations.read()

    async def failing(plural: str, namespace: str) -> Any:
        return problem_of(status, verb="list", resource=WORDS)

    monkeypatch.setattr(world.kube, "list_objects", failing)
    await confirmations.read()
    assert [w.pod_uid for w in ear.heard[-1]] == ["a"]


async def test_a_resource_of_another_schema_is_named_and_the_others_are_heard(caplog: pytest.LogCaptureFixture) -> None:
    world = OperatorWorld()
    world.kube.put_object(names.CONFIRMATION_PLURAL, resource("a"))
    world.kube.put_object(names.CONFIRMATION_PLURAL, resource("b", podUid=""))
    confirmations, ear = reader(world)
    await confirmations.read()
    assert [w.pod_uid for w in ear.heard[-1]] == ["a"]
    assert "shop/b" in str([r.__dict__.get("problem") for r in caplog.records])


async def test_only_the_newest_words_are_kept_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("staticgroup.runtime.words.WORDS_MAX", 2)
    world = OperatorWorld()
    for day, name in ((1, "old"), (3, "new"), (2, "middle")):
        body = resource(name)
        body["metadata"]["creationTimestamp"] = f"2027-01-0{day}T00:00:00Z"
        world.kube.put_object(names.CONFIRMATION_PLURAL, body)
    confirmations, ear = reader(world)
    await confirmations.read()
    assert [w.pod_uid for w in ear.heard[-1]] == ["new", "middle"]


# those about gaps -------------------------------------------------------------------------------------------------


def gap_resource(name: str, **spec: Any) -> dict[str, Any]:
    said = {
        "since": "2027-01-15T07:00:00Z", "until": "2027-01-15T07:05:00Z", "statement": "terminated", "by": "alice",
    }  # fmt: skip
    metadata = {"namespace": "", "name": name, "creationTimestamp": "2027-01-15T08:00:00Z"}
    return {"metadata": metadata, "spec": said | spec}


async def test_words_about_gaps_are_heard_from_the_whole_cluster_and_only_news_is_told() -> None:
    world = OperatorWorld()
    world.kube.put_object(names.GAP_CONFIRMATION_PLURAL, gap_resource("a"))
    words, _ = reader(world, "shop", "market")
    told: list[tuple[GapWord, ...]] = []
    words.on_gap_words = lambda: told.append(words.gap_words)
    await words.read()
    await words.read()
    (heard,) = told
    assert [(w.said_by, w.statement, w.until_s - w.since_s, w.said_at_s - w.until_s) for w in heard] == [
        ("alice", "terminated", 300, 3300)
    ]
    world.kube.objects.clear()
    await words.read()
    assert told == [heard, ()]


@pytest.mark.parametrize("status", [403, 404])
async def test_words_about_gaps_that_may_not_be_read_are_done_without_and_told_once(
    status: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = OperatorWorld()
    world.kube.put_object(names.CONFIRMATION_PLURAL, resource("a"))
    words, ear = reader(world, "shop")
    real = world.kube.list_objects

    async def missing(plural: str, namespace: str) -> Any:
        if plural == names.GAP_CONFIRMATION_PLURAL:
            assert namespace == ""
            return problem_of(status, verb="list", resource=GAP_WORDS)
        return await real(plural, namespace)

    monkeypatch.setattr(world.kube, "list_objects", missing)
    await words.read()
    await words.read()
    assert [[w.pod_uid for w in heard] for heard in ear.heard] == [["a"], ["a"]]
    assert words.gap_words == ()
    assert len([r for r in caplog.records if "words about gaps" in r.message]) == 1
    monkeypatch.setattr(world.kube, "list_objects", real)
    world.kube.put_object(names.GAP_CONFIRMATION_PLURAL, gap_resource("a"))
    await words.read()
    assert len(words.gap_words) == 1


@pytest.mark.parametrize(("status", "left"), [(0, 1), (403, 1), (503, 1), (404, 0)])
async def test_words_about_gaps_that_cannot_be_read_now_stay_unless_their_kind_is_gone(
    status: int, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = OperatorWorld()
    world.kube.put_object(names.GAP_CONFIRMATION_PLURAL, gap_resource("a"))
    words, _ = reader(world)
    await words.read()

    async def failing(plural: str, namespace: str) -> Any:
        return problem_of(status, verb="list", resource=GAP_WORDS)

    monkeypatch.setattr(world.kube, "list_objects", failing)
    await words.read()
    assert len(words.gap_words) == left


async def test_a_word_about_a_gap_of_another_schema_is_named_and_the_newest_of_the_others_are_heard(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("staticgroup.runtime.words.WORDS_MAX", 2)
    world = OperatorWorld()
    for day, name in ((1, "old"), (3, "new"), (2, "middle")):
        body = gap_resource(name, by=name)
        body["metadata"]["creationTimestamp"] = f"2027-01-0{day}T00:00:00Z"
        world.kube.put_object(names.GAP_CONFIRMATION_PLURAL, body)
    world.kube.put_object(names.GAP_CONFIRMATION_PLURAL, gap_resource("odd", until="2027-01-15T07:00:00Z"))
    words, _ = reader(world)
    await words.read()
    assert [w.said_by for w in words.gap_words] == ["middle", "new"]
    assert "not readable: odd" in str([r.__dict__.get("problem") for r in caplog.records])


# a whole process -----------------------------------------------------------------------------------------------------


def suspects(cluster: Cluster) -> list[str]:
    return [e["uid"] for e in (cluster.status.get("ledger") or {}).get("incarnations") or () if e["state"] == "Suspect"]


def say(cluster: Cluster) -> None:
    body = resource("u2")
    body["metadata"]["creationTimestamp"] = cluster.server.created_at()
    cluster.server.put(body, WORDS)


async def test_a_word_is_heard_while_the_operator_runs(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("staticgroup.runtime.words.CHECK_S", 0.05)
    cluster.server.failing["list", WORDS] = [404] * 3
    async with cluster.operating():
        await cluster.populated()
        cluster.scale(2)
        cluster.server.remove("shop", "web-2")
        await eventually(lambda: suspects(cluster) == ["u2"], 20)
        assert left(cluster) == []
        say(cluster)
        await eventually(lambda: cluster.id_of(2) not in cluster.kafka.members, 20)
    assert left(cluster) == [cluster.id_of(2)]


async def test_a_word_that_was_given_while_no_operator_ran_is_heard_by_the_next(cluster: Cluster) -> None:
    async with cluster.operating():
        await cluster.populated()
        cluster.scale(2)
        cluster.server.remove("shop", "web-2")
        await eventually(lambda: suspects(cluster) == ["u2"], 20)
    say(cluster)
    async with cluster.operating("two"):
        await eventually(lambda: cluster.id_of(2) not in cluster.kafka.members, 20)
    assert left(cluster) == [cluster.id_of(2)]


async def test_doctor_names_the_missing_right_and_the_operator_may_do_without_it(cluster: Cluster) -> None:
    cluster.server.denied |= {("watch", WORDS), ("list", WORDS)}
    transport = connect(cluster.server.configuration())
    try:
        operator = Operator(Settings(identity="one", namespace="ops"), transport, kafka=cluster.kafka)
        found = [f async for f in findings(operator)]
    finally:
        await transport.close()
    missing = [f for f in found if not f.is_good and "podendconfirmations" in f.remedy]
    assert [f.is_fatal for f in missing] == [False, False]
    assert "may not list podendconfirmations.staticgroup.io, watch podendconfirmations.staticgroup.io" in missing[0].remedy


async def test_doctor_names_the_missing_right_to_read_words_about_gaps(cluster: Cluster) -> None:
    cluster.server.denied.add(("list", GAP_WORDS))
    transport = connect(cluster.server.configuration())
    try:
        operator = Operator(Settings(identity="one", namespace="ops"), transport, kafka=cluster.kafka)
        found = [f async for f in findings(operator)]
    finally:
        await transport.close()
    (missing,) = [f for f in found if not f.is_good and GAP_WORDS in f.remedy]
    assert (missing.is_fatal, "ClusterRole" in missing.remedy) == (False, True)


async def test_a_word_about_a_gap_is_heard_while_the_operator_runs_and_closes_it_for_every_group(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("staticgroup.runtime.words.CHECK_S", 0.05)
    cluster.server.failing["list", GAP_WORDS] = [404] * 3
    async with cluster.operating():
        await cluster.populated()
    cluster.server.remove("shop", "web-2")
    cluster.server.compact()
    async with cluster.operating("two", group_poll_s=600):
        await eventually(lambda: blind_of(cluster), 20)
        (span,) = blind_of(cluster)
        body = gap_resource("w", since=span["since"], until=span["until"])
        body["metadata"]["creationTimestamp"] = "2999-01-01T00:00:00Z"
        cluster.server.put(body, GAP_WORDS)
        await eventually(lambda: not blind_of(cluster), 20)


def blind_of(cluster: Cluster) -> list[dict[str, Any]]:
    return list((cluster.status.get("continuity") or {}).get("blind") or ())
