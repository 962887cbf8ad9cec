"""Every single read and write at the API server.

The stores follow pods and nodes. The gateway does the rest: consistent reads right before a removal, Secrets, status,
Events, and what the API server can do and allows. Each call has a timeout and returns a value: the result, None for an
object that does not exist, or a `KubeProblem`. In Kubernetes a read without resourceVersion is consistent (quorum), and
step 2 of the removal order relies on that.
"""

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass

from ..api.names import (
    API_VERSION,
    CLUSTER_KAFKA_CONNECTION_KIND,
    CLUSTER_KAFKA_CONNECTION_PLURAL,
    FIELD_MANAGER,
    GROUP,
    KAFKA_CONNECTION_KIND,
    KAFKA_CONNECTION_PLURAL,
    STATIC_GROUP_KIND,
    STATIC_GROUP_PLURAL,
    VERSION,
)
from ..api.resources.staticgroup import WorkloadRef
from ..api.workloads import ARGO_ROLLOUT, DEPLOYMENT, STATEFUL_SET, STRIMZI_POD_SET, WorkloadKind
from ..core.evidence.chain import KnownPod
from ..core.evidence.pod import NodeView, PodVersion
from ..core.workload import WorkloadView
from .event_poster import EventPoster, Involved
from .pages import PageLimit, pages
from .problem import KubeProblem, KubeProblemKind, problem_of
from .translate import (
    MalformedObject,
    deployment_view,
    node_view,
    pod_set_view,
    pod_version,
    rollout_view,
    workload_view,
)
from .translate.rollouts import deployment_of
from .transport import (
    APPLY_PATCH,
    DEPLOYMENTS,
    MERGE_PATCH,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    Json,
    Resource,
    Transport,
)

_KINDS = {
    STATIC_GROUP_PLURAL: STATIC_GROUP_KIND,
    KAFKA_CONNECTION_PLURAL: KAFKA_CONNECTION_KIND,
    CLUSTER_KAFKA_CONNECTION_PLURAL: CLUSTER_KAFKA_CONNECTION_KIND,
}
_VIEWS = {
    STATEFUL_SET: workload_view, STRIMZI_POD_SET: pod_set_view, DEPLOYMENT: deployment_view, ARGO_ROLLOUT: rollout_view,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRead:
    """A consistent read of one pod name.

    Parameters
    ----------
    resource_version: of the LIST, the moment the answer is true for; bring the pod watch up to it.
    version: None when no pod has that name.
    """

    resource_version: int
    version: PodVersion | None


class KubeGateway:
    """What the shell asks of the API server beside what the stores follow.

    Parameters
    ----------
    instance: name of this replica for Events.
    now_s: seconds since the Unix epoch.
    secret_label: `<key>` or `<key>=<value>` that a Secret must carry to be read; empty: none.
    """

    def __init__(
        self, transport: Transport, *, instance: str, now_s: Callable[[], float], secret_label: str = ""
    ) -> None:
        self._transport = transport
        self._secret_label = secret_label
        self._page_limit = PageLimit()
        self._events = EventPoster(transport, instance=instance, now_s=now_s)

    async def read_workload(self, namespace: str, ref: WorkloadRef) -> WorkloadView | KubeProblem | None:
        """Read a workload consistently; None when it does not exist, a problem where its kind is not served at all.

        A missing object and a missing CustomResourceDefinition are both answered with 404, but only the first says that
        no pods are wanted. So for kinds of other projects the discovery document is read, which every client may.
        """
        kind = ref.known_kind
        resource = Resource(group=kind.group, version=ref.api_version.rpartition("/")[2], plural=kind.plural)
        raw = await self._transport.call("get", resource, namespace=namespace, name=ref.name)
        if isinstance(raw, KubeProblem):
            return await self._missing(kind, resource, namespace) if raw.kind is KubeProblemKind.NOT_FOUND else raw
        if kind is ARGO_ROLLOUT and (referred := deployment_of(raw)):
            source = await self._transport.call("get", DEPLOYMENTS, namespace=namespace, name=referred)
            if isinstance(source, KubeProblem):
                return source
            raw = raw | {"spec": raw["spec"] | {"template": (source.get("spec") or {}).get("template")}}
        view = _VIEWS[kind](raw)
        return _malformed(view, resource, namespace) if isinstance(view, MalformedObject) else view

    async def _missing(self, kind: WorkloadKind, resource: Resource, namespace: str) -> KubeProblem | None:
        """Return None where the API server serves a kind, of which it does not have an object; else what it lacks."""
        if kind.group == STATEFUL_SET.group:
            return None
        served = await self._transport.call_path("get", f"/apis/{resource.group}/{resource.version}", "discovery")
        if isinstance(served, KubeProblem) and served.kind is not KubeProblemKind.NOT_FOUND:
            return served
        plurals = () if isinstance(served, KubeProblem) else [r.get("name") for r in _objects(served.get("resources"))]
        if resource.plural in plurals:
            return None
        return KubeProblem(
            kind=KubeProblemKind.NOT_FOUND, verb="get", resource=resource.label(), namespace=namespace, status=404,
            message=f"the API server serves no {kind.kind} in {resource.group}/{resource.version}; "
            f"install {kind.provider}, or correct spec.workloadRef.apiVersion",
        )

    async def read_pod(self, namespace: str, name: str) -> PodRead | KubeProblem:
        """Read the pod of a name consistently, whatever its labels.

        A LIST with a field selector instead of a GET: only a LIST says at which resourceVersion it is true, also
        when there is no such pod.
        """
        query = {"fieldSelector": f"metadata.name={name}"}
        page = await self._transport.call("list", PODS, namespace=namespace, query=query)
        if isinstance(page, KubeProblem):
            return page
        items = page.get("items") or []
        resource_version = str((page.get("metadata") or {}).get("resourceVersion", ""))
        if not resource_version.isdigit() or len(items) > 1:
            return _malformed(MalformedObject(kind="Pod", field="metadata", found="PodList"), PODS, namespace)
        if not items:
            return PodRead(resource_version=int(resource_version), version=None)
        version = pod_version(items[0])
        if isinstance(version, MalformedObject):
            return _malformed(version, PODS, namespace)
        return PodRead(resource_version=int(resource_version), version=version)

    async def write_note(self, pod: KnownPod, annotation: str, text: str) -> KubeProblem | None:
        """Write one annotation of a pod over the version that is known; CONFLICT when it is another one by now."""
        bound = {"uid": pod.uid, "resourceVersion": str(pod.resource_version), "annotations": {annotation: text}}
        answer = await self._transport.call(
            "patch", PODS, namespace=pod.namespace, name=pod.pod_name, body={"metadata": bound},
            query={"fieldManager": FIELD_MANAGER}, content_type=MERGE_PATCH,
        )
        return answer if isinstance(answer, KubeProblem) else None

    async def read_node(self, name: str) -> NodeView | KubeProblem | None:
        """Read a Node consistently; None when it does not exist."""
        raw = await self._transport.call("get", NODES, name=name)
        if isinstance(raw, KubeProblem):
            return None if raw.kind is KubeProblemKind.NOT_FOUND else raw
        view = node_view(raw)
        return _malformed(view, NODES, "") if isinstance(view, MalformedObject) else view

    async def read_secret(self, namespace: str, name: str) -> dict[str, bytes] | KubeProblem | None:
        """Read a Secret's decoded entries; None when it does not exist."""
        raw = await self._transport.call("get", SECRETS, namespace=namespace, name=name)
        if isinstance(raw, KubeProblem):
            return None if raw.kind is KubeProblemKind.NOT_FOUND else raw
        if self._secret_label and not _carries(raw, self._secret_label):
            return KubeProblem(
                kind=KubeProblemKind.FORBIDDEN, verb="get", resource=SECRETS.label(), namespace=namespace,
                message=f"it lacks the label {self._secret_label}, without which this operator uses no Secret "
                "(chart value operator.secretLabel); label it if it is meant for Kafka",
            )
        entries = raw.get("data") or {}
        try:
            return {str(key): base64.b64decode(value, validate=True) for key, value in entries.items()}
        except (binascii.Error, TypeError, ValueError, AttributeError):
            # The value must not travel on in an exception or a message.
            return _malformed(MalformedObject(kind="Secret", field="data", found="bytes"), SECRETS, namespace)

    async def cluster_uid(self) -> str | KubeProblem:
        """Read the uid of the kube-system namespace, the identity of the cluster."""
        raw = await self._transport.call("get", NAMESPACES, name="kube-system")
        if isinstance(raw, KubeProblem):
            return raw
        uid: str | None = raw["metadata"].get("uid")
        found = MalformedObject(kind="Namespace", field="metadata.uid", found=type(uid).__name__)
        return uid or _malformed(found, NAMESPACES, "")

    async def read_object(self, plural: str, namespace: str, name: str) -> Json | KubeProblem | None:
        """Read one of our resources consistently; None when it does not exist."""
        resource = Resource(group=GROUP, version=VERSION, plural=plural)
        raw = await self._transport.call("get", resource, namespace=namespace, name=name)
        return None if isinstance(raw, KubeProblem) and raw.kind is KubeProblemKind.NOT_FOUND else raw

    async def list_objects(self, plural: str, namespace: str) -> list[Json] | KubeProblem:
        """List one of our resources consistently, in a namespace or, for "", in all; in pages."""
        resource = Resource(group=GROUP, version=VERSION, plural=plural)
        found: list[Json] = []
        async for page in pages(self._transport, resource, self._page_limit, namespace=namespace):
            if isinstance(page, KubeProblem):
                return page
            found += [item for item in page.get("items") or () if isinstance(item, dict)]
        return found

    async def apply_status(
        self, plural: str, namespace: str, name: str, uid: str, status: Json, *, resource_version: str = ""
    ) -> Json | KubeProblem:
        """Apply a status over the version of the object that the caller knows.

        Server-side apply, forced: nobody else owns status. A status must never land on an object that was deleted and
        created again under the same name, and a `metadata.uid` in an apply to /status is *ignored* (seen on 1.36.3:
        status strategies reset the metadata before it is compared). The resourceVersion is compared, and no two objects
        of one name share one.

        Parameters
        ----------
        resource_version: of that version; "" binds the write to a fresh read, for a status that nobody else writes.

        Returns
        -------
        The object with this status; CONFLICT when it is another version than the caller knows, or has another uid.
        """
        resource = Resource(group=GROUP, version=VERSION, plural=plural)
        if not resource_version:
            present = await self._transport.call("get", resource, namespace=namespace, name=name)
            if isinstance(present, KubeProblem):
                return present
            if present["metadata"].get("uid") != uid:
                return problem_of(409, verb="patch", resource=resource.label("status"), namespace=namespace)
            resource_version = str(present["metadata"].get("resourceVersion"))
        bound = {"name": name, "resourceVersion": resource_version} | ({"namespace": namespace} if namespace else {})
        body: Json = {"apiVersion": API_VERSION, "kind": _KINDS[plural], "metadata": bound, "status": status}
        return await self._transport.call(
            "patch", resource, namespace=namespace, name=name, subresource="status", body=body,
            query={"fieldManager": FIELD_MANAGER, "force": "true"}, content_type=APPLY_PATCH,
        )

    async def post_event(
        self, involved: Involved, *, type_: str, reason: str, message: str, action: str
    ) -> KubeProblem | None:
        """Post an Event; repetitions within ten minutes are counted up."""
        return await self._events.post(involved, type_=type_, reason=reason, message=message, action=action)

    async def has_policy(self, resource: Resource, name: str) -> bool | KubeProblem:
        """True when an admission policy of that name is served and installed."""
        answer = await self._transport.call("get", resource, name=name)
        if isinstance(answer, KubeProblem):
            return False if answer.kind is KubeProblemKind.NOT_FOUND else answer
        return True

    async def has_webhook(self, name: str) -> bool | KubeProblem:
        """True when a MutatingWebhookConfiguration of that name is installed and says which authorities to trust.

        API servers trust their own authorities where it says none, and those did not sign the webhook's certificate.
        """
        answer = await self._transport.call("get", MUTATING_WEBHOOKS, name=name)
        if isinstance(answer, KubeProblem):
            return False if answer.kind is KubeProblemKind.NOT_FOUND else answer
        clients = [w.get("clientConfig") for w in _objects(answer.get("webhooks"))]
        return bool(clients) and all(isinstance(c, dict) and c.get("caBundle") for c in clients)


def _objects(found: object) -> list[Json]:
    """Return the objects of a list, of a document whose kind has no metadata; nothing where there is no list."""
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _carries(raw: Json, label: str) -> bool:
    """True when an object carries a label, with its value where one is asked for."""
    key, separator, value = label.partition("=")
    labels = (raw.get("metadata") or {}).get("labels") or {}
    return key in labels and (not separator or labels[key] == value)


def _malformed(found: MalformedObject, resource: Resource, namespace: str) -> KubeProblem:
    return KubeProblem(
        kind=KubeProblemKind.INVALID, verb="get", resource=resource.label(), namespace=namespace,
        message=f"{found.kind} has an unreadable field {found.field} ({found.found})",
    )
