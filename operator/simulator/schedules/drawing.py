"""Draw a world: everything that a user may write into a StaticGroup, and what a cluster may be like around it.

Each table below names every value that the resource allows; a value without a weight is a failing test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import Any, TypeVar

from staticgroup.api.resources.identity import IMPLIED_SUFFIXES, AgentSource, InjectionMethod, Preset

from coordinator_model.base.settings import BrokerSettings
from staticgroup.api.identifiers import SuffixStyle
from staticgroup.api.protocols import ProtocolChoice, RoleChoice
from staticgroup.api.resources.staticgroup import SUFFIXES_OF_STREAMS, CrashRelease, Mode, RemovalPolicy, TimeoutMode
from staticgroup.core.members.node_gone import NodeLifecycle

from ..kubernetes.objects import Json
from ..world.teams import GROUP, WORKLOAD, Team
from ..world.world import WorldSettings
from .drawn_changes import PRESETS_OF_WORKERS, Change, ChangeKind, draw_changes

T = TypeVar("T")

MODES = {Mode.MANAGE: 9.0, Mode.OBSERVE: 1.0}
METHODS = {
    InjectionMethod.AUTO: 6.0,
    InjectionMethod.POLICY: 0.7,
    InjectionMethod.WEBHOOK: 0.3,
    InjectionMethod.NONE: 2.0,
}
PRESETS = {
    Preset.GENERIC: 5.0,
    Preset.LIBRDKAFKA: 1.0,
    Preset.SPRING_BOOT: 1.0,
    Preset.QUARKUS: 1.0,
    Preset.KAFKA_STREAMS: 1.0,
    Preset.CONNECT: 0.5,
    Preset.DEBEZIUM: 0.5,
    Preset.CUSTOM: 1.0,
}
SUFFIXES = {
    SuffixStyle.NONE: 4.0,
    SuffixStyle.AUTO: 2.0,
    SuffixStyle.STREAMS: 1.0,
    SuffixStyle.SPRING: 0.7,
    SuffixStyle.CUSTOM: 0.5,
}
PROTOCOLS = {
    ProtocolChoice.AUTO: 1.0,
    ProtocolChoice.CLASSIC: 2.0,
    ProtocolChoice.CONSUMER: 1.0,
    ProtocolChoice.STREAMS: 1.0,
}
TIMEOUTS = {TimeoutMode.FIXED: 3.0, TimeoutMode.AUTO: 1.0}
CRASH_RELEASES = {CrashRelease.RELEASE: 6.0, CrashRelease.REPORT: 2.0, CrashRelease.OFF: 1.0}
LIFECYCLES = {NodeLifecycle.AUTO: 3.0, NodeLifecycle.UNTRUSTED: 1.0, NodeLifecycle.CLOUD: 1.0, NodeLifecycle.FIXED: 1.0}
PROVIDERS = ("", "aws", "gce", "kind")
ADDRESSES = ("pod", "pod", "node")
SETTLES_S = (20.0, 60.0, 120.0, 300.0, 600.0)
"""From much shorter than anybody should choose, so that what the assumptions forbid happens, to what the release
has."""
POLICIES = {RemovalPolicy.WHEN_DEAD: 19.0, RemovalPolicy.NEVER: 1.0}
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
    manages_after_s: when the user leaves mode Observe or ends the suspension; None: never.
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
        others=others,
        has_policy=has_policy,
        has_webhook=has_webhook,
        has_index_label=has_label,
        has_failure_recovery=rng.random() < 0.35,
        watched=25 if rng.random() < 0.04 else 0,
        is_observing=rng.random() < 0.01,
        **_about_nodes(rng),
        process=_process(rng),
    )
    is_stopped = team.spec["mode"] == Mode.OBSERVE or team.spec["suspend"]
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
    suffix = pick(rng, SUFFIXES)
    method, preset = pick(rng, METHODS), pick(rng, PRESETS)
    if preset in PRESETS_OF_WORKERS:
        preset, suffix = (preset, SuffixStyle.AUTO) if protocol == "classic" else (Preset.GENERIC, suffix)
    threads = _threads(rng, suffix, preset)
    mode = pick(rng, MODES)
    if method is InjectionMethod.NONE or not is_given:
        is_by_hand = rng.random() < 0.95
    else:
        is_by_hand = rng.random() < (0.7 if mode is Mode.OBSERVE else 0.1)
    template = rng.choice(SCOPED) if rng.random() < 0.7 else rng.choice(UNSCOPED)
    if not has_label:
        template = template.replace("{workloadName}-{ordinal}", "{podName}").replace("{ordinal}", "{podName}")
    identity: Json = {
        "template": template,
        "exclusive": rng.random() < (0.15 if "{scope}" in template else 0.9),
        "method": method.value,
        "preset": preset.value,
        "suffix": suffix.value,
        "membersPerPod": threads,
    }
    if suffix is SuffixStyle.CUSTOM:
        identity["customSuffixes"] = ["-5", "-6"]
    if preset is Preset.CUSTOM:
        entry: Json = {
            "container": "app",
            "instanceIdName": "ORDERS_INSTANCE_ID",
            "sessionTimeoutName": "ORDERS_SESSION_MS",
        }
        identity["env"] = [entry | {"suffix": rng.choice(("", "-orders"))}]
    elif rng.random() < 0.15:
        identity["container"] = "app"
    spec: Json = {
        "mode": mode.value,
        "suspend": rng.random() < 0.03,
        "protocol": _protocol(rng, protocol).value,
        "identity": identity,
        "removal": _removal(rng),
    }
    if preset is Preset.DEBEZIUM and method is not InjectionMethod.NONE:
        identity["agent"] = AgentSource.INJECT.value
    if preset in PRESETS_OF_WORKERS:
        spec |= {"role": RoleChoice.CONNECT.value, "protocol": ProtocolChoice.CLASSIC.value}
    spec["crashRelease"] = _crash_release(rng, spec["protocol"]).value
    if protocol == "classic" and preset is Preset.KAFKA_STREAMS and suffix in SUFFIXES_OF_STREAMS:
        _take_role_of_streams(rng, spec)
    if protocol == "classic":
        spec["sessionTimeout"] = _timeout(rng, session_s)
    elif Random(f"group config/{rng.getstate()[1][:4]}").random() < 0.4:  # a source of its own
        spec["sessionTimeout"] = {"writeGroupConfig": True}
    return Team(
        replicas=rng.randint(2, 5),
        spec=spec,
        set_spec=_set_spec(rng),
        pod_spec=_pod_spec(rng),
        is_by_hand=is_by_hand,
        threads=threads,
    )


def _threads(rng: Random, suffix: SuffixStyle, preset: Preset) -> int:
    """Draw how many members a pod has; what numbers its members does so with one of them, too."""
    if suffix is SuffixStyle.AUTO:
        return rng.randint(1, 2) if preset in IMPLIED_SUFFIXES else 1
    return 1 if suffix is SuffixStyle.NONE else 2


def _take_role_of_streams(rng: Random, spec: Json) -> None:
    """Say of most applications of Kafka Streams that they are; of half of these only that. From a source of its own."""
    source = Random(f"role/{rng.getstate()[1][:4]}")
    if source.random() < 0.7:
        spec["role"] = RoleChoice.STREAMS.value
        if source.random() < 0.5:
            del spec["identity"]["preset"], spec["identity"]["suffix"]


def _protocol(rng: Random, protocol: str) -> ProtocolChoice:
    """Name the protocol that is in use, or leave it to the brokers; no client here uses that of streams groups."""
    used = ProtocolChoice.CLASSIC if protocol == "classic" else ProtocolChoice.CONSUMER
    return pick(rng, {choice: weight for choice, weight in PROTOCOLS.items() if choice in (ProtocolChoice.AUTO, used)})


def _timeout(rng: Random, session_s: int) -> Json:
    if pick(rng, TIMEOUTS) is TimeoutMode.FIXED:
        return {"mode": TimeoutMode.FIXED.value, "seconds": session_s}
    return {
        "mode": TimeoutMode.AUTO.value,
        "minSeconds": 10,
        "maxSeconds": session_s,
        "headroomPercent": rng.choice((0, 50, 100)),
    }


def _crash_release(rng: Random, protocol: str) -> CrashRelease:
    """Draw what a crash comes to, from a source of its own; Release is refused of classic groups."""
    allowed = {
        c: w for c, w in CRASH_RELEASES.items() if protocol != ProtocolChoice.CLASSIC or c is not CrashRelease.RELEASE
    }
    return pick(Random(f"crash release/{rng.getstate()[1][:4]}"), allowed)


def _removal(rng: Random) -> Json:
    return {
        "policy": pick(rng, POLICIES).value,
        "holdSeconds": rng.choice((0, 0, 0, rng.randint(1, 45))),
        "maxPercentOfGroup": rng.choice((100, 100, 100, rng.randint(1, 60))),
    }


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
    return replace(team, spec=team.spec | {"identity": team.identity | {"template": "{podName}", "exclusive": False}})


def draw_others(rng: Random, team: Team) -> tuple[Team, ...]:
    """Draw the other teams in the Kafka group; ids meet only where every team has declared that they do not."""
    rivalry = pick(rng, RIVALRIES)
    if rivalry is Rivalry.NOBODY:
        return ()
    base: dict[str, Any] = {"container": "pay", "replicas": rng.randint(1, 3)}
    is_of_workers = team.spec.get("role") == RoleChoice.CONNECT
    left_out = ("identity",) if is_of_workers else ("identity", "role")
    plain: Json = {k: v for k, v in team.spec.items() if k not in left_out} | {"mode": "Manage", "suspend": False}
    preset: Json = {"preset": team.identity["preset"]} if is_of_workers else {}
    if rivalry is Rivalry.APART:
        return (Team(namespace="bill", workload="pay", name="payments", spec=plain | {"identity": preset}, **base),)
    if rivalry is Rivalry.SAME_WORKLOAD:
        identity: Json = {"template": "{podName}.{scope}", **preset}
        return (Team(name=f"{GROUP}-2", spec=plain | {"identity": identity}, replicas=0, container="none"),)
    if team.is_scoped or not team.identity["exclusive"] or team.threads > 1:
        return ()
    template = team.identity["template"]
    workload = WORKLOAD if template in SAME_POD_NAMES else "pay"
    identity = {"template": SAME_POD_NAMES.get(template, template), "exclusive": True, "method": "Auto", **preset}
    start = team.set_spec.get("ordinals", {}).get("start", 0) + rng.randint(0, team.replicas - 1)
    return (
        Team(
            namespace="bill",
            workload=workload,
            name="payments",
            spec=plain | {"identity": identity},
            set_spec={"ordinals": {"start": start}},
            is_by_hand=True,
            **base,
        ),
    )
