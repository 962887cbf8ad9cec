"""The operator's image as an OCI archive, and what is in it, read from its layers.

The base image is made from packages by tests/support/devcluster, for the processor of this machine, unless a publisher
who can pull another one names it with its digest.
"""

import hashlib
import json
import re
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.devcluster.buildah import buildah
from support.devcluster.images import build_image

from .facts import REPOSITORY, Facts

_PINNED = re.compile(r"[^\s@]+@sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image of one processor in an OCI archive.

    Parameters
    ----------
    config: the image's configuration. digest: of its manifest.
    """

    path: Path
    digest: str
    config: dict[str, Any]
    layers: tuple[str, ...]

    def unpacked_bytes(self) -> int:
        """Return how large the layers are once they are unpacked."""
        with tarfile.open(self.path) as archive:
            return sum(sum(member.size for member in layer) for layer in self._opened(archive))

    def _opened(self, archive: tarfile.TarFile) -> Iterator[tarfile.TarFile]:
        for digest in self.layers:
            blob = archive.extractfile(_blob(digest))
            assert blob is not None
            with tarfile.open(fileobj=blob, mode="r:*") as layer:
                yield layer

    def files(self, is_wanted: Callable[[str], bool]) -> dict[str, bytes]:
        """Return the files that a container of this image sees, by path without the leading slash.

        Notes
        -----
        A layer takes a path of those below it away by `.wh.<name>` beside it (image-spec, layer.md, whiteouts).
        """
        found: dict[str, bytes] = {}
        with tarfile.open(self.path) as archive:
            for layer in self._opened(archive):
                for member in layer:
                    name = member.name.removeprefix("./")
                    folder, _, last = name.rpartition("/")
                    if last.startswith(".wh."):
                        gone = f"{folder}/{last.removeprefix('.wh.')}".lstrip("/")
                        found = {k: v for k, v in found.items() if k != gone and not k.startswith(f"{gone}/")}
                    elif member.isfile() and is_wanted(name):
                        content = layer.extractfile(member)
                        found[name] = content.read() if content is not None else b""
        return found


def build(facts: Facts, path: Path, base_image: str = "") -> Image:
    """Build the image twice, and write it as an OCI archive.

    Parameters
    ----------
    base_image: with its digest; "" for the one that this machine makes.

    Raises
    ------
    RuntimeError
        When buildah fails, or the second build differs.
    ValueError
        When the base image has no digest.
    """
    if base_image and not _PINNED.fullmatch(base_image):
        raise ValueError(f"the base image {base_image} may be another one tomorrow: write <name>@sha256:<64 digits>")
    first = _built(facts, f"{facts.image}:{facts.version}", path, base_image, is_cached=True)
    with tempfile.TemporaryDirectory() as scratch:
        again = _built(facts, f"{facts.image}:{facts.version}", Path(scratch) / path.name, base_image, is_cached=False)
    if again.digest != first.digest:
        layers = [n for n, (a, b) in enumerate(zip(first.layers, again.layers, strict=True)) if a != b]
        raise RuntimeError(f"two builds of the image differ: {first.digest} and {again.digest}, layers {layers}")
    return first


def _built(facts: Facts, tag: str, path: Path, base_image: str, *, is_cached: bool) -> Image:
    arguments = {"BASE_IMAGE": base_image} if base_image else {}
    ignore = (".git", ".venv", "build")
    archive = build_image(tag, REPOSITORY, build_arguments=arguments, ignore=ignore, is_cached=is_cached)
    path.unlink(missing_ok=True)
    buildah(["pull", "--quiet", f"docker-archive:{archive}"])
    buildah(["push", "--quiet", tag, f"oci-archive:{path}:{facts.version}"])
    return read(path)


def read(path: Path) -> Image:
    """Read an OCI archive, and hold each blob against its digest.

    Raises
    ------
    ValueError
        When a blob is not what its name says, or the archive holds more than one image.
    """
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            if member.isfile() and member.name.startswith("blobs/sha256/"):
                content = archive.extractfile(member)
                assert content is not None
                if hashlib.file_digest(content, "sha256").hexdigest() != member.name.rpartition("/")[2]:  # type: ignore[arg-type]
                    raise ValueError(f"{path}: {member.name} is not what its name says")
        (entry,) = _json(archive, "index.json")["manifests"]
        manifest = _json(archive, _blob(entry["digest"]))
        config = _json(archive, _blob(manifest["config"]["digest"]))
    return Image(path=path, digest=entry["digest"], config=config, layers=tuple(each["digest"] for each in manifest["layers"]))


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _json(archive: tarfile.TarFile, name: str) -> Any:
    content = archive.extractfile(name)
    assert content is not None
    return json.load(content)
