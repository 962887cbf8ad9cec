"""`doctor` in the operator's pod, with its settings and rights: besides, its Secrets, brokers, their calls, and ACLs.

Other makers' brokers serve parts of Kafka's protocol, and a call that is missing shows only when it is needed, so a
table says from which version each call does what is wanted. Source: KIP-345, KIP-800, KIP-848, KIP-1071.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from ...api import names
from ...api.remedies import APPLY_CRDS
from ...api.resources.staticgroup import ConnectionKind, StaticGroup
from ...core.group import KafkaProblem
from ...kafka.wire import Api
from ...kube.problem import KubeProblem
from ...runtime.connections.connections import may_use
from ...runtime.operator import Operator
from ...runtime.process import kube_client, logs
from ...runtime.process.informers import list_once
from ...runtime.process.namespaces import serving
from ...runtime.process.settings import Settings
from ...runtime.stores import connection_of
from .. import doctor
from ..api_server import ApiServer
from ..doctor import CheckResult

NO_NAMESPACE = (
    "it is not served; take it out of watchNamespaces, or create it and run `helm upgrade`, which makes the Role and "
    "its binding in it"
)


class Need(NamedTuple):
    """A call, the version from which it serves, what does not work without it, and what to do."""

    api: Api
    version: int
    without: str
    remedy: str
    is_fatal: bool = False


NEEDS = (
    Need(
        Api.LEAVE_GROUP, 3, "no member can be removed by both of its ids, so none is",
        "use spec.mode Observe, or brokers like Kafka 2.4 or newer", is_fatal=True,
    ),
    Need(
        Api.JOIN_GROUP, 5, "consumers cannot be static members", "use brokers like Kafka 2.3 or newer", is_fatal=True
    ),
    Need(
        Api.DESCRIBE_GROUPS, 4, "the ids of members are not described, so nothing is known of a classic group",
        "use brokers like Kafka 2.4 or newer", is_fatal=True,
    ),
    Need(
        Api.DESCRIBE_CONFIGS, 1, "the bounds of session timeouts are not known, TimeoutUnknown",
        "choose sessionTimeout.maxSeconds within the bounds that the vendor documents",
    ),
    Need(
        Api.LEAVE_GROUP, 5, "the brokers' log does not say why a member was removed",
        "nothing has to be done; the operator's audit log says it",
    ),
    Need(
        Api.CONSUMER_GROUP_DESCRIBE, 0, "groups of the protocol of KIP-848 are not served",
        "leave group.protocol at classic in the consumers",
    ),
    Need(
        Api.CONSUMER_GROUP_HEARTBEAT, 0, "members of KIP-848 groups that crashed cannot be let go",
        "leave group.protocol at classic in the consumers",
    ),
    Need(
        Api.STREAMS_GROUP_HEARTBEAT, 0, "groups of the streams protocol (KIP-1071) are not served",
        "leave group.protocol at classic in applications of Kafka Streams",
    ),
)  # fmt: skip


def lacking(api_versions: Mapping[int, tuple[int, int]]) -> Iterator[Need]:
    """Yield what brokers lack, the gravest first; of one call only the first.

    Parameters
    ----------
    api_versions: API key → (lowest, highest) version that they serve.
    """
    named: set[Api] = set()
    for need in NEEDS:
        if need.api not in named and api_versions.get(need.api, (0, -1))[1] < need.version:
            named.add(need.api)
            yield need


async def examine(
    api: ApiServer, settings: Settings, namespace: str, schemas: doctor.Schemas, show: Callable[[CheckResult], None]
) -> None:
    """Show one result after the other: those of `doctor.examine`, then each connection and the groups that use it.

    Parameters
    ----------
    namespace: whose connections are checked; "" for all that are served.
    """
    transport = await kube_client.connected()
    served = await serving(transport, settings)
    operator = Operator(served, transport, journal_sinks=())
    logs.configure("ERROR", "text", operator.connections.secret_texts)
    own = doctor.Installed(
        namespace=settings.namespace, lease=settings.lease_name, policy=settings.policy_name,
        webhook=settings.webhook_name, served=(namespace,) if namespace else served.watch_namespaces,
    )  # fmt: skip
    try:
        for result in doctor.examine(api, namespace, schemas, datetime.now(UTC), own):
            show(result)
        for name in sorted(set(settings.watch_namespaces) - set(served.watch_namespaces)):
            show(CheckResult(f"namespace {name} exists and can be read", False, NO_NAMESPACE, is_fatal=False))
        for each in own.served or ("",):
            async for result in connections(operator, each):
                show(result)
    finally:
        await operator.kafka.close()
        await transport.close()


async def connections(operator: Operator, namespace: str) -> AsyncIterator[CheckResult]:
    """Check the KafkaConnections of a namespace, or for "" of all, and the groups that use them."""
    listed: dict[str, list[dict[str, object]]] = {}
    for plural in (names.STATIC_GROUP_PLURAL, names.KAFKA_CONNECTION_PLURAL):
        found = await operator.kube.list_objects(plural, namespace)
        if isinstance(found, KubeProblem):
            yield CheckResult(f"{plural} can be listed", False, found.message)
            return
        listed[plural] = found
    for body in listed[names.KAFKA_CONNECTION_PLURAL]:
        operator.listener.connection_changed(body, is_deleted=False)
    if operator.informers.cluster:
        await list_once(operator.informers.cluster)
        problem = operator.stores.cluster_connections_problem
        why = "without them each namespace needs a KafkaConnection; install the chart's ClusterRole, and"
        remedy = f"{problem}; {why} {APPLY_CRDS}"
        yield CheckResult("ClusterKafkaConnections are readable", not problem, remedy, is_fatal=False)
    groups = [StaticGroup.from_wire(body) for body in listed[names.STATIC_GROUP_PLURAL]]
    for key in sorted(operator.stores.connections):
        if key[0] == namespace or not namespace or not key[0]:
            async for result in _connection(operator, key, groups):
                yield result
    for group in groups:
        ref, label = group.spec.connection_ref, f"StaticGroup {group.metadata.namespace}/{group.metadata.name}"
        if ref.kind is ConnectionKind.CLUSTER_KAFKA_CONNECTION:
            settings = await operator.connections.settings_for(group)
            why = settings.message if isinstance(settings, KafkaProblem) else ""
            yield CheckResult(f"{label} may use ClusterKafkaConnection {ref.name}", not why, why)


async def _connection(
    operator: Operator, key: tuple[str, str], groups: Sequence[StaticGroup]
) -> AsyncIterator[CheckResult]:
    """Yield whether one connection works, what its brokers lack, and the rights for the groups that use it."""
    settings = await operator.connections.settings(key)
    facts = settings if isinstance(settings, KafkaProblem) else await operator.kafka.probe(settings)
    label = f"KafkaConnection {key[0]}/{key[1]}" if key[0] else f"ClusterKafkaConnection {key[1]}"
    if isinstance(settings, KafkaProblem) or isinstance(facts, KafkaProblem):
        assert isinstance(facts, KafkaProblem)
        yield CheckResult(label, False, f"{facts.kind.value}: {facts.message}")
        return
    versions = ", ".join(f"{api}:{high}" for api, (_, high) in sorted(facts.api_versions.items()))
    cluster = f"cluster {facts.cluster_id}, {len(facts.brokers)} brokers"
    yield CheckResult(f"{label}: {cluster}, newest API versions {versions}", True)
    for need in lacking(facts.api_versions) if facts.api_versions else ():
        check = f"{label}: brokers serve {need.api.name} version {need.version}"
        yield CheckResult(check, False, f"without it {need.without}; {need.remedy}", need.is_fatal)
    for group in groups:
        namespace, group_id = group.metadata.namespace, group.spec.group_id
        if connection_of(group.spec, namespace) != key or not may_use(operator.stores, group):
            continue
        check = f"ACLs for group {group_id} (StaticGroup {namespace}/{group.metadata.name})"
        alters = group.spec.session_timeout.write_group_config
        rights = await operator.kafka.describe_rights(settings, group_id, alters=alters)
        if isinstance(rights, KafkaProblem):
            yield CheckResult(check, False, rights.message)
            continue
        is_fatal = not rights.describe_group or rights.read_group is False or rights.describe_topics is False
        yield CheckResult(check, not rights.missing, f"missing: {', '.join(rights.missing)}", is_fatal)
