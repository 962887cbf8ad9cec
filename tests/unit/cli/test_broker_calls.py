"""What brokers of other ages and makers lack is named with what does not work then."""

from __future__ import annotations

import pytest

from staticgroup.cli.operator.brokers import NEEDS, lacking
from staticgroup.kafka.gateway import ClusterFacts, KioGateway
from staticgroup.kafka.login.credentials import ConnectionSettings
from staticgroup.kafka.wire import Api
from unit.kafka.fake_broker import KAFKA_2_3, KAFKA_3_7, MODERN, SASL, Cluster, FakeBroker

CLASSIC_ONLY = SASL | {3: (0, 9), 10: (0, 3), 11: (0, 7), 12: (0, 4), 13: (0, 4), 15: (0, 5), 16: (0, 4), 32: (1, 4)}
"""As brokers of another maker that do not know KIP-848."""


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        (MODERN, []),
        (KAFKA_3_7, []),
        (CLASSIC_ONLY, ["LEAVE_GROUP 5", "CONSUMER_GROUP_DESCRIBE 0", "CONSUMER_GROUP_HEARTBEAT 0", "STREAMS_GROUP_HEARTBEAT 0"]),
        (
            KAFKA_2_3,
            ["LEAVE_GROUP 3", "DESCRIBE_GROUPS 4", "CONSUMER_GROUP_DESCRIBE 0", "CONSUMER_GROUP_HEARTBEAT 0", "STREAMS_GROUP_HEARTBEAT 0"],
        ),
    ],
)
def test_each_call_that_is_missing_is_named_once(versions: dict[int, tuple[int, int]], expected: list[str]) -> None:
    assert [f"{need.api.name} {need.version}" for need in lacking(versions)] == expected


@pytest.mark.parametrize("need", NEEDS, ids=lambda need: f"{need.api.name}-{need.version}")
def test_version_below_the_one_that_is_needed_is_found(need: object) -> None:
    assert isinstance(need, type(NEEDS[0]))
    below = MODERN | {need.api: (0, need.version - 1)}
    assert need.api in [each.api for each in lacking(below)]


async def test_what_the_gateway_reports_is_all_that_is_judged() -> None:
    cluster = Cluster()
    broker = await FakeBroker(cluster, versions=CLASSIC_ONLY).start()
    gateway = KioGateway()
    facts = await gateway.probe(ConnectionSettings(bootstrap_servers=(broker.address,), allow_loopback=True))
    assert isinstance(facts, ClusterFacts)
    assert list(lacking(facts.api_versions)) == list(lacking(CLASSIC_ONLY))
    assert {need.api for need in NEEDS} <= {Api(key) for key in {**facts.api_versions, 68: (0, 0), 69: (0, 0), 88: (0, 0)}}
    await gateway.close()
    await broker.stop()
