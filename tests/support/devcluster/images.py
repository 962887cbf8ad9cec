"""Container images without a container engine: built by buildah, kept as docker archives, imported into nodes.

The one idea: an image is a file named by the hash of what it was built from. Unchanged inputs cost nothing, and what a
node has is known by that name, so a tag may be built again and loaded again.
"""

import hashlib
import io
import json
import os
import re
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from .agent_image import agent_image
from .base_image import base_image
from .buildah import buildah
from .cache import built, cache_directory, digest
from .layout import NodeRecord
from .machine import ensure_requirements
from .process import run
from .programs import pause_program, slot_waiter_program
from .progress import step

ARCHIVE = "image.tar"
SLOT_WAITER_IMAGE = "localhost/staticgroup-slot-waiter:0.1.0"
USER = "65532:65532"
"""Of the project's own images."""


def pause_archive() -> tuple[str, Path]:
    """Return reference and docker archive of the pause image."""
    program = pause_program()
    key = program.parent.name.removeprefix("pause-")
    reference = f"localhost/pause:{key}"

    def build(directory: Path) -> None:
        _write_archive(directory / ARCHIVE, reference, program)

    return reference, built(f"image-pause-{key}", build) / ARCHIVE


def slot_waiter_image() -> tuple[str, Path]:
    """Return reference and docker archive of the image of Deployments' init container, known by its tag from then on."""
    program = slot_waiter_program(architecture())

    def build(directory: Path) -> None:
        _write_archive(directory / ARCHIVE, SLOT_WAITER_IMAGE, program, user=USER)

    archive = built(f"image-{program.parent.name}", build) / ARCHIVE
    _tag_file(SLOT_WAITER_IMAGE).write_text(str(archive))
    return SLOT_WAITER_IMAGE, archive


def architecture() -> str:
    """Return this machine's architecture as images name it."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


def program_image(program: Path, platform: str, user: str = "") -> tuple[bytes, bytes]:
    """Return layer and configuration of an image with one program, which is the entry point.

    Parameters
    ----------
    platform: architecture that the program is for. user: `<uid>:<gid>`; "": root.
    """
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        member = tarfile.TarInfo(program.name)
        member.mode, member.size = 0o755, program.stat().st_size
        tar.addfile(member, io.BytesIO(program.read_bytes()))
    layer_hash = hashlib.sha256(layer.getvalue()).hexdigest()
    config = json.dumps({
        "architecture": platform,
        "os": "linux",
        "config": {"Entrypoint": [f"/{program.name}"], **({"User": user} if user else {})},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_hash}"]},
    }).encode()  # fmt: skip
    return layer.getvalue(), config


def _write_archive(path: Path, reference: str, program: Path, user: str = "") -> None:
    """Write a docker archive with one program."""
    layer, config = program_image(program, architecture(), user)
    layer_name = f"{hashlib.sha256(layer).hexdigest()}.tar"
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [reference], "Layers": [layer_name]}]
    files = {config_name: config, layer_name: layer, "manifest.json": json.dumps(manifest).encode()}
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def build_image(
    tag: str, context: Path, *, dockerfile: Path | None = None, build_arguments: Mapping[str, str] | None = None,
    ignore: Sequence[str] = (".git", ".venv"), is_cached: bool = True,
) -> Path:  # fmt: skip
    """Build an image from a Dockerfile, unless it was built from the very same inputs before.

    Parameters
    ----------
    tag: reference that nodes will know, for instance `localhost/staticgroup:dev`.
    context: directory of the build.
    dockerfile: by default `Dockerfile` in the context.
    build_arguments: values of the Dockerfile's ARGs. `BASE_IMAGE` is the Python base image unless it is given,
        `MAVEN_IMAGE` one that has the agent of Connect workers as this machine's Maven built it.
    ignore: names directly in the context that are not part of it, besides those that `.dockerignore` names.
    is_cached: False has every layer made anew.

    Returns
    -------
    The docker archive.
    """
    ensure_requirements()  # an image may be built before the first cluster
    context = context.resolve()
    recipe = (dockerfile or context / "Dockerfile").resolve()
    arguments = dict(build_arguments or {})
    if "BASE_IMAGE" not in arguments and re.search(r"^ARG BASE_IMAGE\b", recipe.read_text(), re.MULTILINE):
        arguments["BASE_IMAGE"] = base_image()
    if "MAVEN_IMAGE" not in arguments and re.search(r"^ARG MAVEN_IMAGE\b", recipe.read_text(), re.MULTILINE):
        arguments["MAVEN_IMAGE"] = agent_image(context / "operator" / "connect_agent")
    excluded = {*ignore, *_ignored(context)}
    parts: list[str | bytes | Path] = [tag, recipe, json.dumps(arguments, sort_keys=True), str(is_cached)]
    for path in sorted(context.iterdir()):
        if path.name not in excluded:
            parts += [path.name, path]
    options = ["--layers", *(() if is_cached else ("--no-cache",)), f"--file={recipe}", f"--tag={tag}"]
    options += [f"--build-arg={key}={value}" for key, value in arguments.items()]
    archive = built(f"image-{_slug(tag)}-{digest(*parts)}", partial(_build, tag, context, options, ignore)) / ARCHIVE
    _tag_file(tag).write_text(str(archive))
    return archive


def _build(tag: str, context: Path, options: Sequence[str], ignore: Sequence[str], directory: Path) -> None:
    """Build an image and write its archive into a directory."""
    own = context / ".dockerignore"
    lines = own.read_text().splitlines() if own.exists() else []
    ignore_file = directory / "ignore"
    ignore_file.write_text("".join(f"{line}\n" for line in [*lines, *ignore]))
    settings = _pip_settings(directory)
    with step(f"build image {tag}"):
        # Files and image are as old as the epoch, so that the same context gives the same bytes.
        buildah(["build", "--pull=missing", "--timestamp=0", f"--ignorefile={ignore_file}", *options, *settings,
                 str(context)])  # fmt: skip
        buildah(["push", "--quiet", tag, f"docker-archive:{directory / ARCHIVE}:{tag}"])
    for path in directory.iterdir():
        if path.name != ARCHIVE:
            path.unlink()


def _ignored(context: Path) -> list[str]:
    """Return the plain top-level names of .dockerignore; patterns are left to the build, and only cost a rebuild."""
    path = context / ".dockerignore"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.strip().strip("/") for line in lines if re.fullmatch(r"/?[\w.-]+/?", line.strip())]


def _pip_settings(directory: Path) -> list[str]:
    """Let pip inside the build use this host's index settings, through a mount that no layer keeps."""
    listing = subprocess.run(["pip", "config", "list"], capture_output=True, text=True, check=False).stdout
    wanted = {"index-url", "extra-index-url", "trusted-host", "default-timeout", "no-index", "proxy", "retries"}
    settings: dict[str, str] = {}
    for line in listing.splitlines():
        key, _, value = line.partition("=")
        if key.rpartition(".")[2] in wanted:
            settings[key.rpartition(".")[2]] = value.strip("'\"")
    for name in wanted:
        from_environment = os.environ.get("PIP_" + name.upper().replace("-", "_"))
        if from_environment is not None:
            settings[name] = from_environment
    path = directory / "pip.conf"
    path.touch(0o600)  # an index address may carry a password
    path.write_text("[global]\n" + "".join(f"{key} = {value}\n" for key, value in sorted(settings.items())))
    return [f"--volume={path}:/etc/pip.conf:ro"]


def _slug(tag: str) -> str:
    return re.sub(r"[^a-zA-Z0-9._-]+", "-", tag)


def _tag_file(tag: str) -> Path:
    directory = cache_directory() / "tags"
    directory.mkdir(exist_ok=True)
    return directory / _slug(tag)


def find_archive(tag: str) -> Path:
    """Return the archive that was built last under a tag; one of the user's own buildah images is exported."""
    note = _tag_file(tag)
    if note.exists() and Path(note.read_text()).exists():
        return Path(note.read_text())
    own = run(["buildah", "inspect", "--type=image", "--format={{.FromImageID}}", tag], check=False).strip()
    if not own:
        raise LookupError(f"no image {tag}: build it first (kind build image --tag {tag} DIRECTORY)")

    def export(directory: Path) -> None:
        run(["buildah", "push", "--quiet", tag, f"docker-archive:{directory / ARCHIVE}:{tag}"])

    return built(f"image-{_slug(tag)}-{own[:12]}", export) / ARCHIVE


def load_archive(node: NodeRecord, reference: str, archive: Path) -> None:
    """Import a docker archive into a node and note which one it was."""
    run(["ctr", "-a", node.containerd_socket, "-n", "k8s.io", "images", "import", "--snapshotter=overlayfs", archive])
    note = _loaded(node)
    note[reference] = archive.parent.name
    (Path(node.directory) / "images.json").write_text(json.dumps(note, indent=2) + "\n")


def image_archive_is_loaded(node: NodeRecord, reference: str, archive: Path) -> bool:
    """Return whether the node has exactly this archive under this reference."""
    if _loaded(node).get(reference) != archive.parent.name:
        return False
    listed = run(["ctr", "-a", node.containerd_socket, "-n", "k8s.io", "images", "ls", "-q"], check=False)
    return reference in listed.split()


def _loaded(node: NodeRecord) -> dict[str, str]:
    try:
        note: dict[str, str] = json.loads((Path(node.directory) / "images.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return note
