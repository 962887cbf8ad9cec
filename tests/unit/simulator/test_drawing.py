"""Every value that the resource allows is drawn, every drawn world is one that the API server accepts, and none
twice."""

from __future__ import annotations

import typing
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from random import Random
from typing import Any

import pytest
from pydantic import BaseModel

from simulator.oracles.issued_ids import GroupLife, scope_of
from simulator.schedules import drawing, drawn_changes, drawn_deployments
from simulator.schedules.drawing import Arrival, Drawn, Rivalry, draw_world
from simulator.schedules.drawn_changes import ChangeKind
from simulator.schedules.drawn_deployments import draw_deployment
from simulator.world import settings
from simulator.world.teams import GROUP, Team, static_group
from staticgroup.api.identifiers import IdScheme, identity_scope, resolve_template
from staticgroup.api.injection import client_suffixes, env_suffixes
from staticgroup.api.resources.client import TAKES_ENV, ClientType
from staticgroup.api.resources.staticgroup import StaticGroup, StaticGroupSpec
from staticgroup.api.workloads import WORKLOAD_KINDS
from support.narrowing import some

WORLDS = 3000


@pytest.fixture(scope="module")
def drawn() -> list[Drawn]:
    return [draw_world(Random(f"world/{n}")) for n in range(WORLDS)]


def choices_of(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, set[Any]]]:
    """Yield the path of every field that is an enum or a boolean, with all its values."""
    for name, field in model.model_fields.items():
        for kind in (field.annotation, *typing.get_args(field.annotation)):
            here = f"{path}.{field.alias or name}"
            if isinstance(kind, type) and issubclass(kind, StrEnum):
                yield here, {member.value for member in kind}
            elif kind is bool:
                yield here, {True, False}
            elif isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from choices_of(kind, here)


CHOICES = dict(choices_of(StaticGroupSpec))
UNDRAWN = {".groupProtocol": {"Streams"}, ".connectionRef.kind": {"ClusterKafkaConnection"}}
"""The simulation's applications of Kafka Streams use the classic protocol. The use of a connection is decided apart
from what is done through it, and held by unit tests and mutants."""


UNDRAWN_WORKLOADS = {"StrimziPodSet", "Rollout"} | (set() if settings.DEPLOYED_SHARE else {"Deployment"})
"""The simulation has no controller of StrimziPodSets. What is known of that kind is held by unit tests and mutants, its
rounds by tests/unit/runtime/test_pod_sets.py, and the whole of it on a real API server. Nor has it one of Rollouts, whose
rounds tests/unit/runtime/test_slots_of_rollouts.py holds."""


def value_at(spec: dict[str, Any], path: str) -> Any:
    found: Any = spec
    for part in path.split(".")[1:]:
        found = found[part]
    return found


def test_the_choices_of_the_resource_are_found_at_all() -> None:
    assert {
        ".mode", ".groupProtocol", ".client.type", ".client.injectAgent", ".assumeExclusive", ".removal",
        ".onTopicChange", ".sessionTimeout.writeGroupConfig",
    } <= set(CHOICES)
    assert CHOICES[".removal"] == {"Departed", "DepartedAndCrashed", "Never"}


@pytest.fixture(scope="module")
def specs(drawn: list[Drawn]) -> list[dict[str, Any]]:
    return [StaticGroup.from_wire(_body(d.world.team)).spec.to_wire() for d in drawn]


@pytest.mark.parametrize("path", sorted(CHOICES))
def test_every_value_of_the_resource_is_drawn(path: str, specs: list[dict[str, Any]]) -> None:
    """A value that a new version adds must get a weight, or the operator is never seen under it."""
    assert {value_at(spec, path) for spec in specs} == CHOICES[path] - UNDRAWN.get(path, set())


def test_every_kind_of_workload_is_drawn(drawn: list[Drawn]) -> None:
    known = {kind.kind for kind in WORKLOAD_KINDS}
    found = {team.kind for d in drawn for team in (some(d.world.team), *d.world.others)}
    assert found == known - UNDRAWN_WORKLOADS


@pytest.fixture(scope="module")
def carts() -> list[Team]:
    return [
        draw_deployment(Random(f"deployment/{n}"), protocol=("classic", "consumer")[n % 2], session_s=30)
        for n in range(1000)
    ]


def test_every_way_in_which_a_deployment_rolls_is_drawn(carts: list[Team]) -> None:
    assert {team.replicas for team in carts} == set(range(1, 7))
    strategies = [team.set_spec["strategy"] for team in carts]
    assert {each["type"] for each in strategies} == {"RollingUpdate", "Recreate"}
    rolling = [each["rollingUpdate"] for each in strategies if each["type"] == "RollingUpdate"]
    assert {(each["maxSurge"], each["maxUnavailable"]) for each in rolling} == set(drawn_deployments.ROLLING)
    assert all(0 not in pair or set(pair) != {0} for pair in drawn_deployments.ROLLING), "one of them is at least 1"
    assert any("minReadySeconds" in team.set_spec for team in carts)
    inits = {c["name"] for team in carts for c in team.pod_spec.get("initContainers", ())}
    assert inits == {"migrate", "proxy"}


def test_no_deployment_is_drawn_that_the_api_server_refuses(carts: list[Team]) -> None:
    for team in carts:
        spec = StaticGroup.from_wire(static_group(team)).spec.to_wire()
        assert spec["workloadRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "cart"}
        assert spec["client"]["type"] not in ("Connect", "Debezium", "Own"), "ids of its pods are injected"
        assert "{ordinal}" not in team.template, "its pods have none"
        assert "{podName}" in team.template
        assert not (spec["removal"] == "DepartedAndCrashed" and spec["groupProtocol"] == "Classic")
        assert all(entry["container"] == team.container for entry in team.client.get("env", ()))


def test_what_else_a_seed_draws_does_not_depend_on_deployments(
    monkeypatch: pytest.MonkeyPatch, drawn: list[Drawn]
) -> None:
    monkeypatch.setattr(settings, "DEPLOYED_SHARE", 1.0)
    found = [draw_world(Random(f"world/{n}")) for n in range(300)]
    for before, after in zip(drawn, found, strict=False):
        kept = tuple(team for team in after.world.others if not team.is_of_slots)
        others = tuple(team for team in before.world.others if not team.is_of_slots)
        assert replace(after, world=replace(after.world, others=kept)) == replace(
            before, world=replace(before.world, others=others)
        )
        assert (after.world.others != kept) == (not some(after.world.team).is_of_workers)


def test_ids_of_slots_in_the_ground_truth_are_those_of_the_product(carts: list[Team]) -> None:
    for team in carts[:200]:
        life = GroupLife(team.namespace, team.name, GROUP, team.workload, "5ca1ab1e", is_of_slots=True)
        life.take(team.spec, 0.0)
        spec = StaticGroup.from_wire(static_group(team)).spec
        template = resolve_template(
            spec.template, namespace=team.namespace, workload_name=team.workload, group_name=team.name,
            scope="5ca1ab1e",
        )
        scheme = IdScheme(
            template=template, workload_name=team.workload, env_suffixes=env_suffixes(spec.client),
            suffixes=client_suffixes(spec.client),
        )
        expected = {str(i) for i in scheme.expected_ids(1234567, 1)}
        assert not any(life.issued(i) for i in expected)
        for suffix in env_suffixes(spec.client):
            assert life.note_given(template.replace("{podName}", "cart-1234567") + suffix) == 1234567
        assert life.ids_of({1234567}) == expected
        assert life.note_given("cart-x" + template.replace("{podName}", "")) is None


def test_applications_of_kafka_streams_are_drawn_with_one_thread_and_more(specs: list[dict[str, Any]]) -> None:
    found = [spec for spec in specs if spec["client"]["type"] == "KafkaStreams"]
    assert {spec["client"]["concurrency"] for spec in found} == {1, 2, 3}
    assert {spec["groupProtocol"] for spec in found} == {"Auto", "Classic"}
    assert len(found) >= WORLDS * 0.05


def test_every_field_without_a_default_is_drawn_written_and_left_out(drawn: list[Drawn]) -> None:
    """Each type of client comes with a written template and without one, and with each field that it may have."""
    with_template: defaultdict[str, set[bool]] = defaultdict(set)
    fields: defaultdict[str, set[str]] = defaultdict(set)
    timeouts: set[tuple[str, ...]] = set()
    for d in drawn:
        team = some(d.world.team)
        with_template[team.client["type"]].add("idTemplate" in team.spec)
        fields[team.client["type"]] |= set(team.client)
        timeouts.add(tuple(team.spec.get("sessionTimeout", {})))
    assert with_template == {each: {True, False} for each in ClientType}
    for each, found in fields.items():
        is_of_workers = each in ("Connect", "Debezium")
        assert ("env" in found) == (each in TAKES_ENV), each
        assert ("container" in found) == (each != "Custom"), "Custom names it in its env"
        assert ("suffixes" in found) == (each != "KafkaStreams" and not is_of_workers), each
        assert ("concurrency" in found) == (each in ("SpringBoot", "KafkaStreams")), each
        assert ("injectAgent" in found) == is_of_workers, each
    assert timeouts == {(), ("seconds",), ("minSeconds", "maxSeconds"), ("maxSeconds",), ("writeGroupConfig",)}


def test_no_world_is_drawn_that_the_api_server_refuses(drawn: list[Drawn]) -> None:
    """The rules of the resource across its fields, which no structural schema tells."""
    for team in (team for d in drawn for team in (some(d.world.team), *d.world.others)):
        spec, client = team.spec, team.client
        kind, is_of_workers = client.get("type", "Generic"), team.is_of_workers
        timeout = spec.get("sessionTimeout", {})
        assert not ("seconds" in timeout and {"minSeconds", "maxSeconds"} & set(timeout))
        assert timeout.get("minSeconds", 0) <= timeout.get("maxSeconds", 1800)
        if spec["groupProtocol"] == "Consumer":
            assert kind != "KafkaStreams"
            assert not is_of_workers
        if spec["removal"] == "DepartedAndCrashed":
            assert spec["groupProtocol"] != "Classic"
            assert not is_of_workers
        assert kind != "Custom" or client["env"]
        assert not client.get("env") or kind in TAKES_ENV
        assert not (client.get("env") and client.get("container"))
        assert client.get("concurrency", 1) == 1 or kind in ("SpringBoot", "KafkaStreams")
        if client.get("suffixes"):
            assert client.get("concurrency", 1) == 1
            assert kind != "KafkaStreams"
            assert not is_of_workers
        assert not client.get("injectAgent") or (is_of_workers and not client.get("env"))
        if kind == "Own":
            assert all("INSTANCE_ID" in entry["instanceIdName"] for entry in client.get("env", ()))


def _body(team: Any) -> dict[str, Any]:
    return static_group(team)


def test_every_table_of_weights_names_every_value() -> None:
    tables = [t for m in (drawing, drawn_changes) for t in vars(m).values() if isinstance(t, dict) and t and isinstance(next(iter(t)), StrEnum)]
    assert len(tables) >= 9
    for table in tables:
        assert set(table) == set(type(next(iter(table))))
        assert all(weight > 0 for weight in table.values())


def test_every_way_to_come_and_every_rivalry_is_drawn(drawn: list[Drawn]) -> None:
    assert {d.arrival for d in drawn} == set(Arrival)
    seen: dict[Rivalry, int] = defaultdict(int)
    for d in drawn:
        for other in d.world.others:
            if other.replicas == 0:
                seen[Rivalry.SAME_WORKLOAD] += 1
            else:
                seen[Rivalry.APART if other.is_scoped else Rivalry.SAME_IDS] += 1
    assert set(seen) == set(Rivalry) - {Rivalry.NOBODY}
    assert all(count >= WORLDS * 0.01 for count in seen.values()), seen


def test_every_change_of_members_is_drawn_where_there_can_be_one(drawn: list[Drawn]) -> None:
    changed = [(d, change) for d in drawn for change in d.changes]
    seen = Counter(change.kind for _, change in changed)
    assert set(seen) == set(ChangeKind)
    assert all(count >= WORLDS * 0.03 for count in seen.values()), seen
    assert {change.is_in_spec for _, change in changed} == {True, False}
    assert len({kinds for d in drawn if len(kinds := tuple(c.kind for c in d.changes)) > 1}) >= 5, "two of them meet"
    for d, change in changed:
        team = some(d.world.team)
        if change.kind is ChangeKind.PROTOCOL:
            assert team.client["type"] not in ("KafkaStreams", "Connect", "Debezium"), "these do not speak KIP-848"
        if change.kind is ChangeKind.OUTSIDER:
            assert not team.is_scoped
            assert not team.spec["assumeExclusive"], "it would be false"
            assert all(other.is_of_slots for other in d.world.others)


def test_what_else_a_seed_draws_does_not_depend_on_changes(monkeypatch: pytest.MonkeyPatch, drawn: list[Drawn]) -> None:
    """Seeds that are known to show something go on to show it, as long as nothing of this kind happens in them."""
    monkeypatch.setattr(drawn_changes, "CHANGED_SHARE", 0.0)
    for n, before in enumerate(drawn[:300]):
        without = draw_world(Random(f"world/{n}"))
        assert without.changes == ()
        if not any(change.kind is ChangeKind.OUTSIDER for change in before.changes):
            assert replace(before, changes=()) == without


def test_clusters_old_and_new_are_drawn(drawn: list[Drawn]) -> None:
    worlds = [d.world for d in drawn]
    for name in ("has_policy", "has_webhook", "has_index_label", "has_failure_recovery", "is_observing"):
        assert {getattr(w, name) for w in worlds} == {True, False}, name
    assert {w.watched for w in worlds} == {0, 25}
    assert all(not w.has_policy for w in worlds if not w.has_index_label), "the policy is younger than the label"
    assert {(w.has_policy, w.has_webhook) for w in worlds if w.has_index_label} == {
        (True, True),
        (True, False),
        (False, True),
        (False, False),
    }
    strategies = {w.team.set_spec["updateStrategy"]["type"] for w in worlds if w.team is not None}
    assert strategies == {"RollingUpdate", "OnDelete"}
    assert any("partition" in w.team.set_spec["updateStrategy"].get("rollingUpdate", {}) for w in worlds if w.team)
    assert any("ordinals" in w.team.set_spec for w in worlds if w.team)
    containers = {c["name"] for w in worlds if w.team for c in w.team.pod_spec.get("initContainers", ())}
    assert containers == {"migrate", "proxy"}


def test_ids_meet_only_where_everybody_has_said_that_they_do_not(drawn: list[Drawn]) -> None:
    meeting = [(d.world.team, other) for d in drawn for other in d.world.others if not (other.is_scoped or other.is_of_slots)]
    assert len(meeting) >= WORLDS * 0.01
    for team, other in meeting:
        assert team is not None
        assert team.spec["assumeExclusive"]
        assert other.spec["assumeExclusive"]
        assert other.namespace != team.namespace


def test_the_same_source_draws_the_same_world() -> None:
    assert draw_world(Random("one")) == draw_world(Random("one"))
    assert draw_world(Random("one")) != draw_world(Random("two"))


def test_ids_of_the_ground_truth_are_those_of_the_product(drawn: list[Drawn]) -> None:
    """Two statements of one rule: if they differ, either the oracles or the operator would be wrong."""
    for d in drawn[:400]:
        for team in (d.world.team, *d.world.others):
            assert team is not None
            place = team.namespace, team.name
            scope = scope_of("cluster", *place, "uid")
            assert scope == identity_scope(cluster_uid="cluster", namespace=place[0], name=place[1], uid="uid")
            life = GroupLife(*place, GROUP, team.workload, scope)
            life.take(team.spec, 0.0)
            spec = StaticGroup.from_wire(static_group(team)).spec
            template = resolve_template(
                spec.template, namespace=place[0], workload_name=team.workload, group_name=place[1], scope=scope
            )
            scheme = IdScheme(
                template=template, workload_name=team.workload, env_suffixes=env_suffixes(spec.client),
                suffixes=client_suffixes(spec.client),
            )
            assert life.ids_of(range(2, 7)) == {str(i) for i in scheme.expected_ids(2, 5)}


def test_an_id_of_an_earlier_template_stays_issued_and_is_current_no_more() -> None:
    life = GroupLife("shop", "orders", "orders", "web", "5ca1ab1e")
    life.take({}, 1.0)
    life.take({"idTemplate": "{podName}.{scope}", "mode": "Observe"}, 2.0)
    life.take({"idTemplate": "{podName}.{scope}", "client": {"type": "Own"}}, 2.5)
    life.take({"idTemplate": "{ordinal}.{scope}"}, 3.0)
    assert [since_s for since_s, _ in life.versions] == [1.0, 3.0]
    assert life.issued("web-1.5ca1ab1e")
    assert life.current("web-1.5ca1ab1e") is None
    assert life.current("1.5ca1ab1e") is not None
    assert not life.issued("web-1")


NOT_DRAWN = {
    "namespace", "identity", "lease_name", "policy_name", "webhook_name", "slots_name",  # names
    # the edges, which a model replaces
    "secret_label", "allow_loopback", "tokens_path", "aws_msk_iam", "health_port", "log_level", "log_format",
    "journal_kafka_connection", "journal_kafka_topic", "journal_files_path", "journal_files_max_mib",
    "journal_files_count", "journal_queue",
    "recommendations_source", "recommendations_poll_s",
    "docs_url",  # a word at the end of messages
    # without it one process at a time is the promise of others, which the simulated mishaps do not keep
    "leader_election",
}  # fmt: skip


def test_every_setting_that_may_change_what_an_operator_does_is_drawn_and_allowed(drawn: list[Drawn]) -> None:
    """Each setting that the chart allows is drawn, the times of the Lease together: each of them outlasts the next."""
    values: defaultdict[str, set[Any]] = defaultdict(set)
    for each in drawn:
        # refuses what the chart refuses
        settings = each.world.of_operator(watch_namespaces=("shop",) * each.world.watched)
        for name, value in settings:
            values[name].add(value)
    assert {name for name, found in values.items() if len(found) == 1} == NOT_DRAWN
