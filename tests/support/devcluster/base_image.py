"""The Python base image of the development cluster, made from distribution packages.

The one idea: where no container registry is reachable, the base of every application image is a minimal Debian with
Python, bootstrapped from the same mirror and with the same certificate authorities as this host, so that pip inside a
build trusts what it trusts outside. A Dockerfile takes it through `ARG BASE_IMAGE`.
"""

import os
import re
import ssl
import subprocess
from pathlib import Path

from .buildah import buildah, is_stored
from .cache import built, cache_directory, digest, file_lock
from .machine import ensure_requirements
from .process import run
from .progress import say, step

PACKAGES = ("ca-certificates", "python3", "python3-venv")
_EXCLUDED = ("./var/cache/apt/*", "./var/cache/debconf/*", "./var/lib/apt/lists/*", "./usr/share/doc/*", "./usr/share/locale/*",
             "./usr/share/man/*", "./usr/lib/x86_64-linux-gnu/gconv/*", "./dev/*")  # fmt: skip
"""Nothing in a container reads these."""
_DEFAULT_SUITE = "bookworm"
_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
_CONTAINERFILE = f"""\
FROM scratch
ADD rootfs.tar /
ENV LANG=C.UTF-8 PYTHONUNBUFFERED=1
ENV PIP_CERT={_BUNDLE} SSL_CERT_FILE={_BUNDLE} PIP_DISABLE_PIP_VERSION_CHECK=1
"""


def certificate_bundle() -> Path | None:
    """Return the file of certificate authorities that this host trusts; None when it has none."""
    candidates = [os.environ.get("PIP_CERT"), os.environ.get("SSL_CERT_FILE"), _BUNDLE,
                  ssl.get_default_verify_paths().cafile]  # fmt: skip
    return next((Path(path) for path in candidates if path and Path(path).is_file()), None)


def _suite_and_mirror() -> tuple[str, str | None]:
    """Return the Debian suite to bootstrap and this host's mirror of it; without one debootstrap knows its own."""
    release = Path("/etc/os-release").read_text()
    codename = re.search(r"^VERSION_CODENAME=(\S+)", release, re.MULTILINE)
    if not re.search(r"^ID=debian$", release, re.MULTILINE) or codename is None:
        return _DEFAULT_SUITE, None
    suite = codename.group(1)
    for path in sorted(Path("/etc/apt").rglob("*")):
        if path.suffix == ".sources" and path.is_file():
            for paragraph in path.read_text().split("\n\n"):
                uri = re.search(r"^URIs:\s*(\S+)", paragraph, re.MULTILINE)
                suites = re.search(r"^Suites:\s*(.+)", paragraph, re.MULTILINE)
                if uri and suites and suite in suites.group(1).split():
                    return suite, uri.group(1)
        elif path.suffix == ".list" and path.is_file():
            line = re.search(rf"^deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+{re.escape(suite)}\s", path.read_text(), re.MULTILINE)
            if line:
                return suite, line.group(1)
    return suite, None


def base_image() -> str:
    """Return the reference of the base image in the cache's image store; make the image first when it is missing."""
    ensure_requirements()
    suite, mirror = _suite_and_mirror()
    bundle = certificate_bundle()
    key = digest(suite, *PACKAGES, *_EXCLUDED, _CONTAINERFILE, bundle if bundle else "no bundle")
    reference = f"localhost/python-base:{key}"

    def bootstrap(directory: Path) -> None:
        root = directory / "root"
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", suite, str(root)]
        with step(f"bootstrap Debian {suite} with Python (about 80 s)"):
            done = subprocess.run([*command, *([mirror] if mirror else [])], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
        if done.returncode != 0:
            for line in done.stdout.splitlines()[-15:]:
                say(f"   {line}")
            raise RuntimeError(f"debootstrap failed with {done.returncode}")
        if bundle:
            (root / _BUNDLE.lstrip("/")).write_bytes(bundle.read_bytes())
        run(["tar", "--numeric-owner", "-C", root, *(f"--exclude={path}" for path in _EXCLUDED),
             "-cf", directory / "rootfs.tar", "."])  # fmt: skip
        run(["rm", "-rf", "--one-file-system", root])
        (directory / "Containerfile").write_text(_CONTAINERFILE)

    context = built(f"python-base-{key}", bootstrap)
    with file_lock(cache_directory() / ".python-base-store.lock"):
        if not is_stored(reference):
            with step(f"build image {reference}"):
                buildah(["build", f"--file={context / 'Containerfile'}", f"--tag={reference}", str(context)])
    return reference
