"""What one round sees of one StaticGroup and its surroundings, and what is remembered between rounds.

`runtime.gather` fills a Snapshot in an order that the safety argument depends on (describe, then consistent reads,
then the watch barrier); `plan` reads nothing else. A Snapshot can be written to a file and planned again:
`staticgroup plan -f snapshot.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..api.ordinals import Ordinals
from ..api.resources.memory import LeftOnCloseMemory
from .absences.samples import Cause, Reservoir
from .evidence.chain import KnownPod
from .findings import Obstacle
from .group import BrokerBounds, GroupView, KafkaProblem
from .members.memory import SETTLE_MIN_S, Members, Sight
from .timeouts.desired import Advice, TimeoutHysteresis
from .timeouts.group_config import GroupConfigRecord
from .workload import WorkloadView


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshRead:
    """What the API server said about one departed or crashed seat *after* the group was described.

    Parameters
    ----------
    is_expected: the workload, read consistently, wants this ordinal.
    objects: name and uid of each pod object that has a pod name of the seat and may hold its id; () for none.
    resource_version: of that consistent read, the newest of several.
    barrier_passed: the pod watch was brought up to `resource_version` afterwards, in every namespace it may follow.
    """

    is_expected: bool
    objects: tuple[tuple[str, str], ...]
    resource_version: int
    barrier_passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was gathered about one departed or crashed seat after the group was described.

    Parameters
    ----------
    chain: every known pod that may hold its id.
    fresh: the consistent reads; a seat without them is not acted upon.
    """

    chain: tuple[KnownPod, ...] = ()
    fresh: FreshRead | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything `plan` may know of the world in one round.

    Parameters
    ----------
    workload: None when the StatefulSet does not exist, or cannot be read.
    workload_problem: why it cannot be read; "" when it was read, or found not to exist.
    is_workload_unfit: it was read, and is not as a workload of its kind must be.
    age_s: of the StaticGroup, since its metadata.creationTimestamp, seconds.
    pods: present pods that the workload owns, by ordinal name.
    known: every pod that the watch has seen under the workload's name, present or gone.
    others: pods of other names or namespaces that may live and have carried an id of ours; read only while an earlier
        template is remembered, and, of any name, before the first id with a written scope is issued.
    group: the group as described; a KafkaProblem when it could not be read completely.
    evidence: by the key of each departed seat, and of each whose pod has had a crash.
    described_at_s: when the group was asked for, operator's clock, seconds since the Unix epoch; 0.0: not needed.
    watch: name of the pod watch; "" while it is not whole.
    carried_elsewhere: ids of members that a pod carries as they are, which is no seat of the workload.
    copies: live pods that are no seat of the workload and carry an id that it calls for and nobody else can issue.
    cluster_uid: uid of the kube-system namespace.
    overlaps: other StaticGroups (namespace/name) that claim the same ids of the same group.
    prior_claims: why an id that the next pods would get is another StaticGroup's: sentences without a full stop.
    collisions: what other StaticGroups would write into the same pods too.
    policy_served: the API server serves MutatingAdmissionPolicy v1 and ours is installed.
    webhook_served: our MutatingWebhookConfiguration is installed and trusts the operator's certificate.
    advice: what the fleet learner recommends for the group; None while recommendations are not read.
    asked_by_others_ms: longest session timeout that other StaticGroups of the group want for its setting; 0: none.
    unheard: those of them that have not said it yet.
    sight: what is known of the pods that may hold members; None before ids are issued.
    settle_least_s: the shortest silence of a suspect after which it is dropped for members to come, seconds.
    partitions: how many partitions each subscribed topic has, but those that do not exist, or may not be described;
        None where that is not known, or nobody's subscription is.
    scope: of the ids that are issued; "" before the first ones.
    watch_no: which watch this process has of the pods, see `PodBook`.
    slot_obstacle: why no pod of a Deployment can be given an id, a sentence without a full stop; "" where it can.
    is_word_refused: the ClusterKafkaConnection accepts no claim of the user that ids are theirs alone, neither by
        `assumeExclusive` nor by a scope that was not drawn for their StaticGroup.
    """

    namespace: str
    name: str
    uid: str
    metadata_generation: int
    workload: WorkloadView | None
    pods: tuple[KnownPod, ...]
    group: GroupView | KafkaProblem
    workload_problem: str = ""
    is_workload_unfit: bool = False
    bounds: BrokerBounds = field(default_factory=BrokerBounds)
    age_s: float = 0.0
    known: tuple[KnownPod, ...] = ()
    others: tuple[KnownPod, ...] = ()
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    described_at_s: float = 0.0
    watch: str = ""
    carried_elsewhere: frozenset[str] = frozenset()
    copies: tuple[KnownPod, ...] = ()
    cluster_uid: str = ""
    overlaps: tuple[str, ...] = ()
    prior_claims: tuple[str, ...] = ()
    collisions: tuple[Obstacle, ...] = ()
    policy_served: bool = True
    webhook_served: bool = False
    advice: Advice | None = None
    asked_by_others_ms: int = 0
    unheard: tuple[str, ...] = ()
    sight: Sight | None = None
    settle_least_s: float = SETTLE_MIN_S
    is_word_refused: bool = False
    partitions: Mapping[str, int] | None = None
    scope: str = ""
    watch_no: int = 0
    slot_obstacle: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """What the operator allows the injection to write into the next pods (status.injected); absent: nothing.

    `container`: receives the variables that name none; "" for the first one, while the pod template is not known.
    """

    scope: str
    method: str
    id_template: str
    session_timeout_ms: int | None
    container: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalRecord:
    """One acknowledged removal until its id is wanted again.

    Parameters
    ----------
    coordinator: that acknowledged the leave; another one may not know of it (a classic removal is acknowledged
        before it is durable).
    absent_since_s: since when the pair is absent under `coordinator`; None while it is still described.
    settled_at_s: when the absence was verified; None while it is not.
    """

    instance_id: str
    member_id: str
    coordinator: str
    acknowledged_at_s: float
    attempts: int = 1
    absent_since_s: float | None = None
    settled_at_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRecord:
    """One temporary leave that was sent on behalf of a crashed member, acknowledged or with its answer lost.

    Parameters
    ----------
    settled_at_s: when it was seen that the member has left, or another one holds its seat; None while it is not.
    """

    member_id: str
    settled_at_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashRecord:
    """When the process of a member was first seen to be over, while that member is in the group.

    Parameters
    ----------
    ended_at_s: by the node's clock, seconds since the Unix epoch. Later ends are those of successors that were refused.
    is_over: False while another process may be the member's.
    """

    member_id: str
    ended_at_s: float
    is_over: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatMemory:
    """What is remembered of one seat.

    Parameters
    ----------
    departed_since_s: since when it is known to be unwanted; None: wanted, or not checked. A restart loses it, which
        only lengthens holds.
    absent_since_s: since when it is wanted and nobody holds it; None: held, or not checked. A restart loses it, which
        only delays what the status says.
    sightings: (member_id, uid of the newest pod, since_s) in order of first sight; lost at a restart.
    removal: its acknowledged removal; durable; None when there is none.
    release: of the last member that was released from it; lost at a restart.
    crash: of its present holder; lost at a restart.
    replaced: (member_id of its present holder, since_s, how often in a row) where it replaced another one although the
        pod was Ready all the while; lost at a restart.
    """

    departed_since_s: float | None = None
    absent_since_s: float | None = None
    sightings: tuple[tuple[str, str, float], ...] = ()
    removal: RemovalRecord | None = None
    release: ReleaseRecord | None = None
    crash: CrashRecord | None = None
    replaced: tuple[str, float, int] | None = None


NOTHING_REMEMBERED = SeatMemory()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadTopics:
    """What is remembered of topics that members subscribe and nobody reads, see `core.consuming`.

    Parameters
    ----------
    topics: their names, in order. since_s: since when these are unread, seconds since the Unix epoch.
    rest_since_s: since when the group is at rest with everybody in it; None: it is not. A restart loses it.
    rebalanced_for, rebalanced_at_s: the topics for which a rebalance was begun last, and when; None: never.
    """

    topics: tuple[str, ...]
    since_s: float
    rest_since_s: float | None = None
    rebalanced_for: tuple[str, ...] = ()
    rebalanced_at_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What is remembered of earlier rounds.

    Parameters
    ----------
    injected, issued_ordinals, templates: durable, in the StaticGroup's status.
    fleet_timeout_ms: the fleet learner's value that classic pods get; durable too; None while it is not used.
    absences: what is kept of measured absences, by cause; durable.
    measured: the session timeout that they put in use; durable; None while the structural estimate holds.
    group_config: what the operator has set on the group; durable but for the last write.
    seats: by key, of those of which there is something to remember.
    members: who was there when each of them joined; durable.
    connect_work: how many connectors and tasks the workers of a Connect cluster held when they were last read and
        nothing was kept for a lost worker; None: not known. A restart loses it.
    unread: topics that nobody reads; durable but for the rest of the group; None while there are none.
    left_on_close: the last static member that was seen to leave when it closed; durable; None when the last one that
        was seen to close stayed.
    rebalancing_since_s: since when the group is seen not to be settled, seconds since the Unix epoch; None: it is. A
        restart loses it.
    templates_idle_since_s: since when no known id is of an earlier template, seconds since the Unix epoch.
    """

    injected: Injected | None = None
    issued_ordinals: Ordinals = field(default_factory=Ordinals)
    templates: tuple[str, ...] = ()
    fleet_timeout_ms: int | None = None
    absences: Mapping[Cause, Reservoir] = field(default_factory=dict)
    measured: TimeoutHysteresis | None = None
    group_config: GroupConfigRecord = field(default_factory=GroupConfigRecord)
    seats: Mapping[str, SeatMemory] = field(default_factory=dict)
    members: Members = field(default_factory=Members)
    templates_idle_since_s: Mapping[str, float] = field(default_factory=dict)
    connect_work: int | None = None
    unread: UnreadTopics | None = None
    rebalancing_since_s: float | None = None
    left_on_close: LeftOnCloseMemory | None = None

    @property
    def removals(self) -> tuple[RemovalRecord, ...]:
        """The acknowledged removals, oldest first; those of one second by their ids, as a status can keep the order."""
        records = [memory.removal for memory in self.seats.values() if memory.removal is not None]
        return tuple(sorted(records, key=lambda r: (int(r.acknowledged_at_s), r.instance_id)))
