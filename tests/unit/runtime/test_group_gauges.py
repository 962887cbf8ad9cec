"""Gauges of StaticGroups read as the client library's own, and show each StaticGroup what it has now."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from staticgroup.runtime.process.metrics import OF_GROUP, GroupGauge, Metrics

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
    assert {(s.labels["staticgroup"], s.labels["guard"]): s.value for s in family.samples} == {
        ("orders", "B"): 4,
        ("payments", "A"): 3,
    }
    gauge.show(("shop", "orders"), {})
    assert registry.get_sample_value("held", {"namespace": "shop", "staticgroup": "orders", "guard": "B"}) is None
    gauge.clear()
    (family,) = text_string_to_metric_families(generate_latest(registry).decode())
    assert family.samples == []


def test_two_of_one_name_are_refused() -> None:
    registry = CollectorRegistry()
    GroupGauge("held", "What is held.", registry=registry)
    with pytest.raises(ValueError, match="Duplicated"):
        GroupGauge("held", "What is held.", registry=registry)


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
