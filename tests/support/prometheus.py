"""A real Prometheus and its promtool, out of Debian's package, which need not be installed for it.

One idea: both programs are linked statically but for libc, so the package is unpacked into the cache, keyed by its
version, and run from there; its data lie in a folder of the caller's.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from support.devcluster.cache import built
from support.devcluster.kafka_jars import ToolMissing
from support.devcluster.process import run
from support.devcluster.progress import step
from support.fault_proxy.free_port import free_port
from support.waiting import until

START_DEADLINE_S = 30.0


def programs() -> Path:
    """Return the folder of `prometheus` and `promtool`: the installed one, or one unpacked once into the cache."""
    installed = [Path(found) for name in ("prometheus", "promtool") if (found := shutil.which(name))]
    if len(installed) == 2:
        return installed[0].parent
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise ToolMissing("missing: Prometheus (Debian: apt-get install prometheus)")
    version = _candidate()
    if version is None and os.geteuid() == 0:
        run(["apt-get", "update", "-qq"])
        version = _candidate()
    if version is None:
        raise ToolMissing("no Debian package named prometheus is known here (apt-get update)")
    return built(f"prometheus-{version.replace(':', '-')}", lambda folder: _unpack(folder, version)) / "usr" / "bin"


def _candidate() -> str | None:
    found = re.search(r"Candidate: (\S+)", run(["apt-cache", "policy", "prometheus"], check=False))
    return found[1] if found and found[1] != "(none)" else None


def _unpack(folder: Path, version: str) -> None:
    with step(f"unpack Prometheus {version}"):
        if os.geteuid() == 0:
            run(["apt-get", "update", "-qq"])  # an older list may name a file that the mirror has no more
        subprocess.run(
            ["apt-get", "download", "-qq", f"prometheus={_candidate() or version}"],
            cwd=folder, capture_output=True, check=True, timeout=300,
        )  # fmt: skip
        for package in folder.glob("*.deb"):
            run(["dpkg-deb", "-x", package, folder])
            package.unlink()


def promtool(*arguments: str | Path) -> str:
    """Run promtool and return what it said."""
    done = subprocess.run(
        [programs() / "promtool", *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dataclass(frozen=True, slots=True, kw_only=True)
class Prometheus:
    """A server on loopback while it runs; see `running`."""

    port: int

    def is_ready(self) -> bool:
        """True once it answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError):
            return False

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the vector or matrix that an instant query gives."""
        return self._asked("query", query=expression)

    def over(self, expression: str, *, begin_s: float, end_s: float, step_s: float = 1.0) -> list[dict[str, Any]]:
        """Return the matrix of a range query; times in seconds since the Unix epoch."""
        return self._asked("query_range", query=expression, start=begin_s, end=end_s, step=step_s)

    def _asked(self, what: str, **parameters: Any) -> list[dict[str, Any]]:
        url = f"http://127.0.0.1:{self.port}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                body = json.load(answer)
        except urllib.error.HTTPError as error:
            body = json.load(error)
        assert body["status"] == "success", f"{parameters['query']}: {body.get('error')}"
        found: list[dict[str, Any]] = body["data"]["result"]
        return found


@contextmanager
def running(folder: Path, job: Mapping[str, Any], rules: Sequence[Path] = ()) -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes one job five times a second and evaluates rules twice as often.

    Parameters
    ----------
    job: as in `scrape_configs`.
    """
    configuration = {
        "global": {"scrape_interval": "200ms", "scrape_timeout": "200ms", "evaluation_interval": "100ms"},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [dict(job)],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    server = Prometheus(port=free_port())
    options = [f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
    log = folder / "prometheus.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [programs() / "prometheus", *options, f"--web.listen-address=127.0.0.1:{server.port}"],
            stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        until(
            lambda: process.poll() is not None or server.is_ready(),
            deadline_s=START_DEADLINE_S,
            what="Prometheus to answer",
        )
        assert process.poll() is None, log.read_text()[-2000:]
        yield server
    finally:
        process.terminate()
        process.wait(timeout=30)
