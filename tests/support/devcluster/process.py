"""Processes that outlive the program that started them, found again by a record that cannot lie.

The one idea: a process writes its own record (pid, start time, boot id of the machine) before it becomes the program,
and a record counts only while a process of that pid *and* that start time lives. So nothing is ever signalled that was
not started here, even after pids were used again.
"""

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .progress import await_condition

_RECORD_DEADLINE_S = 10.0


def start_time_ticks(pid: int) -> int | None:
    """Return the start time of a live process in clock ticks since boot; None when there is none, or only a zombie.

    Source: proc(5), field 22 of /proc/<pid>/stat.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One named process of the development cluster, running or not."""

    name: str
    directory: Path

    @property
    def record(self) -> Path:
        """The file that holds pid, start time and boot id."""
        return self.directory / "pid" / self.name

    @property
    def log(self) -> Path:
        """The file that receives standard output and standard error."""
        return self.directory / "log" / f"{self.name}.log"

    def pid(self) -> int | None:
        """Return the pid of the live process, or None."""
        try:
            pid, ticks, boot_id = self.record.read_text().split()
        except (FileNotFoundError, ValueError):
            return None
        if boot_id != machine_boot_id() or start_time_ticks(int(pid)) != int(ticks):
            return None
        return int(pid)

    def start(
        self, command: Sequence[str | Path], *, cgroup_files: Iterable[Path] = (), network_namespace: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> int:  # fmt: skip
        """Start the program unless it already runs.

        Parameters
        ----------
        command: program and arguments.
        cgroup_files: `cgroup.procs` files that the process enters first, so that its children are found there.
        network_namespace: name of the network namespace to run in; None means the host's. Only the network differs: `ip
            netns exec` would mount a fresh /sys and hide the cgroups.
        environment: replaces the environment; None inherits it.

        Returns
        -------
        The pid.
        """
        running = self.pid()
        if running is not None:
            return running
        for path in (self.record, self.log):
            path.parent.mkdir(parents=True, exist_ok=True)
        self.record.unlink(missing_ok=True)
        script = self._script([str(word) for word in command], cgroup_files, network_namespace)
        with self.log.open("ab") as log:
            subprocess.run(
                ["setsid", "--fork", "sh", "-c", script],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True, cwd=self.directory, env=environment,
            )  # fmt: skip
        await_condition(f"{self.name} to start", self.record.exists, _RECORD_DEADLINE_S, poll_s=0.01)
        return int(self.record.read_text().split()[0])

    def _script(self, words: list[str], cgroup_files: Iterable[Path], network_namespace: str | None) -> str:
        """Return the shell script that enters its place, writes the record of itself, and becomes the program."""
        if network_namespace is not None:
            words = ["nsenter", f"--net=/run/netns/{network_namespace}", "--", *words]
        record, new = shlex.quote(str(self.record)), shlex.quote(f"{self.record}.new")
        return (
            "".join(f"echo $$ > {shlex.quote(str(path))} || exit 97; " for path in cgroup_files)
            # Field 22 of the stat line, counted behind the name, which may contain spaces.
            + "stat=$(cat /proc/$$/stat); set -- ${stat##*) }; "
            + f"echo $$ ${{20}} $(cat /proc/sys/kernel/random/boot_id) > {new}; mv {new} {record}; "
            + f"exec {shlex.join(words)}"
        )

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal; return whether there was a live process to send it to."""
        pid = self.pid()
        if pid is None:
            return False
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    def stop(self, *, grace_s: float = 5.0) -> None:
        """End the process: SIGTERM, and SIGKILL when it is still there after the grace (0 means SIGKILL at once)."""
        self.signal(signal.SIGCONT)
        if grace_s > 0 and self.signal(signal.SIGTERM):
            ends = time.monotonic() + grace_s
            while self.pid() is not None and time.monotonic() < ends:
                time.sleep(0.02)
        if self.signal(signal.SIGKILL):
            await_condition(f"{self.name} to end", lambda: self.pid() is None, 10.0, poll_s=0.02)
        self.record.unlink(missing_ok=True)

    def last_lines(self, count: int = 15) -> str:
        """Return the end of the log, for an error."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])
        except FileNotFoundError:
            return "(no log)"


def machine_boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def signal_each(pids: Iterable[int], number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to each pid that still exists: those whose parent was killed may end with it."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def run(command: Sequence[str | Path], *, stdin: bytes | None = None, check: bool = True) -> str:
    """Run a short command and return its standard output."""
    words = [str(word) for word in command]
    done = subprocess.run(words, input=stdin, capture_output=True, check=False)
    if check and done.returncode != 0:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()[-2000:]
        raise RuntimeError(f"{shlex.join(words[:12])} failed with {done.returncode}: {said}")
    return done.stdout.decode(errors="replace")
