"""`doctor` in the operator's pod: with its settings and rights, and besides its Secrets, brokers, their calls, and ACLs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime

from ...api import names
from ...api.remedies import APPLY_CRDS
from ...api.resources.staticgroup import ConnectionKind, StaticGroup
from ...core.group import KafkaProblem
from ...kafka.login.credentials import ConnectionSettings
from ...kube.problem import KubeProblem
from ...runtime.connections.connections import may_use
from ...runtime.operator import Operator
from ...runtime.process import kube_client, logs
from ...runtime.process.informers import list_once
from ...runtime.process.namespaces import serving
from ...runtime.process.settings import Settings
from .. import doctor
from ..api_server import ApiServer
from ..findings import Finding
from .broker_calls import lacking as lacking_calls

NO_NAMESPACE = (
    "it is not served; take it out of watchNamespaces, or create it and run `helm upgrade`, which makes the Role and its "
    "binding in it"
)


async def examine(
    api: ApiServer, settings: Settings, namespace: str, schemas: doctor.Schemas, show: Callable[[Finding], None]
) -> None:
    """Show one finding after the other: those of `doctor.examine`, then each connection and the groups that use it.

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
        for finding in doctor.examine(api, namespace, schemas, datetime.now(UTC), own):
            show(finding)
        for name in sorted(set(settings.watch_namespaces) - set(served.watch_namespaces)):
            check = f"namespace {name} exists and can be read"
            show(Finding(check=check, is_good=False, remedy=NO_NAMESPACE, is_fatal=False))
        for each in own.served or ("",):
            async for finding in connections(operator, each):
                show(finding)
    finally:
        await operator.kafka.close()
        await transport.close()


async def connections(operator: Operator, namespace: str) -> AsyncIterator[Finding]:
    """Yield what is wrong with the KafkaConnections of a namespace, or for "" of all, and with the groups that use them."""
    groups = await operator.kube.list_objects(names.STATIC_GROUP_PLURAL, namespace)
    listed_connections = await operator.kube.list_objects(names.KAFKA_CONNECTION_PLURAL, namespace)
    for listed, plural in ((groups, names.STATIC_GROUP_PLURAL), (listed_connections, names.KAFKA_CONNECTION_PLURAL)):
        if isinstance(listed, KubeProblem):
            yield Finding(check=f"{plural} can be listed", is_good=False, remedy=listed.message)
            return
    assert isinstance(groups, list)
    assert isinstance(listed_connections, list)
    for body in listed_connections:
        operator.listener.connection_changed(body, is_deleted=False)
    if operator.informers.cluster:
        await list_once(operator.informers.cluster)
        problem = operator.stores.cluster_connections_problem
        yield Finding(
            check="ClusterKafkaConnections are readable",
            is_good=not problem,
            is_fatal=False,
            remedy=f"{problem}; without them each namespace needs a KafkaConnection; install the chart's ClusterRole, and {APPLY_CRDS}",
        )
    known = [StaticGroup.from_wire(body) for body in groups]
    for key in sorted(operator.stores.connections):
        if key[0] == namespace or not namespace or not key[0]:
            async for finding in _connection(operator, key, known):
                yield finding
    for group in known:
        if group.spec.connection_ref.kind is ConnectionKind.CLUSTER_KAFKA_CONNECTION:
            yield await _allowance(operator, group)


async def _allowance(operator: Operator, group: StaticGroup) -> Finding:
    """Return whether a StaticGroup may use the ClusterKafkaConnection that it names."""
    namespace, ref = group.metadata.namespace, group.spec.connection_ref
    settings = await operator.connections.settings_for(group)
    return Finding(
        check=f"StaticGroup {namespace}/{group.metadata.name} may use ClusterKafkaConnection {ref.name}",
        is_good=isinstance(settings, ConnectionSettings),
        remedy=settings.message if isinstance(settings, KafkaProblem) else "",
    )


async def _connection(
    operator: Operator, key: tuple[str, str], groups: Sequence[StaticGroup]
) -> AsyncIterator[Finding]:
    """Yield whether one connection works, what its brokers lack, and the rights for the groups that use it."""
    settings = await operator.connections.settings(key)
    facts = settings if isinstance(settings, KafkaProblem) else await operator.kafka.probe(settings)
    label = f"KafkaConnection {key[0]}/{key[1]}" if key[0] else f"ClusterKafkaConnection {key[1]}"
    if isinstance(facts, KafkaProblem):
        yield Finding(check=label, is_good=False, remedy=f"{facts.kind.value}: {facts.message}")
        return
    versions = ", ".join(f"{api}:{high}" for api, (_, high) in sorted(facts.api_versions.items()))
    yield Finding(
        check=f"{label}: cluster {facts.cluster_id}, {len(facts.brokers)} brokers, newest API versions {versions}",
        is_good=True,
    )
    for need in lacking_calls(facts.api_versions) if facts.api_versions else ():
        yield Finding(
            check=f"{label}: brokers serve {need.api.name} version {need.version}",
            is_good=False,
            is_fatal=need.is_fatal,
            remedy=f"without it {need.without}; {need.remedy}",
        )
    for group in groups:
        namespace, ref = group.metadata.namespace, group.spec.connection_ref
        if ref.key(namespace) == key and may_use(operator.stores, group):
            assert isinstance(settings, ConnectionSettings)
            yield await _group_rights(operator, settings, group)


async def _group_rights(operator: Operator, settings: ConnectionSettings, group: StaticGroup) -> Finding:
    label = f"ACLs for group {group.spec.group_id} (StaticGroup {group.metadata.namespace}/{group.metadata.name})"
    alters = group.spec.session_timeout.write_group_config
    rights = await operator.kafka.describe_rights(settings, group.spec.group_id, alters=alters)
    if isinstance(rights, KafkaProblem):
        return Finding(check=label, is_good=False, remedy=rights.message)
    fatal = not rights.describe_group or rights.read_group is False or rights.describe_topics is False
    remedy = f"missing: {', '.join(rights.missing)}"
    return Finding(check=label, is_good=not rights.missing, is_fatal=fatal, remedy=remedy)
