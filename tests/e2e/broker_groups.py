"""Brokers with a topic, and groups of real consumers on them, for tests of the brokers themselves."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from support.devcluster import kafka_broker
from support.devcluster.kafka_admin import BrokerAdmin
from support.devcluster.kafka_broker import Brokers
from support.devcluster.kafka_config import BrokerSettings
from support.devcluster.kafka_member import Member

PASSWORDS = {"admin": "admin-secret", "app": "app-secret", "operator": "operator-secret"}
TOPIC = "orders"


def started(settings: BrokerSettings) -> Iterator[Brokers]:
    kafka_broker.down(settings.name)
    brokers = Brokers.up(settings)
    try:
        BrokerAdmin(brokers.bootstrap).create_topic(TOPIC, partitions=6)
        yield brokers
    finally:
        brokers.down()
    assert kafka_broker.leftovers(settings.name) == []


class Group:
    """The members of one consumer group, ended with the test."""

    def __init__(self, bootstrap: str, group_id: str, protocol: str, security: Mapping[str, str] | None = None) -> None:
        self.group_id = group_id
        self._settings: dict[str, str | int] = {"bootstrap.servers": bootstrap, "group.id": group_id}
        if protocol == "classic":
            self._settings |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 300}
        else:
            self._settings |= {"group.protocol": "consumer"}
        self._settings |= security or {}
        self._members: list[Member] = []

    def start(self, instance_id: str | None = None) -> Member:
        identity: dict[str, str | int] = {"group.instance.id": instance_id} if instance_id else {}
        member = Member({**self._settings, **identity}, TOPIC)
        self._members.append(member)
        return member

    def join(self, instance_id: str | None = None) -> Member:
        member = self.start(instance_id)
        member.wait_for_kind("assigned")
        return member

    def end(self) -> None:
        for member in self._members:
            if member.is_running:
                member.kill()


def ended_groups() -> Iterator[list[Group]]:
    """Yield a list of groups, whose members are ended afterwards."""
    made: list[Group] = []
    yield made
    for group in made:
        group.end()


def make_group(
    groups: list[Group], bootstrap: str, group_id: str, protocol: str, security: Mapping[str, str] | None = None
) -> Group:
    group = Group(bootstrap, group_id, protocol, security)
    groups.append(group)
    return group


def settled(brokers: Brokers, group_id: str, members: int, timeout_s: float = 30.0) -> dict[str, frozenset[int]]:
    """Wait until a group is stable and so many members own all six partitions; returns partitions by member."""
    admin = BrokerAdmin(brokers.bootstrap)
    deadline_s = time.monotonic() + timeout_s
    while True:
        shown = admin.describe_group(group_id)
        owned = {
            member.instance_id or member.member_id: frozenset(partition for _, partition in member.topic_partitions)
            for member in shown.members
        }
        if shown.state == "Stable" and len(owned) == members and sum(map(len, owned.values())) == 6:
            return owned
        assert time.monotonic() < deadline_s, f"group {group_id} did not settle: {shown}"
        time.sleep(0.1)
