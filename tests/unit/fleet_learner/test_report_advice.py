"""Advice: one action, or the missing evidence; never contradictory sentences."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fleet_learner import cli
from fleet_learner.recommendations.policy import CHANGE_MS_MIN, CHANGE_PERCENT_MIN
from fleet_learner.report.advice.carrier import FIXED_MS_MAX, FOLLOWING_SOURCES, bill_command
from fleet_learner.report.advice.clusters import advise_clusters
from fleet_learner.report.advice.groups import is_small
from fleet_learner.report.model import GroupKey, Saving, Verdict
from journal.recommendations import (
    Difference,
    Effects,
    PriceSource,
    Setting,
)
from journal.recommendations import RecommendationReason as Reason
from staticgroup.api.resources.status import TimeoutSource
from unit.fleet_learner.recommendation_samples import advice_for, effects
from unit.fleet_learner.recommendation_samples import sure as recommendation

REPOSITORY = Path(__file__).parents[3]


def test_a_longer_timeout_says_what_it_saves_costs_and_how_it_is_typed() -> None:
    advice = advice_for()
    assert advice.action == "Raise session.timeout.ms of orders from 45000 to 90000 (1 min 30 s)."
    assert advice.why == (
        "34.3 times a week a member that would have come back loses its place; it would be 4.2 times. Places are "
        "kept for absent members for 2 h 32 min a week; it would be 3 h 7 min. From 1,080 restarts, watched for "
        "99.7 % of the time."
    )
    assert advice.saving == Saving(
        low_partition_ms=6_300_000, best_partition_ms=8_925_000, high_partition_ms=11_200_000
    )
    assert (advice.now_ms, advice.then_ms, advice.later_ms) == (45_000, 90_000, 45_000)
    assert (advice.goal_low_ms, advice.goal_high_ms) == (80_000, 120_000)
    assert advice.who == "The owner of the StaticGroup; each pod gets it with its next restart."
    assert advice.is_action


def test_a_patch_is_what_the_custom_resource_accepts() -> None:
    """The command fits the published CRD: path and type of the seconds."""
    words = shlex.split(advice_for(recommended_ms=90_500, goal_ms=90_500).command)
    assert words[:6] == ["kubectl", "-n", "shop", "patch", "ksg", "orders"]
    patch = json.loads(words[words.index("-p") + 1])
    (document,) = yaml.safe_load_all((REPOSITORY / "crds" / "staticgroups.yaml").read_text(encoding="utf-8"))
    schema = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][
        "sessionTimeout"
    ]
    timeout = patch["spec"]["sessionTimeout"]
    assert set(timeout) <= set(schema["properties"])
    seconds = schema["properties"]["seconds"]
    assert timeout["seconds"] == 91
    assert seconds["minimum"] <= timeout["seconds"] <= seconds["maximum"] == FIXED_MS_MAX / 1000
    assert document["spec"]["names"]["shortNames"] == ["ksg"]


def test_the_seconds_of_a_patch_never_leave_the_bounds() -> None:
    advice = advice_for(recommended_ms=60_500, goal_ms=60_500, bounds_maximum_ms=60_500)
    assert '"seconds":60}' in advice.command


def test_names_that_a_shell_would_act_on_are_quoted() -> None:
    group = "orders; rm -rf $HOME '"
    key = GroupKey(kafka_cluster_id="k", group_id=group, namespace="shop")
    advice = advice_for(group_id=group, key=key, protocol="Consumer", setting=Setting.CONSUMER_SESSION_TIMEOUT)
    words = shlex.split(advice.command)
    assert words[words.index("--entity-name") + 1] == group
    assert words[-1] == "consumer.session.timeout.ms=90000"


@pytest.mark.parametrize(
    "group", ["-orders", "--help", "a b", "x'y\\z", "a\nb", "x\x1b[2J'", "größe", "\u202etxt", "$(reboot)"]
)
def test_an_advised_command_takes_any_group_id_and_stands_on_one_line(group: str) -> None:
    """Kafka allows any character in it; argparse takes a separate argument with a leading dash for a flag."""
    command = bill_command(group)
    assert command.isprintable()
    read = subprocess.run(["bash", "-c", f"for word in {command}; do printf '%s\\0' \"$word\"; done"],
                          env={"BOOTSTRAP": "kafka:9092", "LC_ALL": "C.UTF-8"},
                          capture_output=True, check=True, encoding="utf-8").stdout.split("\0")[:-1]  # fmt: skip
    options = cli._parser().parse_args(read[1:])
    assert (options.groups, options.bootstrap) == ([group], "kafka:9092")
    command_text = advice_for(group_id=group, protocol="Consumer", setting=Setting.CONSUMER_SESSION_TIMEOUT).command
    assert command_text.isprintable()


@pytest.mark.parametrize(
    ("changes", "who", "command"),
    [
        ({"source": "Fleet"}, "the operator does it, and each pod gets it with its next restart", ""),
        ({"source": "Structural", "released": False, "wave": 50}, "when its wave is released (the first 50 %", ""),
        ({"released": False, "wave": 10}, "canary has not reached it yet (wave of the first 10 %)", "kubectl"),
        ({"setting": Setting.STREAMS_SESSION_TIMEOUT, "protocol": "Streams"}, "holds at once", "kafka-configs.sh"),
        ({"setting": Setting.CONNECT_DELAY, "protocol": "Connect"}, "Connect workers",
         "scheduled.rebalance.max.delay.ms=90000"),
        ({"key": None}, "consumers' configuration", "session.timeout.ms=90000"),
    ],
)  # fmt: skip
def test_each_protocol_and_mode_has_its_own_way(changes: dict[str, Any], who: str, command: str) -> None:
    advice = advice_for(**changes)
    assert who in advice.who
    assert advice.command.startswith(command)
    assert bool(advice.command) is bool(command)


def test_modes_are_those_that_operators_tell() -> None:
    assert set(TimeoutSource) >= FOLLOWING_SOURCES
    assert TimeoutSource.FIXED not in FOLLOWING_SOURCES


def test_an_assumed_price_advises_nothing_and_says_how_to_measure_it() -> None:
    advice = advice_for(
        price_source=PriceSource.ASSUMED, saved_partition_seconds_per_day=None, reasons=(Reason.ABSORBS_RESTARTS,)
    )
    assert advice.verdict is Verdict.NOT_KNOWN
    assert advice.action == "Not enough is known of orders: leave it."
    # 300 s more of waiting a day for 4.3 evictions less, a twelfth of the group each time.
    assert (
        "It pays if each time costs the whole group more than 5.81 s of standstill, which nobody measured."
        in advice.why
    )
    assert "fleet-learner bill" in advice.would_tell[0]
    assert "READ on the topic __consumer_offsets" in advice.would_tell[0]


@pytest.mark.parametrize(
    ("changes", "when"),
    [
        ({"reasons": (Reason.ABSORBS_RESTARTS,), "price_source": PriceSource.ASSUMED},
         "the operator does it, and each pod"),
        ({"reasons": (Reason.ABSORBS_RESTARTS,), "price_source": PriceSource.ASSUMED, "released": False},
         "when its wave is released"),
        ({"reasons": (Reason.USE_DYNAMIC,)}, "the operator does it"),
        ({"saved_partition_seconds_per_day": Difference(value=1, lower=-90, upper=99)}, "the operator does it"),
    ],
)  # fmt: skip
def test_nothing_is_called_left_alone_that_an_operator_is_about_to_change(changes: dict[str, Any], when: str) -> None:
    """Mode Auto follows the restarts, even without a known price of a rebalance."""
    nothing = {"saved_partition_seconds_per_day": None, "source": "Fleet"}
    advice = advice_for(**nothing | changes)
    assert advice.verdict is Verdict.NOT_KNOWN
    assert (
        advice.action
        == "Not enough is known of orders to say what it saves: its operator goes to 1 min 30 s by itself."
    )
    assert when in advice.why
    assert advice.why.endswith("spec.sessionTimeout.seconds keeps what is in force.")
    for who in ("Fixed", "Broker"):
        assert advice_for(**nothing | changes | {"source": who}).action.endswith("leave it.")


def test_a_saving_that_may_be_a_loss_advises_nothing_and_says_how_many_restarts_would_tell() -> None:
    """The interval narrows with the root of the number: 2 times as wide as needed takes 4 times the restarts."""
    advice = advice_for(saved_partition_seconds_per_day=Difference(value=100.0, lower=-100.0, upper=300.0))
    assert advice.verdict is Verdict.NOT_KNOWN
    assert advice.would_tell == ("About 3,240 more restarts, if they are like those that were seen.",)


@pytest.mark.parametrize(
    ("changes", "would_tell"),
    [
        ({"reasons": (Reason.LOW_COVERAGE,)}, "A longer time with a running operator: it watched 99.7 %"),
        ({"recommended_ms": None, "goal_ms": None, "reasons": (Reason.TOO_FEW,)}, "1 more restart"),
        ({"current_ms": None, "saved_partition_seconds_per_day": None}, "The timeout in force"),
        ({"saved_partition_seconds_per_day": Difference(value=-5, lower=-9, upper=-1)}, "Nothing more"),
        ({"saved_partition_seconds_per_day": Difference(value=1, lower=-90, upper=99)}, "More than 10 times"),
        ({"reasons": (Reason.USE_DYNAMIC,), "saved_partition_seconds_per_day": None,
          "price_source": PriceSource.ASSUMED},
         "What one rebalance costs it"),
        ({"recommended_ms": 45_000, "reasons": (Reason.SMALL_CHANGE,), "probability_cheaper": 0.72,
          "saved_partition_seconds_per_day": Difference(value=0, lower=0, upper=0)}, "so far 72 % do"),
    ],
)  # fmt: skip
def test_what_is_not_known_says_what_would_tell(changes: dict[str, Any], would_tell: str) -> None:
    advice = advice_for(**changes)
    assert advice.verdict is Verdict.NOT_KNOWN
    assert would_tell in " ".join(advice.would_tell)


@pytest.mark.parametrize(
    ("reasons", "goal_ms", "why"),
    [
        ((Reason.TOO_SOON,), 90_000, "changed a short while ago"),
        ((Reason.NEW_IMAGE_FREEZE,), 90_000, "A new image is being rolled out"),
        ((Reason.SMALL_CHANGE,), 48_000, "too close to it"),
        ((Reason.COST_OPTIMUM,), 45_000, "It is the best one."),
        ((Reason.COST_OPTIMUM, Reason.CANARY_ROLLED_BACK), 90_000, "the canary took the changes back"),
    ],
)
def test_a_value_that_stays_says_why(reasons: tuple[Reason, ...], goal_ms: int, why: str) -> None:
    is_back = Reason.CANARY_ROLLED_BACK in reasons
    advice = advice_for(recommended_ms=90_000 if is_back else 45_000, goal_ms=goal_ms, reasons=reasons)
    assert advice.verdict is Verdict.KEEP
    assert advice.action == "Leave session.timeout.ms at 45 s."
    assert why in advice.why


@pytest.mark.parametrize("reason", [Reason.BROKER_CAP, Reason.SPEC_MAXIMUM])
def test_what_a_bound_holds_down_is_not_said_to_be_good(reason: Reason) -> None:
    """At its cap a timeout may lose most of the restarts: 17 of 21 a day with gaps of 90 s below a cap of 60 s."""
    capped = {
        "current_ms": 60_000, "recommended_ms": 60_000, "goal_ms": 60_000, "uncapped_ms": 180_000, "reasons": (reason,),
    }  # fmt: skip
    assumed = advice_for(**capped, price_source=PriceSource.ASSUMED, saved_partition_seconds_per_day=None)
    assert assumed.verdict is Verdict.NOT_KNOWN
    assert "nearly all" not in assumed.why
    assert "3 min would be better" in assumed.why
    known = advice_for(**capped, bounds_maximum_ms=60_000)
    assert known.verdict is Verdict.KEEP
    assert "3 min would be better" in known.why


def test_dynamic_members_are_advised_when_they_surely_cost_less() -> None:
    advice = advice_for(
        reasons=(Reason.USE_DYNAMIC,), saved_partition_seconds_per_day=Difference(value=5_000, lower=4_000, upper=5_500)
    )
    assert advice.verdict is Verdict.DYNAMIC
    assert advice.action == "Use dynamic members in orders: leave group.instance.id unset."
    assert "5,780 partition-s a day are lost now, about 777 partition-s would be." in advice.why
    assert advice.then_ms is None


def test_a_timeout_outside_the_bounds_is_no_matter_of_cost() -> None:
    """A broker refuses a member whose timeout is outside of its bounds, regardless of restarts."""
    advice = advice_for(
        current_ms=300_000, recommended_ms=60_000, goal_ms=None, bounds_maximum_ms=60_000,
        reasons=(Reason.LOW_COVERAGE,),
    )  # fmt: skip
    assert advice.verdict is Verdict.CHANGE
    assert advice.saving is None
    assert advice.later_ms == -240_000


def test_what_keeps_a_change_from_going_further_is_said() -> None:
    advice = advice_for(goal_ms=105_000, uncapped_ms=3_000_000, reasons=(Reason.BROKER_CAP, Reason.STEP_LIMITED))
    assert "This is one step on the way to 1 min 45 s." in advice.why
    assert "The brokers allow 30 min at most; 50 min would be best." in advice.why
    assert advice.goal_ms == 105_000


@pytest.mark.parametrize("after", [effects(5.1, 1_600, 4_502), effects(0.6, 1_200, 4_502)])
def test_effects_that_go_the_other_way_than_the_change_are_not_shown(after: Effects) -> None:
    """A longer timeout cannot lose more members, nor keep absent members for less time."""
    advice = advice_for(after=after)
    assert advice.verdict is Verdict.CHANGE
    assert "a week" not in advice.why


CAPPED: dict[str, Any] = {
    "setting": Setting.CONSUMER_SESSION_TIMEOUT, "protocol": "Consumer", "reasons": (Reason.BROKER_CAP,),
    "bounds_maximum_ms": 60_000, "lower_ms": 70_000,
}  # fmt: skip


def test_a_brokers_cap_is_one_sentence_for_all_groups_of_its_cluster() -> None:
    """GroupCoordinatorConfig: group.consumer.max.session.timeout.ms defaults to 60 s."""
    made = advise_clusters(
        [
            recommendation(group_id="a", uncapped_ms=90_000, **CAPPED),
            recommendation(group_id="b", uncapped_ms=120_000, **CAPPED),
            recommendation(group_id="c", uncapped_ms=300_000),
            recommendation(group_id="d", uncapped_ms=75_000, **{**CAPPED, "kafka_cluster_id": "kafka-2"}),
        ]
    )
    assert [(c.kafka_cluster_id, c.groups) for c in made] == [("kafka-1", 2), ("kafka-2", 1)]
    assert made[0].advice.action == "Raise group.consumer.max.session.timeout.ms to 120000 on cluster kafka-1."
    assert made[0].advice.command == "group.consumer.max.session.timeout.ms=120000"
    assert "cap in force is 1 min" in made[0].advice.why


@pytest.mark.parametrize(
    "changes",
    [{"price_source": PriceSource.ASSUMED}, {"lower_ms": 55_000}, {"reasons": (Reason.BROKER_CAP, Reason.USE_DYNAMIC)}],
)
def test_a_cap_that_may_not_matter_is_left_alone(changes: dict[str, Any]) -> None:
    assert advise_clusters([recommendation(**{**CAPPED, "uncapped_ms": 90_000, **changes})]) == ()


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_small_is_what_the_policy_calls_small(now_ms: int, goal_ms: int) -> None:
    change = abs(goal_ms - now_ms)
    assert is_small(now_ms, goal_ms) is (change < CHANGE_MS_MIN or 100 * change < CHANGE_PERCENT_MIN * now_ms)
