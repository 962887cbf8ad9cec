"""What a world is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from coordinator_model.base.settings import BrokerSettings
from staticgroup.api.workloads import DEPLOYMENT
from staticgroup.core.members.node_gone import CLOUDS, NodeLifecycle
from staticgroup.runtime.process.settings import Settings as OperatorSettings

from ..clients.settings import LIBRARIES, ConsumerSettings, ContainerSettings
from ..kubernetes.objects import Json
from .teams import GROUP, TOPIC, Team

DEPLOYED_SHARE: Final = 0.5
"""Share of the schedules with a Deployment beside the StatefulSet; 0 also leaves its crashes out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSettings:
    """What a world is made of.

    Parameters
    ----------
    protocol: classic or consumer (KIP-848).
    library: java, librdkafka or sarama.
    is_static: False: plain dynamic clients, for the comparison without the operator.
    threads: consumers of each pod.
    startup_s: (least, most) seconds from the start of a container to its first join.
    heartbeat_s: classic only; None: a third of the session timeout.
    team: whose StatefulSet and StaticGroup it is about; None: a plain one of `replicas` and `threads`.
    others: teams that share the Kafka group.
    has_policy: the API server serves the injection policy, and it is installed.
    has_webhook: the webhook is installed, which injects where the policy is not.
    has_index_label: StatefulSets label their pods with the ordinal (1.28 or newer).
    has_failure_recovery: a third-party controller fails the pods of unreachable nodes.
    watched: so many namespaces are named in the operators' settings, one watch each; 0: all in one watch.
    is_observing: the operators are started with force_observe.
    node_lifecycle, settle_s: settings of the operators; what is said of nodes is kept to.
    provider: scheme of the providerID of every node; "": none has one.
    address_of: whose address the brokers see of a client: that of its pod, or that of its node where that translates.
    process: what else their settings say, by field; what is not there is as it comes with the release.
    """

    protocol: str = "classic"
    library: str = "java"
    is_static: bool = True
    replicas: int = 3
    partitions: int = 12
    threads: int = 1
    parallel: bool = False
    session_timeout_s: int = 60
    heartbeat_s: float | None = None
    startup_s: tuple[float, float] = (1.0, 3.0)
    close_s: float = 0.5
    nodes: tuple[str, ...] = ("n1", "n2", "n3")
    brokers: BrokerSettings = field(default_factory=BrokerSettings)
    team: Team | None = None
    others: tuple[Team, ...] = ()
    has_policy: bool = True
    has_webhook: bool = False
    has_index_label: bool = True
    has_failure_recovery: bool = False
    watched: int = 0
    is_observing: bool = False
    node_lifecycle: str = "Untrusted"
    provider: str = ""
    address_of: Literal["pod", "node"] = "pod"
    settle_s: float = 120.0
    process: Mapping[str, Any] = field(default_factory=dict)

    def of_operator(self, **others: Any) -> OperatorSettings:
        """Return the settings of one operator process of this world."""
        return OperatorSettings(
            force_observe=self.is_observing,
            node_lifecycle=self.node_lifecycle,
            settle_s=self.settle_s,
            deployments=any(team.is_of_slots for team in (*self.others, *((self.team,) if self.team else ()))),
            **self.process,
            **others,
        )

    @property
    def nodes_outlive_machines(self) -> bool:
        """True when a Node object is deleted only after its machine was switched off."""
        if self.node_lifecycle == NodeLifecycle.AUTO:
            return self.provider in CLOUDS
        return self.node_lifecycle != NodeLifecycle.UNTRUSTED


def plain_team(settings: WorldSettings) -> Team:
    """Return the team of a world about which nothing else was said."""
    spec: Json = {"groupProtocol": "Classic" if settings.protocol == "classic" else "Consumer"}
    if settings.protocol == "classic":
        spec["sessionTimeout"] = {"seconds": settings.session_timeout_s}
    if settings.threads > 1:
        spec["client"] = {"suffixes": [f"-{n}" for n in range(1, settings.threads + 1)]}
    policy = "Parallel" if settings.parallel else "OrderedReady"
    return Team(
        replicas=settings.replicas,
        spec=spec,
        set_spec={"podManagementPolicy": policy},
    )


def deployed_team(settings: WorldSettings) -> Team:
    """Return the team of a world whose workload is a Deployment; one pod ends before the next one begins."""
    team = plain_team(settings)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    return replace(team, kind=DEPLOYMENT.kind, set_spec={"strategy": strategy})


def program(team: Team, settings: WorldSettings) -> ContainerSettings:
    """Return what a team's container runs: one consumer of the group, with as many threads as the pod has members."""
    entry = team.variables
    first = team.suffixes[0].removeprefix("-")
    consumer = ConsumerSettings(
        group_id=GROUP,
        topics=(TOPIC,),
        protocol="classic" if settings.protocol == "classic" else "consumer",
        protocol_type=(settings.team or team).protocol_type,
        library=LIBRARIES[settings.library],
        instance_id_variable=entry.instance_id_name,
        session_timeout_variable=entry.session_timeout_name,
        threads=team.threads,
        first_thread=int(first) if first.isdigit() else 1,
        always_numbers=team.suffixes != [""],
        session_timeout_ms=settings.session_timeout_s * 1000,
        heartbeat_s=settings.heartbeat_s,
    )
    return ContainerSettings(consumers=(consumer,), startup_s=settings.startup_s, close_s=settings.close_s)
