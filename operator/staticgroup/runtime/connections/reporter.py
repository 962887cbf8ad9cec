"""Rounds of KafkaConnections: is the cluster reachable, and which one is it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ...api import names
from ...api.reasons import ConditionStatus, ConditionType, Reason
from ...api.resources.kafkaconnection import Connection, KafkaConnectionStatus, is_cluster_id
from ...api.schema import with_conditions
from ...core.findings.kafka import CONNECTION_REASONS
from ...core.group import KafkaProblem
from ...kafka.calls.reading import ClusterFacts
from ...kafka.gateway import KioGateway
from ...kube.gateway import KubeGateway
from ...kube.problem import KubeProblem
from ..stores import Stores
from ..work_queue import Key, Result
from .connections import Connections

PROBE_EVERY_S = 60.0


@dataclass(slots=True)
class ConnectionReporter:
    """Probe each connection now and then and report what was found."""

    kube: KubeGateway
    kafka: KioGateway
    stores: Stores
    connections: Connections
    may_write: Callable[[], bool]
    now_s: Callable[[], float]
    docs_url: str = ""
    _written: dict[str, KafkaConnectionStatus] = field(default_factory=dict)
    """The newest status that was written, by the uid of its connection."""
    _unsure: set[str] = field(default_factory=set)

    async def reconcile(self, key: Key) -> Result:
        """Probe one connection and write its status when it changed."""
        connection = self.stores.connections.get(key)
        if connection is None:
            return Result()
        if not self.may_write():
            return Result(failed=True)  # a renewal of the Lease may only be late
        uid = connection.metadata.uid
        settings = await self.connections.settings(key)
        facts = settings if isinstance(settings, KafkaProblem) else await self.kafka.probe(settings)
        if isinstance(facts, KafkaProblem):
            self.connections.distrust(key)
        before = self._written.get(uid) or connection.status or KafkaConnectionStatus()
        status = self._status(before, facts, connection)
        if status != before or uid in self._unsure:
            if not self.may_write():
                return Result(failed=True)
            self._unsure.add(uid)  # until the answer is there, the API server may hold either
            plural = names.KAFKA_CONNECTION_PLURAL if key[0] else names.CLUSTER_KAFKA_CONNECTION_PLURAL
            written = await self.kube.apply_status(plural, *key, uid, status.to_wire())
            if isinstance(written, KubeProblem):
                return Result(failed=True)
            self._unsure.discard(uid)
        self._written[uid] = status
        return Result(requeue_after_s=PROBE_EVERY_S, failed=isinstance(facts, KafkaProblem))

    def forget(self, uid: str) -> None:
        """Drop what was written of a connection that is gone."""
        self._written.pop(uid, None)
        self._unsure.discard(uid)

    def forget_all(self) -> None:
        """Drop what was written, because another replica may have written since."""
        self._written.clear()
        self._unsure.clear()

    def _status(
        self, before: KafkaConnectionStatus, facts: ClusterFacts | KafkaProblem, connection: Connection
    ) -> KafkaConnectionStatus:
        generation = connection.metadata.generation
        now = datetime.fromtimestamp(self.now_s(), tz=UTC)
        if isinstance(facts, KafkaProblem):
            reason, verdict, message = CONNECTION_REASONS[facts.kind], ConditionStatus.FALSE, facts.message
            is_kept = connection.is_about_these_brokers(before)
            cluster_id, brokers = (before.cluster_id, before.brokers) if is_kept else (None, None)
        else:
            reason, verdict, message = Reason.BROKERS_REACHABLE, ConditionStatus.TRUE, _answering(facts)
            cluster_id, brokers = _readable(facts.cluster_id), len(facts.brokers)
        found = [(kind, verdict, reason, message) for kind in (ConditionType.READY, ConditionType.CONNECTED)]
        conditions = with_conditions(
            before.conditions, found, observed_generation=generation, now=now, docs_url=self.docs_url
        )
        return KafkaConnectionStatus(
            observed_generation=generation,
            conditions=list(conditions),
            cluster_id=cluster_id,
            brokers=brokers,
        )


def _readable(reported: str | None) -> str | None:
    """Return the cluster id for the status; None where the brokers report none, or one that no spec could expect."""
    return reported if reported and is_cluster_id(reported) else None


def _answering(facts: ClusterFacts) -> str:
    """Say how many brokers answer, and of which cluster (Azure Event Hubs reports no id)."""
    if cluster_id := _readable(facts.cluster_id):
        return f"{len(facts.brokers)} brokers of cluster {cluster_id} answer."
    what = "a cluster id that cannot be shown" if facts.cluster_id else "no cluster id"
    return f"{len(facts.brokers)} brokers answer, which report {what}."
