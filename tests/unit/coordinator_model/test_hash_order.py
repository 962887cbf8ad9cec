"""The order of a small Java hash map, as a real broker showed it by its choice between equals."""

from __future__ import annotations

import pytest

from coordinator_model.base.hash_order import bucket
from coordinator_model.base.messages import JoinGroupRequest, JoinGroupResponse, Protocol
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.coordinator import GroupCoordinator


def test_buckets_are_those_of_java() -> None:
    """String.hashCode of "range" is 108280125: spread over 16 buckets it is 9."""
    assert {name: bucket(name) for name in ("range", "roundrobin", "sticky", "cooperative-sticky")} == {
        "range": 9, "roundrobin": 10, "sticky": 8, "cooperative-sticky": 15,
    }
    assert bucket("") == 0
    assert bucket("ä€😀") in range(16)


@pytest.mark.parametrize("first", ["range", "roundrobin"])
def test_a_tied_vote_goes_to_the_protocol_that_java_reads_first(first: str) -> None:
    """ClassicGroup.selectProtocol, two members with opposite preferences; seen on Kafka 4.4.0 in both orders."""
    other = "roundrobin" if first == "range" else "range"
    coordinator = GroupCoordinator(BrokerSettings(group_initial_rebalance_delay_ms=1000))
    tickets = []
    for instance, names in (("x", (first, other)), ("y", (other, first))):
        offered = tuple(Protocol(name) for name in names)
        request = JoinGroupRequest(group_id="g", group_instance_id=instance, protocols=offered)
        tickets.append(coordinator.handle(request, 0).ticket)
    completed = coordinator.expire(10_000).completed
    chosen = {c.response.protocol_name for c in completed if isinstance(c.response, JoinGroupResponse)}
    assert (len(completed), chosen) == (len(tickets), {"range"})
