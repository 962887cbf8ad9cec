"""The kubectl plugin is one file without libraries, and its page names every command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from staticgroup import __version__
from staticgroup.api import crd
from staticgroup.api.served import lacking
from staticgroup.cli import command_line, doctor

REPOSITORY = Path(__file__).parents[3]
sys.path.insert(0, str(REPOSITORY / "deploy"))

from release import facts, plugin  # noqa: E402


def test_the_page_has_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command_line.main(["--help"])
    commands = set(re.findall(r"^    ([a-z-]+) {2,}\w", capsys.readouterr().out, re.MULTILINE))
    page = (REPOSITORY / "docs" / "guide" / "kubectl-plugin.md").read_text(encoding="utf-8")
    assert commands == {"status", "explain", "doctor", "plan", "convert", "simulate", "crds", "run", "webhook"}
    assert {name for name in commands if f"`{name}" not in page} == set()


FACTS = facts.Facts(
    version="1.2.3", at_s=1_800_000_000, image="registry.example/sg", base_url="https://example.invalid/sg"
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    content = plugin.plugin(FACTS)
    assert content == plugin.plugin(FACTS)
    assert len(content) < 100_000
    path = tmp_path_factory.mktemp("plugin") / plugin.NAME
    path.write_bytes(content)
    return path


def by_python_alone(file: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # -I: neither the environment nor the current folder; -S: no site-packages, so no library can be found.
    return subprocess.run(
        [sys.executable, "-I", "-S", str(file), *arguments], capture_output=True, text=True, check=False
    )


def test_the_plugin_is_one_file_that_python_alone_runs(file: Path) -> None:
    assert by_python_alone(file, "--version").stdout == f"staticgroup {__version__}\n"
    assert by_python_alone(file, "status", "--help").stdout.startswith("usage: kubectl staticgroup status")


def test_the_plugin_prints_the_definitions_that_the_operator_prints(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(["crds"]) == 0
    ours = list(yaml.safe_load_all(capsys.readouterr().out))
    carried = list(yaml.safe_load_all(by_python_alone(file, "crds").stdout))
    assert sorted(carried, key=str) == sorted(ours, key=str)


def test_what_needs_the_operator_is_said_with_where_it_runs(file: Path) -> None:
    done = by_python_alone(file, "plan", "orders", "-n", "shop")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("kubectl staticgroup: this needs the operator's libraries")
    assert done.stderr.endswith("exec deploy/staticgroup-operator -- staticgroup plan orders -n shop\n")


def test_a_library_ends_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "ROOT", "staticgroup.api.schema")
    with pytest.raises(RuntimeError, match="pydantic"):
        plugin.carried()


def test_the_schemas_that_it_carries_are_those_that_the_operator_writes() -> None:
    schemas = plugin.status_schemas()
    assert schemas.keys() == set(doctor.KINDS)
    for kind, schema in schemas.items():
        assert lacking(crd.status_schema(kind), {"properties": {"status": schema}}) == ()
