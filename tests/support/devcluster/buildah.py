"""buildah, with a store of its own, so that builds neither see nor change the user's images."""

import os
import shlex
import subprocess
from collections.abc import Sequence

from .cache import cache_directory
from .progress import say


def buildah(arguments: Sequence[str], *, is_quiet: bool = False) -> None:
    """Run buildah in the cache's own store, without a container engine and without privileges it may lack."""
    store = cache_directory() / "buildah"
    command = ["buildah", "--root", str(store / "root"), "--runroot", str(store / "run"), *arguments]
    environment = {**os.environ, "BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "overlay"}
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        for line in [] if is_quiet else done.stdout.splitlines()[-25:]:
            say(f"   {line}")
        raise RuntimeError(f"{shlex.join(['buildah', *arguments[:2]])} … failed with {done.returncode}")


def is_stored(reference: str) -> bool:
    """Return whether the cache's store has an image under a reference."""
    try:
        buildah(["inspect", "--type=image", "--format={{.FromImageID}}", reference], is_quiet=True)
    except RuntimeError:
        return False
    return True
