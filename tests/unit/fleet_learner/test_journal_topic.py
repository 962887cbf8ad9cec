"""A missing, unreadable or replaced topic of a journal: the error, and the kept position."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from fleet_learner.errors import SourceError, UnreachableError
from fleet_learner.sources import kafka
from fleet_learner.sources.journal_topic import JournalTopic
from fleet_learner.sources.topic import DataLossError, Identity, Range, StalledError, Watermarks

GRANT = r"kafka-acls --add --allow-principal User:<name> --operation Read --topic j"
LOG = {"kafka_cluster_id": "kafka-1", "topic_ids": {"j": "first"}}


@dataclass
class Broker:
    """A connection to brokers with these logs; `refusal` is what reading comes to."""

    logs: dict[str, dict[int, Watermarks]] = field(default_factory=dict)
    cluster: str | None = "kafka-1"
    ids: dict[str, str] = field(default_factory=dict)
    refusal: Exception | None = None
    asked: list[Range] = field(default_factory=list)

    def watermarks(self, topics: tuple[str, ...]) -> dict[str, dict[int, Watermarks]]:
        return {topic: self.logs.get(topic, {}) for topic in topics}

    def identity(self, topics: tuple[str, ...]) -> Identity:
        return Identity(self.cluster, {topic: self.ids[topic] for topic in topics if topic in self.ids})

    def read(self, wanted: Range) -> Iterator[list[Any]]:
        self.asked.append(wanted)
        if self.refusal is not None:
            raise self.refusal
        yield [object()]

    def close(self) -> None:
        pass


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    """Return the brokers behind every connection of a test."""
    standing = Broker({"j": {0: Watermarks(0, 150)}}, ids={"j": "first"})
    monkeypatch.setattr(kafka, "TopicReader", lambda *_, **__: standing)
    return standing


def source(topics: str = "j", label: str = "", **more: str) -> JournalTopic:
    return JournalTopic({"kafka.bootstrap.servers": "b:1", "subscribe": topics, **more}, label=label)


def test_a_plan_says_which_log_it_is_of_and_the_next_one_holds_it_against_that(broker: Broker) -> None:
    first = source().plan({})
    assert first == {"start": {"j": {"0": 0}}, "end": {"j": {"0": 150}}, "log": LOG}
    again = source().plan(first["end"], first["log"])
    assert again == {"start": first["end"], "end": first["end"], "log": LOG}


def test_a_topic_that_is_not_there_or_may_not_be_described_is_no_empty_one(broker: Broker) -> None:
    """Kafka does not show topics without the right to them."""
    broker.logs = {}
    with pytest.raises(SourceError, match=rf"kafka:j: b:1 shows no topic j: no operator has written .* {GRANT}"):
        source().plan({})
    with pytest.raises(SourceError, match="shows no topic j"):
        source().plan({"j": {"0": 100}}, LOG)
    with pytest.raises(SourceError, match="shows no topic j"):
        source().recheck({"start": {"j": {"0": 0}}, "end": {"j": {"0": 150}}})


def test_of_several_topics_the_one_that_is_not_there_keeps_its_position(broker: Broker) -> None:
    plan = source("j,k").plan({"k": {"0": 7}}, {})
    assert (plan["start"], plan["end"]) == ({"j": {"0": 0}, "k": {"0": 7}}, {"j": {"0": 150}, "k": {"0": 7}})
    assert [text.split(":")[3] for text in plan["left_out"]] == ["1 shows no topic k"]


def test_a_topic_that_may_be_described_and_not_read_is_named_before_a_run_begins(broker: Broker) -> None:
    broker.refusal = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    for ask in (lambda: source().plan({"j": {"0": 100}}, LOG), lambda: source().recheck(source_plan())):
        with pytest.raises(SourceError, match=rf"kafka:j: no right to read j: {GRANT}"):
            ask()
    assert broker.asked == [Range("j", 0, 100, 101)] * 2
    assert source().plan({"j": {"0": 150}}, LOG)["end"] == {"j": {"0": 150}}, "without news nothing is read"
    broker.refusal = StalledError("nothing beyond 100")
    with pytest.raises(SourceError, match="kafka:j: nothing beyond 100"):
        source().plan({"j": {"0": 100}}, LOG)
    broker.refusal = KafkaException(KafkaError(KafkaError._TRANSPORT))
    with pytest.raises(UnreachableError, match="kafka:j: b:1 does not answer"):
        source().plan({"j": {"0": 100}}, LOG)


def source_plan() -> dict[str, Any]:
    return {"start": {"j": {"0": 100}}, "end": {"j": {"0": 150}}, "log": LOG}


@pytest.mark.parametrize(("label", "place"), [("", "instead of kafka"), ("far", "another name below kafka_clusters")])
@pytest.mark.parametrize("high", [50, 150])
def test_a_topic_that_was_made_again_is_refused_however_long_it_is(
    broker: Broker, high: int, label: str, place: str
) -> None:
    """If it were longer than the old position, its beginning would be skipped silently."""
    broker.logs, broker.ids = {"j": {0: Watermarks(0, high)}}, {"j": "second"}
    for ask in (
        lambda: source(label=label).plan({"j": {"0": 100}}, LOG),
        lambda: source(label=label).recheck(source_plan()),
    ):
        with pytest.raises(
            DataLossError, match=rf"made again since it was read; to read what is there from its beginning.*{place}"
        ):
            ask()


def test_another_kafka_cluster_at_the_same_address_is_refused(broker: Broker) -> None:
    broker.cluster = "kafka-2"
    with pytest.raises(
        DataLossError, match=r"b:1 is the Kafka cluster kafka-2, and kafka-1 was read; .* kafka_clusters"
    ):
        source().plan({"j": {"0": 100}}, LOG)


@pytest.mark.parametrize("log", [None, {}, {"kafka_cluster_id": None, "topic_ids": {}}])
def test_positions_of_an_earlier_version_are_gone_on_from_and_say_from_now_on_of_what_they_are(
    broker: Broker, log: dict[str, Any] | None
) -> None:
    assert source().plan({"j": {"0": 100}}, log) == source_plan()


def test_brokers_that_tell_less_for_once_change_nothing(broker: Broker) -> None:
    broker.cluster, broker.ids = None, {}
    assert source().plan({"j": {"0": 100}}, LOG) == source_plan()


def test_a_log_that_ends_before_what_was_read_says_what_to_do(broker: Broker) -> None:
    broker.logs, broker.ids = {"j": {0: Watermarks(0, 50)}}, {}
    for lax in ("true", "false"):
        with pytest.raises(
            DataLossError, match=r"kafka:j: j-0 was read up to 100, and now ends before it: .* kafka_clusters"
        ):
            source(failOnDataLoss=lax).plan({"j": {"0": 100}}, {})


def test_retention_that_was_faster_leaves_the_source_out_until_that_is_allowed(broker: Broker) -> None:
    broker.logs = {"j": {0: Watermarks(120, 150)}}
    for ask in (lambda: source().plan({"j": {"0": 100}}, LOG), lambda: source().recheck(source_plan())):
        with pytest.raises(
            DataLossError, match=r'begins at 120 by now, and was read up to 100: .* failOnDataLoss: "false"'
        ):
            ask()
    lax = source(FailOnDataLoss="false")
    assert lax.plan({"j": {"0": 100}}, LOG) == source_plan()
    assert lax.recheck(source_plan()) == source_plan()
    assert broker.asked == [Range("j", 0, 120, 121)] * 2
