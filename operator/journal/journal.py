"""The journal of one operator process: turns facts into numbered records; a round never waits for it.

Only the holder of the Lease records facts and beats: a standby does not read groups, so its beat would claim a coverage
that does not exist. A standby does follow the pods and keeps their changes of the last minutes until it becomes the
holder; a change that the former holder had recorded gets the same id. Every call is synchronous and hands its records
to sinks that never block; when a sink has no room, the drop is counted, and readers see a hole in `seq`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

from staticgroup.api.protocols import GroupProtocol
from staticgroup.api.resources.staticgroup import StaticGroupSpec
from staticgroup.api.resources.status import StaticGroupStatus, TimeoutSource
from staticgroup.core.evidence.pod import PodVersion
from staticgroup.core.group import GroupView
from staticgroup.core.outcomes import Executed
from staticgroup.core.plan import Plan
from staticgroup.core.snapshot import Snapshot
from staticgroup.kube.pods.store import PodStore

from . import records as api
from .rounds import Recorder, Remembered, record_round
from .runs import PodProgress, RunChange, ended_with_pod, run_changes
from .sinks import Counters, Sink

log = logging.getLogger(__name__)

DataT = TypeVar("DataT", bound=api.Data)
Key = tuple[str, str]
"""(namespace, name) of a StaticGroup."""

PENDING_MAX = 2_000
"""The most changes of pods of one StaticGroup that wait for its next round; the oldest are dropped first."""
PENDING_AGE_MS = 300_000
"""How long a standby keeps changes of pods: longer than any change of the Lease's holder takes."""


class KnownGroups(Protocol):
    """What the journal reads from the operator's stores."""

    @property
    def groups(self) -> Collection[Key]:
        """All known StaticGroups."""

    def groups_of_workload(self, namespace: str, name: str) -> frozenset[Key]:
        """Return the StaticGroups on a workload."""

    def kafka_cluster_id_of(self, spec: StaticGroupSpec, namespace: str) -> str | None:
        """Return the id of the cluster that a StaticGroup's connection leads to; None while it is not known."""


class Journal:
    """Turn what the operator sees into records.

    Parameters
    ----------
    operator_id: of this process; `seq` counts for it alone.
    watch_scope: the namespaces that this operator serves, see `records.watch_scope_of`; "" for all.
    may_write: True while this replica holds the Lease.
    now_s: seconds since the Unix epoch.
    """

    def __init__(
        self,
        *,
        operator_id: str,
        sinks: Sequence[Sink],
        stores: KnownGroups,
        counters: Counters,
        may_write: Callable[[], bool],
        now_s: Callable[[], float],
        watch_scope: str = "",
    ) -> None:
        self.operator_id = operator_id
        self.watch_scope = watch_scope
        self.k8s_cluster_uid = ""
        self._sinks = tuple(sinks)
        self._stores = stores
        self._counters = counters
        self._may_write = may_write
        self._now_s = now_s
        self._seq = 0
        self._remembered: dict[Key, Remembered] = {}
        self._reached: set[Key] = set()
        self._pending: dict[Key, deque[RunChange]] = {}
        self._pods: dict[Key, dict[str, PodProgress]] = {}

    # pods ------------------------------------------------------------------------------------------------------

    def pod_seen(self, version: PodVersion) -> None:
        """Take one version of a pod, in any order; a fault in here never disturbs the pod watch."""
        with self._contained(f"{version.namespace}/{version.name}"):
            self._pod_seen(version)

    def _pod_seen(self, version: PodVersion) -> None:
        workload_name = version.name.rpartition("-")[0]
        groups = self._stores.groups_of_workload(version.namespace, workload_name)
        if not groups:
            return
        by_uid = self._pods.setdefault((version.namespace, version.name), {})
        by_uid[version.uid], changes = run_changes(by_uid.get(version.uid), version, self._now_ms())
        self._await_round(groups, changes)

    def pod_changed(self, namespace: str, pod_name: str, pods: PodStore) -> None:
        """Note the end of pods of this name whose object is gone, and forget them."""
        with self._contained(f"{namespace}/{pod_name}"):
            self._pod_changed(namespace, pod_name, pods)

    def _pod_changed(self, namespace: str, pod_name: str, pods: PodStore) -> None:
        by_uid = self._pods.get((namespace, pod_name))
        if not by_uid:
            return
        present = {i.uid for i in pods.chain(namespace, pod_names=(pod_name,)) if i.object_present}
        groups = self._stores.groups_of_workload(namespace, pod_name.rpartition("-")[0])
        for uid in [u for u in by_uid if u not in present]:
            self._await_round(groups, ended_with_pod(by_uid.pop(uid), self._now_ms()))
        if not by_uid:
            del self._pods[namespace, pod_name]

    def _await_round(self, groups: Iterable[Key], changes: Sequence[RunChange]) -> None:
        if not changes:
            return
        oldest_ms = self._now_ms() - PENDING_AGE_MS
        for key in groups:
            waiting = self._pending.setdefault(key, deque(maxlen=PENDING_MAX))
            if not self._may_write():
                while waiting and waiting[0].observed_at_ms < oldest_ms:
                    waiting.popleft()
            waiting.extend(changes)

    # rounds ----------------------------------------------------------------------------------------------------

    def round(
        self,
        key: Key,
        *,
        spec: StaticGroupSpec,
        snapshot: Snapshot,
        plan: Plan,
        executed: Executed,
        before: StaticGroupStatus | None,
        began_s: float,
    ) -> None:
        """Record what a round has shown; a fault in here never fails the round.

        Parameters
        ----------
        before: the status before this round.
        began_s: the operator's clock before the group was described, seconds since the Unix epoch.
        """
        if not self._may_write():
            return
        with self._contained("/".join(key)):
            is_read = isinstance(snapshot.group, GroupView)
            (self._reached.add if is_read else self._reached.discard)(key)
            cluster_id = self._stores.kafka_cluster_id_of(spec, key[0])
            if cluster_id is None:
                return  # recorded once the cluster's id is known: facts of one group must not have two subjects
            recorder = Recorder(
                operator_id=self.operator_id,
                kafka_cluster_id=cluster_id,
                spec=spec,
                snapshot=snapshot,
                plan=plan,
                executed=executed,
                began_ms=int(began_s * 1000),
                ended_ms=self._now_ms(),
                timeout_before_ms=_timeout_before_ms(before),
                runs=tuple(self._pending.get(key, ())),
                before=self._remembered.get(key),
            )
            record_round(recorder)
            self._remembered[key] = recorder.remembered
            if plan.naming is not None:
                self._pending.pop(key, None)
            for fact in recorder.facts:
                self._emit(api.group_record(self.k8s_cluster_uid, fact.id, self._numbered(fact.data)))

    def knows(self, key: Key) -> bool:
        """Return whether a round of a StaticGroup was recorded; false while its Kafka cluster's id is unknown."""
        return key in self._remembered

    def seen_again(self, key: Key, began_ms: int) -> None:
        """Note that a read of the group at this time, Unix milliseconds, showed no change."""
        if (remembered := self._remembered.get(key)) is not None:
            self._remembered[key] = remembered.seen_again(began_ms)

    @contextmanager
    def _contained(self, what: str) -> Iterator[None]:
        """Keep a fault of the journal in the journal: logged and counted."""
        try:
            yield
        except Exception:
            log.exception("journal: something could not be recorded", extra={"key": what})
            self._counters.journal_dropped.labels("", "fault").inc()

    def forget(self, key: Key) -> None:
        """Forget a StaticGroup that is gone."""
        self._remembered.pop(key, None)
        self._pending.pop(key, None)
        self._reached.discard(key)

    def forget_all(self) -> None:
        """Forget all rounds, because another replica recorded meanwhile; recent changes of pods stay."""
        self._remembered.clear()
        self._reached.clear()

    # beats and sinks -------------------------------------------------------------------------------------------

    async def beat_forever(self, watch: Callable[[], str]) -> None:
        """Beat now and every 30 s, while this replica holds the Lease."""
        while True:
            if self._may_write():
                self.beat(watch())
            await asyncio.sleep(api.BEAT_INTERVAL_MS / 1000)

    def beat(self, watch: str) -> None:
        """Record a beat: what is watched now."""
        unreachable = sorted("/".join(key) for key in self._stores.groups if key not in self._reached)
        beat = api.CoverageBeat(
            operator_id=self.operator_id,
            seq=0,
            observed_at_ms=self._now_ms(),
            static_groups=len(self._stores.groups),
            watch_epoch=watch,
            unreachable_groups=unreachable[: api.UNREACHABLE_MAX],
            unreachable_total=len(unreachable),
        )
        self._emit(api.beat_record(self.k8s_cluster_uid, self._numbered(beat)))

    async def run(self, k8s_cluster_uid: str) -> None:
        """Let every sink do its work in the background, and close them in the end."""
        self.k8s_cluster_uid = k8s_cluster_uid
        try:
            async with asyncio.TaskGroup() as tasks:
                for sink in self._sinks:
                    tasks.create_task(sink.run(), name=f"journal {sink.name}")
        finally:
            await asyncio.gather(*(sink.close() for sink in self._sinks), return_exceptions=True)

    def _numbered(self, data: DataT) -> DataT:
        numbered = data.model_copy(update={"seq": self._seq, "watch_scope": self.watch_scope})
        self._seq += 1
        return numbered

    def _emit(self, record: api.Record[api.Data]) -> None:
        line = api.write(record)
        for sink in self._sinks:
            if sink.offer(record.partitionkey, line):
                self._counters.journal_records.labels(sink.name).inc()
            else:
                self._counters.journal_dropped.labels(sink.name, "full").inc()

    def _now_ms(self) -> int:
        return int(self._now_s() * 1000)


def _timeout_before_ms(before: StaticGroupStatus | None) -> int | None:
    """Return the session timeout in the status before a round: of the next pods, or of the group."""
    if before is None:
        return None
    if before.injected is not None and before.injected.session_timeout_ms is not None:
        return before.injected.session_timeout_ms
    is_of_the_group = before.protocol in (GroupProtocol.CONSUMER, GroupProtocol.STREAMS)
    shown, exact = before.session_timeout, before.memory.timeout
    if shown is None or exact is None or not (is_of_the_group or shown.source is TimeoutSource.BROKER):
        return None
    return exact.next_ms
