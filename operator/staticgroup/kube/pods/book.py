"""Fold every pod version that arrives, by whatever way and in whatever order, into what is known of each pod.

Versions come from a LIST, from the main watch and from replays, so the same version may come twice and an old one
after a newer one. The one idea: a record's resourceVersion only grows. A newer version is folded; an older one may
still add what no version can take back (an id it carried, a container it showed, a certificate it proves) but never
changes what the newest version said. So the result does not depend on how the history was cut into pieces.

Pure bookkeeping: no I/O; the clock and the node facts are parameters.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ...core.evidence.chain import UNKNOWN_BOOT, KnownPod, PodState, died, fold, vanish
from ...core.evidence.pod import NodeView, PodVersion
from .index import PodIndex

AWAITING_NODE_MAX: Final = 10_000
GONE_MAX: Final = 20_000
"""Most pods that are gone are kept of; StaticGroups remember by themselves what they need of them."""

NodeOf = Callable[[str], NodeView | None]
IsManaged = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one version changed.

    Parameters
    ----------
    is_visible: something a decision reads is different now.
    is_end: a pod that lived has ended now, or is a suspect, or a container of it has ended.
    refusal_reason: what stood against a certificate, when this made a suspect of a pod that a StaticGroup manages; else "".
    is_back: the object is there, or lives, although it was seen to be gone, or to have ended: no API server shows that which did not
        go back in time.
    """

    pod: KnownPod
    is_visible: bool
    is_end: bool = False
    refusal_reason: str = ""
    is_back: bool = False


def _visible(i: KnownPod) -> tuple[object, ...]:
    """Select the facts whose change is worth a look; a new resourceVersion alone is not."""
    of_ids = (i.instance_ids, i.ids_are_fixed, i.restarts, i.session_timeouts_ms)
    return (i.state, i.object_present, i.runs, i.ready_since_s, i.is_deleting, i.node_name, _ends(i), of_ids, i.has_lost, i.addresses)


def _ends(pod: KnownPod | None) -> tuple[object, ...]:
    """Return the ends of containers that were seen: a member that crashed is released before its process is back, or not at all."""
    return tuple(each.end for each in pod.ends if each.end is not None) if pod is not None else ()


class PodBook:
    """All pods of all streams.

    Attributes
    ----------
    index: what is known of each pod.
    is_resumed: the watch goes on from where that of another process ended, and nothing was missed since.
    ends: how many certificates the watch has brought in this process.
    suspect_count: how often a pod became a suspect, or a run of one was lost, in this process.

    Parameters
    ----------
    node_of: facts of a node by name; None when they cannot be read (yet).
    now_s: operator's clock, seconds since the Unix epoch.
    is_managed: (namespace, pod name) belongs to a StaticGroup.
    gone_max: most pods that are gone are kept of.
    """

    def __init__(
        self, *, node_of: NodeOf, now_s: Callable[[], float], is_managed: IsManaged, gone_max: int = GONE_MAX
    ) -> None:
        self.index = PodIndex()
        self.is_resumed = False
        self.ends = 0
        self.suspect_count = 0
        self._gone: dict[str, None] = {}
        self._gone_max = gone_max
        self._lost: set[str] = set()
        self._node_of = node_of
        self._now_s = now_s
        self._is_managed = is_managed
        self._awaiting_node: dict[str, PodVersion] = {}

    def take(self, version: PodVersion, *, is_deleted: bool, in_order: bool, listed_at: int = 0) -> Change:
        """Fold one version that the API server shows now.

        Parameters
        ----------
        is_deleted: it came in a DELETED event.
        in_order: it came from a watch, so no version of this uid was skipped before it; False from a LIST.
        listed_at: resourceVersion of that LIST, which is consistent; 0 for none.

        Notes
        -----
        A version without nodeName shows that nothing ran before it (a binding is never taken back), so the uid is
        known from birth, however that version arrived. What was skipped (a LIST ahead of the watch) ends that knowledge.
        """
        before = self.index.get(version.uid)
        is_back = not is_deleted and before is not None and _is_back(before, version, listed_at)
        if is_back and before is not None:
            before = replace(
                before, state=PodState.LIVE, certificate=None, resource_version=-1, ends=(), since_s=self._now_s(),
                from_birth=False, runs_known=False,
            )
            self.is_resumed = False
        if before is not None and version.resource_version <= before.resource_version:
            after = self._absorb(before, version)
            # Real servers give a deletion its own, higher version; one that does not must still be believed.
            if is_deleted and version.resource_version == before.resource_version and after.object_present:
                after = vanish(after, last=version, now_s=self._now_s())
        else:
            after = self._advance(before, version, is_deleted=is_deleted, in_order=in_order)
        change = replace(self._store(before, after), is_back=is_back)
        if in_order and change.is_end and after.state is PodState.DEAD:
            self.ends += 1
            change = replace(change, pod=replace(after, ended_no=self.ends))
            self.index.put(change.pod)
        return change

    def _advance(
        self, before: KnownPod | None, version: PodVersion, *, is_deleted: bool, in_order: bool
    ) -> KnownPod:
        if before is not None and not in_order:
            before = replace(before, from_birth=False, runs_known=False)
        if before is not None and before.node_name not in ("", version.node_name):
            # No binding is ever taken back, so etcd was set back to before it: whatever runs on the first node, no later version tells of.
            before = replace(before, lost_boot=UNKNOWN_BOOT)
        is_unbound = not version.node_name and not version.started_containers
        after = fold(
            before, version, self._node_of(version.node_name), from_birth=is_unbound, runs_known=self._tells_every_run(version),
            now_s=self._now_s(),
        )
        self._await_node(after, version)
        return vanish(after, last=version, now_s=self._now_s()) if is_deleted else after

    def _absorb(self, known: KnownPod, version: PodVersion) -> KnownPod:
        """Take from an older version what stays true: ids and whether they were fixed, a binding, a container, a certificate."""
        node = self._node_of(version.node_name)
        folded = fold(
            known, version, node, from_birth=known.from_birth, runs_known=self._tells_every_run(version), now_s=self._now_s()
        )
        self._await_node(folded, version)
        kept = replace(
            known, instance_ids=folded.instance_ids, node_name=known.node_name or folded.node_name,
            started_containers=folded.started_containers, ids_are_fixed=folded.ids_are_fixed,
            lost_boot=folded.lost_boot, lost_runs=folded.lost_runs, runs_known=folded.runs_known, grace_s=folded.grace_s,
            is_node_known=folded.is_node_known, provider=folded.provider,
        )
        if folded.certificate is None or known.state is PodState.DEAD:
            return kept
        return died(replace(kept, since_s=folded.since_s), folded.certificate)

    def _tells_every_run(self, version: PodVersion) -> bool:
        """True for a version from which it is known what ran before, where another process has watched until this one does.

        Notes
        -----
        A pod whose image was never pulled is no suspect for ever because the operator restarted meanwhile.
        """
        return self.is_resumed and version.tells_every_run

    def _await_node(self, pod: KnownPod, version: PodVersion) -> None:
        """Keep a terminal version that only lacks the facts of its node."""
        if pod.state is PodState.DEAD:
            self._awaiting_node.pop(version.uid, None)
        elif version.is_terminal and version.node_name and self._node_of(version.node_name) is None:
            self._awaiting_node[version.uid] = version
            if len(self._awaiting_node) > AWAITING_NODE_MAX:
                del self._awaiting_node[next(iter(self._awaiting_node))]

    def _store(self, before: KnownPod | None, after: KnownPod) -> Change:
        self.index.put(after)
        (self._lost.add if after.has_lost else self._lost.discard)(after.uid)
        if after.object_present:
            self._gone.pop(after.uid, None)
        else:
            self._gone[after.uid] = None
        has_new_state = before is None or before.state is not after.state
        is_new_suspect = has_new_state and after.state is PodState.SUSPECT
        self.suspect_count += is_new_suspect or (after.has_lost and (before is None or before.lost_boot != after.lost_boot))
        return Change(
            pod=after, is_visible=before is None or _visible(before) != _visible(after),
            is_end=(has_new_state and after.state is not PodState.LIVE) or _ends(before) != _ends(after),
            refusal_reason=after.refusal_reason if is_new_suspect and self._is_managed(after.namespace, after.pod_name) else "",
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
        gone = self._absent(scope, listed, resource_version)
        return [self._store(pod, vanish(pod, now_s=self._now_s())) for pod in gone]

    def _absent(self, scope: str, listed: Mapping[str, int], resource_version: int) -> list[KnownPod]:
        """Return the present objects that a complete LIST does not show; parameters as for `take_absent`."""
        return [
            pod for pod in self.index.in_scope(scope)
            if pod.object_present and pod.resource_version <= resource_version and pod.uid not in listed
        ]

    def contradiction(self, scope: str, listed: Mapping[str, int], resource_version: int) -> str:
        """Compare a complete LIST with the index, which must hold everything up to it; parameters as for `take_absent`.

        Returns
        -------
        What the watch must have missed, in words; "" when both agree.
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
        missing = self._absent(scope, listed, resource_version)
        if missing:
            return f"a LIST no longer shows pod {missing[0].namespace}/{missing[0].pod_name}, whose end the watch never delivered"
        return ""

    def take_node(self, node_name: str) -> list[Change]:
        """Judge again the terminal versions that waited for the facts of this node."""
        waiting = [v for v in self._awaiting_node.values() if v.node_name == node_name]
        changes = [self.take(version, is_deleted=False, in_order=False) for version in waiting]
        return [change for change in changes if change.is_visible]

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
                    self._awaiting_node.pop(uid, None)


def _is_back(before: KnownPod, version: PodVersion, listed_at: int) -> bool:
    """True for a version that only an API server shows which went back in time.

    Notes
    -----
    A uid never comes back, a terminal phase is never left, and a consistent LIST shows nothing older than what was seen before it. The
    last is all that tells of a restore that has raised the counter of versions: the objects keep theirs.
    """
    if version.resource_version <= before.resource_version:
        is_older = version.resource_version < before.resource_version or not before.object_present
        return is_older and before.resource_version <= listed_at
    if version.is_terminal:
        return False
    return not before.object_present or (before.certificate is not None and before.certificate.resource_version < version.resource_version)
