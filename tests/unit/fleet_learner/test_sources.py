"""Positions and ranges of sources: pure arithmetic on offsets, and files that are still being written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet_learner.sources.files import JournalFiles, last_line_end, lines
from fleet_learner.sources.topic import EARLIEST, LATEST, DataLossError, Range, Watermarks, limited, ranges, resolve

LOGS = {"a": {0: Watermarks(5, 50), 1: Watermarks(0, 0)}, "b": {0: Watermarks(7, 8)}}

offsets = st.dictionaries(
    st.sampled_from(["a", "b"]), st.dictionaries(st.integers(0, 4), st.integers(0, 60), max_size=5), max_size=2
)


def test_the_two_ends_of_a_log_by_name_and_by_number() -> None:
    assert resolve(EARLIEST, LOGS) == {"a": {0: 5, 1: 0}, "b": {0: 7}}
    assert resolve(LATEST, LOGS) == {"a": {0: 50, 1: 0}, "b": {0: 8}}
    assert resolve({"a": {0: 20, 1: LATEST}}, LOGS) == {"a": {0: 20, 1: 0}, "b": {0: 7}}


def test_a_partition_that_appears_later_is_read_from_its_beginning() -> None:
    """As in Spark's KafkaMicroBatchStream: new partitions start at 0, so that what retention took is noticed."""
    assert ranges({"a": {0: 3}}, {"a": {0: 9, 1: 4}, "b": {0: 0}}) == [Range("a", 0, 3, 9), Range("a", 1, 0, 4)]


@pytest.mark.parametrize("end", [{"a": {0: 2}}, {"a": {1: 9}}, {}])
def test_a_log_that_goes_backwards_is_data_loss(end: dict[str, dict[int, int]]) -> None:
    with pytest.raises(DataLossError, match="a-0 was read up to 3"):
        ranges({"a": {0: 3}}, end)


@given(offsets, offsets, st.integers(1, 300))
@settings(deadline=None)
def test_a_limit_is_kept_about_starves_nobody_and_reaches_the_end(
    start: dict[str, dict[int, int]], more: dict[str, dict[int, int]], records_max: int
) -> None:
    end = {
        t: {p: start.get(t, {}).get(p, 0) + more.get(t, {}).get(p, 0) for p in {*start.get(t, {}), *more.get(t, {})}}
        for t in {*start, *more}
    }
    todo = ranges(start, end)
    step = limited(start, end, records_max)
    taken = ranges(start, step)
    assert sum(r.end - r.start for r in taken) <= records_max + len(todo)
    assert {(r.topic, r.partition) for r in taken} == {(r.topic, r.partition) for r in todo}
    assert all(step[t][p] <= end[t][p] for t in end for p in end[t])
    rounds = 0
    position = start
    while ranges(position, end):
        position = limited(position, end, records_max)
        rounds += 1
        assert rounds <= sum(r.end - r.start for r in todo)
    assert position == end or not todo


@given(st.lists(st.binary(max_size=30).map(lambda raw: raw.replace(b"\n", b" ")), max_size=12), st.data())
def test_a_growing_file_is_read_line_by_line_exactly_once(
    tmp_path_factory: pytest.TempPathFactory, content: list[bytes], data: st.DataObject
) -> None:
    """Whatever the writer has put out when the reader looks, also half a line."""
    folder = tmp_path_factory.mktemp("journal")
    whole = b"".join(line + b"\n" for line in content)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    path, position, seen = folder / "journal-a-00000000.jsonl", 0, []
    for cut in [*cuts, len(whole)]:
        path.write_bytes(whole[:cut])
        end = last_line_end(path)
        seen += [line for _, line in lines(path, position, end)]
        position = end
    assert seen == [line for line in content if line.strip()]
    assert [whole[at : at + len(line)] for at, line in lines(path, 0, position)] == seen


def test_positions_of_files(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "journal-a-00000000.jsonl").write_bytes(b"{}\n{}\n{")
    (tmp_path / "journal-b-00000000.jsonl").write_bytes(b"")
    (tmp_path / ".hidden.jsonl").write_bytes(b"{}\n")
    (tmp_path / "other.txt").write_bytes(b"{}\n")
    source = JournalFiles(tmp_path)
    ends = {"journal-b-00000000.jsonl": 0, "sub/journal-a-00000000.jsonl": 6}
    assert source.ends() == ends
    plan = source.plan({"sub/journal-a-00000000.jsonl": 3, "gone.jsonl": 7})
    assert plan == {"start": {"journal-b-00000000.jsonl": 0, "sub/journal-a-00000000.jsonl": 3}, "end": ends}


def test_a_file_that_shrank_is_data_loss(tmp_path: Path) -> None:
    path = tmp_path / "journal-a-00000000.jsonl"
    path.write_bytes(b"{}\n")
    with pytest.raises(DataLossError, match="was read up to byte 9"):
        JournalFiles(tmp_path).plan({path.name: 9})
    with pytest.raises(DataLossError, match="ends at byte 3, 9 expected"):
        list(lines(path, 0, 9))


def test_the_last_line_is_found_behind_a_long_torn_one(tmp_path: Path) -> None:
    path = tmp_path / "journal-a-00000000.jsonl"
    path.write_bytes(b"x\n" + b"y" * 3_000_000)
    assert last_line_end(path) == 2
