"""What users and auditors are told: Events, audit lines and gauges, each once.

Every removal leaves one audit line and one Event with its evidence. Held removals and flipped conditions are told
when they appear, not every round.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field

from ..api import names
from ..api.reasons import ConditionStatus, Reason
from ..api.resources.conditions import Condition
from ..api.resources.staticgroup import StaticGroup
from ..api.resources.status import StaticGroupStatus
from ..core.group import KafkaProblem, LeaveOutcome, ReleaseOutcome
from ..core.outcomes import Executed
from ..core.plan import Plan
from ..core.releases import Release
from ..core.timeouts.group_config import GroupConfigWrite
from ..kube.event_poster import Involved
from ..kube.gateway import KubeGateway
from .memory.refusals import Refusal
from .metrics import Metrics
from .work_queue import Key

log = logging.getLogger(__name__)
audit = logging.getLogger("staticgroup.audit")

MESSAGE_MAX = 1000


@dataclass(slots=True)
class _Told:
    """What was told of one StaticGroup."""

    held: frozenset[tuple[str, str]] = frozenset()
    ready: tuple[str, str] | None = None
    refused: str = ""
    config_refused: str = ""


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
            ended_at_s = max((pod.since_s for pod in removal.ended), default=now_s)
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
        """Tell users of each removal that was acknowledged or refused."""
        for removal, outcome in zip(executed.removals, executed.outcomes, strict=True):
            if outcome is LeaveOutcome.REMOVED:
                await self._post(
                    group,
                    "Normal",
                    "MemberRemoved",
                    f"removed {removal.entry.instance_id} from group {group.spec.group_id}: {removal.evidence}",
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
        self.metrics.suspects.show(key, {(): len(decided.history.members.suspects)})
        self._condition_gauges(key, status)

    def suspended(self, group: StaticGroup, status: StaticGroupStatus) -> None:
        """Take the gauges of a suspended StaticGroup away, whose figures nobody reads any more, but for its conditions."""
        key = (group.metadata.namespace, group.metadata.name)
        for gauge in (self.metrics.members, self.metrics.held, self.metrics.suspects):
            gauge.show(key, {})
        self.metrics.ready.show(key, {(): 0})
        self._condition_gauges(key, status)

    def _condition_gauges(self, key: Key, status: StaticGroupStatus) -> None:
        self.metrics.condition.show(key, {(c.type, c.status.value, c.reason): 1 for c in status.conditions})

    def forget(self, key: Key) -> None:
        """Drop what was told about a StaticGroup that is gone."""
        self._told.pop(key, None)

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


def _audit(group: StaticGroup, what: str, **fields: object) -> None:
    whose = {"namespace": group.metadata.namespace, "staticgroup": group.metadata.name, "group_id": group.spec.group_id}
    audit.info(what, extra=whose | fields)
