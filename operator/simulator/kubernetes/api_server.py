"""The API server: optimistic writes, graceful deletion, admission and rights, over what `storage` keeps.

Synchronous and without a clock of its own: the caller decides when. The control plane, kubelets and users call
its methods; the operator reaches it through `operators.transport.ModelTransport`, which adds time, faults and rights.

Sources: registry/generic Store (deletion, no-op updates); registry/core/pod strategy (grace).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final

from staticgroup.api.names import FIELD_MANAGER, INJECTION_NAME
from staticgroup.api.resources.injected import InjectedMethod

from . import admission
from .field_owners import with_owner_of_history, with_owners
from .objects import (
    CLUSTER_KAFKA_CONNECTIONS,
    DEPLOYMENTS,
    KAFKA_CONNECTIONS,
    MUTATING_POLICIES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    STATEFULSETS,
    STATIC_GROUPS,
    Json,
    merged,
    name_of,
    namespace_of,
    time_text,
    uid_of,
)
from .storage import ApiError, Backup, Key, Storage
from .watch_log import Event

POLICY_LAG_S: Final = 0.5
"""So late the policy's parameter informer knows a StaticGroup (seen: about 1 s)."""

_HAS_STATUS: Final = frozenset(
    {PODS, NODES, NAMESPACES, STATEFULSETS, DEPLOYMENTS, STATIC_GROUPS, KAFKA_CONNECTIONS, CLUSTER_KAFKA_CONNECTIONS}
)
_HAS_GENERATION: Final = frozenset(
    {PODS, STATEFULSETS, DEPLOYMENTS, STATIC_GROUPS, KAFKA_CONNECTIONS, CLUSTER_KAFKA_CONNECTIONS}
)
_KEPT_METADATA: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


class ApiServer(Storage):
    """The model API server.

    Parameters
    ----------
    now_s: virtual seconds.

    Attributes
    ----------
    denied: (user, verb, resource with subresource) answered 403.
    webhook_answers: whether it does, of the pod that is being created; else that one comes as it is.
    """

    policy_name: ClassVar = INJECTION_NAME

    def __init__(self, *, now_s: Callable[[], float]) -> None:
        super().__init__(now_s=now_s)
        self.denied: set[tuple[str, str, str]] = set()
        self.webhook_answers: Callable[[], bool] = lambda: True
        self._uid_count = 0
        self._params: dict[Key, list[tuple[float, Json | None]]] = {}
        self.observers.append(self._note_params)

    # -- writing

    def create(self, resource: str, body: Json) -> Json:
        """Create an object; 409 when the name is taken."""
        metadata = dict(body.get("metadata") or {})
        namespace, name = metadata.get("namespace") or "", metadata["name"]
        if (namespace, name) in self._objects.get(resource, {}):
            raise ApiError(409, f"{resource} {name} exists")
        if namespace:
            home = self.get(NAMESPACES, "", namespace)
            if home is None:
                raise ApiError(404, f"namespace {namespace}")
            if home["metadata"].get("deletionTimestamp"):
                raise ApiError(403, f"namespace {namespace} is being terminated")
        metadata |= {"uid": metadata.get("uid") or self._new_uid(), "creationTimestamp": time_text(self.now_s())}
        for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"):
            metadata.pop(key, None)
        if resource in _HAS_GENERATION:
            metadata["generation"] = 1
        obj = self._defaulted(resource, {**body, "metadata": metadata})
        if resource == PODS:
            obj = self._admit_pod(obj)
        return self._commit(resource, obj, None)

    def update(self, resource: str, body: Json, *, subresource: str = "") -> Json:
        """Replace an object or its status; 409 when it was read at another version or is another object."""
        metadata = body["metadata"]
        present = self._present(resource, metadata.get("namespace") or "", metadata["name"])
        self._check(present, metadata)
        if subresource == "status":
            after = {**present, "status": body.get("status") or {}}
            return self._commit(
                resource, with_owner_of_history(resource, after, present, "kubectl", is_apply=False), present
            )
        kept = {key: present["metadata"][key] for key in _KEPT_METADATA if key in present["metadata"]}
        merged_metadata = {key: value for key, value in metadata.items() if key not in _KEPT_METADATA} | kept
        obj = {**body, "metadata": merged_metadata}
        if resource in _HAS_STATUS:
            obj.pop("status", None)
            if "status" in present:
                obj["status"] = present["status"]
        return self._store_update(resource, obj, present)

    def patch(
        self,
        resource: str,
        namespace: str,
        name: str,
        patch: Json,
        *,
        subresource: str = "",
        uid: str = "",
        manager: str = "",
    ) -> Json:
        """Apply a merge patch to an object or its status.

        Parameters
        ----------
        uid: precondition; 409 when the object of that name is another one.
        manager: field manager of the writer; a pod then names the writers of its status.
        """
        present = self._present(resource, namespace, name)
        self._check(present, (patch.get("metadata") or {}) | ({"uid": uid} if uid else {}))
        if subresource == "status":
            wanted = {key: value for key, value in patch.items() if key == "status"}
        else:
            wanted = {k: v for k, v in patch.items() if k != "status" or resource not in _HAS_STATUS}
        after = merged(present, wanted)
        if manager and resource == PODS and subresource == "status":
            after = with_owners(after, present, manager, self.now_s())
        return self._store_update(resource, after, present)

    def patch_status(self, resource: str, obj: Json, status: Json, *, manager: str = "") -> Json:
        """Merge a patch into the status of just this object; 409 when another one has its name by now."""
        place = namespace_of(obj), name_of(obj)
        return self.patch(resource, *place, {"status": status}, subresource="status", uid=uid_of(obj), manager=manager)

    def apply_status(self, resource: str, namespace: str, name: str, body: Json) -> Json:
        """Apply a status server-side, for a manager that owns all of it.

        Notes
        -----
        A uid in the body is ignored on /status and its resourceVersion is compared (seen on 1.36.3).
        """
        present = self._present(resource, namespace, name)
        metadata = body.get("metadata") or {}
        self._check(present, {key: value for key, value in metadata.items() if key == "resourceVersion"})
        after = {**present, "status": body.get("status") or {}}
        return self._commit(
            resource, with_owner_of_history(resource, after, present, FIELD_MANAGER, is_apply=True), present
        )

    def bind(self, namespace: str, name: str, node_name: str, conditions: Sequence[Json]) -> Json:
        """Bind a pod to a node (pods/binding), with the condition that says so in the same write."""
        present = self._present(PODS, namespace, name)
        if present["spec"].get("nodeName") or present["metadata"].get("deletionTimestamp"):
            raise ApiError(409, f"pod {name} is already bound or terminating")
        status = (present.get("status") or {}) | {"conditions": [*conditions]}
        return self._commit(
            PODS, present | {"spec": present["spec"] | {"nodeName": node_name}, "status": status}, present
        )

    def delete(
        self,
        resource: str,
        namespace: str,
        name: str,
        *,
        grace_s: int | None = None,
        uid: str = "",
        propagation: str = "Background",
    ) -> Json | None:
        """Request a deletion.

        Parameters
        ----------
        grace_s: of a pod; None: terminationGracePeriodSeconds; 0 deletes the object at once.
        uid: precondition; 409 when the object of that name is another one.
        propagation: Background, Foreground or Orphan.

        Returns
        -------
        The object that goes on existing; None when it is gone.
        """
        present = self._present(resource, namespace, name)
        self._check(present, {"uid": uid} if uid else {})
        if resource == PODS:
            effective_s = _grace_of(present, grace_s)
            if effective_s > 0:
                return self._begin_grace(present, effective_s)
        finalizer = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}.get(propagation)
        finalizers = list(present["metadata"].get("finalizers") or ())
        if finalizer and finalizer not in finalizers:
            finalizers.append(finalizer)
        if resource == NAMESPACES and "kubernetes" not in finalizers:
            finalizers.append("kubernetes")
        if not finalizers:
            self._commit(resource, None, present)
            return None
        if present["metadata"].get("deletionTimestamp"):
            return present
        metadata = present["metadata"] | {"finalizers": finalizers, "deletionTimestamp": time_text(self.now_s())}
        if "generation" in metadata:
            metadata["generation"] += 1
        return self._commit(resource, present | {"metadata": metadata}, present)

    def _begin_grace(self, present: Json, grace_s: int) -> Json:
        metadata = present["metadata"]
        if metadata.get("deletionTimestamp") and metadata.get("deletionGracePeriodSeconds", 0) <= grace_s:
            return present
        metadata = metadata | {
            "deletionTimestamp": time_text(self.now_s() + grace_s),
            "deletionGracePeriodSeconds": grace_s,
            "generation": metadata.get("generation", 1) + 1,
        }
        return self._commit(PODS, present | {"metadata": metadata}, present)

    def _present(self, resource: str, namespace: str, name: str) -> Json:
        present = self.get(resource, namespace, name)
        if present is None:
            raise ApiError(404, f"{resource} {name}")
        return present

    @staticmethod
    def _check(present: Json, wanted: Json) -> None:
        for key in ("resourceVersion", "uid"):
            if wanted.get(key) not in (None, "", present["metadata"][key]):
                raise ApiError(409, f"{key} of {present['metadata']['name']} differs")

    @staticmethod
    def _defaulted(resource: str, obj: Json) -> Json:
        try:
            return admission.defaulted(resource, obj)
        except admission.Invalid as error:
            raise ApiError(422, str(error)) from error

    def _store_update(self, resource: str, obj: Json, present: Json) -> Json:
        if obj.get("spec") != present.get("spec"):
            obj = self._defaulted(resource, obj)
            if resource in _HAS_GENERATION:
                metadata = obj["metadata"]
                obj = obj | {"metadata": metadata | {"generation": metadata.get("generation", 1) + 1}}
        metadata = obj["metadata"]
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers") and resource != PODS:
            self._commit(resource, None, present)
            return obj
        return self._commit(resource, obj, present)

    def _new_uid(self) -> str:
        self._uid_count += 1
        return f"{self._uid_count:08x}-51a7-4c00-8000-{self._uid_count:012x}"

    # -- admission

    def _admit_pod(self, pod: Json) -> Json:
        namespace = pod["metadata"].get("namespace") or ""
        for policy, kinds in admission.KINDS_OF_POLICIES.items():
            if self.get(MUTATING_POLICIES, "", policy) is not None:
                pod = admission.inject(pod, self._known_params(namespace), InjectedMethod.POLICY, kinds=kinds)
        if self.get(MUTATING_WEBHOOKS, "", self.policy_name) is not None and self.webhook_answers():
            pod = admission.inject(pod, self.list(STATIC_GROUPS, namespace), InjectedMethod.WEBHOOK)
        return pod

    def _note_params(self, resource: str, event: Event) -> None:
        """Let the policy's informer know a StaticGroup a moment after it was written."""
        if resource == STATIC_GROUPS:
            known = event.current if event.current is not None else event.previous
            assert known is not None
            self._params.setdefault((namespace_of(known), name_of(known)), []).append(
                (self.now_s() + POLICY_LAG_S, event.current)
            )

    def restore(self, backup: Backup, *, bump: int = 0) -> None:
        """Restore etcd, see `Storage.restore`; the policy's informer lists anew."""
        super().restore(backup, bump=bump)
        self._params = {key: [(self.now_s(), group)] for key, group in self._objects.get(STATIC_GROUPS, {}).items()}

    def _known_params(self, namespace: str) -> Iterator[Json]:
        now_s = self.now_s()
        for key in sorted(self._params):
            if key[0] != namespace:
                continue
            history = self._params[key]
            while len(history) > 1 and history[1][0] <= now_s:
                del history[0]
            if history[0][0] <= now_s and history[0][1] is not None:
                yield history[0][1]

    # -- rights

    def is_allowed(self, user: str, verb: str, resource: str) -> bool:
        """True unless this user was denied this verb on this resource."""
        return (user, verb, resource) not in self.denied

    def deny(self, user: str, verbs: Iterable[str], resource: str) -> None:
        """Take rights away; undone by `allow`."""
        self.denied |= {(user, verb, resource) for verb in verbs}

    def allow(self, user: str, verbs: Iterable[str], resource: str) -> None:
        """Give rights back."""
        self.denied -= {(user, verb, resource) for verb in verbs}


def _grace_of(pod: Json, asked_s: int | None) -> int:
    """Decide the grace of a pod's deletion: none when it is not bound or has ended (CheckGracefulDelete)."""
    spec, status = pod["spec"], pod.get("status") or {}
    grace: Any = spec.get("terminationGracePeriodSeconds", 30) if asked_s is None else asked_s
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    return int(grace)
