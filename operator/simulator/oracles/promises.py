"""What must hold in every state, whatever goes wrong: the oracles of the simulation.

They read the ground truth (process table, coordinator, API server), which the operator side never sees, and at every
LeaveGroup on its way. Safety is asked at the moment in which something happens, liveness after all faults have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from coordinator_model.base.errors import ErrorCode

from .assumptions import Assumption

ROUND_MAX_S = 30.0
"""What was so all this time before a leave was already so when its round read it."""
RELEASE_EPOCH = -2
"""Member epoch of a static member's temporary leave (KIP-848)."""
LEASE_SLACK_S = 20.0
"""A leave may wait so long for a connection after the Lease was asked."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise.

    Parameters
    ----------
    oracle: S1-S15 or L1-L6.
    """

    oracle: str
    at_s: float
    message: str

    def __str__(self) -> str:
        return f"{self.oracle} at {self.at_s:.3f} s: {self.message}"


@dataclass(frozen=True, slots=True)
class Breach:
    """One live member that was removed because its pod had broken an assumption."""

    assumption: Assumption
    at_s: float
    message: str

    def __str__(self) -> str:
        return f"inside {self.assumption} at {self.at_s:.3f} s: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """One LeaveGroup as an operator put it on the wire.

    Parameters
    ----------
    members: (member id, instance id).
    """

    at_s: float
    operator: str
    group_id: str
    members: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One entry of a LeaveGroup as the coordinator decided on it; coordinator_epoch counts its fail-overs."""

    at_s: float
    operator: str
    group_id: str
    member_id: str
    instance_id: str | None
    error_code: ErrorCode
    coordinator_epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRelease:
    """One heartbeat that an operator put on the wire on behalf of a member."""

    at_s: float
    operator: str
    group_id: str
    member_id: str
    instance_id: str | None
    member_epoch: int


class Truth(Protocol):
    """What is really so, now; only oracles ask."""

    def is_alive(self, member_id: str) -> bool:
        """Whether any process of the pod that created this member runs, frozen or not."""

    def is_running(self, member_id: str) -> bool:
        """Whether the very process that created this member runs, frozen or not."""

    def must_report(self, operator: str, group_id: str) -> bool:
        """Whether it has observed in each StaticGroup of the group that no crashed member may be released."""

    def whereabouts(self, member_id: str) -> str:
        """Say whose process created this member."""

    def uncertified(self, instance_id: str, member_id: str) -> Sequence[str]:
        """UIDs of pods that may be the member and of whose end no component has written a proof.

        They are the pod that created the member, and every carrier of the id that was there when it joined.
        """

    def broken_by(self, member_id: str) -> Assumption | None:
        """Which assumption the pod that created this member has broken; None: it has kept all of them."""

    def owner_of(self, group_id: str, instance_id: str) -> str | None:
        """Name of a StaticGroup, living or gone, that makes or made this id for this group; None: there is none."""

    def undesired_since_s(self, instance_id: str) -> float | None:
        """When a workload last wanted the id; None: one wants it now and has for `ROUND_MAX_S`."""

    def must_stop(self, operator: str, group_id: str) -> bool:
        """Whether this operator has observed, in each StaticGroup of the group, that no member may be removed.

        That is any mode but Manage, removal Never, ids without scope that are not declared exclusive, or its deletion.
        """

    def lease_renewed_s(self, operator: str) -> float:
        """When this operator last renewed the Lease, by the API server's truth; -inf: never."""


@dataclass(slots=True)
class Safety:
    """The safety oracles, called with every leave and every effect as they happen.

    Parameters
    ----------
    lease_duration_s: of the operators' Lease.
    on_violation: called with each one; the run goes on, so that its trace shows what followed.
    on_breach: called with each live member that was removed because its pod had broken an assumption.
    """

    truth: Truth
    lease_duration_s: float
    on_violation: Callable[[Violation], None]
    on_breach: Callable[[Breach], None]
    effects: dict[tuple[str, str | None, str, int], int] = field(default_factory=dict)
    removals: int = 0
    releases: int = 0
    released: set[str] = field(default_factory=set)

    def release_sent(self, sent: SentRelease) -> None:
        """Judge a heartbeat on behalf of a member as it is sent: S1, S3, S5, S10, S14 and the Lease.

        A live process is a broken promise whatever the coordinator answers; a member is released once.
        """
        who = f"{sent.operator} released {sent.member_id} ({sent.instance_id})"
        if not sent.member_id or not sent.instance_id or sent.member_epoch != RELEASE_EPOCH:
            self._broken("S5", sent.at_s, f"{who} with epoch {sent.member_epoch}")
            return
        if self.truth.is_running(sent.member_id):
            self._lived(sent.member_id, sent.at_s, f"{who}, which lives, of {self.truth.whereabouts(sent.member_id)}")
        if self.truth.owner_of(sent.group_id, sent.instance_id) is None:
            self._broken("S3", sent.at_s, f"{who}, which nobody issued")
        if sent.member_id in self.released:
            self._broken("S10", sent.at_s, f"{who} again")
        if self.truth.must_report(sent.operator, sent.group_id):
            self._broken("S14", sent.at_s, f"{who} after a StaticGroup forbade it")
        if sent.at_s > self.truth.lease_renewed_s(sent.operator) + self.lease_duration_s + LEASE_SLACK_S:
            self._broken("S14", sent.at_s, f"{who} long after its Lease")

    def release_applied(self, effect: Effect) -> None:
        """Count what the coordinator let go, and judge it again: S1."""
        if effect.error_code is not ErrorCode.NONE:
            return
        self.releases += 1
        self.released.add(effect.member_id)
        if self.truth.is_running(effect.member_id):
            whose = self.truth.whereabouts(effect.member_id)
            self._lived(
                effect.member_id, effect.at_s, f"{effect.operator} let live member {effect.member_id} of {whose} leave"
            )

    def leave_sent(self, leave: Leave) -> None:
        """Judge a LeaveGroup at the moment it is put on the wire: S3, S4, S5, S9, S14 and the Lease."""
        if not leave.members:
            self._broken("S9", leave.at_s, f"{leave.operator} sent a LeaveGroup without members")
        for member_id, instance_id in leave.members:
            if not member_id or not instance_id:
                self._broken("S5", leave.at_s, f"{leave.operator} sent ({member_id!r}, {instance_id!r})")
                continue
            if self.truth.owner_of(leave.group_id, instance_id) is None:
                self._broken("S3", leave.at_s, f"{leave.operator} tried to remove {instance_id}, which nobody issued")
            elif self.truth.undesired_since_s(instance_id) is None:
                self._broken("S4", leave.at_s, f"{leave.operator} tried to remove {instance_id}, which is wanted")
        if self.truth.must_stop(leave.operator, leave.group_id):
            self._broken(
                "S14", leave.at_s, f"{leave.operator} wrote to {leave.group_id} after a StaticGroup forbade it"
            )
        renewed_s = self.truth.lease_renewed_s(leave.operator)
        if leave.at_s > renewed_s + self.lease_duration_s + LEASE_SLACK_S:
            self._broken("S14", leave.at_s, f"{leave.operator} wrote {leave.at_s - renewed_s:.0f} s after its Lease")

    def leave_applied(self, effect: Effect) -> None:
        """Judge what the coordinator did with one entry: S1, S2 and S10."""
        if effect.error_code is not ErrorCode.NONE:
            return
        self.removals += 1
        is_explained = False
        if self.truth.is_alive(effect.member_id):
            whose = self.truth.whereabouts(effect.member_id)
            is_explained = self._lived(
                effect.member_id,
                effect.at_s,
                f"{effect.operator} removed live member {effect.member_id} ({effect.instance_id}) of {whose}",
            )
        is_explained = is_explained or self.truth.broken_by(effect.member_id) is not None
        unproven = () if is_explained else self.truth.uncertified(effect.instance_id or "", effect.member_id)
        if unproven:
            self._broken(
                "S2", effect.at_s, f"{effect.instance_id} was removed without a proof for {', '.join(unproven)}"
            )
        key = (effect.group_id, effect.instance_id, effect.member_id, effect.coordinator_epoch)
        self.effects[key] = self.effects.get(key, 0) + 1
        if self.effects[key] > 1:
            self._broken("S10", effect.at_s, f"{effect.member_id} was removed {self.effects[key]} times")

    def _lived(self, member_id: str, at_s: float, message: str) -> bool:
        """Judge the removal of a live member: S1, unless its pod has broken an assumption; return whether it has."""
        assumption = self.truth.broken_by(member_id)
        if assumption is None:
            self._broken("S1", at_s, message)
        else:
            self.on_breach(Breach(assumption, at_s, message))
        return assumption is not None

    def _broken(self, oracle: str, at_s: float, message: str) -> None:
        self.on_violation(Violation(oracle, at_s, message))


@dataclass(slots=True)
class StatusHistory:
    """S11: what a status may never take back, asked at every write of a StaticGroup."""

    on_violation: Callable[[Violation], None]
    _before: dict[str, Mapping[str, object]] = field(default_factory=dict)
    _generations: dict[str, int] = field(default_factory=dict)
    _undone: dict[str, int] = field(default_factory=dict)

    def restored(self, present: Iterable[Mapping[str, object]] = ()) -> None:
        """Allow for what etcd has forgotten: a round that saw an edit may still say so, and must then come back.

        Parameters
        ----------
        present: the objects that there are now; what was written of them later is forgotten.
        """
        for body in present:
            self.edited(body)
        self._undone = dict(self._generations)

    def edited(self, body: Mapping[str, object]) -> None:
        """Allow for a status that another client than an operator is about to write: history begins again with it."""
        uid = str(_mapping(body.get("metadata")).get("uid"))
        self._before[uid] = _mapping(body.get("status"))

    def written(self, at_s: float, body: Mapping[str, object]) -> None:
        """Judge one version of a StaticGroup object."""
        metadata, status = _mapping(body.get("metadata")), _mapping(body.get("status"))
        uid = str(metadata.get("uid"))
        self._generations[uid] = max(self._generations.get(uid, 0), _number(metadata.get("generation")))
        if not status:
            return
        before = self._before.get(uid, {})
        self._before[uid] = status
        generation, old = _number(status.get("observedGeneration")), _number(before.get("observedGeneration"))
        own, undone = _number(metadata.get("generation")), self._undone.get(uid, 0)
        if generation < old and not (old <= undone and generation == own):
            self._broken(at_s, f"observedGeneration went from {old} back to {generation}")
        if generation > max(own, undone):
            self._broken(at_s, f"observedGeneration {generation} is ahead of the object")
        old_scope = _mapping(before.get("injected")).get("scope")
        if old_scope and _mapping(status.get("injected")).get("scope") not in (None, old_scope):
            self._broken(at_s, f"the scope {old_scope} changed")

    def _broken(self, at_s: float, message: str) -> None:
        self.on_violation(Violation("S11", at_s, message))


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def secrets_shown(canary: str, texts: Mapping[str, str]) -> list[str]:
    """S13: return where a secret appears.

    Parameters
    ----------
    canary: a secret value that occurs nowhere else.
    texts: place (status, events, metrics, trace) → everything that was shown there.
    """
    return [place for place, text in texts.items() if canary in text]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """The world after all faults have ended and everything had its time, for the liveness oracles.

    Parameters
    ----------
    members: instance id → member id of every static member in the group.
    desired: ids that the workload wants; running: those of them whose pod runs and is not frozen.
    zombies: ids of which some carrier still runs though they are not wanted.
    endless: ids whose member never expires by a fault of Kafka, and which the status shows as held.
    leaves_at_rest: LeaveGroups sent in the last part of the rest.
    undeleted: objects that were deleted by a user and are still there.
    blocked: rounds of another StaticGroup that waited longer than a second for a stuck one.
    """

    at_s: float
    members: Mapping[str, str]
    desired: frozenset[str]
    running: frozenset[str]
    zombies: frozenset[str]
    leaves_at_rest: int
    endless: frozenset[str] = frozenset()
    undeleted: tuple[str, ...] = ()
    blocked: int = 0


def judge_rest(rest: Rest, issued: Callable[[str], bool]) -> list[Violation]:
    """Judge liveness: L1 departed members are gone, L3 deletions end, L4 no fight, L5 no team waits for another.

    Parameters
    ----------
    issued: whether an id is one of ours; others are not judged.
    """
    found = [
        Violation("L1", rest.at_s, f"{i} is still a member: {m}")
        for i, m in sorted(rest.members.items())
        if issued(i) and i not in rest.desired | rest.zombies | rest.endless
    ]
    found += [
        Violation("L2", rest.at_s, f"{i} runs but is no member") for i in sorted(rest.running - set(rest.members))
    ]
    found += [Violation("L3", rest.at_s, f"{name} was deleted and is still there") for name in rest.undeleted]
    if rest.leaves_at_rest:
        found.append(Violation("L4", rest.at_s, f"{rest.leaves_at_rest} LeaveGroups though nothing changes"))
    if rest.blocked:
        found.append(Violation("L5", rest.at_s, f"{rest.blocked} rounds waited for a stuck group"))
    return found
