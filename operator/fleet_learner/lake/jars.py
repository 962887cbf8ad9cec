"""The Java side of Delta Lake: two jars, pinned by version and digest, which Spark needs at its start.

The one idea: the jars are searched in Spark's own folder (as in the image), in a folder that a variable names and in
the user's cache; if they are missing, Spark's own resolver fetches them once by their Maven coordinates. Only the jars
that this version was tested with are used.

`python -m fleet_learner.lake.jars FOLDER` puts them into a folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from ..errors import JobError

VARIABLE: Final = "FLEET_LEARNER_JARS"
"""Names a folder that holds the jars."""
DELTA: Final = "4.4.0"


@dataclass(frozen=True, slots=True)
class Jar:
    """One jar by its Maven coordinates."""

    artifact: str
    sha256: str
    version: str = DELTA
    group: str = "io.delta"

    @property
    def name(self) -> str:
        """Return the file's name."""
        return f"{self.artifact}-{self.version}.jar"


JARS: Final = (
    Jar("delta-spark_4.2_2.13", "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead"),
    Jar("delta-storage", "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc"),
)


def cache_folder(kind: str = DELTA) -> Path:
    """Return the cache folder for jars of a kind."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "staticgroup" / "jars" / kind


def jar_paths(jars: Sequence[Jar] = JARS, kind: str = DELTA) -> list[Path]:
    """Return the jars to pass to Spark; none if its own folder has them.

    Parameters
    ----------
    kind: names the folder of the cache.

    Raises
    ------
    JobError: a jar is missing and cannot be fetched, or has the wrong digest.
    """
    if all((spark_folder() / jar.name).is_file() for jar in jars):
        return []
    named = os.environ.get(VARIABLE)
    folder = Path(named) if named else cache_folder(kind)
    missing = [jar for jar in jars if not (folder / jar.name).is_file()]
    if missing and named:
        raise JobError(f"{VARIABLE}: {folder} lacks {', '.join(jar.name for jar in missing)}")
    if missing:
        fetch(folder, missing)
    return [_checked(folder / jar.name, jar) for jar in jars]


def spark_folder() -> Path:
    """Return the folder of Spark's own jars."""
    home = os.environ.get("SPARK_HOME")
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return (Path(home) if home else Path(spec.origin).parent) / "jars"


def fetch(folder: Path, jars: Sequence[Jar] = JARS) -> None:
    """Fetch the jars into a folder, each atomically.

    Raises
    ------
    JobError: they cannot be fetched; the text says how to install them by hand.
    """
    from py4j.protocol import Py4JError
    from pyspark.java_gateway import launch_gateway

    folder.mkdir(parents=True, exist_ok=True)
    gateway: Any = launch_gateway()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            gateway.jvm.java.lang.System.setProperty("spark.jars.ivy", scratch)
            for jar in jars:
                uri = gateway.jvm.java.net.URI(f"ivy://{jar.group}:{jar.artifact}:{jar.version}?transitive=false")
                found = gateway.jvm.org.apache.spark.util.DependencyUtils.resolveMavenDependencies(uri)
                _keep(Path(found.apply(0)), folder / jar.name, jar)
    except Py4JError:
        coordinates = " and ".join(f"{jar.group}:{jar.artifact}:{jar.version}" for jar in jars)
        raise JobError(f"cannot fetch {coordinates}: bring them into a folder and name it in {VARIABLE}") from None
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()


def _keep(found: Path, path: Path, jar: Jar) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    shutil.copyfile(_checked(found, jar), draft)
    draft.replace(path)


def _checked(path: Path, jar: Jar) -> Path:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != jar.sha256:
        raise JobError(f"{path} is not the jar of {jar.artifact} {jar.version}: delete it, it is fetched again")
    return path


def put(folder: Path) -> None:
    """Copy the jars into a folder, from the folder that the variable names, or fetch them."""
    brought = [Path(os.environ.get(VARIABLE, "")) / jar.name for jar in JARS]
    if not all(path.is_file() for path in brought):
        fetch(folder)
        return
    folder.mkdir(parents=True, exist_ok=True)
    for path, jar in zip(brought, JARS, strict=True):
        _keep(path, folder / jar.name, jar)


if __name__ == "__main__":
    put(Path(sys.argv[1]))
