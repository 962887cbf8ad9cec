"""`doctor`: the cluster's side of an installation, as far as the caller may see it.

The one idea: what may not be read is said so and counts as not checked, never as good; and what only the operator's own
doctor can tell (its credentials, its way to the brokers) is named with the command that asks it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from ..api import names
from ..api.remedies import INSTALL_CRDS
from ..api.served import lacking
from ..kube.problem import KubeProblem, KubeProblemKind
from ..runtime.commands.findings import POLICY_MINOR, Finding, right, rights_in
from ..runtime.commands.person import plain
from .kubectl import GROUP_PATH, Json, Kubectl

Schemas = Mapping[str, Any]
"""By kind: the schema of the status that an operator of this plugin's version writes."""

KINDS: Final = (names.STATIC_GROUP_KIND, names.KAFKA_CONNECTION_KIND, names.CLUSTER_KAFKA_CONNECTION_KIND)
ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
WEBHOOK_SUFFIX: Final = f".{names.GROUP}"
"""Of the names of the webhook's entries, whatever its release is called."""
OWN_DOCTOR: Final = "kubectl -n staticgroup-system exec deploy/staticgroup-operator -- python -m staticgroup doctor"
"""The command of an operator that was installed by the guide, for who may not see it."""
LEASE_MARK: Final = "STATICGROUP_LEASE_NAME"
"""By this variable a Deployment is known to be the operator's, whatever it is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """One operator, as its Deployment shows it."""

    namespace: str
    name: str
    lease: str
    account: str
    served: tuple[str, ...]
    image: str
    ready: int
    wanted: int
    does_inject: bool

    @property
    def label(self) -> str:
        """Return `<namespace>/<name>`."""
        return f"{self.namespace}/{self.name}"

    @property
    def own_doctor(self) -> str:
        """Return the command that asks what only the operator knows."""
        return f"kubectl -n {self.namespace} exec deploy/{self.name} -- python -m staticgroup doctor"


def examine(kube: Kubectl, namespace: str, schemas: Schemas, version: str, now: datetime) -> Iterator[Finding]:
    """Yield one finding after the other.

    Parameters
    ----------
    namespace: whose StaticGroups the caller means; "" for all.
    """
    answer = kube.read("/version", resource="the version")
    if isinstance(answer, KubeProblem):
        yield Finding(check="API server answers", is_good=False, remedy=answer.message)
        return
    digits = str(answer.get("minor", "")).rstrip("+")
    minor = int(digits) if digits.isdigit() else 0
    yield Finding(check=f"API server answers (1.{minor})", is_good=True)
    served = list(_definitions(kube, schemas))
    yield from served
    yield _injection(kube, minor)
    operators = _operators(kube)
    if isinstance(operators, KubeProblem):
        yield _unchecked("an operator is installed", operators)
        operators = ()
    elif not operators:
        yield Finding(check="an operator is installed", is_good=False, remedy="no Deployment is one; docs/guide/install.md")
    for operator in operators:
        yield from _operator(kube, operator, version, now)
    yield from _own_rights(kube, namespace)
    if any(f.is_good for f in served):
        yield from _resources(kube, namespace)


def only_the_operator_knows(kube: Kubectl) -> str:
    """Say what is not checked here, and the command that checks it."""
    operators = _operators(kube)
    known = operators[0].own_doctor if isinstance(operators, tuple) and operators else OWN_DOCTOR
    return f"not checked here, because only the operator's process can: Secrets, brokers and ACLs. Ask it: {known}"


def _unchecked(check: str, problem: KubeProblem) -> Finding:
    """Return a finding about something that could not be looked at."""
    return Finding(check=check, is_good=False, is_fatal=False, remedy=f"not checked: {plain(problem)}")


def _definitions(kube: Kubectl, schemas: Schemas) -> Iterator[Finding]:
    """Yield whether each kind is served, and takes every status; the published OpenAPI document may be read by everybody."""
    answer = kube.read(f"/openapi/v3{GROUP_PATH}", resource="the published schemas")
    if isinstance(answer, KubeProblem) and answer.kind is not KubeProblemKind.NOT_FOUND:
        yield _unchecked("CustomResourceDefinitions are served", answer)
        return
    published = {} if isinstance(answer, KubeProblem) else (answer.get("components") or {}).get("schemas") or {}
    for kind in KINDS:
        wanted = {"group": names.GROUP, "version": names.VERSION, "kind": kind}
        schema = next((s for s in published.values() if wanted in (s.get("x-kubernetes-group-version-kind") or ())), None)
        if schema is None:
            yield Finding(check=f"{kind} is served", is_good=False, remedy=INSTALL_CRDS)
            continue
        missing = lacking(schemas[kind], schema) if kind in schemas else ()
        yield Finding(
            check=f"{kind} is served",
            is_good=not missing,
            is_fatal=False,
            remedy=f"its CustomResourceDefinition is older than this plugin: no {', '.join(missing)}; upgrade the CRDs before the operator",
        )


def _injection(kube: Kubectl, minor: int) -> Finding:
    """Say whether the policy or the webhook gives new pods their ids; a webhook's certificate is its own to say."""
    check = "new pods get their ids by the admission policy or the webhook"
    by_policy = _policy(kube, check, "mutatingadmissionpolicies", "injection.policy.enabled", _injects) if minor >= POLICY_MINOR else None
    if by_policy is not None and by_policy.is_good:
        return by_policy
    listed = kube.items(ADMISSION, "mutatingwebhookconfigurations.admissionregistration.k8s.io")
    if isinstance(listed, KubeProblem):
        return _unchecked(check, listed)
    entries = [each for body in listed for each in body.get("webhooks") or () if str(each.get("name", "")).endswith(WEBHOOK_SUFFIX)]
    if entries and not all((each.get("clientConfig") or {}).get("caBundle") for each in entries):
        why = "the webhook has no certificate yet; look at the log of its pods (app.kubernetes.io/component=webhook)"
        return Finding(check=check, is_good=False, is_fatal=False, remedy=why)
    too_old = "this API server is older than 1.36, which has no such policy, and no webhook is installed; set injection.webhook.enabled"
    return Finding(check=check, is_good=bool(entries), is_fatal=False, remedy=by_policy.remedy if by_policy is not None else too_old)


def _injects(policy: Json) -> bool:
    kind = (policy.get("spec") or {}).get("paramKind") or {}
    return bool(kind.get("kind") == names.STATIC_GROUP_KIND and str(kind.get("apiVersion", "")).startswith(names.GROUP))


def _policy(kube: Kubectl, check: str, plural: str, value: str, is_ours: Any) -> Finding:
    resource = f"{plural}.admissionregistration.k8s.io"
    policies = kube.items(ADMISSION, resource)
    bindings = kube.items(ADMISSION, resource.replace("policies.", "policybindings."))
    for listed in (policies, bindings):
        if isinstance(listed, KubeProblem):
            return _unchecked(check, listed)
    assert isinstance(policies, list)
    assert isinstance(bindings, list)
    ours = {p["metadata"]["name"] for p in policies if is_ours(p)}
    bound = ours & {(b.get("spec") or {}).get("policyName") for b in bindings}
    why = f"{', '.join(sorted(ours))} has no binding" if ours else f"no such policy is installed; set {value}"
    return Finding(check=check, is_good=bool(bound), is_fatal=False, remedy=why)


def _operators(kube: Kubectl) -> tuple[Installed, ...] | KubeProblem:
    """Return the operators of the cluster that the caller may see."""
    listed = kube.items("/apis/apps/v1", "deployments.apps", query=f"labelSelector={quote('app.kubernetes.io/component=operator')}")
    if isinstance(listed, KubeProblem):
        return listed
    return tuple(found for body in listed if (found := _installed(body)) is not None)


def _installed(body: Json) -> Installed | None:
    pod = body["spec"]["template"]["spec"]
    for container in pod.get("containers") or ():
        variables = {e.get("name"): e.get("value", "") for e in container.get("env") or ()}
        if LEASE_MARK in variables:
            return Installed(
                namespace=body["metadata"]["namespace"], name=body["metadata"]["name"], lease=variables[LEASE_MARK],
                account=pod.get("serviceAccountName", "default"), image=container.get("image", ""),
                served=tuple(n for n in variables.get("STATICGROUP_WATCH_NAMESPACES", "").split(",") if n),
                ready=(body.get("status") or {}).get("readyReplicas") or 0, wanted=body["spec"].get("replicas", 1),
                does_inject=variables.get("STATICGROUP_FORCE_OBSERVE", "false").lower() != "true",
            )  # fmt: skip
    return None


def _operator(kube: Kubectl, operator: Installed, version: str, now: datetime) -> Iterator[Finding]:
    """Yield whether one operator runs, leads, has the version of this plugin, and its rights."""
    yield Finding(
        check=f"operator {operator.label}: {operator.ready} of {operator.wanted} replicas ready",
        is_good=operator.ready > 0,
        remedy=f"kubectl -n {operator.namespace} describe pods -l app.kubernetes.io/component=operator",
    )
    yield _leads(kube, operator, now)
    if not operator.does_inject:
        remedy = "operator.forceObserve is on: it plans and reports, and does nothing"
        yield Finding(check=f"operator {operator.label} acts", is_good=False, is_fatal=False, remedy=remedy)
    tag = operator.image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    yield Finding(
        check=f"operator {operator.label} has the version of this plugin",
        is_good=tag == version,
        is_fatal=False,
        remedy=f"its image is {operator.image}, this plugin {version}; what may differ: docs/guide/upgrade.md",
    )
    for namespace in operator.served or ("",):
        yield _account(kube, operator, namespace)


def _leads(kube: Kubectl, operator: Installed, now: datetime) -> Finding:
    check = f"a replica of operator {operator.label} leads"
    path = f"/apis/coordination.k8s.io/v1/namespaces/{quote(operator.namespace)}/leases/{quote(operator.lease)}"
    lease = kube.read(path, resource="leases.coordination.k8s.io", namespace=operator.namespace)
    if isinstance(lease, KubeProblem) and lease.kind is not KubeProblemKind.NOT_FOUND:
        return _unchecked(check, lease)
    spec = {} if isinstance(lease, KubeProblem) else lease.get("spec") or {}
    holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
    logs = f"kubectl -n {operator.namespace} logs deploy/{operator.name}"
    if not holder or not renewed:
        return Finding(check=check, is_good=False, remedy=f"nobody holds Lease {operator.namespace}/{operator.lease}; {logs}")
    silent_s = (now - datetime.fromisoformat(renewed)).total_seconds()
    # Twice the time, because the caller's clock is not the cluster's.
    is_late = silent_s > 2 * (spec.get("leaseDurationSeconds") or 15)
    return Finding(
        check=f"{check} ({holder})", is_good=not is_late,
        remedy=f"by this machine's clock the Lease was last renewed {int(silent_s)} s ago; {logs}",
    )  # fmt: skip


def _account(kube: Kubectl, operator: Installed, namespace: str) -> Finding:
    """Return whether the operator's account has its rights in a namespace; to ask this for others is a right itself."""
    user = f"system:serviceaccount:{operator.namespace}:{operator.account}"
    check = f"rights of {user} in {f'namespace {namespace}' if namespace else 'all namespaces'}"
    missing, is_fatal = [], False
    for verb, group, resource, subresource, is_needed in rights_in(namespace):
        allowed = kube.may(verb, group, resource, subresource, namespace=namespace, user=user)
        if isinstance(allowed, KubeProblem):
            return _unchecked(check, allowed)
        if not allowed:
            missing.append(right(verb, group, resource, subresource))
            is_fatal = is_fatal or is_needed
    return Finding(
        check=check, is_good=not missing, is_fatal=is_fatal,
        remedy=f"it may not {', '.join(missing)}; install the chart's roles (rbac.create)",
    )  # fmt: skip


_OWN: Final = (
    ("see StaticGroups", (("list", names.GROUP, names.STATIC_GROUP_PLURAL),)),
    ("see KafkaConnections", (("list", names.GROUP, names.KAFKA_CONNECTION_PLURAL),)),
    ("change StaticGroups", (("patch", names.GROUP, names.STATIC_GROUP_PLURAL),)),
)


def _own_rights(kube: Kubectl, namespace: str) -> Iterator[Finding]:
    """Yield what the caller may do; to lack a right is no fault of the installation."""
    where = f"namespace {namespace}" if namespace else "all namespaces"
    for what, rights in _OWN:
        answers = {right(*each): kube.may(*each, namespace=namespace) for each in rights}
        missing = [name for name, allowed in answers.items() if allowed is not True]
        remedy = f"you may not {', '.join(missing)}"
        yield Finding(check=f"you may {what} in {where}", is_good=not missing, is_fatal=False, remedy=remedy)


def _resources(kube: Kubectl, namespace: str) -> Iterator[Finding]:
    """Yield what the statuses of connections and groups say; of connections of the whole cluster where one is used."""
    yield from _told(kube, names.KAFKA_CONNECTION_PLURAL, names.KAFKA_CONNECTION_KIND, namespace)
    yield from _told(kube, names.STATIC_GROUP_PLURAL, names.STATIC_GROUP_KIND, namespace)
    groups = kube.items(GROUP_PATH, f"{names.STATIC_GROUP_PLURAL}.{names.GROUP}", namespace=namespace)
    refs = (body["spec"].get("connectionRef") or {} for body in groups) if isinstance(groups, list) else ()
    if not namespace or any(ref.get("kind") == names.CLUSTER_KAFKA_CONNECTION_KIND for ref in refs):
        yield from _told(kube, names.CLUSTER_KAFKA_CONNECTION_PLURAL, names.CLUSTER_KAFKA_CONNECTION_KIND, "")


def _told(kube: Kubectl, plural: str, kind: str, namespace: str) -> Iterator[Finding]:
    listed = kube.items(GROUP_PATH, f"{plural}.{names.GROUP}", namespace=namespace)
    if isinstance(listed, KubeProblem):
        yield _unchecked(f"what the statuses of {kind}s say", listed)
        return
    for body in listed:
        where = body["metadata"].get("namespace")
        label = f"{kind} {where + '/' if where else ''}{body['metadata']['name']}"
        conditions = (body.get("status") or {}).get("conditions") or ()
        bad = [c for c in conditions if c.get("status") == "False"]
        told = "; ".join(f"{c.get('type')}: {c.get('message')}" for c in bad)
        why = told or "no operator has written a status"
        yield Finding(check=label, is_good=bool(conditions) and not bad, is_fatal=False, remedy=why)
