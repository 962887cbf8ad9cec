"""The parts of jobs without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from fleet_learner.configuration import (
    BrokerBounds,
    Configuration,
    ConfigurationError,
    KafkaJournal,
    NamedJournal,
    Stops,
    read_configuration,
)
from fleet_learner.errors import SourceError, UnreachableError
from fleet_learner.intake.ingest import DAY_MS, rewrite_from_ms
from fleet_learner.intake.planning import LEFT_OUT, Horizon, new_plan, revised_plan
from fleet_learner.job import Job
from fleet_learner.lake import Plan, Published
from fleet_learner.sources.journal_topic import JournalTopic
from fleet_learner.sources.topic import DataLossError

CLUSTERS = tuple({"name": name, "bootstrap_servers": f"{name}.example:9092"} for name in ("kafka-1", "kafka-2"))


def test_topics_of_one_name_in_several_kafka_clusters_are_several_sources(tmp_path: Path) -> None:
    """Positions are kept by a source's name: two logs under one would be taken for one that went backwards."""
    both = Configuration.model_validate(
        {"root": tmp_path, "kafka": {"bootstrap_servers": "one.example:9092"}, "kafka_clusters": CLUSTERS}
    )
    job = Job(configuration=both, spark=cast("Any", None), progress=cast("Any", None))
    assert [source.name for source in job.sources()] == [
        "kafka:staticgroup-journal", "kafka/kafka-1:staticgroup-journal", "kafka/kafka-2:staticgroup-journal",
    ]  # fmt: skip


def test_two_kafka_clusters_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(yaml.safe_dump({"root": str(tmp_path), "kafka_clusters": [CLUSTERS[0], CLUSTERS[0]]}))
    with pytest.raises(ConfigurationError, match="two have the name kafka-1"):
        read_configuration(path, {})


class Readable:
    """A source with one position."""

    def __init__(self, name: str, error: SourceError | None = None) -> None:
        self.name = name
        self.error = error

    def plan(self, start: Mapping[str, Any], log: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.error is not None:
            raise self.error
        return {"start": dict(start), "end": {"at": 7}}

    def recheck(self, plan: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.error is not None:
            raise self.error
        return plan

    def frame(self, spark: Any, plan: Mapping[str, Any]) -> Any:
        raise AssertionError("planning reads no record")


@pytest.mark.parametrize("error", [UnreachableError("no broker"), DataLossError("made again"), SourceError("gone")])
def test_a_source_that_cannot_be_read_keeps_its_position_and_stops_no_other(error: SourceError) -> None:
    sources = {"one": {"start": {}, "end": {"at": 3}}, "two": {"start": {}, "end": {"at": 4}}}
    before = Published(plan=Plan(number=5, as_of_ms=1, sources=sources), tables={})
    steps: list[str] = []
    plan = new_plan(before, [Readable("one"), Readable("two", error)], 2, Horizon(), steps.append)
    assert plan.sources == {
        "one": {"start": {"at": 3}, "end": {"at": 7}},
        "two": {"start": {"at": 4}, "end": {"at": 4}},
    }
    assert steps == [f"{LEFT_OUT}{error}"]


BEGUN = Plan(
    number=6, as_of_ms=1, settings={"erased": "d1"},
    sources={"one": {"start": {"at": 3}, "end": {"at": 7}},
             "two": {"start": {"at": 4}, "end": {"at": 9}, "log": {"id": "a"}}},
)  # fmt: skip


@pytest.mark.parametrize("sources", [[Readable("one"), Readable("two", SourceError("lost"))], [Readable("one")]])
def test_an_unfinished_run_goes_on_without_a_source_that_was_lost_meanwhile(sources: list[Readable]) -> None:
    """Unreadable or no longer configured: a later run reads it from its old position."""
    steps: list[str] = []
    plan = revised_plan(BEGUN, sources, steps.append)
    assert plan.sources == {
        "one": BEGUN.sources["one"],
        "two": {"start": {"at": 4}, "end": {"at": 4}, "log": {"id": "a"}},
    }
    assert (plan.number, plan.as_of_ms, plan.settings) == (6, 1, {"erased": "d1"})
    assert len(steps) == 1
    assert steps[0].startswith((f"{LEFT_OUT}lost", f"{LEFT_OUT}run 6 was begun with the source two, which"))
    assert revised_plan(BEGUN, [Readable("one"), Readable("two")], steps.append) == BEGUN


def test_an_unfinished_run_none_of_whose_sources_can_be_read_is_kept() -> None:
    lost = [Readable(name, SourceError(f"{name} is lost")) for name in ("one", "two")]
    with pytest.raises(SourceError, match="one is lost"):
        revised_plan(BEGUN, lost, lambda _: None)
    with pytest.raises(SourceError, match="one is lost"):
        revised_plan(BEGUN, lost[:1], lambda _: None)


def test_sources_that_have_other_names_by_now_are_read_by_the_run_after_an_unfinished_one() -> None:
    plan = revised_plan(BEGUN, [Readable("three")], lambda _: None)
    assert all(each["start"] == each["end"] for each in plan.sources.values())
    lost = Readable("one", SourceError("one is lost"))
    assert revised_plan(BEGUN, [lost, Readable("three")], lambda _: None).sources == plan.sources


def test_one_that_was_never_read_begins_when_it_can_be(tmp_path: Path) -> None:
    silent = Readable("two", UnreachableError("no broker"))
    assert set(new_plan(None, [Readable("one"), silent], 2, Horizon(), lambda _: None).sources) == {"one"}


def test_a_run_whose_only_sources_cannot_be_read_fails_with_the_first_reason() -> None:
    silent = [Readable(name, UnreachableError(f"{name} does not answer")) for name in ("one", "two")]
    with pytest.raises(UnreachableError, match="one does not answer"):
        new_plan(None, silent, 2, Horizon(), lambda _: None)


@pytest.mark.parametrize(
    ("opened_day", "backfill_day", "day"),
    [(None, None, 1), (None, 13, 1), (0, 13, 0), (None, 0, 0), (3, 2, 1), (0, None, 0)],
)
def test_a_backfill_makes_no_fewer_days_again_than_an_ordinary_run(
    opened_day: int | None, backfill_day: int | None, day: int
) -> None:
    """Facts are new to one run only: days that it passes over stay without them."""
    settings = {"rewrite_days": 3, "backfill_from_ms": None if backfill_day is None else backfill_day * DAY_MS + 5}
    opened_ms = None if opened_day is None else opened_day * DAY_MS + 7
    assert rewrite_from_ms(opened_ms, 4 * DAY_MS + 9, settings) == day * DAY_MS


def test_brokers_that_do_not_answer_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loopback port without a listener: the error names the source and the address."""
    monkeypatch.setattr("fleet_learner.sources.topic._REQUEST_TIMEOUT_S", 1.0)
    options = {"kafka.bootstrap.servers": "127.0.0.1:9", "subscribe": "journal"}
    with pytest.raises(UnreachableError, match=r"kafka/far:journal: 127\.0\.0\.1:9 does not answer"):
        JournalTopic(options, label="far").plan({})


def test_a_run_that_left_a_source_out_says_so_and_ends_with_a_status_of_its_own(tmp_path: Path) -> None:
    done: list[str] = []
    progress = cast("Any", SimpleNamespace(done=done.append))
    job = Job(configuration=Configuration(root=tmp_path), spark=cast("Any", None), progress=progress)
    job.step("plan")
    assert (job.status, job.left_out) == (0, [])
    job.step(f"{LEFT_OUT}kafka/far: no broker")
    assert (job.status, job.left_out) == (4, ["kafka/far: no broker"])
    assert done == ["plan", f"{LEFT_OUT}kafka/far: no broker"]


def _keys(model: Any) -> Iterator[tuple[str, Any]]:
    """Every key of the configuration with its default, including sections."""
    for name, known in model.model_fields.items():
        yield name, known.default
    for section in (KafkaJournal, NamedJournal, Stops, BrokerBounds) if model is Configuration else ():
        yield from _keys(section)


def test_the_reference_names_every_key_and_its_default() -> None:
    text = (Path(__file__).parents[3] / "docs/reference/fleet-learner.md").read_text(encoding="utf-8")
    section = text.split("\n## Configuration\n")[1].split("\n## ")[0]
    for name, default in _keys(Configuration):
        assert f"`{name}`" in section, name
        if isinstance(default, int) and not isinstance(default, bool):
            assert re.search(rf"`{name}`( \||) \(?{default}\b", section), (name, default)
