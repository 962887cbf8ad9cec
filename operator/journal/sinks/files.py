"""The journal in files: one JSON object a line, in numbered files that are only ever appended to.

A file has its final name from its first byte on and is never renamed, so a reader that remembers file and line reads
each line once. Only a line that ends in a newline is complete. When a file is full the next number begins; beyond the
allowed count the oldest files go, whichever process wrote them.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import re
import threading
from collections.abc import Callable
from io import FileIO
from pathlib import Path

log = logging.getLogger(__name__)

NAME = re.compile(r"journal-.+-[0-9]{8}\.jsonl")
BATCH_MAX = 500
CLOSE_TIMEOUT_S = 3.0
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")

OnDrop = Callable[[str, int], None]


class RotatedFiles:
    """Write lines to numbered files of bounded size and count; synchronous, for one thread.

    Parameters
    ----------
    directory: exists, or is made.
    writer: goes into the names, so that two processes never share a file.
    max_bytes: a file that has reached this gets no further line.
    max_files: journal files that may be in the directory, the open one included; from 2.
    """

    def __init__(self, directory: Path, *, writer: str, max_bytes: int, max_files: int) -> None:
        self._directory = directory
        self._stem = f"journal-{_UNSAFE.sub('_', writer)}"
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._number = 0
        self._file: FileIO | None = None
        self._size = 0

    def write(self, lines: list[str]) -> None:
        """Append lines and hand them to the operating system.

        Raises
        ------
        OSError: some of them may not be in the file; the next call begins another file, after any torn line.
        """
        try:
            while lines:
                file = self._file or self._open()
                room = self._max_bytes - self._size
                part: list[bytes] = []
                while lines and room > 0:
                    part.append(lines.pop(0).encode() + b"\n")
                    room -= len(part[-1])
                data = b"".join(part)
                while data:
                    written = file.write(data) or 0
                    self._size += written
                    data = data[written:]
                if self._size >= self._max_bytes:
                    self.close()
        except OSError:
            self.close()
            raise

    def _open(self) -> FileIO:
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / f"{self._stem}-{self._number:08d}.jsonl"
        self._number += 1
        self._prune(self._max_files - 1)
        self._file, self._size = FileIO(path, "xb"), 0
        return self._file

    def _prune(self, keep: int) -> None:
        """Delete the oldest journal files of the directory."""
        aged: list[tuple[int, str, Path]] = []
        for path in self._directory.iterdir():
            if NAME.fullmatch(path.name):
                try:
                    aged.append((path.stat().st_mtime_ns, path.name, path))
                except FileNotFoundError:
                    continue
        for _, _, path in sorted(aged)[: max(0, len(aged) - keep)]:
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the open file; the next line opens another one."""
        if self._file is not None:
            file, self._file = self._file, None
            try:
                file.close()
            except OSError:
                log.warning("journal: a file could not be closed", exc_info=True)


class FilesSink:
    """Write lines in a thread of its own, because a disk may stall.

    Parameters
    ----------
    queue_max: lines that may wait.
    on_drop: called with (reason, how many) of lines that were taken and then lost, from the thread.
    """

    name = "files"

    def __init__(self, files: RotatedFiles, *, queue_max: int, on_drop: OnDrop) -> None:
        self._files = files
        self._queue: queue.Queue[str | None] = queue.Queue(maxsize=queue_max)
        self._on_drop = on_drop
        self._thread: threading.Thread | None = None
        self._is_failing = False

    def offer(self, key: str, line: str) -> bool:
        """Queue one line; False when the queue is full."""
        try:
            self._queue.put_nowait(line)
        except queue.Full:
            return False
        return True

    async def run(self) -> None:
        """Start the thread and wait."""
        self._thread = threading.Thread(target=self._work, name="journal files", daemon=True)
        self._thread.start()
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Let the thread write what waits, for at most 3 s."""
        thread = self._thread
        if thread is not None:
            await asyncio.to_thread(self._end, thread)

    def _end(self, thread: threading.Thread) -> None:
        try:
            self._queue.put(None, timeout=CLOSE_TIMEOUT_S)
        except queue.Full:
            log.warning("journal: lines that wait for the disk are given up", extra={"lines": self._queue.qsize()})
            return
        thread.join(CLOSE_TIMEOUT_S)

    def _work(self) -> None:
        while True:
            lines, is_last = self._next_batch()
            if lines:
                self._write(lines)
            if is_last:
                self._files.close()
                return

    def _next_batch(self) -> tuple[list[str], bool]:
        """Wait for a line and take what stands behind it; the flag says that nothing comes after."""
        lines: list[str] = []
        line = self._queue.get()
        while line is not None:
            lines.append(line)
            if len(lines) >= BATCH_MAX:
                return lines, False
            try:
                line = self._queue.get_nowait()
            except queue.Empty:
                return lines, False
        return lines, True

    def _write(self, lines: list[str]) -> None:
        count = len(lines)
        try:
            self._files.write(lines)
        except OSError as error:
            self._on_drop("unwritable", count)
            if not self._is_failing:
                log.warning("journal: files cannot be written", extra={"problem": str(error)})
            self._is_failing = True
        else:
            self._is_failing = False
