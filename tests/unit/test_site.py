"""The site's links: what leaves docs/ becomes part of it, and anchors are those that the pages' own test knows."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from unit.test_docs import DOCS, PAGES, REPOSITORY, anchors

SITE = REPOSITORY / "deploy" / "site"


@pytest.fixture(scope="module")
def outside() -> ModuleType:
    found = importlib.util.spec_from_file_location("outside", SITE / "outside.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "heading", ["The condition `TimeoutSufficient`", "What it costs: seat by seat", "E1, ended", "ältere_pods"]
)
def test_an_anchor_is_that_of_code_hosting_sites(outside: ModuleType, heading: str) -> None:
    assert {outside.slug(heading)} == anchors(f"# {heading}\n")


def test_links_that_leave_the_pages_are_led_into_the_site(outside: ModuleType) -> None:
    page = "guide/install.md"
    for written, led in (
        ("[a](security.md#x)", "[a](security.md#x)"),
        ("[`samples`](../../deploy/samples)", "[`samples`](../repository/deploy/samples/index.md)"),
        ("[v](../../charts/staticgroup/values.yaml)", "[v](../repository/charts/staticgroup/values.yaml)"),
        ("[r](../../README.md)", "[r](../README.md)"),
        ("[o](https://example)", "[o](https://example)"),
        ("[g](gone.md)", "[g](gone.md)"),
        ("```\n[v](../../LICENSE)\n```", "```\n[v](../../LICENSE)\n```"),
    ):
        assert outside.rewritten(written, page) == led
    assert (
        outside.rewritten("[d](docs/design.md) [m](Makefile)", "README.md") == "[d](design.md) [m](repository/Makefile)"
    )
    assert (
        outside.rewritten("[p](../../docs/design.md)", "repository/charts/staticgroup/README.md")
        == "[p](../../../design.md)"
    )


def test_every_page_has_its_place_in_the_menu() -> None:
    settings = yaml.safe_load((SITE / "mkdocs.yml").read_text(encoding="utf-8"))

    def leaves(node: object) -> set[str]:
        if isinstance(node, str):
            return {node}
        children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        return {leaf for child in children for leaf in leaves(child)}

    listed = leaves(settings["nav"])
    pages = {str(p.relative_to(DOCS)) for p in PAGES if p.is_relative_to(DOCS) and not Path(p).name.startswith("00")}
    assert pages | {"README.md", "repository/charts/staticgroup/README.md"} == listed
