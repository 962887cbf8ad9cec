"""Rows of KIP-848 groups (catalogue §7.3, §7.6)."""

from __future__ import annotations

import asyncio
import os

from conformance.wire.catalogue import row
from conformance.wire.conversation import Conversation, E, Member, consumer_group, settle
from conformance.wire.targets import MAX_SIZE, create_topics
from coordinator_model.base import messages as m
from coordinator_model.base.offset_messages import OffsetCommitRequest, OffsetFetchRequest

GMMT = "GroupMetadataManagerTest"


@row("N01", f"{GMMT}.testConsumerGroupEpochBumpWhenNewStaticMemberJoins", since="4.0")
async def N01_a_new_static_member_bumps_the_group_epoch(talk: Conversation) -> None:
    """2 static members: a third joins with epoch 0 → group epoch + 1, it gets that epoch, the target covers all."""
    first, second = await consumer_group(talk, "X1", "X2")
    before = await talk.epoch()
    third = await Member(talk, "X3").join()
    assert third.epoch == before + 1 == await talk.epoch()
    await settle(first, second, third)
    assert [len(member.partitions) for member in (first, second, third)] == [2, 2, 2]


@row("N02", f"{GMMT}.testStaticMemberGetsBackAssignmentUponRejoin", since="4.0")
async def N02_a_bounce_gives_back_the_assignment(talk: Conversation) -> None:
    """-2 is answered with epoch -2; the rejoin under a new member id gets the same partitions;
    group epoch unchanged.
    """
    x, y = await consumer_group(talk, "X", "Y")
    before = await talk.epoch()
    left = await talk.beat(x.member, -2, instance="X")
    assert (left.error_code, left.member_epoch) == (E.NONE, -2)
    again = await Member(talk, "X").join()
    assert (again.epoch, again.partitions) == (x.epoch, x.partitions)
    assert await talk.epoch() == before
    answer = await y.beat()
    assert (answer.error_code, answer.member_epoch) == (E.NONE, before)
    group = await talk.describe_consumer()
    assert (group.group_state, {each.member_id for each in group.members}) == ("Stable", {again.member, y.member})


@row("N04", f"{GMMT}.testStaticMemberRejoinsWithUpdatedSubscriptionAndNoAssignmentChange", since="4.0")
async def N04_other_subscription_same_assignment(talk: Conversation) -> None:
    """-2, back with one more topic that does not exist → group epoch + 1; the assignor (range) moves nothing."""
    x, y = await consumer_group(talk, "X", "Y", server_assignor="range")
    before = await talk.epoch()
    await talk.beat(x.member, -2, instance="X")
    again = await Member(talk, "X", topics=("orders", "absent"), options={"server_assignor": "range"}).join()
    assert await talk.epoch() == before + 1
    kept = y.partitions
    await settle(again, y)
    assert (again.partitions, y.partitions) == (x.partitions, kept)


@row("N06", f"{GMMT}.testNoGroupEpochBumpWhenStaticMemberTemporarilyLeaves", since="4.0")
async def N06_a_temporary_leave_keeps_the_epoch(talk: Conversation) -> None:
    """-2 → group epoch unchanged; the member keeps its partitions at epoch -2; a second -2 is harmless."""
    x, _ = await consumer_group(talk, "X", "Y")
    before = await talk.epoch()
    for _ in range(2):
        assert (await talk.beat(x.member, -2, instance="X")).member_epoch == -2
    group = await talk.describe_consumer()
    (away,) = (each for each in group.members if each.instance_id == "X")
    assert (group.group_epoch, away.member_epoch, away.assignment) == (before, -2, x.owned)


@row("N07", f"{GMMT}.testLeavingStaticMemberBumpsGroupEpoch", since="4.0")
async def N07_a_leave_for_good_bumps_the_epoch(talk: Conversation) -> None:
    """-1 with X → removed, group epoch + 1; the other one gets everything."""
    x, y = await consumer_group(talk, "X", "Y")
    before = await talk.epoch()
    left = await talk.beat(x.member, -1, instance="X")
    assert (left.error_code, left.member_epoch) == (E.NONE, -1)
    assert await talk.epoch() == before + 1
    await settle(y)
    assert len(y.partitions) == 6


@row("N08", f"{GMMT}.testStaticMemberRejoinsWithSameMemberIdAndDifferentInstanceId", since="4.0")
async def N08_same_member_id_with_another_instance_id(talk: Conversation) -> None:
    """m1/X left with -2: m1 joins as Y → accepted as Y."""
    x, _ = await consumer_group(talk, "X", "Z")
    await talk.beat(x.member, -2, instance="X")
    answer = await talk.beat(x.member, 0, instance="Y")
    assert answer.error_code is E.NONE
    group = await talk.describe_consumer()
    assert {each.instance_id for each in group.members if each.member_id == x.member} == {"Y"}


@row("N09", f"{GMMT}.testShouldThrowUnreleasedInstanceIdExceptionWhenNewMemberJoinsWithInUseInstanceId", since="4.0")
async def N09_an_instance_id_in_use_is_unreleased(talk: Conversation) -> None:
    """X is held: another member joins as X → UNRELEASED_INSTANCE_ID, nothing changes."""
    (x,) = await consumer_group(talk, "X")
    before = await talk.epoch()
    assert (await Member(talk, "X").beat()).error_code is E.UNRELEASED_INSTANCE_ID
    assert await talk.epoch() == before
    assert (await x.beat()).error_code is E.NONE


@row("N10", f"{GMMT}.testShouldThrowUnknownMemberIdExceptionWhenUnknownStaticMemberJoins", since="4.0")
async def N10_heartbeat_of_an_unknown_instance(talk: Conversation) -> None:
    """X unknown: heartbeat with an epoch → UNKNOWN_MEMBER_ID; so is an unknown member id alone."""
    (x,) = await consumer_group(talk, "X")
    assert (await talk.beat("m", x.epoch, instance="unknown")).error_code is E.UNKNOWN_MEMBER_ID
    assert (await talk.beat("m", x.epoch)).error_code is E.UNKNOWN_MEMBER_ID


@row("N11", f"{GMMT}.testShouldThrowFencedInstanceIdExceptionWhenStaticMemberWithDifferentMemberIdJoins", since="4.0")
async def N11_heartbeat_with_a_foreign_instance(talk: Conversation) -> None:
    """X→m1: m2 heartbeats with an epoch as X → FENCED_INSTANCE_ID."""
    (x,) = await consumer_group(talk, "X")
    assert (await talk.beat("m2", x.epoch, instance="X")).error_code is E.FENCED_INSTANCE_ID


@row("N12", f"{GMMT}.testConsumerGroupMemberEpochValidation", since="4.0")
async def N12_epochs_ahead_and_behind_are_fenced(talk: Conversation) -> None:
    """Epoch ahead → FENCED_MEMBER_EPOCH; behind by more than one → FENCED_MEMBER_EPOCH."""
    x, y = await consumer_group(talk, "X", "Y")
    await settle(x, y, await Member(talk, "Z").join())
    assert (await talk.beat(x.member, x.epoch + 1, instance="X")).error_code is E.FENCED_MEMBER_EPOCH
    assert (await talk.beat(x.member, x.epoch - 2, instance="X", owned=())).error_code is E.FENCED_MEMBER_EPOCH
    assert (await y.beat()).error_code is E.NONE


@row("N13", f"{GMMT}.testUnknownStaticMemberLeaves / …DifferentMemberIdLeaves", since="4.0")
async def N13_leaves_of_unknown_members(talk: Conversation) -> None:
    """-1 and -2: unknown instance → UNKNOWN_MEMBER_ID, foreign id → FENCED_INSTANCE_ID, no group →
    GROUP_ID_NOT_FOUND.
    """
    x, _ = await consumer_group(talk, "X", "Y")
    before = await talk.epoch()
    for epoch in (-1, -2):
        assert (await talk.beat(x.member, epoch, instance="unknown")).error_code is E.UNKNOWN_MEMBER_ID
        assert (await talk.beat("m", epoch, instance="X")).error_code is E.FENCED_INSTANCE_ID
    assert (await talk.beat("m", -1)).error_code is E.UNKNOWN_MEMBER_ID
    assert await talk.epoch() == before
    elsewhere = Conversation(talk.target, f"{talk.group}-none")
    assert (await elsewhere.beat("m", -1, instance="X")).error_code is E.GROUP_ID_NOT_FOUND
    assert (await elsewhere.beat("m", 3)).error_code in (E.GROUP_ID_NOT_FOUND, E.UNKNOWN_MEMBER_ID)


@row("N13", "GroupCoordinatorServiceTest.testConsumerHeartbeatRequestValidation", since="4.0")
async def N13_requests_that_are_not_valid(talk: Conversation) -> None:
    """-2 without instance id, epoch < -2, empty instance id, no member id → INVALID_REQUEST."""
    (x,) = await consumer_group(talk, "X")
    assert (await talk.beat(x.member, -2)).error_code is E.INVALID_REQUEST
    assert (await talk.beat(x.member, -3, instance="X")).error_code is E.INVALID_REQUEST
    assert (await talk.beat(x.member, 0, instance="")).error_code is E.INVALID_REQUEST
    assert (await talk.beat("", 0, instance="Y")).error_code is E.INVALID_REQUEST
    assert (await talk.beat("n", 0, topics=("orders",), server_assignor="nope")).error_code is E.UNSUPPORTED_ASSIGNOR


@row("N14", f"{GMMT}.testConsumerGroupMaxSize", since="4.0")
async def N14_a_full_group_refuses_new_members(talk: Conversation) -> None:
    """Full: a new member → GROUP_MAX_SIZE_REACHED; members go on."""
    members = await consumer_group(talk, *(f"X{i}" for i in range(MAX_SIZE)))
    assert (await Member(talk, "Y").beat()).error_code is E.GROUP_MAX_SIZE_REACHED
    assert (await members[0].beat()).error_code is E.NONE


@row("N14", f"{GMMT}.testStaticMemberRejoinsWhenGroupIsFull (KAFKA-20601)", since="4.3")
async def N14_a_full_group_takes_back_its_static_member(talk: Conversation) -> None:
    """Full: a static member that left with -2 comes back under a new id → NONE."""
    members = await consumer_group(talk, *(f"X{i}" for i in range(MAX_SIZE)))
    await talk.beat(members[0].member, -2, instance="X0")
    assert (await Member(talk, "X0").beat()).error_code is E.NONE


@row("N15", f"{GMMT}.testConsumerGroupSessionTimeoutExpirationStaticMember", since="4.0")
async def N15_the_session_ends_while_away(talk: Conversation) -> None:
    """-2 at once after the join, session over → removed, group epoch + 1."""
    assert (await talk.set_config(consumer_session_timeout_ms=2_000)).error_code is E.NONE
    await settings_apply()
    member = await Member(talk, "X").join()
    before = await talk.epoch()
    await talk.beat(member.member, -2, instance="X")
    assert len((await talk.describe_consumer()).members) == 1
    await talk.until(lambda: has_members(talk, 0))
    assert await talk.epoch() == before + 1


async def has_members(talk: Conversation, count: int) -> bool:
    """Say whether the group shows so many members."""
    return len((await talk.describe_consumer()).members) == count


async def settings_apply() -> None:
    """A broker learns a group's setting from the metadata log, a moment after the controller's answer."""
    await asyncio.sleep(0.5)


@row("N16", f"{GMMT}.testConsumerGroupSessionTimeoutLifecycle / …Expiration", since="4.0")
async def N16_each_heartbeat_restarts_the_session(talk: Conversation) -> None:
    """Heartbeats 1 s apart keep a session of 2.5 s for 4 s; silence ends it."""
    assert (await talk.set_config(consumer_session_timeout_ms=2_500)).error_code is E.NONE
    await settings_apply()
    member = await Member(talk, "X").join()
    for _ in range(4):
        await asyncio.sleep(1.0)
        assert (await member.beat()).error_code is E.NONE
    took_s = await talk.until(lambda: has_members(talk, 0))
    assert 1.5 < took_s < 6.0
    assert (await member.beat()).error_code is E.UNKNOWN_MEMBER_ID


@row("N17", f"{GMMT}.testConsumerGroupRebalanceTimeoutExpiration", since="4.0")
async def N17_an_unacknowledged_revocation_is_fenced(talk: Conversation) -> None:
    """A member that does not revoke within its rebalance timeout is fenced, the other one goes on."""
    joined = await talk.beat("m1", 0, rebalance_ms=1_500)
    assert joined.assignment == (("orders", tuple(range(6))),)
    other = await Member(talk).join()
    answer = await talk.beat("m1", joined.member_epoch)
    assert answer.assignment is not None
    assert len(answer.assignment[0][1]) == 3
    await talk.until(lambda: has_members(talk, 1))
    assert (await talk.beat("m1", joined.member_epoch)).error_code is E.UNKNOWN_MEMBER_ID
    await settle(other)
    assert len(other.partitions) == 6


@row("N19", f"{GMMT}.testConsumerGroupBatchLeaveGroup", since="4.0")
async def N19_batch_leave_of_a_mixed_group(talk: Conversation) -> None:
    """Classic m1, classic static m2/Y, consumer static m3/Z: six identities → NONE ×3, UNKNOWN ×2, FENCED; one bump."""
    first, second = await talk.form(None, "Y")
    third = await Member(talk, "Z").join()
    assert await talk.group_type() == "consumer"
    before = await talk.epoch()
    entries = [(first.member, None), ("", "Y"), (third.member, "Z"), ("no", None), ("", "no"), ("no", "Z")]
    expected = [E.NONE, E.NONE, E.NONE, E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID]
    assert await talk.leave(*entries) == expected
    group = await talk.describe_consumer()
    assert (group.group_epoch, group.members, group.group_state) == (before + 1, (), "Empty")
    assert second.generation == first.generation


@row("N19", "GroupMetadataManager.consumerGroupLeave: identities are a set", since="4.0")
async def N19_same_identity_twice_in_one_request(talk: Conversation) -> None:
    """{other, X2}, {"", ?}, {m2, X2}, {"", X2}, {m3, null} → 82, 25, 0, 0, 0 on a consumer group; one bump."""
    _, second, third = await consumer_group(talk, "X1", "X2", "X3")
    before = await talk.epoch()
    entries = (("other", "X2"), ("", "?"), (second.member, "X2"), ("", "X2"), (third.member, None))
    expected = [E.FENCED_INSTANCE_ID, E.UNKNOWN_MEMBER_ID, E.NONE, E.NONE, E.NONE]
    assert await talk.leave(*entries) == expected
    assert await talk.epoch() == before + 1


@row("N21", f"{GMMT}.testConsumerGroupBatchLeaveWithoutValidLeaveGroupMember", since="4.0")
async def N21_only_unknown_members_leave(talk: Conversation) -> None:
    """Only unknown ones → UNKNOWN_MEMBER_ID each, no bump."""
    await consumer_group(talk, "X")
    before = await talk.epoch()
    assert await talk.leave(("no", None), ("", "no"), ("", None)) == [E.UNKNOWN_MEMBER_ID] * 3
    assert await talk.epoch() == before


@row("I01", "ConsumerGroupHeartbeatRequestTest (core) 373", since="4.0")
async def I01_a_topic_appears_and_the_member_bounces(talk: Conversation) -> None:
    """The topic is made after the join → epoch + 1 with 0, 1, 2; -2;
    another process with X gets the same epoch and set.
    """
    topic = f"foo-{os.urandom(3).hex()}"
    member = await Member(talk, "X", topics=(topic,)).join()
    assert member.partitions == frozenset()
    before = member.epoch
    await create_topics(talk.target.client, {topic: 3})

    async def assigned() -> bool:
        await member.beat()
        return len(member.partitions) == 3

    await talk.until(assigned)
    assert member.epoch == before + 1
    await talk.beat(member.member, -2, instance="X")
    again = await Member(talk, "X", topics=(topic,)).join()
    assert (again.epoch, again.partitions) == (member.epoch, member.partitions)
    assert again.member != member.member


@row("I02", "ConsumerGroupHeartbeatRequestTest (core) 483", since="4.0")
async def I02_an_unreleased_id_is_free_after_the_session(talk: Conversation) -> None:
    """A member stops without -2: another one with its X gets UNRELEASED_INSTANCE_ID until the session is over."""
    assert (await talk.set_config(consumer_session_timeout_ms=2_000)).error_code is E.NONE
    await settings_apply()
    silent = await Member(talk, "X").join()
    before = await talk.epoch()
    second = Member(talk, "X")
    assert (await second.beat()).error_code is E.UNRELEASED_INSTANCE_ID
    assert len(silent.partitions) == 6

    async def joined() -> bool:
        return (await second.beat()).error_code is E.NONE

    await talk.until(joined)
    assert second.epoch == before + 2


@row("I03", "ConsumerGroupHeartbeatRequestTest (core) 1282", since="4.4")
async def I03_all_return_with_another_assignor(talk: Conversation) -> None:
    """All static members leave with -2 and return with another assignor → the last one's epoch is above the old one."""
    members = await consumer_group(talk, "X", "Y", server_assignor="uniform")
    before = await talk.epoch()
    for member in members:
        await talk.beat(member.member, -2, instance=member.instance)
    back = [await Member(talk, x, options={"server_assignor": "range"}).join() for x in ("X", "Y")]
    assert back[-1].epoch > before
    await settle(*back)
    assert (await talk.describe_consumer()).assignor_name == "range"


@row("I04", "LeaveGroupRequestTest.testLeaveGroupWithNewConsumerGroupProtocolAndNewGroupCoordinator", since="4.0")
async def I04_leave_group_removes_consumer_members(talk: Conversation) -> None:
    """v3, v4, v5: {"", X0}, {m1, X1}, {m2, null} in one request → 3 × NONE, ids echoed, Empty."""
    for version in (3, 4, 5):
        _, second, third = await consumer_group(talk, "X0", "X1", "X2")
        entries = [("", "X0"), (second.member, "X1"), (third.member, None)]
        answer = await talk.leave_answer(*entries, version=version)
        assert [(e.member_id, e.group_instance_id) for e in answer.members] == entries
        assert [e.error_code for e in answer.members] == [E.NONE] * 3
        group = await talk.describe_consumer()
        assert (group.group_state, group.members) == ("Empty", ())


@row("I05", "PlaintextAdminIntegrationTest.testConsumerGroupWithMemberRemoval (consumer)", since="4.0")
async def I05_removals_one_by_one_and_delete_consumer(talk: Conversation) -> None:
    """2 static, 1 dynamic: unknown UNKNOWN; delete NON_EMPTY; dynamic leaves → 2; one → 1; all → 0; deleted."""
    _, second, dynamic = await consumer_group(talk, "X", "Y", None)
    delete = m.DeleteGroupsRequest(group_ids=(talk.group,))
    assert await talk.leave(("", "unknown")) == [E.UNKNOWN_MEMBER_ID]
    assert (await talk.ask(delete)).results == ((talk.group, E.NON_EMPTY_GROUP),)
    assert (await talk.beat(dynamic.member, -1)).error_code is E.NONE
    assert await has_members(talk, 2)
    assert await talk.leave(("", "X")) == [E.NONE]
    assert await has_members(talk, 1)
    assert await talk.leave((second.member, "Y")) == [E.NONE]
    assert await has_members(talk, 0)
    assert (await talk.ask(delete)).results == ((talk.group, E.NONE),)
    assert (await talk.describe_consumer()).error_code is E.GROUP_ID_NOT_FOUND


@row("X05", f"{GMMT}.testConsumerGroupOffsetCommit / STALE_MEMBER_EPOCH", since="4.0")
async def X05_commits_are_fenced_by_epoch(talk: Conversation) -> None:
    """Commit with the member's epoch → NONE; other epoch → STALE_MEMBER_EPOCH; unknown member → UNKNOWN_MEMBER_ID."""
    (x,) = await consumer_group(talk, "X")

    async def commit(member: str, epoch: int) -> E:
        request = OffsetCommitRequest(
            group_id=talk.group, member_id=member, generation_id_or_member_epoch=epoch, offsets=(("orders", 0, 5),)
        )
        (result,) = (await talk.ask(request)).results
        return E(result[2])

    assert await commit(x.member, x.epoch) is E.NONE
    assert await commit(x.member, x.epoch + 1) is E.STALE_MEMBER_EPOCH
    assert await commit("no", x.epoch) is E.UNKNOWN_MEMBER_ID
    fetched = await talk.ask(OffsetFetchRequest(group_id=talk.group, partitions=(("orders", 0), ("orders", 1))))
    assert fetched.offsets == (("orders", 0, 5), ("orders", 1, -1))
