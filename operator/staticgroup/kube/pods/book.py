"""Fold every pod version, in any order, into what is known of each pod, and find that again.

Versions come from a LIST, from the main watch and from replays, so the same version may come twice and an old one
after a newer one. The one idea: the resourceVersion of what is known only grows. A newer version is folded. An older
one may still add what no version can take back (an id it carried, a container it showed, a certificate it proves) but
never changes what the newest version said. So the result does not depend on how the history was cut into pieces.

What is known of a pod is one immutable value (`core.evidence.chain.KnownPod`), so the indexes hold uids: almost every
name and id belongs to one pod, so an entry is a bare uid, and a tuple only where there are more.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Final

from ...core.evidence.certificate import is_terminal, shows_every_run
from ...core.evidence.chain import KnownPod, PodState, died, fold, vanish, with_given
from ...core.evidence.pod import NodeView, PodVersion
from ...core.ids.naming import ordinal_of_pod

GONE_MAX: Final = 20_000
"""Pods that are kept after they are gone; StaticGroups remember by themselves what they need of them."""
NodeOf = Callable[[str], NodeView | None]
IsManaged = Callable[[str, str], bool]
_Entry = str | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one version changed.

    Parameters
    ----------
    is_visible: something that decisions read is different now.
    is_end: a pod that lived has ended now, or is a suspect, or a container of it has ended.
    refusal_reason: why there is no certificate, when this made a suspect of a StaticGroup's pod; else "".
    is_back: the object exists, or its pod lives, although its end was seen: the API server went back in time.
    """

    pod: KnownPod
    is_visible: bool
    is_end: bool = False
    refusal_reason: str = ""
    is_back: bool = False


def _visible(i: KnownPod) -> tuple[object, ...]:
    """Return the facts that decisions read; a new resourceVersion alone changes none."""
    shown = (i.instance_ids, i.ids_are_fixed, i.restarts, i.session_timeouts_ms, i.addresses, i.has_lost_run)
    slots = (i.is_owned, i.is_over, *(slot.shown for slot in i.slots))
    return (i.state, i.object_present, i.runs, i.ready_since_s, i.is_deleting, i.node_name, _ends(i), shown, slots)


def _ends(pod: KnownPod | None) -> tuple[object, ...]:
    """Return the ends of containers that were seen: a crashed member is released until its process is back."""
    return tuple(each.end for each in pod.ends if each.end is not None) if pod is not None else ()


class PodBook:
    """All pods of all streams.

    Attributes
    ----------
    index: what is known of each pod.
    is_resumed: the watch goes on from where the watch of another process ended, and missed nothing since.
    ends: how many certificates the watch has brought in this process.
    suspect_count: how often a pod became a suspect, or a run of one was lost, in this process.
    watch_no: how often a watch of any scope began in this process; what one has shown is not known of the next.

    Parameters
    ----------
    node_of: facts of a node by name; None when they cannot be read (yet).
    now_s: operator's clock, seconds since the Unix epoch.
    is_managed: (namespace, workload name) belongs to a StaticGroup.
    gone_max: pods that are kept after they are gone.
    """

    def __init__(
        self, *, node_of: NodeOf, now_s: Callable[[], float], is_managed: IsManaged, gone_max: int = GONE_MAX
    ) -> None:
        self.index = PodIndex()
        self.is_resumed = False
        self.ends = 0
        self.suspect_count = 0
        self.watch_no = 1
        self._gone: dict[str, None] = {}
        self._gone_max = gone_max
        self._lost: set[str] = set()
        self._node_of = node_of
        self._now_s = now_s
        self._is_managed = is_managed

    def take(self, version: PodVersion, *, is_deleted: bool, in_order: bool, listed_at: int = 0) -> Change:
        """Fold one version that the API server shows now.

        Parameters
        ----------
        is_deleted: it came in a DELETED event.
        in_order: it came from a watch, so no version of this uid was skipped before it; False from a LIST.
        listed_at: resourceVersion of that LIST, which is consistent; 0 for none.

        A version without nodeName shows that nothing ran before it, because a binding is never taken back. So the uid
        is known from birth, however that version arrived, until versions are skipped (a LIST ahead of the watch).
        """
        before = self.index.get(version.uid)
        is_back = not is_deleted and before is not None and _is_back(before, version, listed_at)
        if is_back and before is not None:
            before = replace(
                before, state=PodState.LIVE, certificate=None, resource_version=-1, ends=(), since_s=self._now_s(),
                from_birth=False, runs_known=False, alive_under=0, ended_under=0,
            )
            self.is_resumed = False
        if before is not None and version.resource_version <= before.resource_version:
            after = self._absorb(before, version)
            # Real servers give a deletion its own, higher version; a server that does not must still be believed.
            if is_deleted and version.resource_version == before.resource_version and after.object_present:
                after = vanish(after, last=version, now_s=self._now_s())
        else:
            after = self._advance(before, version, is_deleted=is_deleted, in_order=in_order)
        after = self._followed(before, after, version, is_deleted=is_deleted, in_order=in_order)
        change = replace(self._store(before, after), is_back=is_back)
        if in_order and change.is_end and after.state is PodState.DEAD:
            self.ends += 1
            change = replace(change, pod=replace(after, ended_no=self.ends))
            self.index.put(change.pod)
        return change

    def _advance(self, before: KnownPod | None, version: PodVersion, *, is_deleted: bool, in_order: bool) -> KnownPod:
        if before is not None and not in_order:
            before = replace(before, from_birth=False, runs_known=False)
        if before is not None and before.node_name not in ("", version.node_name):
            # No binding is ever taken back, so etcd was restored: no later version shows what runs on the first node.
            before = replace(before, has_lost_run=True)
        is_unbound = not version.node_name and not version.started_containers
        after = fold(
            before, version, self._node_of(version.node_name), from_birth=is_unbound,
            runs_known=self._shows_every_run(version), now_s=self._now_s(),
        )
        return vanish(after, last=version, now_s=self._now_s()) if is_deleted else after

    def _followed(
        self, before: KnownPod | None, after: KnownPod, version: PodVersion, *, is_deleted: bool, in_order: bool
    ) -> KnownPod:
        """Note under which watch a pod was alive, and whether that watch then brought its end."""
        if before is not None and version.resource_version < before.resource_version:
            return after
        if not is_deleted and not is_terminal(version):
            return replace(after, alive_under=self.watch_no)
        has_ended = after.state is PodState.DEAD and (before is None or before.state is not PodState.DEAD)
        if has_ended and in_order and after.alive_under == self.watch_no:
            return replace(after, ended_under=self.watch_no)
        return after

    def _absorb(self, known: KnownPod, version: PodVersion) -> KnownPod:
        """Take what stays true from an older version: ids and whether they are fixed, node, containers, proof."""
        folded = fold(
            known, version, self._node_of(version.node_name), from_birth=known.from_birth,
            runs_known=self._shows_every_run(version), now_s=self._now_s(),
        )
        kept = replace(
            known, instance_ids=folded.instance_ids, node_name=known.node_name or folded.node_name,
            started_containers=folded.started_containers, ids_are_fixed=folded.ids_are_fixed,
            has_lost_run=folded.has_lost_run, runs_known=folded.runs_known, grace_s=folded.grace_s,
            slots=with_given(known.slots, folded.slots),
        )
        if folded.certificate is None or known.state is PodState.DEAD:
            return kept
        return died(replace(kept, since_s=folded.since_s), folded.certificate)

    def _shows_every_run(self, version: PodVersion) -> bool:
        """True for a version that shows what ran before, if another process watched until this one began."""
        # Else a restart of the operator would make a pod whose image was never pulled a suspect for ever.
        return self.is_resumed and shows_every_run(version)

    def _store(self, before: KnownPod | None, after: KnownPod) -> Change:
        self.index.put(after)
        self._lost.update((after.uid,) if after.has_lost_run else ())
        if after.object_present:
            self._gone.pop(after.uid, None)
        else:
            self._gone[after.uid] = None
        has_new_state = before is None or before.state is not after.state
        is_new_suspect = has_new_state and after.state is PodState.SUSPECT
        has_new_loss = after.has_lost_run and (before is None or not before.has_lost_run)
        self.suspect_count += is_new_suspect or has_new_loss
        is_reported = is_new_suspect and self._is_managed(after.namespace, after.workload_name)
        return Change(
            pod=after, is_visible=before is None or _visible(before) != _visible(after),
            is_end=(has_new_state and after.state is not PodState.LIVE) or _ends(before) != _ends(after),
            refusal_reason=after.refusal_reason if is_reported else "",
        )

    def doubtful(self) -> Iterator[KnownPod]:
        """Iterate over the suspects, and over the pods of which a run is lost."""
        for uid in (*self._gone, *(uid for uid in self._lost if uid not in self._gone)):
            pod = self.index.get(uid)
            if pod is not None and (pod.state is PodState.SUSPECT or uid in self._lost):
                yield pod

    def forget_versions(self, scope: str = "") -> None:
        """Start comparing versions of a scope again, because the API server went back in time."""
        for pod in tuple(self.index.in_scope(scope)):
            proof = replace(pod.certificate, resource_version=0) if pod.certificate is not None else None
            self.index.put(replace(pod, resource_version=0, certificate=proof))

    def take_absent(self, scope: str, listed: Mapping[str, int], resource_version: int) -> list[Change]:
        """Record as vanished what a complete LIST does not show.

        Parameters
        ----------
        scope: namespace of the LIST; "" for all.
        listed: uid to resourceVersion, everything the LIST showed.
        resource_version: of the LIST; what was seen in a newer version is left alone.
        """
        return [self._store(i, vanish(i, now_s=self._now_s())) for i in self._absent(scope, listed, resource_version)]

    def _absent(self, scope: str, listed: Mapping[str, int], resource_version: int) -> list[KnownPod]:
        """Return the present objects that a complete LIST does not show."""
        return [
            pod for pod in self.index.in_scope(scope)
            if pod.object_present and pod.resource_version <= resource_version and pod.uid not in listed
        ]

    def contradiction(self, scope: str, listed: Mapping[str, int], resource_version: int) -> str:
        """Compare a complete LIST with the index, which must hold everything up to it; parameters as for `take_absent`.

        Returns
        -------
        What the watch must have missed; "" when both agree.
        """
        for uid, listed_version in listed.items():
            pod = self.index.get(uid)
            if pod is None:
                return f"a LIST shows pod uid {uid}, which the watch never delivered"
            if listed_version < pod.resource_version <= resource_version:
                return (f"a LIST shows pod {pod.namespace}/{pod.pod_name} at resourceVersion {listed_version}, "
                        f"below {pod.resource_version} seen before (etcd restored?)")
            if pod.resource_version < listed_version:
                return (f"a LIST shows pod {pod.namespace}/{pod.pod_name} at resourceVersion {listed_version}, "
                        f"the watch stopped at {pod.resource_version}")
        lost = next(iter(self._absent(scope, listed, resource_version)), None)
        if lost is not None:
            return f"a LIST no longer shows pod {lost.namespace}/{lost.pod_name}, whose end the watch never delivered"
        return ""

    def purge(self) -> None:
        """Bound what is kept of pods that are gone: of the ended the oldest go first, then of the suspects."""
        if len(self._gone) <= self._gone_max:
            return
        target = self._gone_max * 9 // 10
        for state in (PodState.DEAD, PodState.SUSPECT):
            for uid in list(self._gone):
                if len(self._gone) <= target:
                    return
                pod = self.index.get(uid)
                if pod is not None and pod.state is state:
                    self.index.remove(pod)
                    del self._gone[uid]
                    self._lost.discard(uid)


def _is_back(before: KnownPod, version: PodVersion, listed_at: int) -> bool:
    """True for a version that only an API server shows that went back in time.

    A uid never comes back, a terminal phase is never left, and a consistent LIST shows nothing older than was seen
    before it. Only the last reveals a restore that raised the counter of versions: the objects keep theirs.
    """
    if version.resource_version <= before.resource_version:
        is_older = version.resource_version < before.resource_version or not before.object_present
        return is_older and before.resource_version <= listed_at
    if is_terminal(version):
        return False
    proof = before.certificate
    return not before.object_present or (proof is not None and proof.resource_version < version.resource_version)


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


class PodIndex:
    """Find pods by uid, pod name, workload and instance id; oldest version first."""

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
            self._by_workload.add(pod.namespace, pod.workload_name, pod.uid)
        for instance_id in pod.instance_ids - (before.instance_ids if before is not None else frozenset()):
            self._by_id.add(pod.namespace, instance_id, pod.uid)

    def remove(self, pod: KnownPod) -> None:
        """Drop a pod from everything."""
        del self._by_uid[pod.uid]
        self._by_name.remove(pod.namespace, pod.pod_name, pod.uid)
        self._by_workload.remove(pod.namespace, pod.workload_name, pod.uid)
        for instance_id in pod.instance_ids:
            self._by_id.remove(pod.namespace, instance_id, pod.uid)

    def ids(self) -> Iterator[tuple[str, str]]:
        """Iterate over every id that any pod ever carried, each with its namespace."""
        return self._by_id.keys()

    def in_scope(self, namespace: str) -> Iterator[KnownPod]:
        """Iterate over a namespace's pods, or all of them for ""."""
        return map(self._by_uid.__getitem__, self._by_name.all_of(namespace) if namespace else self._by_uid)

    def of_workload(self, namespace: str, workload_name: str) -> tuple[KnownPod, ...]:
        """Return every pod that is named after a workload, whatever owns it now."""
        return self._pods(self._by_workload.find(namespace, workload_name))

    def carriers(self, instance_ids: Iterable[str]) -> tuple[KnownPod, ...]:
        """Return every pod of any namespace that ever carried one of the ids, each once."""
        return self._pods(self._by_id.find_anywhere(frozenset(instance_ids)))

    def strays(self, namespace: str, workload_name: str, carried: Iterable[tuple[str, str]]) -> tuple[KnownPod, ...]:
        """Return every pod that ever carried an id in a namespace and is no seat of the workload, each once."""
        found = self._pods(uid for place, i in carried for uid in self._by_id.find(place, i))
        return tuple(pod for pod in found if _is_stray(pod, namespace, workload_name))

    def strays_anywhere(self, namespace: str, workload_name: str, instance_ids: Set[str]) -> tuple[KnownPod, ...]:
        """Return every pod of any namespace that ever carried one of the ids and is no seat of the workload."""
        return tuple(pod for pod in self.carriers(instance_ids) if _is_stray(pod, namespace, workload_name))

    def chain(
        self, namespace: str, pod_names: Iterable[str] = (), instance_ids: Iterable[str] = ()
    ) -> tuple[KnownPod, ...]:
        """Return every pod that has one of the names or ever carried one of the ids, each once."""
        named = (uid for name in pod_names for uid in self._by_name.find(namespace, name))
        return self._pods((*named, *(uid for i in instance_ids for uid in self._by_id.find(namespace, i))))

    def _pods(self, uids: Iterable[str]) -> tuple[KnownPod, ...]:
        """Return pods in the order of their versions."""
        return tuple(sorted((self._by_uid[u] for u in dict.fromkeys(uids)), key=lambda i: (i.resource_version, i.uid)))


def _is_stray(pod: KnownPod, namespace: str, workload_name: str) -> bool:
    if pod.namespace == namespace and pod.slots and pod.workload_name == workload_name:
        return False
    return pod.namespace != namespace or ordinal_of_pod(workload_name, pod.pod_name) is None

