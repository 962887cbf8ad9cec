"""The evidence chain: every incarnation of an instance id, each with its death certificate or none.

A described member cannot be linked to the pod it came from (a classic static rejoin keeps client.id and
client.host of the *first* incarnation). The chain does without that link: if every process that can hold
an id is known and each is proven dead, then whoever holds the id is dead, whichever of them it was.

An incarnation is one pod UID. It is LIVE while its object exists uncertified, DEAD once a certificate was
seen (stable), and SUSPECT when its object is gone without one. The functions here fold object versions into
incarnations; `judge` gives the verdict over a chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from ...api import remedies
from ...api.identifiers import may_become
from .certificate import Certificate, RefusalReason, certify, certify_unbound, lost_run
from .pod import NodeView, PodVersion
from .reaping import ReapDoubt, due_s, lasting_doubt, longest_grace_s, stronger_doubt, told_grace_s
from .run import ContainerRun, followed
from .spans import CLOCKS_APART_S, BlindSpan, EditablePod, SpanReason

UNCERTAIN = "the pod watch is not complete, or the StatefulSet and the StaticGroup could not be read since it is"
"""Why nothing is known of the time before now."""
_EXPIRES = "the member leaves when its session expires"


class IncarnationState(StrEnum):
    """What is known of one pod UID."""

    LIVE = "Live"
    DEAD = "Dead"
    SUSPECT = "Suspect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incarnation:
    """One pod UID as far as the watch has shown it.

    Parameters
    ----------
    instance_ids: union of all ids any version carried; ids are never dropped from an incarnation.
    certificate: the proof of death; None unless DEAD.
    refusal: the clause that stands against a certificate, for `explain`; "" when none was asked.
    refusal_reason: its kind, a `RefusalReason`; "" when none was asked in this process.
    since_s: when the present state was entered, seconds since the Unix epoch, operator's clock.
    resource_version: of the version last folded.
    object_present: False once the watch said DELETED or a complete LIST did not show it.
    from_birth: the watch delivered every version of this UID from its first.
    runs_known: whatever is not among `started_containers` never ran.
    ids_are_fixed: in every version that was folded; see `PodVersion`.
    started_containers: names of the containers of which any version showed a run; they only accumulate.
    has_lost: some version before the pod ended showed a run that its kubelet had lost.
    session_timeouts_ms: what its containers started with, as far as it shows; see `PodVersion`.
    runs_seen: of each container that may hold an id; forgotten at a restart.
    grace_s: the longest time that its kubelet may let it end by itself; None when no version told.
    ends_by_s: when its deletion should have been over, seconds since the Unix epoch; None while none was asked for.
    reap_doubt: why its kubelet's work after the vanish proves nothing, a `ReapDoubt`; "" when nothing stands against that.
    owed: what the node of a suspect has not shown yet, and since when, for people; "" when nobody has looked.
    bound_at_s: when it was bound to its node, by the API server's clock; 0.0 when that was not seen.
    provider: of that Node, see `NodeView`.
    addresses: its own, as it showed them last; shown_at_s: since when, operator's clock, seconds since the Unix epoch.
    ended_no: which certificate of this process it got, counted from 1; 0 for one that no watch brought.
    node_uid: of the Node object that had the name of its node when it was seen there last, not out of service; "" when none was known.
    """

    namespace: str
    pod_name: str
    uid: str
    instance_ids: frozenset[str]
    node_name: str
    state: IncarnationState
    since_s: float
    resource_version: int
    certificate: Certificate | None = None
    refusal: str = ""
    refusal_reason: str = ""
    object_present: bool = True
    from_birth: bool = False
    runs_known: bool = False
    started_containers: frozenset[str] = frozenset()
    has_lost: bool = False
    runs: bool = False
    ready_since_s: float | None = None
    is_deleting: bool = False
    created_at_s: float = 0.0
    restarts: int = 0
    ids_are_fixed: bool = False
    session_timeouts_ms: tuple[int, ...] = ()
    runs_seen: tuple[ContainerRun, ...] = ()
    grace_s: int | None = None
    ends_by_s: float | None = None
    reap_doubt: str = ""
    owed: str = ""
    bound_at_s: float = 0.0
    node_uid: str = ""
    provider: str = ""
    addresses: tuple[str, ...] = ()
    shown_at_s: float = 0.0
    ended_no: int = 0

    @property
    def placed_at_s(self) -> float:
        """When it came to its node, or earlier, by the API server's clock; 0.0 when that is not known."""
        return max(self.created_at_s, self.bound_at_s)


def fold(
    known: Incarnation | None, version: PodVersion, node: NodeView | None, *, from_birth: bool, runs_known: bool = False,
    now_s: float,
) -> Incarnation:
    """Fold one object version into what is known of its incarnation.

    Parameters
    ----------
    known: the incarnation so far; None when this UID is new.
    from_birth: True when nothing of a new UID can have been missed before this version.
    runs_known: True when no run can have been missed before it; so it is where nothing can.
    now_s: operator's clock, seconds since the Unix epoch.

    Notes
    -----
    A certificate is stable: later versions never take it back, but for that of a gone object, since it exists after all. Ids
    only accumulate. A session timeout may follow an annotation, which a container reads when it starts.
    """
    base = known or _begun(version, from_birth=from_birth, now_s=now_s)
    is_under_way = bool(base.started_containers) and version.restart_count <= base.restarts
    seen = replace(
        base,
        session_timeouts_ms=base.session_timeouts_ms if is_under_way else version.session_timeouts_ms,
        instance_ids=base.instance_ids | version.instance_ids,
        node_name=version.node_name or base.node_name,
        resource_version=max(base.resource_version, version.resource_version),
        object_present=True,
        started_containers=base.started_containers | version.started_containers,
        has_lost=base.has_lost or (not version.is_terminal and lost_run(version)),
        runs=version.runs,
        ready_since_s=version.ready_since_s,
        is_deleting=version.is_deleting,
        restarts=version.restart_count,
        runs_known=base.runs_known or base.from_birth or runs_known,
        ids_are_fixed=base.ids_are_fixed and version.ids_are_fixed,
        runs_seen=followed(base.runs_seen, version, node, now_s=now_s),
        grace_s=longest_grace_s(base.grace_s, told_grace_s(version)),
        ends_by_s=due_s(base.ends_by_s, version, now_s),
        reap_doubt=stronger_doubt(base.reap_doubt, lasting_doubt(version)),
        bound_at_s=_bound_at_s(known, version),
        node_uid=(named_node_uid(node) if version.node_name else "") or base.node_uid,
        provider=(node.provider if node is not None and version.node_name else "") or base.provider,
        addresses=version.addresses or base.addresses,
        shown_at_s=now_s if version.addresses and version.addresses != base.addresses else base.shown_at_s,
    )
    if seen.certificate is not None and not seen.certificate.is_of_gone:
        return seen
    verdict = certify(version, node, started=seen.started_containers, runs_known=seen.runs_known, has_lost=seen.has_lost)
    if isinstance(verdict, Certificate):
        return died(replace(seen, since_s=now_s), verdict)
    since_s = seen.since_s if seen.state is IncarnationState.LIVE else now_s
    return replace(
        seen, state=IncarnationState.LIVE, certificate=None, refusal=verdict.clause,
        refusal_reason=verdict.reason.value, since_s=since_s,
    )


def named_node_uid(node: NodeView | None) -> str:
    """Return the uid of the Node that a pod is seen on, "" of one that is out of service: whether the pod came to it since then is not known."""
    return node.uid if node is not None and not node.is_out_of_service else ""


def _bound_at_s(known: Incarnation | None, version: PodVersion) -> float:
    """Return when a pod was bound, which is certain only where it was seen without a node before.

    Notes
    -----
    Then the API server wrote the condition PodScheduled with the binding; of a pod that was made with a node its kubelet does, by its
    own clock.
    """
    if known is None or known.node_name or not known.from_birth:
        return 0.0 if known is None else known.bound_at_s
    return (version.scheduled_at_s or 0.0) if version.node_name else 0.0


def _begun(version: PodVersion, *, from_birth: bool, now_s: float) -> Incarnation:
    """Return what is known of a new UID before its first version is folded."""
    return Incarnation(
        namespace=version.namespace,
        pod_name=version.name,
        uid=version.uid,
        instance_ids=frozenset(),
        node_name="",
        state=IncarnationState.LIVE,
        since_s=now_s,
        resource_version=version.resource_version,
        from_birth=from_birth,
        created_at_s=version.created_at_s,
        ids_are_fixed=version.ids_are_fixed,
    )


def died(known: Incarnation, proof: Certificate) -> Incarnation:
    """Return the incarnation with the proof of its end, in place of what stood against one."""
    return replace(
        known, state=IncarnationState.DEAD, certificate=proof, refusal="", refusal_reason="", runs=False, owed=""
    )


def vanish(known: Incarnation, *, last: PodVersion | None = None, now_s: float) -> Incarnation:
    """Record that the object is gone; without a certificate the incarnation becomes a suspect.

    Parameters
    ----------
    last: the version in the watch's DELETED event, after which there is none; None when only the absence is known
        (a LIST does not show the object), so that what happened before it went was not seen.
    """
    if known.state is IncarnationState.DEAD:
        return replace(known, object_present=False)
    if known.state is IncarnationState.SUSPECT:
        return known
    gone = replace(known, state=IncarnationState.SUSPECT, object_present=False, from_birth=False, runs_known=False, since_s=now_s)
    if last is not None:
        verdict = certify_unbound(last, ever_bound=bool(known.node_name))
        if isinstance(verdict, Certificate):
            return died(gone, verdict)
    return replace(
        gone,
        reap_doubt=_reap_doubt(known, last, now_s),
        refusal=f"its object vanished uncertified: {known.refusal or 'its end was not seen'}",
        refusal_reason=known.refusal_reason or RefusalReason.END_UNSEEN.value,
    )


def _reap_doubt(known: Incarnation, last: PodVersion | None, now_s: float) -> str:
    """Say why the work of its kubelet after the vanish will prove nothing; "" when nothing stands against that."""
    if known.reap_doubt:
        return known.reap_doubt
    if last is None:
        return ReapDoubt.END_UNSEEN.value
    is_stuck = known.ends_by_s is not None and now_s >= known.ends_by_s
    return ReapDoubt.STUCK.value if is_stuck else ""


class ChainClause(StrEnum):
    """Why a chain does or does not prove an id dead; first hit wins."""

    GAP = "WatchGap"
    UNSEEN = "NoIncarnationSeen"
    LIVE = "LiveIncarnation"
    NAMESAKE = "LiveNamesake"
    SUSPECT = "SuspectIncarnation"
    PROVEN = "AllIncarnationsDead"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainVerdict:
    """The verdict over the chain of one id; `is_proven` only for `ChainClause.PROVEN`.

    Parameters
    ----------
    sentence, remedy: what the chain shows, and what a person can do about it; "" when nothing.
    incarnations: those that can hold the id, or may.
    ruled_out: live pods of the name that can never hold it; they are no part of the evidence.
    """

    clause: ChainClause
    sentence: str
    remedy: str = ""
    incarnations: tuple[Incarnation, ...] = ()
    ruled_out: tuple[Incarnation, ...] = ()

    @property
    def is_proven(self) -> bool:
        """True when every process that can hold the id is proven dead."""
        return self.clause is ChainClause.PROVEN


class Gap(NamedTuple):
    """What is not known of the history of a pod name, and what a person can do about it."""

    sentence: str
    remedy: str


def gap_of(spans: Sequence[BlindSpan], editable: Iterable[EditablePod] = ()) -> Gap:
    """Say what is not known over the last of some spans, oldest first; over no span, that nothing is.

    Parameters
    ----------
    editable: pods that live and whose ids can be edited.

    Notes
    -----
    The status has all spans; in a message they would push out what to do.
    """
    last = spans[-1] if spans else None
    before = f" and {len(spans) - 1} times before" if len(spans) > 1 else ""
    when = f"{last.words}{before}" if last is not None else UNCERTAIN
    if last is not None and last.reason == SpanReason.LEDGER_FULL:
        sentence = f"the ledger has no room for every pod that may hold one of these ids ({when})"
        way = "give the ids a {scope} or end the pods that status.ledger names, then say a word"
        return Gap(sentence, f"{_EXPIRES}, or {way}: {remedies.LIST_GAPS}")
    if last is not None and last.reason == SpanReason.SCOPE_WRITTEN:
        sentence = f"the scope was written, so a process from before this StaticGroup may hold this id ({when})"
        return Gap(sentence, f"{_EXPIRES}, or, if nothing runs that got an id with this scope before and no pod still here took another id, by a word: {remedies.LIST_GAPS}")
    doubtful = sorted({p.name for p in editable for s in spans if p.may_have_taken_ids(s)})
    if doubtful:
        sentence = f"a pod of this name may have come and gone unseen, or a living one such as {doubtful[0]} have taken this id ({when})"
        way = f"once {len(doubtful)} such pods are replaced"
    else:
        sentence = f"a pod of this name may have come and gone unseen ({when})"
        way = "if all that ran unseen then has ended and no pod still here took another id"
    return Gap(sentence, f"{_EXPIRES}, or, {way}, by a word: {remedies.LIST_GAPS}")


def judge(
    instance_id: str, incarnations: Iterable[Incarnation], *, continuous: bool, gap: Gap | None = None, namespace: str = ""
) -> ChainVerdict:
    """Judge whether every process that can hold an instance id is proven dead.

    Parameters
    ----------
    incarnations: all known pod UIDs that ever carried the id *or* have the pod name the id belongs to.
    continuous: True when no pod of the id's name can have come and gone unseen since the id could first be issued.
    gap: what is not known otherwise; None when nothing is.
    namespace: of the StaticGroup; "" when it does not matter which way out is told.

    Notes
    -----
    An empty chain proves nothing: `all([])` is true and would remove members nobody has ever seen. A live pod of the
    name holds the chain also when it was only seen with other ids: they may come from annotations, which can be edited
    and are read again when a container starts. One whose ids are fixed in every version it ever had cannot hold this id
    at all; then the carriers decide, if any was seen.
    """
    chain = tuple(sorted(incarnations, key=lambda i: i.resource_version))
    is_carried = any(instance_id in i.instance_ids for i in chain)
    ruled_out = tuple(i for i in chain if is_carried and _is_ruled_out(i, instance_id))
    chain = tuple(i for i in chain if i not in ruled_out)

    def verdict(clause: ChainClause, sentence: str, remedy: str = "") -> ChainVerdict:
        return ChainVerdict(clause=clause, sentence=sentence, remedy=remedy, incarnations=chain, ruled_out=ruled_out)

    if not continuous:
        return verdict(ChainClause.GAP, *(gap or gap_of(())))
    namesakes = [i for i in chain if _is_namesake(i, instance_id)]
    if not namesakes and not is_carried:
        return verdict(
            ChainClause.UNSEEN,
            "no pod that is remembered carried exactly this id",
            f"{_EXPIRES}; where pods set their ids themselves, let them be literals or composed of metadata.name, which can be seen",
        )
    for i in chain:
        if i.state is IncarnationState.SUSPECT:
            return verdict(
                ChainClause.SUSPECT,
                f"{_named(i)} on node {i.node_name or 'unknown'} is a suspect: {i.refusal}",
                way_out(i) if namespace in ("", i.namespace) else remedies.confirm_end_elsewhere(i.namespace),
            )
    for i in chain:
        if i.state is not IncarnationState.DEAD and i not in namesakes:
            return verdict(ChainClause.LIVE, f"{_named(i)} is not proven dead: {i.refusal}")
    if namesakes:
        carried = f"{_named(namesakes[0])} carries {min(namesakes[0].instance_ids)} now"
        sentence = f"{carried}, but while a pod of this name lives it is not assumed to be without this id"
        return verdict(ChainClause.NAMESAKE, sentence, _EXPIRES)
    others = "".join(f"; {_named(i)} cannot hold this id" for i in ruled_out)
    return verdict(ChainClause.PROVEN, f"{len(chain)} of {len(chain)} incarnations proven dead{others}")


def predates(i: Incarnation, instance_id: str, *, issued_since_s: float) -> bool:
    """True for a suspect that cannot hold an id because its object was gone before the id could be known to anybody.

    Parameters
    ----------
    issued_since_s: creation of the StaticGroup whose scope is in the id, seconds since the Unix epoch; 0.0 for ids
        without a scope, which may be as old as they like.

    Notes
    -----
    A container reads its environment when it starts, from the object that its kubelet has; without an object nobody can
    give it another id.
    """
    is_gone = i.state is IncarnationState.SUSPECT and not i.object_present
    # A pod that was made after the StaticGroup, both by the API server's clock, is younger whatever the operator's clock said.
    is_older = max(i.created_at_s, i.since_s + CLOCKS_APART_S) < issued_since_s
    return is_gone and instance_id not in i.instance_ids and is_older


def way_out(suspect: Incarnation) -> str:
    """Say what a person who knows that the process of a suspect has ended may do."""
    return remedies.confirm_end(suspect.namespace)


def _named(i: Incarnation) -> str:
    return f"pod {i.namespace}/{i.pod_name} (uid {i.uid})"


def _is_namesake(i: Incarnation, instance_id: str) -> bool:
    """True for a live pod that was only ever seen with other ids, as those of a later template; one without any may have it."""
    return i.state is IncarnationState.LIVE and bool(i.instance_ids) and instance_id not in i.instance_ids


def _is_ruled_out(i: Incarnation, instance_id: str) -> bool:
    """True for a namesake of which every version was seen, each with ids that nobody can change while the pod lives."""
    # Whatever the spec expects of it, a client may append more to what its pod carries.
    is_begun = any(may_become(carried, instance_id) for carried in i.instance_ids)
    return _is_namesake(i, instance_id) and i.from_birth and i.ids_are_fixed and not is_begun
