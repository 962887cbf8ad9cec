"""Brokers, connections and readings that tests of the real gateway share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

from e2e.broker_groups import TOPIC
from staticgroup.api.resources.sasl import SaslMechanism
from staticgroup.core.group import GroupView, KafkaProblem, LeaveEntry, MemberView
from staticgroup.kafka.gateway import KioGateway
from staticgroup.kafka.login.credentials import ConnectionSettings, SaslSettings, SecretText, TlsSettings
from support.devcluster.kafka_broker import Brokers
from support.devcluster.kafka_member import Member

PASSWORDS = {
    "admin": "admin-canary-7391", "nobody": "nobody-canary-7391", "describer": "describer-canary-7391",
    "reader": "reader-canary-7391", "full": "full-canary-7391", "configs": "configs-canary-7391",
}  # fmt: skip


def settings_of(brokers: Brokers, **changes: object) -> ConnectionSettings:
    values = {"bootstrap_servers": tuple(brokers.bootstrap.split(",")), "allow_loopback": True} | changes
    return ConnectionSettings(**values)


def login(brokers: Brokers, user: str, password: str | None = None) -> ConnectionSettings:
    return settings_of(
        brokers, bootstrap_servers=tuple(brokers.sasl_bootstrap.split(",")),
        tls=TlsSettings(ca_pem=brokers.ca_path.read_text()),
        sasl=SaslSettings(
            mechanism=SaslMechanism.SCRAM_SHA_512, username=user,
            password=SecretText(PASSWORDS[user] if password is None else password),
        ),
    )  # fmt: skip


async def described_when(
    gateway: KioGateway, settings: ConnectionSettings, group_id: str, condition: Callable[[GroupView], bool]
) -> GroupView:
    """Describe until the group fulfils a condition."""
    view: GroupView | KafkaProblem | None = None
    try:
        async with asyncio.timeout(40):
            while True:
                view = await gateway.describe(settings, group_id)
                if isinstance(view, GroupView) and condition(view):
                    return view
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"last seen: {view}") from None


def stable_with(count: int) -> Callable[[GroupView], bool]:
    return lambda view: view.state == "Stable" and len(view.members) == count and view.is_settled


def by_instance(view: GroupView) -> Mapping[str, MemberView]:
    return {member.instance_id: member for member in view.members if member.instance_id}


def entry(member_id: str, instance_id: str) -> LeaveEntry:
    return LeaveEntry(member_id=member_id, instance_id=instance_id, reason="staticgroup shop/orders: scaled 3→1")


def problem(outcome: object) -> KafkaProblem:
    assert isinstance(outcome, KafkaProblem), outcome
    return outcome


def member_starter() -> Iterator[Callable[..., Member]]:
    """Yield a function that starts a consumer; all of them are killed afterwards."""
    running: list[Member] = []

    def start(brokers: Brokers, group_id: str, instance_id: str | None, *, protocol: str = "classic") -> Member:
        settings: dict[str, str | int] = {"bootstrap.servers": brokers.bootstrap, "group.id": group_id}
        if instance_id:
            settings["group.instance.id"] = instance_id
        if protocol == "classic":
            settings |= {"session.timeout.ms": 60000, "heartbeat.interval.ms": 300}
        else:
            settings |= {"group.protocol": "consumer"}
        member = Member(settings, TOPIC)
        running.append(member)
        return member

    yield start
    for member in running:
        member.kill()
