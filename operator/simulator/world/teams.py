"""A team's objects as it wrote them: StaticGroup, workload, and the ids that it puts into the pod template itself.

Source: docs/guide/adopt-existing.md (how a template names its id).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from staticgroup.api import names
from staticgroup.api.injection import env_entries
from staticgroup.api.resources.client import WORKER_TYPES, EnvEntry
from staticgroup.api.resources.staticgroup import StaticGroupSpec
from staticgroup.api.workloads import DEPLOYMENT, STATEFUL_SET

from ..clients.settings import PROTOCOL_VARIABLE
from ..kubernetes.objects import DEPLOYMENTS, STATEFULSETS, Json, id_template
from ..kubernetes.users import deployment, stateful_set
from ..oracles.issued_ids import client_suffixes

NAMESPACE, WORKLOAD, GROUP, TOPIC = "shop", "web", "orders", "orders"
PLACEHOLDERS = {"{podName}": "$(POD_NAME)", "{ordinal}": "$(POD_INDEX)"}
REFERENCES = (
    {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    {"name": "POD_INDEX", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{names.POD_INDEX_LABEL}']"}}},
)


@dataclass(frozen=True, kw_only=True)
class Team:
    """One workload with one StaticGroup.

    Parameters
    ----------
    name: of the StaticGroup.
    spec: of the StaticGroup, besides its references.
    kind: of the workload: StatefulSet or Deployment.
    set_spec: of the workload, besides what `stateful_set` and `deployment` write; pod_spec: of its pods.
    is_by_hand: the team names the ids in the pod template.
    container: whose program takes part in the group.
    client_protocol: of the client of the pod template; "": that of the world.
    """

    namespace: str = NAMESPACE
    workload: str = WORKLOAD
    name: str = GROUP
    kind: str = STATEFUL_SET.kind
    replicas: int = 3
    spec: Json = field(default_factory=dict)
    set_spec: Json = field(default_factory=dict)
    pod_spec: Json = field(default_factory=dict)
    is_by_hand: bool = False
    container: str = "app"
    client_protocol: str = ""

    @property
    def is_of_slots(self) -> bool:
        """True when its pods have slots: those of a Deployment."""
        return self.kind == DEPLOYMENT.kind

    @property
    def resource(self) -> str:
        """Return the resource of its workload."""
        return DEPLOYMENTS if self.is_of_slots else STATEFULSETS

    @property
    def client(self) -> Json:
        """Return spec.client."""
        return dict(self.spec.get("client") or {})

    @property
    def template(self) -> str:
        """Return how the id of a pod is built, also where nothing is written about it."""
        return id_template(self.spec)

    @cached_property
    def variables(self) -> EnvEntry:
        """Return the variables that the application reads."""
        return env_entries(StaticGroupSpec.model_validate(static_group(self)["spec"]).client)[0]

    @cached_property
    def suffixes(self) -> list[str]:
        """Return what the client appends to the id of a pod."""
        return client_suffixes(self.client)

    @property
    def threads(self) -> int:
        """Return how many consumers each pod has."""
        return len(self.suffixes)

    @property
    def is_of_workers(self) -> bool:
        """True when its pods are workers of a Connect cluster."""
        return self.client.get("type") in WORKER_TYPES

    @property
    def protocol_type(self) -> Literal["consumer", "connect"]:
        """Return of which type the group is that its pods join."""
        return "connect" if self.is_of_workers else "consumer"

    @property
    def is_scoped(self) -> bool:
        """True when no other StaticGroup can make the same ids."""
        return "{scope}" in self.template


def static_group(team: Team, **spec: Any) -> Json:
    """Write a team's StaticGroup.

    Parameters
    ----------
    spec: replaces fields of its spec.
    """
    workload_ref = {"name": team.workload} | ({"kind": team.kind} if team.is_of_slots else {})
    body: Json = {"workloadRef": workload_ref, "connectionRef": {"name": "kafka"}, "groupId": GROUP}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.STATIC_GROUP_KIND,
        "metadata": {"namespace": team.namespace, "name": team.name},
        "spec": body | team.spec | spec,
    }


def workload(team: Team, *, grace_s: int, id_template: str = "") -> Json:
    """Write a team's workload.

    Parameters
    ----------
    id_template: how the pod template names the ids; "": not at all.
    """
    if team.is_of_slots:
        pod_spec = {**team.pod_spec, "containers": containers(team), "terminationGracePeriodSeconds": grace_s}
        return deployment(team.namespace, team.workload, team.replicas, pod_spec=pod_spec, **team.set_spec)
    return stateful_set(
        team.namespace,
        team.workload,
        team.replicas,
        pod_spec={**team.pod_spec, "containers": containers(team, id_template)},
        grace_s=grace_s,
        **team.set_spec,
    )


def containers(team: Team, id_template: str = "") -> list[Json]:
    """Write the containers of a team's pods; ids are literals that refer to the pod's name or index."""
    app: Json = {"name": team.container, "image": "shop/orders:1"}
    spoken = [{"name": PROTOCOL_VARIABLE, "value": team.client_protocol}] if team.client_protocol else []
    if spoken:
        app["env"] = spoken
    if id_template:
        value = id_template
        for placeholder, reference in PLACEHOLDERS.items():
            value = value.replace(placeholder, reference)
        entry = team.variables
        app["env"] = [*REFERENCES, {"name": entry.instance_id_name, "value": value + entry.suffix}, *spoken]
    return [app]


def id_template_by_hand(team: Team, status: Json) -> str:
    """Return what a team writes into its pod template now; "": it cannot know, or leaves it to the injection.

    Parameters
    ----------
    status: of the StaticGroup, which shows the template; ids in use before need no looking up.
    """
    if not team.is_by_hand:
        return ""
    shown = str((status.get("injected") or {}).get("idTemplate") or "")
    if shown or team.is_scoped:
        return shown
    template = team.template
    known = {"{workloadName}": team.workload, "{namespace}": team.namespace, "{groupName}": team.name}
    for placeholder, text in known.items():
        template = template.replace(placeholder, text)
    return template


def kafka_connection(namespace: str) -> Json:
    """Write the KafkaConnection `kafka` with a password."""
    sasl = {"mechanism": "SCRAM-SHA-512", "credentialsSecretRef": {"name": "kafka-user"}}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KAFKA_CONNECTION_KIND,
        "metadata": {"namespace": namespace, "name": "kafka"},
        "spec": {"bootstrapServers": ["kafka.example.com:9092"], "sasl": sasl},
    }
