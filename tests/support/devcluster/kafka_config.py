"""The properties of test brokers, as pure functions of what was asked for.

Why: a broker's settings must be readable in one place and testable without starting one. One idea: listeners,
security, sizes and profile each give a dictionary; later ones win; the caller's overrides win over all.
Source: Kafka's server configuration reference; `facts` of the group coordinator (KIP-848, KIP-853, KIP-84, KIP-152).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from support.devcluster.kafka_jars import DEFAULT_VERSION, RESOURCES, version_key

PLAINTEXT, SASL_SSL, SSL, CONTROLLER = "PLAINTEXT", "SASL_SSL", "SSL", "CONTROLLER"

SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
SASL_MECHANISMS = (*SCRAM_MECHANISMS, "PLAIN", "OAUTHBEARER")
STORE_PASSWORD = "changeit"
"""Of key stores that live and die with one test cluster."""

Profile = Literal["stock", "fast"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """What a caller asks of a cluster of combined KRaft nodes.

    Parameters
    ----------
    name: names the state folder: letters, digits, `-`.
    nodes: 1 or 3.
    bind: IP address to listen on and to advertise.
    security: add SASL_SSL and SSL (mutual TLS) listeners and deny by default; User:ANONYMOUS, the principal over
        PLAINTEXT, stays a super user so that tests can administer.
    users: user name to password, known to PLAIN and SCRAM from the first start. `admin` is a super user.
    profile: `stock`: the broker's own group timeouts. `fast`: bounds of milliseconds.
    overrides: any server property; wins over everything.
    heap_mb: java heap per node; minimum and maximum are the same (KAFKA-19890).
    """

    name: str
    version: str = DEFAULT_VERSION
    nodes: int = 1
    bind: str = "127.0.0.1"
    profile: Profile = "stock"
    security: bool = False
    users: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)
    heap_mb: int = 320

    def __post_init__(self) -> None:
        if self.nodes not in (1, 3):
            raise ValueError(f"nodes must be 1 or 3, not {self.nodes}")
        if not self.name or not self.name.replace("-", "").isalnum():
            raise ValueError(f"name may hold letters, digits and '-': {self.name!r}")
        if self.users and not self.security:
            raise ValueError("users need security=True")
        if any(set(word) & set('",;=[]\\ ') for pair in self.users.items() for word in pair):
            raise ValueError('user names and passwords may not hold any of ",;=[]\\ or blanks')

    @property
    def listeners(self) -> tuple[str, ...]:
        """The listeners for clients."""
        return (PLAINTEXT, SASL_SSL, SSL) if self.security else (PLAINTEXT,)


NodePorts = Mapping[str, int]
"""Listener name to port of one node, CONTROLLER included."""


def server_properties(
    settings: BrokerSettings, node_id: int, ports: Mapping[int, NodePorts], data_dir: Path, tls_dir: Path
) -> dict[str, str]:
    """Return the whole server.properties of one node.

    Parameters
    ----------
    ports: the ports of every node, by node id.
    """
    return {
        **_listeners(settings, node_id, ports), **_sizes(settings.nodes), **_profile(settings),
        **(_security(settings, tls_dir) if settings.security else {}), "log.dirs": str(data_dir),
        "auto.create.topics.enable": "false", **settings.overrides,
    }  # fmt: skip


def render(properties: Mapping[str, str]) -> str:
    """Return the text of a Java properties file."""
    lines = [f"{key}={value.replace(chr(92), chr(92) * 2)}" for key, value in properties.items()]
    return "\n".join(lines) + "\n"


def parse(text: str) -> dict[str, str]:
    """Read the simple subset of Java properties files that this package writes."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {key: value for key, _, value in pairs}


def scram_records(settings: BrokerSettings) -> list[str]:
    """Return the `--add-scram` values that make the users known at format time (KIP-900)."""
    return [
        f"{mechanism}=[name={user},password={password}]"
        for user, password in settings.users.items()
        for mechanism in SCRAM_MECHANISMS
    ]


def _listeners(settings: BrokerSettings, node_id: int, ports: Mapping[int, NodePorts]) -> dict[str, str]:
    def url(listener: str) -> str:
        return f"{listener}://{settings.bind}:{ports[node_id][listener]}"

    voters = ",".join(f"{node}@{settings.bind}:{ports[node][CONTROLLER]}" for node in sorted(ports))
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "listeners": ",".join(url(listener) for listener in (*settings.listeners, CONTROLLER)),
        "advertised.listeners": ",".join(url(listener) for listener in settings.listeners),
        "listener.security.protocol.map": ",".join(
            [f"{CONTROLLER}:PLAINTEXT", *(f"{listener}:{listener}" for listener in settings.listeners)]
        ),
        "controller.listener.names": CONTROLLER, "inter.broker.listener.name": PLAINTEXT,
        "controller.quorum.voters": voters,  # static voters: one form that Kafka 3.9 to 4.4 all understand
    }  # fmt: skip


def _sizes(nodes: int) -> dict[str, str]:
    replicas, in_sync = ("3", "2") if nodes == 3 else ("1", "1")
    return {
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": "2",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": "2",
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "group.initial.rebalance.delay.ms": "0",
        # a killed broker is fenced, its groups move and it may register again after this (Kafka's default: 9 s)
        "broker.session.timeout.ms": "6000",
        "broker.heartbeat.interval.ms": "1000",
    }


def _profile(settings: BrokerSettings) -> dict[str, str]:
    properties: dict[str, str] = {}
    if settings.profile == "fast":
        properties |= parse((RESOURCES / "fast.properties").read_text())
        if version_key(settings.version) >= (4, 4):
            properties |= parse((RESOURCES / "fast-4.4.properties").read_text())
    return properties


def _security(settings: BrokerSettings, tls_dir: Path) -> dict[str, str]:
    sasl = f"listener.name.{SASL_SSL.lower()}"
    module = "org.apache.kafka.common.security"
    plain_users = " ".join(f'user_{user}="{password}"' for user, password in settings.users.items())
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "false",
        f"{sasl}.sasl.enabled.mechanisms": ",".join(SASL_MECHANISMS),
        f"{sasl}.scram-sha-256.sasl.jaas.config": f"{module}.scram.ScramLoginModule required;",
        f"{sasl}.scram-sha-512.sasl.jaas.config": f"{module}.scram.ScramLoginModule required;",
        f"{sasl}.plain.sasl.jaas.config": f"{module}.plain.PlainLoginModule required {plain_users};",
        # unsecured JWS (RFC 7515 appendix A.5): the subject is believed; for tests only
        f"{sasl}.oauthbearer.sasl.jaas.config": (
            f'{module}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
        ),
        "ssl.keystore.type": "PKCS12", "ssl.keystore.location": str(tls_dir / "broker.p12"),
        "ssl.keystore.password": STORE_PASSWORD, "ssl.key.password": STORE_PASSWORD, "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tls_dir / "ca.pem"), f"listener.name.{SSL.lower()}.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",  # the principal is the common name
    }  # fmt: skip
