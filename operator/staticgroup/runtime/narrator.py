"""What users and auditors are told: Events, audit lines and gauges, each once.

Every removal leaves one audit line and one Event with its evidence. Held removals and flipped conditions are told
when they appear, not every round.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..api import names
from ..api.reasons import ConditionStatus, Reason
from ..api.staticgroup import StaticGroup
from ..api.status import StaticGroupStatus
from ..core.chain import Incarnation
from ..core.continuity import BlindSpan, Checkpoint, GapWord, closed_by_words
from ..core.group import LeaveOutcome
from ..core.outcomes import Executed
from ..core.plan import Plan, Removal
from ..kube.event_poster import Involved
from ..kube.gateway import KubeGateway
from .metrics import Metrics
from .refusals import Refusal
from .work_queue import Key

log = logging.getLogger(__name__)
audit = logging.getLogger("staticgroup.audit")

MESSAGE_MAX = 1000
CLOSED_SPANS_MAX = 100
"""Of one StaticGroup, that evidence of removals may name; the newest."""


@dataclass(slots=True)
class Narrator:
    """Tell what happened; a failed Event is logged and never stops a round."""

    kube: KubeGateway
    metrics: Metrics
    _told: dict[Key, frozenset[tuple[str, str]]] = field(default_factory=dict)
    _confirmed: dict[Key, frozenset[str]] = field(default_factory=dict)
    _ready: dict[Key, tuple[str, str]] = field(default_factory=dict)
    _refused: dict[Key, str] = field(default_factory=dict)
    _closed: dict[Key, list[tuple[BlindSpan, GapWord]]] = field(default_factory=dict)
    _untold: dict[Key, list[tuple[BlindSpan, GapWord]]] = field(default_factory=dict)

    def outcomes(self, group: StaticGroup, executed: Executed, now_s: float) -> None:
        """Count and audit the coordinator's answer to each removal, with the evidence that allowed it."""
        key = (group.metadata.namespace, group.metadata.name)
        for removal, outcome in zip(executed.removals, executed.outcomes, strict=True):
            died_at_s = max((i.since_s for i in removal.chain.incarnations), default=now_s)
            self.metrics.leave_outcomes.labels(outcome.value).inc()
            audit.info(
                "member removal",
                extra={
                    "namespace": key[0],
                    "staticgroup": key[1],
                    "group_id": group.spec.group_id,
                    "outcome": outcome.value,
                    "instance_id": removal.entry.instance_id,
                    "member_id": removal.entry.member_id,
                    "ordinal": removal.ordinal,
                    "attempt": removal.attempt,
                    "evidence": self._evidence(key, removal),
                    "seconds_after_certificate": round(now_s - died_at_s, 3),
                },
            )
            if outcome is LeaveOutcome.REMOVED:
                self.metrics.removed.labels(*key).inc()
                self.metrics.certificate_to_leave_seconds.observe(max(0.0, now_s - died_at_s))

    async def removals(self, group: StaticGroup, executed: Executed) -> None:
        """Tell users of each removal that was acknowledged or refused."""
        key = (group.metadata.namespace, group.metadata.name)
        for removal, outcome in zip(executed.removals, executed.outcomes, strict=True):
            if outcome is LeaveOutcome.REMOVED:
                await self._post(
                    group,
                    "Normal",
                    "MemberRemoved",
                    f"removed {removal.entry.instance_id} from group {group.spec.group_id}: {self._evidence(key, removal)}",
                )
            elif outcome is LeaveOutcome.NOT_AUTHORIZED:
                await self._post(
                    group,
                    "Warning",
                    "RemovalRefused",
                    f"LeaveGroup for {removal.entry.instance_id} was refused: READ on Group '{group.spec.group_id}' is missing",
                )

    async def held(self, group: StaticGroup, decided: Plan) -> None:
        """Tell a held removal when its guard is new for that id."""
        key = (group.metadata.namespace, group.metadata.name)
        lasting = (h for h in decided.held if h.requeue_after_s is None)
        now_held = {(h.subject.instance_id or "", h.reason): h.text for h in lasting}
        before = self._told.get(key, frozenset())
        for (instance_id, guard), message in sorted(now_held.items()):
            if (instance_id, guard) not in before:
                await self._post(
                    group,
                    "Warning",
                    "RemovalHeld",
                    f"{instance_id} stays in group {group.spec.group_id} ({guard}): {message}",
                )
        self._told[key] = frozenset(now_held)

    async def confirmations(
        self, group: StaticGroup, known: Iterable[Incarnation], before: StaticGroupStatus | None
    ) -> None:
        """Audit and tell each suspicion that a person's word has closed, once.

        Parameters
        ----------
        known: every incarnation of the workload. before: the status of before this round, which tells what an earlier
            process has told.
        """
        key = (group.metadata.namespace, group.metadata.name)
        closed = {i.uid: i for i in known if i.certificate is not None and i.certificate.is_word}
        ledger = before.ledger.incarnations if before is not None and before.ledger is not None else ()
        told = self._confirmed.get(key, frozenset()) | {e.uid for e in ledger if e.confirmed_by is not None}
        self._confirmed[key] = frozenset(closed)
        for uid in sorted(closed.keys() - told):
            incarnation = closed[uid]
            certificate = incarnation.certificate
            assert certificate is not None
            audit.info(
                "suspect confirmed",
                extra={
                    "namespace": key[0],
                    "staticgroup": key[1],
                    "group_id": group.spec.group_id,
                    "pod": incarnation.pod_name,
                    "uid": uid,
                    "node": incarnation.node_name,
                    "confirmed_by": certificate.said_by,
                    "evidence": certificate.statement,
                },
            )
            where = f"pod {incarnation.pod_name} uid {uid} on node {incarnation.node_name or 'unknown'}"
            await self._post(
                group, "Normal", "SuspectConfirmed", f"{where} counts as ended (E2): {certificate.statement}"
            )

    def spans_closed(
        self, group: StaticGroup, before: Checkpoint | None, after: Checkpoint | None, words: Iterable[GapWord]
    ) -> None:
        """Audit each blind span that a person's word has closed, before a removal can rest on that; `gaps` tells users.

        Parameters
        ----------
        before, after: what was remembered of the seats' histories before this round, and is now.
        """
        key = (group.metadata.namespace, group.metadata.name)
        for span, word in closed_by_words(before, after, words):
            self._closed[key] = [*self._closed.get(key, ()), (span, word)][-CLOSED_SPANS_MAX:]
            self._untold.setdefault(key, []).append((span, word))
            audit.info(
                "gap confirmed",
                extra={
                    "namespace": key[0],
                    "staticgroup": key[1],
                    "group_id": group.spec.group_id,
                    "ordinals": span.ordinals.text,
                    "span": span.words,
                    "confirmed_by": word.said_by,
                    "evidence": word.statement,
                },
            )

    async def gaps(self, group: StaticGroup) -> None:
        """Tell users of each blind span that a word has closed, once."""
        for span, word in self._untold.pop((group.metadata.namespace, group.metadata.name), ()):
            await self._post(
                group,
                "Normal",
                "GapConfirmed",
                f"ordinals {span.ordinals.words} are seen without a gap again: what ran unseen from {span.words} has ended, "
                f"confirmed by {word.said_by}: {word.statement}",
            )

    async def conditions(self, group: StaticGroup, before: StaticGroupStatus | None, after: StaticGroupStatus) -> None:
        """Tell Ready when its status or reason changed, once; a state that is not known yet is no news.

        Parameters
        ----------
        before: as it was written last. What cannot be written is told all the same, so what was told is remembered too.
        """
        key = (group.metadata.namespace, group.metadata.name)
        old = next((c for c in before.conditions if c.type == "Ready"), None) if before else None
        new = next((c for c in after.conditions if c.type == "Ready"), None)
        if new is None:
            return
        told, self._ready[key] = self._ready.get(key), (new.status.value, new.reason)
        if told == self._ready[key] or (old is not None and (old.status, old.reason) == (new.status, new.reason)):
            return
        if new.status is ConditionStatus.UNKNOWN or (old is None and new.status is ConditionStatus.TRUE):
            return
        is_bad = new.status is ConditionStatus.FALSE and new.reason != Reason.SUSPENDED
        await self._post(group, "Warning" if is_bad else "Normal", new.reason, new.message)

    async def status(self, group: StaticGroup, refusal: Refusal | None) -> None:
        """Tell that the status cannot be written, once for each cause.

        Parameters
        ----------
        refusal: of the last write; None when there is none, after which the same cause would be news again.
        """
        key = (group.metadata.namespace, group.metadata.name)
        if refusal is None:
            self._refused.pop(key, None)
            return
        told, self._refused[key] = self._refused.get(key), refusal.problem.kind.value
        if told != refusal.problem.kind.value:
            await self._post(group, "Warning", "StatusRefused", refusal.text)

    def gauges(self, group: StaticGroup, decided: Plan, status: StaticGroupStatus) -> None:
        """Set the gauges of one StaticGroup."""
        key = (group.metadata.namespace, group.metadata.name)
        if status.members is not None:
            for kind, value in status.members.model_dump(by_alias=False).items():
                self.metrics.members.labels(*key, kind).set(value)
        ready = next((c for c in status.conditions if c.type == "Ready"), None)
        self.metrics.ready.labels(*key).set(1 if ready is not None and ready.status.value == "True" else 0)
        held: dict[str, int] = {}
        for h in decided.held:
            held[h.reason] = held.get(h.reason, 0) + 1
        self.metrics.held.remove_by_labels({"namespace": key[0], "staticgroup": key[1]})
        for guard, count in held.items():
            self.metrics.held.labels(*key, guard).set(count)

    def forget(self, key: Key) -> None:
        """Drop what was told about a StaticGroup that is gone."""
        self._told.pop(key, None)
        self._confirmed.pop(key, None)
        self._ready.pop(key, None)
        self._refused.pop(key, None)
        self._closed.pop(key, None)
        self._untold.pop(key, None)

    def _evidence(self, key: Key, removal: Removal) -> str:
        """Write the chain's certificates, and the words about gaps that this process has heard, as one line."""
        parts = [
            f"pod {i.pod_name} uid {i.uid} {i.certificate.kind.value} ({i.certificate.statement})"
            for i in removal.chain.incarnations
            if i.certificate is not None
        ]
        parts += [
            f"unseen {span.words}, confirmed by {word.said_by}: {word.statement}"
            for span, word in self._closed.get(key, ())
            if removal.ordinal in span.ordinals
        ]
        return "; ".join(parts)

    async def _post(self, group: StaticGroup, event_type: str, reason: str, message: str) -> None:
        reference = Involved(
            api_version=names.API_VERSION,
            kind=names.STATIC_GROUP_KIND,
            namespace=group.metadata.namespace,
            name=group.metadata.name,
            uid=group.metadata.uid,
        )
        problem = await self.kube.post_event(
            reference, type_=event_type, reason=reason, message=message[:MESSAGE_MAX], action=reason
        )
        if problem is not None:
            log.warning(
                "Event not posted",
                extra={"staticgroup": group.metadata.name, "reason": reason, "problem": problem.message},
            )
