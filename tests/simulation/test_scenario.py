"""A team's own numbers: the example works, the page lists every field, and a wrong file is refused by the field's
name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from simulator.story.comparison import LOST_FOR_S, Cost, experience
from simulator.story.scenario import Happening, Scenario, ScenarioError, load, made

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
EXAMPLE = GUIDE / "scenario-example.yaml"
PAGE = (GUIDE / "simulate.md").read_text(encoding="utf-8")
SMALL = Scenario(pods=2, partitions=4, restart_seconds=(1.0, 2.0), happenings=())


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("pods: 0", "pods: "),
        ("pods: many", "pods: "),
        ("pots: 3", "unknown field pots; did you mean pods?"),
        ("protocol: classic", "protocol: "),
        ("library: kafka-go", "library: "),
        ("name: Orders!", "name: "),
        ("restart_seconds: 5", "restart_seconds: "),
        ("restart_seconds: [9, 3]", "restart_seconds: "),
        ("session_timeout_seconds: 5", "session_timeout_seconds: "),
        ("heartbeat_seconds: 60", "heartbeat_seconds: "),
        ("happenings: [{at_seconds: 1, what: explode}]", "happenings.0.what: "),
        ("happenings: [{what: roll}]", "happenings.0.at_seconds: "),
        ("happenings: [{at_seconds: 1, what: scale}]", "`replicas`"),
        ("happenings: [{at_seconds: 1, what: roll, pod: 1}]", "`pod`"),
        ("pods: 2\nhappenings: [{at_seconds: 1, what: crash, pod: 2}]", "happenings[0].pod"),
        ("- 1", "expected a mapping"),
        ("pods: [", "is not YAML"),
        ("", "expected a mapping"),
    ],
)
def test_a_wrong_file_is_refused_by_the_name_of_its_field(tmp_path: Path, text: str, named: str) -> None:
    """The error names the number that was wrong."""
    file = tmp_path / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError, match=re.escape(named)) as refused:
        load(file)
    assert str(refused.value).startswith(str(file))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The operating system's own message follows."""
    with pytest.raises(ScenarioError, match=r"missing\.yaml: No such file"):
        load(tmp_path / "missing.yaml")


def test_the_example_names_every_field() -> None:
    """People copy it."""
    given = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    assert set(given) == set(Scenario.model_fields)
    assert {h.what for h in load(EXAMPLE).happenings} == {"roll", "scale", "crash", "delete", "lose_node"}


def test_the_page_lists_every_field_and_its_default() -> None:
    """A renamed field or a changed default breaks this and not a reader's file."""
    rows = dict(re.findall(r"^\| (`.+?) \|.*\| ([^|]+) \|$", PAGE, flags=re.MULTILINE))
    documented = {name for names in rows for name in re.findall(r"`(\w+)`", names)}
    assert set(Scenario.model_fields) <= documented
    for name in ("session_timeout_seconds", "dynamic_session_timeout_seconds", "heartbeat_seconds", "stop_seconds"):
        assert float(rows[f"`{name}`"]) == getattr(Scenario(), name)
    assert f"cut off for {LOST_FOR_S:.0f} s" in PAGE


@pytest.mark.parametrize("pods", [1, 2, 3, 5, 40])
def test_the_story_fits_a_workload_of_any_size(pods: int) -> None:
    """Whoever gives a number alone gets the whole story, and each happening has ended before the next one."""
    found = made({"pods": pods, "restart_seconds": [20, 60]}, "flags").happenings
    assert found[0].what == "roll"
    assert {h.what for h in found} == {"roll", "scale", "crash", "lose_node"} - (
        {"scale"} if pods == 1 else set()) - ({"lose_node"} if pods < 3 else set())
    assert pods == 1 or found[1].at_seconds - found[0].at_seconds >= pods * 60


def test_nothing_happens_in_a_quiet_world() -> None:
    """Without a happening neither world pays anything, so what is counted is what happened."""
    for is_static in (False, True):
        assert experience(SMALL, is_static=is_static).cost(0.0, SMALL.length_s) == Cost()


@pytest.mark.parametrize("protocol", ["Classic", "Consumer"])
def test_a_roll_is_free_of_rebalances_with_the_operator_only(protocol: str) -> None:
    """KIP-345: a member that comes back within its session keeps its partitions."""
    scenario = SMALL.model_copy(update={"protocol": protocol, "happenings": (Happening(at_seconds=5, what="roll"),)})
    without, with_operator = (experience(scenario, is_static=s).cost(0.0, scenario.length_s) for s in (False, True))
    assert without.rebalances >= 2
    assert without.moved > 0
    assert with_operator.rebalances == with_operator.moved == 0
    assert with_operator.idle_s > 0


def test_a_scale_down_moves_partitions_without_waiting_for_a_session() -> None:
    """The operator removes the member, so its partitions idle for seconds, not for the session timeout."""
    happenings = (Happening(at_seconds=5, what="scale", replicas=1),)
    scenario = SMALL.model_copy(update={"happenings": happenings, "session_timeout_seconds": 300.0})
    history = experience(scenario, is_static=True)
    cost = history.cost(0.0, scenario.length_s)
    assert (cost.rebalances, cost.moved) == (1, 2)
    assert cost.idle_s < 0.2 * 2 * 300
    assert not history.expired


def test_a_lost_node_is_left_alone_until_the_session_runs_out() -> None:
    """No proof, no removal: the story must not promise more than the operator does."""
    happenings = (Happening(at_seconds=5, what="scale", replicas=1), Happening(at_seconds=5, what="lose_node", pod=1))
    history = experience(SMALL.model_copy(update={"happenings": happenings}), is_static=True)
    assert [instance_id.partition(".")[0] for _, instance_id in history.expired] == ["web-1"]
    assert "Suspect" in {reason for _, _, reason in history.held}
    assert history.cost(5.0, LOST_FOR_S).idle_s == 0.0, "its process lives on and works"
    assert history.cost(LOST_FOR_S, SMALL.length_s).idle_s > 60.0


def test_a_zombie_that_keeps_fetching_is_counted_as_double_work() -> None:
    """librdkafka goes on with its partitions after it was fenced (rd_kafka_cgrp, FENCED_INSTANCE_ID)."""
    scenario = SMALL.model_copy(
        update={"library": "librdkafka", "happenings": (Happening(at_seconds=5, what="lose_node", pod=1),)}
    )
    cost = experience(scenario, is_static=True).cost(0.0, scenario.length_s)
    assert cost.double_s > 60.0


def test_the_parts_of_a_time_add_up_to_the_whole() -> None:
    """The strip and the figures below it are the same measurement."""
    scenario = SMALL.model_copy(update={"happenings": (Happening(at_seconds=5, what="roll"),)})
    history = experience(scenario, is_static=False)
    columns = 40
    width_s = scenario.length_s / columns
    strip = list(history.idle(0.0, scenario.length_s, columns))
    assert len(strip) == columns
    strip_s = sum(idle * width_s for idle in strip)
    assert strip_s == pytest.approx(history.cost(0.0, scenario.length_s).idle_s)
