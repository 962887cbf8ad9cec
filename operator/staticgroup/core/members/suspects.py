"""Pods whose processes may live although nothing is heard of them any more.

A pod is a *suspect* when its object is gone without a certificate (a force delete, a lost node), or when its kubelet or
runtime has lost a run of it. A suspect is among the carriers of every member that joins an id it carries, because its
process may join again. When it has been silent for `settle_s` it is dropped for members to come. No time ever takes it
out of the carriers of a member.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from .carriers import Attribution


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """One suspect.

    Parameters
    ----------
    instance_ids: ids that any version of it carried, as it carried them.
    since_s: when it became one, operator's clock, seconds since the Unix epoch.
    node_name: "" where the absence of that Node would say nothing: it was never seen, or another machine has taken it over.
    placed_at_s: when it came to its node, by the API server's clock, seconds since the Unix epoch; 0.0: not known.
    provider: scheme of its node's spec.providerID, such as aws; "" when not known.
    lost_boot: a run of it was lost by its kubelet or runtime during this boot of its node, "unknown" for one that is not known, so no
        later object version proves its end; "" when none was.
    addresses: own addresses that it was seen with.
    silent_since_s: since when every description has shown each of its seats empty or held by a member that is not its own, monotonic
        seconds; None when the last one did not. Lost at a restart, which only lengthens the wait.
    """

    uid: str
    namespace: str
    pod_name: str
    instance_ids: frozenset[str]
    since_s: float
    node_name: str = ""
    placed_at_s: float = 0.0
    provider: str = ""
    lost_boot: str = ""
    addresses: frozenset[str] = frozenset()
    silent_since_s: float | None = None

    @property
    def case(self) -> str:
        """Name this suspicion: a pod that is there again and gone again is another one."""
        return f"{self.uid}@{self.since_s}@{self.lost_boot}"


def after_description(
    suspects: Iterable[Suspect], held: Mapping[str, Attribution | None], may_hold: Callable[[Suspect, str], bool], *,
    present: Collection[str], now_s: float, is_first: bool, settle_s: float,
) -> tuple[Suspect, ...]:
    """Return the suspects that still count for members to come after one description of the group.

    Parameters
    ----------
    held: each id that a member holds, with the member's attribution; None where it has none yet.
    may_hold: whether a suspect carries an id.
    present: uids of those whose objects exist: as long as one does, nobody forgets that a run of it was lost.
    now_s: monotonic seconds.
    is_first: no description came before within a poll interval, so every silence begins anew.
    settle_s: how long a silence must last, seconds.
    """
    kept = []
    for suspect in suspects:
        if suspect.uid in present or any(may_hold(suspect, i) and _may_be_of(attribution, suspect) for i, attribution in held.items()):
            kept.append(replace(suspect, silent_since_s=None))
            continue
        since_s = now_s if is_first or suspect.silent_since_s is None else suspect.silent_since_s
        if now_s - since_s < settle_s:
            kept.append(replace(suspect, silent_since_s=since_s))
    return tuple(kept)


def _may_be_of(attribution: Attribution | None, suspect: Suspect) -> bool:
    """True unless it is known that a member is not of this suspect."""
    return attribution is None or attribution.is_guessed or suspect.uid in attribution.carriers
