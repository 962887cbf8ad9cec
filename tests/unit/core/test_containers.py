"""Which container of a pod receives the variables: the Kafka client's, wherever charts and meshes put it."""

from __future__ import annotations

import pytest

from staticgroup.api.resources.client import Client
from staticgroup.core.workload import ContainerBudget, consumer_container


def chosen(*containers: str, reads: str = "", **client: object) -> str:
    named = [ContainerBudget(name=c, env_names=("KAFKA_GROUP_INSTANCE_ID",) if c == reads else ()) for c in containers]
    return consumer_container(Client.model_validate(client), named)


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        (("app",), "app"),
        (("istio-proxy", "app"), "app"),
        (("linkerd-proxy", "orders"), "orders"),
        (("prometheus-jmx-exporter", "cp-kafka-connect-server"), "cp-kafka-connect-server"),
        (("cloud-sql-proxy", "vault-agent", "web"), "web"),
        (("web", "worker"), "web"),
        (("kafka-exporter",), "kafka-exporter"),
        (("istio-proxy", "fluent-bit"), "istio-proxy"),
        ((), ""),
    ],
)
def test_known_sidecars_are_passed_over(containers: tuple[str, ...], expected: str) -> None:
    assert chosen(*containers) == expected


def test_the_one_that_has_the_variable_comes_first() -> None:
    assert chosen("app", "istio-proxy", "worker", reads="worker") == "worker"
    assert chosen("app", "daprd", reads="daprd") == "daprd"


def test_the_spec_has_the_first_word() -> None:
    assert chosen("app", "worker", reads="worker", container="daprd") == "daprd"


def test_of_several_the_first_that_has_it() -> None:
    both = [ContainerBudget(name=name, env_names=("KAFKA_GROUP_INSTANCE_ID",)) for name in ("one", "two")]
    assert consumer_container(Client(), both) == "one"
