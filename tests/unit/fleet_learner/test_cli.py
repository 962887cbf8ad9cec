"""The command line without Spark: its input, output and exit status."""

from __future__ import annotations

import argparse
import errno
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fleet_learner import cli, job, jobs, stages
from fleet_learner.configuration import Configuration, ConfigurationError, read_configuration
from fleet_learner.errors import JobError
from fleet_learner.progress import Progress, line

OPERATOR = Path(cli.__file__).parents[1]


def test_help_names_every_command_and_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    text = capsys.readouterr().out
    assert ended.value.code == 0
    for command in ("run", "backfill", "audit", "what-if", "report", "demo"):
        assert f"fleet-learner {command}" in text or f"\n    {command} " in text
    assert "examples:" in text


@pytest.mark.parametrize("command", ["run", "backfill", "audit", "what-if", "report", "demo"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    assert "--config" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fly"],
        ["run", "--as-of", "soon"],
        ["backfill"],
        ["what-if", "--group", "x"],
        ["demo", "--root", "x", "--groups", "0"],
        ["demo", "--root", "x", "--days", "-1"],
        # A command has no flag that it would ignore.
        ["bill", "--bootstrap", "kafka:9092", "--root", "x"],
        ["bill", "--bootstrap", "kafka:9092", "--topic", "x"],
        ["audit", "--cluster", "k", "--topic", "x"],
        ["what-if", "--group", "k/g", "--window-days", "3"],
        ["report", "--root", "x", "--journal-files", "x"],
        ["tidy", "--root", "x", "--bootstrap", "kafka:9092"],
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_help_and_errors_need_no_heavy_library() -> None:
    """The operator's environment has neither Spark nor NumPy."""
    program = (
        "import sys\n"
        "from fleet_learner import cli\n"
        "heavy = {'pyspark', 'pyarrow', 'numpy', 'scipy', 'pandas', 'confluent_kafka'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, env={"PYTHONPATH": str(OPERATOR)}
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_without_the_extra_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "_EXTRA", ("json", "a_module_that_is_not_there"))
    assert cli.main(["report", "--root", "anywhere"]) == cli.EXIT_USAGE
    assert capsys.readouterr().err == (
        "fleet-learner needs a_module_that_is_not_there: in a clone: pip install '.[pipeline]'\n"
    )


def test_a_bad_configuration_is_one_line_and_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyspark")
    bad = tmp_path / "fleet.toml"
    bad.write_text('root = "x"\nwindow_dais = 3\n')
    assert cli.main(["run", "--config", str(bad)]) == cli.EXIT_USAGE
    assert capsys.readouterr().err == "fleet-learner: window_dais: there is no such key; window_days?\n"


def test_a_root_that_cannot_be_made_is_one_line_with_its_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyspark")
    file = tmp_path / "file"
    file.write_text("")
    assert cli.main(["run", "--root", f"{file}/fleet", "--journal-files", str(tmp_path)]) == cli.EXIT_FINDING
    assert capsys.readouterr().err == f"fleet-learner: root: {file}/fleet cannot be written: Not a directory\n"


@pytest.mark.parametrize(
    ("place", "why"),
    [("no/such/x.json", "No such file or directory"), ("file/x.json", "Not a directory"), (".", "Is a directory")],
)
@pytest.mark.parametrize(
    "words",
    [["bill", "--bootstrap", "127.0.0.1:9"], ["audit", "--bootstrap", "127.0.0.1:9", "--cluster", "k", "--root", "x"]],
)
def test_a_file_that_cannot_be_written_is_reported_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], place: str, why: str
) -> None:
    pytest.importorskip("pyspark")
    (tmp_path / "file").write_text("")
    assert cli.main([*words, "--json", str(tmp_path / place)]) == cli.EXIT_USAGE
    assert capsys.readouterr().err == f"fleet-learner: --json: {tmp_path / place} cannot be written: {why}\n"


def test_asking_whether_a_file_can_be_written_leaves_it_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    old = tmp_path / "old.json"
    old.write_text("{}")
    seen: list[str] = []
    monkeypatch.setattr(jobs, "bill", lambda *_, json_file, **__: seen.append(json_file.name) or 0)
    (tmp_path / "link.json").symlink_to("target.json")
    for name in ("old.json", "new.json", "link.json"):
        assert cli.main(["bill", "--bootstrap", "x:9", "--json", str(tmp_path / name)]) == 0
    assert seen == ["old.json", "new.json", "link.json"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link.json", "old.json"]
    assert old.read_text() == "{}"


@pytest.mark.parametrize(
    "words", [["run", "--journal-files", "x"], ["backfill", "--from", "2026-10-01"], ["report"], ["demo"]]
)
def test_an_output_that_cannot_be_written_is_reported_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    pytest.importorskip("pyspark")
    (tmp_path / "file").write_text("")
    output, root = tmp_path / "file" / "output", tmp_path / "root"
    assert cli.main([*words, "--root", str(root), "--output", str(output)]) == cli.EXIT_USAGE
    assert capsys.readouterr().err == f"fleet-learner: output: {output} cannot be written: Not a directory\n"
    assert cli.main([*words, "--root", "s3a://bucket/fleet"]) == cli.EXIT_USAGE
    assert capsys.readouterr().err.startswith("fleet-learner: output: name a folder for reports and recommendations")
    assert not root.exists()


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-10-01", 1_790_812_800_000),
        ("2026-10-01T12:00:00Z", 1_790_856_000_000),
        ("2026-10-01T12:00:00+02:00", 1_790_848_800_000),
        ("2026-10-01T12:00", 1_790_856_000_000),
    ],
)
def test_an_instant_without_a_zone_is_utc(text: str, ms: int) -> None:
    assert cli.instant_ms(text) == ms


@pytest.mark.parametrize("text", ["yesterday", "1969-12-31", ""])
def test_what_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        cli.instant_ms(text)


def test_a_group_is_named_with_its_cluster_and_may_hold_slashes() -> None:
    assert cli.group_name("kafka-1/team/orders") == ("kafka-1", "team/orders")
    for text in ("orders", "/orders", "kafka-1/"):
        with pytest.raises(argparse.ArgumentTypeError):
            cli.group_name(text)


TOML = (
    'root = "/data"\nwindow_days = 14\n[kafka]\nbootstrap_servers = "a:9092"\ntopic = "t"\n[stops]\neager_ms = 4000\n'
)
YAML = "root: /data\nwindow_days: 14\nkafka: {bootstrap_servers: 'a:9092', topic: t}\nstops: {eager_ms: 4000}\n"


@pytest.mark.parametrize(("name", "text"), [("fleet.toml", TOML), ("fleet.yaml", YAML), ("fleet.yml", YAML)])
def test_toml_and_yaml_say_the_same_and_flags_win(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    read = read_configuration(file, {"window_days": 7, "kafka": {"topic": "other"}, "master": None})
    assert (read.root, read.window_days, read.stops.eager_ms) == ("file:/data", 7, 4000)
    assert (read.kafka.bootstrap_servers, read.kafka.topic) == ("a:9092", "other")
    assert read.master == "local[*]"
    assert read.output_folder == Path("/data/output")


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({}, "root: has to be given, in the file of --config or with --root"),
        ({"rooot": "x"}, "rooot: there is no such key; root?"),
        ({"root": "x", "window_days": "many"}, "window_days: takes a whole number"),
        ({"root": "x", "kafka": "b:9092"}, "kafka: takes settings of its own, each a key and a value"),
        ({"root": "x", "is_replayed": "perhaps"}, "is_replayed: takes true or false"),
        ({"root": "x", "window_days": 0}, "window_days: Input should be greater than 0"),
        ({"root": "x", "kafka": {"topic": "t"}}, "kafka.bootstrap_servers: has to be given"),
        ({"root": "x", "kafka": {"topik": "t", "bootstrap_servers": "b"}}, "kafka.topik: there is no such key; topic?"),
        ({"root": "x", "zebra": 1}, "zebra: there is no such key"),
        (
            {"root": "x", "report": {"price_per_partition_hour": 1}},
            "report: a price needs a currency, such as currency: EUR",
        ),
    ],
)
def test_what_is_missing_or_out_of_range_is_named(flags: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{re.escape(text)}$"):
        read_configuration(None, flags)


@pytest.mark.parametrize(("name", "text"), [("a.toml", "root ="), ("a.yaml", "- 1"), ("a.yaml", "{"), ("a.yaml", None)])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, text: str | None) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigurationError, match=name):
        read_configuration(tmp_path / name, {})


def test_a_mistake_in_yaml_is_found_by_its_place(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("root: /data\nstops: [1, 2\n")
    with pytest.raises(ConfigurationError, match=r"a\.yaml, line 3, column 1: "):
        read_configuration(file, {})


def test_a_full_disk_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Spark's own error is a hundred lines of Java, of which a pod's status shows the last."""

    def full(*_: Any, **__: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(jobs, "report", full)
    assert cli.main(["report", "--root", "/data"]) == cli.EXIT_FINDING
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("fleet-learner: no space left on device")
    assert "spark.local.dir" in line


def test_what_a_result_says_is_one_line_whatever_names_are_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Names of groups, protocols and sources may hold any character."""
    job.say("set aside: k/a\nk/b\x1b[2J\udcff (P)")
    assert capsys.readouterr().out == "set aside: k/a\\nk/b\\x1b[2J\\udcff (P)\n"


def test_an_error_and_a_step_do_nothing_to_the_terminal_either(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failed(*_: Any, **__: Any) -> int:
        raise JobError("/data/a\x1b[2Jb.jsonl: not a file\nname another one")

    monkeypatch.setattr(jobs, "report", failed)
    assert cli.main(["report", "--root", "/data"]) == cli.EXIT_FINDING
    assert capsys.readouterr().err == "fleet-learner: /data/a\\x1b[2Jb.jsonl: not a file\nname another one\n"
    Progress().done("left out: a\x1b[2Jb")
    assert capsys.readouterr().err.endswith("  left out: a\\x1b[2Jb\n")


def test_a_journal_that_ends_before_the_window_is_named() -> None:
    warning = stages.beyond_window(cli.instant_ms("2026-10-12T23:00:00Z"), cli.instant_ms("2026-10-28"))
    assert warning.startswith("the newest record is of 2026-10-12, before the window, which begins on 2026-10-28")
    assert "--as-of" in warning
    assert stages.beyond_window(0, 1) == stages.beyond_window(5, 5) == ""


def test_bounds_that_hold_for_no_group_are_said_with_the_clusters_that_are_there() -> None:
    """A mistyped id left the brokers' own bounds unused without a warning."""
    there = ["c", "a", "b", "a"]
    assert stages.bounds_for_nobody(["", "a", "c"], there) == ""
    assert stages.bounds_for_nobody(["", "a", "B"], there) == (
        "brokers: no group of this run is in the Kafka cluster B, so what is said there holds for none; there are: a, "
        "b, c"
    )
    many = stages.bounds_for_nobody(["y", "x"], [f"k{n}" for n in range(9)])
    assert "in the Kafka clusters x, y," in many
    assert many.endswith("there are: k0, k1, k2, k3, k4 and 4 more")
    assert stages.bounds_for_nobody(["x"], []) == "", "without groups nothing is missing"


def test_a_tilde_in_a_file_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell expands it in a flag, but not in a file, where a folder named ~ would be created."""
    monkeypatch.setenv("HOME", "/home/me")
    file = tmp_path / "fleet.yaml"
    file.write_text("root: ~/fleet\noutput: ~/out\njournal_files: '~'\nmetrics: {file: ~/fleet.prom}\n")
    read = read_configuration(file, {})
    assert (read.root, read.output, read.journal_files) == (
        "file:/home/me/fleet",
        Path("/home/me/out"),
        Path("/home/me"),
    )
    assert read.metrics.file == Path("/home/me/fleet.prom")
    assert read_configuration(None, {"root": Path("~/x"), "output": Path("a~b/~")}).root == "file:/home/me/x"
    assert read_configuration(None, {"root": "s3a://bucket/~/x", "output": "a~b/~"}).output == Path("a~b/~")
    with pytest.raises(ConfigurationError, match=r"^root: ~no-such-user/x: there is no such home folder$"):
        read_configuration(None, {"root": "~no-such-user/x"})


def test_flags_become_a_configuration() -> None:
    options = cli._parser().parse_args(["run", "--root", "/data", "--bootstrap", "b:9092", "--as-of", "2026-10-01"])
    read = read_configuration(options.config, cli._flags(options))
    assert isinstance(read, Configuration)
    assert read.kafka.topic == "staticgroup-journal"
    assert cli._job_options(options) == {"as_of_ms": 1_790_812_800_000}


def test_an_audit_takes_groups_and_a_beginning_and_by_default_all() -> None:
    plain = cli._job_options(cli._parser().parse_args(["audit", "--cluster", "kc"]))
    assert plain == {
        "kafka_cluster_id": "kc", "offsets_topic": "__consumer_offsets", "groups": [], "from_ms": 0,
        "tolerance_ms": 1_000, "json_file": None,
    }  # fmt: skip
    words = ["--group", "a", "--group", "b", "--from", "2026-10-01", "--tolerance-ms", "0", "--json", "x.json"]
    given = cli._job_options(cli._parser().parse_args(["audit", "--cluster", "kc", *words]))
    assert (given["groups"], given["from_ms"], given["tolerance_ms"]) == (["a", "b"], 1_790_812_800_000, 0)
    assert given["json_file"] == Path("x.json")


@pytest.mark.parametrize(
    ("done", "total", "elapsed_s", "rows", "text"),
    [
        (0, 40, 3, None, "facts: 0 of 40 tasks"),
        (10, 40, 5, None, "facts: 10 of 40 tasks, 15 s left"),
        (10, 40, 5, 10_000, "facts: 10 of 40 tasks, about 2,500 of 10,000 rows, 15 s left"),
        (40, 40, 5, None, "facts: 40 of 40 tasks"),
        (10, 40, 0.001, None, "facts: 10 of 40 tasks"),  # seen just now: since when is not known
    ],
)
def test_progress_says_tasks_rows_and_time_left(
    done: int, total: int, elapsed_s: float, rows: int | None, text: str
) -> None:
    assert line("facts", done, total, elapsed_s, rows) == text
