"""What every artefact is told: the version, which stands in pyproject.toml alone, and the time of the commit."""

import os
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]
EARLIEST_S: Final = 315_532_800
"""1980-01-01T00:00:00Z: what a zip file cannot be older than."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a release is.

    Parameters
    ----------
    at_s: seconds since the Unix epoch that every archive is given, so that the same commit makes the same bytes.
    image: where the operator's image will be, without its tag.
    base_url: where the files of the release will be.
    """

    version: str
    at_s: int
    image: str
    base_url: str

    @property
    def tag(self) -> str:
        """Return the version as tags and krew write it."""
        return f"v{self.version}"


def version() -> str:
    """Return the version."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def committed_at_s() -> int:
    """Return SOURCE_DATE_EPOCH, else the time of the commit, else 1980 for sources without a history."""
    named = os.environ.get("SOURCE_DATE_EPOCH", "")
    if named:
        return max(EARLIEST_S, int(named))
    command = ["git", "-C", str(REPOSITORY), "log", "-1", "--format=%ct"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return max(EARLIEST_S, int(done.stdout)) if done.returncode == 0 and done.stdout.strip() else EARLIEST_S
