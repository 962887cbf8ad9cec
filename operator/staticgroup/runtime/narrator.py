"""Post Events, write audit lines and set gauges; what lasts is posted when it appears, not every round."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..api import names
from ..api.reasons import ConditionStatus, Reason
from ..api.resources.staticgroup import StaticGroup
from ..api.resources.status import StaticGroupStatus
from ..api.schema import Condition
from ..core.consuming import Rebalance
from ..core.group import KafkaProblem, LeaveOutcome, RebalanceOutcome, ReleaseOutcome
from ..core.outcomes import Executed
from ..core.plan import Plan
from ..core.releases import Release
from ..core.slots.deployment import SlotNote
from ..core.slots.hand_out import Step
from ..core.timeouts.group_config import GroupConfigWrite
from ..kube.event_poster import Involved
from ..kube.gateway import KubeGateway
from ..kube.problem import KubeProblem, KubeProblemKind
from .memory.pace import StatusRefusal
from .process.metrics import Metrics
from .work_queue import Key

log = logging.getLogger(__name__)
audit = logging.getLogger("staticgroup.audit")

MESSAGE_MAX = 1000


@dataclass(slots=True)
class _Posted:
    """What was posted last of one StaticGroup, so that it is posted once."""

    held: frozenset[tuple[str, str]] = frozenset()
    ready: tuple[str, str] | None = None
    causes: dict[str, object] = field(default_factory=dict)
    """Of the warnings that hold on, by their reason."""


@dataclass(slots=True)
class Narrator:
    """Report what happened; a failed Event is logged and never stops a round."""

    kube: KubeGateway
    metrics: Metrics
    _posted: dict[Key, _Posted] = field(default_factory=dict)

    def _of(self, group: StaticGroup) -> _Posted:
        return self._posted.setdefault((group.metadata.namespace, group.metadata.name), _Posted())

    def outcomes(self, group: StaticGroup, executed: Executed, now_s: float) -> None:
        """Count and audit the coordinator's answer to each removal, with the evidence that allowed it."""
        key = (group.metadata.namespace, group.metadata.name)
        for removal, outcome in zip(executed.removals, executed.outcomes, strict=True):
            ended_at_s = max((p.since_s for p in removal.ended if p.certificate), default=now_s)
            self.metrics.leave_outcomes.labels(outcome.value).inc()
            _audit(
                group,
                "member removal",
                outcome=outcome.value,
                instance_id=removal.entry.instance_id,
                member_id=removal.entry.member_id,
                ordinal=removal.ordinal,
                attempt=removal.attempt,
                evidence=removal.evidence,
                seconds_after_certificate=round(now_s - ended_at_s, 3),
            )
            if outcome is LeaveOutcome.REMOVED:
                self.metrics.removed.labels(*key).inc()
                self.metrics.certificate_to_leave_seconds.observe(max(0.0, now_s - ended_at_s))

    async def removals(self, group: StaticGroup, executed: Executed) -> None:
        """Post an Event for each removal that was acknowledged or refused."""
        for removal, outcome in zip(executed.removals, executed.outcomes, strict=True):
            if outcome is LeaveOutcome.REMOVED:
                message = f"Removed {removal.entry.instance_id} from group {group.spec.group_id}: {removal.evidence}"
                await self._post(group, "Normal", "MemberRemoved", message)
            elif outcome is LeaveOutcome.NOT_AUTHORIZED:
                missing = f"READ on Group '{group.spec.group_id}' is missing"
                message = f"LeaveGroup for {removal.entry.instance_id} was refused: {missing}"
                await self._post(group, "Warning", "RemovalRefused", message)

    async def notes(
        self, group: StaticGroup, notes: Iterable[SlotNote], problems: Iterable[KubeProblem], now_s: float
    ) -> None:
        """Audit the notes that were written, log refusals, and post one Event for the pods that were given slots."""
        refused = {p.message for p in problems if p.kind in (KubeProblemKind.FORBIDDEN, KubeProblemKind.INVALID)}
        for message in sorted(refused):
            log.warning("slot note refused", extra={"staticgroup": group.metadata.name, "problem": message})
        given = []
        for note in notes:
            _audit(group, "slot note", pod=note.pod.pod_name, uid=note.pod.uid, note=note.text)
            shown = note.pod.slot_of(note.annotation.rpartition("-")[2])
            if note.step not in (Step.GIVE, Step.OWN) or shown is None or shown.given:
                continue
            outcome = "passed_on" if note.step is Step.GIVE else "own"
            self.metrics.slot_wait_seconds.labels(outcome).observe(max(0.0, now_s - shown.changed_s))
            whose = "of a pod that has ended" if note.step is Step.GIVE else "which nobody had before"
            given.append(f"{note.pod.pod_name} has slot {note.slot}, {whose}")
        if given:
            await self._post(group, "Normal", "SlotsGiven", "; ".join(given))

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
        """Post an Event for a release that was acknowledged or refused."""
        i, group_id = release.entry.instance_id, group.spec.group_id
        if outcome is ReleaseOutcome.RELEASED:
            message = f"Removed the crashed member of {i} from group {group_id} until it restarts: {release.evidence}"
            await self._post(group, "Normal", "MemberReleased", message)
        elif outcome is ReleaseOutcome.NOT_AUTHORIZED:
            message = f"{release.by.value} for {i} was refused: READ on Group '{group_id}' is missing"
            await self._post(group, "Warning", "ReleaseRefused", message)

    async def rebalanced(self, group: StaticGroup, action: Rebalance, outcome: RebalanceOutcome) -> None:
        """Audit a rebalance that the operator has begun, and post an Event for it."""
        topics = ", ".join(action.topics)
        self.metrics.rebalances.labels(outcome.value).inc()
        _audit(group, "rebalance", outcome=outcome.value, topics=topics)
        message = f"Rebalanced group {group.spec.group_id} once, because nobody read {topics}"
        if outcome is not RebalanceOutcome.BEGUN:
            is_lost = outcome is RebalanceOutcome.UNKNOWN
            answer = "the answer was lost" if is_lost else "the coordinator refused it, see its log"
            message = f"Asked group {group.spec.group_id} to rebalance, because nobody read {topics}; {answer}"
        await self._post(group, "Normal", "GroupRebalanced", message)

    async def group_config(self, group: StaticGroup, write: GroupConfigWrite, problem: KafkaProblem | None) -> None:
        """Audit a change of the group's settings with the brokers' answer."""
        _audit(
            group,
            "group config change",
            outcome="Set" if problem is None else problem.kind.value,
            values=dict(write.values),
            before_ms=write.before_ms,
        )

    async def round(
        self, group: StaticGroup, decided: Plan, before: StaticGroupStatus | None, after: StaticGroupStatus
    ) -> None:
        """Post what is new in a round, and set the gauges of its StaticGroup.

        Parameters
        ----------
        before: as it was last written. What cannot be written is posted all the same, so what was posted is remembered.
        """
        await self._held(group, decided)
        refused = decided.history.group_config.problem
        cause, message = (refused.kind, refused.message) if refused is not None else (None, "")
        await self._lasting(group, "GroupConfigRefused", cause, message)
        await self._unread(group, decided, after)
        await self._flipped(group, before, after)
        members = after.members.model_dump(by_alias=False) if after.members is not None else {}
        self.metrics.show(
            (group.metadata.namespace, group.metadata.name),
            members={(kind,): count for kind, count in members.items()},
            held={(guard,): count for guard, count in Counter(h.reason for h in decided.held).items()},
            suspects={(): len(decided.history.members.suspects)},
            slot_wait={} if decided.slots.longest_wait_s is None else {(): decided.slots.longest_wait_s},
            **_of_conditions(after),
        )

    def suspended(self, group: StaticGroup, status: StaticGroupStatus) -> None:
        """Leave a suspended StaticGroup, whose members nobody reads any more, only the gauges of its conditions."""
        self.metrics.show((group.metadata.namespace, group.metadata.name), **_of_conditions(status))

    async def _held(self, group: StaticGroup, decided: Plan) -> None:
        """Post a held removal when its guard is new for that id."""
        lasting = (h for h in decided.held if h.requeue_after_s is None)
        now_held = {(h.subject.instance_id or "", h.reason): h.text for h in lasting}
        posted = self._of(group)
        before, posted.held = posted.held, frozenset(now_held)
        for (instance_id, guard), message in sorted(now_held.items()):
            if (instance_id, guard) not in before:
                text = f"{instance_id} stays in group {group.spec.group_id} ({guard}): {message}"
                await self._post(group, "Warning", "RemovalHeld", text)

    async def _unread(self, group: StaticGroup, decided: Plan, after: StaticGroupStatus) -> None:
        """Post which topics nobody reads, once; not while Consuming says something else, such as a stuck rebalance."""
        said = next((c for c in after.conditions if c.reason == Reason.TOPICS_UNREAD), None)
        if decided.topics.unread is None:
            await self._lasting(group, "TopicsUnread", None, "")
        elif said is not None:
            await self._lasting(group, "TopicsUnread", decided.topics.unread.topics, said.message)

    async def _lasting(self, group: StaticGroup, reason: str, cause: object, message: str) -> None:
        """Post a warning once for each cause; after a time without any, the same cause is news again."""
        causes = self._of(group).causes
        before = causes.pop(reason, None)
        if cause:
            causes[reason] = cause
        if cause and cause != before:
            await self._post(group, "Warning", reason, message)

    async def _flipped(self, group: StaticGroup, before: StaticGroupStatus | None, after: StaticGroupStatus) -> None:
        """Post Ready when its status or reason changed, once; a state that is not known yet is not posted."""
        old, new = _ready(before) if before else None, _ready(after)
        if new is None:
            return
        posted = self._of(group)
        last, posted.ready = posted.ready, (new.status.value, new.reason)
        if last == posted.ready or (old is not None and (old.status, old.reason) == (new.status, new.reason)):
            return
        if new.status is ConditionStatus.UNKNOWN or (old is None and new.status is ConditionStatus.TRUE):
            return
        is_bad = new.status is ConditionStatus.FALSE and new.reason != Reason.SUSPENDED
        await self._post(group, "Warning" if is_bad else "Normal", new.reason, new.message)

    async def status(self, group: StaticGroup, refusal: StatusRefusal | None) -> None:
        """Post an Event when the status cannot be written, once for each cause."""
        cause, message = (refusal.problem.kind, refusal.text) if refusal is not None else (None, "")
        await self._lasting(group, "StatusRefused", cause, message)

    def forget(self, key: Key) -> None:
        """Drop what was posted of a StaticGroup that is gone."""
        self._posted.pop(key, None)

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


def _ready(status: StaticGroupStatus) -> Condition | None:
    return next((c for c in status.conditions if c.type == "Ready"), None)


def _of_conditions(status: StaticGroupStatus) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the series that show the conditions."""
    ready = _ready(status)
    value = float(ready is not None and ready.status is ConditionStatus.TRUE)
    return {"ready": {(): value}, "condition": {(c.type, c.status.value, c.reason): 1 for c in status.conditions}}


def _audit(group: StaticGroup, what: str, **fields: object) -> None:
    whose = {"namespace": group.metadata.namespace, "staticgroup": group.metadata.name, "group_id": group.spec.group_id}
    audit.info(what, extra=whose | fields)
