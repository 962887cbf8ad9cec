"""Passes what happens in a world to its oracles, in the moment in which it happens."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator_model.consumer.group import ConsumerGroup

from ..clients.processes import ContainerProcess, ProcessTable
from ..engine.loop import SimulationLoop
from ..engine.trace import Trace
from ..kafka.cluster import ModelKafkaCluster
from ..kafka.requests import AppliedLeave
from ..kubernetes.cluster import Kubernetes
from ..kubernetes.objects import STATIC_GROUPS
from ..kubernetes.watch_log import Event
from ..operators.gateway import WireLeave, WireRelease
from ..operators.process import RunningOperator
from ..oracles.assumptions import SAMPLED_EVERY_S
from ..oracles.ground_truth import GroundTruth
from ..oracles.pod_life import ids_in
from ..oracles.promises import Breach, Effect, Leave, Safety, SentRelease, StatusHistory, Violation
from ..oracles.slots import SlotPromises, Waiting
from .settings import WorldSettings
from .teams import GROUP, NAMESPACE


class OracleFeed:
    """The part of a world that calls its oracles; `World` makes the members.

    Attributes
    ----------
    violations: what the oracles found. breaches: live members that were removed because their pods had broken an
        assumption.
    addressed: members that were described with the addresses of their own pods.
    watches: names of the pod watches that operators have had.
    """

    settings: WorldSettings
    loop: SimulationLoop
    trace: Trace
    kafka: ModelKafkaCluster
    processes: ProcessTable
    truth: GroundTruth
    safety: Safety
    slots: SlotPromises
    kubernetes: Kubernetes
    statuses: StatusHistory
    operators: list[RunningOperator]
    violations: list[Violation]
    breaches: list[Breach]
    coordinator_epoch: int
    addressed: set[str]
    watches: set[str]

    def _sent(self, running: RunningOperator, sent: WireLeave) -> None:
        ids = tuple(i for _, i in sent.members)
        self._trace(running.name, "sends LeaveGroup", group=sent.group_id, ids=ids)
        leave = Leave(at_s=self.loop.time(), operator=running.name, group_id=sent.group_id, members=sent.members)
        self.safety.leave_sent(leave)

    def _sent_release(self, running: RunningOperator, sent: WireRelease) -> None:
        self._trace(running.name, "sends a temporary leave", group=sent.group_id, id=sent.instance_id)
        self.safety.release_sent(
            SentRelease(
                at_s=self.loop.time(),
                operator=running.name,
                group_id=sent.group_id,
                member_id=sent.member_id,
                instance_id=sent.instance_id,
                member_epoch=sent.member_epoch,
            )
        )

    def _applied(self, applied: AppliedLeave) -> None:
        if self._is_operators(applied):
            self.safety.leave_applied(self._effect(applied))

    def _released(self, applied: AppliedLeave) -> None:
        if self._is_operators(applied):
            self._trace(
                applied.client, "temporary leave applied", id=applied.instance_id, result=applied.error_code.name
            )
            self.safety.release_applied(self._effect(applied))

    def _is_operators(self, applied: AppliedLeave) -> bool:
        return any(o.gateway.link.name == applied.client for o in self.operators)

    def _effect(self, applied: AppliedLeave) -> Effect:
        return Effect(
            at_s=applied.at_s,
            operator=applied.client,
            group_id=applied.group_id,
            member_id=applied.member_id,
            instance_id=applied.instance_id,
            error_code=applied.error_code,
            coordinator_epoch=self.coordinator_epoch,
        )

    def _observe(self, resource: str, event: Event) -> None:
        if resource == STATIC_GROUPS and event.current is not None:
            self.statuses.written(event.at_s, event.current)

    def _started(self, process: ContainerProcess) -> None:
        """Judge the id that a process was given from the file of its pod's slot: it is nobody else's."""
        own = self.truth.pods.get(process.pod_uid)
        if own is None:
            return
        for given in sorted(ids_in(process.environment) & own.had.keys()):
            others = {p.pod_uid for p in self.processes.running() if given in ids_in(p.environment)} - {own.uid}
            known = [own, *(self.truth.pods[uid] for uid in others if uid in self.truth.pods)]
            if min(pod.created_s for pod in known) > self.truth.restored_s:
                self.slots.started(self.loop.time(), given, own.uid, others)

    def _sample_waiters(self) -> None:
        """Judge how long pods wait for a slot on machines that work."""
        waits: dict[str, Waiting] = {}
        for machine in self.kubernetes.machines:
            for (uid, _), wait in machine.waiters.running.items() if machine.is_working else ():
                pod = self.truth.pods[uid]
                waits[uid] = Waiting(deployment=(pod.namespace, pod.deployment), since_s=wait.since_s)
        self.slots.sampled(self.loop.time(), waits)

    def _sample_members(self) -> None:
        """Note which members hold the seats of the group, and since when operators watch pods."""
        if self.loop.is_closing:
            return
        self.loop.world_call_later(SAMPLED_EVERY_S, self._sample_members)
        self._sample_waiters()
        now_s, assumptions = self.loop.time(), self.truth.assumptions
        if self.kafka.locate(GROUP) is None:
            assumptions.paused(now_s)
        else:
            creators = (self.processes.creator(m) for m in self.members().values())
            assumptions.looked(now_s, (c.pod_uid for c in creators if c is not None))
            self._note_addresses()
        for running in self.operators:
            name = running.operator.pods.watch(NAMESPACE) if running.is_alive else ""
            if name and name not in self.watches:
                self.watches.add(name)
                assumptions.watch_began(now_s)

    def members(self) -> dict[str, str]:
        """Return instance id → member id of the group's static members, by the coordinator's truth."""
        group = self.kafka.coordinator(GROUP).groups.get(GROUP)
        found: dict[str, str] = {}
        if group is not None:
            for member_id, member in getattr(group, "members", {}).items():
                instance_id = getattr(member, "group_instance_id", None) or getattr(member, "instance_id", None)
                if instance_id:
                    found[instance_id] = member_id
        return found

    def _shows_address(self, member_id: str) -> bool:
        """True for a member that was described with the address of its own pod."""
        return member_id in self.addressed

    def _note_addresses(self) -> None:
        group = self.kafka.coordinator(GROUP).groups.get(GROUP)
        if isinstance(group, ConsumerGroup) and self.settings.address_of == "pod":
            self.addressed |= {member_id for member_id, m in group.members.items() if not m.uses_classic_protocol}

    def _breached(self, breach: Breach) -> None:
        self.breaches.append(breach)
        self._trace("oracle", "live member removed", inside=breach.assumption.value, message=breach.message)

    def _violated(self, violation: Violation) -> None:
        self.violations.append(violation)
        self._trace("oracle", "VIOLATION", oracle=violation.oracle, message=violation.message)

    def _stopped_since_s(self, operator: str, group_id: str) -> float | None:
        """Return since when an operator may write nothing to a group, by any of its StaticGroups."""
        running = next((o for o in reversed(self.operators) if o.name == operator), None)
        return _since_s(running.stop_since_s, group_id) if running is not None else None

    def _reporting_since_s(self, operator: str, group_id: str) -> float | None:
        """Return since when an operator may release no member of a group, by any of its StaticGroups."""
        running = next((o for o in reversed(self.operators) if o.name == operator), None)
        return _since_s(running.report_since_s, group_id) if running is not None else None

    def _trace(self, who: str, what: str, **facts: object) -> None:
        self.trace.add(self.loop.time(), who, what, **facts)


def _since_s(since_s_of: Mapping[tuple[str, str, str], float | None], group_id: str) -> float | None:
    """Return since when every StaticGroup of a group has required it; None: one does not."""
    times_s = [s for key, s in since_s_of.items() if key[0] == group_id]
    since = [s for s in times_s if s is not None]
    return max(since) if since and len(since) == len(times_s) else None
