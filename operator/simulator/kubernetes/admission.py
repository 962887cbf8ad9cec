"""What the API server does to objects on their way in: schema defaults, the injection policy and the webhook.

The policy is the product's MutatingAdmissionPolicy (`staticgroup.api.policy`), as the product itself renders it in
Python (`staticgroup.api.rendering`), and so is what its webhook answers, without an image that would bring an agent.
Sources: KEP-3962; CRD structural defaulting.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from pydantic import ValidationError

from staticgroup.api.names import INJECTION_NAME, SLOTS_NAME
from staticgroup.api.rendering import AgentImage, is_meant, rendered
from staticgroup.api.resources.clusterkafkaconnection import ClusterKafkaConnection
from staticgroup.api.resources.injected import InjectedMethod
from staticgroup.api.resources.kafkaconnection import Connection, KafkaConnection
from staticgroup.api.resources.staticgroup import StaticGroup
from staticgroup.api.workloads import SLOT_KINDS, STATEFUL_SET, WORKLOAD_KINDS

from .objects import CLUSTER_KAFKA_CONNECTIONS, KAFKA_CONNECTIONS, STATIC_GROUPS, Json

NO_AGENT: Final = AgentImage()
WAITER: Final = AgentImage(name="slot-waiter")
KINDS: Final = frozenset(known.kind for known in WORKLOAD_KINDS)
KINDS_OF_POLICIES: Final = {
    INJECTION_NAME: KINDS - {known.kind for known in SLOT_KINDS},
    SLOTS_NAME: frozenset(known.kind for known in SLOT_KINDS),
}
"""Which workloads each policy of an installation is about; the webhook is about all of them."""
_MODELS: Final[dict[str, type[StaticGroup | Connection]]] = {
    STATIC_GROUPS: StaticGroup,
    KAFKA_CONNECTIONS: KafkaConnection,
    CLUSTER_KAFKA_CONNECTIONS: ClusterKafkaConnection,
}


class Invalid(Exception):
    """The object does not fit its schema (HTTP 422)."""


def defaulted(resource: str, body: Json) -> Json:
    """Fill in the defaults of our own resources, as their structural schemas do.

    Raises
    ------
    Invalid: the object does not fit its schema.
    """
    model = _MODELS.get(resource)
    if model is None:
        return body
    try:
        return body | {"spec": model.from_wire(_bare(body)).spec.to_wire()}
    except ValidationError as error:
        raise Invalid(str(error)) from error


def _bare(body: Json) -> Json:
    return {key: value for key, value in body.items() if key != "status"}


def webhook_configuration(name: str) -> Json:
    """Return the configuration of the product's webhook, whose certificate is trusted."""
    return {
        "metadata": {"name": name},
        "webhooks": [{"name": "inject-0.staticgroup.io", "clientConfig": {"caBundle": "dHJ1c3RlZA=="}}],
    }


def inject(pod: Json, groups: Iterable[Json], method: InjectedMethod, *, kinds: Collection[str] = KINDS) -> Json:
    """Apply the injection policy, or the webhook, to a pod that is being created.

    Parameters
    ----------
    kinds: of the workloads that this policy is about.
    groups: the StaticGroups of the pod's namespace, by name: as the policy's parameter informer knows them, or as the
        webhook reads them.
    """
    for group in groups:
        kind = group["spec"]["workloadRef"].get("kind", STATEFUL_SET.kind)
        if kind in kinds and is_meant(pod, group, method):
            pod = rendered(pod, group["status"]["injected"], NO_AGENT, WAITER)
    return pod
