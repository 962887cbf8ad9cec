"""Built things, kept under a name that says what they were built from.

The one idea: a build happens in a temporary directory beside its final place and is renamed when it is complete, under
a file lock. A crash leaves no half thing under a final name, and two builders at once build once.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_directory() -> Path:
    """Return the directory of built things: `$XDG_CACHE_HOME/staticgroup`, by default `~/.cache/staticgroup`."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    path = Path(base) / "staticgroup"
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def file_lock(path: Path, *, remove: bool = False) -> Iterator[None]:
    """Hold an exclusive lock on a file; wait for its holder.

    Parameters
    ----------
    path: the lock file; its directory is created.
    remove: unlink the file before the lock is released. A waiter notices that its file is no longer the one of that
        name and locks the new one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_current(descriptor, path):
            break
        os.close(descriptor)
    try:
        yield
    finally:
        if remove:
            path.unlink(missing_ok=True)
        os.close(descriptor)


def _is_current(descriptor: int, path: Path) -> bool:
    try:
        return os.fstat(descriptor).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


def built(name: str, build: Callable[[Path], None]) -> Path:
    """Return the directory of a built thing, and build it first when it is missing.

    Parameters
    ----------
    name: directory name under the cache directory; it contains the version or the hash of the inputs.
    build: fills the empty directory that it is given. It is called at most once at a time on this machine.
    """
    final = cache_directory() / name
    if final.is_dir():
        return final
    with file_lock(cache_directory() / f".{name}.lock"):
        if final.is_dir():
            return final
        for abandoned in cache_directory().glob(f".{name}.build-*"):
            shutil.rmtree(abandoned, ignore_errors=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{name}.build-", dir=cache_directory()))
        temporary.chmod(0o755)
        try:
            build(temporary)
            temporary.rename(final)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    return final


def digest(*parts: str | bytes | Path) -> str:
    """Return 12 hexadecimal digits that identify the parts; a path stands for its file's or directory's content."""
    sha = hashlib.sha256()
    for part in parts:
        for piece in _pieces(part):
            sha.update(len(piece).to_bytes(8, "big"))
            sha.update(piece)
    return sha.hexdigest()[:12]


def _pieces(part: str | bytes | Path) -> Iterator[bytes]:
    if isinstance(part, str):
        yield part.encode()
    elif isinstance(part, bytes):
        yield part
    elif part.is_dir():
        for path in sorted(part.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield str(path.relative_to(part)).encode()
                yield bytes([path.stat().st_mode >> 6 & 1])
                yield path.read_bytes()
    else:
        yield part.read_bytes()
