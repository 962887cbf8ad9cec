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

from ..api.staticgroup import RemovalPolicy, StaticGroupSpec
from .chain import ChainClause, ChainVerdict
from .group import GroupType, GroupView, MemberView
from .membership import Identity, Membership
from .snapshot import FreshRead, History, Snapshot

WORKLOAD_MISSING_HOLD_S = 60.0
"""A deleted StatefulSet is often re-created at once (Helm re-install, immutable field); its ids wait this long."""
SAME_MEMBER_READY_S = 60.0
"""A pod that is Ready this long has joined; a member seen under two such pods belongs to neither."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One member that may have to be removed, with all that was seen about it this round."""

    member: MemberView
    instance_id: str
    ordinal: int
    spec: StaticGroupSpec
    snapshot: Snapshot
    history: History
    group: GroupView
    membership: Membership
    identity: Identity
    chain: ChainVerdict
    now_s: float

    @property
    def fresh(self) -> FreshRead | None:
        """The reads made after the describe; None when this id was not read this round."""
        return self.snapshot.fresh.get(self.instance_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A removal that was held back.

    Parameters
    ----------
    requeue_after_s: when looking again can help; None when only an event can.
    """

    instance_id: str
    member_id: str
    guard: Guard
    message: str
    requeue_after_s: float | None = None


_CHAIN_GUARDS = {
    ChainClause.GAP: Guard.GAP,
    ChainClause.LIVE: Guard.POD_ENDING,
    ChainClause.NAMESAKE: Guard.NAMESAKE,
}

_PASSING_CLAUSES = (ChainClause.LIVE, ChainClause.NAMESAKE)

Hit = tuple[Guard, str, float | None]
Rule = Callable[[Candidate], Hit | None]


def suspended(c: Candidate) -> Hit | None:
    """Hold everything while spec.suspend is true."""
    return (Guard.SUSPENDED, "spec.suspend is true", None) if c.spec.suspend else None


def policy_never(c: Candidate) -> Hit | None:
    """Hold everything when the user wants sessions to expire."""
    if c.spec.removal.policy is RemovalPolicy.NEVER:
        return Guard.POLICY_NEVER, "spec.removal.policy is Never; the member leaves when its session expires", None
    return None


def unsupported_group(c: Candidate) -> Hit | None:
    """Hold for groups LeaveGroup does not serve (it answers UNKNOWN_MEMBER_ID for Streams and share groups)."""
    if c.group.group_type not in (GroupType.CLASSIC, GroupType.CONSUMER):
        return Guard.UNSUPPORTED_GROUP, f"the group is of type {c.group.group_type.value}", None
    return None


def conflict(c: Candidate) -> Hit | None:
    """Hold when two StaticGroups claim the same ids: neither removes."""
    if c.snapshot.overlaps:
        return (
            Guard.CONFLICT,
            f"StaticGroup {', '.join(c.snapshot.overlaps)} may issue the same ids; change the id template of one of them",
            None,
        )
    return None


def unscoped(c: Candidate) -> Hit | None:
    """Hold for ids that another cluster or namespace may issue too, unless the user gave his word."""
    if not c.identity.is_scoped and not c.spec.identity.exclusive:
        return (
            Guard.UNSCOPED,
            (
                "the id template has no {scope}, so another cluster may issue the same id; add {scope} or set "
                "spec.identity.exclusive to true if nobody else does"
            ),
            None,
        )
    return None


def duplicate(c: Candidate) -> Hit | None:
    """Hold when the reading shows several holders of one id, which no coordinator allows."""
    if c.instance_id in c.membership.duplicates:
        return Guard.DUPLICATE, "the group lists several members with this id", 5.0
    return None


def pods_unseen(c: Candidate) -> Hit | None:
    """Hold when the workload says it has more pods than we see: a carrier out of sight looks like a departure."""
    workload = c.snapshot.workload
    # Just after an end the StatefulSet's status is a moment behind the pods.
    just_gone = sum(not i.object_present and c.now_s - i.since_s < STATUS_BEHIND_S for i in c.snapshot.known)
    if workload is not None and workload.status_replicas > len(c.snapshot.pods) + just_gone:
        return (
            Guard.PODS_UNSEEN,
            f"the StatefulSet reports {workload.status_replicas} pods but {len(c.snapshot.pods)} are visible; if this "
            "lasts, check the right to list pods",
            1.0,
        )
    return None


def not_read_afresh(c: Candidate) -> Hit | None:
    """Hold when intent and pod were not read after this round's describe (steps 1 and 2)."""
    return (
        (Guard.NOT_READ_AFRESH, "the API server was not read after the group was described", 1.0)
        if c.fresh is None
        else None
    )


def expected_again(c: Candidate) -> Hit | None:
    """Hold when the consistent read shows that the ordinal is wanted after all (step 2)."""
    if c.fresh is not None and c.fresh.is_expected:
        return Guard.EXPECTED, f"ordinal {c.ordinal} is wanted again", 1.0
    return None


def pod_present(c: Candidate) -> Hit | None:
    """Hold while a pod object of that name exists whose end is not certified and that may hold the id (step 2)."""
    uid = c.fresh.object_uid if c.fresh is not None else ""
    if not uid:
        return None
    # A word is about an object that is gone; one that is here again has a kubelet that may run it.
    certified = {i.uid for i in c.chain.incarnations if i.certificate is not None and not i.certificate.is_word}
    if uid not in certified | {i.uid for i in c.chain.ruled_out}:
        return (
            Guard.POD_PRESENT,
            f"pod {c.identity.pod_name_of(c.instance_id)} (uid {uid}) still exists and has not ended",
            5.0,
        )
    return None


def no_barrier(c: Candidate) -> Hit | None:
    """Hold until the pod watch has passed the resourceVersion of the consistent read (step 3)."""
    if c.fresh is not None and not c.fresh.barrier_passed:
        return Guard.NO_BARRIER, f"the pod watch has not reached resourceVersion {c.fresh.resource_version} yet", 1.0
    return None


def chain_not_proven(c: Candidate) -> Hit | None:
    """Hold unless every process that can hold the id is proven dead (step 4)."""
    if c.chain.is_proven:
        return None
    guard = _CHAIN_GUARDS.get(c.chain.clause, Guard.CHAIN)
    return guard, c.chain.message, 5.0 if c.chain.clause in _PASSING_CLAUSES else None


def two_incarnations(c: Candidate) -> Hit | None:
    """Hold when this very member outlived a change of pods: it belongs to somebody else (step 4)."""
    uids = {uid for member_id, uid, _ in c.history.sightings.get(c.instance_id, ()) if member_id == c.member.member_id}
    if len(uids) > 1:
        return (
            Guard.TWO_INCARNATIONS,
            "the same member.id was seen under two pods that were both Ready, so it belongs to neither",
            None,
        )
    return None


def zombie(c: Candidate) -> Hit | None:
    """Hold when somebody rejoined under an id after its removal although no new pod was seen: never fight."""
    record = c.history.removal_of(c.instance_id)
    if record is None or record.member_id == c.member.member_id:
        return None
    if any(i.uid not in record.pod_uids for i in c.chain.incarnations):
        return None
    return (
        Guard.ZOMBIE,
        (
            "a process joined under this id after its removal although no pod of it exists; find it (another cluster, a "
            "copied id, a pod without labels) and stop it"
        ),
        None,
    )


def hold_window(c: Candidate) -> Hit | None:
    """Hold for removal.holdSeconds after the ordinal left the range, longer when the workload itself goes or is gone."""
    since_s = c.history.departed_since_s.get(c.instance_id, c.now_s)
    hold_s = float(c.spec.removal.hold_seconds)
    if c.snapshot.workload is None or c.snapshot.workload.is_ending:
        hold_s = max(hold_s, WORKLOAD_MISSING_HOLD_S)
    left_s = since_s + hold_s - c.now_s
    if left_s > 0:
        # Without the seconds that are left: a text that changed every round would be a status write every round.
        message = f"removed once it has been unwanted for {hold_s:g} s, unless its ordinal is wanted again"
        return Guard.HOLD_WINDOW, message, left_s
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


def first_hit(candidate: Candidate, guards: tuple[Rule, ...] = GUARDS) -> Held | None:
    """Return what holds a candidate back; None when it may be removed."""
    for guard in guards:
        hit = guard(candidate)
        if hit is not None:
            name, message, requeue_after_s = hit
            return Held(
                instance_id=candidate.instance_id,
                member_id=candidate.member.member_id,
                guard=name,
                message=message,
                requeue_after_s=requeue_after_s,
            )
    return None
