"""Which machine a Node object stands for, and since when no other one can have stood for it.

A Node object is a name that kubelets register under. A replaced machine takes the object of the one before over, so what a
kubelet does now says something of a process only where it is known that the object stood for this machine, and for no other,
since before the process can have begun. What is remembered here is written down (`kube/nodes/records.py`): a ledger that is lost
knows a machine since now, so it proves less and never more. That one machine id and system UUID run once at a time is taken for
granted: whoever starts a copy of a machine, or the same one elsewhere, ends the first one before.

Source: kubelet_node_status.go (tryUpdateNodeStatus overwrites nodeInfo of an existing Node), cadvisor's MachineInfo (machine id,
system UUID and boot id are read when a kubelet starts).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from .pod import NodeView
from .spans import CLOCKS_APART_S

NODES_MAX: Final = 10_000
"""Nodes that are remembered, those that are gone included; the oldest of these go first."""
CLOCK_APART_MAX_S: Final = 30.0
"""What is remembered of nodes is dated by the operator's clock and pods are by the API server's, so with more nothing is concluded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One machine since it was booted, as its kubelet tells; texts that are "" or nothing but zeros identify nothing.

    Parameters
    ----------
    runtime: which container runtime serves it, without its version. Another one knows nothing of what the first one runs on with.
    """

    machine_id: str
    system_uuid: str
    boot_id: str
    runtime: str = ""

    @property
    def is_told(self) -> bool:
        """True when all three identify something."""
        return all(text.strip("0-") for text in (self.machine_id, self.system_uuid, self.boot_id))

    def is_same(self, other: Machine) -> bool:
        """True for the same machine, booted again or not."""
        return (self.machine_id, self.system_uuid) == (other.machine_id, other.system_uuid)

    def is_boot(self, other: Machine) -> bool:
        """True for the same boot of the same machine, whatever runtime serves it."""
        return self.is_same(other) and self.boot_id == other.boot_id


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """The newest Node object of a name; all times are seconds since the Unix epoch.

    Parameters
    ----------
    created_at_s: metadata.creationTimestamp.
    known_since_s: from here on the object has stood for this machine and no other.
    boot_since_s: when this boot was first heard of, which may be long after it began.
    old_boot_until_s: the Node still told of the boot before at this time, at least; 0.0: of none.
    runtime_since_s: from here on no other container runtime has served this boot; 0.0: none ever has.
    earlier_until_s: when an earlier object of the name, or an earlier machine of this object, was still there as far as is known; 0.0:
        none is known.
    tainted_since_s: when it was put out of service, by the API server's clock; 0.0 when that was not seen, None while it is not.
    gone_since_s: when it was first known to be gone; None while it is there.
    """

    name: str
    uid: str
    machine: Machine
    created_at_s: float
    known_since_s: float
    boot_since_s: float
    earlier_until_s: float = 0.0
    old_boot_until_s: float = 0.0
    runtime_since_s: float = 0.0
    is_virtual: bool = False
    tainted_since_s: float | None = None
    gone_since_s: float | None = None

    @property
    def other_until_s(self) -> float:
        """When another object, machine or container runtime was there under this name, as far as is known; 0.0: none is."""
        return max(self.earlier_until_s, self.runtime_since_s - CLOCKS_APART_S, 0.0)


def machine_of(view: NodeView) -> Machine:
    """Return what a Node object says of its machine; one text in any case and with or without hyphens is one."""
    machine_id, system_uuid, boot_id = (t.strip().lower().replace("-", "") for t in (view.machine_id, view.system_uuid, view.boot_id))
    return Machine(machine_id=machine_id, system_uuid=system_uuid, boot_id=boot_id, runtime=view.runtime.strip().lower())


def seen(
    known: NodeRecord | None, view: NodeView, *, is_birth: bool = False, is_next: bool = False, shown_until_s: float = 0.0, now_s: float
) -> NodeRecord:
    """Add one version of a Node object to what is remembered of its name.

    Parameters
    ----------
    is_birth: it is the first version of its object, as an unbroken watch tells.
    is_next: it is the one that follows the version which was added last, likewise.
    shown_until_s: what was added last was still so at this time, at least; 0.0 when that is not known.
    now_s: operator's clock, seconds since the Unix epoch.

    Notes
    -----
    A machine that is there before and after a gap is taken to have been it all the while, booted again or not: that another one took
    its name over and gave it back in one interruption is the one thing that is not known. What is new is so since now, or since the
    version was written if that is later: so a clock of ours that is slow proves nothing.
    """
    machine, at_s = machine_of(view), max(now_s, view.written_at_s)
    since_s = view.created_at_s if is_birth and view.created_at_s else at_s + CLOCKS_APART_S
    fresh = NodeRecord(
        name=view.name, uid=view.uid, machine=machine, created_at_s=view.created_at_s, known_since_s=since_s, boot_since_s=at_s,
        is_virtual=view.is_virtual, tainted_since_s=0.0 if view.is_out_of_service else None,
    )
    if known is None:
        return fresh
    is_virtual = known.is_virtual or view.is_virtual
    if known.uid != view.uid:
        until_s = known.gone_since_s if known.gone_since_s is not None else at_s
        return replace(fresh, earlier_until_s=max(known.earlier_until_s, until_s), is_virtual=is_virtual)
    tainted_since_s = _tainted_since_s(known, view, is_next=is_next, now_s=now_s)
    if known.machine.is_same(machine):
        return replace(_booted(known, machine, shown_until_s, at_s), tainted_since_s=tainted_since_s, is_virtual=is_virtual, gone_since_s=None)
    return replace(
        fresh, known_since_s=at_s + CLOCKS_APART_S, earlier_until_s=at_s, tainted_since_s=tainted_since_s, is_virtual=is_virtual,
    )


def _tainted_since_s(known: NodeRecord, view: NodeView, *, is_next: bool, now_s: float) -> float | None:
    """Return since when a node is out of service: only the version that follows one without the taint tells that."""
    if not view.is_out_of_service:
        return None
    if known.tainted_since_s is not None:
        return known.tainted_since_s
    return min(now_s, view.written_at_s) if is_next else 0.0


def _booted(known: NodeRecord, machine: Machine, shown_until_s: float, at_s: float) -> NodeRecord:
    """Return what is remembered of the same machine with the boot and the runtime that it has now."""
    if known.machine.boot_id != machine.boot_id:  # whatever an earlier runtime ran has ended with its boot
        return replace(known, machine=machine, boot_since_s=at_s, old_boot_until_s=shown_until_s, runtime_since_s=0.0)
    runtime_since_s = known.runtime_since_s if known.machine.runtime == machine.runtime else at_s + CLOCKS_APART_S
    return replace(known, machine=machine, runtime_since_s=runtime_since_s)


def gone(known: NodeRecord, *, now_s: float) -> NodeRecord:
    """Note that the object is not there any more."""
    return known if known.gone_since_s is not None else replace(known, gone_since_s=now_s)


def merged(mine: NodeRecord, written: NodeRecord, *, now_s: float) -> NodeRecord:
    """Return what two processes know together of one name.

    Parameters
    ----------
    mine: what this process knows, by its own sight. written: what is written down. now_s: as for `seen`.

    Notes
    -----
    Both know what they saw. So where the same object stands for the same machine the longer knowledge holds, but not from before either
    of them last saw another machine there; where it does not, what was written down may have been there until now.
    """
    earlier_until_s = max(mine.earlier_until_s, written.earlier_until_s)
    is_virtual = mine.is_virtual or written.is_virtual
    if mine.uid != written.uid or not mine.machine.is_same(written.machine):
        is_gone = mine.uid != written.uid and written.gone_since_s is not None
        until_s = written.gone_since_s if is_gone and written.gone_since_s is not None else now_s
        return _later(replace(mine, is_virtual=is_virtual), max(earlier_until_s, until_s))
    tainted = [s for s in (mine.tainted_since_s, written.tainted_since_s) if s]
    known_since_s = min(mine.known_since_s, written.known_since_s)
    both = replace(
        mine, known_since_s=known_since_s, is_virtual=is_virtual,
        tainted_since_s=None if mine.tainted_since_s is None else min(tainted, default=0.0),
    )
    return _later(_with_boot_of(both, written, now_s), earlier_until_s)


def _later(record: NodeRecord, earlier_until_s: float) -> NodeRecord:
    """Return a record that knows its machine from after another one was last there under its name."""
    since_s = earlier_until_s + CLOCKS_APART_S if earlier_until_s else 0.0
    return replace(record, earlier_until_s=earlier_until_s, known_since_s=max(record.known_since_s, since_s))


def _with_boot_of(mine: NodeRecord, written: NodeRecord, now_s: float) -> NodeRecord:
    """Return a record with what was written down of the boots of the same machine."""
    if not mine.machine.is_boot(written.machine):
        return mine
    runtime_since_s = max(mine.runtime_since_s, written.runtime_since_s)
    return replace(
        mine,
        boot_since_s=min(mine.boot_since_s, written.boot_since_s),
        old_boot_until_s=max(mine.old_boot_until_s, written.old_boot_until_s),
        runtime_since_s=runtime_since_s if mine.machine == written.machine else now_s + CLOCKS_APART_S,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """All nodes that are remembered, present and gone.

    Parameters
    ----------
    timeline_since_s: the API server of this cluster has not gone back in time since, as far as is written down, seconds since the Unix epoch.
    trusted_since_s: since when a deleted Node says that its machine is gone, likewise; infinite while it does not.
    clock_apart_s: by how much the operator's clock differs from the API server's.
    complete_since_s: nodes that went before are not all remembered, seconds since the Unix epoch.
    unbroken_since_s: nodes that came and went since were all seen, likewise.
    is_listed: every node that exists is among them.
    shared: as `shared_texts` gives them; None: they are looked for at each question.
    """

    records: dict[str, NodeRecord] = field(default_factory=dict)
    complete_since_s: float = 0.0
    unbroken_since_s: float = float("inf")
    is_listed: bool = False
    shared: frozenset[str] | None = None
    timeline_since_s: float = float("inf")
    trusted_since_s: float = float("inf")
    clock_apart_s: float = 0.0

    @property
    def clocks_apart(self) -> str:
        """Say that the operator's clock is wrong, or the API server's; "" while they agree."""
        is_apart = abs(self.clock_apart_s) > CLOCK_APART_MAX_S
        return f"the clocks of operator and API server differ by more than {CLOCK_APART_MAX_S:.0f} s: set them" if is_apart else ""

    def identifies(self, record: NodeRecord) -> bool:
        """True when the machine of a record is told, and no two nodes told its machine id or its system UUID at one time."""
        shared = shared_texts(self.records.values()) if self.shared is None else self.shared
        return record.machine.is_told and shared.isdisjoint((record.machine.machine_id, record.machine.system_uuid))


def shared_texts(records: Iterable[NodeRecord]) -> frozenset[str]:
    """Return the machine ids and system UUIDs that more than one node told at one time.

    Notes
    -----
    A machine that is installed anew or renamed tells one of them, or both, under another name once its earlier Node is gone.
    """
    told_until_s: dict[str, float] = {}
    shared: set[str] = set()
    for r in sorted(records, key=lambda r: r.created_at_s):
        until_s = float("inf") if r.gone_since_s is None else r.gone_since_s
        for text in {r.machine.machine_id, r.machine.system_uuid}:
            before_s = told_until_s.get(text)
            if before_s is not None and before_s >= r.created_at_s:
                shared.add(text)
            told_until_s[text] = max(until_s, before_s or 0.0)
    return frozenset(shared)


def bounded(records: dict[str, NodeRecord], *, limit: int = NODES_MAX) -> tuple[dict[str, NodeRecord], float]:
    """Drop the nodes that are gone for longest where there are too many.

    Returns
    -------
    What is left, and until when nodes went that are dropped, seconds since the Unix epoch; 0.0 when none are.
    """
    surplus = len(records) - limit
    if surplus <= 0:
        return records, 0.0
    left = sorted((r for r in records.values() if r.gone_since_s is not None), key=lambda r: r.gone_since_s or 0.0)[:surplus]
    dropped = {r.name for r in left}
    return {n: r for n, r in records.items() if n not in dropped}, max((r.gone_since_s or 0.0 for r in left), default=0.0)
