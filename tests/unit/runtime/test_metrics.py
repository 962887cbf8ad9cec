"""What is counted and gauged of a StaticGroup, by rounds of the real reconciler."""

from __future__ import annotations

import sys

import pytest
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from staticgroup import __version__
from staticgroup.runtime.process.metrics import OF_GROUP, GroupGauge, Metrics, export_process
from staticgroup.runtime.webhook.server import WebhookMetrics

from .operator_world import KEY, UNREACHABLE, OperatorWorld, static_group


def value(world: OperatorWorld, name: str, **labels: str) -> float | None:
    return world.reconciler.metrics.registry.get_sample_value(
        f"staticgroup_{name}", {"namespace": KEY[0], "staticgroup": KEY[1], **labels}
    )


def conditions(world: OperatorWorld) -> dict[str, tuple[str, str]]:
    (family,) = world.reconciler.metrics.condition.collect()
    assert all(s.value == 1 for s in family.samples)
    found = [(s.labels["type"], (s.labels["status"], s.labels["reason"])) for s in family.samples]
    assert len(dict(found)) == len(found), "a condition has one status and one reason"
    return dict(found)


async def restart(world: OperatorWorld, ordinal: int) -> None:
    """A pod is replaced, and its successor joins under its id."""
    world.end(ordinal, f"u{ordinal}")
    await world.round()
    world.start(ordinal, f"u{ordinal}b")
    await world.round()


async def test_every_member_that_came_back_in_a_roll_is_one_static_rejoin() -> None:
    world = await OperatorWorld().started()
    assert value(world, "static_rejoins_total") == 0
    for ordinal in (2, 1, 0):
        await restart(world, ordinal)
    assert value(world, "static_rejoins_total") == 3
    await world.settled(3)
    assert value(world, "static_rejoins_total") == 3


async def test_member_that_comes_back_through_a_rebalance_is_none() -> None:
    world = await OperatorWorld().started()
    world.end(1)
    world.kafka.members.pop(world.id_of(1))
    await world.round()
    world.start(1, "u1b")
    await world.round()
    world.kafka.state = "PreparingRebalance"
    world.kafka.join(world.id_of(2))
    await world.round()
    assert value(world, "static_rejoins_total") == 0


async def test_member_whose_seat_is_not_wanted_any_more_is_not_counted() -> None:
    """A zombie that joins afresh has saved no rebalance."""
    world = await OperatorWorld().started()
    world.scale(2)
    await world.round()
    world.kafka.join(world.id_of(2))
    await world.round()
    assert value(world, "static_rejoins_total") == 0


async def test_what_another_replica_saw_meanwhile_is_not_counted() -> None:
    world = await OperatorWorld().started()
    world.kafka.join(world.id_of(1))
    world.reconciler.forget_all()
    await world.settled(2)
    assert value(world, "static_rejoins_total") == 0


async def test_fault_of_the_count_fails_no_round(caplog: pytest.LogCaptureFixture) -> None:
    """Here a clock that has no answer."""
    world = await OperatorWorld().started()

    def no_time() -> float:
        raise OSError("no clock")

    world.reconciler.returns.now_s = no_time
    assert not (await world.round()).failed
    assert "returns of members could not be counted" in caplog.text


async def test_each_condition_is_gauged_with_the_reason_that_it_has_now() -> None:
    world = await OperatorWorld().started()
    assert conditions(world)["Connected"] == ("True", "BrokersReachable")
    world.kafka.problems["describe"] = UNREACHABLE
    await world.settled(2)
    assert conditions(world) == {c.type: (c.status.value, c.reason) for c in world.status.conditions}
    assert conditions(world)["Connected"] == ("False", "BrokersUnreachable")


async def test_suspects_are_counted_for_as_long_as_they_hold_new_members() -> None:
    world = await OperatorWorld().started()
    assert value(world, "suspects") == 0
    world.remove_object(2)
    world.start(2, "u2b", joins=False)
    del world.kafka.members[world.id_of(2)]
    await world.settled(2)
    assert value(world, "suspects") == 1
    for _ in range(12):
        world.now_s += 60
        await world.round()
    assert value(world, "suspects") == 0


async def test_suspended_group_has_no_figures() -> None:
    world = await OperatorWorld().started()
    await world.loses(2)
    assert value(world, "removals_held", guard="Suspect") == 1
    world.declare(static_group(generation=2, mode="Suspended"))
    await world.round()
    assert value(world, "removals_held", guard="Suspect") is None
    assert value(world, "members", **{"class": "joined"}) is None
    assert value(world, "ready") == 0
    assert conditions(world)["Ready"] == ("False", "Suspended")


async def test_nothing_is_left_of_a_group_that_is_gone() -> None:
    world = await OperatorWorld().started()
    await restart(world, 1)
    world.delete_group()
    await world.round()
    left = [s for m in world.reconciler.metrics.registry.collect() for s in m.samples if s.labels.get("staticgroup")]
    assert left == []


# gauges of StaticGroups read as the client library's own, and show each StaticGroup what it has now


SERIES = [
    ("shop", "orders", "Ready", "True"),
    ("shop", "orders", 'Odd\\ "name"\n', "False"),
    ("bill", "orders", "Ready", "False"),
]


def test_the_text_is_that_of_the_client_library() -> None:
    theirs, ours = CollectorRegistry(), CollectorRegistry()
    gauge = Gauge("held", "What is held.", (*OF_GROUP, "type", "status"), registry=theirs)
    mine = GroupGauge("held", "What is held.", ("type", "status"), registry=ours)
    for number, labels in enumerate(SERIES):
        gauge.labels(*labels).set(number)
    mine.show(("shop", "orders"), {SERIES[0][2:]: 0, SERIES[1][2:]: 1})
    mine.show(("bill", "orders"), {SERIES[2][2:]: 2})
    assert generate_latest(ours) == generate_latest(theirs)


def test_a_staticgroup_has_what_was_shown_last() -> None:
    registry = CollectorRegistry()
    gauge = GroupGauge("held", "What is held.", ("guard",), registry=registry)
    gauge.show(("shop", "orders"), {("A",): 1, ("B",): 2})
    gauge.show(("shop", "payments"), {("A",): 3})
    gauge.show(("shop", "orders"), {("B",): 4})
    (family,) = text_string_to_metric_families(generate_latest(registry).decode())
    shown = {(s.labels["staticgroup"], s.labels["guard"]): s.value for s in family.samples}
    assert shown == {("orders", "B"): 4, ("payments", "A"): 3}
    gauge.show(("shop", "orders"), {})
    assert registry.get_sample_value("held", {"namespace": "shop", "staticgroup": "orders", "guard": "B"}) is None
    gauge.clear()
    (family,) = text_string_to_metric_families(generate_latest(registry).decode())
    assert family.samples == []


@pytest.mark.parametrize("is_one_gone", [True, False], ids=["one is gone", "the Lease is lost"])
def test_what_is_forgotten_has_no_series(is_one_gone: bool) -> None:
    metrics, key = Metrics(), ("shop", "orders")
    metrics.ready.show(key, {(): 1})
    metrics.condition.show(key, {("Ready", "True", "Reconciled"): 1})
    metrics.removed.labels(*key).inc()
    assert b'staticgroup="orders"' in generate_latest(metrics.registry)
    metrics.forget(*key) if is_one_gone else metrics.forget_all()
    metrics.forget("shop", "never-seen")
    assert b'staticgroup="orders"' not in generate_latest(metrics.registry)


# of the process


LEASE = "ops/staticgroup-operator"


def page(registry: CollectorRegistry) -> dict[str, list[dict[str, str]]]:
    """Return the labels of all series of a page, by the name of the series."""
    found: dict[str, list[dict[str, str]]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.labels)
    return found


def test_the_version_is_told() -> None:
    metrics = Metrics()
    assert page(metrics.registry)["staticgroup_build_info"] == [{"version": __version__}]
    assert metrics.registry.get_sample_value("staticgroup_build_info", {"version": __version__}) == 1


def test_what_is_said_of_a_release_names_its_lease() -> None:
    """Several releases may be scraped as one job, and the silence of one must not hide behind another."""
    metrics = Metrics(lease=LEASE)
    metrics.refused("Invalid")
    found = page(metrics.registry)
    for name in ("staticgroup_lease_held", "staticgroup_watch_age_seconds"):
        assert found[name] == [{"lease": LEASE}]
    assert found["staticgroup_status_refused_total"] == [{"lease": LEASE, "reason": "Invalid"}]


@pytest.mark.parametrize("make", [Metrics, WebhookMetrics])
def test_no_series_says_when_another_began(make: type[Metrics] | type[WebhookMetrics]) -> None:
    metrics = make()
    if isinstance(metrics, Metrics):
        metrics.rounds.labels("done").inc()
    else:
        metrics.reviews.labels("Injected").inc()
    names = set(page(metrics.registry))
    assert [name for name in names if name.endswith("_total")]
    assert [name for name in names if name.endswith("_created")] == []


@pytest.mark.skipif(sys.platform != "linux", reason="the client library reads /proc")
def test_a_process_tells_its_memory_and_its_processor_time_and_a_simulated_one_does_not() -> None:
    registry = Metrics().registry
    assert not [name for name in page(registry) if name.startswith("process_")]
    export_process(registry)
    assert {"process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds"} <= set(page(registry))
