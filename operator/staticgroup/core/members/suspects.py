"""Pods whose processes may live although nothing is heard of them any more.

A pod is a *suspect* when its object is gone without a certificate (a force delete, a lost node), or when its kubelet or
runtime has lost a run of it. A suspect is among the carriers of every member that joins an id it carries, because its
process may join again. When it has been silent for `settle_s` it is dropped for members to come. No time ever takes it
out of the carriers of a member.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from .carriers import Attribution

SUSPECTS_MAX: Final = 200
"""Entries of one StaticGroup above which those that carry the same ids are told as one."""
SEVERAL: Final = "several-"
"""Begins the uid of an entry that stands for several pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """One suspect, or several that are told as one.

    Parameters
    ----------
    uid: of the pod; of several, one that no pod has, so that the end of one of them does not end the entry.
    instance_ids: ids that any version of it carried, as it carried them.
    since_s: when it became one, operator's clock, seconds since the Unix epoch.
    placed_at_s: when it came to its node, or earlier, by the API server's clock, seconds since the Unix epoch; 0.0: not known.
    provider: scheme of its node's spec.providerID, such as aws; "" when not known.
    has_lost_run: a run of it was lost by its kubelet or runtime, so no later object version proves its end.
    addresses: own addresses that it was seen with.
    silent_since_s: since when every description has shown each of its seats empty or held by a member that is not its own,
        seconds since the Unix epoch; None when the last one did not. Lost at a restart, which only lengthens the wait.
    """

    uid: str
    namespace: str
    pod_name: str
    instance_ids: frozenset[str]
    since_s: float
    node_name: str = ""
    placed_at_s: float = 0.0
    provider: str = ""
    has_lost_run: bool = False
    addresses: frozenset[str] = frozenset()
    silent_since_s: float | None = None

    @property
    def is_several(self) -> bool:
        """True when this stands for several pods."""
        return self.uid.startswith(SEVERAL)


def after_description(
    suspects: Iterable[Suspect], held: Mapping[str, Attribution | None], may_hold: Callable[[Suspect, str], bool], *,
    live: Collection[str], now_s: float, is_first: bool, settle_s: float,
) -> tuple[Suspect, ...]:
    """Return the suspects that still count for members to come after one description of the group.

    Parameters
    ----------
    held: each id that a member holds, with the member's attribution; None where it has none yet.
    may_hold: whether a suspect carries an id.
    live: uids of the pods whose objects exist and have not ended.
    is_first: no description came before within a poll interval, so every silence begins anew.
    settle_s: how long a silence must last, seconds.
    """
    kept = []
    for suspect in suspects:
        if any(may_hold(suspect, i) and _may_be_of(attribution, suspect, live) for i, attribution in held.items()):
            kept.append(replace(suspect, silent_since_s=None))
            continue
        since_s = now_s if is_first or suspect.silent_since_s is None else suspect.silent_since_s
        if now_s - since_s < settle_s:
            kept.append(replace(suspect, silent_since_s=since_s))
    return tuple(kept)


def _may_be_of(attribution: Attribution | None, suspect: Suspect, live: Collection[str]) -> bool:
    """True unless it is known that a member is not of this suspect."""
    if attribution is None or attribution.is_guessed:
        return True
    return not attribution.carriers <= frozenset(live) if suspect.is_several else suspect.uid in attribution.carriers


def bounded(suspects: Iterable[Suspect]) -> tuple[Suspect, ...]:
    """Tell the suspects of one pod name and node as one, and, while there are more than SUSPECTS_MAX, those that carry the same ids.

    Notes
    -----
    So a pod that a node rejects again and again is one entry, and a flood of pods costs only the seats whose ids they carry.
    """
    found = _merged(suspects, lambda s: (s.namespace, s.pod_name, s.node_name, s.instance_ids, s.has_lost_run))
    if len(found) > SUSPECTS_MAX:
        found = _merged(found, lambda s: s.instance_ids)
    if len(found) > SUSPECTS_MAX:
        found = _merged((replace(s, instance_ids=frozenset((i,))) for s in found for i in s.instance_ids), lambda s: s.instance_ids)
    return tuple(sorted(found, key=lambda s: (s.since_s, s.uid)))


def _merged(suspects: Iterable[Suspect], key_of: Callable[[Suspect], object]) -> list[Suspect]:
    """Tell those with the same key as one."""
    groups: dict[object, list[Suspect]] = {}
    for suspect in suspects:
        groups.setdefault(key_of(suspect), []).append(suspect)
    return [_as_one(group) for group in groups.values()]


def _as_one(group: list[Suspect]) -> Suspect:
    """Return an entry that ends and settles no sooner than any of several."""
    newest = max(group, key=lambda s: (s.since_s, s.uid))
    if len(group) == 1:
        return newest
    silences = [s.silent_since_s for s in group]
    is_one_node = len({(s.node_name, s.provider) for s in group}) == 1
    of_whom = repr((newest.namespace, newest.pod_name, newest.node_name, sorted(newest.instance_ids)))
    return replace(
        newest,
        uid=SEVERAL + hashlib.sha256(of_whom.encode()).hexdigest()[:16],
        silent_since_s=None if None in silences else max(s for s in silences if s is not None),
        node_name=newest.node_name if is_one_node else "",
        placed_at_s=max(s.placed_at_s for s in group),
        has_lost_run=any(s.has_lost_run for s in group),
        addresses=frozenset(a for s in group for a in s.addresses),
    )
