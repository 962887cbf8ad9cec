"""Sets of ordinals: what is put in stays in, and neither their number nor their text has to be feared."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticgroup.api.ordinals import ORDINALS_TEXT_MAX, Ordinals
from staticgroup.api.resources.memory import Issued
from staticgroup.api.resources.status import StaticGroupStatus

INT32_MAX = 2**31 - 1

runs = st.builds(lambda start, length: range(start, start + length), st.integers(0, 400), st.integers(0, 30))
texts = st.lists(
    st.one_of(
        st.integers(0, 99).map(str), st.tuples(st.integers(0, 99), st.integers(0, 99)).map("{0[0]}-{0[1]}".format)
    )
).map(",".join)


@given(st.lists(runs, max_size=12))
def test_ranges_are_united_into_the_ordinals_that_they_hold(given_runs: list[range]) -> None:
    wanted = {ordinal for run in given_runs for ordinal in run}
    united = Ordinals.of(*given_runs)
    assert [ordinal for run in united.runs for ordinal in run] == sorted(wanted)
    assert all(low.stop < high.start for low, high in zip(united.runs, united.runs[1:], strict=False))
    assert bool(united) == bool(wanted)
    assert {ordinal for ordinal in range(440) if ordinal in united} == wanted


@given(st.lists(runs, max_size=12))
def test_set_of_ordinals_comes_back_from_its_text(given_runs: list[range]) -> None:
    united = Ordinals.of(*given_runs)
    assert Ordinals.parse(united.text) == united


def test_ordinals_are_written_compactly() -> None:
    assert Ordinals.of(range(7, 8), range(5), range(3, 4)).text == "0-4,7"
    assert Ordinals().text == ""
    assert Ordinals.parse("0-4,7").runs == (range(5), range(7, 8))


def test_most_ordinals_that_a_workload_can_ask_for_cost_one_range() -> None:
    most = Ordinals.of(range(INT32_MAX, 2 * INT32_MAX), range(INT32_MAX))
    assert most.text == f"0-{2 * INT32_MAX - 1}"
    assert INT32_MAX in most


PATTERN = StaticGroupStatus.model_json_schema()["$defs"]["Issued"]["properties"]["ordinals"]["pattern"]


@settings(deadline=None)
@given(texts)
def test_every_text_that_the_schema_takes_can_be_read(text: str) -> None:
    """A user may have edited the status: order, overlap and direction of the ranges do not matter."""
    assert re.fullmatch(PATTERN, text)
    for part in filter(None, text.split(",")):
        assert all(int(end) in Ordinals.parse(text) for end in part.split("-"))


@pytest.mark.parametrize("text", ["-1", "1-", ",", "0,", "a", " 1", "1-2-3", "\u0661"])
def test_text_in_any_other_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="ordinal range"):
        Ordinals.parse(text)


@given(st.lists(st.integers(0, INT32_MAX), min_size=100, max_size=400, unique=True))
def test_text_always_fits_the_status_and_no_ordinal_is_lost(ordinals: list[int]) -> None:
    kept = Ordinals()
    for ordinal in ordinals:
        kept = Ordinals.of(*kept.runs, range(ordinal, ordinal + 1))
    assert len(kept.text) <= ORDINALS_TEXT_MAX
    assert Issued(ordinals=kept.text).ordinals == kept.text
    assert all(ordinal in kept for ordinal in ordinals)


def test_narrowest_gaps_are_filled_first_and_no_more_than_needed() -> None:
    far = [range(10_000 * n, 10_000 * n + 1) for n in range(1, 142)]
    near = [range(3, 5), range(6, 8)]
    assert len("3-7," + Ordinals.of(*far).text) <= ORDINALS_TEXT_MAX < len("3-4,6-7," + Ordinals.of(*far).text)
    assert Ordinals.of(*near, *far).runs == (range(3, 8), *far)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ""), ("0-4,7", "0-4, 7"), (f"2-{INT32_MAX}", "2 and above"), (f"0,7-{INT32_MAX}", "0, 7 and above"),
        (f"0-{INT32_MAX - 1}", f"0-{INT32_MAX - 1}"), (str(INT32_MAX), f"{INT32_MAX} and above"),
    ],
)  # fmt: skip
def test_an_open_range_is_printed_without_its_end(text: str, words: str) -> None:
    assert Ordinals.parse(text).words == words
    assert Ordinals.parse(text).text == text
