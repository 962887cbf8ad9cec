"""The journal's files: append-only, numbered, bounded; a full disk costs only records."""

from __future__ import annotations

import asyncio
from io import FileIO
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from journal.sinks.files import NAME, FilesSink, RotatedFiles


def files(directory: Path, *, writer: str = "op-1", max_bytes: int = 100, max_files: int = 3) -> RotatedFiles:
    return RotatedFiles(directory, writer=writer, max_bytes=max_bytes, max_files=max_files)


def contents(directory: Path) -> list[tuple[str, list[str]]]:
    """Return name and lines of each file, oldest first."""
    return [(p.name, p.read_text(encoding="utf-8").splitlines()) for p in sorted(directory.iterdir())]


def test_lines_are_in_the_file_when_write_returns_and_a_full_one_is_followed_by_the_next_number(tmp_path: Path) -> None:
    """A process that dies loses nothing that it has written."""
    journal = files(tmp_path, max_bytes=20)
    journal.write(["a" * 9, "b" * 9])
    journal.write(["c" * 9])
    assert contents(tmp_path) == [
        ("journal-op-1-00000000.jsonl", ["a" * 9, "b" * 9]),
        ("journal-op-1-00000001.jsonl", ["c" * 9]),
    ]


@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(st.integers(0, 60), max_size=6), max_size=12), st.integers(1, 80), st.integers(2, 5))
def test_no_line_is_torn_and_count_and_size_are_bounded(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]], max_bytes: int, max_files: int
) -> None:
    directory = tmp_path_factory.mktemp("journal")
    journal = files(directory, max_bytes=max_bytes, max_files=max_files)
    written: list[str] = []
    for batch in batches:
        lines = [f"{len(written) + n}:" + "x" * size for n, size in enumerate(batch)]
        written += lines
        journal.write(list(lines))
    journal.close()
    found = contents(directory)
    kept = [line for _, lines in found for line in lines]
    assert kept == written[len(written) - len(kept) :]
    assert len(found) <= max_files
    assert len(kept) == len(written) or len(found) == max_files
    longest = max(map(len, written), default=0) + 1
    assert all(sum(len(line) + 1 for line in lines) < max_bytes + longest for _, lines in found)


def test_files_of_earlier_processes_count_and_go_first(tmp_path: Path) -> None:
    files(tmp_path, writer="old").write(["1"])
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    new = files(tmp_path, writer="new", max_bytes=1, max_files=2)
    for line in ("2", "3"):
        new.write([line])
    assert [name for name, _ in contents(tmp_path)] == [
        "journal-new-00000000.jsonl", "journal-new-00000001.jsonl", "notes.txt",
    ]  # fmt: skip


def test_name_of_the_writer_cannot_leave_the_directory(tmp_path: Path) -> None:
    files(tmp_path / "journal", writer="../../etc/x y").write(["1"])
    (name,) = (p.name for p in (tmp_path / "journal").iterdir())
    assert NAME.fullmatch(name)


class TornFile:
    """A file on a disk that is full after the first bytes."""

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self._is_full = False

    def write(self, data: bytes) -> int:
        if self._is_full:
            raise OSError(28, "No space left on device")
        self._is_full = True
        return self._file.write(data[:3])

    def close(self) -> None:
        self._file.close()


def test_after_a_full_disk_the_next_line_begins_another_file(tmp_path: Path) -> None:
    """A torn line stays in its file, so no later line continues it."""
    journal = files(tmp_path)
    journal.write(["1"])
    journal._file = TornFile(journal._file)  # type: ignore[assignment]
    with pytest.raises(OSError, match="No space"):
        journal.write(["22222"])
    journal.write(["3"])
    journal.close()
    assert [lines for _, lines in contents(tmp_path)] == [["1", "222"], ["3"]]


async def written_by(sink: FilesSink, lines: list[str]) -> None:
    task = asyncio.create_task(sink.run())
    await asyncio.sleep(0)
    for line in lines:
        assert sink.offer("k", line)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await sink.close()


async def test_sink_writes_everything_it_took_before_it_closes(tmp_path: Path) -> None:
    taken: list[tuple[str, int]] = []
    lines = [f"line {n}" for n in range(2_000)]
    sink = FilesSink(files(tmp_path, max_bytes=1 << 20), queue_max=5_000, on_drop=lambda *drop: taken.append(drop))
    await written_by(sink, lines)
    assert contents(tmp_path)[0][1] == lines
    assert taken == []


async def test_full_queue_refuses_and_does_not_wait(tmp_path: Path) -> None:
    """Nothing takes lines out here: the thread was not started."""
    sink = FilesSink(files(tmp_path), queue_max=2, on_drop=lambda r, c: None)
    assert [sink.offer("k", "x") for _ in range(4)] == [True, True, False, False]


async def test_lines_that_cannot_be_written_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A directory that is a file: every attempt to open fails, and the process goes on."""
    (tmp_path / "journal").write_text("", encoding="utf-8")
    taken: list[tuple[str, int]] = []
    sink = FilesSink(files(tmp_path / "journal"), queue_max=100, on_drop=lambda *drop: taken.append(drop))
    await written_by(sink, ["a", "b", "c"])
    assert {reason for reason, _ in taken} == {"unwritable"}
    assert sum(count for _, count in taken) == 3
    assert caplog.text.count("cannot be written") == 1
