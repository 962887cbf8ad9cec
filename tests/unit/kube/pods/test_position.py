"""What the Lease says of the watch is read as it was written, and anything else means to begin again."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticgroup.core.members.memory import began_s
from staticgroup.kube.pods.position import ScopePosition, WatchPosition, new_watch

NAME = "1800000000-0a1b2c3d"


@given(st.dictionaries(st.text(max_size=4), st.tuples(st.integers(1, 2**63), st.integers(0, 10**11)), min_size=1), st.integers())
def test_what_is_written_is_read(drawn: dict[str, tuple[int, int]], seed: int) -> None:
    rng = Random(seed)
    stored = WatchPosition({scope: ScopePosition(version, new_watch(now_s, rng)) for scope, (version, now_s) in drawn.items()})
    assert WatchPosition.from_json(stored.to_json()) == stored


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "[]", "7", "null", "[" * 100_000, '{"": 7}', '{"": []}', '{"": [7]}', f'{{"": [7, "{NAME}", 1]}}', f'{{"": ["x", "{NAME}"]}}',
        f'{{"": [0, "{NAME}"]}}', f'{{"": [-7, "{NAME}"]}}', f'{{"": [null, "{NAME}"]}}', '{"": [7, ""]}', '{"": [7, "e1"]}',
        f'{{"": [7, "{NAME}0"]}}', f'{{"": [1{"0" * 5_000}, "{NAME}"]}}', f'{{"shop": [7, "{NAME}"], "bill": [7, ""]}}',
        '{"epoch": "2eab33a95f50b8a8", "resourceVersions": {"": 14151}}',
    ],
)  # fmt: skip
def test_what_nobody_wrote_so_means_to_begin_again(text: str) -> None:
    assert WatchPosition.from_json(text) is None


def test_a_position_of_no_scope_means_to_begin_again() -> None:
    assert WatchPosition.from_json(WatchPosition({}).to_json()) is None


def test_a_namespace_goes_on_from_its_own_position_or_from_that_of_all_of_them() -> None:
    of_all, of_shop = ScopePosition(7, NAME), ScopePosition(9, NAME)
    stored = WatchPosition({"": of_all, "shop": of_shop})
    assert (stored.of("shop"), stored.of("bill"), stored.of("")) == (of_shop, of_all, of_all)
    assert WatchPosition({"shop": of_shop}).of("bill") is None
    assert WatchPosition({"shop": of_shop}).of("") is None


def test_the_name_of_a_watch_says_since_when_it_is_whole_and_is_never_drawn_twice() -> None:
    rng = Random(1)
    assert began_s(new_watch(1_800_000_000.4, rng)) == 1_800_000_001, "not before the moment itself"
    assert len({new_watch(1_800_000_000.0, rng) for _ in range(100)}) == 100
    assert began_s(new_watch(-5.0, rng)) == 1
    assert [began_s(text) for text in ("", "e1", f"x{NAME}", f"{NAME}.brokers")] == [0.0] * 4
