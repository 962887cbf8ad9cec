"""Which earlier templates still matter: those whose ids a member holds, or a process may come to hold.

An id of a template that is forgotten is a stranger's, whom nobody removes. What must not be forgotten is that a pod may have
the id of another seat, so a template stays while anything of it can be out of sight.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ...api.identifiers import IdScheme
from ..evidence.chain import PodState
from ..group import GroupView
from ..snapshot import History, Snapshot
from .naming import Naming

RETIRED_AFTER_S: Final = 60.0
"""A coordinator that has only just taken a group over may show it without its members, and an API server may apply the template
of before for a moment."""


def without_retired(history: History, naming: Naming, snapshot: Snapshot, group: GroupView, now_s: float) -> History:
    """Return a history without the earlier templates of which nothing has been left for `RETIRED_AFTER_S`.

    Parameters
    ----------
    naming: of this history. group: read completely. now_s: seconds since the Unix epoch.
    """
    idle: dict[str, float] = {}
    if _is_all_in_sight(history, naming, snapshot, group):
        held = {m.instance_id for m in group.members if m.instance_id is not None}
        held |= {r.instance_id for r in history.removals if r.settled_at_s is None}
        living = [p for p in (*snapshot.known, *snapshot.others) if p.state is not PodState.DEAD]
        carried = {i for p in living for i in p.instance_ids}
        # Where it came from an annotation, a copy of the pod keeps it, also where the present template makes the same.
        copied = {i for p in living if not p.ids_are_fixed for i in p.instance_ids}
        idle = {
            s.template: history.templates_idle_since_s.get(s.template, now_s)
            for s in naming.schemes[1:]
            if not any(_is_only_of(s, naming.schemes[0], i) for i in held | carried)
            and all(s.appended_to(i) is None for i in copied)
        }
    kept = tuple(t for t in history.templates if now_s - idle.get(t, now_s) < RETIRED_AFTER_S)
    return replace(history, templates=kept, templates_idle_since_s=idle)


def _is_all_in_sight(history: History, naming: Naming, snapshot: Snapshot, group: GroupView) -> bool:
    """True when nothing came and went unseen, and every process that may live was given the ids of the present template."""
    return (
        group.is_settled
        and bool(snapshot.watch)
        and history.members.watch == snapshot.watch
        and not history.members.suspects
        and all(naming.gives(p) for p in snapshot.known if p.state is not PodState.DEAD)
    )


def _is_only_of(earlier: IdScheme, present: IdScheme, instance_id: str) -> bool:
    """True for an id that begins with one of an earlier template and that the present one does not explain as of the same pod."""
    begun, explained = earlier.appended_to(instance_id), present.appended_to(instance_id)
    if begun is None:
        return False
    return explained is None or explained[0] != begun[0] or len(explained[1]) > len(begun[1])
