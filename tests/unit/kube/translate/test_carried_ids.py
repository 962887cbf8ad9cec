"""Which variables carry an id: also those with dots in their name, which Spring and SmallRye read as they read INSTANCE_ID.

Kubernetes: env names may hold '.', '_', '-' (`IsEnvVarName`: `[-._a-zA-Z][-._a-zA-Z0-9]*`). Spring Boot: SystemEnvironmentPropertySource
tries the exact name first. SmallRye Config: the exact name is the first of the three that EnvConfigSource tries. Camel: the option of camel-kafka is groupInstanceId.
"""

from __future__ import annotations

import sys
from typing import Any

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


def canary(*env: dict[str, Any]) -> dict[str, Any]:
    raw = at(pod("canary", instance_id=None), 7)
    raw["spec"]["containers"][0]["env"] = [*env]
    return raw


@pytest.mark.parametrize("name", NAMES)
def test_id_in_whatever_spelling_is_seen(name: str) -> None:
    raw = canary({"name": name, "value": "web-2.3fa9c1d2"})
    assert may_hold_a_seat(raw)
    assert of_type(PodVersion, pod_version(raw)).instance_ids == {"web-2.3fa9c1d2"}


@pytest.mark.parametrize("name", NAMES)
def test_id_of_a_config_map_in_whatever_spelling_can_be_changed(name: str) -> None:
    """So the pod holds the chain of other ids of its name, and a restart of it in a gap leaves no seat clear."""
    of_config_map = {"name": name, "valueFrom": {"configMapKeyRef": {"name": "ids", "key": "orders"}}}
    raw = canary({"name": "KAFKA_GROUP_INSTANCE_ID", "value": "web-1.3fa9c1d2"}, of_config_map)
    assert not of_type(PodVersion, pod_version(raw)).ids_are_fixed


@pytest.mark.parametrize("name", ["GROUP_ID", "INSTANCE", "POD_ID", "kafka.group.id"])
def test_other_variables_carry_none(name: str) -> None:
    raw = canary({"name": name, "value": "web-2.3fa9c1d2"})
    assert not may_hold_a_seat(raw)
    assert of_type(PodVersion, pod_version(raw)).instance_ids == frozenset()


@pytest.mark.parametrize("length", [LENGTH_MAX, LENGTH_MAX + 1])
def test_names_of_variables_are_remembered_only_while_they_are_short(length: int) -> None:
    """A name may be as long as its pod is large, and pods that last a moment may bring any number of them."""
    name = "SESSION_TIMEOUT_MS".ljust(length, "X")
    raw = canary({"name": name, "value": "1"})
    before = sys.getrefcount(name)
    pod_version(raw)
    assert (sys.getrefcount(name) > before) is (length <= LENGTH_MAX)
