"""A PostgreSQL of its own on loopback, out of Debian's packages, which need not be installed for it.

One idea: the server is private. Its data lie in a temporary folder of a user that owns nothing else, it listens
on one port of 127.0.0.1, and afterwards the folder is gone. Where Debian's programs are not installed, the packages are
unpacked into the cache: PostgreSQL finds its own files from where its program lies.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.devcluster.cache import built
from support.devcluster.kafka_jars import MAVEN_TIMEOUT_S, Report, ToolMissing
from support.devcluster.process import Process, run
from support.fault_proxy.free_port import free_port
from support.waiting import until

INSTALLED = Path("/usr/lib/postgresql")
SERVER_USER = ("nobody", "nogroup")
"""Whom the server becomes where the tests run as root, as which it refuses to run."""
START_DEADLINE_S = 60.0
SETTINGS = {
    "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "wal_level": "logical",
    "track_commit_timestamp": "on",  # when a row's transaction was committed, by the database itself
    "fsync": "off",  # the server is never ended without its data being thrown away
    "jit": "off",  # its library is not unpacked
}  # fmt: skip
_INSTALL = ("apt-get", "install", "--simulate", "--no-install-recommends", "-o", "Debug::NoLocking=1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """PostgreSQL's programs; `unpacked` is the root of a tree in the cache that holds them, None for installed ones."""

    folder: Path
    unpacked: Path | None = None

    def environment(self) -> dict[str, str]:
        """Return the environment in which they find their libraries."""
        if self.unpacked is None:
            return dict(os.environ)
        libraries = sorted({str(path.parent) for path in self.unpacked.glob("**/lib/*-linux-gnu/lib*.so.*")})
        return {**os.environ, "LD_LIBRARY_PATH": ":".join(libraries)}

    def copied_to(self, folder: Path) -> Programs:
        """Return a copy of unpacked programs that any user can reach; the cache may be in a home that is closed."""
        if self.unpacked is None:
            return self
        shutil.copytree(self.unpacked, folder, symlinks=True)
        return Programs(folder=folder / self.folder.relative_to(self.unpacked), unpacked=folder)


def ensure_programs(report: Report, installed: Path = INSTALLED) -> Programs:
    """Return PostgreSQL's programs: Debian's where they are installed, otherwise unpacked once into the cache."""
    if found := _newest(installed):
        return Programs(folder=found)
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise ToolMissing("missing: PostgreSQL's server (Debian: apt-get install postgresql)")
    tree = built("postgresql-debian", lambda folder: _unpack(folder, report))
    unpacked = _newest(tree / "usr" / "lib" / "postgresql")
    assert unpacked is not None, tree
    return Programs(folder=unpacked, unpacked=tree)


def _newest(versions: Path) -> Path | None:
    folders = [path.parent for path in versions.glob("*/bin/postgres") if (path.parent / "pgbench").exists()]
    return max(folders, key=lambda folder: int(folder.parent.name), default=None)


def _unpack(folder: Path, report: Report) -> None:
    """Fetch the server, its client and the libraries that this machine has not, and unpack them without installing."""
    report("fetching PostgreSQL's Debian packages")
    if os.geteuid() == 0:
        run(["apt-get", "update", "-qq"])
    server = re.search(r"Depends: (postgresql-\d+)", run(["apt-cache", "depends", "postgresql"], check=False))
    if server is None:
        raise ToolMissing("no Debian package named postgresql is known here (apt-get update)")
    needed = re.findall(r"^Inst (lib\S+)", run([*_INSTALL, server[1]]), re.MULTILINE)
    names = [server[1], server[1].replace("-", "-client-"), *(name for name in needed if "llvm" not in name)]
    fetched = subprocess.run(
        ["apt-get", "download", "-qq", *names], cwd=folder, capture_output=True, check=False, timeout=MAVEN_TIMEOUT_S
    )
    if fetched.returncode != 0:
        raise RuntimeError(f"apt-get download failed: {fetched.stderr.decode(errors='replace')[-300:]}")
    for package in folder.glob("*.deb"):
        run(["dpkg-deb", "-x", package, folder])
        package.unlink()


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A running server; make one with `up`."""

    folder: Path
    programs: Programs
    port: int

    @property
    def process(self) -> Process:
        """Its first process."""
        return Process(name="postgres", directory=self.folder)

    @classmethod
    def up(cls, report: Report = print, installed: Path = INSTALLED) -> Database:
        """Start a server on an empty database."""
        programs = ensure_programs(report, installed)
        folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        folder.chmod(0o755)
        database = cls(folder=folder, programs=programs.copied_to(folder / "programs"), port=free_port())
        try:
            database._start()
        except BaseException:
            database.down()
            raise
        return database

    def _start(self) -> None:
        data = self.folder / "data"
        data.mkdir(mode=0o700)
        become: tuple[str, ...] = ()
        if os.geteuid() == 0:
            shutil.chown(data, *SERVER_USER)
            user, group = SERVER_USER
            become = ("setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--")
        made = subprocess.run(
            [*become, self.programs.folder / "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--no-sync",
             "--no-locale", "--encoding=UTF8"],
            cwd="/", env=self.programs.environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr[-500:]
        settings = {**SETTINGS, "port": str(self.port)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self.process.start(
            [*become, self.programs.folder / "postgres", "-D", data, *options], environment=self.programs.environment()
        )
        until(self._answers, deadline_s=START_DEADLINE_S, what="PostgreSQL to answer")

    def _answers(self) -> bool:
        assert self.process.pid() is not None, f"PostgreSQL ended: {self.process.last_lines()}"
        return self._psql("select 1").returncode == 0

    def down(self) -> None:
        """End it at once and remove its folder."""
        self.process.signal(signal.SIGINT)
        until(lambda: self.process.pid() is None, deadline_s=30, what="PostgreSQL to end")
        shutil.rmtree(self.folder)

    def query(self, sql: str) -> list[list[str]]:
        """Run statements and return the rows of all answers, their values as text, empty for null."""
        done = self._psql(sql)
        if done.returncode != 0:
            raise RuntimeError(f"psql: {done.stderr.strip()[-500:]}")
        return [line.split("\t") for line in done.stdout.splitlines()]

    def _psql(self, sql: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.programs.folder / "psql", "-XAtq", "-F", "\t", "-v", "ON_ERROR_STOP=1", *self._login(), "postgres"],
            input=sql, env=self.programs.environment(), capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    def _login(self) -> Sequence[str]:
        return ("-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres")

    def write(self, scripts: Mapping[str, str], *, per_s: int, for_s: int) -> Process:
        """Start pgbench, which runs scripts by turns, one transaction after the other.

        Parameters
        ----------
        scripts: a name to a script in the language of pgbench.
        per_s: transactions a second.
        """
        files = []
        for name, text in scripts.items():
            file = self.folder / f"{name}.sql"
            file.write_text(text)
            files += ["-f", str(file)]
        writer = Process(name="pgbench", directory=self.folder)
        pace = ["-n", "-c", "1", "-R", str(per_s), "-T", str(for_s)]
        writer.start(
            [self.programs.folder / "pgbench", *self._login(), *pace, *files, "postgres"],
            environment=self.programs.environment(),
        )
        return writer

    def streams(self) -> dict[str, tuple[int, int]]:
        """Return for each replication slot that is read the process that sends, and the port of its reader."""
        rows = self.query(
            "select slot_name, active_pid, client_port from pg_replication_slots"
            " join pg_stat_activity on pid = active_pid where client_port is not null"
        )
        return {slot: (int(sender), int(port)) for slot, sender, port in rows}


def holder_of(port: int, pids: Mapping[str, int]) -> str | None:
    """Return which of some processes holds the local end of a TCP connection; None when none does.

    Source: proc(5), /proc/net/tcp and /proc/<pid>/fd.
    """
    sockets: set[str] = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if int(fields[1].rpartition(":")[2], 16) == port:
                sockets.add(f"socket:[{fields[9]}]")
    return next((name for name, pid in pids.items() if sockets & _open_files(pid)), None)


def _open_files(pid: int) -> set[str]:
    found: set[str] = set()
    for entry in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            found.add(os.readlink(entry))
        except FileNotFoundError:  # closed meanwhile
            continue
    return found
