"""The fleet learner's image, built for the development cluster.

The one idea: the context is exactly what the Dockerfile copies, so that a change of anything else costs no build. (The
repository's own list of ignored files is made for the operator's image.)
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

from fleet_learner.lake.jars import JARS, cache_folder, fetch
from support.devcluster.images import build_image

REPOSITORY = Path(__file__).parents[3]
FLEET_IMAGE = "localhost/fleet-learner:0.1.0"
DOCKERFILE = REPOSITORY / "deploy" / "fleet-learner" / "Dockerfile"
_COPY = re.compile(r"^COPY (?!--from)(.+) \S+$", re.MULTILINE)


def copied_paths() -> list[str]:
    """Return what the Dockerfile takes from the repository, as paths below its root."""
    return [path for sources in _COPY.findall(DOCKERFILE.read_text()) for path in sources.split()]


def build_fleet_image(tag: str = FLEET_IMAGE) -> Path:
    """Build the image where its inputs changed; returns the docker archive. The jars come from this machine's cache."""
    if not all((cache_folder() / jar.name).is_file() for jar in JARS):
        fetch(cache_folder())
    with tempfile.TemporaryDirectory() as folder:
        for path in copied_paths():
            source, target = REPOSITORY / path, Path(folder) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, target)
        for jar in JARS:
            shutil.copy2(cache_folder() / jar.name, Path(folder) / "deploy" / "fleet-learner" / "jars")
        return build_image(tag, Path(folder), dockerfile=DOCKERFILE)


if __name__ == "__main__":
    archive = build_fleet_image(*sys.argv[1:])
    print(f"{archive} ({archive.stat().st_size / 1e6:.0f} MB)")
