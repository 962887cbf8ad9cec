"""Positions and ranges of sources: arithmetic on offsets, and growing files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet_learner.errors import SourceError
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
    """The writer may have written half a line when the reader reads."""
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
    assert plan == {
        "start": {"journal-b-00000000.jsonl": 0, "sub/journal-a-00000000.jsonl": 3},
        "end": ends,
        "gone": ["gone.jsonl"],
    }


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


DENIED = PermissionError(13, "Permission denied")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, OSError]]:
    """A fake disk that refuses paths with one of these words; tests may run as root."""
    refused: dict[str, OSError] = {}
    opened, scanned = Path.open, os.scandir

    def check(path: Any) -> None:
        for word, error in refused.items():
            if word in str(path):
                raise error

    def open_(path: Path, *arguments: Any, **more: Any) -> Any:
        check(path)
        return opened(path, *arguments, **more)

    def scandir(path: Any = ".") -> Any:
        check(path)
        return scanned(path)

    monkeypatch.setattr(Path, "open", open_)
    monkeypatch.setattr(os, "scandir", scandir)
    return refused


def journal(folder: Path, *names: str) -> JournalFiles:
    """Write journal files of two lines, six bytes each."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"{}\n{}\n")
    return JournalFiles(folder)


def test_a_file_or_folder_that_cannot_be_read_is_named_keeps_its_position_and_stops_no_other(
    tmp_path: Path, disk: dict[str, OSError]
) -> None:
    source = journal(tmp_path, "a.jsonl", "b-refused.jsonl", "c/refused/d.jsonl", "c/e.jsonl", "lost+found/f.jsonl")
    disk |= {"refused": DENIED, "lost+found": DENIED}
    plan = source.plan({"a.jsonl": 3, "b-refused.jsonl": 3, "c/refused/d.jsonl": 3})
    assert plan["start"] == {"a.jsonl": 3, "c/e.jsonl": 0, "b-refused.jsonl": 3, "c/refused/d.jsonl": 3}
    assert plan["end"] == {"a.jsonl": 6, "c/e.jsonl": 6, "b-refused.jsonl": 3, "c/refused/d.jsonl": 3}
    assert [text.split(":")[0] for text in plan["left_out"]] == [
        f"{tmp_path}/b-refused.jsonl cannot be read (Permission denied)",
        f"{tmp_path}/c/refused cannot be read (Permission denied)",
    ]
    assert "gone" not in plan
    (tmp_path / "a.jsonl").unlink()
    (tmp_path / "c/e.jsonl").unlink()
    with pytest.raises(SourceError, match="b-refused"):
        source.plan({})


def test_a_folder_that_cannot_be_listed_is_no_empty_one(tmp_path: Path, disk: dict[str, OSError]) -> None:
    source = journal(tmp_path / "refused", "a.jsonl")
    disk["refused"] = DENIED
    with pytest.raises(SourceError, match=r"refused cannot be listed \(Permission denied\)"):
        source.plan({"a.jsonl": 6})


def test_a_file_that_vanishes_while_one_looks_is_gone(tmp_path: Path, disk: dict[str, OSError]) -> None:
    """The operator deletes its oldest files at any moment."""
    source = journal(tmp_path, "a.jsonl", "b.jsonl")
    disk["a.jsonl"] = FileNotFoundError(2, "No such file or directory")
    plan = source.plan({"a.jsonl": 3})
    assert plan == {"start": {"b.jsonl": 0}, "end": {"b.jsonl": 6}, "gone": ["a.jsonl"]}


def test_one_file_that_shrank_leaves_the_others_readable(tmp_path: Path) -> None:
    plan = journal(tmp_path, "a.jsonl", "b.jsonl").plan({"a.jsonl": 9})
    assert (plan["start"], plan["end"]) == ({"a.jsonl": 9, "b.jsonl": 0}, {"a.jsonl": 9, "b.jsonl": 6})
    assert [text.split(":")[0] for text in plan["left_out"]] == [
        f"{tmp_path}/a.jsonl was read up to byte 9, and no line of it ends there now"
    ]


def test_a_file_that_was_cut_and_grew_beyond_its_position_is_no_longer_the_one_that_was_read(tmp_path: Path) -> None:
    """As with logrotate's copytruncate: reading on would break half a line and lose the lines before it."""
    source = journal(tmp_path, "a.jsonl", "b.jsonl")
    (tmp_path / "a.jsonl").write_bytes(b'{"another": "line"}\n{}\n')
    plan = source.plan({"a.jsonl": 6, "b.jsonl": 3})
    assert (plan["start"], plan["end"]) == ({"a.jsonl": 6, "b.jsonl": 3}, {"a.jsonl": 6, "b.jsonl": 6})
    assert [text.split(",")[0] for text in plan["left_out"]] == [f"{tmp_path}/a.jsonl was read up to byte 6"]
    assert "move it out of the folder" in plan["left_out"][0]
    begun = {"start": {"a.jsonl": 6, "b.jsonl": 3}, "end": {"a.jsonl": 9, "b.jsonl": 6}}
    assert source.recheck(begun)["end"] == {"a.jsonl": 6, "b.jsonl": 6}


def test_linked_folders_are_read_once_and_give_no_file_another_name(tmp_path: Path) -> None:
    source = journal(tmp_path / "journal", "b/x.jsonl")
    journal(tmp_path / "elsewhere", "y.jsonl")
    (tmp_path / "journal" / "a").symlink_to(tmp_path / "journal" / "b")
    (tmp_path / "journal" / "b" / "up").symlink_to(tmp_path / "journal")
    (tmp_path / "journal" / "c").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "journal" / "nowhere").symlink_to(tmp_path / "missing")
    assert source.ends() == {"b/x.jsonl": 6, "c/y.jsonl": 6}


@pytest.mark.parametrize("ending", ["gz", "zst", "1"])
def test_a_packed_file_is_named_unless_it_was_read_before(tmp_path: Path, ending: str) -> None:
    source = journal(tmp_path, "a.jsonl", f"b.jsonl.{ending}", "c.jsonl.swp", "d.txt.gz")
    named = f"{tmp_path}/b.jsonl.{ending} is not read: unpack it to b.jsonl, or move it out of the folder"
    assert source.plan({}) == {"start": {"a.jsonl": 0}, "end": {"a.jsonl": 6}, "left_out": [named]}
    read = source.plan({"a.jsonl": 6, "b.jsonl": 6})
    assert read == {"start": {"a.jsonl": 6, "b.jsonl": 6}, "end": {"a.jsonl": 6, "b.jsonl": 6}}


def test_a_name_that_no_table_can_hold_is_named(tmp_path: Path) -> None:
    """A plan with such a name could be neither stored nor carried out."""
    journal(tmp_path, "a.jsonl")
    with open(os.fsencode(tmp_path) + b"/journal-\xff.jsonl", "wb") as file:
        file.write(b"{}\n")
    plan = JournalFiles(tmp_path).plan({})
    assert plan["end"] == {"a.jsonl": 6}
    assert plan["left_out"] == [rf"{tmp_path}/journal-\udcff.jsonl has a name that is no UTF-8: rename it"]


def test_an_unfinished_plan_goes_on_without_files_that_were_lost_meanwhile(
    tmp_path: Path, disk: dict[str, OSError]
) -> None:
    names = ("a.jsonl", "b-refused.jsonl", "c.jsonl", "d.jsonl")
    source = journal(tmp_path, *names)
    (tmp_path / "c.jsonl").write_bytes(b"{}\n")
    (tmp_path / "d.jsonl").unlink()
    disk["refused"] = DENIED
    begun = {"start": dict.fromkeys(names, 3), "end": dict.fromkeys(names, 6)}
    plan = source.recheck(begun)
    assert plan["start"] == begun["start"]
    assert plan["end"] == {"a.jsonl": 6, "b-refused.jsonl": 3, "c.jsonl": 3, "d.jsonl": 3}
    assert [text.split()[0] for text in plan["left_out"]] == [f"{tmp_path}/b-refused.jsonl", f"{tmp_path}/c.jsonl"]
    assert plan["gone"] == ["d.jsonl"]
