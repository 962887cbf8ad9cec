"""Hold the workload against a real broker: what it says must be what the group coordinator did."""

import itertools
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.devcluster.kafka_admin import BrokerAdmin
from support.devcluster.kafka_broker import Brokers, leftovers
from support.devcluster.kafka_config import BrokerSettings
from support.waiting import until
from support.workload.process import Program, lines_of, ranges_of
from support.workload.ranges import Ranges, appended, merged, missing, prolonged, size

PARTITIONS = 6
EVENTUALLY_S = 30.0
Start = Callable[..., Program]

pairs = st.tuples(st.integers(0, 60), st.integers(0, 9)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def numbers(ranges: Ranges) -> set[int]:
    return {number for first, last in ranges for number in range(first, last + 1)}


@given(st.lists(pairs), st.lists(pairs))
def test_missing_is_the_difference_of_two_sets(expected: Ranges, found: Ranges) -> None:
    left = missing(expected, found)
    assert numbers(left) == numbers(expected) - numbers(found)
    assert left == merged(left)
    assert size(left) == len(numbers(left))


@given(st.lists(st.integers(0, 30)))
def test_appending_keeps_repetitions_visible(arrivals: list[int]) -> None:
    ranges: Ranges = []
    for number in arrivals:
        appended(ranges, number)
    assert [number for first, last in ranges for number in range(first, last + 1)] == arrivals


@given(st.lists(st.integers(0, 60)), st.integers(1, 5))
def test_prolonging_splits_exactly_where_the_pause_is_longer_than_the_reach(times: list[int], reach: int) -> None:
    ranges: Ranges = []
    for time_ms in sorted(times):
        prolonged(ranges, time_ms, reach)
    pauses = [(before, after) for before, after in itertools.pairwise(sorted(times)) if after - before > reach]
    assert [(one[1], other[0]) for one, other in itertools.pairwise(ranges)] == pauses
    assert [ranges[0][0], ranges[-1][1]] == [min(times), max(times)] if times else ranges == []


def test_range_upside_down_is_refused() -> None:
    with pytest.raises(ValueError, match="5-4 is upside down"):
        merged([(5, 4)])


def test_lines_that_are_not_events_are_left_out() -> None:
    assert lines_of('Traceback\n{"kind":"revoked"}\n{"ki\n[1]\n') == [{"kind": "revoked"}]


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    running = Brokers.up(BrokerSettings(name="workload", heap_mb=256))
    yield running
    running.down()
    assert leftovers("workload") == []


@pytest.fixture
def topic(brokers: Brokers) -> str:
    name = f"orders-{uuid.uuid4().hex[:8]}"
    BrokerAdmin(brokers.bootstrap).create_topic(name, PARTITIONS)
    return name


@pytest.fixture
def start(brokers: Brokers, topic: str) -> Iterator[Start]:
    """Start programs that end with the test."""
    started: list[Program] = []

    def run(program: str = "consumer", **environment: str) -> Program:
        given_: Mapping[str, str] = {"BOOTSTRAP": brokers.bootstrap, "TOPIC": topic, "GROUP": f"group-{topic}"}
        started.append(Program(program, {**given_, **environment}))
        return started[-1]

    yield run
    for each in started:
        if each.is_running:
            each.kill()


def assignment(program: Program) -> list[int]:
    """Return the partitions that the program holds now."""
    held: set[int] = set()
    for line in program.lines:
        if line["kind"] == "assigned":
            held |= set(line["partitions"])
        elif line["kind"] in ("revoked", "lost"):
            held -= set(line["partitions"])
    return sorted(held)


def settle(members: list[Program]) -> None:
    """Wait until the members share all partitions evenly."""
    share = PARTITIONS // len(members)
    until(
        lambda: all(len(assignment(each)) == share for each in members),
        deadline_s=EVENTUALLY_S,
        what="an even assignment",
    )
    held = sorted(itertools.chain(*map(assignment, members)))
    assert held == list(range(PARTITIONS))


def unconsumed(producer: Program, consumers: list[Program]) -> dict[int, Ranges]:
    consumed = ranges_of(itertools.chain(*(each.lines for each in consumers)), "consumed")
    acked = ranges_of(producer.lines, "acked")
    left = {partition: missing(ranges, consumed.get(partition, [])) for partition, ranges in acked.items()}
    return {partition: ranges for partition, ranges in left.items() if ranges}


@pytest.mark.broker
@pytest.mark.long
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_rolling_static_members_revokes_nothing_and_loses_nothing(
    brokers: Brokers, start: Start, topic: str, protocol: str
) -> None:
    """KIP-345: a static member that comes back within its session keeps its partitions, and so do all others."""
    names = [f"orders-{ordinal}" for ordinal in range(3)]
    producer = start("producer", RATE_PER_S="300")
    members = {name: start(KAFKA_GROUP_INSTANCE_ID=name, GROUP_PROTOCOL=protocol) for name in names}
    settle(list(members.values()))
    everyone = list(members.values())
    before = {name: assignment(member) for name, member in members.items()}
    # KIP-848: the group settles a moment after its members did; the classic generation is final with the assignment.
    counted = brokers.group_log.count_epoch_bumps if protocol == "consumer" else brokers.group_log.count_rebalances
    rebalances = counted(f"group-{topic}")

    for name in names:
        others = [member for other, member in members.items() if other != name]
        changes = sum(len(each.of_kind("revoked")) + len(each.of_kind("lost")) for each in others)
        assert members[name].terminate() == 0
        assert members[name].of_kind("closed")[0]["elapsed_ms"] < 1000
        members[name] = start(KAFKA_GROUP_INSTANCE_ID=name, GROUP_PROTOCOL=protocol)
        everyone.append(members[name])
        until(
            lambda name=name: assignment(members[name]) == before[name],
            deadline_s=EVENTUALLY_S,
            what=f"{name} has its partitions again",
        )
        assert sum(len(each.of_kind("revoked")) + len(each.of_kind("lost")) for each in others) == changes

    assert producer.terminate() == 0
    until(
        lambda: unconsumed(producer, everyone) == {},
        deadline_s=EVENTUALLY_S,
        what="everything acknowledged was consumed",
    )
    sent = ranges_of(producer.lines, "acked", "sequences")
    assert sorted(sent) == list(range(PARTITIONS))
    assert all(len(ranges) == 1 and ranges[0][0] == 0 for ranges in sent.values())
    assert ranges_of(itertools.chain(*(each.lines for each in everyone)), "consumed", "sequences") == sent
    if protocol == "classic":
        assert counted(f"group-{topic}") == rebalances


@pytest.mark.broker
@pytest.mark.long
def test_rolling_a_dynamic_member_takes_partitions_from_the_others(brokers: Brokers, start: Start, topic: str) -> None:
    """The contrast, without which the test above would prove nothing."""
    members = [start(), start(), start()]
    settle(members)
    rebalances = brokers.group_log.count_rebalances(f"group-{topic}")
    revoked = [len(each.of_kind("revoked")) for each in members[1:]]
    assert members[0].terminate() == 0
    until(
        lambda: all(len(assignment(each)) == 3 for each in members[1:]),
        deadline_s=EVENTUALLY_S,
        what="the others take over",
    )
    assert [len(each.of_kind("revoked")) for each in members[1:]] > revoked
    assert brokers.group_log.count_rebalances(f"group-{topic}") > rebalances


@pytest.mark.broker
@pytest.mark.long
def test_killed_consumer_repeats_but_does_not_lose(start: Start) -> None:
    producer = start("producer", RATE_PER_S="500")
    first = start(KAFKA_GROUP_INSTANCE_ID="orders-0")
    first.wait_for(lambda line: line["kind"] == "consumed" and len(line["partitions"]) == PARTITIONS, "all partitions")
    first.kill()
    second = start(KAFKA_GROUP_INSTANCE_ID="orders-0")
    second.wait_for_kind("consumed")
    assert producer.terminate() == 0
    until(
        lambda: unconsumed(producer, [first, second]) == {},
        deadline_s=EVENTUALLY_S,
        what="everything acknowledged was consumed",
    )
    assert unconsumed(producer, [first]) != {}


@pytest.mark.broker
@pytest.mark.long
def test_fenced_application_ends_with_an_error(start: Start) -> None:
    first = start(KAFKA_GROUP_INSTANCE_ID="orders-0")
    first.wait_for_kind("assigned")
    second = start(KAFKA_GROUP_INSTANCE_ID="orders-0")
    second.wait_for_kind("assigned")
    assert first.exit_code() == 1
    (error,) = [line for line in first.of_kind("error") if line["fatal"]]
    assert "fenced" in (error["error"] + error["text"]).lower()


@pytest.mark.broker
@pytest.mark.long
def test_ignored_refusal_of_an_instance_id_stalls_silently(start: Start) -> None:
    """KIP-848: UNRELEASED_INSTANCE_ID while the owner lives; the process of the loser runs on and does nothing."""
    producer = start("producer", RATE_PER_S="100")
    owner = start(KAFKA_GROUP_INSTANCE_ID="orders-0", GROUP_PROTOCOL="consumer")
    owner.wait_for_kind("consumed")
    loser = start(KAFKA_GROUP_INSTANCE_ID="orders-0", GROUP_PROTOCOL="consumer", EXIT_ON_FATAL="false")
    error = loser.wait_for(lambda line: line["kind"] == "error" and line["fatal"], "the fatal error")
    assert "instance ID is still used" in error["text"]
    owner.wait_for(lambda line: line["kind"] == "consumed" and line["at_ms"] > error["at_ms"] + 4000, "4 s of load")
    assert loser.is_running
    assert {line["kind"] for line in loser.lines if line["at_ms"] > error["at_ms"]} == set()
    assert loser.of_kind("assigned") == []
    assert producer.terminate() == 0


@pytest.mark.broker
@pytest.mark.long
def test_ignored_fencing_reads_on_without_owning(start: Start) -> None:
    producer = start("producer", RATE_PER_S="100")
    first = start(KAFKA_GROUP_INSTANCE_ID="orders-0", EXIT_ON_FATAL="false")
    first.wait_for_kind("consumed")
    second = start(KAFKA_GROUP_INSTANCE_ID="orders-0")
    error = first.wait_for(lambda line: line["kind"] == "error" and line["fatal"], "the fatal error")
    for each in (first, second):
        each.wait_for(lambda line: line["kind"] == "consumed" and line["at_ms"] > error["at_ms"] + 4000, "reading on")
    assert len([line for line in first.of_kind("error") if line["fatal"]]) == 1
    assert first.of_kind("lost") == []
    assert producer.terminate() == 0


@pytest.mark.broker
@pytest.mark.long
def test_session_timeout_with_the_consumer_protocol_is_refused_by_the_client(start: Start) -> None:
    """KIP-848: the session timeout belongs to the group there; librdkafka refuses to start with one of its own."""
    refused = start(GROUP_PROTOCOL="consumer", KAFKA_SESSION_TIMEOUT_MS="30000")
    assert refused.exit_code() == 2
    assert "session.timeout.ms" in refused.of_kind("refused")[0]["text"]


@pytest.mark.broker
@pytest.mark.long
def test_empty_variables_count_as_unset(brokers: Brokers, start: Start, topic: str) -> None:
    member = start(KAFKA_GROUP_INSTANCE_ID="", KAFKA_SESSION_TIMEOUT_MS="", GROUP_PROTOCOL="")
    member.wait_for_kind("assigned")
    assert member.of_kind("started")[0]["instance_id"] is None
    (described,) = BrokerAdmin(brokers.bootstrap).describe_group(f"group-{topic}").members
    assert not described.instance_id


@pytest.mark.broker
@pytest.mark.long
def test_ready_file_exists_only_with_an_assignment(start: Start, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("ready") / "ready"
    member = start(READY_FILE=str(file))
    until(file.exists, deadline_s=EVENTUALLY_S, what="readiness")
    assert member.of_kind("assigned") != []
    assert member.terminate() == 0
    assert not file.exists()


@pytest.mark.broker
@pytest.mark.long
def test_times_of_receipt_are_printed_on_request_and_show_the_pause(start: Start) -> None:
    """Two loads with a pause between them: each partition has a pause of that length in its times, and no other."""
    member = start(REPORT_TIMES="true")
    member.wait_for_kind("assigned")
    start("producer", RATE_PER_S="120", COUNT="240").exit_code()
    first_end_ms = int(time.time() * 1000)
    until(lambda: int(time.time() * 1000) > first_end_ms + 1500, deadline_s=EVENTUALLY_S, what="a pause of 1.5 s")
    start("producer", RATE_PER_S="120", COUNT="240").exit_code()
    until(
        lambda: sum(size(r) for r in ranges_of(member.lines, "consumed").values()) == 480,
        deadline_s=EVENTUALLY_S,
        what="all records",
    )
    received = ranges_of(member.lines, "consumed", "received")
    assert sorted(received) == list(range(PARTITIONS))
    for ranges in received.values():
        pauses = [after[0] - before[1] for before, after in itertools.pairwise(ranges) if after[0] - before[1] > 1000]
        assert len(pauses) == 1
        assert 1500 <= pauses[0] <= 4000
    silent = start(GROUP="another")
    silent.wait_for_kind("consumed")
    contents = [content for line in silent.of_kind("consumed") for content in line["partitions"].values()]
    assert contents
    assert not any("received" in content for content in contents)


@pytest.mark.broker
@pytest.mark.long
def test_load_stops_at_its_count(start: Start) -> None:
    producer = start("producer", RATE_PER_S="2000", COUNT="601")
    assert producer.exit_code() == 0
    closed = producer.of_kind("closed")[0]
    assert (closed["sent"], closed["acked"], closed["failed"]) == (601, 601, 0)
    assert sum(size(ranges) for ranges in ranges_of(producer.lines, "acked").values()) == 601


@pytest.mark.broker
@pytest.mark.long
def test_state_is_read_again_only_where_it_is_not_kept_and_is_always_the_same(
    start: Start, tmp_path: Path
) -> None:
    """Two pods take turns: the state that one reads again is byte for byte what the other made as the records came."""
    folders = {name: tmp_path / name for name in ("one", "other")}
    for folder in folders.values():
        folder.mkdir()

    def turn(name: str, records: int) -> int:
        member = start(STATE_DIR=str(folders[name]), RESTORE_PER_S="100000", WORK_MS="50", REPORT_TIMES="true")
        until(lambda: len(member.of_kind("restored")) == PARTITIONS, deadline_s=EVENTUALLY_S, what="all states")
        if records:
            assert start("producer", RATE_PER_S="600", COUNT=str(records)).exit_code() == 0
        until(
            lambda: sum(size(r) for r in ranges_of(member.lines, "consumed").values()) == records,
            deadline_s=EVENTUALLY_S,
            what="all records",
        )
        assert member.terminate() == 0
        delays = [count for line in member.of_kind("consumed") for count in line["delays"].values()]
        assert sum(delays) == records
        return sum(line["records"] for line in member.of_kind("restored"))

    def kept(name: str) -> dict[str, str]:
        return {file.name: file.read_text() for file in folders[name].iterdir()}

    assert turn("one", 600) == 0
    assert turn("other", 0) == 600
    assert (len(kept("one")), kept("other")) == (PARTITIONS, kept("one"))
    assert turn("other", 300) == 0
    assert turn("one", 0) == 300
    assert kept("one") == kept("other")
    assert turn("one", 0) == 0
