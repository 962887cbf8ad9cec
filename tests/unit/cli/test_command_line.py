"""The command line: exit statuses, usage, and `plan -f` printing what the operator would do."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from staticgroup.cli import command_line
from staticgroup.cli.operator.snapshot_file import SnapshotFile, write_snapshot_file
from unit.core.builders import NOW_S, departure, history, id_of, spec

from .fake_kubectl import FakeKubectl
from .statuses import call


@pytest.fixture
def snapshot_file(tmp_path: Path) -> Path:
    path = tmp_path / "snapshot.json"
    write_snapshot_file(SnapshotFile(spec=spec(), snapshot=departure(), history=history(), now_s=NOW_S), path)
    return path


def test_plan_prints_what_would_be_done_and_writes_nothing(snapshot_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot_file.read_bytes()
    assert command_line.main(["plan", "-f", str(snapshot_file)]) == 0
    assert f"Plan: the operator removes {id_of(2)}" in capsys.readouterr().out
    assert snapshot_file.read_bytes() == before


@pytest.mark.parametrize("content", [None, "no json", "{}"])
def test_plan_of_a_bad_file_says_why_on_standard_error(
    content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.json"
    if content is not None:
        path.write_text(content)
    assert command_line.main(["plan", "-f", str(path)]) == command_line.EXIT_USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("staticgroup: ")
    assert "bad.json" in printed.err


@pytest.mark.parametrize("arguments", [[], ["plan"], ["fly"], ["explain"]])
def test_wrong_usage_ends_with_status_2_and_the_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line.main(arguments)
    assert ended.value.code == 2
    assert "usage: staticgroup" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [
        (["statu"], "status"),
        (["explain", "orders", "--namespce", "shop"], "--namespace"),
        (["doctor", "--all-namespace"], "--all-namespaces"),
        (["xyz"], None),
    ],
)
def test_the_nearest_command_or_flag_is_named(
    arguments: list[str], nearest: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command_line.main(arguments)
    error = capsys.readouterr().err
    assert (f"; did you mean {nearest}?" in error) if nearest else ("did you mean" not in error)


@pytest.mark.parametrize("arguments", [["plan", "orders", "-f", "x.json"], ["status", "orders", "-A"]])
def test_what_excludes_each_other_is_wrong_usage(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        status = call(monkeypatch, FakeKubectl({}), *arguments)
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 0
    assert status == command_line.EXIT_USAGE


@pytest.mark.parametrize(("program", "name"), [("/usr/bin/kubectl-staticgroup", "kubectl staticgroup"), ("/app/__main__.py", "staticgroup")])
def test_usage_names_the_program_as_it_was_called(
    program: str, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", [program])
    with pytest.raises(SystemExit):
        command_line.main(["--help"])
    assert capsys.readouterr().out.startswith(f"usage: {name} [-h]")


def test_bad_setting_is_named_before_anything_is_connected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STATICGROUP_CONCURRENCY", "0")
    assert command_line.main(["run"]) == command_line.EXIT_USAGE
    assert "STATICGROUP_CONCURRENCY: Input should be greater than or equal to 1. Meaning: Rounds at once" in capsys.readouterr().err


def test_crds_prints_every_definition_for_kubectl(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["crds"]) == 0
    names = {d["metadata"]["name"] for d in yaml.safe_load_all(capsys.readouterr().out)}
    assert names == {
        "staticgroups.staticgroup.io", "kafkaconnections.staticgroup.io", "clusterkafkaconnections.staticgroup.io",
    }
