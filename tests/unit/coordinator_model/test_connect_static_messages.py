"""The bytes of static Connect workers: the vectors that the agent's own tests read too, and the borders of the format."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from coordinator_model.connect.protocol import (
    Assignment,
    AssignmentError,
    ConnectProtocolCompatibility,
    WorkerState,
    decode_assignment,
    decode_metadata,
    encode_metadata,
)
from coordinator_model.connect.static import (
    GIVEN_MAX_BYTES,
    HELD_BACK_ROUNDS,
    RoundMember,
    StaticMembership,
    Told,
    Whole,
    decode_stored,
    decode_told,
    encode_stored,
    encode_told,
)
from coordinator_model.connect.work import NOTHING, ConnectorsAndTasks, ConnectorTaskId

VECTORS = Path(__file__).parent / "connect_vectors"
TOLD = Assignment(
    version=2,
    error=AssignmentError.NO_ERROR,
    leader="w-0-old",
    leader_url="http://w-0/",
    config_offset=7,
    assigned=ConnectorsAndTasks.of(["a"], [ConnectorTaskId("a", 0), ConnectorTaskId("a", 1)]),
)
WHOLE = Whole("w-0", "http://w-1/", {"w-1": TOLD.assigned})
UUID = "0" * 36


def recorder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("record", VECTORS / "record.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_vectors_are_what_the_twin_does() -> None:
    """`python tests/unit/coordinator_model/connect_vectors/record.py --write` writes them."""
    record = recorder()
    assert (VECTORS / "static.json").read_text(encoding="utf-8") == record.text()


def test_the_vectors_show_every_decision() -> None:
    memberships = json.loads((VECTORS / "static.json").read_text(encoding="utf-8"))["memberships"]
    steps = [step for membership in memberships for step in membership["steps"]]
    assert sum(bool(step.get("changed")) for step in steps) >= 3
    assert sum(bool(step.get("heldBack")) for step in steps) >= 3
    assert sum(step.get("telling") != step.get("told") for step in steps) >= 3
    assert sum(bool(step.get("roundWanted")) for step in steps) >= 3
    assert {step["received"][:4] for step in steps if "received" in step} == {"0000", "0001", "0002"}


def test_messages_keep_what_they_say() -> None:
    vectors = json.loads((VECTORS / "static.json").read_text(encoding="utf-8"))
    for each in vectors["assignments"]:
        data = bytes.fromhex(each["hex"])
        assignment, whole = decode_stored(data)
        assert encode_stored(assignment, whole) == data
        assert recorder().spell_assignment(assignment, whole) == each
    for each in vectors["workerStates"]:
        state = decode_metadata(bytes.fromhex(each["hex"]))
        assert (state.url, state.config_offset) == (each["url"], each["configOffset"])
        held = encode_stored(state.allocation, None).hex() if state.allocation else None
        assert held == each["allocation"]
        assert recorder().spell_told(decode_told(bytes.fromhex(each["hex"]))) == each["told"]


def test_connect_does_not_see_the_trailing_bytes() -> None:
    assert decode_assignment(encode_stored(TOLD, WHOLE)) == TOLD


@pytest.mark.parametrize("version", [0, 3])
def test_a_version_whose_bytes_are_not_known_gets_no_trailing_bytes(version: int) -> None:
    """In version 0 Connect would read them as revocations."""
    with pytest.raises(ValueError, match=f"version {version} has no room"):
        encode_stored(replace(TOLD, version=version), WHOLE)


def test_trailing_bytes_of_others_are_none_of_ours() -> None:
    data = encode_stored(TOLD, WHOLE)
    bare = encode_stored(TOLD, None)
    assert decode_stored(bare + b"something else")[1] is None
    assert decode_stored(data + b"\0")[1] is None
    assert all(decode_stored(data[:end])[1] is None for end in range(len(bare), len(data)))


def test_a_returning_leader_leads_and_asks_for_one_round() -> None:
    leader = StaticMembership("w-0")
    received = leader.received(
        encode_stored(TOLD, replace(WHOLE, url="http://w-0/")), 5, "w-0-new", "http://w-0/", 9, NOTHING
    )
    shown = decode_assignment(received.shown)
    assert (shown.leader, shown.config_offset, shown.assigned) == ("w-0-new", 9, TOLD.assigned)
    assert received.round_wanted
    again = leader.received(encode_stored(TOLD, WHOLE), 5, "w-0-new", "http://w-0/", 9, TOLD.assigned)
    assert not again.round_wanted
    assert not decode_assignment(again.shown).assigned


def test_a_follower_with_another_address_asks_for_a_round() -> None:
    follower = StaticMembership("w-1")
    assert not follower.received(encode_stored(TOLD, WHOLE), 5, "w-1-new", "http://w-1/", 7, NOTHING).round_wanted
    moved = StaticMembership("w-1")
    assert moved.received(encode_stored(TOLD, WHOLE), 5, "w-1-new", "http://elsewhere/", 7, NOTHING).round_wanted


@pytest.mark.parametrize(
    ("member_id", "leads"),
    [(f"w-0-{UUID}", True), (f"w-00-{UUID}", False), (f"w-0-0-{UUID}", False), ("w-0", False)],
)
def test_the_eager_leader_knows_itself_by_the_member_id_that_the_coordinator_made(member_id: str, leads: bool) -> None:
    told = replace(TOLD, version=0, leader=member_id)
    received = StaticMembership("w-0").received(encode_stored(told, None), 5, "w-0-new", "http://w-0/", 7, NOTHING)
    assert (decode_assignment(received.shown).leader == "w-0-new") is leads


def test_what_everybody_was_given_goes_to_the_leader_alone_when_it_is_large() -> None:
    def sizes(connectors: int) -> tuple[int | None, ...]:
        leader = StaticMembership("w-0")
        metadata = {
            f"w-{n}-x": bytes.fromhex("0002") + b"\0\3url" + bytes(8) + b"\xff\xff\xff\xff" for n in range(2)
        }
        leader.view([RoundMember(m, m[:3], data) for m, data in metadata.items()], 1, "w-0-x")
        assigned = ConnectorsAndTasks.of([f"connector-{n:04}" for n in range(connectors)])
        increment = encode_stored(replace(TOLD, assigned=assigned), None)
        stored = leader.stored({"w-0-x": increment, "w-1-x": increment}, "w-0-x")
        wholes = [decode_stored(stored[m])[1] for m in ("w-0-x", "w-1-x")]
        return tuple(len(whole.given) if whole.given is not None else None for whole in wholes if whole)

    of_one = GIVEN_MAX_BYTES // 48
    assert sizes(100) == (2, 2)
    assert sizes(of_one) == (2, None)
    assert sizes(2 * of_one) == (None, None)


def state(allocation: Assignment | None) -> bytes:
    return encode_metadata(WorkerState("http://w-1/", 7, allocation), ConnectProtocolCompatibility.SESSIONED)


def leader_given(given: ConnectorsAndTasks) -> StaticMembership:
    leader = StaticMembership("w-0")
    whole = Whole("w-0", "http://w-0/", {"w-1": given})
    leader.received(encode_stored(replace(TOLD, leader="w-0-new"), whole), 5, "w-0-new", "http://w-0/", 7, NOTHING)
    return leader


def seen_by(leader: StaticMembership, *others: RoundMember) -> dict[str, bytes]:
    """What the leader is shown in the round after its last assignment."""
    own = RoundMember("w-0-new", "w-0", leader.telling(state(None)))
    return leader.view([own, *others], 6, "w-0-new")


A0, A1 = (ConnectorsAndTasks.of(tasks=[ConnectorTaskId("a", task)]) for task in (0, 1))


def test_a_member_keeps_what_is_revoked_from_it_until_it_has_reported_it() -> None:
    """It may be away and run nothing, or hang and run it still: who only counts as owner has not said so."""
    leader = leader_given(A0.plus(A1))
    seen = seen_by(leader, RoundMember("w-1-x", "w-1", state(None)))
    allocation = decode_metadata(seen["w-1-x"]).allocation
    assert allocation is not None
    assert allocation.assigned == A0.plus(A1)
    balanced = encode_stored(replace(TOLD, assigned=NOTHING, revoked=A1), None)
    stored = leader.stored({"w-1-x": balanced}, "w-0-new")["w-1-x"]
    assert decode_stored(stored)[0].assigned == A0.plus(A1)
    received = StaticMembership("w-1").received(stored, 6, "w-1-x", "http://w-1/", 7, NOTHING)
    shown = decode_assignment(received.shown)
    assert (shown.assigned, shown.revoked) == (A0.plus(A1), NOTHING)
    assert received.round_wanted


def test_a_member_stops_what_it_reported_and_asks_by_itself() -> None:
    leader = leader_given(A0.plus(A1))
    seen_by(leader, RoundMember("w-1-x", "w-1", state(replace(TOLD, assigned=A0.plus(A1)))))
    stored = leader.stored({"w-1-x": encode_stored(replace(TOLD, assigned=NOTHING, revoked=A1), None)}, "w-0-new")
    assert decode_stored(stored["w-1-x"])[0].assigned == A0
    member = StaticMembership("w-1", member_id="w-1-x")
    received = member.received(stored["w-1-x"], 6, "w-1-x", "http://w-1/", 7, A0.plus(A1))
    assert decode_assignment(received.shown).revoked == A1
    assert not received.round_wanted


def test_what_was_given_and_revoked_in_one_round_is_given_away_by_a_round_that_the_leader_asks_for() -> None:
    """The member would join again with the same words, be answered with the same revocation, and so on without end."""
    leader = leader_given(NOTHING)
    seen_by(leader, RoundMember("w-1-x", "w-1", state(replace(TOLD, assigned=A0))))
    stored = leader.stored({"w-1-x": encode_stored(replace(TOLD, assigned=NOTHING, revoked=A1), None)}, "w-0-new")
    member = StaticMembership("w-1", member_id="w-1-x")
    received = member.received(stored["w-1-x"], 6, "w-1-x", "http://w-1/", 7, A0)
    assert not decode_assignment(received.shown).revoked
    assert not received.round_wanted
    own = encode_stored(replace(TOLD, leader="w-0-new"), replace(WHOLE, url="http://w-0/"))
    assert leader.received(own, 6, "w-0-new", "http://w-0/", 7, TOLD.assigned).round_wanted
    assert not leader.received(own, 6, "w-0-new", "http://w-0/", 7, TOLD.assigned).round_wanted


def test_what_another_member_reports_is_not_counted_as_owned_by_an_absent_one() -> None:
    leader = leader_given(A0.plus(A1))
    seen = seen_by(
        leader,
        RoundMember("w-1-x", "w-1", state(None)),
        RoundMember("w-2-x", "w-2", state(replace(TOLD, assigned=A1))),
    )
    allocation = decode_metadata(seen["w-1-x"]).allocation
    assert allocation is not None
    assert allocation.assigned == A0


def test_an_increment_is_all_that_a_live_worker_is_shown() -> None:
    """Connect 3.1 keeps lists: given what it has, it would hold it twice, and have it revoked as a duplicate."""
    member = StaticMembership("w-1", member_id="w-1-x")
    stored = encode_stored(replace(TOLD, assigned=A0.plus(A1)), WHOLE)
    assert decode_assignment(member.received(stored, 6, "w-1-x", "http://w-1/", 7, A0).shown).assigned == A1


def test_connect_does_not_see_what_a_worker_tells_of_others() -> None:
    bare = state(TOLD)
    told = Told(5, {"w-1": A0})
    assert decode_metadata(bare + encode_told(told)) == decode_metadata(bare)
    assert decode_told(bare + encode_told(told)) == told
    assert decode_told(bare + encode_told(told) + b"\0") is None
    assert all(decode_told((bare + encode_told(told))[:end]) is None for end in range(len(bare), len(bare) + 20))


def test_a_worker_tells_nothing_in_the_eager_protocol_and_before_its_first_assignment() -> None:
    eager = encode_metadata(WorkerState("http://w-1/", 7), ConnectProtocolCompatibility.EAGER)
    assert leader_given(A0).telling(eager) == eager
    assert StaticMembership("w-1").telling(state(None)) == state(None)


@pytest.mark.parametrize(
    ("told", "is_held"),
    [
        (Told(5, {"w-1": A0}), False),
        (Told(5, None), True),
        (Told(4, {"w-1": A0}), True),
        (None, True),
    ],
)
def test_only_what_is_told_of_the_generation_before_counts(told: Told | None, is_held: bool) -> None:
    leader = StaticMembership("w-0")
    teller = state(TOLD) + (encode_told(told) if told else b"")
    members = [
        RoundMember("w-0-new", "w-0", state(None)),
        RoundMember("w-1-x", "w-1", state(None)),
        RoundMember("w-2-x", "w-2", teller),
    ]
    leader.view(members, 6, "w-0-new")
    held = leader.held_back("w-0-new")
    assert (held is not None) is is_held
    if held is not None:
        told_to = {m: decode_stored(data) for m, data in held.items()}
        assert {m for m, (_, whole) in told_to.items() if whole is None} >= {"w-1-x"}
        is_sure = told is not None and told.generation_id == 5
        assert told_to["w-2-x"][0].assigned == (TOLD.assigned if is_sure else NOTHING)
        assert all(not each.revoked for each, _ in told_to.values())


def test_nobody_is_in_doubt_once_everybody_has_joined() -> None:
    """Who tells of the generation before has joined this round, and reports all that it runs."""
    leader = StaticMembership("w-0")
    members = [RoundMember(f"w-{n}-x", f"w-{n}", state(None) + encode_told(Told(5))) for n in (0, 1)]
    leader.view(members, 6, "w-0-x")
    assert leader.held_back("w-0-x") is None


def test_a_dynamic_worker_among_others_keeps_what_it_runs_while_the_leader_holds_back() -> None:
    """A fleet into which the agent is being rolled: a dynamic worker is told increments, and nothing of them is nothing."""
    leader = StaticMembership("w-0")
    members = [
        RoundMember("w-0-new", "w-0", state(None)),
        RoundMember("w-1-x", "w-1", state(None)),
        RoundMember("stock-x", None, state(replace(TOLD, assigned=A0))),
    ]
    leader.view(members, 6, "w-0-new")
    held = leader.held_back("w-0-new")
    assert held is not None
    told, whole = decode_stored(held["stock-x"])
    assert (told.assigned, told.revoked, whole) == (NOTHING, NOTHING, None)
    assert (told.leader, told.config_offset, told.error) == ("w-0-new", TOLD.config_offset, AssignmentError.NO_ERROR)


def test_a_doubt_that_rounds_do_not_end_is_left_to_who_is_in_doubt() -> None:
    """A live member whose words never get through would have the group rebalance without a pause."""
    leader = StaticMembership("w-0", member_id="w-0-x")
    silent = RoundMember("w-1-x", "w-1", state(None))
    wanted = []
    for generation in range(6, 6 + HELD_BACK_ROUNDS + 2):
        leader.view([RoundMember("w-0-x", "w-0", state(None)), silent], generation, "w-0-x")
        held = leader.held_back("w-0-x")
        assert held is not None
        wanted.append(leader.received(held["w-0-x"], generation, "w-0-x", "http://w-0/", 7, NOTHING).round_wanted)
    assert wanted == [True] * HELD_BACK_ROUNDS + [False] * 2
    leader.view([RoundMember("w-0-x", "w-0", state(None)), replace(silent, metadata=state(TOLD))], 20, "w-0-x")
    held = leader.held_back("w-0-x")
    assert held is not None
    assert leader.received(held["w-0-x"], 20, "w-0-x", "http://w-0/", 7, NOTHING).round_wanted
