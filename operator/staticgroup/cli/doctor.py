"""`doctor`: whether everything is there that the operator needs, each check with its remedy.

A person sees the cluster's side with their own rights; what they may not read counts as not checked, never as good.
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

Schemas = Mapping[str, Any]
"""By kind: the schema of the status that an operator of this version writes."""

KINDS: Final = (names.STATIC_GROUP_KIND, names.KAFKA_CONNECTION_KIND, names.CLUSTER_KAFKA_CONNECTION_KIND)
ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
LEASE_MARK: Final = "STATICGROUP_LEASE_NAME"
"""By this variable a Deployment is known to be the operator's, and its pod knows itself."""
POLICY_MINOR: Final = 36
"""From this minor of Kubernetes on MutatingAdmissionPolicy is v1 (KEP-3962)."""
_READ: Final = ("get", "list", "watch")
_NAMESPACED: Final = ("staticgroups", "kafkaconnections")
RIGHTS: Final[tuple[tuple[str, str, str, str, bool], ...]] = (
    *((verb, names.GROUP, resource, "", True) for resource in _NAMESPACED for verb in _READ),
    *(("patch", names.GROUP, resource, "status", True) for resource in _NAMESPACED),
    *((verb, "apps", "statefulsets", "", True) for verb in _READ),
    *((verb, "", "pods", "", True) for verb in _READ),
    ("create", "events.k8s.io", "events", "", False),
)
"""(verb, group, resource, subresource, is_fatal) that the operator needs in each namespace that it serves."""
CLUSTER_RIGHTS: Final[tuple[tuple[str, str, str, str, bool], ...]] = (
    *((verb, names.GROUP, names.CLUSTER_KAFKA_CONNECTION_PLURAL, "", False) for verb in _READ),
    ("patch", names.GROUP, names.CLUSTER_KAFKA_CONNECTION_PLURAL, "status", False),
    *((verb, "", "namespaces", "", False) for verb in ("list", "watch")),
)
"""What an operator needs besides that serves all namespaces."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check: what was checked, whether it is good, and what to do when it is not.

    Parameters
    ----------
    is_fatal: False for something the operator can do without; it costs a feature, which `remedy` names.
    """

    check: str
    is_good: bool
    remedy: str = ""
    is_fatal: bool = True

    @property
    def mark(self) -> str:
        """Return `ok`, `warn` or `FAIL`."""
        return "ok" if self.is_good else ("FAIL" if self.is_fatal else "warn")

    def __str__(self) -> str:
        return f"{self.mark:4}  {self.check}" + ("" if self.is_good else f"\n      {self.remedy}")


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
    policy: str = names.INJECTION_NAME
    webhook: str = names.INJECTION_NAME
    served: tuple[str, ...] = ()
    image: str = ""
    ready: int = 0
    wanted: int = 0
    does_inject: bool = True

    @property
    def command(self) -> str:
        """Return the beginning of a command that runs in its pod."""
        return f"kubectl -n {self.namespace} exec deploy/{self.name} -- staticgroup"


def examine(
    api: ApiServer, namespace: str, schemas: Schemas, now: datetime, own: Installed | None = None
) -> Iterator[CheckResult]:
    """Yield one result after the other.

    Parameters
    ----------
    namespace: whose StaticGroups the caller means; "" for all.
    own: the operator in whose pod this runs; None for a person, who is shown the operators that he may see.
    """
    answer = api.read("/version", resource="the version")
    if isinstance(answer, KubeProblem):
        yield CheckResult("API server answers", False, answer.message)
        return
    digits = str(answer.get("minor", "")).rstrip("+")
    minor = int(digits) if digits.isdigit() else 0
    yield CheckResult(f"API server answers (1.{minor})", True)
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
        operators = []
    elif not operators:
        yield CheckResult("an operator is installed", False, "no Deployment is one; docs/guide/install.md")
    for operator in operators:
        yield from _deployment(api, operator, now)
        yield _injection(api, minor, operator)
        yield from _rights(api, operator)
    where = f"namespace {namespace}" if namespace else "all namespaces"
    for what, wanted in _OWN:  # to lack a right of one's own is no fault of the installation
        is_allowed = api.may(*wanted, namespace=namespace) is True
        yield CheckResult(f"you may {what} in {where}", is_allowed, f"you may not {_right(*wanted)}", is_fatal=False)
    if any(result.is_good for result in definitions):
        yield from _statuses(api, namespace)


_OWN: Final = (
    ("see StaticGroups", ("list", names.GROUP, names.STATIC_GROUP_PLURAL)),
    ("see KafkaConnections", ("list", names.GROUP, names.KAFKA_CONNECTION_PLURAL)),
    ("change StaticGroups", ("patch", names.GROUP, names.STATIC_GROUP_PLURAL)),
)


def _definitions(api: ApiServer, schemas: Schemas, *, is_fatal: bool) -> Iterator[CheckResult]:
    """Yield whether each kind is served and takes every status, in the OpenAPI document that everybody may read."""
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
        is_good = schema is not None and not missing
        yield CheckResult(f"{kind} is served", is_good, f"{why}{APPLY_CRDS}", is_fatal=is_fatal or schema is None)


def _injection(api: ApiServer, minor: int, operator: Installed) -> CheckResult:
    """Return whether the policy or the webhook gives new pods their ids."""

    def read(kind: str, name: str) -> Json | KubeProblem:
        plural = f"mutating{kind}"
        return api.read(f"{ADMISSION}/{plural}/{quote(name)}", resource=f"{plural}.admissionregistration.k8s.io")

    check = f"new pods get their ids by policy {operator.policy} or webhook {operator.webhook}"
    policy = read("admissionpolicies", operator.policy) if minor >= POLICY_MINOR else None
    if isinstance(policy, dict) and not _is_absent(read("admissionpolicybindings", operator.policy)):
        return CheckResult(check, True)
    webhook = read("webhookconfigurations", operator.webhook)
    for answer in (policy, webhook):
        if isinstance(answer, KubeProblem) and not _is_absent(answer):
            return _unchecked(check, answer)
    if isinstance(webhook, dict):
        entries = webhook.get("webhooks") or ()
        has_certificate = bool(entries) and all((e.get("clientConfig") or {}).get("caBundle") for e in entries)
        why = "the webhook has no certificate yet; see the log of its pods (app.kubernetes.io/component=webhook)"
        return CheckResult(check, has_certificate, why, is_fatal=False)
    why = f"the policy has no {'binding' if isinstance(policy, dict) else 'object'}; set injection.policy.enabled"
    too_old = "an API server before 1.36 serves no such policy; set injection.webhook.enabled"
    return CheckResult(check, False, why if minor >= POLICY_MINOR else too_old, is_fatal=False)


def _is_absent(answer: Json | KubeProblem | None) -> bool:
    return isinstance(answer, KubeProblem) and answer.kind is KubeProblemKind.NOT_FOUND


def _right(verb: str, group: str, resource: str, subresource: str = "") -> str:
    """Name a right as RBAC messages do, such as `patch staticgroups/status.staticgroup.io`."""
    part = f"{resource}/{subresource}" if subresource else resource
    return f"{verb} {part}{'.' + group if group else ''}"


def _rights(api: ApiServer, operator: Installed) -> Iterator[CheckResult]:
    """Yield whether the operator's account has its rights; to ask this for another account is a right itself."""
    user = f"system:serviceaccount:{operator.namespace}:{operator.account}" if operator.account else ""
    whose = f"rights of {user or 'the operator'}"
    for namespace in operator.served or ("",):
        check = f"{whose} in {f'namespace {namespace}' if namespace else 'all namespaces'}"
        missing, is_fatal = [], False
        for each in RIGHTS if namespace else (*RIGHTS, *CLUSTER_RIGHTS):
            asked, is_needed = each[:4], each[4]
            allowed = api.may(*asked, namespace=namespace, user=user)
            if isinstance(allowed, KubeProblem):
                yield _unchecked(check, allowed)
                return
            if not allowed:
                missing.append(_right(*asked))
                is_fatal = is_fatal or is_needed
        remedy = f"it may not {', '.join(missing)}; install the chart's roles (rbac.create)"
        yield CheckResult(check, not missing, remedy, is_fatal)
    may_list = api.may("list", "", "nodes", user=user) is True
    why = "no end of a pod is believed, so departed members leave with their sessions; set rbac.nodes to true"
    yield CheckResult(f"{whose} to list nodes", may_list, f"without it {why}", is_fatal=False)
    lease = {"namespace": operator.namespace, "name": operator.lease}
    may_hold = api.may("update", "coordination.k8s.io", "leases", user=user, **lease) is True
    why = "without it no replica can lead; install the chart's roles (rbac.create)"
    check = f"{whose} to hold Lease {operator.namespace}/{operator.lease}"
    yield CheckResult(check, may_hold, why, is_fatal=False)


def operators_seen(api: ApiServer) -> list[Installed] | KubeProblem:
    """Return the operators of the cluster that the caller may see."""
    selector = f"labelSelector={quote('app.kubernetes.io/component=operator')}"
    listed = api.items("/apis/apps/v1", "deployments.apps", query=selector)
    if isinstance(listed, KubeProblem):
        return listed
    found = []
    for body in listed:
        pod = body["spec"]["template"]["spec"]
        for container in pod.get("containers") or ():
            variables = {e.get("name"): e.get("value", "") for e in container.get("env") or ()}
            if LEASE_MARK not in variables:
                continue
            found.append(Installed(
                namespace=body["metadata"]["namespace"], name=body["metadata"]["name"], lease=variables[LEASE_MARK],
                account=pod.get("serviceAccountName", "default"), image=container.get("image", ""),
                policy=variables.get("STATICGROUP_POLICY_NAME", names.INJECTION_NAME),
                webhook=variables.get("STATICGROUP_WEBHOOK_NAME", names.INJECTION_NAME),
                served=tuple(n for n in variables.get("STATICGROUP_WATCH_NAMESPACES", "").split(",") if n),
                ready=(body.get("status") or {}).get("readyReplicas") or 0, wanted=body["spec"].get("replicas", 1),
                does_inject=variables.get("STATICGROUP_FORCE_OBSERVE", "false").lower() != "true",
            ))  # fmt: skip
            break
    return found


def only_the_operator_knows(api: ApiServer) -> str:
    """Say what a person cannot check, and the command that checks it."""
    operators = operators_seen(api)
    known = operators[0] if isinstance(operators, list) and operators else Installed()
    what = "not checked here, because only the operator's pod can: Secrets, brokers and ACLs"
    return f"{what}. Ask it: {known.command} doctor"


def _deployment(api: ApiServer, operator: Installed, now: datetime) -> Iterator[CheckResult]:
    """Yield whether an operator is ready, leads, acts, and is of this version."""
    label, of = f"{operator.namespace}/{operator.name}", f"kubectl -n {operator.namespace}"
    yield CheckResult(
        f"operator {label}: {operator.ready} of {operator.wanted} replicas ready", operator.ready > 0,
        f"{of} describe pods -l app.kubernetes.io/component=operator",
    )  # fmt: skip
    check, logs = f"a replica of operator {label} leads", f"{of} logs deploy/{operator.name}"
    path = f"/apis/coordination.k8s.io/v1/namespaces/{quote(operator.namespace)}/leases/{quote(operator.lease)}"
    lease = api.read(path, resource="leases.coordination.k8s.io", namespace=operator.namespace)
    spec = (lease.get("spec") or {}) if isinstance(lease, dict) else {}
    holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
    if isinstance(lease, KubeProblem) and not _is_absent(lease):
        yield _unchecked(check, lease)
    elif not holder or not renewed:
        yield CheckResult(check, False, f"nobody holds Lease {operator.namespace}/{operator.lease}; {logs}")
    else:
        silent_s = (now - datetime.fromisoformat(renewed)).total_seconds()
        # Twice the time, because the caller's clock is not the cluster's.
        is_late = silent_s > 2 * (spec.get("leaseDurationSeconds") or 15)
        why = f"by this machine's clock the Lease was last renewed {int(silent_s)} s ago; {logs}"
        yield CheckResult(f"{check} ({holder})", not is_late, why)
    if not operator.does_inject:
        remedy = "operator.forceObserve is on: it plans and reports, and does nothing"
        yield CheckResult(f"operator {label} acts", False, remedy, is_fatal=False)
    tag = operator.image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    why = f"its image is {operator.image}, this program {__version__}; what may differ: docs/guide/upgrade.md"
    yield CheckResult(f"operator {label} has the version of this program", tag == __version__, why, is_fatal=False)


def _unchecked(check: str, problem: KubeProblem) -> CheckResult:
    """Return the result about something that could not be read."""
    return CheckResult(check, False, f"not checked: {problem.message}", is_fatal=False)


def _statuses(api: ApiServer, namespace: str) -> Iterator[CheckResult]:
    """Yield what statuses of connections and groups say; of connections of the whole cluster where one is used."""

    def listed(plural: str, namespace: str) -> list[Json] | KubeProblem:
        return api.items(GROUP_PATH, f"{plural}.{names.GROUP}", namespace=namespace)

    groups = listed(names.STATIC_GROUP_PLURAL, namespace)
    yield from _said(names.KAFKA_CONNECTION_KIND, listed(names.KAFKA_CONNECTION_PLURAL, namespace))
    yield from _said(names.STATIC_GROUP_KIND, groups)
    refs = (body["spec"].get("connectionRef") or {} for body in groups) if isinstance(groups, list) else ()
    if not namespace or any(ref.get("kind") == names.CLUSTER_KAFKA_CONNECTION_KIND for ref in refs):
        yield from _said(names.CLUSTER_KAFKA_CONNECTION_KIND, listed(names.CLUSTER_KAFKA_CONNECTION_PLURAL, ""))


def _said(kind: str, listed: Sequence[Json] | KubeProblem) -> Iterator[CheckResult]:
    if isinstance(listed, KubeProblem):
        yield _unchecked(f"what the statuses of {kind}s say", listed)
        return
    for body in listed:
        where = body["metadata"].get("namespace")
        conditions = (body.get("status") or {}).get("conditions") or ()
        bad = [c for c in conditions if c.get("status") in ("False", "Unknown" if c.get("type") == "Ready" else None)]
        why = "; ".join(f"{c.get('type')}: {c.get('message')}" for c in bad) or "no operator has written a status"
        check = f"{kind} {where + '/' if where else ''}{body['metadata']['name']}"
        yield CheckResult(check, bool(conditions) and not bad, why, is_fatal=False)
