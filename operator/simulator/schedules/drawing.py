"""Draw a world: everything that a user may write into a StaticGroup, and what a cluster may be like around it.

Each table below names every value that the resource allows; a value without a weight is a failing test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import Any, TypeVar

from coordinator_model.base.settings import BrokerSettings
from staticgroup.api.protocols import ProtocolChoice
from staticgroup.api.resources.client import NUMBERS_ITS_MEMBERS, TAKES_ENV, WORKER_TYPES, ClientType
from staticgroup.api.resources.staticgroup import Mode, OnTopicChange, RemovalPolicy
from staticgroup.core.members.node_gone import NodeLifecycle

from ..kubernetes.objects import Json
from ..world.teams import GROUP, WORKLOAD, Team
from ..world.world import WorldSettings
from .drawn_changes import Change, ChangeKind, draw_changes
from .drawn_deployments import draw_deployments

T = TypeVar("T")

MODES = {Mode.MANAGE: 9.0, Mode.OBSERVE: 1.0, Mode.SUSPENDED: 0.3}
CLIENT_TYPES = {
    ClientType.GENERIC: 5.0,
    ClientType.SPRING_BOOT: 1.5,
    ClientType.QUARKUS: 1.0,
    ClientType.KAFKA_STREAMS: 2.0,
    ClientType.CONNECT: 0.7,
    ClientType.DEBEZIUM: 0.7,
    ClientType.CUSTOM: 1.3,
    ClientType.OWN: 3.0,
}
CLASSIC_ONLY = WORKER_TYPES | {ClientType.KAFKA_STREAMS}
"""Clients that do not speak KIP-848, and that always append the same."""
LISTED_SUFFIXES = {("",): 1.0, ("-1", "-2"): 2.0, ("-5", "-6"): 1.0, ("-0",): 0.5}
LISTED_SHARE = 0.3
"""Share of the clients that may append anything whose suffixes are listed."""
PROTOCOLS = {
    ProtocolChoice.AUTO: 1.0,
    ProtocolChoice.CLASSIC: 2.0,
    ProtocolChoice.CONSUMER: 1.0,
    ProtocolChoice.STREAMS: 1.0,
}


class TimeoutChoice(StrEnum):
    """Say which fields of sessionTimeout are written of a classic group."""

    SECONDS = "seconds"
    BOUNDS = "minSeconds and maxSeconds"
    MOST = "maxSeconds"


TIMEOUTS = {TimeoutChoice.SECONDS: 3.0, TimeoutChoice.BOUNDS: 1.0, TimeoutChoice.MOST: 0.5}
REMOVALS = {RemovalPolicy.DEPARTED: 6.0, RemovalPolicy.DEPARTED_AND_CRASHED: 12.0, RemovalPolicy.NEVER: 0.9}
TOPIC_CHANGES = {OnTopicChange.REBALANCE: 2.0, OnTopicChange.REPORT: 1.0}
LIFECYCLES = {NodeLifecycle.AUTO: 3.0, NodeLifecycle.UNTRUSTED: 1.0, NodeLifecycle.CLOUD: 1.0, NodeLifecycle.FIXED: 1.0}
PROVIDERS = ("", "aws", "gce", "kind")
ADDRESSES = ("pod", "pod", "node")
SETTLES_S = (20.0, 60.0, 120.0, 300.0, 600.0)
"""From much shorter than anybody should choose, so that what the assumptions forbid happens, to what the release
has."""
LEASE_FIELDS = ("lease_duration_s", "lease_renew_deadline_s", "lease_retry_s")
LEASES = {(5.0, 3.5, 1.0): 5.0, (15.0, 10.0, 2.0): 4.0, (2.0, 1.5, 0.3): 0.5, (60.0, 40.0, 5.0): 0.5}
"""As they come with the release, those of client-go, and others that a user may choose."""
PROCESS: Mapping[str, tuple[Any, ...]] = {
    "concurrency": (1, 32, 256),
    "round_deadline_s": (75.0, 90.0, 600.0),
    "group_poll_s": (5.0, 30.0, 30.0, 120.0),
    "relist_s": (60.0, 600.0, 600.0, 86_400.0),
    "barrier_patience_s": (0.0, 0.1, 0.1, 5.0),
    "secret_max_age_s": (1.0, 20.0, 20.0, 600.0),
}
"""What else of an operator's settings is about time and order, as the chart allows it."""
SET_SHARE = 0.5
"""Share of the schedules in which such settings are changed."""
SCOPED = (
    "{podName}.{scope}",
    "{workloadName}-{ordinal}.{scope}",
    "{namespace}_{podName}_{scope}",
    "{groupName}.{ordinal}.{scope}",
    "{scope}-{podName}",
)
UNSCOPED = ("{podName}", "{workloadName}-{ordinal}", "app-{ordinal}")
SAME_POD_NAMES = {"{podName}": "{workloadName}-{ordinal}", "{workloadName}-{ordinal}": "{podName}"}
"""Templates of two texts that make one id."""


class Arrival(StrEnum):
    """Say in which order StaticGroup and StatefulSet come."""

    GROUP_FIRST = "the StaticGroup first"
    WORKLOAD_FIRST = "the StatefulSet first"
    UNSEEN = "the StatefulSet while no operator lives"


ARRIVALS = {Arrival.GROUP_FIRST: 7.0, Arrival.WORKLOAD_FIRST: 1.5, Arrival.UNSEEN: 1.5}


class Rivalry(StrEnum):
    """Which other team is in the Kafka group."""

    NOBODY = "nobody"
    APART = "another workload with ids of its own"
    SAME_IDS = "another workload with the same ids"
    SAME_WORKLOAD = "another StaticGroup on the same workload"


RIVALRIES = {Rivalry.NOBODY: 16.0, Rivalry.APART: 2.0, Rivalry.SAME_IDS: 2.5, Rivalry.SAME_WORKLOAD: 0.4}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One world and how it comes to be.

    Parameters
    ----------
    has_standby: two operators from the beginning.
    upgraded_after_s: when StatefulSets begin to label their pods and the injection policy comes to be served; None: in
        this schedule never.
    manages_after_s: when the user leaves mode Observe or Suspended; None: never.
    changes: of what members are, and copies of their ids.
    """

    world: WorldSettings
    arrival: Arrival = Arrival.GROUP_FIRST
    has_standby: bool = False
    upgraded_after_s: float | None = None
    manages_after_s: float | None = None
    changes: tuple[Change, ...] = ()


def pick(rng: Random, weights: Mapping[T, float]) -> T:
    """Draw one of the keys."""
    return rng.choices(list(weights), list(weights.values()))[0]


def draw_world(rng: Random) -> Drawn:
    """Draw a world; the same source draws the same one."""
    protocol = rng.choice(("classic", "classic", "consumer"))
    session_s = rng.choice((30, 60, 120)) if protocol == "classic" else 45
    has_label = rng.random() < 0.88
    has_policy = has_label and rng.random() < 0.8
    has_webhook = has_label and Random(f"webhook/{rng.getstate()[1][:4]}").random() < (0.15 if has_policy else 0.7)
    is_given = has_policy or has_webhook
    team = draw_team(rng, protocol=protocol, session_s=session_s, is_given=is_given, has_label=has_label)
    others = draw_others(rng, team)
    changes = draw_changes(rng, team, has_others=bool(others))
    if any(change.kind is ChangeKind.OUTSIDER for change in changes):
        team = _without_exclusive(team)
    settings = WorldSettings(
        protocol=protocol,
        library=rng.choice(("java", "java", "librdkafka", "sarama")),
        replicas=team.replicas,
        session_timeout_s=session_s,
        startup_s=(0.5, rng.uniform(1, 8)),
        nodes=("n1", "n2", "n3", "n4"),
        brokers=BrokerSettings(group_initial_rebalance_delay_ms=rng.choice((0, 3000))),
        team=team,
        others=others + draw_deployments(rng, team, protocol=protocol, session_s=session_s),
        has_policy=has_policy,
        has_webhook=has_webhook,
        has_index_label=has_label,
        has_failure_recovery=rng.random() < 0.35,
        watched=25 if rng.random() < 0.04 else 0,
        is_observing=rng.random() < 0.01,
        **_about_nodes(rng),
        process=_process(rng),
    )
    is_stopped = team.spec["mode"] != Mode.MANAGE
    return Drawn(
        world=settings,
        arrival=pick(rng, ARRIVALS),
        has_standby=rng.random() < 0.35,
        upgraded_after_s=rng.uniform(5, 300) if not has_policy and rng.random() < 0.75 else None,
        manages_after_s=rng.uniform(60, 360) if is_stopped and rng.random() < 0.9 else None,
        changes=changes,
    )


def _about_nodes(rng: Random) -> dict[str, Any]:
    """Draw the operators' settings about nodes, from a source of its own."""
    source = Random(f"about nodes/{rng.getstate()[1][:4]}")
    return {
        "node_lifecycle": pick(source, LIFECYCLES).value,
        "provider": source.choice(PROVIDERS),
        "address_of": source.choice(ADDRESSES),
        "settle_s": source.choice(SETTLES_S),
    }


def _process(rng: Random) -> dict[str, Any]:
    """Draw what the operators' settings say of time and order, from a source of its own."""
    source = Random(f"process/{rng.getstate()[1][:4]}")
    times = pick(source, LEASES)
    others = {name: source.choice(values) for name, values in PROCESS.items()}
    return dict(zip(LEASE_FIELDS, times, strict=True)) | (others if source.random() < SET_SHARE else {})


def draw_team(rng: Random, *, protocol: str, session_s: int, is_given: bool, has_label: bool) -> Team:
    """Draw what the first team writes; `is_given`: something injects ids into the pods of a team that allows it."""
    client_type = pick(rng, CLIENT_TYPES)
    if client_type in CLASSIC_ONLY and protocol != "classic":
        client_type = ClientType.GENERIC
    client, mode = _client(rng, client_type), pick(rng, MODES)
    if client_type is ClientType.OWN or not is_given:
        is_by_hand = rng.random() < 0.95
    else:
        is_by_hand = rng.random() < (0.1 if mode is Mode.MANAGE else 0.7)
    choice = _protocol(rng, protocol)
    spec: Json = {
        "mode": mode.value,
        "groupProtocol": choice.value,
        "client": client,
        "removal": _removal(rng, choice, client_type).value,
        "onTopicChange": pick(rng, TOPIC_CHANGES).value,
    }
    spec |= _ids(rng, client_type, has_label=has_label)
    if protocol == "classic":
        spec["sessionTimeout"] = _timeout(rng, session_s)
    elif rng.random() < 0.4:
        spec["sessionTimeout"] = {"writeGroupConfig": True}
    return Team(
        replicas=rng.randint(2, 5),
        spec=spec,
        set_spec=_set_spec(rng),
        pod_spec=_pod_spec(rng),
        is_by_hand=is_by_hand,
    )


def _client(rng: Random, client_type: ClientType) -> Json:
    """Draw what a team says of its client of this type, as far as the API server accepts it together."""
    client: Json = {"type": client_type.value}
    if client_type not in CLASSIC_ONLY and rng.random() < LISTED_SHARE:
        listed = pick(rng, LISTED_SUFFIXES)
        client["suffixes"] = [*listed]
    elif client_type in NUMBERS_ITS_MEMBERS:
        client["concurrency"] = rng.randint(1, 3)
    if client_type is ClientType.CUSTOM or (client_type in TAKES_ENV and rng.random() < 0.3):
        entry = {"instanceIdName": "ORDERS_INSTANCE_ID", "sessionTimeoutName": "ORDERS_SESSION_MS"}
        client["env"] = [entry | {"container": "app", "suffix": rng.choice(("", "-orders"))}]
    elif rng.random() < 0.15:
        client["container"] = "app"
    if client_type in WORKER_TYPES and "env" not in client:
        client["injectAgent"] = rng.random() < 0.7
    return client


def _ids(rng: Random, client_type: ClientType, *, has_label: bool) -> Json:
    """Draw how ids are built, in most cases in writing, and whether nobody else is said to have them."""
    template = rng.choice(SCOPED) if rng.random() < 0.7 else rng.choice(UNSCOPED)
    if not has_label:
        template = template.replace("{workloadName}-{ordinal}", "{podName}").replace("{ordinal}", "{podName}")
    is_written = rng.random() < 0.75
    is_scoped = "{scope}" in template if is_written else client_type is not ClientType.OWN
    word = {"assumeExclusive": rng.random() < (0.15 if is_scoped else 0.9)}
    return {"idTemplate": template} | word if is_written else word


def _protocol(rng: Random, protocol: str) -> ProtocolChoice:
    """Name the protocol that is in use, or leave it to the brokers; no client here uses that of streams groups."""
    used = ProtocolChoice.CLASSIC if protocol == "classic" else ProtocolChoice.CONSUMER
    return pick(rng, {choice: weight for choice, weight in PROTOCOLS.items() if choice in (ProtocolChoice.AUTO, used)})


def _timeout(rng: Random, session_s: int) -> Json:
    """Draw how the session timeout of a classic group is chosen; it is never longer than what the world waits for."""
    match pick(rng, TIMEOUTS):
        case TimeoutChoice.SECONDS:
            return {"seconds": session_s}
        case TimeoutChoice.BOUNDS:
            return {"minSeconds": 10, "maxSeconds": session_s}
        case TimeoutChoice.MOST:
            return {"maxSeconds": session_s}


def _removal(rng: Random, protocol: ProtocolChoice, client_type: ClientType) -> RemovalPolicy:
    """Draw who is removed; of what is classic for certain, crashed members are refused."""
    is_classic = protocol is ProtocolChoice.CLASSIC or client_type in WORKER_TYPES
    refused = RemovalPolicy.DEPARTED_AND_CRASHED if is_classic else None
    return pick(rng, {removal: weight for removal, weight in REMOVALS.items() if removal is not refused})


def _set_spec(rng: Random) -> Json:
    """Draw how the StatefulSet goes about its pods."""
    strategy: Json = {"type": "RollingUpdate"}
    chance = rng.random()
    if chance < 0.1:
        strategy = {"type": "OnDelete"}
    elif chance < 0.25:
        strategy["rollingUpdate"] = {"partition": rng.randint(0, 3)}
    spec: Json = {"podManagementPolicy": rng.choice(("Parallel", "OrderedReady")), "updateStrategy": strategy}
    if rng.random() < 0.15:
        spec["ordinals"] = {"start": rng.randint(1, 5)}
    if rng.random() < 0.1:
        spec["minReadySeconds"] = rng.randint(1, 10)
    return spec


def _pod_spec(rng: Random) -> Json:
    """Draw what else runs in a pod: an init container that ends, a sidecar that stays."""
    init: list[Json] = []
    if rng.random() < 0.15:
        init.append({"name": "migrate", "image": "shop/migrate:1"})
    if rng.random() < 0.15:
        init.append({"name": "proxy", "image": "shop/proxy:1", "restartPolicy": "Always"})
    return {"initContainers": init} if init else {}


def _without_exclusive(team: Team) -> Team:
    """Let a team issue ids that another cluster may issue too, and not say otherwise."""
    return replace(team, spec=team.spec | {"idTemplate": "{podName}", "assumeExclusive": False})


def draw_others(rng: Random, team: Team) -> tuple[Team, ...]:
    """Draw the other teams in the Kafka group; ids meet only where every team has declared that they do not."""
    rivalry = pick(rng, RIVALRIES)
    if rivalry is Rivalry.NOBODY:
        return ()
    base: dict[str, Any] = {"container": "pay", "replicas": rng.randint(1, 3)}
    left_out = ("client", "idTemplate", "assumeExclusive")
    plain: Json = {name: value for name, value in team.spec.items() if name not in left_out}
    plain |= {"mode": Mode.MANAGE.value, "client": {"type": team.client["type"]} if team.is_of_workers else {}}
    if rivalry is Rivalry.APART:
        return (Team(namespace="bill", workload="pay", name="payments", spec=plain, **base),)
    if rivalry is Rivalry.SAME_WORKLOAD:
        return (Team(name=f"{GROUP}-2", spec=plain, replicas=0, container="none"),)
    if team.is_scoped or not team.spec["assumeExclusive"] or team.threads > 1:
        return ()
    template = team.template
    workload = WORKLOAD if template in SAME_POD_NAMES else "pay"
    ids: Json = {"idTemplate": SAME_POD_NAMES.get(template, template), "assumeExclusive": True}
    start = team.set_spec.get("ordinals", {}).get("start", 0) + rng.randint(0, team.replicas - 1)
    return (
        Team(
            namespace="bill",
            workload=workload,
            name="payments",
            spec=plain | ids,
            set_spec={"ordinals": {"start": start}},
            is_by_hand=True,
            **base,
        ),
    )
