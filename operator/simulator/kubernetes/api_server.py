"""The API server: one counter of resource versions, optimistic writes, deletion with grace and finalizers, watches.

Synchronous and without a clock of its own: whoever calls it decides when. The control plane, kubelets and users call
its methods; the operator reaches it through `operators.transport.ModelTransport`, which adds time, faults and rights.

Sources: Kubernetes API concepts (resource versions, watch, bookmarks, 410); registry/generic Store (deletion, no-op
updates); storage/cacher (window of events, bookmarks at the position of the cache); registry/core/pod strategy (grace).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from staticgroup.api.names import FIELD_MANAGER
from staticgroup.api.resources.durable import InjectedMethod

from . import admission
from .field_owners import with_owner_of_history, with_owners
from .objects import (
    CLUSTER_KAFKA_CONNECTIONS,
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
from .watch_log import Event, EventLog, Selector, Subscription

PROGRESS_EVERY_S: Final = 5.0
"""etcd tells the watch cache its revision at least this often (k/k etcd3 progress notify)."""

POLICY_LAG_S: Final = 0.5
"""So late the policy's parameter informer knows a StaticGroup (seen: about 1 s)."""

_HAS_STATUS: Final = frozenset({PODS, NODES, NAMESPACES, STATEFULSETS, STATIC_GROUPS, KAFKA_CONNECTIONS, CLUSTER_KAFKA_CONNECTIONS})
_HAS_GENERATION: Final = frozenset({PODS, STATEFULSETS, STATIC_GROUPS, KAFKA_CONNECTIONS, CLUSTER_KAFKA_CONNECTIONS})
_KEPT_METADATA: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")

Key = tuple[str, str]


class ApiError(Exception):
    """A refused request.

    Parameters
    ----------
    status: HTTP status.
    """

    def __init__(self, status: int, message: str = "") -> None:
        super().__init__(f"{status} {message}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Backup:
    """What an etcd snapshot holds."""

    resource_version: int
    objects: dict[str, dict[Key, Json]]


class ApiServer:
    """The model API server.

    Parameters
    ----------
    now_s: virtual seconds.

    Attributes
    ----------
    denied: (user, verb, resource with subresource) answered 403.
    observers: called with (resource, event) after each committed write.
    running_pods: passes on, for a node, what its kubelet says that its runtime runs.
    webhook_answers: whether it does, of the pod that is being created; else that one comes as it is.
    """

    policy_name: ClassVar = "staticgroup-inject"

    def __init__(self, *, now_s: Callable[[], float]) -> None:
        self.now_s = now_s
        self.resource_version = 100
        self.denied: set[tuple[str, str, str]] = set()
        self.subscriptions: dict[str, list[Subscription]] = {}
        self.observers: list[Callable[[str, Event], None]] = []
        self.webhook_answers: Callable[[], bool] = lambda: True
        self.running_pods: Callable[[str], Json] = _no_kubelet
        self._objects: dict[str, dict[Key, Json]] = {}
        self._logs: dict[str, EventLog] = {}
        self._uid_count = 0
        self._tick = (0, self.resource_version)
        self._cache_read: dict[str, int] = {}
        self._pages: dict[str, tuple[str, int, list[Json]]] = {}
        self._page_count = 0
        self._params: dict[Key, list[tuple[float, Json | None]]] = {}

    # -- reading

    def get(self, resource: str, namespace: str, name: str) -> Json | None:
        """Read one object consistently; None when it does not exist."""
        return self._objects.get(resource, {}).get((namespace, name))

    def list(self, resource: str, namespace: str = "", selector: Selector | None = None) -> list[Json]:
        """Read a collection consistently, in the order of namespace and name."""
        found = self._objects.get(resource, {})
        return [
            found[key]
            for key in sorted(found)
            if (not namespace or key[0] == namespace) and (selector is None or selector.matches(found[key]))
        ]

    def list_page(self, resource: str, namespace: str, selector: Selector, *, limit: int = 0, token: str = "") -> Json:
        """Answer a LIST request in pages of one consistent resourceVersion; 410 for an expired token."""
        if token:
            kept = self._pages.pop(token, None)
            if kept is None or kept[1] < self._log(resource).floor:
                raise ApiError(410, "continue token expired")
            resource_version, items = kept[1], kept[2]
        else:
            resource_version, items = self.resource_version, self.list(resource, namespace, selector)
            self._cache_read[resource] = resource_version
        metadata: Json = {"resourceVersion": str(resource_version)}
        if limit and len(items) > limit:
            self._page_count += 1
            metadata["continue"] = token = f"page-{self._page_count}"
            self._pages[token] = (resource, resource_version, items[limit:])
            items = items[:limit]
        return {"kind": "List", "metadata": metadata, "items": items}

    def list_stale(self, resource: str, namespace: str, selector: Selector, age_s: float) -> Json:
        """Answer a LIST with resourceVersion=0 as a replica whose cache is `age_s` behind, as far as events are kept."""
        log = self._log(resource)
        then_s = self.now_s() - age_s
        found = dict(self._objects.get(resource, {}))
        version = self.resource_version
        for event in reversed(log.events):
            if event.at_s <= then_s:
                break
            known = event.current if event.current is not None else event.previous
            assert known is not None
            key = (known["metadata"].get("namespace") or "", known["metadata"]["name"])
            if event.previous is None:
                found.pop(key, None)
            else:
                found[key] = event.previous
            version = event.resource_version - 1
        items = [found[k] for k in sorted(found) if (not namespace or k[0] == namespace) and selector.matches(found[k])]
        return {"kind": "List", "metadata": {"resourceVersion": str(version)}, "items": items}

    def subscribe(
        self,
        resource: str,
        namespace: str,
        selector: Selector,
        since: int,
        deliver: Callable[[Json], None],
        on_break: Callable[[], None],
    ) -> tuple[Subscription, Sequence[Json]]:
        """Open a watch and return what it has missed since a resourceVersion.

        Raises
        ------
        ApiError: 410 when the events after that version are no longer kept. A version in the future is accepted.
        """
        log = self._log(resource)
        if since < log.floor:
            raise ApiError(410, "too old resource version")
        open_watches = self.subscriptions.setdefault(resource, [])
        subscription = Subscription(open_watches, resource, namespace, selector, deliver, on_break)
        open_watches.append(subscription)
        missed = [r for e in log.after(since) if (r := subscription.rendered(e)) is not None]
        return subscription, missed

    def bookmark_version(self, resource: str) -> int:
        """Return how far the watch cache of a resource is known to be complete, which is what a bookmark says.

        Notes
        -----
        It follows the resource's own events, etcd's progress notifications, and every consistent LIST, which makes
        the cache ask etcd (KEP-2340).
        """
        self._note_progress()
        log = self._log(resource)
        last = log.versions[-1] if log.versions else log.floor
        return min(max(last, self._tick[1], self._cache_read.get(resource, 0)), self.resource_version)

    def _note_progress(self) -> None:
        tick = int(self.now_s() / PROGRESS_EVERY_S)
        if tick != self._tick[0]:
            self._tick = (tick, self.resource_version)

    def _log(self, resource: str) -> EventLog:
        log = self._logs.get(resource)
        if log is None:
            log = self._logs[resource] = EventLog(floor=0)
        return log

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
            return self._commit(resource, with_owner_of_history(resource, after, present, "kubectl", is_apply=False), present)
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
        manager: field manager of the writer; a pod then tells who wrote what of its status.
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
        return self._commit(resource, with_owner_of_history(resource, after, present, FIELD_MANAGER, is_apply=True), present)

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

    def _commit(self, resource: str, obj: Json | None, previous: Json | None) -> Json:
        self._note_progress()
        if obj is not None and previous is not None:
            version = previous["metadata"]["resourceVersion"]
            if obj["metadata"].get("resourceVersion") != version:
                obj = obj | {"metadata": obj["metadata"] | {"resourceVersion": version}}
            if obj == previous:
                return previous  # an update that changes nothing is not written
        return self._write(resource, obj, previous)

    def _write(self, resource: str, obj: Json | None, previous: Json | None) -> Json:
        known = obj if obj is not None else previous
        assert known is not None
        self.resource_version += 1
        key = (known["metadata"].get("namespace") or "", known["metadata"]["name"])
        objects = self._objects.setdefault(resource, {})
        if obj is not None:
            obj = obj | {"metadata": obj["metadata"] | {"resourceVersion": str(self.resource_version)}}
            objects[key] = obj
        else:
            del objects[key]
        if resource == STATIC_GROUPS:
            self._params.setdefault(key, []).append((self.now_s() + POLICY_LAG_S, obj))
        event = Event(self.resource_version, self.now_s(), obj, previous)
        self._log(resource).append(event)
        for subscription in tuple(self.subscriptions.get(resource, ())):
            subscription.take(event)
        for observer in self.observers:
            observer(resource, event)
        return obj if obj is not None else known

    # -- admission

    def _admit_pod(self, pod: Json) -> Json:
        namespace = pod["metadata"].get("namespace") or ""
        if self.get(MUTATING_POLICIES, "", self.policy_name) is not None:
            pod = admission.inject(pod, self._known_params(namespace), InjectedMethod.POLICY)
        if self.get(MUTATING_WEBHOOKS, "", self.policy_name) is not None and self.webhook_answers():
            pod = admission.inject(pod, self.list(STATIC_GROUPS, namespace), InjectedMethod.WEBHOOK)
        return pod

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

    # -- what goes wrong

    def compact(self, resource: str) -> None:
        """Forget the events of a resource, so that a watch from before answers 410."""
        self._logs[resource] = EventLog(floor=self.resource_version)

    def restart(self) -> None:
        """Restart: no event from before is kept, every old position answers 410, and every connection breaks."""
        for resource in {*self._logs, *self._objects}:
            self.compact(resource)
        self._cache_read.clear()
        self._pages.clear()
        self.break_watches()

    def break_watches(self) -> None:
        """Drop every connection, as a restart of the API server does."""
        dropped = [s for subscriptions in self.subscriptions.values() for s in subscriptions]
        self.subscriptions.clear()
        for subscription in dropped:
            subscription.on_break()

    def backup(self) -> Backup:
        """Take an etcd snapshot."""
        return Backup(self.resource_version, {resource: dict(found) for resource, found in self._objects.items()})

    def restore(self, backup: Backup, *, bump: int = 0) -> None:
        """Restore etcd: objects and the version counter go back, and every connection breaks.

        Parameters
        ----------
        bump: the counter goes so far ahead of the present instead, and what lies before counts as compacted
            (etcdutl snapshot restore --bump-revision --mark-compacted).
        """
        self.resource_version = self.resource_version + bump if bump else backup.resource_version
        self._objects = {resource: dict(found) for resource, found in backup.objects.items()}
        self._logs = {resource: EventLog(floor=self.resource_version) for resource in {*self._logs, *self._objects}}
        self._tick = (self._tick[0], self.resource_version)
        self._cache_read.clear()
        self._pages.clear()
        self._params = {key: [(self.now_s(), group)] for key, group in self._objects.get(STATIC_GROUPS, {}).items()}
        self.break_watches()

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
    """Decide the grace of a pod's deletion: none when it is not bound or has ended (pod strategy CheckGracefulDelete)."""
    spec, status = pod["spec"], pod.get("status") or {}
    grace: Any = spec.get("terminationGracePeriodSeconds", 30) if asked_s is None else asked_s
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    return int(grace)


def _no_kubelet(node_name: str) -> Json:
    """Answer where nobody has wired kubelets."""
    raise ApiError(503, f"no kubelet of node {node_name}")
