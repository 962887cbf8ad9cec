"""The one door to the package `journal`, which is imported only when a setting asks for what is in it.

The rest of the operator knows two ports of it, and each is None by default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ..api.resources.staticgroup import StaticGroupSpec
from ..api.resources.status import StaticGroupStatus
from ..core.evidence.pod import PodVersion
from ..core.outcomes import Executed
from ..core.plan import Plan
from ..core.snapshot import Snapshot
from ..core.timeouts.desired import Advice
from ..kube.pods.store import PodStore
from .process.metrics import Metrics
from .process.settings import Settings, SettingsError
from .stores import Stores
from .work_queue import Key

if TYPE_CHECKING:
    from journal.sinks import Sink
    from journal.sinks.kafka import SettingsOf

Sinks: TypeAlias = "tuple[Sink, ...]"
"""Where a journal goes."""


class JournalPort(Protocol):
    """Record what this operator sees and does, for programs that read many clusters."""

    def pod_seen(self, version: PodVersion) -> None:
        """Take one version of a pod."""
        return

    def pod_changed(self, namespace: str, pod_name: str, pods: PodStore) -> None:
        """Note the end of pods of this name whose object is gone."""
        return

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
        """Record what a round has shown, which never fails the round."""
        return

    def knows(self, key: Key) -> bool:
        """Say whether a round of a StaticGroup was recorded, so that one that shows the same need not be."""
        return True

    def seen_again(self, key: Key, began_ms: int) -> None:
        """Note that a round begun then, Unix milliseconds, saw the same as the last one."""
        return

    def forget(self, key: Key) -> None:
        """Drop what is remembered of a StaticGroup that is gone."""
        return

    def forget_all(self) -> None:
        """Drop what is remembered, because another replica recorded meanwhile."""
        return

    async def run(self, k8s_cluster_uid: str) -> None:
        """Bring records to where they go, until cancelled."""
        return

    async def beat_forever(self, watch: Callable[[], str]) -> None:
        """Record again and again that somebody watches, while this replica holds the Lease."""
        return


class AdvicePort(Protocol):
    """Say what session timeout the fleet learner recommends."""

    def advice(self, kafka_cluster_id: str | None, group_id: str) -> Advice | None:
        """Return what is known of one group now; None: nothing."""
        return None

    async def poll(self) -> None:
        """Read once what is published."""
        return

    async def run(self) -> None:
        """Read again and again, until cancelled."""
        return


def journal_of(
    settings: Settings,
    *,
    stores: Stores,
    metrics: Metrics,
    settings_of: SettingsOf,
    may_write: Callable[[], bool],
    now_s: Callable[[], float],
    sinks: Sinks | None = None,
) -> JournalPort | None:
    """Return the journal that the settings ask for; None: none.

    Parameters
    ----------
    settings_of: resolves a KafkaConnection with its Secrets.
    sinks: where it goes; None takes what the settings name.

    Raises
    ------
    SettingsError: a topic is named and confluent-kafka is not installed.
    """
    is_asked_for = bool(settings.journal_kafka_connection or settings.journal_files_path)
    if not (is_asked_for if sinks is None else sinks):
        return None
    from journal.journal import Journal
    from journal.records import watch_scope_of
    from journal.sinks import sinks_of
    from journal.sinks.kafka import MissingLibraryError

    operator_id = f"{settings.identity}.{int(now_s() * 1000)}"
    if sinks is None:
        try:
            sinks = sinks_of(
                operator_id=operator_id,
                kafka_connection=settings.journal_kafka_connection,
                kafka_topic=settings.journal_kafka_topic,
                files_path=settings.journal_files_path,
                files_max_mib=settings.journal_files_max_mib,
                files_count=settings.journal_files_count,
                queue_max=settings.journal_queue,
                settings_of=settings_of,
                counters=metrics,
            )
        except MissingLibraryError as error:
            raise SettingsError(str(error)) from error
    return Journal(
        operator_id=operator_id,
        sinks=sinks,
        stores=stores,
        counters=metrics,
        may_write=may_write,
        now_s=now_s,
        watch_scope=watch_scope_of(settings.watch_namespaces),
    )


def recommendations_of(settings: Settings, *, metrics: Metrics, now_s: Callable[[], float]) -> AdvicePort | None:
    """Return the recommendations that the settings ask for; None: none."""
    if not settings.recommendations_source:
        return None
    from journal.recommendations.reader import Recommendations, source_of

    return Recommendations(
        source=source_of(settings.recommendations_source),
        poll_s=settings.recommendations_poll_s,
        polls=metrics.recommendation_polls,
        now_s=now_s,
    )
