"""What users and auditors are told: Events, audit lines and gauges, each once.

Every removal leaves one audit line and one Event with its evidence. Held removals and flipped conditions are told
when they appear, not every round.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..api import names
from ..api.reasons import ConditionStatus, Reason
from ..api.resources.conditions import Condition
from ..api.resources.staticgroup import StaticGroup
from ..api.resources.status import StaticGroupStatus
from ..core.evidence.chain import Incarnation
from ..core.evidence.continuity import Checkpoint, closed_by_words
from ..core.evidence.spans import BlindSpan, GapWord
from ..core.group import KafkaProblem, LeaveOutcome, ReleaseOutcome
from ..core.next_pods.group_config import GroupConfigWrite
from ..core.next_pods.shared_setting import SharedSetting
from ..core.outcomes import Executed
from ..core.plan import Plan, Removal
from ..core.releases import Release
from ..kube.event_poster import Involved
from ..kube.gateway import KubeGateway
from .memory.refusals import Refusal
from .metrics import Metrics
from .work_queue import Key

log = logging.getLogger(__name__)
audit = logging.getLogger("staticgroup.audit")

MESSAGE_MAX = 1000
CLOSED_SPANS_MAX = 100
"""Of one StaticGroup, that evidence of removals may name; the newest."""


@dataclass(slots=True)
class _Told:
    """What was told of one StaticGroup, and the closed spans that are still to be told."""

    held: frozenset[tuple[str, str]] = frozenset()
    confirmed: frozenset[str] = frozenset()
    ready: tuple[str, str] | None = None
    refused: str = ""
    config_refused: str = ""
    closed: list[tuple[BlindSpan, GapWord]] = field(default_factory=list)
    untold: list[tuple[BlindSpan, GapWord]] = field(default_factory=list)
    swept: list[BlindSpan] = field(default_factory=list)
    untold_swept: list[BlindSpan] = field(default_factory=list)


@dataclass(slots=True)
class Narrator:
    """Tell what happened; a failed Event is logged and never stops a round."""

    kube: KubeGateway
    metrics: Metrics
    _told: dict[Key, _Told] = field(default_factory=dict)

    def _of(self, group: StaticGroup) -> _Told:
        return self._told.setdefault((group.metadata.namespace, group.metadata.name), _Told())

    def outcomes(self, group: StaticGroup, executed: Executed, now_s: float) -> None:
        """Count and audit the coordinator's answer to each removal, with the evidence that allowed it."""
        key = (group.metadata.namespace, group.metadata.name)
        for removal, outcome in zip(executed.removals, executed.outcomes, strict=True):
            died_at_s = max((i.since_s for i in removal.chain.incarnations), default=now_s)
            self.metrics.leave_outcomes.labels(outcome.value).inc()
            _audit(
                group,
                "member removal",
                outcome=outcome.value,
                instance_id=removal.entry.instance_id,
                member_id=removal.entry.member_id,
                ordinal=removal.ordinal,
                attempt=removal.attempt,
                evidence=self._evidence(group, removal),
                seconds_after_certificate=round(now_s - died_at_s, 3),
            )
            if outcome is LeaveOutcome.REMOVED:
                self.metrics.removed.labels(*key).inc()
                self.metrics.certificate_to_leave_seconds.observe(max(0.0, now_s - died_at_s))

    async def removals(self, group: StaticGroup, executed: Executed) -> None:
        """Tell users of each removal that was acknowledged or refused."""
        for removal, outcome in zip(executed.removals, executed.outcomes, strict=True):
            if outcome is LeaveOutcome.REMOVED:
                await self._post(
                    group,
                    "Normal",
                    "MemberRemoved",
                    f"removed {removal.entry.instance_id} from group {group.spec.group_id}: {self._evidence(group, removal)}",
                )
            elif outcome is LeaveOutcome.NOT_AUTHORIZED:
                await self._post(
                    group,
                    "Warning",
                    "RemovalRefused",
                    f"LeaveGroup for {removal.entry.instance_id} was refused: READ on Group '{group.spec.group_id}' is missing",
                )

    def released(self, group: StaticGroup, release: Release, outcome: ReleaseOutcome, now_s: float) -> None:
        """Count and audit the coordinator's answer to a temporary leave, with the evidence that allowed it."""
        ended_at_s = max(end.received_at_s for end in release.ends)
        self.metrics.release_outcomes.labels(outcome.value).inc()
        _audit(
            group,
            "member release",
            outcome=outcome.value,
            instance_id=release.entry.instance_id,
            member_id=release.entry.member_id,
            ordinal=release.ordinal,
            evidence=release.evidence,
            seconds_after_end=round(now_s - ended_at_s, 3),
        )
        if outcome is ReleaseOutcome.RELEASED:
            self.metrics.released.labels(group.metadata.namespace, group.metadata.name).inc()
            self.metrics.end_to_release_seconds.observe(max(0.0, now_s - ended_at_s))

    async def release(self, group: StaticGroup, release: Release, outcome: ReleaseOutcome) -> None:
        """Tell users of a release that was acknowledged or refused."""
        i, group_id = release.entry.instance_id, group.spec.group_id
        if outcome is ReleaseOutcome.RELEASED:
            message = f"let the crashed member of {i} leave group {group_id} for a while: {release.evidence}"
            await self._post(group, "Normal", "MemberReleased", message)
        elif outcome is ReleaseOutcome.NOT_AUTHORIZED:
            message = f"{release.by.value} for {i} was refused: READ on Group '{group_id}' is missing"
            await self._post(group, "Warning", "ReleaseRefused", message)

    def group_config(self, group: StaticGroup, write: GroupConfigWrite, problem: KafkaProblem | None) -> None:
        """Audit a change of the group's settings, with the brokers' answer."""
        _audit(
            group,
            "group config change",
            outcome="Set" if problem is None else problem.kind.value,
            values=dict(write.values),
            before_ms=write.before_ms,
        )

    async def group_config_refused(self, group: StaticGroup, problem: KafkaProblem | None) -> None:
        """Tell users that the group's session timeout could not be set, once for each cause."""
        told = self._of(group)
        before, told.config_refused = told.config_refused, problem.kind.value if problem is not None else ""
        if problem is not None and before != told.config_refused:
            await self._post(group, "Warning", "GroupConfigRefused", problem.message)

    async def group_config_changed(self, group: StaticGroup, decided: Plan, before: SharedSetting | None) -> None:
        """Tell users that somebody else has set the group's session timeout, once for each time."""
        found, timeout = decided.history.shared_setting, decided.timeout
        if found is None or timeout is None or found.changes <= (before.changes if before is not None else 0):
            return
        kind = "Normal" if found.found_ms is not None else "Warning"
        await self._post(group, kind, "GroupConfigChanged", f"group {group.spec.group_id}: {timeout.note}")

    async def held(self, group: StaticGroup, decided: Plan) -> None:
        """Tell a held removal when its guard is new for that id."""
        lasting = (h for h in decided.held if h.requeue_after_s is None)
        now_held = {(h.subject.instance_id or "", h.reason): h.text for h in lasting}
        told = self._of(group)
        before, told.held = told.held, frozenset(now_held)
        for (instance_id, guard), message in sorted(now_held.items()):
            if (instance_id, guard) not in before:
                await self._post(
                    group,
                    "Warning",
                    "RemovalHeld",
                    f"{instance_id} stays in group {group.spec.group_id} ({guard}): {message}",
                )

    async def confirmations(
        self, group: StaticGroup, known: Iterable[Incarnation], before: StaticGroupStatus | None
    ) -> None:
        """Audit and tell each suspicion that a person's word, or what became of a node, has closed, once.

        Parameters
        ----------
        known: every incarnation of the workload. before: the status of before this round, which tells what an earlier
            process has told.
        """
        closed = {i.uid: i for i in known if i.certificate is not None and i.certificate.is_of_gone}
        ledger = before.ledger.incarnations if before is not None and before.ledger is not None else ()
        told = self._of(group)
        before_told, told.confirmed = told.confirmed, frozenset(closed)
        for uid in sorted(closed.keys() - before_told - {e.uid for e in ledger if e.confirmed_by is not None or e.node_certificate is not None}):
            incarnation = closed[uid]
            certificate = incarnation.certificate
            assert certificate is not None
            pod, node = incarnation.pod_name, incarnation.node_name
            if certificate.is_word:
                said_by = certificate.said_by
                _audit(group, "suspect confirmed", pod=pod, uid=uid, node=node, confirmed_by=said_by, evidence=certificate.statement)
            else:
                kind = certificate.kind.value
                _audit(group, "suspect closed by its node", pod=pod, uid=uid, node=node, certificate=kind, evidence=certificate.statement)
            await self._post(
                group,
                "Normal",
                "SuspectConfirmed" if certificate.is_word else "SuspectClosedByNode",
                f"pod {pod} uid {uid} on node {node or 'unknown'} counts as ended ({certificate.kind.value}): {certificate.statement}",
            )

    def spans_closed(
        self, group: StaticGroup, before: Checkpoint | None, after: Checkpoint | None, words: Iterable[GapWord]
    ) -> None:
        """Audit each blind span that a person's word has closed, before a removal can rest on that; `gaps` tells users.

        Parameters
        ----------
        before, after: what was remembered of the seats' histories before this round, and is now.
        """
        told = self._of(group)
        for span, word in closed_by_words(before, after, words):
            told.closed = [*told.closed, (span, word)][-CLOSED_SPANS_MAX:]
            told.untold.append((span, word))
            _audit(
                group,
                "gap confirmed",
                ordinals=span.ordinals.text,
                span=span.words,
                confirmed_by=word.said_by,
                evidence=word.statement,
            )

    def spans_swept(self, group: StaticGroup, spans: Iterable[BlindSpan]) -> None:
        """Audit each blind span that a sweep of the nodes has closed, before a removal can rest on that; `gaps` tells users."""
        told = self._of(group)
        for span in spans:
            told.swept = [*told.swept, span][-CLOSED_SPANS_MAX:]
            told.untold_swept.append(span)
            _audit(group, "gap swept", ordinals=span.ordinals.text, span=span.words)

    async def gaps(self, group: StaticGroup) -> None:
        """Tell users of each blind span that a word or a sweep has closed, once."""
        told = self._of(group)
        swept, told.untold_swept = told.untold_swept, []
        for span in swept:
            await self._post(
                group,
                "Normal",
                "GapSwept",
                f"no pod of ordinals {span.ordinals.words} that nobody saw from {span.words} runs on any node that can have run one",
            )
        untold, told.untold = told.untold, []
        for span, word in untold:
            await self._post(
                group,
                "Normal",
                "GapConfirmed",
                f"what ran unseen of ordinals {span.ordinals.words} from {span.words} has ended, "
                f"confirmed by {word.said_by}: {word.statement}",
            )

    async def conditions(self, group: StaticGroup, before: StaticGroupStatus | None, after: StaticGroupStatus) -> None:
        """Tell Ready when its status or reason changed, once; a state that is not known yet is no news.

        Parameters
        ----------
        before: as it was written last. What cannot be written is told all the same, so what was told is remembered too.
        """
        old, new = _ready(before) if before else None, _ready(after)
        if new is None:
            return
        told = self._of(group)
        before_told, told.ready = told.ready, (new.status.value, new.reason)
        if before_told == told.ready or (old is not None and (old.status, old.reason) == (new.status, new.reason)):
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
        told = self._of(group)
        before, told.refused = told.refused, refusal.problem.kind.value if refusal is not None else ""
        if refusal is not None and before != told.refused:
            await self._post(group, "Warning", "StatusRefused", refusal.text)

    def gauges(self, group: StaticGroup, decided: Plan, status: StaticGroupStatus) -> None:
        """Set the gauges of one StaticGroup."""
        key = (group.metadata.namespace, group.metadata.name)
        if status.members is not None:
            self.metrics.members.show(key, {(kind,): count for kind, count in status.members.model_dump(by_alias=False).items()})
        ready = _ready(status)
        self.metrics.ready.show(key, {(): 1 if ready is not None and ready.status.value == "True" else 0})
        self.metrics.held.show(key, {(guard,): count for guard, count in Counter(h.reason for h in decided.held).items()})
        self.metrics.blind.show(key, {(): _blind_seats(decided)})
        self._condition_gauges(key, status)

    def suspended(self, group: StaticGroup, status: StaticGroupStatus) -> None:
        """Take the gauges of a suspended StaticGroup away, whose figures nobody reads any more, but for its conditions."""
        key = (group.metadata.namespace, group.metadata.name)
        for gauge in (self.metrics.members, self.metrics.held, self.metrics.blind):
            gauge.show(key, {})
        self.metrics.ready.show(key, {(): 0})
        self._condition_gauges(key, status)

    def _condition_gauges(self, key: Key, status: StaticGroupStatus) -> None:
        self.metrics.condition.show(key, {(c.type, c.status.value, c.reason): 1 for c in status.conditions})

    def forget(self, key: Key) -> None:
        """Drop what was told about a StaticGroup that is gone."""
        self._told.pop(key, None)

    def _evidence(self, group: StaticGroup, removal: Removal) -> str:
        """Write the chain's certificates, and the words about gaps that this process has heard, as one line."""
        parts = [
            f"pod {i.pod_name} uid {i.uid} {i.certificate.kind.value} ({i.certificate.statement})"
            for i in removal.chain.incarnations
            if i.certificate is not None
        ]
        parts += [
            f"unseen {span.words}, confirmed by {word.said_by}: {word.statement}"
            for span, word in self._of(group).closed
            if removal.ordinal in span.ordinals
        ]
        parts += [f"unseen {s.words}, every node swept" for s in self._of(group).swept if removal.ordinal in s.ordinals]
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


def _blind_seats(decided: Plan) -> int:
    """Count the seats of which a pod may have come and gone unseen; none are told before ids were issued."""
    checkpoint, table = decided.history.continuity, decided.table
    if checkpoint is None or table is None or not checkpoint.blind:
        return 0
    return sum(
        not checkpoint.is_unbroken(seat.ordinal) for seat in (*table.wanted, *table.departed) if seat.ordinal >= 0
    )


def _ready(status: StaticGroupStatus) -> Condition | None:
    return next((c for c in status.conditions if c.type == "Ready"), None)


def _audit(group: StaticGroup, what: str, **fields: object) -> None:
    whose = {"namespace": group.metadata.namespace, "staticgroup": group.metadata.name, "group_id": group.spec.group_id}
    audit.info(what, extra=whose | fields)
