"""One variant of the model: what may happen, how often, and on which assumptions."""

from __future__ import annotations

from dataclasses import dataclass, field

from .state import SUSPECTED, Left


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One variant.

    Parameters
    ----------
    says: what it is about, for the page.
    pods, scalings: most of them. left: how often each fault may happen.
    is_consumer: KIP-848 and streams groups; else a classic one.
    shows_hosts: members show the address of their pod. are_reused: the pods of the seat get one address.
        is_first_host_trusted: that of a classic member is believed where the description before showed the seat empty,
            which the product does not do.
    starts_empty: it begins before the first pod; else one runs, and holds the seat. has_backup: somebody has a copy of
        the first status.
    pauses: descriptions may be further apart than a poll interval.
    holds_a1, holds_a2: the assumptions. What they do not hold for is counted apart.
    is_deep: only searched in the long form.
    is_late: leaves may be carried out at any later time, also those of a deposed leader.
    has_barrier, follows_status: False in mutants of the order of steps.
    states_max: gives up after so many.
    """

    name: str
    says: str
    pods: int = 2
    scalings: int = 1
    left: Left = field(default_factory=Left)
    is_consumer: bool = False
    shows_hosts: bool = False
    are_reused: bool = False
    is_first_host_trusted: bool = False
    starts_empty: bool = False
    has_backup: bool = False
    pauses: bool = False
    holds_a1: bool = True
    holds_a2: bool = True
    is_deep: bool = False
    has_barrier: bool = True
    follows_status: bool = True
    adopts_always: bool = False
    is_late: bool = False
    states_max: int = 1_000_000

    def are_silent(self, silenced: int) -> bool:
        """Whether a process that an assumption silences stays silent."""
        return self.holds_a2 if silenced == SUSPECTED else self.holds_a1
