"""How long a node counts as steady: no longer than its renewals vouch for."""

from __future__ import annotations

import pytest

from staticgroup.core.evidence.nodes import LEASE_STILL_MAX_S, RENEWAL_CREDIT_MAX_S, Vigil
from unit.core.test_nodes import look, shown


def steady_s(*at_s: float) -> float:
    """Return for how long a node was steady that has caught up at 5 s, and renewed its Lease before each of these looks."""
    vigil: Vigil | None = shown(look(0.0), look(5.0, "new"), *(look(at, "new") for at in at_s))
    assert vigil is not None
    return vigil.steady_s


def test_a_node_whose_renewals_are_seen_is_steady_all_the_while() -> None:
    assert steady_s(*(15.0 + 10 * n for n in range(12))) == 120.0
    assert steady_s(*(20.0 + 15 * n for n in range(8))) == 120.0


@pytest.mark.parametrize("every_s", [20.0, 35.0, LEASE_STILL_MAX_S])
def test_a_renewal_says_little_of_a_long_time(every_s: float) -> None:
    """A machine that is paused most of the time renews its Lease now and then, and its runtime's grace timers stand still meanwhile."""
    assert steady_s(*(5.0 + every_s * n for n in range(1, 5))) == 4 * RENEWAL_CREDIT_MAX_S


def test_looks_between_renewals_add_nothing() -> None:
    """However often it is looked at."""
    looks = [look(5.0 + n, "new", lease=f"renewed {n // 36}") for n in range(36 * 4 + 1)]
    vigil = shown(look(0.0, lease="before"), *looks)
    assert vigil is not None
    assert vigil.steady_s == 4 * RENEWAL_CREDIT_MAX_S
