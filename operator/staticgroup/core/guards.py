"""The guards of a removal: an ordered tuple of named rules, first hit wins, each with its reason.

A candidate is a described member that this StaticGroup issued and that nobody wants any more. It is removed only if
no guard holds it back. The order is part of the interface: users see one stable reason. The guards from
`chain_not_proven` to `no_barrier` are the safety argument (design of the evidence chain); the others protect
from removals that would be safe but unwanted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from ..api import remedies
from ..api.resources.staticgroup import RemovalPolicy, StaticGroupSpec
from ..api.resources.status import ExceptionKind
from .evidence.chain import ChainClause, ChainVerdict, Incarnation, IncarnationState
from .findings import Finding, Subject
from .group import GroupView, MemberView
from .ids.naming import ordinal_of_pod
from .protocols import leaves_by
from .roles import role_of
from .seats import OVERDUE_AFTER_S, Seat
from .snapshot import Snapshot

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
    POD_PRESENT = "PodPresent"
    NO_BARRIER = "WatchBehind"
    CHAIN = "DeathNotProven"
    POD_ENDING = "PodStillRunning"
    NAMESAKE = "PodHasOtherId"
    GAP = "WatchGap"
    TWO_INCARNATIONS = "MemberSeenUnderTwoPods"
    ZOMBIE = "ZombieMember"
    HOLD_WINDOW = "HoldWindow"
    BUDGET = "RemovalBudget"


TRANSIENT_GUARDS = frozenset(
    {
        Guard.POD_ENDING,
        Guard.PODS_UNSEEN,
        Guard.NAMESAKE,
        Guard.NOT_READ_AFRESH,
        Guard.EXPECTED,
        Guard.NO_BARRIER,
        Guard.HOLD_WINDOW,
        Guard.BUDGET,
    }
)
"""Guards that pass by themselves in the ordinary course of a scale-down; nobody needs to be told to act."""


_KINDS: Final = {
    Guard.ZOMBIE: ExceptionKind.ZOMBIE,
    Guard.CONFLICT: ExceptionKind.CONFLICTING,
    Guard.DUPLICATE: ExceptionKind.CONFLICTING,
}
_CHAIN_GUARDS: Final = {
    ChainClause.GAP: Guard.GAP,
    ChainClause.LIVE: Guard.POD_ENDING,
    ChainClause.NAMESAKE: Guard.NAMESAKE,
}
_PASSING_CLAUSES: Final = (ChainClause.LIVE, ChainClause.NAMESAKE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One member that may have to be removed from its departed seat, with the round it was seen in.

    Parameters
    ----------
    is_scoped: no other cluster or namespace can issue the id. issues_scoped: nor any id of the present template.
    now_s: seconds since the Unix epoch.
    """

    seat: Seat
    member: MemberView
    chain: ChainVerdict
    group: GroupView
    spec: StaticGroupSpec
    snapshot: Snapshot
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
    """Hold everything while spec.suspend is true."""
    return Hit(Guard.SUSPENDED, "spec.suspend is true") if c.spec.suspend else None


def policy_never(c: Candidate) -> Hit | None:
    """Hold everything when the user wants sessions to expire."""
    if c.spec.removal.policy is RemovalPolicy.NEVER:
        return Hit(Guard.POLICY_NEVER, "spec.removal.policy is Never; the member leaves when its process ends and its session expires")
    return None


def unsupported_group(c: Candidate) -> Hit | None:
    """Hold for groups from which nobody can be removed, and for those that pods of this role cannot be in."""
    if leaves_by(c.group) is None or not role_of(c.spec).may_be_in(c.group):
        kind = f" and protocol type {c.group.protocol_type}" if c.group.protocol_type else ""
        return Hit(Guard.UNSUPPORTED_GROUP, f"the group is of type {c.group.group_type.value}{kind}, and spec.role is {c.spec.role.value}")
    return None


def conflict(c: Candidate) -> Hit | None:
    """Hold when two StaticGroups claim the same ids, or write one place of the same pods: neither removes."""
    if c.snapshot.same_scope:
        sentence = f"StaticGroup {', '.join(c.snapshot.same_scope)} of this Kafka group has the same scope"
        return Hit(Guard.CONFLICT, sentence, remedies.DIVIDE_SCOPES)
    if c.snapshot.overlaps:
        sentence = f"StaticGroup {', '.join(c.snapshot.overlaps)} may issue the same ids"
        return Hit(Guard.CONFLICT, sentence, remedies.DIVIDE_IDS)
    if c.snapshot.collisions:
        found = c.snapshot.collisions[0]
        return Hit(Guard.CONFLICT, found.sentence, found.remedy)
    return None


def unscoped(c: Candidate) -> Hit | None:
    """Hold for ids that another cluster or namespace may issue too, unless the user gave his word."""
    if c.is_scoped or c.spec.identity.exclusive:
        return None
    word = "set spec.identity.exclusive to true if nobody else does"
    if c.snapshot.is_exclusive_refused:
        word = remedies.allow_exclusive(c.spec.connection_ref.name)
    if c.issues_scoped:
        sentence = "an earlier id template without {scope} made this id, so another cluster may issue the same one"
        return Hit(Guard.UNSCOPED, sentence, f"the member leaves when its session expires, or {word}")
    sentence = "the id template has no {scope}, so another cluster may issue the same id"
    return Hit(Guard.UNSCOPED, sentence, f"add {{scope}} or {word}")


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
        and ordinal_of_pod(c.spec.workload_ref.name, i.pod_name) is not None
        for i in c.snapshot.known
    )
    if workload is None or workload.status_replicas <= len(c.snapshot.pods) + just_gone:
        return None
    sentence = f"the {workload.kind.kind} reports {workload.status_replicas} pods but {len(c.snapshot.pods)} are visible"
    remedy = "if this lasts, check the right to list pods"
    if workload.listed is not None:  # StrimziPodSetController counts every pod of the list, made or not
        remedy = f"{remedy}, and whether {workload.kind.provider.partition(' with ')[0]} is at work, which makes those that are lacking"
    since_s = c.seat.memory.departed_since_s
    is_lasting = since_s is not None and c.now_s - since_s >= OVERDUE_AFTER_S
    return Hit(Guard.PODS_UNSEEN, sentence, remedy, 1.0, is_lasting=is_lasting)


def not_read_afresh(c: Candidate) -> Hit | None:
    """Hold when intent and pod were not read after this round's describe (steps 1 and 2)."""
    if c.seat.fresh is None:
        sentence = "the API server was not read after the group was described"
        return Hit(Guard.NOT_READ_AFRESH, sentence, requeue_after_s=1.0)
    return None


def expected_again(c: Candidate) -> Hit | None:
    """Hold when the consistent read shows that the ordinal is wanted after all (step 2)."""
    if c.seat.fresh is not None and c.seat.fresh.is_expected:
        return Hit(Guard.EXPECTED, f"ordinal {c.seat.ordinal} is wanted again", requeue_after_s=1.0)
    return None


def pod_present(c: Candidate) -> Hit | None:
    """Hold while a pod object of such a name exists whose end is not certified and that may hold the id (step 2)."""
    # A word, or evidence of a node, is about an object that is gone; one that is here again has a kubelet that may run it.
    certified = {i.uid for i in c.chain.incarnations if i.certificate is not None and not i.certificate.is_of_gone}
    harmless = certified | {i.uid for i in c.chain.ruled_out}
    for pod_name, uid in c.seat.fresh.objects if c.seat.fresh is not None else ():
        if uid not in harmless:
            sentence = f"pod {pod_name} (uid {uid}) still exists and has not ended"
            return Hit(Guard.POD_PRESENT, sentence, requeue_after_s=5.0)
    return None


def no_barrier(c: Candidate) -> Hit | None:
    """Hold until the pod watch has passed the resourceVersion of the consistent read (step 3)."""
    fresh = c.seat.fresh
    if fresh is not None and not fresh.barrier_passed:
        sentence = f"the pod watch has not reached resourceVersion {fresh.resource_version} yet"
        return Hit(Guard.NO_BARRIER, sentence, requeue_after_s=1.0)
    if fresh is not None and fresh.unfollowed:
        sentence = f"namespace {fresh.unfollowed}, which the operator is to serve, may be there again, and its pods are not read yet"
        remedy = (
            "it does within two minutes where it has a Role in that namespace; if not, helm upgrade makes the Role, or take the namespace "
            "out of watchNamespaces"
        )
        return Hit(Guard.NO_BARRIER, sentence, remedy, 5.0, is_lasting=True)
    return None


def chain_not_proven(c: Candidate) -> Hit | None:
    """Hold unless every process that can hold the id is proven dead (step 4)."""
    if c.chain.is_proven:
        return None
    guard = _CHAIN_GUARDS.get(c.chain.clause, Guard.CHAIN)
    if c.chain.clause not in _PASSING_CLAUSES:
        return Hit(guard, c.chain.sentence, c.chain.remedy)
    live = (i for i in c.chain.incarnations if i.state is IncarnationState.LIVE)
    stays = next((i for i in live if not _is_ending(c, i)), None)
    if stays is None or c.chain.clause is ChainClause.NAMESAKE:  # such a wait ends with the session, not with the pod
        return Hit(guard, c.chain.sentence, c.chain.remedy, 5.0)
    remedy = remedies.end_pod(stays.namespace, stays.pod_name)
    if stays.namespace != c.snapshot.namespace:  # perhaps another tenant's, who has a right to it
        remedy = remedies.tell_apart(stays.namespace, is_scoped=c.is_scoped)
    return Hit(guard, c.chain.sentence, remedy, 5.0, is_lasting=True)


def _is_ending(c: Candidate, pod: Incarnation) -> bool:
    """True for a live pod that ends in the ordinary course of a scale-down, a rolling update or a deletion."""
    if pod.is_deleting:
        return True
    workload, since_s = c.snapshot.workload, c.seat.memory.departed_since_s
    ordinal = ordinal_of_pod(c.spec.workload_ref.name, pod.pod_name)
    if ordinal is None or pod.namespace != c.snapshot.namespace:
        return False
    is_soon = since_s is None or c.now_s - since_s < OVERDUE_AFTER_S
    if workload is None:  # whether its pods are collected or orphaned, they do not say
        return is_soon
    if workload.is_deleting:
        return workload.is_ending
    if workload.wants(ordinal):
        return workload.is_rolling
    # Strimzi deletes what its list lacks at once, but no pod that the set's selector does not match (removeDeletedPods).
    return workload.listed is None or is_soon


def two_incarnations(c: Candidate) -> Hit | None:
    """Hold when this very member outlived a change of pods: it belongs to somebody else (step 4)."""
    uids = {uid for member_id, uid, _ in c.seat.memory.sightings if member_id == c.member.member_id}
    if len(uids) > 1:
        sentence = (
            "the same member.id was seen beside two pods, one after the other and each Ready for a minute: it is of neither, or of "
            "the first one, whose session has not expired yet"
        )
        remedy = "if it is there after its session timeout, find who else uses this id (another cluster, a copied id) and stop it"
        return Hit(Guard.TWO_INCARNATIONS, sentence, remedy)
    return None


def zombie(c: Candidate) -> Hit | None:
    """Hold when somebody rejoined under an id after its removal although no new pod was seen: never fight."""
    record = c.seat.memory.removal
    if record is None or record.member_id == c.member.member_id:
        return None
    if any(i.uid not in record.pod_uids for i in c.chain.incarnations):
        return None
    return Hit(
        Guard.ZOMBIE,
        "a process joined under this id after its removal although no pod of it exists",
        "find it (another cluster, a copied id, a pod without labels) and stop it",
    )


def hold_window(c: Candidate) -> Hit | None:
    """Hold for removal.holdSeconds after the ordinal left the range, longer when the workload itself goes or is gone."""
    since_s = c.seat.memory.departed_since_s
    hold_s = float(c.spec.removal.hold_seconds)
    if c.snapshot.workload is None or c.snapshot.workload.is_ending:
        hold_s = max(hold_s, WORKLOAD_MISSING_HOLD_S)
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
    chain_not_proven,
    not_read_afresh,
    expected_again,
    pod_present,
    no_barrier,
    two_incarnations,
    zombie,
    hold_window,
)
"""In this order; the first that hits names the reason. The budget is applied to the survivors together."""

_WHATEVER_IS_READ: Final = (duplicate, two_incarnations, zombie)


def is_kept_for_good(candidate: Candidate) -> bool:
    """True when a guard holds a candidate back whatever the API server would say of it."""
    return first_hit(candidate, _WHATEVER_IS_READ) is not None


def first_hit(candidate: Candidate, guards: tuple[Rule, ...] = GUARDS) -> Finding | None:
    """Return what holds a candidate back; None when it may be removed."""
    hits = (guard(candidate) for guard in guards)
    hit = next((hit for hit in hits if hit is not None), None)
    return held(candidate, hit) if hit is not None else None


def held(candidate: Candidate, hit: Hit) -> Finding:
    """Word why a removal is held back."""
    seat = candidate.seat
    return Finding(
        kind=next((kind for guard, kind in _KINDS.items() if guard is hit.guard), ExceptionKind.HELD),
        reason=hit.guard.value,
        sentence=hit.sentence,
        remedy=hit.remedy,
        subject=Subject(instance_id=seat.key, member_id=candidate.member.member_id, pod_name=seat.pod_name or None),
        is_transient=hit.guard in TRANSIENT_GUARDS and not hit.is_lasting,
        requeue_after_s=hit.requeue_after_s,
    )
