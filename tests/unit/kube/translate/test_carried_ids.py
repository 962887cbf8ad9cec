"""Which variables carry an id: also those with dots in their name, which Spring and SmallRye read as they read INSTANCE_ID.

Kubernetes: env names may hold '.', '_', '-' (`IsEnvVarName`: `[-._a-zA-Z][-._a-zA-Z0-9]*`). Spring Boot: SystemEnvironmentPropertySource
tries the exact name first. SmallRye Config: the exact name is the first of the three that EnvConfigSource tries. Camel: the option of camel-kafka is groupInstanceId.
"""

from __future__ import annotations

import sys

import pytest

from staticgroup.core.evidence.pod import PodVersion
from staticgroup.kube.translate import pod_version
from staticgroup.kube.translate.pods import may_hold_a_seat
from staticgroup.kube.translate.shape import LENGTH_MAX
from support.narrowing import of_type
from unit.kube.raw_objects import at, pod

NAMES = [
    "SPRING_KAFKA_CONSUMER_PROPERTIES_GROUP_INSTANCE_ID", "spring.kafka.consumer.properties.group.instance.id",
    "mp.messaging.incoming.orders.group.instance.id", "kafka.consumers.orders.group-instance-id",
    "camel.component.kafka.configuration.groupInstanceId", "CAMEL_COMPONENT_KAFKA_CONFIGURATION_GROUPINSTANCEID",
]


@pytest.mark.parametrize("name", NAMES)
def test_id_in_whatever_spelling_is_seen(name: str) -> None:
    raw = pod("canary", instance_id=None)
    raw["spec"]["containers"][0]["env"] = [{"name": name, "value": "web-2.3fa9c1d2"}]
    assert may_hold_a_seat(raw)
    version = of_type(PodVersion, pod_version(at(raw, 7)))
    assert version.instance_ids == {"web-2.3fa9c1d2"}


@pytest.mark.parametrize("name", NAMES)
def test_id_of_a_config_map_in_whatever_spelling_can_be_changed(name: str) -> None:
    """So the pod holds the chain of other ids of its name, and a restart of it in a gap leaves no seat clear."""
    raw = pod("web-1", instance_id=None)
    raw["spec"]["containers"][0]["env"] = [
        {"name": "KAFKA_GROUP_INSTANCE_ID", "value": "web-1.3fa9c1d2"},
        {"name": name, "valueFrom": {"configMapKeyRef": {"name": "ids", "key": "orders"}}},
    ]
    version = of_type(PodVersion, pod_version(at(raw, 7)))
    assert not version.ids_are_fixed


@pytest.mark.parametrize("name", ["GROUP_ID", "INSTANCE", "POD_ID", "kafka.group.id"])
def test_other_variables_carry_none(name: str) -> None:
    raw = pod("canary", instance_id=None)
    raw["spec"]["containers"][0]["env"] = [{"name": name, "value": "web-2.3fa9c1d2"}]
    assert not may_hold_a_seat(raw)
    version = of_type(PodVersion, pod_version(at(raw, 7)))
    assert version.instance_ids == frozenset()


@pytest.mark.parametrize("length", [LENGTH_MAX, LENGTH_MAX + 1])
def test_names_of_variables_are_remembered_only_while_they_are_short(length: int) -> None:
    """A name may be as long as its pod is large, and pods that last a moment may bring any number of them."""
    name = "SESSION_TIMEOUT_MS".ljust(length, "X")
    raw = pod("canary", instance_id=None)
    raw["spec"]["containers"][0]["env"] = [{"name": name, "value": "1"}]
    before = sys.getrefcount(name)
    pod_version(at(raw, 7))
    assert (sys.getrefcount(name) > before) is (length <= LENGTH_MAX)
