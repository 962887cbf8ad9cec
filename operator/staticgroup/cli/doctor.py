"""`doctor`: whether everything is there that the operator needs, each check with its remedy.

A person sees the cluster's side with his own rights; what he may not read is said and counts as not checked, never as good.
The operator's pod checks the same with the rights of its account, and its Secrets and brokers besides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from .. import __version__
from ..api import names
from ..api.remedies import APPLY_CRDS
from ..api.served import lacking
from ..kube.problem import KubeProblem, KubeProblemKind
from .api_server import GROUP_PATH, ApiServer, Json
from .findings import POLICY_MINOR, Finding, right, rights_in

Schemas = Mapping[str, Any]
"""By kind: the schema of the status that an operator of this version writes."""

KINDS: Final = (names.STATIC_GROUP_KIND, names.KAFKA_CONNECTION_KIND, names.CLUSTER_KAFKA_CONNECTION_KIND)
ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
INJECTION: Final = "staticgroup-inject"
"""Policy and webhook of an installation by the guide."""
LEASE_MARK: Final = "STATICGROUP_LEASE_NAME"
"""By this variable a Deployment is known to be the operator's, and its pod knows itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """One operator, as its Deployment shows it; by default as the guide installs it.

    Parameters
    ----------
    account: of the operator, or "" for the caller's own.
    served: namespaces that it serves; empty for all.
    """

    namespace: str = "staticgroup-system"
    name: str = "staticgroup-operator"
    lease: str = "staticgroup-operator"
    account: str = ""
    policy: str = INJECTION
    webhook: str = INJECTION
    served: tuple[str, ...] = ()
    image: str = ""
    ready: int = 0
    wanted: int = 0
    does_inject: bool = True

    @property
    def label(self) -> str:
        """Return `<namespace>/<name>`."""
        return f"{self.namespace}/{self.name}"

    @property
    def command(self) -> str:
        """Return the beginning of a command that runs in its pod."""
        return f"kubectl -n {self.namespace} exec deploy/{self.name} -- staticgroup"


def examine(
    api: ApiServer, namespace: str, schemas: Schemas, now: datetime, own: Installed | None = None
) -> Iterator[Finding]:
    """Yield one finding after the other.

    Parameters
    ----------
    namespace: whose StaticGroups the caller means; "" for all.
    own: the operator in whose pod this runs; None for a person, who is shown the operators that he may see.
    """
    answer = api.read("/version", resource="the version")
    if isinstance(answer, KubeProblem):
        yield Finding(check="API server answers", is_good=False, remedy=answer.message)
        return
    digits = str(answer.get("minor", "")).rstrip("+")
    minor = int(digits) if digits.isdigit() else 0
    yield Finding(check=f"API server answers (1.{minor})", is_good=True)
    definitions = list(_definitions(api, schemas, is_fatal=own is not None))
    yield from definitions
    if own is not None:
        yield _injection(api, minor, own)
        yield from _rights(api, own)
        return
    operators = operators_seen(api)
    if isinstance(operators, KubeProblem):
        yield _unchecked("an operator is installed", operators)
        yield _injection(api, minor, Installed())
        operators = ()
    elif not operators:
        yield Finding(
            check="an operator is installed", is_good=False, remedy="no Deployment is one; docs/guide/install.md"
        )
    for operator in operators:
        yield from _deployment(api, operator, now)
        yield _injection(api, minor, operator)
        yield from _rights(api, operator)
    yield from _own_rights(api, namespace)
    if any(f.is_good for f in definitions):
        yield from _statuses(api, namespace)


def _definitions(api: ApiServer, schemas: Schemas, *, is_fatal: bool) -> Iterator[Finding]:
    """Yield whether each kind is served and takes every status; everybody may read the published OpenAPI document.

    Parameters
    ----------
    is_fatal: an older definition is fatal, as it is to an operator of this version.
    """
    answer = api.read(f"/openapi/v3{GROUP_PATH}", resource="the published schemas")
    if isinstance(answer, KubeProblem) and answer.kind is not KubeProblemKind.NOT_FOUND:
        yield _unchecked("CustomResourceDefinitions are served", answer)
        return
    published = {} if isinstance(answer, KubeProblem) else (answer.get("components") or {}).get("schemas") or {}
    for kind in KINDS:
        wanted = {"group": names.GROUP, "version": names.VERSION, "kind": kind}
        marks = "x-kubernetes-group-version-kind"
        schema = next((s for s in published.values() if wanted in (s.get(marks) or ())), None)
        missing = lacking(schemas[kind], schema) if schema is not None else ()
        why = f"it is older than this program, {__version__}: no {', '.join(missing)}; " if missing else ""
        yield Finding(
            check=f"{kind} is served", is_good=schema is not None and not missing, is_fatal=is_fatal or schema is None,
            remedy=f"{why}{APPLY_CRDS}",
        )  # fmt: skip


def _injection(api: ApiServer, minor: int, operator: Installed) -> Finding:
    """Return whether the policy or the webhook gives new pods their ids."""
    check = f"new pods get their ids by policy {operator.policy} or webhook {operator.webhook}"
    policy = _read_admission(api, "mutatingadmissionpolicies", operator.policy) if minor >= POLICY_MINOR else None
    binding = (
        _read_admission(api, "mutatingadmissionpolicybindings", operator.policy) if isinstance(policy, dict) else None
    )
    if isinstance(policy, dict) and not _is_absent(binding):
        return Finding(check=check, is_good=True)
    webhook = _read_admission(api, "mutatingwebhookconfigurations", operator.webhook)
    for answer in (policy, webhook):
        if isinstance(answer, KubeProblem) and not _is_absent(answer):
            return _unchecked(check, answer)
    if isinstance(webhook, dict):
        entries = webhook.get("webhooks") or ()
        has_certificate = bool(entries) and all((e.get("clientConfig") or {}).get("caBundle") for e in entries)
        why = "the webhook has no certificate yet; see the log of its pods (app.kubernetes.io/component=webhook)"
        return Finding(check=check, is_good=has_certificate, is_fatal=False, remedy=why)
    why = f"the policy has no {'binding' if isinstance(policy, dict) else 'object'}; set injection.policy.enabled"
    too_old = "an API server before 1.36 serves no such policy; set injection.webhook.enabled"
    return Finding(check=check, is_good=False, is_fatal=False, remedy=why if minor >= POLICY_MINOR else too_old)


def _read_admission(api: ApiServer, plural: str, name: str) -> Json | KubeProblem:
    return api.read(f"{ADMISSION}/{plural}/{quote(name)}", resource=f"{plural}.admissionregistration.k8s.io")


def _is_absent(answer: Json | KubeProblem | None) -> bool:
    return isinstance(answer, KubeProblem) and answer.kind is KubeProblemKind.NOT_FOUND


def _rights(api: ApiServer, operator: Installed) -> Iterator[Finding]:
    """Yield whether the operator's account has its rights; to ask this for another account is a right itself."""
    user = f"system:serviceaccount:{operator.namespace}:{operator.account}" if operator.account else ""
    whose = f"rights of {user or 'the operator'}"
    for namespace in operator.served or ("",):
        check = f"{whose} in {f'namespace {namespace}' if namespace else 'all namespaces'}"
        missing, is_fatal = [], False
        for each in rights_in(namespace):
            asked, is_needed = each[:4], each[4]
            allowed = api.may(*asked, namespace=namespace, user=user)
            if isinstance(allowed, KubeProblem):
                yield _unchecked(check, allowed)
                return
            if not allowed:
                missing.append(right(*asked))
                is_fatal = is_fatal or is_needed
        remedy = f"it may not {', '.join(missing)}; install the chart's roles (rbac.create)"
        yield Finding(check=check, is_good=not missing, is_fatal=is_fatal, remedy=remedy)
    yield Finding(
        check=f"{whose} to list nodes", is_good=api.may("list", "", "nodes", user=user) is True, is_fatal=False,
        remedy="without it no end of a pod is believed, so departed members leave with their sessions; set rbac.nodes to true",
    )  # fmt: skip
    lease = {"namespace": operator.namespace, "name": operator.lease}
    yield Finding(
        check=f"{whose} to hold Lease {operator.namespace}/{operator.lease}", is_fatal=False,
        is_good=api.may("update", "coordination.k8s.io", "leases", user=user, **lease) is True,
        remedy="without it no replica can lead; install the chart's roles (rbac.create)",
    )  # fmt: skip


def operators_seen(api: ApiServer) -> tuple[Installed, ...] | KubeProblem:
    """Return the operators of the cluster that the caller may see."""
    selector = f"labelSelector={quote('app.kubernetes.io/component=operator')}"
    listed = api.items("/apis/apps/v1", "deployments.apps", query=selector)
    if isinstance(listed, KubeProblem):
        return listed
    return tuple(found for body in listed if (found := _installed(body)) is not None)


def only_the_operator_knows(api: ApiServer) -> str:
    """Say what a person cannot check, and the command that checks it."""
    operators = operators_seen(api)
    known = operators[0] if isinstance(operators, tuple) and operators else Installed()
    return f"not checked here, because only the operator's pod can: Secrets, brokers and ACLs. Ask it: {known.command} doctor"


def _installed(body: Json) -> Installed | None:
    pod = body["spec"]["template"]["spec"]
    for container in pod.get("containers") or ():
        variables = {e.get("name"): e.get("value", "") for e in container.get("env") or ()}
        if LEASE_MARK in variables:
            return Installed(
                namespace=body["metadata"]["namespace"], name=body["metadata"]["name"], lease=variables[LEASE_MARK],
                account=pod.get("serviceAccountName", "default"), image=container.get("image", ""),
                policy=variables.get("STATICGROUP_POLICY_NAME", INJECTION),
                webhook=variables.get("STATICGROUP_WEBHOOK_NAME", INJECTION),
                served=tuple(n for n in variables.get("STATICGROUP_WATCH_NAMESPACES", "").split(",") if n),
                ready=(body.get("status") or {}).get("readyReplicas") or 0, wanted=body["spec"].get("replicas", 1),
                does_inject=variables.get("STATICGROUP_FORCE_OBSERVE", "false").lower() != "true",
            )  # fmt: skip
    return None


def _deployment(api: ApiServer, operator: Installed, now: datetime) -> Iterator[Finding]:
    yield Finding(
        check=f"operator {operator.label}: {operator.ready} of {operator.wanted} replicas ready", is_good=operator.ready > 0,
        remedy=f"kubectl -n {operator.namespace} describe pods -l app.kubernetes.io/component=operator",
    )  # fmt: skip
    yield _leads(api, operator, now)
    if not operator.does_inject:
        remedy = "operator.forceObserve is on: it plans and reports, and does nothing"
        yield Finding(check=f"operator {operator.label} acts", is_good=False, is_fatal=False, remedy=remedy)
    tag = operator.image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    yield Finding(
        check=f"operator {operator.label} has the version of this program", is_good=tag == __version__, is_fatal=False,
        remedy=f"its image is {operator.image}, this program {__version__}; what may differ: docs/guide/upgrade.md",
    )  # fmt: skip


def _leads(api: ApiServer, operator: Installed, now: datetime) -> Finding:
    check = f"a replica of operator {operator.label} leads"
    path = f"/apis/coordination.k8s.io/v1/namespaces/{quote(operator.namespace)}/leases/{quote(operator.lease)}"
    lease = api.read(path, resource="leases.coordination.k8s.io", namespace=operator.namespace)
    if isinstance(lease, KubeProblem) and not _is_absent(lease):
        return _unchecked(check, lease)
    spec = {} if isinstance(lease, KubeProblem) else lease.get("spec") or {}
    holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
    logs = f"kubectl -n {operator.namespace} logs deploy/{operator.name}"
    if not holder or not renewed:
        return Finding(
            check=check, is_good=False, remedy=f"nobody holds Lease {operator.namespace}/{operator.lease}; {logs}"
        )
    silent_s = (now - datetime.fromisoformat(renewed)).total_seconds()
    # Twice the time, because the caller's clock is not the cluster's.
    is_late = silent_s > 2 * (spec.get("leaseDurationSeconds") or 15)
    return Finding(
        check=f"{check} ({holder})", is_good=not is_late,
        remedy=f"by this machine's clock the Lease was last renewed {int(silent_s)} s ago; {logs}",
    )  # fmt: skip


def _unchecked(check: str, problem: KubeProblem) -> Finding:
    """Return a finding about something that could not be read."""
    return Finding(check=check, is_good=False, is_fatal=False, remedy=f"not checked: {problem.message}")


_OWN: Final = (
    ("see StaticGroups", ("list", names.GROUP, names.STATIC_GROUP_PLURAL)),
    ("see KafkaConnections", ("list", names.GROUP, names.KAFKA_CONNECTION_PLURAL)),
    ("change StaticGroups", ("patch", names.GROUP, names.STATIC_GROUP_PLURAL)),
)


def _own_rights(api: ApiServer, namespace: str) -> Iterator[Finding]:
    """Yield what the caller may do; to lack a right is no fault of the installation."""
    where = f"namespace {namespace}" if namespace else "all namespaces"
    for what, wanted in _OWN:
        is_allowed = api.may(*wanted, namespace=namespace) is True
        yield Finding(
            check=f"you may {what} in {where}",
            is_good=is_allowed,
            is_fatal=False,
            remedy=f"you may not {right(*wanted)}",
        )


def _statuses(api: ApiServer, namespace: str) -> Iterator[Finding]:
    """Yield what statuses of connections and groups say; of connections of the whole cluster where one is used."""
    groups = _listed(api, names.STATIC_GROUP_PLURAL, namespace)
    yield from _said(names.KAFKA_CONNECTION_KIND, _listed(api, names.KAFKA_CONNECTION_PLURAL, namespace))
    yield from _said(names.STATIC_GROUP_KIND, groups)
    refs = (body["spec"].get("connectionRef") or {} for body in groups) if isinstance(groups, list) else ()
    if not namespace or any(ref.get("kind") == names.CLUSTER_KAFKA_CONNECTION_KIND for ref in refs):
        shared = _listed(api, names.CLUSTER_KAFKA_CONNECTION_PLURAL, "")
        yield from _said(names.CLUSTER_KAFKA_CONNECTION_KIND, shared)


def _listed(api: ApiServer, plural: str, namespace: str) -> Sequence[Json] | KubeProblem:
    return api.items(GROUP_PATH, f"{plural}.{names.GROUP}", namespace=namespace)


def _said(kind: str, listed: Sequence[Json] | KubeProblem) -> Iterator[Finding]:
    if isinstance(listed, KubeProblem):
        yield _unchecked(f"what the statuses of {kind}s say", listed)
        return
    for body in listed:
        where = body["metadata"].get("namespace")
        conditions = (body.get("status") or {}).get("conditions") or ()
        bad = [c for c in conditions if c.get("status") == "False"]
        why = "; ".join(f"{c.get('type')}: {c.get('message')}" for c in bad) or "no operator has written a status"
        yield Finding(
            check=f"{kind} {where + '/' if where else ''}{body['metadata']['name']}",
            is_good=bool(conditions) and not bad, is_fatal=False, remedy=why,
        )  # fmt: skip
