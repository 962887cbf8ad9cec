"""Each artefact asked of a program that is not ours."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any, Final

import jsonschema
import yaml

from support.devcluster.buildah import buildah

from . import chart, image, plugin, waiter
from .facts import Facts

IMAGE_BYTES_MAX: Final = 200_000_000
"""Of the image's layers, unpacked."""

KREW: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "krew.googlecontainertools.github.com/v1alpha2"},
        "kind": {"const": "Plugin"},
        "metadata": {"type": "object", "required": ["name"], "properties": {"name": {"pattern": r"^[\w-]+$"}}},
        "spec": {
            "type": "object",
            "additionalProperties": False,
            "required": ["version", "shortDescription", "platforms", "homepage", "description"],
            "properties": {
                "version": {"pattern": r"^v\d+\.\d+\.\d+(-[\w.]+)?$"},
                "homepage": {"type": "string", "pattern": "^https://"},
                "shortDescription": {"type": "string", "pattern": r"^[^\r\n.]+$", "maxLength": 50},
                "description": {"type": "string"},
                "caveats": {"type": "string"},
                "platforms": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["uri", "sha256", "bin", "selector"],
                        "properties": {
                            "uri": {"type": "string", "pattern": r"^https://.*\.(zip|tar\.gz)$"},
                            "sha256": {"type": "string", "pattern": "^[a-f0-9]{64}$"},
                            "bin": {"type": "string", "minLength": 1},
                            "files": {"type": "array", "minItems": 1, "items": {"required": ["from", "to"]}},
                            "selector": {
                                "properties": {
                                    "matchExpressions": {
                                        "minItems": 1,
                                        "items": {"properties": {"key": {"enum": ["os", "arch"]}}, "required": ["key", "operator"]},
                                    }
                                }
                            },
                        },
                    },
                },
            },
        },
    },
}
"""krew's format: its developer guide, and the rules that it holds manifests to (kubernetes-sigs/krew, internal/index/validation)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Whom is asked."""

    helm: Path
    kubectl: Path


def examine(folder: Path, facts: Facts, programs: Programs) -> Iterator[str]:
    """Yield what was found good, one line each.

    Raises
    ------
    RuntimeError, ValueError
        When a program finds something else.
    """
    yield from _chart(folder, facts, programs.helm)
    yield from _plugin(folder, facts, programs.kubectl)
    yield _image(folder, facts)
    yield _waiter(folder, facts)
    yield _bill(folder, facts)
    yield _manifests(folder)
    said = _said(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folder)
    yield f"sha256sum --check: {len(said.splitlines())} files"


def _chart(folder: Path, facts: Facts, helm: Path) -> Iterator[str]:
    package = str(folder / chart.name(facts))
    _said([str(helm), "lint", "--strict", package])
    card = yaml.safe_load(_said([str(helm), "show", "chart", package]))
    if (card["version"], card["appVersion"]) != (facts.version, facts.version):
        raise ValueError(f"the chart's package says {card['version']} and {card['appVersion']}, not {facts.version}")
    rendered = list(yaml.safe_load_all(_said([str(helm), "template", "staticgroup", package, "--include-crds"])))
    reference = f"{facts.image}:{facts.version}"
    images = {c["image"] for each in rendered if each["kind"] == "Deployment" for c in each["spec"]["template"]["spec"]["containers"]}
    if images != {reference}:
        raise ValueError(f"the chart's package installs {images}, not {reference}")
    named = yaml.safe_load(_said([str(helm), "show", "values", package]))["slots"]["image"]
    if (named["repository"], named["digest"]) != (waiter.repository(facts), waiter.waiter(facts).digest):
        raise ValueError(f"the chart's package names another image of the waiter: {named}")
    for name in ("crds", "images", "links", "changes"):
        if not yaml.safe_load(card["annotations"][f"artifacthub.io/{name}"]):
            raise ValueError(f"the annotation artifacthub.io/{name} is empty")
    yield f"helm lint, show and template: {len(rendered)} objects, image {reference}"


def _plugin(folder: Path, facts: Facts, kubectl: Path) -> Iterator[str]:
    manifest = yaml.safe_load((folder / "staticgroup.yaml").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(KREW).validate(manifest)
    with tempfile.TemporaryDirectory() as scratch:
        # As krew does: fetch, compare, unpack, link.
        _said(["sha256sum", "--check", "-"], cwd=folder, stdin=f"{manifest['spec']['platforms'][0]['sha256']}  {plugin.archive_name(facts)}\n")
        _said(["tar", "-xzf", str(folder / plugin.archive_name(facts)), "-C", scratch])
        (Path(scratch) / "kubectl").symlink_to(kubectl)
        path = f"{scratch}:{os.environ['PATH']}"
        listed = _said(["kubectl", "plugin", "list"], path=path)
        told = _said(["kubectl", "staticgroup", "--version"], path=path).strip()
        if f"{scratch}/{plugin.NAME}" not in listed or told != f"staticgroup {facts.version}":
            raise ValueError(f"kubectl does not find the plugin, or it says {told!r}")
    yield "kubectl plugin list: found, from the archive of the krew manifest"


def _image(folder: Path, facts: Facts) -> str:
    path = folder / image_name(facts)
    unpacked = image.read(path).unpacked_bytes()
    if unpacked > IMAGE_BYTES_MAX:
        raise ValueError(f"the image has {unpacked / 1e6:.0f} MB unpacked, more than {IMAGE_BYTES_MAX / 1e6:.0f}")
    size = f"{unpacked / 1e6:.0f} MB unpacked, two builds of it equal"
    if which("skopeo"):
        told = yaml.safe_load(_said(["skopeo", "inspect", f"oci-archive:{path}"]))
        return f"skopeo inspect: {told['Os']}/{told['Architecture']}, {len(told['Layers'])} layers, {size}"
    buildah(["pull", "--quiet", f"oci-archive:{path}:{facts.version}"])
    return f"buildah pull: read as an OCI archive (no skopeo here), {size}"


def _waiter(folder: Path, facts: Facts) -> str:
    archive = folder / waiter.archive_name(facts)
    for architecture in waiter.ARCHITECTURES:
        buildah(["pull", "--quiet", f"--arch={architecture}", f"oci-archive:{archive}:{facts.version}"])
    return f"buildah pull: the waiter for {' and '.join(waiter.ARCHITECTURES)}, {archive.stat().st_size / 1e6:.1f} MB"


def bill_name(facts: Facts) -> str:
    """Return the name of the bill of materials."""
    return f"staticgroup-{facts.version}.cdx.json"


def _bill(folder: Path, facts: Facts) -> str:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = (folder / bill_name(facts)).read_text(encoding="utf-8")
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if wrong is not None:
        raise ValueError(f"{bill_name(facts)} is no CycloneDX 1.6: {wrong}")
    return f"CycloneDX 1.6 schema: {len(json.loads(text)['components'])} components, those of operator/requirements.lock among them"


def image_name(facts: Facts) -> str:
    """Return the name of the image's archive."""
    return f"staticgroup-{facts.version}-linux-amd64.oci.tar"


def _manifests(folder: Path) -> str:
    counts = {}
    for path in sorted(folder.glob("*.yaml")):
        objects = [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each]
        keys = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in objects]
        if len(set(keys)) != len(keys):
            raise ValueError(f"{path.name} names an object twice")
        counts[path.name] = len(objects)
    whole, split = counts["install.yaml"], counts["install-without-crds.yaml"] + counts["crds.yaml"]
    if whole != split:
        raise ValueError(f"install.yaml has {whole} objects, the two others together {split}")
    return f"manifests: {counts}"


def _said(command: Sequence[str], *, cwd: Path | None = None, path: str = "", stdin: str = "") -> str:
    """Run a program and return what it says.

    Raises
    ------
    RuntimeError
        When it ends with another status than 0.
    """
    environment = {**os.environ, **({"PATH": path} if path else {})}
    program = which(command[0], path=path) if path else command[0]
    done = subprocess.run(
        [program or command[0], *command[1:]], cwd=cwd, env=environment, input=stdin, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
