"""Build a release and check it: `python -m release FOLDER`."""

import argparse
import hashlib
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from support.devcluster.programs import helm_program, programs_directory

from . import bill, chart, checks, image, manifests, plugin, signature, waiter
from .facts import Facts, committed_at_s, version


def reproducible(facts: Facts, helm: Path) -> dict[str, bytes]:
    """Return what the same commit makes byte by byte: all but the operator's image, and what is read from it."""
    program = plugin.plugin(facts)
    archive = plugin.archive(facts, program)
    krew = plugin.krew_manifest(facts, hashlib.sha256(archive).hexdigest())
    return {
        chart.name(facts): chart.package(facts, helm),
        **manifests.files(facts, str(helm)),
        plugin.NAME: program,
        plugin.archive_name(facts): archive,
        "staticgroup.yaml": krew.encode(),
        waiter.archive_name(facts): waiter.waiter(facts).archive,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Build everything anew; returns 1 when a check fails."""
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--image", required=True, help="where the image will be, without its tag")
    parser.add_argument("--base-url", required=True, help="where the files will be")
    parser.add_argument("--base-image", default="", help="<name>@sha256:<digest>; without it, one that is made here")
    parser.add_argument("--key", type=Path, help="PEM file with the private key that signs the checksums")
    options = parser.parse_args(arguments)
    facts = Facts(version=version(), at_s=committed_at_s(), image=options.image, base_url=options.base_url.rstrip("/"))
    folder: Path = options.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    helm, kubectl = helm_program(), programs_directory() / "kubectl"
    try:
        _write(folder, facts, helm, options.base_image)
        if options.key:
            signature.sign(folder, options.key)
        for line in checks.examine(folder, facts, checks.Programs(helm=helm, kubectl=kubectl)):
            print(f"ok  {line}")
    except (RuntimeError, ValueError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    for path in sorted(folder.iterdir()):
        print(f"{path.stat().st_size:12,}  {path.name}")
    print(f"not here: the operator's image for linux/arm64, because the base image is made for {os.uname().machine} alone")
    return 0


def _write(folder: Path, facts: Facts, helm: Path, base_image: str) -> None:
    files = reproducible(facts, helm)
    if files != reproducible(facts, helm):
        raise RuntimeError("two builds of one commit differ")
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / plugin.NAME).chmod(0o755)
    built = image.build(facts, folder / checks.image_name(facts), base_image)
    (folder / checks.bill_name(facts)).write_text(bill.bill(facts, built), encoding="utf-8")
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}
    (folder / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
