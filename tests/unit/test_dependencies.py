"""Hold the locks against what pyproject.toml asks for, and the product against the insides of other people's packages.

The one idea: code that uses a private member of a library names it in a test, so that an upgrade fails there and not in
a cluster.
"""

import ast
import importlib.metadata
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).parents[2]
OPERATOR = REPOSITORY / "operator" / "staticgroup"
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCKS = {
    "operator/requirements.lock": ("journal",),
    "tests/requirements.lock": ("dev",),
    "tests/pipeline.lock": ("pipeline-dev", "dev", "pipeline"),
}
"""The extras that each lock is made for, as `make lock` says."""


def requirements(*extras: str) -> list[Requirement]:
    texts = [*PROJECT["dependencies"], *(t for extra in extras for t in PROJECT["optional-dependencies"][extra])]
    return [r for r in map(Requirement, texts) if r.name != "staticgroup"]


def pins(lock: str) -> dict[str, str]:
    text = (REPOSITORY / lock).read_text(encoding="utf-8")
    return {
        canonicalize_name(name): version
        for name, version in re.findall(r"^([\w.-]+)(?:\[\S+\])?==([^\s;]+)", text, re.M)
    }


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_holds_what_the_project_asks_for_within_its_bounds(lock: str) -> None:
    pinned = pins(lock)
    wanted = {str(r): pinned.get(canonicalize_name(r.name)) for r in requirements(*LOCKS[lock])}
    assert len(wanted) > 8
    assert [
        text for text, version in wanted.items() if version is None or not Requirement(text).specifier.contains(version)
    ] == []


def test_signer_for_msk_brings_nothing_that_the_image_has_in_another_version() -> None:
    """It is installed over the others without dependencies: whatever it needs is in one of the two locks, once."""
    signer, others = pins("operator/requirements-msk.lock"), pins("operator/requirements.lock")
    assert "aws-msk-iam-sasl-signer-python" in signer
    assert signer.keys() & others.keys() == set()
    for name in signer:
        needed = (Requirement(text) for text in importlib.metadata.requires(name) or ())
        names = {canonicalize_name(r.name) for r in needed if r.marker is None or r.marker.evaluate({"extra": ""})}
        assert names - signer.keys() - others.keys() == set(), name


def test_libraries_whose_insides_are_used_are_bound_to_a_minor_version() -> None:
    bounds = {r.name: r.specifier for r in requirements()}
    assert bounds["aiokafka"].contains("0.14.0")
    assert not bounds["aiokafka"].contains("0.15.0")


def private_members(path: Path) -> Iterator[str]:
    """Yield the private attributes that a module reads of objects other than `self` and `cls`; `_value_` is Enum's."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and re.fullmatch(r"_[^_](.*[^_])?", node.attr):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if owner not in ("self", "cls"):
                yield node.attr


def test_private_members_of_other_objects_are_known() -> None:
    found = {str(path.relative_to(OPERATOR)): set(private_members(path)) for path in OPERATOR.rglob("*.py")}
    assert {path: names for path, names in found.items() if names} == {
        "kafka/login/credentials.py": {"_text"},  # of another SecretText
        # a connection seen through a weak reference; tests/unit/kafka/test_aiokafka.py names what is aiokafka's
        "kafka/connection.py": {"_reader", "_versions", "_requests", "_handle_frame", "_refuse_answer", "_is_opened"},
    }
