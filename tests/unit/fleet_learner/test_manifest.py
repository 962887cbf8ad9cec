"""A manifest appears whole or not at all, once, and says what its files are."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fleet_learner.manifest import (
    ConflictError,
    CorruptError,
    DataFile,
    Manifest,
    Plan,
    TableFiles,
    Warehouse,
    create_if_absent,
    draft_of,
    with_files,
)

PLAN = Plan(number=0, as_of_ms=5, sources={"kafka:t": {"start": {"t": {"0": 0}}, "end": {"t": {"0": 9}}}})


def data_file(root: Path, number: int, name: str = "part-00000.parquet") -> DataFile:
    """Write a data file of a run, and return its entry."""
    path = root / "silver" / "beats" / f"run={number:012d}" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    content = f"{number} {name}".encode()
    path.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    return DataFile(path.relative_to(root).as_posix(), 3, len(content), digest, low_ms=number, high_ms=number + 10)


def manifest(root: Path, number: int, *files: DataFile) -> Manifest:
    """Return a manifest with one table."""
    return Manifest(
        plan=Plan(number=number, as_of_ms=5), tables={"silver/beats": TableFiles("urn:x:1", files)}, counts={"rows": 3}
    )


def test_an_empty_warehouse_has_nothing(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    assert (warehouse.latest(), warehouse.unfinished()) == (None, None)
    assert warehouse.paths(None, "silver/beats") == []


def test_what_is_published_is_read_back_and_the_highest_number_counts(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    states = [manifest(tmp_path, n, data_file(tmp_path, n)) for n in range(12)]
    for state in states:
        warehouse.publish(state)
    assert warehouse.latest() == states[11]
    assert warehouse.read(3) == states[3]
    assert states[3].tables["silver/beats"].rows == 3


def test_a_plan_is_fixed_once_and_found_until_its_manifest_is_there(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.begin(PLAN)
    assert Warehouse(tmp_path).unfinished() == PLAN
    with pytest.raises(ConflictError):
        warehouse.begin(Plan(number=0, as_of_ms=6))
    warehouse.publish(Manifest(plan=PLAN, tables={}))
    assert warehouse.unfinished() is None


def test_of_two_writers_one_fails(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    winner = manifest(tmp_path, 0, data_file(tmp_path, 0))
    warehouse.publish(winner)
    with pytest.raises(ConflictError):
        Warehouse(tmp_path).publish(manifest(tmp_path, 0))
    assert warehouse.latest() == winner


def test_of_many_writers_at_once_exactly_one_creates_and_no_draft_stays(tmp_path: Path) -> None:
    path = tmp_path / "000000000000.json"

    def attempt(text: str) -> str | None:
        try:
            create_if_absent(path, text)
        except ConflictError:
            return None
        return text

    with ThreadPoolExecutor(8) as pool:
        winners = [text for text in pool.map(attempt, [f"writer {n}" for n in range(40)]) if text]
    assert winners == [path.read_text()]
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_no_two_writers_share_a_draft_not_even_with_the_same_process_and_thread(tmp_path: Path) -> None:
    """Two drivers on a shared volume are both process 7 of their pods; opening the other's draft would empty it."""
    path = tmp_path / "part-00000.parquet"
    drafts = {draft_of(path) for _ in range(100)}
    assert len(drafts) == 100
    assert {(draft.parent, draft.name[:1]) for draft in drafts} == {(tmp_path, ".")}


def test_a_hole_in_the_numbers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the next one is 0"):
        Warehouse(tmp_path).publish(manifest(tmp_path, 1))


@pytest.mark.parametrize("damage", ["other bytes", "cut", "gone"])
def test_a_file_that_is_not_what_was_published_is_found(tmp_path: Path, damage: str) -> None:
    warehouse = Warehouse(tmp_path)
    state = manifest(tmp_path, 0, data_file(tmp_path, 0))
    warehouse.publish(state)
    warehouse.verify(state)
    path = tmp_path / state.tables["silver/beats"].files[0].path
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content[:-1] + (b"!" if damage == "other bytes" else b""))
    with pytest.raises(CorruptError, match="silver/beats"):
        warehouse.verify(state)


def test_old_files_are_left_out_by_their_times(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    state = manifest(tmp_path, 0, *(data_file(tmp_path, n) for n in (0, 20, 40)))
    assert len(warehouse.paths(state, "silver/beats")) == 3
    since = [Path(p).parent.name for p in warehouse.paths(state, "silver/beats", since_ms=30)]
    assert since == ["run=000000000020", "run=000000000040"], "the first ends at 10, the second at 30"


def test_garbage_is_what_no_kept_manifest_lists_and_no_later_run_may_need(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    files = [data_file(tmp_path, n) for n in range(4)]
    orphan = data_file(tmp_path, 1, "part-00009.parquet")  # of a run that died and was done again with fewer files
    for n in range(3):
        warehouse.begin(Plan(number=n, as_of_ms=5))
        warehouse.publish(manifest(tmp_path, n, files[n]))
    running = data_file(tmp_path, 3, "part-00001.parquet")
    assert warehouse.collect_garbage(0) == []
    assert warehouse.collect_garbage(2) == [files[0].path, orphan.path]
    assert [m.exists() for m in (tmp_path / files[1].path, tmp_path / running.path)] == [True, True]
    with pytest.raises(FileNotFoundError):
        warehouse.read(0)
    latest = warehouse.latest()
    assert latest is not None
    warehouse.verify(latest)


def test_files_of_a_run_that_is_done_again_are_listed_once(tmp_path: Path) -> None:
    first, second = data_file(tmp_path, 0), data_file(tmp_path, 1)
    old = TableFiles("urn:x:1", (first,))
    assert with_files(old, "urn:x:2", [second, first]) == TableFiles("urn:x:2", (first, second))
    assert with_files(None, "urn:x:1", []) == TableFiles("urn:x:1", ())
