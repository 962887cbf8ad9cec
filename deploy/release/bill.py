"""The bill of materials: what is in the image, read from the image, in CycloneDX's form.

The one idea: neither a lock nor a build says what was shipped; the layers do. Python distributions are told by their METADATA,
Debian's packages by dpkg's own status, jars by what Maven wrote into them. What a wheel has linked in (librdkafka in that of
confluent-kafka) is told as the wheel.
"""

import email.parser
import io
import re
import uuid
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.bom_ref import BomRef
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from . import waiter
from .facts import REPOSITORY, Facts
from .image import Image

SCHEMA: Final = SchemaVersion.V1_6
_METADATA: Final = re.compile(r"site-packages/[^/]+\.dist-info/METADATA$")
_STATUS: Final = "var/lib/dpkg/status"


def is_told(path: str) -> bool:
    """Return whether a file of the image tells of a component."""
    return bool(_METADATA.search(path)) or path == _STATUS or path.endswith(".jar")


def components(image: Image) -> list[Component]:
    """Return what is in the image, in the order of package URLs."""
    found: dict[str, Component] = {}
    for path, content in image.files(is_told).items():
        parts = _python(content) if _METADATA.search(path) else _debian(content) if path == _STATUS else _jar(content)
        found |= {str(part.purl): part for part in parts}
    return [found[purl] for purl in sorted(found)]


def _component(purl: PackageURL, licence: str = "") -> Component:
    assert purl.version is not None
    # The text of a licence, which some write into the field of its name, is none.
    named = licence.strip() if licence and len(licence) < 100 and "\n" not in licence.strip() else ""
    return Component(
        type=ComponentType.LIBRARY, name=purl.name, group=purl.namespace if purl.type == "maven" else None, version=purl.version, purl=purl,
        bom_ref=BomRef(str(purl)), licenses=[DisjunctiveLicense(name=named)] if named else None,
    )  # fmt: skip


def _python(content: bytes) -> Iterator[Component]:
    told = email.parser.BytesHeaderParser().parsebytes(content)
    name = re.sub(r"[-_.]+", "-", str(told["Name"])).lower()
    licence = str(told["License-Expression"] or told["License"] or "")
    yield _component(PackageURL("pypi", None, name, str(told["Version"])), licence)


def _debian(content: bytes) -> Iterator[Component]:
    for paragraph in content.decode().split("\n\n"):
        told = dict(re.findall(r"^([\w-]+): (.*)$", paragraph, re.MULTILINE))
        if told.get("Status") == "install ok installed":
            yield _component(PackageURL("deb", "debian", told["Package"], told["Version"], {"arch": told["Architecture"]}))


def _jar(content: bytes) -> Iterator[Component]:
    with zipfile.ZipFile(io.BytesIO(content)) as jar:
        for name in jar.namelist():
            if re.match(r"META-INF/maven/.*/pom\.properties$", name):
                told = dict(re.findall(r"^(\w+)=(.*?)\r?$", jar.read(name).decode(), re.MULTILINE))
                yield _component(PackageURL("maven", told["groupId"], told["artifactId"], told["version"]))
            elif re.match(r"META-INF/maven/.*/pom\.xml$", name):
                yield from _shaded(jar.read(name).decode())


def _shaded(pom: str) -> Iterator[Component]:
    """Yield what a jar carries of others: a shaded library leaves no metadata of its own, only its place among the dependencies."""
    for dependency in re.findall(r"<dependency>(.*?)</dependency>", pom, re.DOTALL):
        told = dict(re.findall(r"<(\w+)>(.*?)</\1>", dependency))
        if told.get("scope", "compile") in ("compile", "runtime"):
            yield _component(PackageURL("maven", told["groupId"], told["artifactId"], told["version"]))


def bill(facts: Facts, image: Image) -> str:
    """Return the bill as JSON.

    Raises
    ------
    ValueError
        When it is not as CycloneDX's schema has it, or what the lock pins is not what is in the image.
    """
    parts = components(image)
    _hold_against_the_lock(parts)
    purl = PackageURL("oci", None, "staticgroup", image.digest, {"repository_url": facts.image, "tag": facts.version})
    whole = Component(
        type=ComponentType.CONTAINER, name="staticgroup", version=facts.version, purl=purl, bom_ref=BomRef(str(purl)),
        licenses=[DisjunctiveLicense(id="Apache-2.0")], hashes=[HashType(alg=HashAlgorithm.SHA_256, content=image.digest.partition(":")[2])],
    )  # fmt: skip
    # Of the images alone, so that one image has one bill.
    beside = _waiter(facts)
    bom = Bom(components=[*parts, beside], serial_number=uuid.uuid5(uuid.NAMESPACE_URL, str(purl)))
    bom.metadata.component = whole
    bom.metadata.timestamp = datetime.fromtimestamp(facts.at_s, UTC)
    bom.register_dependency(whole, [*parts, beside])
    text = make_outputter(bom, OutputFormat.JSON, SCHEMA).output_as_string(indent=2) + "\n"
    wrong = JsonStrictValidator(SCHEMA).validate_str(text)
    if wrong is not None:
        raise ValueError(f"the bill of materials is not valid: {wrong}")
    return text


def _waiter(facts: Facts) -> Component:
    """Return the image of the waiter, in which is one program, and in that Go's own library."""
    digest = waiter.waiter(facts).digest
    purl = PackageURL("oci", None, "staticgroup-slot-waiter", digest, {"repository_url": waiter.repository(facts), "tag": facts.version})
    return Component(
        type=ComponentType.CONTAINER, name="staticgroup-slot-waiter", version=facts.version, purl=purl, bom_ref=BomRef(str(purl)),
        licenses=[DisjunctiveLicense(id="Apache-2.0")], hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest.partition(":")[2])],
        components=[_component(PackageURL("golang", None, "stdlib", waiter.go_version()))],
    )  # fmt: skip


def pinned() -> dict[str, str]:
    """Return the versions that the operator's lock pins, by normalised name."""
    lock = (REPOSITORY / "operator" / "requirements.lock").read_text(encoding="utf-8")
    found = re.findall(r"^([\w.-]+)(?:\[\S+\])?==([^\s;]+)(?: ;([^\\]*))?", lock, re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version, marker in found if "win32" not in marker and "Windows" not in marker}


def _hold_against_the_lock(parts: list[Component]) -> None:
    shipped = {part.name: part.version for part in parts if part.purl is not None and part.purl.type == "pypi"}
    strange = {name: version for name, version in shipped.items() if pinned().get(name) != version}
    missing = sorted(pinned().keys() - shipped.keys())
    if strange or missing:
        raise ValueError(f"the image is not what operator/requirements.lock pins: it has {strange}, and lacks {missing}")
