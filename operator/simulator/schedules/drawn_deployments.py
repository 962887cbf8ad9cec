"""Draw a team with a Deployment: how it rolls, what its pods run, and what it writes into its StaticGroup."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, Final, TypeVar

from staticgroup.api.protocols import ProtocolChoice
from staticgroup.api.resources.client import ClientType
from staticgroup.api.resources.staticgroup import Mode, OnTopicChange, RemovalPolicy
from staticgroup.api.workloads import DEPLOYMENT

from ..kubernetes.objects import Json
from ..world import settings
from ..world.teams import Team

T = TypeVar("T")

NAME: Final = "cart"
CLIENTS: Final = {
    ClientType.GENERIC: 5.0,
    ClientType.SPRING_BOOT: 1.5,
    ClientType.QUARKUS: 1.0,
    ClientType.CUSTOM: 1.5,
}
"""Workers of Connect and ids of an application's own are refused; Kafka Streams differs by what it appends only."""
TEMPLATES: Final = {
    "": 3.0,
    "{podName}.{scope}": 2.0,
    "{scope}-{podName}": 1.0,
    "{namespace}_{podName}_{scope}": 1.0,
    "{podName}": 0.7,
}
REMOVALS: Final = {RemovalPolicy.DEPARTED: 6.0, RemovalPolicy.DEPARTED_AND_CRASHED: 6.0, RemovalPolicy.NEVER: 0.5}
ROLLING: Final = {
    (0, 1): 3.0, (0, 2): 1.5, ("25%", "25%"): 2.0, (1, 0): 1.5, (1, 1): 1.5, (2, 1): 1.0, ("100%", 0): 0.7,
    (0, "100%"): 0.7,
}  # fmt: skip
"""maxSurge and maxUnavailable."""
RECREATE_SHARE: Final = 0.15


def draw_deployments(rng: Random, team: Team, *, protocol: str, session_s: int) -> tuple[Team, ...]:
    """Draw the teams that have a Deployment in the same Kafka group, from a source of their own.

    What else a seed draws does not depend on it. Beside workers of Connect there is none.
    """
    source = Random(f"deployments/{rng.getstate()[1][:4]}")
    if source.random() >= settings.DEPLOYED_SHARE or team.is_of_workers:
        return ()
    return (draw_deployment(source, protocol=protocol, session_s=session_s),)


def draw_deployment(rng: Random, *, protocol: str, session_s: int) -> Team:
    """Draw one of them; the same source draws the same one."""
    used = ProtocolChoice.CLASSIC if protocol == "classic" else ProtocolChoice.CONSUMER
    choice = rng.choice((ProtocolChoice.AUTO, used))
    removals = dict(REMOVALS)
    if choice is ProtocolChoice.CLASSIC:
        del removals[RemovalPolicy.DEPARTED_AND_CRASHED]
    spec: Json = {
        "mode": Mode.MANAGE.value,
        "groupProtocol": choice.value,
        "client": _client(rng),
        "removal": _pick(rng, removals).value,
        "onTopicChange": OnTopicChange.REPORT.value,
    }
    if template := _pick(rng, TEMPLATES):
        spec |= {"idTemplate": template, "assumeExclusive": "{scope}" not in template}
    if protocol == "classic":
        spec["sessionTimeout"] = {rng.choice(("seconds", "maxSeconds")): session_s}
    return Team(
        kind=DEPLOYMENT.kind,
        workload=NAME,
        name=f"{NAME}s",
        container=NAME,
        replicas=rng.randint(1, 6),
        spec=spec,
        set_spec=_set_spec(rng),
        pod_spec=_pod_spec(rng),
    )


def draw_strategy(rng: Random) -> Json:
    """Draw how a Deployment replaces its pods."""
    if rng.random() < RECREATE_SHARE:
        return {"type": "Recreate", "rollingUpdate": None}
    surge, unavailable = _pick(rng, ROLLING)
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def _client(rng: Random) -> Json:
    client_type = _pick(rng, CLIENTS)
    client: Json = {"type": client_type.value}
    if client_type is ClientType.SPRING_BOOT:
        client["concurrency"] = rng.randint(1, 2)
    elif client_type is ClientType.CUSTOM:
        entry = {"instanceIdName": "CART_INSTANCE_ID", "sessionTimeoutName": "CART_SESSION_MS", "container": NAME}
        client["env"] = [entry | {"suffix": rng.choice(("", "-carts"))}]
    elif rng.random() < 0.2:
        client["suffixes"] = ["-1", "-2"]
    return client


def _set_spec(rng: Random) -> Json:
    spec: dict[str, Any] = {"strategy": {k: v for k, v in draw_strategy(rng).items() if v is not None}}
    if rng.random() < 0.15:
        spec["minReadySeconds"] = rng.randint(1, 10)
    return spec


def _pod_spec(rng: Random) -> Json:
    init: list[Json] = []
    if rng.random() < 0.15:
        init.append({"name": "migrate", "image": "shop/migrate:1"})
    if rng.random() < 0.15:
        init.append({"name": "proxy", "image": "shop/proxy:1", "restartPolicy": "Always"})
    return {"initContainers": init} if init else {}


def _pick(rng: Random, weights: Mapping[T, float]) -> T:
    return rng.choices(list(weights), list(weights.values()))[0]
