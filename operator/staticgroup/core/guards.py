"""The guards of a removal: an ordered tuple of named rules, first hit wins, each with its reason.

A candidate is a described member that this StaticGroup issued and that nobody wants any more. It is removed only if no
guard holds it back. The order is part of the interface: users see one stable reason. The guards from `carriers_left` to
`no_barrier` are the safety argument (`core.members`); the others prevent removals that would be safe but unwanted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from ..api import remedies
from ..api.resources.staticgroup import Mode, RemovalPolicy, StaticGroupSpec
from ..api.resources.status import IssueKind
from .evidence.chain import KnownPod, PodState
from .findings import Finding, Subject
from .group import GroupType, GroupView, MemberView
from .ids.naming import is_scope_refused, ordinal_of_pod, seat_name
from .members.carriers import UNATTRIBUTED, UNSEEN, Attribution
from .protocols import protocol_of, role_of
from .seats import OVERDUE_AFTER_S, Seat
from .snapshot import History, Snapshot

WORKLOAD_MISSING_HOLD_S = 60.0
"""A deleted StatefulSet is often re-created at once (Helm re-install, immutable field); its ids wait this long."""
STATUS_BEHIND_S = 10.0
"""So long a StatefulSet's status may count pods that have ended."""


class Guard(StrEnum):
    """Names of the guards; the value is the reason in status, Events and `explain`."""

    SUSPENDED = "Suspended"
    POLICY_NEVER = "RemovalPolicyNever"
    UNSUPPORTED_GROUP = "UnsupportedGroupType"
    CONFLICT = "ConflictingStaticGroup"
    UNSCOPED = "UnscopedId"
    DUPLICATE = "DuplicateHolder"
    PODS_UNSEEN = "PodsUnseen"
    NOT_READ_AFRESH = "NotReadAfresh"
    EXPECTED = "ExpectedAgain"
    NO_BARRIER = "WatchBehind"
    POD_ENDING = "PodStillRunning"
    UNATTRIBUTED = "Unattributed"
    SUSPECT = "Suspect"
    JOINED_BEFORE_WATCH = "JoinedBeforeWatch"
    RETURNED = "RemovedAndReturned"
    HOLD_WINDOW = "HoldWindow"


TRANSIENT_GUARDS = frozenset(
    {
        Guard.POD_ENDING,
        Guard.PODS_UNSEEN,
        Guard.NOT_READ_AFRESH,
        Guard.EXPECTED,
        Guard.NO_BARRIER,
        Guard.HOLD_WINDOW,
    }
)
"""Guards that pass by themselves in the ordinary course of a scale-down; nobody needs to act."""


_EXPIRES: Final = "the member leaves when its session expires"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One member that may have to be removed from its departed seat, with the round it was seen in.

    Parameters
    ----------
    attribution: the pods that may hold it; None while it was not described with a barrier behind it.
    is_scoped: no other cluster or namespace can issue the id. issues_scoped: nor any id of the present template.
    """

    seat: Seat
    member: MemberView
    attribution: Attribution | None
    group: GroupView
    spec: StaticGroupSpec
    snapshot: Snapshot
    history: History
    is_scoped: bool
    issues_scoped: bool
    now_s: float


class Hit(NamedTuple):
    """Why a guard holds a candidate back; see `Finding`."""

    guard: StrEnum
    sentence: str
    remedy: str = ""
    requeue_after_s: float | None = None
    is_lasting: bool = False
    """Although what its guard says passes by itself mostly."""


Rule = Callable[[Candidate], Hit | None]


def suspended(c: Candidate) -> Hit | None:
    """Hold everything while the mode is Suspended."""
    return Hit(Guard.SUSPENDED, "spec.mode is Suspended") if c.spec.mode is Mode.SUSPENDED else None


def policy_never(c: Candidate) -> Hit | None:
    """Hold everything when the user wants sessions to expire."""
    if c.spec.removal is RemovalPolicy.NEVER:
        sentence = "spec.removal is Never; the member leaves when its process ends and its session expires"
        return Hit(Guard.POLICY_NEVER, sentence)
    return None


def unsupported_group(c: Candidate) -> Hit | None:
    """Hold for groups from which nobody can be removed, and for those that pods of this role cannot be in."""
    if protocol_of(c.group).leaves_by is None or not role_of(c.spec).may_be_in(c.group):
        kind = f", {c.group.protocol_type}" if c.group.protocol_type else ""
        what = f"the group ({c.group.group_type.value}{kind})"
        sentence = f"{what} does not fit spec.client.type {c.spec.client.type.value}"
        return Hit(Guard.UNSUPPORTED_GROUP, sentence, "see the condition MembershipComplete")
    return None


def conflict(c: Candidate) -> Hit | None:
    """Hold when two StaticGroups claim the same ids, or write one place of the same pods: neither removes."""
    if c.snapshot.overlaps:
        sentence = f"StaticGroup {', '.join(c.snapshot.overlaps)} may issue the same ids"
        return Hit(Guard.CONFLICT, sentence, "the condition Ready says what to do")
    if c.snapshot.collisions:
        found = c.snapshot.collisions[0]
        return Hit(Guard.CONFLICT, found.sentence, found.remedy)
    return None


def unscoped(c: Candidate) -> Hit | None:
    """Hold for ids that another cluster or namespace may issue too, unless the user gave his word."""
    if c.is_scoped or c.spec.assume_exclusive:
        return None
    word = "set spec.assumeExclusive to true if nobody else does"
    if c.snapshot.is_word_refused:
        word = remedies.allow_exclusive(c.spec.connection_ref.name)
    scope = c.history.injected.scope if c.history.injected is not None else ""
    if is_scope_refused(scope, c.snapshot):
        sentence = f"{scope} in the id is not this StaticGroup's own, so another one may issue the same id"
        return Hit(Guard.UNSCOPED, sentence, word)
    sentence = "the id has no {scope}, so another cluster may issue the same one"
    if c.issues_scoped:
        sentence = "an earlier id template without {scope} made this id, so another cluster may issue the same one"
    return Hit(Guard.UNSCOPED, sentence, f"{_EXPIRES}, or {word}")


def duplicate(c: Candidate) -> Hit | None:
    """Hold when the reading shows several holders of one id, which no coordinator allows."""
    if len(c.seat.holders) > 1:
        sentence = "the group lists several members with this id, which no coordinator allows"
        return Hit(Guard.DUPLICATE, sentence, "it is read again; if this lasts, look at the coordinator's log", 5.0)
    return None


def pods_unseen(c: Candidate) -> Hit | None:
    """Hold when the workload says it has more pods than we see: a carrier out of sight looks like a departure."""
    workload = c.snapshot.workload
    # Just after an end the workload's status is a moment behind the pods.
    just_gone = sum(
        not i.object_present
        and c.now_s - i.since_s < STATUS_BEHIND_S
        and ordinal_of_pod(c.spec.workload_ref.name, seat_name(i, c.snapshot.scope)) is not None
        for i in c.snapshot.known
    )
    if workload is None or workload.status_replicas <= len(c.snapshot.pods) + just_gone:
        return None
    pods = len(c.snapshot.pods)
    sentence = f"the {workload.kind.kind} reports {workload.status_replicas} pods but {pods} are visible"
    remedy = "if this lasts, check the right to list pods"
    if workload.listed is not None:  # StrimziPodSetController counts every pod of the list, made or not
        controller = workload.kind.provider.partition(" with ")[0]
        remedy = f"{remedy}, and whether {controller} is at work, which makes those that are lacking"
    since_s = c.seat.memory.departed_since_s
    is_lasting = since_s is not None and c.now_s - since_s >= OVERDUE_AFTER_S
    return Hit(Guard.PODS_UNSEEN, sentence, remedy, 1.0, is_lasting=is_lasting)


def not_read_afresh(c: Candidate) -> Hit | None:
    """Hold when intent and pod were not read after this round's describe (steps 1 and 2)."""
    if c.seat.fresh is None:
        sentence = "nothing to do: its pod is looked up in the next round"
        return Hit(Guard.NOT_READ_AFRESH, sentence, requeue_after_s=1.0)
    return None


def expected_again(c: Candidate) -> Hit | None:
    """Hold when the consistent read shows that the ordinal is wanted after all (step 2)."""
    if c.seat.fresh is not None and c.seat.fresh.is_expected:
        return Hit(Guard.EXPECTED, f"ordinal {c.seat.ordinal} is wanted again", requeue_after_s=1.0)
    return None


def pod_present(c: Candidate) -> Hit | None:
    """Hold while a pod object of such a name exists that may hold the id and whose end is not certified (step 2)."""
    ended = {pod.uid for pod in c.seat.chain if pod.certificate is not None}
    for pod_name, uid in c.seat.fresh.objects if c.seat.fresh is not None else ():
        if uid not in ended:
            sentence = f"pod {pod_name} (uid {uid}) may hold its id, and has not ended"
            known = next((pod for pod in c.seat.chain if pod.uid == uid), None)
            return _until_ended(c, known, sentence)
    return None


def no_barrier(c: Candidate) -> Hit | None:
    """Hold until the pod watch has passed the resourceVersion of the consistent read (step 3)."""
    fresh = c.seat.fresh
    if fresh is not None and not fresh.barrier_passed:
        sentence = f"the pod watch has not reached resourceVersion {fresh.resource_version} yet"
        return Hit(Guard.NO_BARRIER, sentence, requeue_after_s=1.0)
    return None


def carriers_left(c: Candidate) -> Hit | None:
    """Hold unless the pods that were there when the member joined are known, and each of them has ended (step 4)."""
    if c.attribution is None:
        sentence = "the pod watch has not reached the moment at which this member was described first"
        return Hit(Guard.NO_BARRIER, sentence, requeue_after_s=1.0)
    left = c.attribution.carriers
    pods = {pod.uid: pod for pod in (*c.snapshot.known, *c.seat.chain)}
    for pod in (pods[uid] for uid in sorted(left) if uid in pods):
        if pod.state is PodState.LIVE and not pod.has_lost_run:
            name = f"{pod.namespace}/{pod.pod_name}"
            sentence = f"pod {name} was there when it joined, and has not ended: {pod.refusal}"
            return _until_ended(c, pod, sentence)
    if UNATTRIBUTED in left:
        sentence = "no pod was seen with its id when it joined"
        return Hit(Guard.UNATTRIBUTED, sentence, f"{_EXPIRES}, unless its process runs elsewhere")
    suspects = {s.uid: s for s in c.history.members.suspects}
    uid = min(left - {UNSEEN}, default="")
    if uid:
        named = suspects.get(uid) or pods.get(uid)
        name, node_name = (named.pod_name, named.node_name) if named is not None else (c.seat.pod_name, "")
        where = f" on node {node_name}" if node_name else ""
        why = f": {pods[uid].refusal}" if uid in pods and pods[uid].refusal else ""
        sentence = f"pod {name} (uid {uid}){where} was there when it joined, and its end was not seen{why}"
        return Hit(Guard.SUSPECT, sentence, _EXPIRES)
    if UNSEEN in left:
        sentence = "it joined before the operator had seen every pod, so an unseen one may hold it"
        members = c.history.members
        # Until the watch is whole a restart brings another member that may be of an unseen pod.
        is_whole = members.watch == c.snapshot.watch
        whole_at = datetime.fromtimestamp(members.whole_at_s, UTC) + timedelta(minutes=1)
        when = "now" if is_whole else f"after {whole_at:%H:%M} UTC"
        remedy = f"nothing to do: {_EXPIRES} (one that joins {when} can be removed)"
        return Hit(Guard.JOINED_BEFORE_WATCH, sentence, remedy)
    return None


def _until_ended(c: Candidate, pod: KnownPod | None, sentence: str) -> Hit:
    """Hold until a pod has ended that may hold the member, and say what to do where it does not end by itself."""
    if pod is None or _is_ending(c, pod):
        return Hit(Guard.POD_ENDING, sentence, requeue_after_s=5.0)
    ordinal = ordinal_of_pod(c.spec.workload_ref.name, seat_name(pod, c.snapshot.scope))
    is_here = pod.namespace == c.snapshot.namespace
    if is_here and ordinal is not None and c.snapshot.workload is not None and c.snapshot.workload.wants(ordinal):
        return Hit(Guard.POD_ENDING, sentence, remedies.give_up_id(pod.namespace, pod.pod_name), 5.0, is_lasting=True)
    remedy = remedies.end_pod(pod.namespace, pod.pod_name)
    if not is_here:  # perhaps another tenant's, who has a right to it
        remedy = remedies.tell_apart(pod.namespace, is_scoped=c.is_scoped)
    return Hit(Guard.POD_ENDING, sentence, remedy, 5.0, is_lasting=True)


def returned(c: Candidate) -> Hit | None:
    """Hold a member of a newer protocol that is described after its acknowledged leave: which is final, so it lives."""
    record = c.seat.memory.removal
    is_durable = c.group.group_type is not GroupType.CLASSIC
    if record is None or record.member_id != c.member.member_id or not is_durable:
        return None  # once its id is wanted again the removal is forgotten: see `members.memory.with_living`
    remedy = "find it and stop it; it is not removed again"
    return Hit(Guard.RETURNED, "it was removed and has joined again, so its process lives", remedy)


def _is_ending(c: Candidate, pod: KnownPod) -> bool:
    """True for a live pod that ends in the ordinary course of a scale-down, a rolling update or a deletion."""
    if pod.is_deleting:
        return True
    workload, since_s = c.snapshot.workload, c.seat.memory.departed_since_s
    ordinal = ordinal_of_pod(c.spec.workload_ref.name, seat_name(pod, c.snapshot.scope))
    if ordinal is None or pod.namespace != c.snapshot.namespace:
        return False
    is_soon = since_s is None or c.now_s - since_s < OVERDUE_AFTER_S
    if workload is None:  # whether its pods are collected or orphaned, they do not say
        return is_soon
    if workload.is_deleting:
        return workload.is_ending
    if workload.wants(ordinal):
        return workload.is_rolling
    # Strimzi deletes at once what its list lacks, but no pod that the set's selector misses (removeDeletedPods).
    return workload.listed is None or is_soon


def hold_window(c: Candidate) -> Hit | None:
    """Hold for a minute after the ordinal left the range because the workload itself goes or is gone."""
    if c.snapshot.workload is not None and not c.snapshot.workload.is_ending:
        return None
    since_s, hold_s = c.seat.memory.departed_since_s, WORKLOAD_MISSING_HOLD_S
    left_s = (c.now_s if since_s is None else since_s) + hold_s - c.now_s
    if left_s > 0:
        # Without the seconds that are left: a text that changed every round would be a status write every round.
        sentence = f"removed once it has been unwanted for {hold_s:g} s, unless its ordinal is wanted again"
        return Hit(Guard.HOLD_WINDOW, sentence, requeue_after_s=left_s)
    return None


GUARDS: tuple[Rule, ...] = (
    suspended,
    policy_never,
    unsupported_group,
    conflict,
    unscoped,
    duplicate,
    pods_unseen,
    returned,
    carriers_left,
    not_read_afresh,
    expected_again,
    pod_present,
    no_barrier,
    hold_window,
)
"""In this order; the first that hits names the reason."""


def first_hit(candidate: Candidate, guards: tuple[Rule, ...] = GUARDS) -> Finding | None:
    """Return what holds a candidate back; None when it may be removed."""
    hits = (guard(candidate) for guard in guards)
    hit = next((hit for hit in hits if hit is not None), None)
    if hit is None:
        return None
    seat = candidate.seat
    return Finding(
        kind=IssueKind.CONFLICTING if hit.guard in (Guard.CONFLICT, Guard.DUPLICATE) else IssueKind.HELD,
        reason=hit.guard.value,
        sentence=hit.sentence,
        remedy=hit.remedy,
        subject=Subject(instance_id=seat.key, member_id=candidate.member.member_id, pod_name=seat.pod_name or None),
        is_transient=hit.guard in TRANSIENT_GUARDS and not hit.is_lasting,
        requeue_after_s=hit.requeue_after_s,
    )
