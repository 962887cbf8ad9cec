"""Variables that carry an id under a name with dots, which Kubernetes takes and Spring reads as it reads INSTANCE_ID.

Kubernetes: env names may hold '.', '_', '-' (`validation.IsEnvVarName`: `[-._a-zA-Z][-._a-zA-Z0-9]*`). Spring:
`SystemEnvironmentPropertySource` looks for the original name first, then with underscores.
"""

from __future__ import annotations

import pytest

from staticgroup.core.evidence.pod import PodVersion
from staticgroup.kube.pods.watch.seat_filter import may_hold_a_seat
from staticgroup.kube.translate import pod_version
from unit.kube.raw_objects import at, pod

NAMES = [
    "SPRING_KAFKA_CONSUMER_PROPERTIES_GROUP_INSTANCE_ID",
    "spring.kafka.consumer.properties.group.instance.id",
    "mp.messaging.incoming.orders.group.instance.id",
]


@pytest.mark.parametrize("name", NAMES)
def test_id_under_a_name_with_dots_is_seen(name: str) -> None:
    raw = pod("canary", instance_id=None)
    raw["spec"]["containers"][0]["env"] = [{"name": name, "value": "web-2.3fa9c1d2"}]
    assert may_hold_a_seat(raw)
    version = pod_version(at(raw, 7))
    assert isinstance(version, PodVersion)
    assert version.instance_ids == {"web-2.3fa9c1d2"}


@pytest.mark.parametrize("name", NAMES)
def test_id_of_a_config_map_under_a_name_with_dots_can_be_changed(name: str) -> None:
    """So the pod holds the chain of other ids of its name, and a restart of it in a gap leaves no seat clear."""
    raw = pod("web-1", instance_id=None)
    raw["spec"]["containers"][0]["env"] = [
        {"name": "KAFKA_GROUP_INSTANCE_ID", "value": "web-1.3fa9c1d2"},
        {"name": name, "valueFrom": {"configMapKeyRef": {"name": "ids", "key": "orders"}}},
    ]
    version = pod_version(at(raw, 7))
    assert isinstance(version, PodVersion)
    assert not version.ids_are_fixed
