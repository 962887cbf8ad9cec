"""What a release is made of: archives whose bytes depend on their content alone, and what is read from an image."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY / "deploy"))

from release import archives, chart, checks, facts, image, plugin, signature, waiter  # noqa: E402

FACTS = facts.Facts(
    version="1.2.3", at_s=1_800_000_000, image="registry.example/sg", base_url="https://example.invalid/v1.2.3"
)


def test_the_same_files_make_the_same_archive_whenever_it_is_made(tmp_path: Path) -> None:
    files = {"b": (b"two", 0o755), "a": (b"one", 0o644)}
    packed = archives.tar_gz(files, FACTS.at_s)
    assert packed == archives.tar_gz(files, FACTS.at_s)
    package = tmp_path / "package.tgz"
    package.write_bytes(packed)
    assert archives.repacked(package, FACTS.at_s) == packed
    with tarfile.open(package) as tar:
        assert [(m.name, m.mode, m.mtime, m.uid) for m in tar] == [
            ("b", 0o755, FACTS.at_s, 0),
            ("a", 0o644, FACTS.at_s, 0),
        ]


def test_an_archive_of_helm_loses_its_time_and_keeps_its_order(tmp_path: Path) -> None:
    package = tmp_path / "package.tgz"
    texts = []
    for mtime in (1, 2):
        with tarfile.open(package, "w:gz") as tar:
            for name in ("chart/Chart.yaml", "chart/a.yaml"):
                member = tarfile.TarInfo(name)
                member.size, member.mtime = 1, mtime
                tar.addfile(member, io.BytesIO(b"x"))
        texts.append(archives.repacked(package, FACTS.at_s))
    assert texts[0] == texts[1]
    with tarfile.open(fileobj=io.BytesIO(texts[0])) as tar:
        assert tar.getnames() == ["chart/Chart.yaml", "chart/a.yaml"]


def test_the_time_of_a_release_can_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert facts.committed_at_s() == 1_700_000_000
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    assert facts.committed_at_s() == facts.EARLIEST_S
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert facts.committed_at_s() >= facts.EARLIEST_S


# The chart's package


def test_the_card_of_a_release_has_what_artifact_hub_shows() -> None:
    card = yaml.safe_load((chart.CHART / "Chart.yaml").read_text(encoding="utf-8") + chart.annotations(FACTS))
    annotations = {key.partition("/")[2]: value for key, value in card["annotations"].items()}
    assert {"category", "license", "operator", "crds", "images", "links", "changes"} <= annotations.keys()
    assert [each["image"] for each in yaml.safe_load(annotations["images"])] == [
        "registry.example/sg:1.2.3",
        "registry.example/sg-slot-waiter:1.2.3",
    ]
    changes = yaml.safe_load(annotations["changes"])
    assert 0 < len(changes) <= chart.CHANGES_MAX
    assert {each["kind"] for each in changes} <= {"added", "changed", "deprecated", "removed", "fixed", "security"}
    assert all(each["description"] and "](" not in each["description"] for each in changes)


def test_the_package_names_the_image_of_the_release() -> None:
    values = (chart.CHART / "values.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(chart.with_image(values, FACTS.image))["image"]["repository"] == "registry.example/sg"
    with pytest.raises(AssertionError, match=r"image\.repository"):
        chart.with_image("image: {}\n", FACTS.image)


SLOTS = """
slots:
  image:
    # -- Where the image is.
    repository: localhost/staticgroup-slot-waiter
    # -- Empty: the chart's appVersion.
    tag: ""
    digest: ""
    pullPolicy: IfNotPresent
"""


def test_the_package_names_the_waiter_of_the_release_by_its_digest() -> None:
    told = yaml.safe_load(chart.with_waiter(SLOTS, waiter.repository(FACTS), "sha256:12"))["slots"]["image"]
    assert (told["repository"], told["digest"]) == ("registry.example/sg-slot-waiter", "sha256:12")
    assert (told["tag"], told["pullPolicy"]) == ("", "IfNotPresent")
    with pytest.raises(AssertionError, match=r"slots\.image"):
        chart.with_waiter(SLOTS.replace("digest", "hash"), waiter.repository(FACTS), "sha256:12")


# The plugin for krew


def test_the_krew_manifest_names_an_archive_with_the_plugin_and_its_licence() -> None:
    packed = plugin.archive(FACTS, b"#!/usr/bin/env python3\n")
    digest = hashlib.sha256(packed).hexdigest()
    manifest = yaml.safe_load(plugin.krew_manifest(FACTS, digest))
    jsonschema.Draft202012Validator(checks.KREW).validate(manifest)
    (platform,) = manifest["spec"]["platforms"]
    assert (platform["uri"], platform["sha256"]) == (
        "https://example.invalid/v1.2.3/kubectl-staticgroup-1.2.3.tar.gz",
        digest,
    )
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        assert {m.name: m.mode for m in tar} == {platform["bin"]: 0o755, "LICENSE": 0o644}
        assert {each["from"] for each in platform["files"]} == set(tar.getnames())


@pytest.mark.parametrize(
    "change",
    [
        {"version": "1.2.3"},
        {"homepage": "http://x"},
        {"shortDescription": "Two\nlines"},
        {"platforms": []},
        {"colour": "red"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_manifest_that_krew_refuses_is_refused(change: Mapping[str, Any]) -> None:
    manifest = yaml.safe_load(plugin.krew_manifest(FACTS, "0" * 64))
    manifest["spec"] |= change
    assert list(jsonschema.Draft202012Validator(checks.KREW).iter_errors(manifest)) != []


# The image


def layer(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def archived(path: Path, *layers: Mapping[str, bytes], broken: bool = False) -> Path:
    """Write an OCI archive as buildah does."""
    blobs = [layer(files) for files in layers]

    def digest(content: bytes) -> str:
        return f"sha256:{hashlib.sha256(content).hexdigest()}"

    config = json.dumps({"architecture": "amd64", "os": "linux"}).encode()
    manifest = json.dumps(
        {"config": {"digest": digest(config)}, "layers": [{"digest": digest(b)} for b in blobs]}
    ).encode()
    index = json.dumps({"manifests": [{"digest": digest(manifest)}]}).encode()
    files = {f"blobs/{digest(b).replace(':', '/')}": b for b in (*blobs, config, manifest)} | {"index.json": index}
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            stored = content[:-1] + b"!" if broken and name.startswith("blobs/") else content
            member = tarfile.TarInfo(name)
            member.size = len(stored)
            tar.addfile(member, io.BytesIO(stored))
    return path


def test_a_base_image_that_may_be_another_one_tomorrow_is_refused(tmp_path: Path) -> None:
    for reference in ("python:3.11-slim", "python@sha256:abc", "python:3.11@sha1:" + "0" * 64):
        with pytest.raises(ValueError, match="write <name>@sha256:"):
            image.build(FACTS, tmp_path / "i.tar", reference)


def test_an_image_is_as_large_as_its_layers_unpacked(tmp_path: Path) -> None:
    assert image.read(archived(tmp_path / "i.tar", {"a": b"1" * 1000}, {"b": b"2" * 500})).unpacked_bytes() == 1500


def test_an_image_has_the_files_of_its_layers_without_those_that_a_later_one_took_away(tmp_path: Path) -> None:
    below = {"./etc/a": b"1", "opt/pip/x": b"2", "opt/pip/y": b"3", "opt/kept": b"4"}
    found = image.read(archived(tmp_path / "i.tar", below, {"etc/a": b"5", "opt/.wh.pip": b""}))
    assert found.config["architecture"] == "amd64"
    assert found.files(lambda _: True) == {"etc/a": b"5", "opt/kept": b"4"}
    assert found.files(lambda path: path.startswith("opt/")) == {"opt/kept": b"4"}


def test_a_blob_that_is_not_what_its_name_says_is_found(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not what its name says"):
        image.read(archived(tmp_path / "i.tar", {"a": b"1"}, broken=True))


def test_the_waiter_is_one_program_for_each_architecture_that_anybody_may_run(tmp_path: Path) -> None:
    built = waiter.waiter(FACTS)
    assert built == waiter.waiter(FACTS)
    (tmp_path / "w.tar").write_bytes(built.archive)
    with tarfile.open(tmp_path / "w.tar") as tar:

        def blob(digest: str) -> bytes:
            content = tar.extractfile(f"blobs/{digest.replace(':', '/')}")
            assert content is not None
            text = content.read()
            assert f"sha256:{hashlib.sha256(text).hexdigest()}" == digest
            return text

        platforms = {}
        for named in json.loads(blob(built.digest))["manifests"]:
            manifest = json.loads(blob(named["digest"]))
            config = json.loads(blob(manifest["config"]["digest"]))
            (packed,) = manifest["layers"]
            with tarfile.open(fileobj=io.BytesIO(blob(packed["digest"]))) as files:
                content = files.extractfile(files.getmember("slot-waiter"))
                assert content is not None
                platforms[named["platform"]["architecture"]] = content.read()
                assert [(m.name, m.mode) for m in files] == [("slot-waiter", 0o755)]
            assert config["architecture"] == named["platform"]["architecture"]
            assert config["config"] == {"Entrypoint": ["/slot-waiter"], "User": "65532:65532"}
    machines = {name: int.from_bytes(program[18:20], "little") for name, program in platforms.items()}
    assert machines == {"amd64": 62, "arm64": 183}, "e_machine of ELF"


# The checks


def manifests_in(folder: Path, **files: list[str]) -> Path:
    for name, names in files.items():
        bodies = ({"kind": "ConfigMap", "metadata": {"name": each}} for each in names)
        (folder / f"{name.replace('_', '-')}.yaml").write_text(yaml.safe_dump_all(bodies), encoding="utf-8")
    return folder


def test_manifests_with_and_without_definitions_must_add_up(tmp_path: Path) -> None:
    good = {"crds": ["a"], "install_without_crds": ["b"], "install": ["a", "b"]}
    assert "'install.yaml': 2" in checks._manifests(manifests_in(tmp_path, **good))
    with pytest.raises(ValueError, match="the two others together 3"):
        checks._manifests(manifests_in(tmp_path, **good | {"install_without_crds": ["b", "c"]}))
    with pytest.raises(ValueError, match="names an object twice"):
        checks._manifests(manifests_in(tmp_path, **good | {"install": ["a", "a"]}))


# The signature


def test_the_checksums_are_signed_by_the_key_of_who_publishes(tmp_path: Path) -> None:
    """The form of cosign's sign-blob: base64 of ECDSA over SHA-256."""
    key = ec.generate_private_key(ec.SECP256R1())
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "key.pem").write_bytes(key.private_bytes(*form))
    (tmp_path / "SHA256SUMS").write_text("0  a\n")
    signature.sign(tmp_path, tmp_path / "key.pem")
    signed = base64.b64decode((tmp_path / "SHA256SUMS.sig").read_bytes(), validate=False)
    key.public_key().verify(signed, b"0  a\n", ec.ECDSA(hashes.SHA256()))
    assert b"PRIVATE" not in (tmp_path / "SHA256SUMS.pub").read_bytes()


def test_what_is_no_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "SHA256SUMS").write_text("0  a\n")
    with pytest.raises(RuntimeError, match="openssl pkey"):
        signature.sign(tmp_path, tmp_path / "SHA256SUMS")
    assert not (tmp_path / "SHA256SUMS.sig").exists()
