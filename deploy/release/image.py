"""The operator's image as an OCI archive, and what is in it, read from its layers.

The base image is made from packages by tests/support/devcluster, for the processor of this machine; a publisher who can pull
another base names it in the Dockerfile's BASE_IMAGE.
"""

import hashlib
import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.devcluster.buildah import buildah
from support.devcluster.images import build_image

from .facts import REPOSITORY, Facts


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

    def files(self, is_wanted: Callable[[str], bool]) -> dict[str, bytes]:
        """Return the files that a container of this image sees, by path without the leading slash.

        Notes
        -----
        A layer takes a path of those below it away by `.wh.<name>` beside it (image-spec, layer.md, whiteouts).
        """
        found: dict[str, bytes] = {}
        with tarfile.open(self.path) as archive:
            for digest in self.layers:
                blob = archive.extractfile(_blob(digest))
                assert blob is not None
                with tarfile.open(fileobj=blob, mode="r:*") as layer:
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


def build(facts: Facts, path: Path) -> Image:
    """Build the image and write it as an OCI archive.

    Raises
    ------
    RuntimeError
        When buildah fails.
    """
    tag = f"{facts.image}:{facts.version}"
    archive = build_image(tag, REPOSITORY, ignore=(".git", ".venv", "build"))
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
