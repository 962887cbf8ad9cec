"""Hold what is known of a hundred thousand pods in little memory, found by uid, by pod name and by instance id.

`core.evidence.chain.KnownPod` is what decisions read; as it stands it costs about a kilobyte (a frozenset alone is 216
bytes). A record keeps the same facts packed: flags in one integer, a single id as a bare string, names and refusals
interned. Both indexes point at the record itself, not at its uid.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Set
from dataclasses import replace
from functools import lru_cache
from sys import intern
from typing import Final

from ...core.evidence.certificate import Certificate
from ...core.evidence.chain import KnownPod, PodState
from ...core.ids.naming import ordinal_of_pod

_STATES: Final = (PodState.LIVE, PodState.DEAD, PodState.SUSPECT)
_STATE_BITS: Final = 3
_PRESENT, _FROM_BIRTH, _RUNS, _DELETING, _FIXED, _RUNS_KNOWN, _NODE = 4, 8, 16, 32, 64, 128, 256

UNPACKED_MAX: Final = 2_000
"""Pods that are kept unpacked, the newest: a round reads those of its workload several times, and so does the next one."""
_unpacked_last: Final[deque["PodRecord"]] = deque()


@lru_cache(maxsize=1024)
def _shared(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return one and the same tuple for equal ones, as for the containers of all pods of a workload."""
    return names


@lru_cache(maxsize=1024)
def _shared_numbers(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Return one and the same tuple for equal ones, as for the session timeouts of all pods of a workload."""
    return numbers


def _packed(texts: frozenset[str]) -> str | tuple[str, ...]:
    """Keep a set of texts as what costs least: mostly it holds one, which then stands for itself."""
    return next(iter(texts)) if len(texts) == 1 else tuple(sorted(texts))


def _unpacked(packed: str | tuple[str, ...]) -> tuple[str, ...]:
    return (packed,) if isinstance(packed, str) else packed


class PodRecord:
    """One pod, packed; see `core.evidence.chain.KnownPod` for the meaning of its facts."""

    __slots__ = (
        "_flags", "_ids", "_started", "_whole", "addresses", "boot", "certificate", "created_at_s", "ended_no", "ends", "grace_s", "lost_boot",
        "lost_runs", "namespace", "node_name", "owner_name", "placed_at_s", "pod_name", "provider", "ready_since_s", "refusal", "refusal_reason", "resource_version",
        "restarts", "session_timeouts_ms", "shown_at_s", "since_s", "uid",
    )

    def __init__(self, known_pod: KnownPod, owner_name: str = "") -> None:
        self.namespace = intern(known_pod.namespace)
        self.pod_name = known_pod.pod_name
        self.uid = known_pod.uid
        self.owner_name = intern(owner_name)
        self.put(known_pod)

    def put(self, known_pod: KnownPod) -> None:
        """Replace the facts; namespace, name and uid of a pod never change."""
        self._whole: KnownPod | None = None
        self._ids = _packed(known_pod.instance_ids)
        started = _packed(known_pod.started_containers)
        self._started = started if isinstance(started, str) else _shared(started)
        self.node_name = intern(known_pod.node_name)
        self.refusal = intern(known_pod.refusal)
        self.refusal_reason = intern(known_pod.refusal_reason)
        self.certificate: Certificate | None = known_pod.certificate
        self.resource_version = known_pod.resource_version
        self.since_s = known_pod.since_s
        self.ready_since_s = known_pod.ready_since_s
        self.created_at_s = known_pod.created_at_s
        self.restarts = known_pod.restarts
        self.session_timeouts_ms = _shared_numbers(known_pod.session_timeouts_ms)
        self.ends = known_pod.ends
        self.grace_s = known_pod.grace_s
        self.boot = intern(known_pod.boot)
        self.lost_boot = intern(known_pod.lost_boot)
        self.lost_runs = known_pod.lost_runs
        self.placed_at_s = known_pod.placed_at_s
        self.provider = intern(known_pod.provider)
        self.addresses = known_pod.addresses
        self.shown_at_s = known_pod.shown_at_s
        self.ended_no = known_pod.ended_no
        self._flags = (
            _STATES.index(known_pod.state)
            | (_PRESENT if known_pod.object_present else 0)
            | (_FROM_BIRTH if known_pod.from_birth else 0)
            | (_RUNS if known_pod.runs else 0)
            | (_DELETING if known_pod.is_deleting else 0)
            | (_FIXED if known_pod.ids_are_fixed else 0)
            | (_RUNS_KNOWN if known_pod.runs_known else 0)
            | (_NODE if known_pod.is_node_known else 0)
        )

    @property
    def instance_ids(self) -> tuple[str, ...]:
        """Return the ids, in no order."""
        return _unpacked(self._ids)

    @property
    def state(self) -> PodState:
        """Return what is known of the pod."""
        return _STATES[self._flags & _STATE_BITS]

    @property
    def object_present(self) -> bool:
        """True while the object exists as far as the watch has shown."""
        return bool(self._flags & _PRESENT)

    @property
    def ids_are_fixed(self) -> bool:
        """True when no edit of the object can change the ids it carries."""
        return bool(self._flags & _FIXED)

    def forget_version(self) -> None:
        """Let any resourceVersion be newer than the one that is known."""
        self.resource_version = 0
        if self.certificate is not None:
            self.certificate = replace(self.certificate, resource_version=0)
        self.pack()

    def ended_as(self, number: int) -> None:
        """Note which certificate of this process it got."""
        self.ended_no = number
        self.pack()

    def pack(self) -> None:
        """Give up the unpacked value, which is made again when it is asked for."""
        self._whole = None

    def known_pod(self) -> KnownPod:
        """Return the value that decisions read."""
        if (whole := self._whole) is None:
            if len(_unpacked_last) == UNPACKED_MAX:
                _unpacked_last.popleft().pack()
            whole = self._whole = self._unpack()
            _unpacked_last.append(self)
        return whole

    def _unpack(self) -> KnownPod:
        flags = self._flags
        return KnownPod(
            namespace=self.namespace, pod_name=self.pod_name, uid=self.uid, instance_ids=frozenset(self.instance_ids),
            node_name=self.node_name, state=_STATES[flags & _STATE_BITS], since_s=self.since_s,
            resource_version=self.resource_version, certificate=self.certificate, refusal=self.refusal,
            refusal_reason=self.refusal_reason, object_present=bool(flags & _PRESENT),
            from_birth=bool(flags & _FROM_BIRTH), started_containers=frozenset(_unpacked(self._started)),
            runs=bool(flags & _RUNS), ready_since_s=self.ready_since_s, is_deleting=bool(flags & _DELETING),
            created_at_s=self.created_at_s,
            restarts=self.restarts, session_timeouts_ms=self.session_timeouts_ms, ids_are_fixed=bool(flags & _FIXED), runs_known=bool(flags & _RUNS_KNOWN), boot=self.boot, lost_boot=self.lost_boot, lost_runs=self.lost_runs,
            is_node_known=bool(flags & _NODE), ends=self.ends, grace_s=self.grace_s, placed_at_s=self.placed_at_s,
            provider=self.provider, addresses=self.addresses,
            shown_at_s=self.shown_at_s, ended_no=self.ended_no,
        )


_Entry = PodRecord | tuple[PodRecord, ...]


class _Index:
    """Map (namespace, key) to records; almost always one, so a tuple is made only for more."""

    __slots__ = ("_by_namespace",)

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, _Entry]] = {}

    def keys(self) -> Iterator[tuple[str, str]]:
        for namespace, entries in self._by_namespace.items():
            yield from ((namespace, key) for key in entries)

    def add(self, key: str, record: PodRecord) -> None:
        entries = self._by_namespace.setdefault(record.namespace, {})
        present = entries.get(key)
        if present is None:
            entries[key] = record
        else:
            entries[key] = (*present, record) if isinstance(present, tuple) else (present, record)

    def remove(self, key: str, record: PodRecord) -> None:
        entries = self._by_namespace[record.namespace]
        present = entries[key]
        rest = tuple(r for r in present if r is not record) if isinstance(present, tuple) else ()
        if not rest:
            del entries[key]
        else:
            entries[key] = rest[0] if len(rest) == 1 else rest

    def find(self, namespace: str, key: str) -> tuple[PodRecord, ...]:
        present = self._by_namespace.get(namespace, {}).get(key)
        if present is None:
            return ()
        return present if isinstance(present, tuple) else (present,)

    def find_anywhere(self, key: str) -> Iterator[PodRecord]:
        for namespace in self._by_namespace:
            yield from self.find(namespace, key)

    def find_all(self, keys: Set[str]) -> Iterator[PodRecord]:
        for namespace, entries in self._by_namespace.items():
            for key in entries.keys() & keys:
                yield from self.find(namespace, key)

    def all_of(self, namespace: str) -> Iterator[PodRecord]:
        for present in self._by_namespace.get(namespace, {}).values():
            yield from present if isinstance(present, tuple) else (present,)


def _workload_key(record: PodRecord) -> tuple[str, str]:
    """Derive the StatefulSet from the pod's name, which never changes, unlike the owner of an orphaned pod."""
    return record.namespace, record.pod_name.rpartition("-")[0]


def oldest_first(records: Iterable[PodRecord]) -> tuple[KnownPod, ...]:
    """Unpack records in the order of their versions."""
    return tuple(sorted((r.known_pod() for r in records), key=lambda i: (i.resource_version, i.uid)))


class PodRecords:
    """All records with their indexes, always in step with each other."""

    __slots__ = ("_by_id", "_by_name", "_by_uid", "_by_workload")

    def __init__(self) -> None:
        self._by_uid: dict[str, PodRecord] = {}
        self._by_name = _Index()
        self._by_id = _Index()
        self._by_workload: dict[tuple[str, str], dict[str, PodRecord]] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def get(self, uid: str) -> PodRecord | None:
        """Return the record of this uid; None when the uid was never seen or was forgotten."""
        return self._by_uid.get(uid)

    def put(self, known_pod: KnownPod, owner_name: str = "") -> PodRecord:
        """Insert or replace what is known of a pod, and keep both indexes in step."""
        record = self._by_uid.get(known_pod.uid)
        if record is None:
            record = PodRecord(known_pod, owner_name)
            self._by_uid[record.uid] = record
            self._by_name.add(record.pod_name, record)
            self._by_workload.setdefault(_workload_key(record), {})[record.uid] = record
            added: frozenset[str] = frozenset(record.instance_ids)
        else:
            added = known_pod.instance_ids.difference(record.instance_ids)
            record.put(known_pod)
            if owner_name:
                record.owner_name = intern(owner_name)
        for instance_id in added:
            self._by_id.add(instance_id, record)
        return record

    def remove(self, record: PodRecord) -> None:
        """Drop one record from everything."""
        del self._by_uid[record.uid]
        self._by_name.remove(record.pod_name, record)
        siblings = self._by_workload[_workload_key(record)]
        del siblings[record.uid]
        if not siblings:
            del self._by_workload[_workload_key(record)]
        for instance_id in record.instance_ids:
            self._by_id.remove(instance_id, record)

    def named(self, namespace: str, pod_name: str) -> tuple[PodRecord, ...]:
        """Return every pod of a name."""
        return self._by_name.find(namespace, pod_name)

    def carrying(self, namespace: str, instance_id: str) -> tuple[PodRecord, ...]:
        """Return every pod that ever carried an id."""
        return self._by_id.find(namespace, instance_id)

    def carrying_anywhere(self, instance_id: str) -> Iterator[PodRecord]:
        """Iterate over every pod of any namespace that ever carried an id."""
        return self._by_id.find_anywhere(instance_id)

    def ids(self) -> Iterator[tuple[str, str]]:
        """Iterate over every id that any pod ever carried, each with its namespace."""
        return self._by_id.keys()

    def of_workload(self, namespace: str, workload_name: str) -> Iterator[PodRecord]:
        """Iterate over every pod whose name is made of a StatefulSet's name, whoever owns it now."""
        return iter(self._by_workload.get((namespace, workload_name), {}).values())

    def in_scope(self, namespace: str) -> Iterator[PodRecord]:
        """Iterate over a namespace's records, or all of them for ""."""
        return self._by_name.all_of(namespace) if namespace else iter(self._by_uid.values())

    def carriers(self, instance_ids: Iterable[str]) -> tuple[KnownPod, ...]:
        """Return every pod of any namespace that ever carried one of the ids, each once."""
        found = {r.uid: r for i in instance_ids for r in self.carrying_anywhere(i)}
        return oldest_first(found.values())

    def strays(self, namespace: str, workload_name: str, carried: Iterable[tuple[str, str]]) -> tuple[KnownPod, ...]:
        """Return every pod that ever carried an id in a namespace and is no seat of the StatefulSet, each once."""
        found = {
            r.uid: r
            for place, i in carried
            for r in self.carrying(place, i)
            if r.namespace != namespace or ordinal_of_pod(workload_name, r.pod_name) is None
        }
        return oldest_first(found.values())

    def strays_anywhere(self, namespace: str, workload_name: str, instance_ids: Set[str]) -> tuple[KnownPod, ...]:
        """Return every pod of any namespace that ever carried one of the ids and is no seat of the StatefulSet, each once.

        Notes
        -----
        It is asked of every wanted id in each round, so the seats themselves are not even unpacked.
        """
        found = {
            r.uid: r
            for r in self._by_id.find_all(instance_ids)
            if r.namespace != namespace or ordinal_of_pod(workload_name, r.pod_name) is None
        }
        return oldest_first(found.values())

    def chain(self, namespace: str, pod_names: Iterable[str], instance_ids: Iterable[str]) -> tuple[KnownPod, ...]:
        """Return every pod that has one of the names or ever carried one of the ids, each once."""
        found = {r.uid: r for name in pod_names for r in self.named(namespace, name)}
        found.update((r.uid, r) for i in instance_ids for r in self.carrying(namespace, i))
        return oldest_first(found.values())
