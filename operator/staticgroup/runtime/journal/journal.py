"""The journal of one operator process: facts in, numbered records out, and nothing that a round ever waits for.

Only the holder of the Lease tells facts, and only the holder beats: a standby does not look at groups, so its beat
would claim a coverage that nobody has. It does follow the pods, and what they did in the last minutes waits until
rounds begin here; what the former holder had told already has the same id.
Every call is synchronous and hands its records to sinks that never block; a sink that cannot take one says so, and
the drop is counted. A hole in `seq` shows readers the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from ...api import journal as api
from ...api.protocols import GroupProtocol
from ...api.resources.staticgroup import StaticGroup, StaticGroupSpec
from ...api.resources.status import StaticGroupStatus, TimeoutSource
from ...core.evidence.pod import PodVersion
from ...core.group import GroupView
from ...core.journal import Look, Remembered, facts_of_round
from ...core.journal.runs import RunChange, Told, gone, look
from ...core.outcomes import Executed
from ...core.plan import Plan
from ...core.snapshot import Snapshot
from ...kube.container_runs import pod_runs
from ...kube.pods.store import PodStore
from ..metrics import Metrics
from ..stores import Stores
from ..work_queue import Key

log = logging.getLogger(__name__)

DataT = TypeVar("DataT", bound=api.Data)

PENDING_MAX = 2_000
"""Most changes of pods of one StaticGroup that wait for its next round; the oldest go first."""
PENDING_AGE_MS = 300_000
"""How long a standby keeps what pods did: longer than any change of the Lease's holder takes."""


class Sink(Protocol):
    """Where records go."""

    name: str

    def offer(self, key: str, line: str) -> bool:
        """Take one line without ever blocking; False when there is no room."""

    async def run(self) -> None:
        """Do what the sink has to do in the background, until cancelled."""

    async def close(self) -> None:
        """Write what waits, within a few seconds."""


@dataclass(slots=True)
class MemorySink:
    """Keep the lines in memory, for simulations and tests: no thread, no file, no clock."""

    lines: list[str] = field(default_factory=list)
    name: str = "memory"

    def offer(self, key: str, line: str) -> bool:
        """Keep a line."""
        self.lines.append(line)
        return True

    async def run(self) -> None:
        """Wait: there is nothing to do in the background."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Keep everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReport:
    """What a round hands to the journal.

    Parameters
    ----------
    before: the status before this round.
    began_s: the operator's clock before the group was described, seconds since the Unix epoch.
    """

    group: StaticGroup
    spec: StaticGroupSpec
    snapshot: Snapshot
    plan: Plan
    executed: Executed
    before: StaticGroupStatus | None
    began_s: float


class Journal:
    """Turn what the operator sees into records.

    Parameters
    ----------
    operator_id: of this process; `seq` counts for it alone.
    watch_scope: for which namespaces it speaks, see `api.watch_scope_of`; "" for all.
    may_write: True while this replica holds the Lease.
    now_s: seconds since the Unix epoch.
    """

    def __init__(
        self,
        *,
        operator_id: str,
        sinks: Sequence[Sink],
        stores: Stores,
        metrics: Metrics,
        may_write: Callable[[], bool],
        now_s: Callable[[], float],
        watch_scope: str = "",
    ) -> None:
        self.operator_id = operator_id
        self.watch_scope = watch_scope
        self.k8s_cluster_uid = ""
        self._sinks = tuple(sinks)
        self._stores = stores
        self._metrics = metrics
        self._may_write = may_write
        self._now_s = now_s
        self._seq = 0
        self._remembered: dict[Key, Remembered] = {}
        self._reached: set[Key] = set()
        self._pending: dict[Key, deque[RunChange]] = {}
        self._pods: dict[Key, dict[str, Told]] = {}

    # pods ------------------------------------------------------------------------------------------------------

    def pod_seen(self, raw: object, version: PodVersion) -> None:
        """Take one version of a pod, in whatever order they come; a fault in here costs the pod watch nothing."""
        with self._contained(f"{version.namespace}/{version.name}"):
            self._pod_seen(raw, version)

    def _pod_seen(self, raw: object, version: PodVersion) -> None:
        workload_name = version.name.rpartition("-")[0]
        groups = self._stores.groups_of_workload(version.namespace, workload_name)
        if not groups:
            return
        by_uid = self._pods.setdefault((version.namespace, version.name), {})
        by_uid[version.uid], changes = look(by_uid.get(version.uid), pod_runs(raw, version), self._now_ms())
        self._await_round(groups, changes)

    def pod_changed(self, namespace: str, pod_name: str, pods: PodStore) -> None:
        """Tell the end of pods of this name whose object is gone, and forget them."""
        with self._contained(f"{namespace}/{pod_name}"):
            self._pod_changed(namespace, pod_name, pods)

    def _pod_changed(self, namespace: str, pod_name: str, pods: PodStore) -> None:
        by_uid = self._pods.get((namespace, pod_name))
        if not by_uid:
            return
        present = {i.uid for i in pods.chain(namespace, pod_names=(pod_name,)) if i.object_present}
        groups = self._stores.groups_of_workload(namespace, pod_name.rpartition("-")[0])
        for uid in [u for u in by_uid if u not in present]:
            self._await_round(groups, gone(by_uid.pop(uid), self._now_ms()))
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

    def round(self, key: Key, told: RoundReport) -> None:
        """Tell what a round has shown; a fault in here never fails the round."""
        if not self._may_write():
            return
        with self._contained("/".join(key)):
            self._round(key, told)

    def knows(self, key: Key) -> bool:
        """Say whether a round of a StaticGroup was told; not as long as its Kafka cluster has no name."""
        return key in self._remembered

    def seen_again(self, key: Key, began_ms: int) -> None:
        """Take the word that a look since then, Unix milliseconds, saw the same as the last one."""
        if (remembered := self._remembered.get(key)) is not None:
            self._remembered[key] = remembered.seen_again(began_ms)

    @contextmanager
    def _contained(self, what: str) -> Iterator[None]:
        """Keep a fault of the journal in the journal: logged and counted."""
        try:
            yield
        except Exception:
            log.exception("journal: something could not be told", extra={"key": what})
            self._metrics.journal_dropped.labels("", "fault").inc()

    def _round(self, key: Key, told: RoundReport) -> None:
        is_read = isinstance(told.snapshot.group, GroupView)
        (self._reached.add if is_read else self._reached.discard)(key)
        cluster_id = self._stores.kafka_cluster_id(told.spec.connection_ref.key(key[0]))
        if cluster_id is None:
            return  # told once the cluster's name is known: facts of one group must not have two subjects
        remembered, facts = facts_of_round(
            self._remembered.get(key),
            Look(
                operator_id=self.operator_id,
                kafka_cluster_id=cluster_id,
                spec=told.spec,
                snapshot=told.snapshot,
                plan=told.plan,
                executed=told.executed,
                began_ms=int(told.began_s * 1000),
                ended_ms=self._now_ms(),
                timeout_before_ms=_timeout_before_ms(told.before),
                runs=tuple(self._pending.get(key, ())),
            ),
        )
        self._remembered[key] = remembered
        if told.plan.naming is not None:
            self._pending.pop(key, None)
        for fact in facts:
            self._emit(api.group_record(self.k8s_cluster_uid, fact.id, self._numbered(fact.data)))

    def forget(self, key: Key) -> None:
        """Drop what is remembered of a StaticGroup that is gone."""
        self._remembered.pop(key, None)
        self._pending.pop(key, None)
        self._reached.discard(key)

    def forget_all(self) -> None:
        """Drop all pictures, because another replica told meanwhile; what pods did lately stays."""
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
        """Say what is looked at now."""
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

    async def run_sinks(self) -> None:
        """Let every sink do its work in the background, and close them in the end."""
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
                self._metrics.journal_records.labels(sink.name).inc()
            else:
                self._metrics.journal_dropped.labels(sink.name, "full").inc()

    def _now_ms(self) -> int:
        return int(self._now_s() * 1000)


def _timeout_before_ms(before: StaticGroupStatus | None) -> int | None:
    """Return the session timeout that the next pods got, or the group had, by a status of this version or of an earlier one.

    Notes
    -----
    Earlier ones called it `effectiveMs`; what is injected stands in `status.injected` in all of them.
    """
    if before is None:
        return None
    if before.injected is not None and before.injected.session_timeout_ms is not None:
        return before.injected.session_timeout_ms
    is_of_the_group = before.protocol in (GroupProtocol.CONSUMER, GroupProtocol.STREAMS)
    if before.timeout is None or not (is_of_the_group or before.timeout.source is TimeoutSource.BROKER):
        return None
    return before.timeout.next_ms if before.timeout.next_ms is not None else before.timeout.effective_ms
