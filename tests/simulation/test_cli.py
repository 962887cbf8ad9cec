"""The command line: the story for users, clear refusals, and help with examples that are true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from simulator.__main__ import DEVELOPERS, EXAMPLES, PROGRAM, main, parser
from simulator.crashes.crash import SCENARIOS
from simulator.story import timeline
from simulator.story.comparison import Cost
from simulator.story.timeline import ASCII_BLOCKS, BLOCKS, Style, table
from simulator.story.words import words
from staticgroup.cli.command_line import main as operators_own
from staticgroupctl import main as program

REPOSITORY = Path(__file__).parents[2]
PLAIN = Style(is_colored=False, blocks=BLOCKS, width=80)
SMALL = "pods: 2\npartitions: 4\nrestart_seconds: [1, 2]\nhappenings: [{at_seconds: 5, what: roll}]\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a small scenario of one's own."""
    file = tmp_path / "mine.yaml"
    file.write_text(SMALL, encoding="utf-8")
    return file


def ended(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run a command line that argparse may end; returns status, output and errors."""
    try:
        status = main(arguments)
    except SystemExit as end:
        status = int(end.code or 0)
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def test_the_story_shows_four_happenings_in_two_worlds_and_ends_in_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """A rolling deploy, a scale-down, a crash and a zombie, with and without."""
    status, out, _ = ended(capsys)
    assert status == 0
    for text in ("rolling restart", "scale to 4", "crashes and is restarted in place", "its process lives on"):
        assert text in out
    assert "StaticGroup removes the member web-4." in out
    assert re.search(r"StaticGroup reports web-3\.\w+ as Suspect and leaves it alone", out)
    assert "\x1b" not in out
    figures = dict(re.findall(r"^(rebalances|partitions moved|idle partition-seconds) +(.+)$", out, re.MULTILINE))
    for name, row in figures.items():
        without, with_operator = map(int, row.split())
        assert with_operator < without, name
    assert len(figures) == 3


def test_the_story_is_the_same_each_time(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    """Two people who compare their numbers see the same."""
    assert ended(capsys, "--scenario", str(file)) == ended(capsys, "--scenario", str(file))


def test_it_works_without_a_terminal_and_without_unicode(file: Path) -> None:
    """A CI log, a pipe, a terminal in the C locale."""
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "operator"), "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "simulator", "--scenario", str(file)]
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert b"in all" in done.stdout


def test_colours_are_only_where_they_are_wanted(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    """`--color always` is for pagers."""
    coloured = ended(capsys, "--color", "always", "--scenario", str(file))[1]
    plain = ended(capsys, "--color", "never", "--scenario", str(file))[1]
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain != coloured


def test_a_scenario_that_never_comes_up_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    """The exit status is 1, and there is no traceback."""
    monkeypatch.setattr("simulator.story.comparison.START_SLACK_S", -1000.0)
    status, out, err = ended(capsys, "--scenario", str(file))
    assert (status, out) == (1, "")
    assert err.startswith("The workload never came up: ")


def test_a_wrong_file_is_refused_with_its_field(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    """Status 2 and one line, as for any wrong input."""
    file.write_text("pods: -1\n", encoding="utf-8")
    status, out, err = ended(capsys, "--scenario", str(file))
    assert (status, out) == (2, "")
    assert err.startswith(f"{PROGRAM}: {file}: pods: ")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("crash", "--at", "3"), "crash --at N needs --scenario NAME"),
        (("crash", "--scenario", "no-such"), "invalid choice: 'no-such'"),
        (("crash", "--scenario", "roll", "--at", "0"), "'0' is not a whole number above 0"),
        (("soak", "--schedules", "many"), "'many' is not a whole number above 0"),
        (("soak", "--jobs", "-1"), "'-1' is not a whole number above 0"),
        (("replay",), "--seed"),
        (("dance",), "invalid choice: 'dance'"),
    ],
)
def test_wrong_input_is_refused(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], complaint: str) -> None:
    """Status 2 and the reason, before anything runs."""
    status, out, err = ended(capsys, *arguments)
    assert (status, out) == (2, "")
    assert complaint in err


def test_help_shows_examples_and_every_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    """People try `--help` first."""
    status, out, _ = ended(capsys, "--help")
    assert status == 0
    assert (EXAMPLES + DEVELOPERS).format(program=PROGRAM) in out
    status, out, _ = ended(capsys, "crash", "--help")
    assert status == 0
    assert all(s.name in out and s.says in out for s in SCENARIOS)


@pytest.mark.parametrize("line", [line.format(program=PROGRAM).strip() for line in (EXAMPLES + DEVELOPERS).splitlines()[1:]])
def test_each_example_is_a_command_line(line: str) -> None:
    """An example that does not parse would be worse than none."""
    command = line.partition("  ")[0]
    assert command.startswith(PROGRAM)
    parser().parse_args(command.removeprefix(PROGRAM).split())


def test_own_numbers_are_flags_over_those_of_a_file(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    assert "4 pods, 7 partitions" in ended(capsys, "--pods", "4", "--partitions", "7")[1]
    given = ended(capsys, "--scenario", str(file))[1]
    assert ended(capsys, "--scenario", str(file), "--partitions", "9")[1].splitlines()[0] != given.splitlines()[0]
    status, _, err = ended(capsys, "--restart-seconds", "9", "3")
    assert (status, err) == (2, f"{PROGRAM}: flags: restart_seconds: the first number must not be above the second\n")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("podz: 8", "unknown field podz; did you mean pods?"),
        ("pods: 0", "pods: should be greater than or equal to 1"),
        ("happenings: [{at_seconds: 5, what: roll, podd: 1}]", "unknown field happenings.0.podd; did you mean pod?"),
    ],
)
def test_a_wrong_number_or_field_is_said_in_words(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str, said: str
) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(content, encoding="utf-8")
    status, _, err = ended(capsys, "--scenario", str(wrong))
    assert (status, err) == (2, f"{PROGRAM}: {wrong}: {said}\n")


def test_the_picture_says_what_the_text_says(capsys: pytest.CaptureFixture[str], file: Path, tmp_path: Path) -> None:
    shown = tmp_path / "mine.svg"
    status, out, _ = ended(capsys, "--scenario", str(file), "--picture", str(shown))
    root = ElementTree.fromstring(shown.read_text(encoding="utf-8"))
    texts = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text")]
    costs = re.findall(r"^ +(\d+ rebalances?, .* idle)$", out, flags=re.MULTILINE)
    assert status == 0
    assert costs
    assert [each for each in texts if each in costs] == costs
    assert len(list(root.iter("{http://www.w3.org/2000/svg}rect"))) > 2 * len(costs)


def test_a_picture_that_cannot_be_written_is_said(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    status, _, err = ended(capsys, "--scenario", str(file), "--picture", "/nowhere/at/all.svg")
    assert (status, err) == (1, "--picture /nowhere/at/all.svg: No such file or directory\n")


def test_it_is_a_command_of_the_installed_program(capsys: pytest.CaptureFixture[str]) -> None:
    """People meet it as `staticgroup simulate`; the operator's image has no simulator and says where to get it."""
    with pytest.raises(SystemExit) as left:
        program(["simulate", "--help"])
    assert left.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: staticgroup simulate")
    assert "soak" not in out
    assert operators_own(["simulate", "--pods", "3"]) == 2
    assert "pipx run --spec . staticgroup simulate --pods 3" in capsys.readouterr().err


def test_one_crash_is_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    """As the suite's own message says."""
    status, out, _ = ended(capsys, "crash", "--scenario", "scale-down", "--at", "120")
    assert status == 0
    assert "resumption=120" in out


def test_double_work_is_printed_where_there_is_some() -> None:
    """A zombie that goes on is a cost too, also with the operator."""
    assert words(Cost(rebalances=1, moved=2, idle_s=1.2)) == (
        "1 rebalance, 2 partitions moved, 1 partition-second idle"
    )
    assert words(Cost(double_s=40.0)).endswith("0 partition-seconds idle, 40 partition-seconds worked on twice")


def test_the_table_shows_what_got_worse_too() -> None:
    """A tool that only praises itself is not believed."""
    worse = Style(is_colored=True, blocks=BLOCKS, width=80)
    lines = list(table(Cost(rebalances=1, moved=2, idle_s=3.0), Cost(rebalances=2, moved=2, idle_s=1.0), worse))
    assert timeline.RED in lines[1]
    assert timeline.DIM in lines[2]
    assert timeline.GREEN in lines[3]
    plain = list(table(Cost(rebalances=1, moved=2, idle_s=3.0), Cost(rebalances=2, moved=2, idle_s=1.0), PLAIN))
    assert plain[1].split() == ["rebalances", "1", "2"]


def test_both_alphabets_of_the_strip_have_the_same_steps() -> None:
    """The same time must not be printed differently in another locale."""
    assert len(ASCII_BLOCKS) == len(BLOCKS) == len(set(BLOCKS))
    assert ASCII_BLOCKS.isascii()
