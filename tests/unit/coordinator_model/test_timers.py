"""Timers: one per key, the earliest first, and a replaced one never fires."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_model.base.timers import Timers

KEYS = [("a", "g"), ("b", "g"), ("c", "h")]


def test_earliest_deadline_is_due_first_and_among_equals_the_one_armed_first() -> None:
    timers = Timers()
    timers.arm(KEYS[0], 20)
    timers.arm(KEYS[1], 10)
    timers.arm(KEYS[2], 10)
    assert timers.next_deadline_ms() == 10
    assert timers.due(9) == ()
    assert timers.due(20) == (KEYS[1], KEYS[2], KEYS[0])
    assert [timers.pop_due(20) for _ in range(4)] == [(KEYS[1], 10), (KEYS[2], 10), (KEYS[0], 20), None]
    assert timers.next_deadline_ms() is None


def test_arming_again_replaces() -> None:
    """CoordinatorTimerImpl.schedule: the former task is cancelled."""
    timers = Timers()
    timers.arm(KEYS[0], 10)
    timers.arm(KEYS[0], 30)
    assert len(timers) == 1
    assert timers.pop_due(29) is None
    assert timers.pop_due(30) == (KEYS[0], 30)


def test_cancelled_timer_does_not_fire() -> None:
    timers = Timers()
    timers.arm(KEYS[0], 10)
    assert timers.cancel(KEYS[0]) is True
    assert timers.cancel(KEYS[0]) is False
    assert timers.pop_due(1_000) is None


def test_timers_of_one_group() -> None:
    timers = Timers()
    for key in KEYS:
        timers.arm(key, 10)
    assert timers.of_group("g") == (KEYS[0], KEYS[1])


Operation = tuple[str, int, int]
OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["arm", "cancel", "pop"]), st.integers(0, 5), st.integers(0, 50)), max_size=300
)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(OPERATIONS)
def test_behaves_like_a_table_of_deadlines(operations: list[Operation]) -> None:
    """However often timers are replaced, what is due is what a plain table says."""
    timers = Timers()
    table: dict[tuple[str, ...], tuple[int, int]] = {}
    for serial, (operation, name, at_ms) in enumerate(operations):
        key = (str(name), "g")
        if operation == "arm":
            timers.arm(key, at_ms)
            table[key] = (at_ms, serial)
        elif operation == "cancel":
            assert timers.cancel(key) is (table.pop(key, None) is not None)
        else:
            due = sorted((when, k) for k, when in table.items() if when[0] <= at_ms)
            expected = (due[0][1], due[0][0][0]) if due else None
            assert timers.pop_due(at_ms) == expected
            if expected is not None:
                del table[expected[0]]
        assert len(timers) == len(table)
        assert timers.next_deadline_ms() == min((when[0] for when in table.values()), default=None)
