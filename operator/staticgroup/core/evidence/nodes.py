"""What became of a node, and so of the processes that it ran: gone (E2), reaped (E3), rebooted (E4), swept.

A vanished object leaves a suspect, because its process may run on where nobody reaches the kubelet. These rules close it by what
its node shows afterwards. The one idea: a kubelet that starts a container of a pod which was bound after the vanish has heard of
the vanish, because it hears of pods in the order of their versions; from then on it ends what it should not run, within the grace
period of each pod. So a node is *watched over* (`Vigil`) from a consistent LIST of its pods on: first until it has caught up, then
for grace and margin, while it is Ready, renews its Lease and stays the same boot of the same machine. Times are the operator's
monotonic ones and say only that something moved; an old kubelet renews its Lease too (kubernetes/kubernetes#116485), so time
alone proves nothing. Hearing is not ending: a kill may hang on a node that looks well (containerd#13416), and a kubelet one of whose
sources of pods does not answer starts pods and ends none (kubernetes/kubernetes#15122). So the container runtime must be asked, or
somebody must have said that kubelets here end what they were told to end (`trusts_kubelet`).

A *sweep* asks the same of every node that can have run a pod which nobody saw. Of such a pod the grace period is not known, so
there the runtime must be asked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from .certificate import KUBELET_MINOR_MIN, Certificate, CertificateKind
from .chain import Incarnation, IncarnationState
from .machines import Fleet, Machine, NodeRecord, machine_of
from .node_words import no_word, owners_word, unheard
from .pod import NodeView
from .reaping import ReapDoubt, never_reaped
from .spans import CLOCKS_APART_S, BlindSpan, SpanReason

LEASE_STILL_MAX_S: Final = 40.0
"""A kubelet renews its Lease every 10 s, and the node controllers give up on it after this time."""
LOOKS_APART_MAX_S: Final = 40.0
"""What happened between two looks that lie further apart is not known."""
RENEWAL_CREDIT_MAX_S: Final = 15.0
"""Most that one renewal of a Lease says of the time before it: a kubelet that works renews it every 10 s, one that stands still does not."""
STATEMENT_MAX: Final = 300
RunningPod = tuple[str, str, str]
"""(namespace, name, uid) as a container runtime lists it."""


class NodeLifecycle(StrEnum):
    """What the deletion of a Node object says of its machine."""

    UNTRUSTED = "Untrusted"
    CLOUD = "Cloud"
    FIXED = "Fixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRules:
    """What the operator may conclude from nodes; see `runtime.process.settings`."""

    lifecycle: NodeLifecycle = NodeLifecycle.UNTRUSTED
    trusts_taint: bool = False
    reap_margin_s: float = 60.0
    asks_runtime: bool = False
    trusts_kubelet: bool = False

    @property
    def hears_kubelets(self) -> bool:
        """True when the work of a kubelet may prove that it has ended a pod."""
        return self.asks_runtime or self.trusts_kubelet

    @property
    def trusts_deletion(self) -> bool:
        """True when a Node object goes only after its machine."""
        return self.lifecycle is not NodeLifecycle.UNTRUSTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at a node: everything in it was read, consistently, after the look began.

    Parameters
    ----------
    at_s: when it began, monotonic seconds.
    view: the Node; None when there is none.
    lease: renewTime of its Lease as it stands there; "" when there is none.
    bound: uids of the pods of the served namespaces that are bound to it.
    running: those of them of which a container runs, as its kubelet says; none of which a kubelet made the object itself (static pods).
    listed: what its runtime lists; None when that was not asked.
    """

    at_s: float
    view: NodeView | None
    lease: str = ""
    bound: frozenset[str] = frozenset()
    running: frozenset[str] = frozenset()
    listed: frozenset[RunningPod] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vigil:
    """What one node has shown since something that it may run is owed a proof; all times are monotonic seconds.

    Parameters
    ----------
    uid, machine: of the node at each look.
    bound_before: uids of the pods that were bound to it at the first look; what is bound later is newer than what is owed.
    steady_since_s: since when it is Ready, renews its Lease, and its kubelet had caught up, and later by the time that no renewal
        vouches for; None while one of that lacks.
    moved_s: when its Lease was last seen to have moved.
    has_caught_up: a container of a pod that was bound later has been started.
    began_s: when its first look at this boot began.
    saw_old_boot: the same Node told of another boot of its machine for more than a moment before.
    """

    uid: str
    machine: Machine
    bound_before: frozenset[str]
    looked_s: float
    lease: str
    moved_s: float
    steady_since_s: float | None = None
    has_caught_up: bool = False
    began_s: float = 0.0
    saw_old_boot: bool = False

    @property
    def steady_s(self) -> float:
        """How long it has been steady, up to the last sign of life."""
        return 0.0 if self.steady_since_s is None else max(0.0, self.moved_s - self.steady_since_s)


def watched_over(vigil: Vigil | None, look: Look) -> Vigil | None:
    """Add one look to a vigil, or begin one; None while there is nothing to begin with.

    Notes
    -----
    It begins again with another boot: what was bound and seen before says nothing of a kubelet that lists its pods anew, from an API
    server that may be behind (kubernetes/kubernetes#59848).
    """
    view = look.view
    if view is None or not speaks(view):
        return None
    machine = machine_of(view)
    if vigil is None or _is_other(vigil, view, machine):
        return Vigil(
            uid=view.uid, machine=machine, bound_before=look.bound, looked_s=look.at_s, lease=look.lease, moved_s=look.at_s,
            began_s=look.at_s, saw_old_boot=vigil is not None and _saw_old_boot(vigil, view, machine),
        )
    has_moved = bool(look.lease) and look.lease != vigil.lease
    moved_s = look.at_s if has_moved else vigil.moved_s
    has_caught_up = vigil.has_caught_up or _starts_later_pods(vigil, look)
    is_followed = look.at_s - vigil.looked_s <= LOOKS_APART_MAX_S and look.at_s - moved_s <= LEASE_STILL_MAX_S
    is_steady = has_caught_up and view.is_ready
    steady_since_s = look.at_s
    if is_followed and vigil.steady_since_s is not None:
        steady_since_s = vigil.steady_since_s
        if has_moved:
            unseen_s = look.at_s - max(vigil.moved_s, steady_since_s)
            steady_since_s += max(0.0, unseen_s - RENEWAL_CREDIT_MAX_S)
    return replace(
        vigil, looked_s=look.at_s, lease=look.lease, moved_s=moved_s, has_caught_up=has_caught_up,
        steady_since_s=steady_since_s if is_steady else None,
    )


def speaks(view: NodeView) -> bool:
    """True for a node whose kubelet's work says anything: a real one, of 1.27 or newer, that nobody has sworn to be off."""
    is_new = view.kubelet_minor is not None and view.kubelet_minor >= KUBELET_MINOR_MIN
    return is_new and not view.is_virtual and not view.is_out_of_service


def _is_other(vigil: Vigil, view: NodeView, machine: Machine) -> bool:
    """True when a node is not the same boot of the same machine as before."""
    return (vigil.uid, vigil.machine) != (view.uid, machine)


def _saw_old_boot(vigil: Vigil, view: NodeView, machine: Machine) -> bool:
    """True when a vigil that begins again does so because the machine was booted again, now or before.

    Notes
    -----
    A kubelet may start pods a moment before its Node tells of its boot, so the boot before has to be told of for longer.
    """
    is_machine = vigil.uid == view.uid and vigil.machine.is_same(machine)
    is_old = not vigil.machine.is_boot(machine) and vigil.looked_s - vigil.began_s >= CLOCKS_APART_S
    return is_machine and (vigil.saw_old_boot or is_old)


def _starts_later_pods(vigil: Vigil, look: Look) -> bool:
    """True when a container runs of a pod that was bound after the vigil began, so its kubelet has heard of all before that."""
    return bool(look.running - vigil.bound_before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """What a node has not shown yet, in words."""

    sentence: str


def judged(
    suspect: Incarnation, fleet: Fleet, look: Look | None, vigil: Vigil | None, rules: NodeRules
) -> Certificate | Owed:
    """Judge whether what became of its node proves a suspect dead.

    Parameters
    ----------
    look: the newest one at its node; None when it could not be looked at. vigil: since the object of the suspect was gone.

    Returns
    -------
    E2Node, E3 or E4; or what is owed.
    """
    if suspect.state is not IncarnationState.SUSPECT or suspect.object_present:
        return Owed(sentence="it is no suspect")
    record = fleet.records.get(suspect.node_name)
    if record is None or fleet.clocks_apart:
        return Owed(sentence=fleet.clocks_apart or f"node {suspect.node_name or 'unknown'} was never seen")
    word = owners_word(suspect, record, fleet, look.view, rules) if look is not None else ""
    if word:
        return _certificate(CertificateKind.NODE_GONE, suspect, word)
    against = unheard(suspect, record, fleet, rules) or _no_machine(record, fleet, suspect.placed_at_s, "the pod came to it")
    against = against or _no_reaping(suspect, record, vigil, rules)
    if against or look is None:
        return Owed(sentence=against or f"node {record.name} cannot be looked at")
    against = _unsteady(record, look, vigil, (suspect.grace_s or 0) + rules.reap_margin_s)
    if against:
        return Owed(sentence=against)
    if suspect.uid in look.bound:
        return Owed(sentence="its object exists")
    if rules.asks_runtime and (look.listed is None or any(uid == suspect.uid for _, _, uid in look.listed)):
        how = "was not asked" if look.listed is None else "still lists the pod"
        return Owed(sentence=f"the container runtime of node {record.name} {how}")
    kind = CertificateKind.REBOOTED if has_rebooted(record, suspect.since_s, vigil) else CertificateKind.REAPED
    return _certificate(kind, suspect, _reaped_statement(record, kind, vigil))


def can_be_judged(suspect: Incarnation, fleet: Fleet, rules: NodeRules) -> bool:
    """True for a suspect that a look at its node may close: what is remembered speaks of its node, and does not rule that out."""
    record = fleet.records.get(suspect.node_name)
    if record is None:
        return False
    may_be_word = rules.trusts_deletion or (rules.trusts_taint and record.tainted_since_s is not None)
    if may_be_word and not no_word(suspect, record, fleet):
        return True
    return not (_no_machine(record, fleet, suspect.placed_at_s, "") or never_reaped(suspect, is_kubelet_heard=rules.hears_kubelets))


def _certificate(kind: CertificateKind, suspect: Incarnation, statement: str) -> Certificate:
    return Certificate(kind=kind, resource_version=suspect.resource_version, statement=statement[:STATEMENT_MAX])


def _no_machine(record: NodeRecord, fleet: Fleet, since_s: float, when: str) -> str:
    """Say why a Node object may have stood for another machine since a time, seconds since the Unix epoch; "" when it has not."""
    if record.gone_since_s is not None:
        return f"Node {record.name} is deleted, which says nothing of its machine"
    if not fleet.identifies(record):
        why = "another node told one of them at the same time" if record.machine.is_told else "one of them, or its boot id, is empty"
        return f"the machine id and system UUID of node {record.name} do not identify a machine: {why}"
    if record.known_since_s > since_s:
        return f"node {record.name} may have been another machine when {when}"
    if record.runtime_since_s > since_s:
        return f"node {record.name} had another container runtime when {when}, so only a reboot tells"
    return ""


def has_rebooted(record: NodeRecord, since_s: float, vigil: Vigil | None) -> bool:
    """True when the machine was booted again after an object had gone: its Node still told of the boot before then.

    Parameters
    ----------
    since_s: when the object went, seconds since the Unix epoch. vigil: since then.

    Notes
    -----
    When a boot was first heard of says nothing: the pod may have begun in it before.
    """
    is_of_record = vigil is not None and vigil.saw_old_boot and (vigil.uid, vigil.machine) == (record.uid, record.machine)
    return is_of_record or record.old_boot_until_s > since_s + CLOCKS_APART_S


def _no_reaping(suspect: Incarnation, record: NodeRecord, vigil: Vigil | None, rules: NodeRules) -> str:
    """Say why its kubelet's work would not have ended a suspect; "" when it would."""
    if never := never_reaped(suspect, is_kubelet_heard=rules.hears_kubelets):
        return never
    if suspect.reap_doubt and not has_rebooted(record, suspect.since_s, vigil):
        is_stuck = suspect.reap_doubt == ReapDoubt.STUCK
        why = "its deletion was overdue when its object went" if is_stuck else "nobody saw how its object went"
        return f"{why}, so only a reboot of node {record.name} tells"
    return ""


def _unsteady(record: NodeRecord, look: Look, vigil: Vigil | None, needed_s: float) -> str:
    """Say what a node has not shown since a vigil began; "" when it has shown all for longer than a time."""
    if look.view is None or not speaks(look.view) or vigil is None:
        return f"node {record.name} has no kubelet whose work says anything"
    if (vigil.uid, vigil.machine) != (record.uid, record.machine):
        return f"node {record.name} is not the machine any more that it was"
    if not vigil.has_caught_up:
        return f"the kubelet of node {record.name} has to start a container of a pod that is bound to it from now on"
    if vigil.steady_since_s is None:
        return f"node {record.name} has to become Ready"
    is_long = vigil.steady_s > needed_s
    return "" if is_long else f"node {record.name} has to stay Ready and renew its Lease for more than {needed_s:.0f} s"


def _reaped_statement(record: NodeRecord, kind: CertificateKind, vigil: Vigil | None) -> str:
    steady_s = vigil.steady_s if vigil is not None else 0.0
    booted = ", booted again since" if kind is CertificateKind.REBOOTED else ""
    return (
        f"node {record.name}, machine {record.machine.machine_id}, boot {record.machine.boot_id}{booted}: its kubelet has started a later "
        f"pod and worked on for {steady_s:.0f} s since"
    )


# sweeps -----------------------------------------------------------------------------------------------------------


def may_be_swept(span: BlindSpan) -> bool:
    """True for a span that a gap of the watch alone has opened, on one timeline: what others hide may run anywhere, under any name."""
    return span.reason == SpanReason.WATCH_GAP


def nodes_to_sweep(span: BlindSpan, fleet: Fleet, rules: NodeRules) -> tuple[NodeRecord, ...] | Owed:
    """Return the nodes that can have run a pod which nobody saw in a span, or why they are not all known.

    Notes
    -----
    A node that is not Ready, or cordoned, is no exception: it may have run one before, and may still.
    """
    if not rules.asks_runtime:
        return Owed(sentence="no container runtime may be asked what it runs (evidence.askRuntime)")
    if apart := fleet.clocks_apart:
        return Owed(sentence=apart)
    if not fleet.is_listed:
        return Owed(sentence="nodes cannot be listed")
    if not (rules.trusts_deletion and fleet.trusted_since_s <= span.since_s):
        if max(fleet.unbroken_since_s, fleet.complete_since_s) > span.since_s - CLOCKS_APART_S:
            return Owed(sentence="nodes may have come and gone unseen (evidence.nodeLifecycle)")
        for record in fleet.records.values():
            if record.earlier_until_s >= span.since_s - CLOCKS_APART_S:
                return Owed(sentence=f"an earlier machine of node {record.name} may still run (evidence.nodeLifecycle)")
    return tuple(r for _, r in sorted(fleet.records.items()) if can_have_run(r, span, fleet, rules))


def can_have_run(record: NodeRecord, span: BlindSpan, fleet: Fleet, rules: NodeRules) -> bool:
    """True unless a node came after a span, or was gone before it, or its machine is gone since."""
    if record.created_at_s > span.until_s + CLOCKS_APART_S:
        return False
    if record.gone_since_s is None:
        return True
    is_machine = not record.is_virtual and record.machine.is_told
    if is_machine and rules.trusts_deletion and record.gone_since_s >= fleet.trusted_since_s:
        return False
    return not record.gone_since_s < span.since_s - CLOCKS_APART_S


def swept(
    span: BlindSpan, record: NodeRecord, fleet: Fleet, look: Look | None, vigil: Vigil | None, rules: NodeRules, *,
    namespace: str, workload_name: str, known: Collection[str],
) -> str:
    """Say what a node owes before it is known that it runs no pod which nobody saw in a span; "" when it owes nothing.

    Parameters
    ----------
    look, vigil: as for `judged`; the vigil began after the span's end.
    known: uids of the pods of the workload that are in the chains, so the span does not hide them.
    """
    against = _no_machine(record, fleet, span.since_s, "the watch was interrupted")
    if against:
        return against
    if look is None:
        return f"node {record.name} cannot be looked at"
    against = _unsteady(record, look, vigil, rules.reap_margin_s)
    if against:
        return against
    if look.listed is None:
        return f"the container runtime of node {record.name} was not asked"
    hidden = sorted(hidden_pods(look.listed, span, namespace=namespace, workload_name=workload_name, known=known))
    return f"the container runtime of node {record.name} runs pod {hidden[0]}, which nobody knows" if hidden else ""


def hidden_pods(
    listed: Iterable[RunningPod], span: BlindSpan, *, namespace: str, workload_name: str, known: Collection[str]
) -> Iterable[str]:
    """Yield the names of the pods of a span's ordinals that run and are not known."""
    name = re.compile(rf"{re.escape(workload_name)}-(0|[1-9][0-9]*)")
    for place, pod_name, uid in listed:
        found = name.fullmatch(pod_name)
        if place == namespace and found and uid not in known and int(found[1]) in span.ordinals:
            yield pod_name
