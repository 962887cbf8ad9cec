"""Rows of mixed groups and of the way from one protocol to the other (catalogue §7.4)."""

from __future__ import annotations

from conformance.wire.catalogue import row
from conformance.wire.conversation import Conversation, E, Member, Seat, consumer_group, settle
from conformance.wire.targets import MAX_SIZE

GMMT = "GroupMetadataManagerTest"
DISABLED = {"group.consumer.migration.policy": "disabled"}


@row("M01", f"{GMMT}.testConsumerGroupHeartbeatToClassicGroupFromExistingStaticMember", since="4.0")
async def M01_a_classic_static_member_returns_with_the_new_protocol(talk: Conversation) -> None:
    """Classic, Stable, static X: X returns with ConsumerGroupHeartbeat, epoch 0 → converted, X replaced without -2."""
    (x,) = await talk.form("X")
    back = await Member(talk, "X").join()
    assert await talk.group_type() == "consumer"
    group = await talk.describe_consumer()
    assert [(each.instance_id, each.member_id) for each in group.members] == [("X", back.member)]
    assert await talk.heartbeat(x) is E.FENCED_INSTANCE_ID


@row("M02", f"{GMMT}.testConsumerGroupHeartbeatFromExistingClassicStaticMember", since="4.0")
async def M02_a_later_classic_member_follows(talk: Conversation) -> None:
    """A classic static member of a mixed group returns with the new protocol → replaced at once, no -2;
    it keeps its set.
    """
    await talk.form("X", "Y")
    x = await Member(talk, "X").join()
    y = await Member(talk, "Y").join()
    group = await talk.describe_consumer()
    assert {each.member_id for each in group.members} == {x.member, y.member}
    await settle(x, y)
    assert (x.owned, y.owned) == ((("orders", (0,)),), (("orders", (1,)),))


@row("M02", f"{GMMT}.testClassicGroupHeartbeatToConsumerGroup…", since="4.0")
async def M02_classic_members_of_a_mixed_group_learn_of_the_rebalance(talk: Conversation) -> None:
    """X upgrades: Y notices nothing; Z joins: Y's heartbeat says REBALANCE_IN_PROGRESS, it joins and syncs."""
    _, y = await talk.form("X", "Y")
    await Member(talk, "X").join()
    assert await talk.heartbeat(y) is E.NONE
    await Member(talk, "Z").join()
    assert await talk.heartbeat(y, member="made-up") is E.FENCED_INSTANCE_ID
    assert await talk.heartbeat(y, instance=None, member="made-up") is E.UNKNOWN_MEMBER_ID
    assert await talk.heartbeat(y, generation=y.generation + 7) is E.ILLEGAL_GENERATION
    assert await talk.heartbeat(y) is E.REBALANCE_IN_PROGRESS
    joined = await talk.join("Y", y.member)
    assert (joined.error_code, joined.leader, joined.members) == (E.NONE, "", ())
    synced = await talk.sync(Seat("Y", joined.member_id, joined.generation_id))
    assert synced.error_code is E.NONE
    assert synced.assignment != b""


@row("M03", f"{GMMT}.testLastStaticConsumerProtocolMemberReplacedByClassicMember", since="4.0")
async def M03_the_last_new_protocol_member_returns_as_classic(talk: Conversation) -> None:
    """The only member, static and new protocol, left with -2 and returns with JoinGroup →
    the group is classic again.
    """
    (x,) = await consumer_group(talk, "X")
    await talk.beat(x.member, -2, instance="X")
    joined = await talk.join("X")
    assert (joined.error_code, await talk.group_type()) == (E.NONE, "classic")
    group = await talk.describe()
    assert [(each.group_instance_id, each.member_id) for each in group.members] == [("X", joined.member_id)]


@row("M03", f"{GMMT}.testLastStaticConsumerProtocolMemberReplacedByClassicMember: no -2 before", since="4.0")
async def M03_a_classic_joiner_need_not_wait_for_the_release(talk: Conversation) -> None:
    """X is held by a new-protocol member that has not left: JoinGroup with X → replaced."""
    (x,) = await consumer_group(talk, "X")
    joined = await talk.join("X")
    assert joined.error_code is E.NONE
    assert (await talk.beat(x.member, x.epoch, instance="X")).error_code in (E.GROUP_ID_NOT_FOUND, E.FENCED_INSTANCE_ID)


@row("X03", f"{GMMT}.testLeavingLastConsumerProtocolMember… (KAFKA-18150)", since="4.0")
async def X03_the_last_new_protocol_member_is_removed(talk: Conversation) -> None:
    """Classic Y, new protocol X: X is removed by LeaveGroup →
    the group is classic with the group epoch as generation.
    """
    (y,) = await talk.form("Y")
    x = await Member(talk, "X").join()
    assert await talk.group_type() == "consumer"
    assert await talk.leave((x.member, "X")) == [E.NONE]
    assert await talk.group_type() == "classic"
    assert await talk.heartbeat(y) is E.ILLEGAL_GENERATION
    joined = await talk.join("Y", y.member)
    assert (joined.error_code, len(joined.members)) == (E.NONE, 1)


@row("X04", f"{GMMT}.testConsumerGroupJoinThrowsExceptionIfProtocolIsNotSupported", since="4.0")
async def X04_classic_joins_that_a_consumer_group_refuses(talk: Conversation) -> None:
    """Into a consumer group: another protocol type → INCONSISTENT_GROUP_PROTOCOL;
    unknown member id → UNKNOWN_MEMBER_ID.
    """
    await consumer_group(talk, "X")
    assert (await talk.join("Y", protocol_type="connect")).error_code is E.INCONSISTENT_GROUP_PROTOCOL
    assert (await talk.join("Y", "made-up")).error_code is E.UNKNOWN_MEMBER_ID
    assert (await talk.join("X", "made-up")).error_code is E.FENCED_INSTANCE_ID
    assert (await talk.join()).error_code is E.MEMBER_ID_REQUIRED


@row("M06", f"{GMMT}.testClassicGroupJoinWhenConsumerGroupIsFull…", since="4.4")
async def M06_a_full_consumer_group_and_a_classic_joiner(talk: Conversation) -> None:
    """Full: the returning X is taken, the new Y is refused with GROUP_MAX_SIZE_REACHED."""
    members = await consumer_group(talk, *(f"X{i}" for i in range(MAX_SIZE)))
    assert (await talk.join("Y")).error_code is E.GROUP_MAX_SIZE_REACHED
    await talk.beat(members[0].member, -2, instance="X0")
    assert (await talk.join("X0")).error_code is E.NONE


@row("M08", "ConsumerProtocolMigrationTest (core): up and down with static members", since="4.0")
async def M08_static_members_up_and_down_one_by_one(talk: Conversation) -> None:
    """Classic X, Y: each returns with the new protocol; then each returns with JoinGroup; the type follows."""
    await talk.form("X", "Y")
    assert await talk.group_type() == "classic"
    x = await Member(talk, "X").join()
    y = await Member(talk, "Y").join()
    await settle(x, y)
    assert (await talk.group_type(), (await talk.describe_consumer()).group_state) == ("consumer", "Stable")
    await talk.beat(x.member, -2, instance="X")
    down = await talk.join("X")
    assert (down.error_code, await talk.group_type()) == (E.NONE, "consumer")
    await talk.beat(y.member, -2, instance="Y")
    last = await talk.join("Y")
    assert (last.error_code, await talk.group_type()) == (E.NONE, "classic")
    seats = [Seat("X", down.member_id, down.generation_id), Seat("Y", last.member_id, last.generation_id)]
    group = await talk.describe()
    assert (group.group_state, [await talk.heartbeat(seat) for seat in seats]) == ("Stable", [E.NONE, E.NONE])
    assert sorted(str(each.group_instance_id) for each in group.members) == ["X", "Y"]
    assert await talk.leave((seats[0].member, "X"), (seats[1].member, "Y")) == [E.NONE, E.NONE]


@row("M07", f"{GMMT}.testClassicGroupJoinWithDisabledMigrationPolicy", since="4.4", settings=DISABLED)
async def M07_a_disabled_policy_refuses_both_ways(talk: Conversation) -> None:
    """Policy disabled: JoinGroup into a consumer group → INCONSISTENT_GROUP_PROTOCOL, static or not; and no upgrade."""
    await consumer_group(talk, "X")
    assert (await talk.join("Y")).error_code is E.INCONSISTENT_GROUP_PROTOCOL
    assert (await talk.join("X")).error_code is E.INCONSISTENT_GROUP_PROTOCOL
    assert (await talk.join(member="made-up")).error_code is E.INCONSISTENT_GROUP_PROTOCOL
    other = Conversation(talk.target, f"{talk.group}-classic")
    (seat,) = await other.form("X")
    assert (await Member(other, "X").beat()).error_code is E.GROUP_ID_NOT_FOUND
    assert await other.heartbeat(seat) is E.NONE
