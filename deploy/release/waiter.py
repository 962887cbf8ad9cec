"""The image of the init container of Deployments' pods, for two architectures, as an OCI archive.

The one idea: it is one static program, so the image is written straight from it, and its digest is known before chart and
manifests, which name it.
"""

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
from dataclasses import dataclass
from typing import Any, Final

from support.devcluster.images import USER, program_image
from support.devcluster.programs import slot_waiter_program

from .facts import Facts

ARCHITECTURES: Final = ("amd64", "arm64")
PROGRAM_BYTES_MAX: Final = 2_000_000
_MEDIA: Final = "application/vnd.oci.image."


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """The image.

    Parameters
    ----------
    digest: of the index that names the image of each architecture. archive: an OCI archive.
    """

    digest: str
    archive: bytes


def repository(facts: Facts) -> str:
    """Return where the image will be, beside the operator's, without its tag."""
    return f"{facts.image}-slot-waiter"


def archive_name(facts: Facts) -> str:
    """Return the name of the archive."""
    return f"staticgroup-slot-waiter-{facts.version}.oci.tar"


def go_version() -> str:
    """Return the version of Go that built the programs, by what stands in them: `v1.24.0`."""
    said = subprocess.run(["go", "version", slot_waiter_program()], capture_output=True, text=True, check=True).stdout
    return "v" + said.split()[-1].removeprefix("go")


def waiter(facts: Facts) -> Waiter:
    """Build the image; its digest depends on the program alone.

    Raises
    ------
    ValueError
        When the program has grown beyond PROGRAM_BYTES_MAX.
    """
    blobs: dict[str, bytes] = {}

    def put(content: bytes, kind: str, **more: Any) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": f"{_MEDIA}{kind}", "digest": f"sha256:{digest}", "size": len(content), **more}

    images = []
    for architecture in ARCHITECTURES:
        program = slot_waiter_program(architecture)
        if program.stat().st_size > PROGRAM_BYTES_MAX:
            raise ValueError(f"the waiter for {architecture} has {program.stat().st_size:,} bytes")
        layer, config = program_image(program, architecture, USER)
        manifest = {
            "schemaVersion": 2, "mediaType": f"{_MEDIA}manifest.v1+json", "config": put(config, "config.v1+json"),
            "layers": [put(gzip.compress(layer, mtime=0), "layer.v1.tar+gzip")],
        }  # fmt: skip
        platform = {"os": "linux", "architecture": architecture}
        images.append(put(json.dumps(manifest).encode(), "manifest.v1+json", platform=platform))
    index = {"schemaVersion": 2, "mediaType": f"{_MEDIA}index.v1+json", "manifests": images}
    tag = {"org.opencontainers.image.ref.name": facts.version}
    named = put(json.dumps(index).encode(), "index.v1+json", annotations=tag)
    blobs |= {
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
        "index.json": json.dumps({"schemaVersion": 2, "manifests": [named]}).encode(),
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(blobs):
            member = tarfile.TarInfo(name)
            member.size = len(blobs[name])
            tar.addfile(member, io.BytesIO(blobs[name]))
    return Waiter(digest=named["digest"], archive=packed.getvalue())
