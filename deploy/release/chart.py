"""The chart's package: the chart as it is, told where its image will be, with what Artifact Hub shows of it."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from . import archives, waiter
from .facts import REPOSITORY, Facts

CHART: Final = REPOSITORY / "charts" / "staticgroup"
CHANGES_MAX: Final = 40
_DEFAULT_REPOSITORY: Final = "  repository: localhost/staticgroup\n"
_DEFAULT_WAITER: Final = re.compile(r"(    repository: )localhost/staticgroup-slot-waiter\n((?:    .*\n)*?    digest: )\"\"\n")


def name(facts: Facts) -> str:
    """Return the name of the package, as Helm gives it."""
    return f"staticgroup-{facts.version}.tgz"


def package(facts: Facts, helm: Path) -> bytes:
    """Return the package.

    Raises
    ------
    RuntimeError
        When Helm makes none.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "staticgroup"
        shutil.copytree(CHART, folder)
        card, values = folder / "Chart.yaml", folder / "values.yaml"
        card.write_text(card.read_text(encoding="utf-8") + annotations(facts), encoding="utf-8")
        text = with_image(values.read_text(encoding="utf-8"), facts.image)
        text = with_waiter(text, waiter.repository(facts), waiter.waiter(facts).digest)
        values.write_text(text, encoding="utf-8")
        command = [str(helm), "package", str(folder), "--destination", scratch]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"helm package: {done.stderr.strip()}")
        return archives.repacked(Path(scratch) / name(facts), facts.at_s)


def with_image(values: str, image: str) -> str:
    """Return values whose default is the image of the release."""
    assert values.count(_DEFAULT_REPOSITORY) == 1, "the default of image.repository is not where it was"
    return values.replace(_DEFAULT_REPOSITORY, f"  repository: {image}\n")


def with_waiter(values: str, repository: str, digest: str) -> str:
    """Return values whose default is the waiter's image of the release, by its digest."""
    text, count = _DEFAULT_WAITER.subn(rf'\g<1>{repository}\n\g<2>"{digest}"\n', values)
    assert count == 1, "the defaults of slots.image are not where they were"
    return text


def annotations(facts: Facts) -> str:
    """Return the annotations that only a release knows, as the end of Chart.yaml.

    Notes
    -----
    Their form is that of Artifact Hub's page about annotations of Helm charts; those that are true of every version
    stand in Chart.yaml itself.
    """
    platforms = [f"linux/{each}" for each in waiter.ARCHITECTURES]
    images = [
        {"name": "staticgroup", "image": f"{facts.image}:{facts.version}", "platforms": ["linux/amd64"]},
        {"name": "staticgroup-slot-waiter", "image": f"{waiter.repository(facts)}:{facts.version}", "platforms": platforms},
    ]
    links = [{"name": "release", "url": facts.base_url}]
    told = {"images": images, "links": links, "changes": list(changes(facts.version))[:CHANGES_MAX]}
    texts = {f"artifacthub.io/{key}": yaml.safe_dump(value, sort_keys=False, width=1000) for key, value in told.items()}
    lines = (f"  {key}: |\n" + "".join(f"    {line}\n" for line in text.splitlines()) for key, text in texts.items())
    return "".join(lines)


def changes(version: str) -> Iterator[dict[str, str]]:
    """Yield what the changelog tells of a version, its first sentence each; what is unreleased where it does not know it yet."""
    text = (REPOSITORY / "docs" / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (\S+).*?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    section = sections["Unreleased"] if sections["Unreleased"].strip() else sections[version]
    for kind, body in re.findall(r"^### (\w+)\n(.*?)(?=^### |\Z)", section, re.MULTILINE | re.DOTALL):
        for item in re.findall(r"^\* (.*?)(?=^\* |\Z)", body, re.MULTILINE | re.DOTALL):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(item.split())).replace("`", "")
            yield {"kind": kind.lower(), "description": re.split(r"(?<=[.:]) (?=[A-Z])", plain)[0]}
