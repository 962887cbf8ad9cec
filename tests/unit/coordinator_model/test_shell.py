"""The shell: whole sessions as they read, and what it does with wrong input.

A session file is the output of a run: lines after the prompt are what was typed. To renew one after a change, run its
commands through `python -m coordinator_model shell` and read the difference.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator_model import __main__ as entry
from coordinator_model.shell import program as shell
from coordinator_model.shell.text import parse_duration_ms, partitions

SESSIONS = Path(__file__).parent / "shell_sessions"
OPERATOR = Path(entry.__file__).parents[1]
PROMPT = "coordinator> "


def run(commands: str, *arguments: str) -> tuple[int, str]:
    output = io.StringIO()
    return shell.main(arguments, stdin=io.StringIO(commands), stdout=output), output.getvalue()


def typed(session: str) -> str:
    lines = (line for line in session.splitlines() if line.startswith(PROMPT))
    return "".join(f"{line.removeprefix(PROMPT)}\n" for line in lines)


@pytest.mark.parametrize(
    ("name", "code"),
    [("classic.txt", 0), ("consumer.txt", 0), ("streams.txt", 0), ("future.txt", 0), ("errors.txt", 1)],
)
def test_session_reads_as_recorded(name: str, code: int) -> None:
    """Golden sessions: static bounce, removal, fail-over; crash release; Streams and share; every error."""
    recorded = (SESSIONS / name).read_text(encoding="utf-8")
    assert run(typed(recorded)) == (code, recorded)


def test_static_bounce_is_free_and_dynamic_is_not() -> None:
    """KIP-345 in three lines: the generation stays for a static member and grows for a dynamic one."""
    start = "join g {} \njoin g {} \ntick 6s\nshow\nbounce g {} --down 5s\ntick 10s --beating\nshow\n"
    _, static = run(start.format("--instance a", "--instance b", "b"))
    _, dynamic = run(start.format("a", "b", "b"))
    assert [line for line in static.splitlines() if "generation" in line and "members" in line] == [
        "  g: classic, Stable, generation 1, range, members: 2",
        "  g: classic, Stable, generation 1, range, members: 2",
    ]
    assert "  g: classic, Stable, generation 3, range, members: 2" in dynamic.splitlines()


def test_a_wrong_line_changes_nothing_and_the_next_ones_run() -> None:
    """A script with an error runs to its end and its exit code says so."""
    code, output = run("join g --instance a\ntick later\ntimers\n")
    assert code == 1
    assert output.count("error: ") == 1
    assert "in    3.000 s  classic-join g" in output


def test_help_names_every_command_and_explains_each() -> None:
    """`help` and `help NAME`."""
    _, output = run("help\n")
    names = [line.split()[0] for line in output.splitlines()[1:]]
    assert names[:4] == ["topic", "join", "heartbeat", "leave"]
    code, explained = run("".join(f"help {name}\n" for name in names if name not in ("help", "quit")))
    assert code == 0
    assert explained.count("usage:") == len(names) - 2


def test_empty_lines_comments_and_the_end() -> None:
    """An empty line must not repeat the command before it; nothing after `quit` is read."""
    _, output = run("tick 1s\n\n# a comment\ntick 1s\nquit\ntick 1s\n")
    assert [line.strip() for line in output.splitlines() if line.startswith(" ")] == ["1.000 s", "2.000 s"]


def test_switches_show_and_change_the_broker() -> None:
    """A field's name or the property's name; a full group refuses."""
    _, output = run("switch group_max_size=1\njoin g --instance a\ntick 3s\njoin g --instance b\nswitch\n")
    assert "b: JoinGroup → GROUP_MAX_SIZE_REACHED" in output
    assert "  group_max_size = 1" in output.splitlines()
    assert run("switch group.consumer.max.size=1\nswitch\n")[1].count("  consumer_max_size = 1\n") == 1


def test_a_script_file_and_a_missing_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file's name in place of standard input."""
    script = tmp_path / "story.txt"
    script.write_text("topic orders 9\n")
    assert run("", str(script)) == (0, "coordinator> topic orders 9\n     0.000 s  topic orders: 9 partitions\n")
    with pytest.raises(SystemExit):
        run("", str(tmp_path / "none.txt"))
    assert "cannot read" in capsys.readouterr().err


def test_the_program_takes_a_pipe() -> None:
    """`python -m coordinator_model shell` in a process of its own, hash seed and all."""
    recorded = (SESSIONS / "streams.txt").read_text(encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(OPERATOR), "PYTHONHASHSEED": "7", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-m", "coordinator_model", "shell"],
        input=typed(recorded),
        capture_output=True,
        encoding="utf-8",
        env=environment,
        check=True,
    )
    assert (done.stdout, done.stderr) == (recorded, "")


def test_the_entrance_knows_two_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` of the program and of the shell; anything else is refused with the choices."""
    for arguments, expected in [
        (["--help"], "serve"),
        (["shell", "--help"], "printf"),
        (["serve", "--help"], "--listen"),
    ]:
        with pytest.raises(SystemExit) as done:
            entry.main(arguments)
        assert done.value.code == 0
        assert expected in capsys.readouterr().out
    with pytest.raises(SystemExit) as refused:
        entry.main(["dance"])
    assert refused.value.code == 2
    assert "serve" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "expected"), [("500ms", 500), ("5s", 5_000), ("1.5m", 90_000), ("2 h", 7_200_000)])
def test_durations(text: str, expected: int) -> None:
    """Units as people write them."""
    assert parse_duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "5", "-1s", "s", "1d", "1s2"])
def test_wrong_durations(text: str) -> None:
    """A number without a unit is not guessed at."""
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration_ms(text)


def test_partitions_are_printed_as_ranges() -> None:
    """Several topics, runs and single partitions."""
    assert partitions((("a", (0, 1, 2, 5)), ("b", (7,)))) == "a 0-2,5 b 7"
    assert partitions(()) == "-"
