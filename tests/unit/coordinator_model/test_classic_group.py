"""The group object: transitions, votes, ids; ClassicGroupTest of Kafka restated."""

from __future__ import annotations

import pytest

from conformance.answers import expect
from coordinator_model.base.errors import ErrorCode, GroupError
from coordinator_model.base.messages import Protocol
from coordinator_model.base.records import Record
from coordinator_model.classic.group import VALID_PREVIOUS_STATES, ClassicGroup
from coordinator_model.classic.member import ClassicMember, GroupMetadata, is_legal_instance_id
from coordinator_model.offsets import validate_commit

STATES = list(VALID_PREVIOUS_STATES)
ALLOWED = {
    ("PreparingRebalance", "Empty"),
    ("Stable", "PreparingRebalance"),
    ("CompletingRebalance", "PreparingRebalance"),
    ("Empty", "PreparingRebalance"),
    ("PreparingRebalance", "CompletingRebalance"),
    ("CompletingRebalance", "Stable"),
    *((state, "Dead") for state in STATES),
}


def member(
    member_id: str, *names: str, instance_id: str | None = None, protocol_type: str = "consumer"
) -> ClassicMember:
    protocols = tuple(Protocol(name) for name in names or ("range",))
    return ClassicMember(member_id, instance_id, "client", "host", 10_000, 5_000, protocol_type, protocols)


def group_of(*members: ClassicMember) -> ClassicGroup:
    group = ClassicGroup("g")
    for each in members:
        group.add(each)
    return group


@pytest.mark.parametrize("before", STATES)
@pytest.mark.parametrize("after", STATES)
def test_transitions(before: str, after: str) -> None:
    """ClassicGroupTest: every legal and illegal transition."""
    group = ClassicGroup("g", before)
    if (before, after) in ALLOWED:
        group.transition_to(after, 7)
        assert (group.previous_state, group.state, group.state_timestamp_ms) == (before, after, 7)
    else:
        with pytest.raises(GroupError):
            group.transition_to(after, 7)
        assert group.state == before
    assert ClassicGroup("g", before).can_rebalance is ((before, "PreparingRebalance") in ALLOWED)


def test_protocol_with_most_votes_is_selected() -> None:
    """ClassicGroupTest.testSelectProtocol."""
    group = group_of(member("m1", "range", "roundrobin"), member("m2", "roundrobin", "range"))
    assert group.select_protocol() in {"range", "roundrobin"}
    group.add(member("m3", "roundrobin", "range"))
    assert group.select_protocol() == "roundrobin"


def test_only_protocols_that_all_offer_are_selected() -> None:
    """ClassicGroupTest.testSelectProtocolChoosesCompatibleProtocol."""
    group = group_of(member("m1", "range", "roundrobin"), member("m2", "roundrobin", "foo"))
    assert group.select_protocol() == "roundrobin"


def test_no_selection_without_members() -> None:
    """ClassicGroupTest.testSelectProtocolRaisesIfNoMembers."""
    with pytest.raises(GroupError):
        ClassicGroup("g").select_protocol()


def test_supported_protocols() -> None:
    """ClassicGroupTest.testSupportsProtocols."""
    group = ClassicGroup("g")
    assert group.supports_protocols("consumer", (Protocol("range"),))
    group.add(member("m1", "range", "roundrobin"))
    group.transition_to("PreparingRebalance", 0)
    assert group.supports_protocols("consumer", (Protocol("roundrobin"), Protocol("foo")))
    assert group.supports_protocols("consumer", (Protocol("range"), Protocol("bar")))
    assert not group.supports_protocols("consumer", (Protocol("foo"), Protocol("bar")))
    assert not group.supports_protocols("connect", (Protocol("range"),))
    group.add(member("m2", "range"))
    assert not group.supports_protocols("consumer", (Protocol("roundrobin"),))
    group.remove("m2")
    assert group.supports_protocols("consumer", (Protocol("roundrobin"),))


def test_next_generation() -> None:
    """ClassicGroupTest.testInitNextGeneration and …EmptyGroup: pending syncs are cleared."""
    group = group_of(member("m1"))
    group.pending_sync_members.add("m1")
    group.transition_to("PreparingRebalance", 0)
    group.init_next_generation(5)
    assert (group.generation_id, group.protocol_name, group.state) == (1, "range", "CompletingRebalance")
    assert not group.pending_sync_members
    group.transition_to("PreparingRebalance", 6)
    group.remove("m1")
    group.init_next_generation(7)
    assert (group.generation_id, group.protocol_name, group.state) == (2, None, "Empty")


def test_update_of_a_member_moves_its_votes() -> None:
    """ClassicGroupTest.testUpdateMember."""
    group = group_of(member("m1", "range", "roundrobin"))
    group.update(group.members["m1"], (Protocol("roundrobin"),), 20_000, 15_000, None)
    assert group.select_protocol() == "roundrobin"
    assert (group.members["m1"].rebalance_timeout_ms, group.members["m1"].session_timeout_ms) == (20_000, 15_000)
    assert not group.supports_protocols("connect", ())


def test_replacement_of_an_absent_member() -> None:
    """ClassicGroupTest.testReplaceGroupInstanceWithNonExistingMember."""
    with pytest.raises(GroupError):
        ClassicGroup("g").rename_static("x", "m1", "m2")


def test_replacement_keeps_assignment_and_leadership() -> None:
    """ClassicGroupTest.testReplaceGroupInstance."""
    group = group_of(member("m1", instance_id="x"), member("m2"))
    group.members["m1"].assignment = b"partitions"
    group.set_join_ticket(group.members["m1"], 1)
    renamed = group.rename_static("x", "m1", "m9")
    assert (renamed.assignment, group.leader, group.static_members) == (b"partitions", "m9", {"x": "m9"})
    assert (group.awaiting_join, renamed.join_ticket) == (0, None)
    assert set(group.members) == {"m2", "m9"}
    assert not renamed.is_new


def test_waiting_joins_are_counted() -> None:
    """ClassicGroupTest.testCompleteJoinFuture and testNotCompleteJoinFuture."""
    group = ClassicGroup("g")
    group.add(member("m1"), 1)
    group.add(member("m2"))
    assert (group.awaiting_join, group.has_all_members_joined) == (1, False)
    group.set_join_ticket(group.members["m2"], 2)
    assert (group.awaiting_join, group.has_all_members_joined) == (2, True)
    group.pending_members.add("m3")
    assert not group.has_all_members_joined
    group.remove("m3")
    group.set_join_ticket(group.members["m1"], 3)
    assert group.awaiting_join == 2
    group.remove("m1")
    assert (group.awaiting_join, group.leader) == (1, "m2")


def test_a_static_id_is_added_once() -> None:
    """ClassicGroupTest.testCannotAddStaticMemberIfAlreadyPresent."""
    group = group_of(member("m1", instance_id="x"))
    with pytest.raises(GroupError):
        group.add(member("m2", instance_id="x"))


@pytest.mark.parametrize("joiner", [member("m2", protocol_type="connect"), member("m2", "foo")])
def test_incompatible_members_are_not_added(joiner: ClassicMember) -> None:
    """ClassicGroup.add."""
    group = group_of(member("m1"))
    group.transition_to("PreparingRebalance", 0)
    with pytest.raises(GroupError):
        group.add(joiner)


def test_a_joined_member_is_no_longer_pending() -> None:
    """ClassicGroupTest.testRemovalFromPendingAfterMemberIsStable and …WhenMemberIsRemoved."""
    group = ClassicGroup("g")
    group.pending_members |= {"m1", "m2"}
    group.add(member("m1"))
    group.remove("m2")
    assert not group.pending_members


def test_removal_ends_a_pending_sync() -> None:
    """ClassicGroupTest.testRemovalFromPendingSyncWhenMemberIsRemoved."""
    group = group_of(member("m1"))
    group.pending_sync_members.add("m1")
    group.remove("m1")
    assert not group.pending_sync_members
    assert group.leader is None


def test_election_of_a_joined_leader() -> None:
    """ClassicGroupTest.testElectNewJoinedLeader and testMaybeElectNewJoinedLeaderChooseExisting."""
    group = group_of(member("m1"), member("m2"), member("m3"))
    assert group.elect_joined_leader() is False
    assert group.leader == "m1"
    group.set_join_ticket(group.members["m3"], 1)
    assert group.elect_joined_leader() is True
    assert group.leader == "m3"
    group.set_join_ticket(group.members["m1"], 2)
    assert group.elect_joined_leader() is True
    assert group.leader == "m3"
    assert ClassicGroup("g").elect_joined_leader() is False


def refusal(
    group: ClassicGroup, member_id: str, instance_id: str | None, generation_id: int, transactional: bool
) -> ErrorCode:
    try:
        validate_commit(group, member_id, instance_id, generation_id, transactional=transactional)
    except GroupError as error:
        return error.code
    return ErrorCode.NONE


def test_members_that_may_commit_offsets() -> None:
    """ClassicGroupTest.testValidateOffsetCommit."""
    group = ClassicGroup("g")
    assert refusal(group, "", "", -1, False) is ErrorCode.NONE
    group.add(member("m1", instance_id="x"))
    group.transition_to("PreparingRebalance", 0)
    group.init_next_generation(0)
    assert refusal(group, "", "", -1, False) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(group, "", None, -1, False) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(group, "", None, -1, True) is ErrorCode.NONE
    assert refusal(group, "unknown", "unknown", -1, False) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(group, "m1", "unknown", -1, False) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(group, "m1", "x", 0, False) is ErrorCode.ILLEGAL_GENERATION
    assert refusal(group, "m1", "x", 1, False) is ErrorCode.REBALANCE_IN_PROGRESS
    assert refusal(group, "m1", "x", 1, True) is ErrorCode.NONE
    group.transition_to("Stable", 0)
    assert refusal(group, "m1", "x", 1, False) is ErrorCode.NONE
    group.rename_static("x", "m1", "m2")
    assert refusal(group, "m1", "x", 1, False) is ErrorCode.FENCED_INSTANCE_ID
    group.transition_to("Dead", 0)
    assert refusal(group, "m2", "x", 1, False) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_record_and_reload() -> None:
    """GroupCoordinatorRecordHelpersTest.testNewGroupMetadataRecord; GMM.replay(GroupMetadataKey, …)."""
    group = group_of(member("m1", "range", "roundrobin", instance_id="x"), member("m2", "range", "roundrobin"))
    group.transition_to("PreparingRebalance", 0)
    group.init_next_generation(5)
    record = group.metadata_record({"m1": b"a1"})
    assert isinstance(record.value, GroupMetadata)
    assert [(m.member_id, m.assignment) for m in record.value.members] == [("m1", b"a1"), ("m2", b"")]
    loaded = ClassicGroup.from_metadata("g", record.value)
    assert (loaded.state, loaded.generation_id, loaded.leader) == ("Stable", 1, "m1")
    assert (loaded.protocol_type, loaded.protocol_name) == ("consumer", "range")
    assert loaded.static_members == {"x": "m1"}
    assert loaded.members["m1"].protocols == (Protocol("range"),), "only the selected protocol is recorded"


def test_reload_of_a_record_without_rebalance_timeouts() -> None:
    """GMM.replay: version 0 of the value has none; the session timeout stands in."""
    group = group_of(member("m1"))
    group.members["m1"].rebalance_timeout_ms = -1
    group.transition_to("PreparingRebalance", 0)
    group.init_next_generation(0)
    value = expect(GroupMetadata, group.metadata_record().value)
    assert ClassicGroup.from_metadata("g", value).rebalance_timeout_ms == 5_000


def test_tombstone() -> None:
    (record,) = ClassicGroup("g").tombstones()
    assert isinstance(record, Record)
    assert (record.key, record.value, record.group_id) == (("g",), None, "g")


@pytest.mark.parametrize(
    ("instance_id", "legal"),
    [
        *((legal, True) for legal in ("web-0", "a", "A.b_c-9", "x" * 249, "...")),
        *((illegal, False) for illegal in ("", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n")),
    ],
)
def test_legal_instance_ids(instance_id: str, legal: bool) -> None:
    """JoinGroupRequestTest.shouldAcceptValidGroupInstanceIds and shouldThrowOnInvalidGroupInstanceIds."""
    assert is_legal_instance_id(instance_id) is legal
