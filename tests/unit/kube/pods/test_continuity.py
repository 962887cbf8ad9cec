"""What the Lease carries of the watch is read by this release as it was written, and by earlier ones as no more than is safe."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticgroup.kube.pods.behind import BEHIND_MAX
from staticgroup.kube.pods.continuity import SINCE_MAX, VOID_MAX, Continuity, Workload, continued

WEB, BILL = ("shop", "web"), ("bills", "bill")


def as_an_earlier_release_reads(text: str) -> tuple[str, dict[str, int]] | None:
    """Return epoch and positions as every release reads them that knows of no workload behind them."""
    raw = json.loads(text)
    versions = {str(scope): int(position) for scope, position in raw["resourceVersions"].items()}
    if not raw["epoch"] or any(position <= 0 for position in versions.values()):
        return None
    return raw["epoch"], versions


def test_position_alone_has_the_form_of_before() -> None:
    stored = Continuity(epoch="e1", resource_versions={"": 42})
    assert json.loads(stored.to_json()) == {"epoch": "e1", "resourceVersions": {"": 42}, "timeline": "", "at": 0.0}
    assert Continuity.from_json('{"epoch": "e1", "resourceVersions": {"": 42}}') == stored


def test_earlier_release_goes_on_from_below_the_workload_that_is_furthest_behind() -> None:
    stored = Continuity(epoch="e1", resource_versions={"": 42}, behind={WEB: 17, BILL: 30}, since={"e0": frozenset({BILL})})
    assert Continuity.from_json(stored.to_json()) == stored
    assert as_an_earlier_release_reads(stored.to_json()) == ("e1", {"": 17})


def test_scope_of_one_namespace_goes_on_from_below_its_own_workloads() -> None:
    stored = Continuity(epoch="e1", resource_versions={"shop": 42, "bills": 43}, behind={WEB: 17})
    assert as_an_earlier_release_reads(stored.to_json()) == ("e1", {"shop": 17, "bills": 43})
    assert (stored.floor("shop", 42), stored.floor("bills", 43), stored.floor("", 43)) == (17, 43, 17)


def test_staticgroups_have_a_position_of_their_own_and_the_doubted_among_them_names() -> None:
    stored = Continuity(epoch="e1", resource_versions={"": 42}, groups={"": 7}, doubted=frozenset({("shop", "orders"), ("bills", "bill")}), unsettled={("shop", "orders"): 5})
    assert Continuity.from_json(stored.to_json()) == stored
    assert as_an_earlier_release_reads(stored.to_json()) == ("e1", {"": 42})
    assert json.loads(stored.to_json())["doubted"] == [["bills", "bill"], ["shop", "orders"]]


@pytest.mark.parametrize(
    "extra",
    [{"unsettled": [["shop", "orders"]]}, {"unsettled": [["shop", "orders", 0]]}, {"doubted": [["shop"]]}, {"doubted": 7}, {"doubted": None}, {"staticGroups": {"": 0}}, {"staticGroups": {"": "x"}}, {"staticGroups": [7]}],
)
def test_doubts_that_cannot_be_read_end_every_history(extra: dict[str, Any]) -> None:
    assert Continuity.from_json(json.dumps({"epoch": "e1", "resourceVersions": {"": 17}} | extra)) is None


def test_workload_without_any_position_makes_earlier_releases_begin_again_and_not_this_one() -> None:
    stored = Continuity(epoch="e1", resource_versions={"": 42}, behind={WEB: 0})
    assert Continuity.from_json(stored.to_json()) == stored
    assert as_an_earlier_release_reads(stored.to_json()) is None


@pytest.mark.parametrize(
    "extra",
    [
        {"reached": {"": 42}},
        {"behind": [["shop", "web", 17]]},
        {"reached": {"": 0}, "behind": [["shop", "web", 17]]},
        {"reached": {"": "x"}, "behind": [["shop", "web", 17]]},
        {"reached": {"": math.inf}, "behind": [["shop", "web", 17]]},
        {"reached": {"shop": 42}, "behind": [["shop", "web", 17]]},
        {"reached": {"": 42}, "behind": [["shop", 17]]},
        {"reached": {"": 42}, "behind": [["shop", "web", -1]]},
        {"reached": {"": 42}, "behind": {"web": 17}},
        {"reached": {"": 42}, "behind": [["shop", "web", None]]},
        {"reached": 42, "behind": []},
    ],
)
def test_list_that_cannot_be_read_leaves_the_position_below_all_of_it(extra: dict[str, Any]) -> None:
    text = json.dumps({"epoch": "e1", "resourceVersions": {"": 17}} | extra)
    assert Continuity.from_json(text) == Continuity(epoch="e1", resource_versions={"": 17})


@pytest.mark.parametrize("since", [None, 7, {"e0": None}, {"e0": [["shop"]]}, [["e0"]]])
def test_earlier_epochs_that_cannot_be_read_are_none(since: object) -> None:
    text = json.dumps({"epoch": "e1", "resourceVersions": {"": 17}, "since": since})
    assert Continuity.from_json(text) == Continuity(epoch="e1", resource_versions={"": 17})


def test_epoch_that_goes_on_for_all_but_some_voids_those_for_every_epoch_before() -> None:
    once = continued({}, "e0", frozenset({WEB}))
    twice = continued(once, "e1", frozenset({BILL}))
    assert twice == {"e0": {WEB, BILL}, "e1": {BILL}}


def test_earlier_epochs_are_few_and_the_newest() -> None:
    since: dict[str, frozenset[tuple[str, str]]] = {}
    for n in range(SINCE_MAX + 3):
        since = dict(continued(since, f"e{n}", frozenset()))
    assert list(since) == [f"e{n}" for n in range(3, SINCE_MAX + 3)]


def test_annotation_stays_far_below_the_limit_of_an_object() -> None:
    longest = [("n" * 63, f"{n:063d}") for n in range(BEHIND_MAX)]
    since: dict[str, frozenset[tuple[str, str]]] = {}
    for n in range(SINCE_MAX):
        since = dict(continued(since, f"{n:016x}", frozenset(longest)))
    stored = Continuity(epoch="e", resource_versions={"": 2**62}, behind=dict.fromkeys(longest, 2**61), since=since)
    assert len(stored.to_json()) < 64 * 1024


names = st.tuples(st.text(max_size=5), st.text(max_size=5))


@given(
    st.dictionaries(st.text(max_size=4), st.integers(1, 2**63), min_size=1),
    st.dictionaries(names, st.integers(0, 2**63)),
    st.dictionaries(st.text(max_size=3), st.frozensets(names)),
)
def test_what_is_written_is_read(
    positions: dict[str, int], behind: dict[tuple[str, str], int], since: dict[str, frozenset[tuple[str, str]]]
) -> None:
    stored = Continuity(epoch="e1", resource_versions=positions, behind=behind, since=since)
    assert Continuity.from_json(stored.to_json()) == stored


def test_an_earlier_epoch_that_ends_for_more_workloads_than_the_lease_has_room_for_is_not_gone_on_from() -> None:
    """An annotation has 256 KiB with all others; a refused Lease would stop everything."""
    def some(first: int, count: int) -> frozenset[Workload]:
        return frozenset((f"team-{n}", "web") for n in range(first, first + count))

    assert continued({"e1": some(0, 40)}, "e2", some(40, VOID_MAX - 40)) == {"e1": some(0, VOID_MAX), "e2": some(40, VOID_MAX - 40)}
    assert continued({"e1": some(0, 41)}, "e2", some(41, VOID_MAX - 40)) == {"e2": some(41, VOID_MAX - 40)}
