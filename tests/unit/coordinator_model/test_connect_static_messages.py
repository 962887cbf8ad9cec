"""The bytes of static Connect workers: the vectors that the agent's tests also read, and the format's limits."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from conformance.answers import answered
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
    LastGeneration,
    RoundMember,
    StaticMembership,
    Whole,
    decode_last_generation,
    decode_stored,
    encode_last_generation,
    encode_stored,
)
from coordinator_model.connect.work import NOTHING, ConnectorsAndTasks, ConnectorTaskId

VECTORS = Path(__file__).parent / "connect_vectors"
ASSIGNMENT = Assignment(
    version=2,
    error=AssignmentError.NO_ERROR,
    leader="w-0-old",
    leader_url="http://w-0/",
    config_offset=7,
    assigned=ConnectorsAndTasks.of(["a"], [ConnectorTaskId("a", 0), ConnectorTaskId("a", 1)]),
)
WHOLE = Whole("w-0", "http://w-1/", {"w-1": ASSIGNMENT.assigned})
UUID = "0" * 36


def recorder() -> ModuleType:
    spec = answered(importlib.util.spec_from_file_location("record", VECTORS / "record.py"))
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
    assert sum(step.get("metadata") != step.get("sent") for step in steps) >= 3
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
        assert (
            recorder().spell_last_generation(decode_last_generation(bytes.fromhex(each["hex"])))
            == each["lastGeneration"]
        )


def test_connect_does_not_see_the_trailing_bytes() -> None:
    assert decode_assignment(encode_stored(ASSIGNMENT, WHOLE)) == ASSIGNMENT


@pytest.mark.parametrize("version", [0, 3])
def test_a_version_whose_bytes_are_not_known_gets_no_trailing_bytes(version: int) -> None:
    """In version 0 Connect would read them as revocations."""
    with pytest.raises(ValueError, match=f"version {version} has no room"):
        encode_stored(replace(ASSIGNMENT, version=version), WHOLE)


def test_trailing_bytes_of_others_are_none_of_ours() -> None:
    data = encode_stored(ASSIGNMENT, WHOLE)
    bare = encode_stored(ASSIGNMENT, None)
    assert decode_stored(bare + b"something else")[1] is None
    assert decode_stored(data + b"\0")[1] is None
    assert all(decode_stored(data[:end])[1] is None for end in range(len(bare), len(data)))


def test_a_returning_leader_leads_and_asks_for_one_round() -> None:
    leader = StaticMembership("w-0")
    received = leader.received(
        encode_stored(ASSIGNMENT, replace(WHOLE, url="http://w-0/")), 5, "w-0-new", "http://w-0/", 9, NOTHING
    )
    shown = decode_assignment(received.shown)
    assert (shown.leader, shown.config_offset, shown.assigned) == ("w-0-new", 9, ASSIGNMENT.assigned)
    assert received.round_wanted
    again = leader.received(encode_stored(ASSIGNMENT, WHOLE), 5, "w-0-new", "http://w-0/", 9, ASSIGNMENT.assigned)
    assert not again.round_wanted
    assert not decode_assignment(again.shown).assigned


def test_a_follower_with_another_address_asks_for_a_round() -> None:
    follower = StaticMembership("w-1")
    assert not follower.received(encode_stored(ASSIGNMENT, WHOLE), 5, "w-1-new", "http://w-1/", 7, NOTHING).round_wanted
    moved = StaticMembership("w-1")
    assert moved.received(encode_stored(ASSIGNMENT, WHOLE), 5, "w-1-new", "http://elsewhere/", 7, NOTHING).round_wanted


@pytest.mark.parametrize(
    ("member_id", "leads"), [(f"w-0-{UUID}", True), (f"w-00-{UUID}", False), (f"w-0-0-{UUID}", False), ("w-0", False)]
)
def test_the_eager_leader_knows_itself_by_the_member_id_that_the_coordinator_made(member_id: str, leads: bool) -> None:
    eager = replace(ASSIGNMENT, version=0, leader=member_id)
    received = StaticMembership("w-0").received(encode_stored(eager, None), 5, "w-0-new", "http://w-0/", 7, NOTHING)
    assert (decode_assignment(received.shown).leader == "w-0-new") is leads


def test_allocations_go_to_the_leader_alone_when_they_are_large() -> None:
    def sizes(connectors: int) -> tuple[int | None, ...]:
        leader = StaticMembership("w-0")
        metadata = {f"w-{n}-x": bytes.fromhex("0002") + b"\0\3url" + bytes(8) + b"\xff\xff\xff\xff" for n in range(2)}
        leader.view([RoundMember(m, m[:3], data) for m, data in metadata.items()], 1, "w-0-x")
        assigned = ConnectorsAndTasks.of([f"connector-{n:04}" for n in range(connectors)])
        increment = encode_stored(replace(ASSIGNMENT, assigned=assigned), None)
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
    leader.received(
        encode_stored(replace(ASSIGNMENT, leader="w-0-new"), whole), 5, "w-0-new", "http://w-0/", 7, NOTHING
    )
    return leader


def seen_by(leader: StaticMembership, *others: RoundMember) -> dict[str, bytes]:
    """Return the metadata that the leader sees in the round after its last assignment."""
    own = RoundMember("w-0-new", "w-0", leader.with_last_generation(state(None)))
    return leader.view([own, *others], 6, "w-0-new")


A0, A1 = (ConnectorsAndTasks.of(tasks=[ConnectorTaskId("a", task)]) for task in (0, 1))


def test_a_member_keeps_revoked_work_until_it_has_reported_it() -> None:
    """It may be away and run nothing, or hang and still run it: an absent owner has not reported the work."""
    leader = leader_given(A0.plus(A1))
    seen = seen_by(leader, RoundMember("w-1-x", "w-1", state(None)))
    assert answered(decode_metadata(seen["w-1-x"]).allocation).assigned == A0.plus(A1)
    balanced = encode_stored(replace(ASSIGNMENT, assigned=NOTHING, revoked=A1), None)
    stored = leader.stored({"w-1-x": balanced}, "w-0-new")["w-1-x"]
    assert decode_stored(stored)[0].assigned == A0.plus(A1)
    received = StaticMembership("w-1").received(stored, 6, "w-1-x", "http://w-1/", 7, NOTHING)
    shown = decode_assignment(received.shown)
    assert (shown.assigned, shown.revoked) == (A0.plus(A1), NOTHING)
    assert received.round_wanted


def test_a_member_stops_what_it_reported_and_asks_by_itself() -> None:
    leader = leader_given(A0.plus(A1))
    seen_by(leader, RoundMember("w-1-x", "w-1", state(replace(ASSIGNMENT, assigned=A0.plus(A1)))))
    stored = leader.stored({"w-1-x": encode_stored(replace(ASSIGNMENT, assigned=NOTHING, revoked=A1), None)}, "w-0-new")
    assert decode_stored(stored["w-1-x"])[0].assigned == A0
    member = StaticMembership("w-1", member_id="w-1-x")
    received = member.received(stored["w-1-x"], 6, "w-1-x", "http://w-1/", 7, A0.plus(A1))
    assert decode_assignment(received.shown).revoked == A1
    assert not received.round_wanted


def test_the_leader_asks_for_the_round_that_moves_work_given_and_revoked_at_once() -> None:
    """The member would join again with the same metadata, get the same revocation, and so on without end."""
    leader = leader_given(NOTHING)
    seen_by(leader, RoundMember("w-1-x", "w-1", state(replace(ASSIGNMENT, assigned=A0))))
    stored = leader.stored({"w-1-x": encode_stored(replace(ASSIGNMENT, assigned=NOTHING, revoked=A1), None)}, "w-0-new")
    member = StaticMembership("w-1", member_id="w-1-x")
    received = member.received(stored["w-1-x"], 6, "w-1-x", "http://w-1/", 7, A0)
    assert not decode_assignment(received.shown).revoked
    assert not received.round_wanted
    own = encode_stored(replace(ASSIGNMENT, leader="w-0-new"), replace(WHOLE, url="http://w-0/"))
    assert leader.received(own, 6, "w-0-new", "http://w-0/", 7, ASSIGNMENT.assigned).round_wanted
    assert not leader.received(own, 6, "w-0-new", "http://w-0/", 7, ASSIGNMENT.assigned).round_wanted


def test_an_absent_member_does_not_own_what_another_reports() -> None:
    leader = leader_given(A0.plus(A1))
    seen = seen_by(
        leader,
        RoundMember("w-1-x", "w-1", state(None)),
        RoundMember("w-2-x", "w-2", state(replace(ASSIGNMENT, assigned=A1))),
    )
    assert answered(decode_metadata(seen["w-1-x"]).allocation).assigned == A0


def test_an_increment_is_all_that_a_live_worker_is_shown() -> None:
    """Connect 3.1 keeps lists: work that it already has would be in it twice, and be revoked as a duplicate."""
    member = StaticMembership("w-1", member_id="w-1-x")
    stored = encode_stored(replace(ASSIGNMENT, assigned=A0.plus(A1)), WHOLE)
    assert decode_assignment(member.received(stored, 6, "w-1-x", "http://w-1/", 7, A0).shown).assigned == A1


def test_connect_ignores_the_trailing_bytes_of_metadata() -> None:
    bare = state(ASSIGNMENT)
    last = LastGeneration(5, {"w-1": A0})
    full = bare + encode_last_generation(last)
    assert decode_metadata(full) == decode_metadata(bare)
    assert decode_last_generation(full) == last
    assert decode_last_generation(full + b"\0") is None
    assert all(decode_last_generation(full[:end]) is None for end in range(len(bare), len(bare) + 20))


def test_metadata_is_bare_in_the_eager_protocol_and_before_the_first_assignment() -> None:
    eager = encode_metadata(WorkerState("http://w-1/", 7), ConnectProtocolCompatibility.EAGER)
    assert leader_given(A0).with_last_generation(eager) == eager
    assert StaticMembership("w-1").with_last_generation(state(None)) == state(None)


@pytest.mark.parametrize(
    ("last", "is_held"),
    [
        (LastGeneration(5, {"w-1": A0}), False),
        (LastGeneration(5, None), True),
        (LastGeneration(4, {"w-1": A0}), True),
        (None, True),
    ],
)
def test_only_the_previous_generation_counts(last: LastGeneration | None, is_held: bool) -> None:
    leader = StaticMembership("w-0")
    metadata = state(ASSIGNMENT) + (encode_last_generation(last) if last else b"")
    members = [
        RoundMember("w-0-new", "w-0", state(None)),
        RoundMember("w-1-x", "w-1", state(None)),
        RoundMember("w-2-x", "w-2", metadata),
    ]
    leader.view(members, 6, "w-0-new")
    held = leader.held_back("w-0-new")
    assert (held is not None) is is_held
    if held is not None:
        kept = {m: decode_stored(data) for m, data in held.items()}
        assert {m for m, (_, whole) in kept.items() if whole is None} >= {"w-1-x"}
        is_sure = last is not None and last.generation_id == 5
        assert kept["w-2-x"][0].assigned == (ASSIGNMENT.assigned if is_sure else NOTHING)
        assert all(not each.revoked for each, _ in kept.values())


def test_no_member_is_in_doubt_once_all_have_joined() -> None:
    """A member that sends the previous generation has joined this round, and reports all that it runs."""
    leader = StaticMembership("w-0")
    members = [
        RoundMember(f"w-{n}-x", f"w-{n}", state(None) + encode_last_generation(LastGeneration(5))) for n in (0, 1)
    ]
    leader.view(members, 6, "w-0-x")
    assert leader.held_back("w-0-x") is None


def test_a_dynamic_worker_among_others_keeps_what_it_runs_while_the_leader_holds_back() -> None:
    """While the agent is rolled out, a dynamic worker gets increments: an empty one changes nothing."""
    leader = StaticMembership("w-0")
    members = [
        RoundMember("w-0-new", "w-0", state(None)),
        RoundMember("w-1-x", "w-1", state(None)),
        RoundMember("stock-x", None, state(replace(ASSIGNMENT, assigned=A0))),
    ]
    leader.view(members, 6, "w-0-new")
    held = answered(leader.held_back("w-0-new"))
    increment, whole = decode_stored(held["stock-x"])
    assert (increment.assigned, increment.revoked, whole) == (NOTHING, NOTHING, None)
    assert (increment.leader, increment.config_offset) == ("w-0-new", ASSIGNMENT.config_offset)
    assert increment.error is AssignmentError.NO_ERROR


def test_the_leader_stops_asking_for_rounds_that_do_not_end_a_doubt() -> None:
    """A live member whose metadata never arrives would make the group rebalance without a pause."""
    leader = StaticMembership("w-0", member_id="w-0-x")
    silent = RoundMember("w-1-x", "w-1", state(None))
    wanted = []
    for generation in range(6, 6 + HELD_BACK_ROUNDS + 2):
        leader.view([RoundMember("w-0-x", "w-0", state(None)), silent], generation, "w-0-x")
        held = answered(leader.held_back("w-0-x"))
        wanted.append(leader.received(held["w-0-x"], generation, "w-0-x", "http://w-0/", 7, NOTHING).round_wanted)
    assert wanted == [True] * HELD_BACK_ROUNDS + [False] * 2
    leader.view([RoundMember("w-0-x", "w-0", state(None)), replace(silent, metadata=state(ASSIGNMENT))], 20, "w-0-x")
    held = answered(leader.held_back("w-0-x"))
    assert leader.received(held["w-0-x"], 20, "w-0-x", "http://w-0/", 7, NOTHING).round_wanted
