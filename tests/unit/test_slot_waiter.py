"""The init container's program of Deployments, as a process: what it writes, how long it waits, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.devcluster.images import find_archive, slot_waiter_image
from support.devcluster.programs import WAITER_FLAGS, WAITER_MODULE, slot_waiter_program
from support.waiting import until

UID = "0f3c2c8e-53a4-4a55-8d2e-6a3f5d0f6b11"
KEYS = ("ID=%s.51742858", "ID_ORDERS=%s-orders.51742858")
SIZE_MAX = 2_000_000


class Waiter:
    """One run of the program, with the two folders that its volumes are."""

    def __init__(self, folder: Path) -> None:
        self.given, self.made = folder / "in", folder / "out"
        self.given.mkdir()
        self.made.mkdir()
        (self.given / "uid").write_text(UID)
        self.process: subprocess.Popen[str] | None = None

    def start(self, *, silence: str = "30s", keys: tuple[str, ...] = KEYS) -> None:
        flags = ["-in", str(self.given), "-out", str(self.made), "-silence", silence]
        self.process = subprocess.Popen([str(slot_waiter_program()), *flags, *keys], stdout=subprocess.PIPE, text=True)

    def note(self, text: str) -> None:
        """Replace the annotation as a kubelet does: the file is another one at once."""
        (self.given / "next").write_text(text)
        (self.given / "next").rename(self.given / "note")

    def line(self) -> str:
        """Wait for the next line that it says."""
        assert self.process is not None
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self) -> str:
        """Wait for its end with exit code 0, and return what it said."""
        assert self.process is not None
        said, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        return said

    @property
    def written(self) -> str | None:
        file = self.made / "env"
        return file.read_text() if file.exists() else None


@pytest.fixture
def waiter(tmp_path: Path) -> Iterator[Waiter]:
    made = Waiter(tmp_path)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
        made.process.wait(10)


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_program_is_small(architecture: str) -> None:
    assert 100_000 < slot_waiter_program(architecture).stat().st_size <= SIZE_MAX


def test_dockerfile_makes_the_image_that_is_loaded_into_nodes() -> None:
    reference, archive = slot_waiter_image()
    assert find_archive(reference) == archive
    with tarfile.open(archive) as tar:
        (named,) = json.load(tar.extractfile("manifest.json"))  # type: ignore[arg-type]
        config = json.load(tar.extractfile(named["Config"]))["config"]  # type: ignore[arg-type]
        (layer,) = named["Layers"]
        with tarfile.open(fileobj=tar.extractfile(layer)) as files:
            assert files.getnames() == [config["Entrypoint"][0].removeprefix("/")]
    recipe = (WAITER_MODULE / "Dockerfile").read_text()
    flags = [f'"{flag}"' if " " in flag else flag for flag in WAITER_FLAGS]
    assert f"go build {' '.join(flags)} -o slot-waiter ." in recipe
    last = recipe.partition("FROM scratch\n")[2].splitlines()
    assert f"USER {config['User']}" in last
    assert f"ENTRYPOINT {json.dumps(config['Entrypoint'])}" in last


def test_ids_are_written_once_the_pod_has_its_slot(waiter: Waiter) -> None:
    waiter.start()
    waiter.note(f"{UID} waits 1 orders-17")
    waiter.note(f"{UID} has orders-17")
    assert "slot orders-17" in waiter.end()
    assert waiter.written == "ID='orders-17.51742858'\nID_ORDERS='orders-17-orders.51742858'\n"
    assert [file.name for file in waiter.made.iterdir()] == ["env"]
    assert (waiter.made / "env").stat().st_mode & 0o777 == 0o644, "the kubelet and any user of the pod may read it"


def test_a_slot_that_is_said_again_with_a_number_is_the_same_slot(waiter: Waiter) -> None:
    """The operator says it again where the first note did not reach the pod: a kubelet may miss one."""
    waiter.note(f"{UID} waits 1 orders-17")
    waiter.start()
    waiter.line()
    waiter.note(f"{UID} has orders-17 2")
    assert waiter.end() == "slot orders-17\n"
    assert waiter.written == "ID='orders-17.51742858'\nID_ORDERS='orders-17-orders.51742858'\n"


def test_it_says_for_whom_it_waits(waiter: Waiter) -> None:
    waiter.note(f"{UID} waits 1 -")
    waiter.start()
    assert waiter.line() == "waits for a slot, until another pod begins to end\n"
    waiter.note(f"{UID} waits 2 orders-17")
    assert waiter.line() == "waits for slot orders-17, until the pod that has it has ended\n"
    waiter.note(f"{UID} has orders-17")
    assert waiter.end() == "slot orders-17\n"


@pytest.mark.parametrize(
    "note",
    ["", f"{UID}", f"{UID} has", f"{UID} has a b", f"{UID} has a 1 2", f"{UID} is orders-17", "another has orders-17",
     f"{UID}x has orders-17", " has orders-17", f"has {UID}"],
)  # fmt: skip
def test_application_starts_without_an_id_where_no_note_is_for_the_pod(waiter: Waiter, note: str) -> None:
    waiter.note(note)
    waiter.start(silence="300ms")
    assert "starts without an id" in waiter.end()
    assert waiter.written == "", "a kubelet creates no container whose file is not there, though its key is optional"


def test_note_without_a_uid_is_for_nobody(waiter: Waiter) -> None:
    """A volume that is not complete must not make an empty uid fit."""
    (waiter.given / "uid").write_text("")
    waiter.note(" has orders-17")
    waiter.start(silence="300ms")
    waiter.end()
    assert waiter.written == ""


def test_each_new_note_ends_the_silence(waiter: Waiter) -> None:
    waiter.start(silence="4s")
    assert waiter.process is not None
    for number in range(6):
        waiter.note(f"{UID} waits {number} orders-17")
        with pytest.raises(subprocess.TimeoutExpired):
            waiter.process.wait(1)
    waiter.note(f"{UID} has orders-17")
    waiter.end()
    assert waiter.written


def test_same_note_again_does_not_end_the_silence(waiter: Waiter) -> None:
    waiter.note(f"{UID} waits 1 orders-17")
    waiter.start(silence="300ms")
    assert "starts without an id" in waiter.end()


def test_what_is_written_stays(waiter: Waiter) -> None:
    """A new sandbox runs init containers again; the application's containers must not get another id."""
    (waiter.made / "env").write_text("ID='orders-3.51742858'\n")
    waiter.note(f"{UID} has orders-17")
    waiter.start()
    assert "already" in waiter.end()
    assert waiter.written == "ID='orders-3.51742858'\n"


def test_pod_that_started_without_an_id_never_gets_one(waiter: Waiter) -> None:
    waiter.start(silence="300ms")
    waiter.end()
    waiter.note(f"{UID} has orders-17")
    waiter.start()
    assert "already" in waiter.end()
    assert waiter.written == ""


def test_nothing_keeps_the_application_from_starting(waiter: Waiter) -> None:
    """Neither a volume that is not there, nor a flag that cannot be read."""
    waiter.given.rename(waiter.given.with_name("elsewhere"))
    waiter.start(silence="300ms")
    waiter.end()
    assert waiter.written == ""
    (waiter.made / "env").unlink()
    waiter.start(silence="soon")
    waiter.end()
    assert waiter.written == ""
    (waiter.made / "env").unlink()
    waiter.made.rmdir()
    waiter.start(silence="300ms")
    waiter.end()


def test_it_ends_at_once_when_it_is_told_to(waiter: Waiter) -> None:
    waiter.note(f"{UID} waits 1 -")
    waiter.start()
    assert waiter.process is not None
    waiter.line()
    waiter.process.send_signal(signal.SIGTERM)
    waiter.end()
    assert waiter.written is None


def test_it_reads_its_folder_ten_times_a_second_and_costs_next_to_nothing(waiter: Waiter) -> None:
    waiter.note(f"{UID} waits 1 -")
    waiter.start()
    assert waiter.process is not None
    ticks = os.sysconf("SC_CLK_TCK")

    def used_s() -> float:
        assert waiter.process is not None
        fields = Path(f"/proc/{waiter.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / ticks

    began_s = time.monotonic()
    until(lambda: time.monotonic() - began_s > 2, deadline_s=10, what="two seconds")
    assert used_s() < 0.2
