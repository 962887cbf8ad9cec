"""What one round has to tell the journal: facts, from what is remembered of the rounds before, the snapshot, the plan and its outcomes.

Two kinds of facts need different care. A *state* (a member is departed, a removal is held or acknowledged) is told
once while it lasts; told again after a restart it has the same id, so readers drop the copy. A *change* (another
holder, a rebalance, another size) exists only between two looks: its bounds are the beginning of the look that still
saw the former state and the end of the one that saw the new. An id is built from what the world numbers itself:
pod UIDs, member ids, group epochs, generations; only where it numbers nothing, from the time of the look.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...api.journal import GroupData, MemberDown, MemberRejoined, MemberUp
from ...api.protocols import GroupProtocol
from ..group import GroupView
from ..protocols import chosen_by, told_as
from ..roles import protocol_asked_for
from .group import tell_holders, tell_rebalances
from .look import Collector, Fact, Look, Remembered, RememberedGroup, Rollout
from .pods import tell_runs
from .states import tell_releases, tell_states
from .workload import tell_timeout, tell_workload

__all__ = [
    "Fact", "Look", "Remembered", "RememberedGroup", "Rollout", "facts_of_members", "facts_of_round", "static_rejoins",
]  # fmt: skip


def facts_of_round(before: Remembered | None, look: Look) -> tuple[Remembered, tuple[Fact, ...]]:
    """Say what one round has to tell.

    Parameters
    ----------
    before: what was remembered after the last round; None at the first look of this process.

    Returns
    -------
    What to remember, and the facts in the order in which they are told.
    """
    collector = _begun(before, look)
    tell_runs(collector)
    group = look.snapshot.group
    if isinstance(group, GroupView):
        tell_rebalances(collector, group)
        tell_holders(collector, group)
        tell_states(collector, group)
        tell_releases(collector)
    tell_workload(collector)
    tell_timeout(collector)
    return replace(collector.remembered, seen_ms=look.began_ms), tuple(collector.facts)


def facts_of_members(before: Remembered | None, look: Look) -> tuple[Remembered, tuple[GroupData, ...]]:
    """Say what one round has to tell of members that end, start and come back, as `facts_of_round` does, and no more.

    Returns
    -------
    What to remember, and the facts of which absences are made (`api.journal.absences`).
    """
    collector = _begun(before, look)
    tell_runs(collector)
    group = look.snapshot.group
    if isinstance(group, GroupView):
        tell_rebalances(collector, group)
        tell_holders(collector, group)
    facts = (fact.data for fact in collector.facts)
    told = tuple(data for data in facts if isinstance(data, MemberDown | MemberUp | MemberRejoined))
    return replace(collector.remembered, seen_ms=look.began_ms), told


def static_rejoins(facts: Iterable[GroupData], wanted: frozenset[str]) -> int:
    """Count the wanted ids that came back under a new member without a rebalance, among the facts of one round.

    Notes
    -----
    KIP-345: a known instance id that rejoins a stable group gets a new member.id, and nothing rebalances. An id whose former holder
    was never seen does not count, and a holder that was replaced twice between two looks counts once.
    """
    rejoined = (fact for fact in facts if isinstance(fact, MemberRejoined))
    return sum(r.absorbed and r.previous_member_id is not None and r.instance_id in wanted for r in rejoined)


def _begun(before: Remembered | None, look: Look) -> Collector:
    """Return a collector of what one look shows beside what is remembered of the same group, if it is the same."""
    group_key = f"{look.kafka_cluster_id}/{look.spec.group_id}"
    if before is not None and (before.uid, before.group_key) != (look.snapshot.uid, group_key):
        before = None  # another StaticGroup of this name, or its connection leads to another cluster now
    known = before or Remembered(uid=look.snapshot.uid, group_key=group_key, seen_ms=look.began_ms)
    return Collector(look, replace(known, protocol=_protocol(known, look)), is_first=before is None)


def _protocol(remembered: Remembered, look: Look) -> str:
    """Return the protocol in force; an absent group says nothing, so what was known stays."""
    seen, chosen = told_as(look.snapshot.group), chosen_by(protocol_asked_for(look.spec))
    if seen is not None:
        return seen.value
    if remembered.protocol != GroupProtocol.UNKNOWN.value or chosen is None or chosen.told_as is None:
        return remembered.protocol
    return chosen.told_as.value
