"""The session timeout of the next pods never stops their client from starting, and never undercuts its heartbeat."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException

from staticgroup.api.reasons import Reason
from staticgroup.core.absences.samples import Cause, Reservoir, Sample
from staticgroup.core.group import GroupType
from staticgroup.core.plan import plan
from staticgroup.core.timeouts.in_force import TimeoutPlan
from staticgroup.core.workload import ContainerBudget
from support.bounds import broker_bounds
from unit.core.plans import present

from .builders import NOW_S, departure, group, history, member, spec, workload

SLOW = {"termination_grace_s": 60, "startup_budget_s": 300}
"""A template that asks for 383 s, and for 575 s with half of it on top."""
FAST_ROLL_MS = (2_000,) * 5
FAUST = {"type": "Custom", "env": [{"instanceIdName": "CONSUMER_GROUP_INSTANCE_ID"}]}
CUSTOM = {"type": "Custom", "env": [{"instanceIdName": "ID", "sessionTimeoutName": "TIMEOUT_MS"}]}


def timeout(
    *absences_ms: int, env: dict[str, str] | None = None, termination_grace_s: int = 30, startup_budget_s: int = 20,
    classic_max_ms: int = 1_800_000, world: dict[str, Any] | None = None, **wish: Any,
) -> TimeoutPlan:  # fmt: skip
    """Return what the next pods get after rolls that took so long, with a template that sets these variables."""
    shown = env or {}
    container = ContainerBudget(
        name="app", env_names=tuple(shown), env_values=tuple(shown.items()), startup_budget_s=startup_budget_s
    )
    samples = (Sample(at_s=n, lot=n, shortest_ms=0, longest_ms=ms) for n, ms in enumerate(absences_ms))
    snapshot = departure(
        workload=workload(2, containers=(container,), termination_grace_s=termination_grace_s),
        **({"bounds": broker_bounds(classic_min_ms=6_000, classic_max_ms=classic_max_ms)} | (world or {})),
    )
    before = history(absences={Cause.ROLLOUT: Reservoir(samples=tuple(samples), seen=len(absences_ms))})
    return present(plan(spec(**wish), snapshot, before, NOW_S).timeout)


def start_librdkafka(session_ms: int, max_poll_ms: int | None) -> None:
    """Start a consumer of confluent-kafka and close it; it needs no broker."""
    settings: dict[str, Any] = {
        "bootstrap.servers": "127.0.0.1:1", "group.id": "orders", "session.timeout.ms": session_ms, "log_level": 0,
    }
    Consumer(settings if max_poll_ms is None else settings | {"max.poll.interval.ms": max_poll_ms}).close()


# the client's upper bound ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", [{}, CUSTOM, {"type": "Own"}], ids=["Generic", "Custom", "Own"])
@pytest.mark.parametrize(
    ("absences_ms", "template", "max_poll_ms"),
    [((), SLOW, None), ((99_000,), {}, None), ((99_000,), {}, 60_000), ((), SLOW, 500_000)],
    ids=["slow template", "one long absence", "short max.poll.interval.ms", "long max.poll.interval.ms"],
)
def test_librdkafka_starts_with_what_is_injected_and_would_not_with_more(
    client: dict[str, Any], absences_ms: tuple[int, ...], template: dict[str, Any], max_poll_ms: int | None
) -> None:
    env = {} if max_poll_ms is None else {"KAFKA_MAX_POLL_INTERVAL_MS": str(max_poll_ms)}
    inject_ms = timeout(*absences_ms, env=env, client=client, **template).inject_ms
    assert inject_ms == (max_poll_ms or 300_000)
    start_librdkafka(inject_ms, max_poll_ms)
    with pytest.raises(KafkaException, match=r"max\.poll\.interval\.ms"):
        start_librdkafka(inject_ms + 1, max_poll_ms)


@pytest.mark.parametrize("client_type", ["SpringBoot", "Quarkus", "KafkaStreams", "Connect", "Debezium"])
def test_java_clients_know_no_such_bound(client_type: str) -> None:
    slow = {"env": {"KAFKA_MAX_POLL_INTERVAL_MS": "60000"}, **SLOW}
    assert timeout(**slow, client={"type": client_type}).inject_ms == 575_000


def test_faust_starts_with_no_longer_session_than_its_request_timeout() -> None:
    assert timeout(**SLOW, client=FAUST).inject_ms == 90_000
    assert timeout(**SLOW, client=FAUST, env={"BROKER_REQUEST_TIMEOUT": "120"}).inject_ms == 120_000


def test_users_maximum_is_a_word_on_the_client_unless_the_template_shows_otherwise() -> None:
    wish = {"sessionTimeout": {"maxSeconds": 400}}
    assert timeout(**SLOW, **wish).inject_ms == 400_000
    assert timeout(**SLOW, **wish, env={"KAFKA_MAX_POLL_INTERVAL_MS": "60000"}).inject_ms == 60_000
    assert timeout(**SLOW, **wish, env={"KAFKA_MAX_POLL_INTERVAL_MS": "a minute"}).inject_ms == 400_000


LIBRDKAFKA = (
    "raise max.poll.interval.ms of librdkafka clients, which do not start with a longer session, to at least 383000"
)
MAX_SECONDS = "raise spec.sessionTimeout.maxSeconds to at least 383"


@pytest.mark.parametrize(
    ("world", "way"),
    [
        ({}, f"{LIBRDKAFKA}, and {MAX_SECONDS}"),
        ({"sessionTimeout": {"maxSeconds": 350}}, f"{LIBRDKAFKA}, and {MAX_SECONDS}"),
        (
            {"env": {"KAFKA_MAX_POLL_INTERVAL_MS": "60000"}},
            "raise KAFKA_MAX_POLL_INTERVAL_MS in the pod template to at least 383000",
        ),
        (
            {"client": FAUST, "env": {"BROKER_REQUEST_TIMEOUT": "120"}},
            "raise BROKER_REQUEST_TIMEOUT in the pod template to at least 383",
        ),
        (
            {"client": FAUST},
            f"raise broker_request_timeout of Faust, which does not start with a longer session, to at least 383, and {MAX_SECONDS}",
        ),
        (
            {"env": {"{0}MAX_POLL_INTERVAL_MS": "60000"}},
            "raise {0}MAX_POLL_INTERVAL_MS in the pod template to at least 383000",
        ),
        ({"client": {"type": "Connect"}, "sessionTimeout": {"maxSeconds": 350}}, MAX_SECONDS),
        (
            {"client": {"type": "Connect"}, "classic_max_ms": 320_000, "sessionTimeout": {"maxSeconds": 350}},
            f"raise group.max.session.timeout.ms on the brokers to at least 383000 (needs their restart), and {MAX_SECONDS}",
        ),
        (
            {"sessionTimeout": {"seconds": 100}},
            f"{LIBRDKAFKA}, and raise spec.sessionTimeout.seconds to at least 383",
        ),
    ],
)
def test_bound_below_the_need_is_named_with_all_that_is_to_be_raised(world: dict[str, Any], way: str) -> None:
    found = timeout(**SLOW, **world)
    assert found.reason is Reason.TIMEOUT_BELOW_NEED
    assert found.message.endswith(f"; {way}")


# the lower bound ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("heartbeat_ms", "wish", "expected_ms"),
    [
        (None, {}, 45_000),
        (15_000, {}, 45_000),
        (20_000, {}, 60_000),
        (None, {"minSeconds": 10}, 10_000),
        (15_000, {"minSeconds": 10}, 45_000),
        (None, {"maxSeconds": 40}, 40_000),
        (15_000, {"maxSeconds": 40}, 45_000),
        (None, {"minSeconds": 350}, 350_000),
    ],
)
def test_fast_rolls_ask_for_no_less_than_clients_have_by_default_or_three_heartbeats(
    heartbeat_ms: int | None, wish: dict[str, int], expected_ms: int
) -> None:
    env = {} if heartbeat_ms is None else {"KAFKA_HEARTBEAT_INTERVAL_MS": str(heartbeat_ms)}
    assert timeout(*FAST_ROLL_MS, env=env, sessionTimeout=wish).inject_ms == expected_ms


def test_heartbeat_interval_that_the_template_shows_makes_the_need_longer() -> None:
    """The last heartbeat may be so much older than the end of the process."""
    env = {"spring.kafka.consumer.properties.heartbeat.interval.ms": "12000"}
    assert timeout(env=env).desired.need_ms == timeout().desired.need_ms + 9_000


@pytest.mark.parametrize(("absences_ms", "expected_ms"), [(FAST_ROLL_MS, 45_000), ((200_000,) * 5, 370_000)])
def test_setting_of_a_group_has_the_same_lower_bound_and_no_clients_upper_one(
    absences_ms: tuple[int, ...], expected_ms: int
) -> None:
    world = {
        "group": group(member(0), group_type=GroupType.CONSUMER),
        "bounds": broker_bounds(
            consumer_min_ms=6_000, consumer_max_ms=1_800_000, consumer_session_ms=45_000, consumer_heartbeat_ms=5_000
        ),
    }
    found = timeout(*absences_ms, world=world, groupProtocol="Consumer", sessionTimeout={"writeGroupConfig": True})
    assert found.group_config.target_ms == expected_ms
