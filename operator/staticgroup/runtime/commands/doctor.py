"""`doctor`: everything the operator needs, asked one by one, each with its remedy.

Run it in the operator's pod: it checks the rights of the service account it runs as.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from ...api import names
from ...api.crd import status_schema
from ...api.remedies import INSTALL_CRDS
from ...api.resources.staticgroup import ConnectionKind, StaticGroup
from ...api.served import UPGRADE_CRDS, lacking
from ...core.group import KafkaProblem
from ...kafka.login.credentials import ConnectionSettings
from ...kube.problem import KubeProblem
from ..connections.allowed import may_use
from ..operator import Operator
from ..process import kube_client, logs
from ..process.informers import list_once
from ..process.namespaces import serving
from ..process.settings import Settings
from .broker_calls import lacking as lacking_calls
from .findings import POLICY_MINOR, Finding, right, rights_in

NO_NAMESPACE = "it is not served; take it out of watchNamespaces, or create it and run `helm upgrade`, which makes the Role and its binding in it"


async def examine(settings: Settings, namespace: str) -> int:
    """Print every finding.

    Returns
    -------
    0 when nothing fatal is missing, else 1.
    """
    transport = await kube_client.connected()
    served = await serving(transport, settings)
    operator = Operator(served, transport, journal_sinks=())
    logs.configure("ERROR", "text", operator.connections.secret_texts)
    fatal = 0
    try:
        missing = sorted(set(settings.watch_namespaces) - set(served.watch_namespaces))
        async for finding in findings(operator, namespace, missing):
            print(finding, flush=True)
            fatal += finding.is_fatal and not finding.is_good
    finally:
        await operator.kafka.close()
        await transport.close()
    print(f"{fatal} problems" if fatal else "all good")
    return 1 if fatal else 0


async def findings(operator: Operator, namespace: str = "", missing: Sequence[str] = ()) -> AsyncIterator[Finding]:
    """Yield one finding after the other: API server, rights, injection, then each KafkaConnection and its groups.

    Parameters
    ----------
    missing: namespaces that the operator is told to serve, and that do not exist or may not be read.
    """
    minor = await operator.kube.server_minor()
    if isinstance(minor, KubeProblem):
        yield Finding(check="API server answers", is_good=False, remedy=minor.message)
        return
    yield Finding(check=f"API server answers (1.{minor})", is_good=True)
    for name in missing:
        yield Finding(check=f"namespace {name} exists and can be read", is_good=False, remedy=NO_NAMESPACE, is_fatal=False)
    namespaces = (namespace,) if namespace else operator.settings.watch_namespaces or ("",)
    async for finding in _rights(operator, namespaces):
        yield finding
    async for finding in _schemas(operator):
        yield finding
    yield await _injection(operator, minor)
    for served in namespaces:
        async for finding in _kafka(operator, served):
            yield finding


async def _rights(operator: Operator, namespaces: tuple[str, ...]) -> AsyncIterator[Finding]:
    for served in namespaces:
        where = f"namespace {served}" if served else "all namespaces"
        missing: list[tuple[str, bool]] = []
        for verb, group, resource, subresource, is_fatal in rights_in(served):
            allowed = await operator.kube.can_i(
                verb, group=group, resource=resource, subresource=subresource, namespace=served
            )
            if allowed is not True:
                missing.append((right(verb, group, resource, subresource), is_fatal))
        for is_fatal in (True, False):
            absent = [named for named, fatal in missing if fatal is is_fatal]
            if absent or is_fatal:
                yield Finding(
                    check=f"rights in {where}",
                    is_good=not absent,
                    is_fatal=is_fatal,
                    remedy=f"the service account may not {', '.join(absent)}; install the chart's roles (rbac.create)",
                )
    nodes = await operator.kube.can_i("list", group="", resource="nodes")
    yield Finding(
        check="right to list nodes",
        is_good=nodes is True,
        is_fatal=False,
        remedy="without it no end of a pod can be believed, so every departed member waits for its session to expire; set rbac.nodes to true",
    )
    lease = await operator.kube.can_i(
        "update", group="coordination.k8s.io", resource="leases", namespace=operator.settings.namespace
    )
    yield Finding(
        check=f"right to hold the Lease in namespace {operator.settings.namespace}",
        is_good=lease is True or not operator.settings.leader_election,
        is_fatal=False,
        remedy="a role limited to the Lease's name is not seen by this check; otherwise install the chart's roles",
    )


async def _schemas(operator: Operator) -> AsyncIterator[Finding]:
    """Yield whether each served CRD takes every status that this operator may write."""
    for kind, plural in (
        (names.STATIC_GROUP_KIND, names.STATIC_GROUP_PLURAL),
        (names.KAFKA_CONNECTION_KIND, names.KAFKA_CONNECTION_PLURAL),
        *(((names.CLUSTER_KAFKA_CONNECTION_KIND, names.CLUSTER_KAFKA_CONNECTION_PLURAL),) if operator.informers.cluster else ()),
    ):
        check = f"CustomResourceDefinition {plural}.{names.GROUP} knows what this operator writes"
        served = await operator.kube.served_schema(kind)
        if isinstance(served, KubeProblem):
            remedy = f"{served.message}; the check was left out"
            yield Finding(check=check, is_good=False, is_fatal=False, remedy=remedy)
        elif served is not None:
            missing = lacking(status_schema(kind), served)
            yield Finding(
                check=check,
                is_good=not missing,
                remedy=f"it is older than this operator, which has every status refused: no {', '.join(missing)}; {UPGRADE_CRDS}",
            )


async def _injection(operator: Operator, minor: int) -> Finding:
    check = "injection by admission policy or webhook"
    settings = operator.settings
    if await operator.kube.has_policy(settings.policy_name) is True or await operator.kube.has_webhook(settings.webhook_name) is True:
        return Finding(check=check, is_good=True)
    policy = f"MutatingAdmissionPolicy {settings.policy_name} is not installed (chart value injection.policy.enabled)"
    remedy = (
        f"{policy if minor >= POLICY_MINOR else 'this API server is older than 1.36, which serves no such policy'}, and the webhook "
        f"{settings.webhook_name} is not installed or has no certificate yet (chart value injection.webhook.enabled)"
    )
    return Finding(check=check, is_good=False, is_fatal=False, remedy=remedy)


async def _kafka(operator: Operator, namespace: str) -> AsyncIterator[Finding]:
    groups = await operator.kube.list_objects(names.STATIC_GROUP_PLURAL, namespace)
    connections = await operator.kube.list_objects(names.KAFKA_CONNECTION_PLURAL, namespace)
    for listed, crd in ((groups, names.STATIC_GROUP_PLURAL), (connections, names.KAFKA_CONNECTION_PLURAL)):
        if isinstance(listed, KubeProblem):
            yield Finding(
                check=f"CustomResourceDefinition {crd}.{names.GROUP}",
                is_good=False,
                remedy=f"{listed.message}; {INSTALL_CRDS}",
            )
            return
    yield Finding(check="CustomResourceDefinitions are served", is_good=True)
    assert isinstance(groups, list)
    assert isinstance(connections, list)
    for body in connections:
        operator.listener.connection_changed(body, is_deleted=False)
    if operator.informers.cluster:
        await list_once(operator.informers.cluster)
        problem = operator.stores.cluster_connections_problem
        yield Finding(
            check="ClusterKafkaConnections are readable",
            is_good=not problem,
            is_fatal=False,
            remedy=f"{problem}; without them each namespace needs a KafkaConnection; {INSTALL_CRDS} and the chart's ClusterRole",
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


async def _connection(operator: Operator, key: tuple[str, str], groups: Sequence[StaticGroup]) -> AsyncIterator[Finding]:
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
