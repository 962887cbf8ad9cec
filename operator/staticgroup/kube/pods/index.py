"""Find what is known of pods by uid, by pod name, by workload and by instance id.

What is known of a pod is one immutable value (`core.evidence.chain.KnownPod`), so the indexes hold uids. Of a hundred thousand
pods almost every name and id belongs to one pod: an entry is a bare uid, and a tuple only where there are more.
"""

from collections.abc import Iterable, Iterator, Set

from ...core.evidence.chain import KnownPod
from ...core.ids.naming import ordinal_of_pod

_Entry = str | tuple[str, ...]


class _Uids:
    """Map (namespace, key) to the uids of pods."""

    __slots__ = ("_by_namespace",)

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, _Entry]] = {}

    def keys(self) -> Iterator[tuple[str, str]]:
        for namespace, entries in self._by_namespace.items():
            yield from ((namespace, key) for key in entries)

    def add(self, namespace: str, key: str, uid: str) -> None:
        entries = self._by_namespace.setdefault(namespace, {})
        present = entries.get(key)
        if present is None:
            entries[key] = uid
        else:
            entries[key] = (*present, uid) if isinstance(present, tuple) else (present, uid)

    def remove(self, namespace: str, key: str, uid: str) -> None:
        entries = self._by_namespace[namespace]
        left = tuple(u for u in self.find(namespace, key) if u != uid)
        if left:
            entries[key] = left[0] if len(left) == 1 else left
        else:
            del entries[key]

    def find(self, namespace: str, key: str) -> tuple[str, ...]:
        present = self._by_namespace.get(namespace, {}).get(key, ())
        return present if isinstance(present, tuple) else (present,)

    def find_anywhere(self, keys: Set[str]) -> Iterator[str]:
        for namespace, entries in self._by_namespace.items():
            for key in entries.keys() & keys:
                yield from self.find(namespace, key)

    def all_of(self, namespace: str) -> Iterator[str]:
        for present in self._by_namespace.get(namespace, {}).values():
            yield from present if isinstance(present, tuple) else (present,)


def oldest_first(pods: Iterable[KnownPod]) -> tuple[KnownPod, ...]:
    """Return pods in the order of their versions."""
    return tuple(sorted(pods, key=lambda pod: (pod.resource_version, pod.uid)))


class PodIndex:
    """All pods with their indexes, always in step with each other."""

    __slots__ = ("_by_id", "_by_name", "_by_uid", "_by_workload")

    def __init__(self) -> None:
        self._by_uid: dict[str, KnownPod] = {}
        self._by_name = _Uids()
        self._by_id = _Uids()
        self._by_workload = _Uids()

    def __len__(self) -> int:
        return len(self._by_uid)

    def get(self, uid: str) -> KnownPod | None:
        """Return the pod of this uid; None when the uid was never seen or was forgotten."""
        return self._by_uid.get(uid)

    def put(self, pod: KnownPod) -> None:
        """Insert or replace what is known of a pod."""
        before = self._by_uid.get(pod.uid)
        self._by_uid[pod.uid] = pod
        if before is None:
            self._by_name.add(pod.namespace, pod.pod_name, pod.uid)
            self._by_workload.add(pod.namespace, _workload_name(pod), pod.uid)
        for instance_id in pod.instance_ids - (before.instance_ids if before is not None else frozenset()):
            self._by_id.add(pod.namespace, instance_id, pod.uid)

    def remove(self, pod: KnownPod) -> None:
        """Drop a pod from everything."""
        del self._by_uid[pod.uid]
        self._by_name.remove(pod.namespace, pod.pod_name, pod.uid)
        self._by_workload.remove(pod.namespace, _workload_name(pod), pod.uid)
        for instance_id in pod.instance_ids:
            self._by_id.remove(pod.namespace, instance_id, pod.uid)

    def ids(self) -> Iterator[tuple[str, str]]:
        """Iterate over every id that any pod ever carried, each with its namespace."""
        return self._by_id.keys()

    def in_scope(self, namespace: str) -> Iterator[KnownPod]:
        """Iterate over a namespace's pods, or all of them for ""."""
        return map(self._by_uid.__getitem__, self._by_name.all_of(namespace)) if namespace else iter(self._by_uid.values())

    def of_workload(self, namespace: str, workload_name: str) -> tuple[KnownPod, ...]:
        """Return every pod whose name is made of a workload's name, whatever owns it now."""
        return self._pods(self._by_workload.find(namespace, workload_name))

    def carriers(self, instance_ids: Iterable[str]) -> tuple[KnownPod, ...]:
        """Return every pod of any namespace that ever carried one of the ids, each once."""
        return self._pods(self._by_id.find_anywhere(frozenset(instance_ids)))

    def strays(self, namespace: str, workload_name: str, carried: Iterable[tuple[str, str]]) -> tuple[KnownPod, ...]:
        """Return every pod that ever carried an id in a namespace and is no seat of the workload, each once."""
        found = self._pods(uid for place, i in carried for uid in self._by_id.find(place, i))
        return tuple(pod for pod in found if _is_stray(pod, namespace, workload_name))

    def strays_anywhere(self, namespace: str, workload_name: str, instance_ids: Set[str]) -> tuple[KnownPod, ...]:
        """Return every pod of any namespace that ever carried one of the ids and is no seat of the workload, each once."""
        return tuple(pod for pod in self.carriers(instance_ids) if _is_stray(pod, namespace, workload_name))

    def chain(self, namespace: str, pod_names: Iterable[str], instance_ids: Iterable[str]) -> tuple[KnownPod, ...]:
        """Return every pod that has one of the names or ever carried one of the ids, each once."""
        named = (uid for name in pod_names for uid in self._by_name.find(namespace, name))
        return self._pods((*named, *(uid for i in instance_ids for uid in self._by_id.find(namespace, i))))

    def _pods(self, uids: Iterable[str]) -> tuple[KnownPod, ...]:
        return oldest_first(self._by_uid[uid] for uid in dict.fromkeys(uids))


def _workload_name(pod: KnownPod) -> str:
    """Derive the StatefulSet from the pod's name, which never changes, unlike the owner of an orphaned pod."""
    return pod.pod_name.rpartition("-")[0]


def _is_stray(pod: KnownPod, namespace: str, workload_name: str) -> bool:
    return pod.namespace != namespace or ordinal_of_pod(workload_name, pod.pod_name) is None
