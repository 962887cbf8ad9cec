"""Fetch the jars of a Kafka broker with Maven, once per version and machine.

Why: tests and the demo need real brokers, and nothing binary is committed. One idea: the finished folder appears by
a rename under a file lock, so a folder that exists is complete, whichever process was killed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

RESOURCES = Path(__file__).parent / "kafka"
"""Maven project, logging layouts and property profiles."""

DEFAULT_VERSION = "4.4.0"

NEWEST_PATCH = {"4.4": "4.4.0", "4.1": "4.1.2", "4.0": "4.0.2", "3.9": "3.9.2"}
"""The patch level meant by a bare minor version; every one of them was started by these modules."""

MAVEN_TIMEOUT_S = 540

Report = Callable[[str], None]


class ToolMissing(RuntimeError):
    """A program that the brokers need is not installed and cannot be installed from here."""


def full_version(version: str) -> str:
    """Return the full version for `4.1` or `4.1.2`.

    Returns
    -------
    str
        The version with its patch level; a full version is returned as it is.
    """
    return NEWEST_PATCH.get(version, version)


def version_key(version: str) -> tuple[int, ...]:
    """Return the numbers of a version such as `4.1.2`, for comparison."""
    return tuple(int(part) for part in full_version(version).split("."))


def cache_root() -> Path:
    """Return the project's cache folder (XDG base directory specification)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "staticgroup"


def ensure_tools(report: Report, programs: dict[str, str] | None = None, is_root: bool | None = None) -> None:
    """Make sure that the programs which the brokers need are installed.

    Parameters
    ----------
    programs: program to Debian package; the default is what this package uses.
    is_root: whether packages may be installed with apt-get; default: the effective user is root.
    """
    needed = programs or {
        "java": "openjdk-17-jre-headless",
        "mvn": "maven",
        "openssl": "openssl",
    }
    missing = sorted(program for program in needed if shutil.which(program) is None)
    if not missing:
        return
    packages = [needed[program] for program in missing]
    advice = f"missing on PATH: {', '.join(missing)} (Debian: apt-get install {' '.join(packages)})"
    may_install = (os.geteuid() == 0) if is_root is None else is_root
    if not may_install or shutil.which("apt-get") is None:
        raise ToolMissing(advice)
    report(f"installing {' '.join(packages)}")
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False, timeout=MAVEN_TIMEOUT_S)
    still_missing = [program for program in missing if shutil.which(program) is None]
    if outcome.returncode != 0 or still_missing:
        raise ToolMissing(advice)


def ensure_jars(version: str, report: Report) -> Path:
    """Return the folder with the broker's jars, fetching them when they are not there.

    Parameters
    ----------
    version: full (`4.1.2`) or minor (`4.1`) version of Apache Kafka, 3.9 or newer.
    report: receives one line per step.
    """
    full = full_version(version)
    target = cache_root() / f"kafka-{full}"
    if target.is_dir():
        return target
    ensure_tools(report)
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.with_name(f".kafka-{full}.lock")):
        if not target.is_dir():
            _fetch(full, target, report)
    return target


def class_path(jars: Path) -> str:
    """Return the Java class path for a folder of jars."""
    return f"{jars}/*"


def made_once(target: Path, make: Callable[[Path], None]) -> Path:
    """Return a folder of the cache; when it is not there, `make` fills an empty one, which becomes it by a rename."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.with_name(f".{target.name}.lock")):
        if not target.is_dir():
            for leftover in target.parent.glob(f".{target.name}.tmp-*"):  # of a killed run; we hold the lock
                shutil.rmtree(leftover)
            scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.tmp-", dir=target.parent))
            make(scratch)
            scratch.rename(target)
    return target


def _fetch(version: str, target: Path, report: Report) -> None:
    for leftover in target.parent.glob(f".kafka-{version}.tmp-*"):  # of a killed run; we hold the lock
        shutil.rmtree(leftover)
    started_s = time.monotonic()
    report(f"fetching the jars of Kafka {version}")
    scratch = Path(tempfile.mkdtemp(prefix=f".kafka-{version}.tmp-", dir=target.parent))
    try:
        shutil.copy(RESOURCES / "pom.xml", scratch / "pom.xml")
        command = ["mvn", "-B", "-q", "-P", ",".join(_profiles(version)), f"-Dkafka.version={version}"]
        command += ["dependency:copy-dependencies", "-DoutputDirectory=libs", "-DincludeScope=runtime"]
        outcome = subprocess.run(
            command, cwd=scratch, capture_output=True, text=True, check=False, timeout=MAVEN_TIMEOUT_S
        )
        if outcome.returncode != 0:
            raise RuntimeError(f"Maven could not fetch Kafka {version}: {_first_error(outcome.stdout)}")
        (scratch / "libs").rename(target)
    finally:
        shutil.rmtree(scratch)
    count = len(list(target.glob("*.jar")))
    report(f"fetched {count} jars of Kafka {version} in {time.monotonic() - started_s:.1f} s")


def _profiles(version: str) -> list[str]:
    profiles = ["reload4j" if version_key(version) < (4,) else "log4j2"]
    if version == "4.4.0":
        profiles.append("older-tools-api")
    return profiles


def _first_error(output: str) -> str:
    errors = [line for line in output.splitlines() if "ERROR" in line]
    return (errors or ["no message"])[0][:300]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
