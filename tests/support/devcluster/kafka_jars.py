"""Fetch the jars of a Kafka broker with Maven, once per version and machine.

Why: tests and the demo need real brokers, and nothing binary is committed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from .cache import built, cache_directory

RESOURCES = Path(__file__).parent / "kafka"
"""Maven project, logging layouts and property profiles."""

DEFAULT_VERSION = "4.4.0"

NEWEST_PATCH = {"4.4": "4.4.0", "4.1": "4.1.2", "4.0": "4.0.2", "3.9": "3.9.2"}
"""The patch level meant by a bare minor version; every one of them was started by these modules."""

MAVEN_TIMEOUT_S = 540
COPY_JARS = ("dependency:copy-dependencies", "-DoutputDirectory=libs", "-DincludeScope=runtime")
"""Maven's goal that puts the jars of a project into its folder `libs`."""

Report = Callable[[str], None]


class ToolMissing(RuntimeError):
    """A program that the brokers need is not installed and cannot be installed from here."""


def full_version(version: str) -> str:
    """Return the full version for `4.1`; a full one such as `4.1.2` is returned as it is."""
    return NEWEST_PATCH.get(version, version)


def version_key(version: str) -> tuple[int, ...]:
    """Return the numbers of a version such as `4.1.2`, for comparison."""
    return tuple(int(part) for part in full_version(version).split("."))


def ensure_tools(report: Report, programs: dict[str, str] | None = None, is_root: bool | None = None) -> None:
    """Make sure that the programs which the brokers need are installed.

    Parameters
    ----------
    programs: program to Debian package; the default is what this package uses.
    is_root: whether packages may be installed with apt-get; default: the effective user is root.
    """
    needed = programs or {"java": "openjdk-17-jre-headless", "mvn": "maven", "openssl": "openssl"}
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

    def fetch(folder: Path) -> None:
        report(f"fetching the jars of Kafka {full}")
        scratch = folder / "scratch"
        scratch.mkdir()
        shutil.copy(RESOURCES / "pom.xml", scratch / "pom.xml")
        maven(["-P", ",".join(_profiles(full)), f"-Dkafka.version={full}", *COPY_JARS], scratch)
        for jar in (scratch / "libs").iterdir():
            jar.rename(folder / jar.name)
        shutil.rmtree(scratch)

    if not (cache_directory() / f"kafka-{full}").is_dir():
        ensure_tools(report)
    return built(f"kafka-{full}", fetch)


def maven(arguments: Sequence[str], folder: Path) -> None:
    command = ["mvn", "-B", "-q", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=MAVEN_TIMEOUT_S)
    if done.returncode != 0:
        errors = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        raise RuntimeError(f"Maven failed with {' '.join(arguments)}: {(errors or ['no message'])[0][:300]}")


def class_path(jars: Path) -> str:
    """Return the Java class path for a folder of jars."""
    return f"{jars}/*"


def _profiles(version: str) -> list[str]:
    profiles = ["reload4j" if version_key(version) < (4,) else "log4j2"]
    if version == "4.4.0":
        profiles.append("older-tools-api")
    return profiles
