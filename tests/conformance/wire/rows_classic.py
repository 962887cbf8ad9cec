"""Rows of the classic protocol: joins, rejoins, bounces and timers (catalogue §7.1 and the versions of I13)."""
# a row's name begins with its id, as the catalogue writes it

from __future__ import annotations

import asyncio
from typing import Any

from conformance.wire.catalogue import row
from conformance.wire.conversation import Conversation, E, Seat, subscription
from conformance.wire.targets import MAX_SIZE
from coordinator_model.wire.codec import Api

GMMT = "GroupMetadataManagerTest"


@row("C01", f"{GMMT}.testStaticMemberJoinAsFirstMember")
async def C01_first_static_member_joins_in_one_round(talk: Conversation) -> None:
    """Empty group: X joins without member id → NONE at once, no MEMBER_ID_REQUIRED; one member."""
    joined = await talk.join("X")
    assert joined.error_code is E.NONE
    assert joined.member_id.startswith("X-")
    assert (joined.generation_id, joined.leader) == (1, joined.member_id)
    group = await talk.describe()
    assert [(member.group_instance_id, member.member_id) for member in group.members] == [("X", joined.member_id)]
    assert group.group_state == "CompletingRebalance"


@row("C02", f"{GMMT}.testStaticMemberRejoinWithExplicitUnknownMemberId")
async def C02_made_up_member_id_with_a_known_instance_is_fenced(talk: Conversation) -> None:
    """X→m1 in the group: join with X and a made-up member id → FENCED_INSTANCE_ID."""
    await talk.form("X")
    assert (await talk.join("X", "made-up")).error_code is E.FENCED_INSTANCE_ID
    assert await talk.state() == "Stable"


@row("C03", f"{GMMT}.testStaticMemberJoinWithUnknownInstanceIdAndKnownMemberId")
async def C03_known_member_id_with_an_unknown_instance_is_unknown(talk: Conversation) -> None:
    """X→m1: join with m1 and the unknown Y → UNKNOWN_MEMBER_ID."""
    (x,) = await talk.form("X")
    assert (await talk.join("Y", x.member)).error_code is E.UNKNOWN_MEMBER_ID
    assert await talk.state() == "Stable"


@row("C04", f"{GMMT}.testJoinGroupReplaceStaticMember")
async def C04_replaced_while_its_join_waits(talk: Conversation) -> None:
    """X's join waits for Y's: a second join with X → the first is FENCED, the second gets NONE once Y has rejoined."""
    # A wait for a member, not for the initial delay: the second join would race the clock of a busy machine.
    (y,) = await talk.form("Y")
    first = talk.later(talk.join("X"))
    await talk.until(lambda: _has_members(talk, 2))
    second = talk.later(talk.join("X"))
    assert (await first).error_code is E.FENCED_INSTANCE_ID
    await talk.join(y.instance, y.member)
    assert (await second).error_code is E.NONE
    assert len((await talk.describe()).members) == 2


async def _has_members(talk: Conversation, count: int) -> bool:
    return len((await talk.describe()).members) == count


@row("C06", f"{GMMT}.testGetDifferentStaticMemberIdAfterEachRejoin")
async def C06_each_bounce_gives_another_member_id(talk: Conversation) -> None:
    """X in a stable group rejoins 5 times without member id → 5 distinct member ids, all NONE."""
    (x,) = await talk.form("X")
    answers = [await talk.join("X") for _ in range(5)]
    assert {answer.error_code for answer in answers} == {E.NONE}
    assert len({x.member, *(answer.member_id for answer in answers)}) == 6


@row("C07", f"{GMMT}.testReplaceStaticMemberInStableStateNoError / …Succeeds")
async def C07_replaced_in_stable_state_without_rebalance(talk: Conversation) -> None:
    """One static member, Stable: rejoin with other timeouts → same generation; v9 leads and skips the assignment."""
    (x,) = await talk.form("X")
    again = await talk.join("X", session_ms=7_000, rebalance_ms=6_000)
    assert (again.error_code, again.generation_id) == (E.NONE, x.generation)
    assert (again.leader, again.skip_assignment) == (again.member_id, True)
    assert [member.member_id for member in again.members] == [again.member_id]
    assert await talk.state() == "Stable"
    old = await talk.join("X", version=8)
    assert (old.generation_id, old.leader, old.members) == (x.generation, again.member_id, ())


@row("C08", f"{GMMT}.testReplaceStaticMemberInStableStateWithUpdatedProtocolTriggersRebalance")
async def C08_another_selected_protocol_triggers_a_rebalance(talk: Conversation) -> None:
    """As C07, but the offered protocols make the group select another one → generation + 1."""
    (x,) = await talk.form("X", protocols=("range", "roundrobin"))
    again = await talk.join("X", protocols=("roundrobin",))
    assert (again.error_code, again.generation_id) == (E.NONE, x.generation + 1)
    assert (again.protocol_name, again.skip_assignment) == ("roundrobin", False)


@row("C10", f"{GMMT}.testReplaceStaticMemberInCompletingRebalanceStateTriggersRebalance")
async def C10_replaced_before_the_leader_has_synced(talk: Conversation) -> None:
    """Joined, not synced: rejoin without id → rebalance; the follower's waiting sync gets it, the old id is FENCED."""
    leader = talk.later(talk.join("X"))
    follower = talk.later(talk.join("Y"))
    x, y = await leader, await follower
    assert x.generation_id == y.generation_id == 1
    led, other = ("X", "Y") if x.leader == x.member_id else ("Y", "X")
    waiting = await talk.parked(talk.sync(Seat(other, (y if led == "X" else x).member_id, 1)))
    again = talk.later(talk.join(led))
    assert (await waiting).error_code is E.REBALANCE_IN_PROGRESS
    seat = Seat(led, (x if led == "X" else y).member_id, 1)
    assert (await talk.sync(seat)).error_code is E.FENCED_INSTANCE_ID
    rejoined = await talk.join(other, (y if led == "X" else x).member_id)
    assert rejoined.generation_id == (await again).generation_id == 2


@row("C11", f"{GMMT}.testStaticMemberFenceDuplicateRejoinedFollower")
async def C11_duplicate_of_a_rejoined_follower(talk: Conversation) -> None:
    """Rebalance in progress, a follower has rejoined: its duplicate joins → the first one is FENCED; generation + 1."""
    seats = await talk.form("X", "Y", "Z")
    leader = next(seat for seat in seats if seat.member == seat.leader)
    first, second = (seat for seat in seats if seat is not leader)
    led = await talk.parked(talk.join(leader.instance, leader.member))
    rejoined = await talk.parked(talk.join(first.instance, first.member))
    duplicate = await talk.parked(talk.join(first.instance))
    assert (await rejoined).error_code is E.FENCED_INSTANCE_ID
    last = await talk.join(second.instance, second.member)
    assert {last.generation_id, (await led).generation_id, (await duplicate).generation_id} == {leader.generation + 1}
    assert len((await talk.describe()).members) == 3


@row("C14", f"{GMMT}.testStaticMemberRejoinWithKnownMemberId")
async def C14_known_member_rejoins_while_completing(talk: Conversation) -> None:
    """Completing, sole member: rejoin with the known id, same metadata → same generation; then sync works."""
    joined = await talk.join("X")
    again = await talk.join("X", joined.member_id)
    assert (again.error_code, again.generation_id, again.member_id) == (E.NONE, 1, joined.member_id)
    await talk.sync_all([Seat("X", joined.member_id, 1, joined.leader)])
    assert await talk.state() == "Stable"


@row("C15", f"{GMMT}.testStaticMemberRejoinWithLeaderIdAndUnknownMemberId")
async def C15_leader_bounces_without_rebalance(talk: Conversation) -> None:
    """Stable, 2 members: the leader's X rejoins → same generation; the old id with X is FENCED, alone it is unknown."""
    seats = await talk.form("X", "Y")
    leader = next(seat for seat in seats if seat.member == seat.leader)
    again = await talk.join(leader.instance)
    assert (again.error_code, again.generation_id) == (E.NONE, leader.generation)
    assert (again.leader, again.skip_assignment, len(again.members)) == (again.member_id, True, 2)
    assert (await talk.join(leader.instance, leader.member)).error_code is E.FENCED_INSTANCE_ID
    assert (await talk.sync(leader)).error_code is E.FENCED_INSTANCE_ID
    assert (await talk.join(None, leader.member)).error_code is E.UNKNOWN_MEMBER_ID
    assert await talk.state() == "Stable"


@row("C17", f"{GMMT}.testStaticMemberJoinWithKnownIdIntoEmptyGroup")
async def C17_known_id_into_an_empty_group_is_unknown(talk: Conversation) -> None:
    """The group has become Empty: a join with the id of before → UNKNOWN_MEMBER_ID."""
    (x,) = await talk.form("X")
    assert await talk.leave(("", "X")) == [E.NONE]
    assert await talk.state() == "Empty"
    assert (await talk.join("X", x.member)).error_code is E.UNKNOWN_MEMBER_ID
    assert (await talk.join(None, x.member)).error_code is E.UNKNOWN_MEMBER_ID


@row("C19", f"{GMMT}.testStaticMemberRejoinWithUnknownMemberIdAndChangeOfProtocolWhileSelectedProtocolChanged")
async def C19_follower_returns_with_protocols_that_select_another(talk: Conversation) -> None:
    """Stable, 2 members with both protocols: one returns with only one of them → rebalance, generation + 1."""
    seats = await talk.form("X", "Y", protocols=("range", "roundrobin"))
    leader = next(seat for seat in seats if seat.member == seat.leader)
    follower = next(seat for seat in seats if seat is not leader)
    returning = await talk.parked(talk.join(follower.instance, protocols=("roundrobin",)))
    assert await talk.heartbeat(leader) is E.REBALANCE_IN_PROGRESS
    led = await talk.join(leader.instance, leader.member, protocols=("range", "roundrobin"))
    assert (led.generation_id, led.protocol_name) == (leader.generation + 1, "roundrobin")
    assert (await returning).generation_id == leader.generation + 1


@row("C19", f"{GMMT}.testStaticMemberRejoinWithUnknownMemberIdAndChangeOfProtocolWhileSelectedProtocolUnchanged")
async def C19_changed_subscription_of_the_same_protocol_is_not_noticed(talk: Conversation) -> None:
    """Stable: a follower returns with other topics in its metadata → no rebalance (KAFKA-12759)."""
    seats = await talk.form("X", "Y")
    follower = next(seat for seat in seats if seat.member != seat.leader)
    again = await talk.join(follower.instance, protocols=(("range", subscription("payments")),))
    assert (again.error_code, again.generation_id) == (E.NONE, follower.generation)
    assert await talk.state() == "Stable"


@row("C21", f"{GMMT}.testStaticMemberRejoinWithKnownLeaderIdToTriggerRebalanceAndFollowerWithChangeOfProtocol")
async def C21_known_leader_rebalances_then_changed_follower(talk: Conversation) -> None:
    """The leader rejoins with its id → generation + 1; then a follower with other metadata → + 1 again."""
    seats = await talk.form("X", "Y")
    before = seats[0].generation
    leader = next(seat for seat in seats if seat.member == seat.leader)
    follower = next(seat for seat in seats if seat is not leader)
    waiting = await talk.parked(talk.join(leader.instance, leader.member))
    assert (await talk.join(follower.instance, follower.member)).generation_id == before + 1
    led = await waiting
    leader.generation = follower.generation = led.generation_id
    leader.leader = follower.leader = led.leader
    await talk.sync_all(seats)
    changed = (("range", subscription("payments")),)
    second = await talk.parked(talk.join(follower.instance, follower.member, protocols=changed))
    assert (await talk.join(leader.instance, leader.member)).generation_id == before + 2
    assert (await second).generation_id == before + 2


@row("C22", f"{GMMT}.testStaticMemberRejoinAsFollowerWithUnknownMemberId")
async def C22_follower_bounces_without_rebalance(talk: Conversation) -> None:
    """Stable, 2 members: the follower restarts → same generation and assignment; the old id is FENCED everywhere."""
    seats = await talk.form("X", "Y")
    follower = next(seat for seat in seats if seat.member != seat.leader)
    again = await talk.join(follower.instance)
    assert (again.error_code, again.generation_id, again.members) == (E.NONE, follower.generation, ())
    assert again.leader == follower.leader
    synced = await talk.sync(Seat(follower.instance, again.member_id, again.generation_id))
    assert (synced.error_code, synced.assignment) == (E.NONE, follower.assignment)
    assert (await talk.sync(follower)).error_code is E.FENCED_INSTANCE_ID
    assert await talk.heartbeat(follower) is E.FENCED_INSTANCE_ID
    assert await talk.state() == "Stable"


@row("C23", f"{GMMT}.testStaticMemberRejoinAsFollowerWithKnownMemberIdAndNoProtocolChange")
async def C23_known_unchanged_follower_gets_the_current_generation(talk: Conversation) -> None:
    """Stable: a known follower rejoins unchanged → same generation, no rebalance."""
    seats = await talk.form("X", "Y")
    follower = next(seat for seat in seats if seat.member != seat.leader)
    again = await talk.join(follower.instance, follower.member)
    assert (again.error_code, again.generation_id, again.member_id) == (E.NONE, follower.generation, follower.member)
    assert await talk.state() == "Stable"


@row("C24", f"{GMMT}.testStaticMemberRejoinAsFollowerWithMismatchedInstanceId / …Leader… / sync / heartbeat")
async def C24_id_of_one_with_the_instance_of_another(talk: Conversation) -> None:
    """Join, sync and heartbeat with a foreign instance id → FENCED; heartbeat with the id alone → NONE."""
    x, y = await talk.form("X", "Y")
    assert (await talk.join("X", y.member)).error_code is E.FENCED_INSTANCE_ID
    assert (await talk.join("Y", x.member)).error_code is E.FENCED_INSTANCE_ID
    assert (await talk.sync(x, instance="Y")).error_code is E.FENCED_INSTANCE_ID
    assert await talk.heartbeat(x, instance="Y") is E.FENCED_INSTANCE_ID
    assert await talk.heartbeat(x, member="made-up") is E.FENCED_INSTANCE_ID
    assert await talk.heartbeat(x, instance="Z") is E.UNKNOWN_MEMBER_ID
    assert await talk.heartbeat(x, instance=None) is E.NONE
    assert await talk.heartbeat(x, generation=x.generation + 1) is E.ILLEGAL_GENERATION
    assert await talk.heartbeat(x) is E.NONE


@row("C28", f"{GMMT}.testGroupStuckInRebalanceTimeoutDueToNonjoinedStaticMember")
async def C28_no_member_rejoins_and_all_are_static(talk: Conversation) -> None:
    """A rebalance begins and no static member rejoins → still Preparing after its timeout, Empty by the sessions."""
    await talk.form("X", "Y", "Z", session_ms=5_000, rebalance_ms=1_000)
    assert await talk.leave(("", "Z")) == [E.NONE]
    assert await talk.state() == "PreparingRebalance"
    await asyncio.sleep(2.5)
    group = await talk.describe()
    assert (group.group_state, len(group.members)) == ("PreparingRebalance", 2)
    await talk.until(lambda: _is(talk, "Empty"))


async def _is(talk: Conversation, state: str) -> bool:
    return await talk.state() == state


@row("C30", f"{GMMT}.testClassicGroupMemberSessionTimeout")
async def C30_silent_member_is_removed_after_its_session(talk: Conversation) -> None:
    """No heartbeat for the session → removed, the group is Empty; not before."""
    (x,) = await talk.form("X", session_ms=2_000)
    assert await talk.heartbeat(x) is E.NONE
    took_s = await talk.until(lambda: _is(talk, "Empty"))
    assert 1.5 < took_s < 6.0
    assert await talk.heartbeat(x) is E.UNKNOWN_MEMBER_ID


@row("C30", f"{GMMT}.testClassicGroupMemberSessionTimeoutDuringRebalance")
async def C30_session_ends_during_a_rebalance(talk: Conversation) -> None:
    """A member is silent while others rejoin → it is removed by its session and the rebalance completes without it."""
    seats = await talk.form("X", "Y", session_ms=2_500, rebalance_ms=60_000)
    leader = next(seat for seat in seats if seat.member == seat.leader)
    waiting = talk.later(talk.join(leader.instance, leader.member, session_ms=2_500, rebalance_ms=60_000))
    completed = await waiting
    assert (completed.generation_id, len(completed.members)) == (leader.generation + 1, 1)
    assert len((await talk.describe()).members) == 1


@row("I13", "JoinGroupRequestTest, SyncGroupRequestTest, HeartbeatRequestTest (core)")
async def I13_every_version_fences_or_has_no_instance_id(talk: Conversation) -> None:
    """Join (v5+), Sync (v3+) and Heartbeat (v3+) fence an instance; older versions have no instance id."""
    (x,) = await talk.form("X")
    protocols = [{"name": "range", "metadata": subscription("orders")}]
    low, high = talk.target.client.versions[Api.JOIN_GROUP]
    for version in range(max(low, 5), min(high, 9) + 1):
        body = {"group_id": talk.group, "member_id": "other", "group_instance_id": "X"}
        times: dict[str, Any] = {
            "protocols": protocols, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
        }
        answer = await talk.call(Api.JOIN_GROUP, version, **body, **times)
        assert answer["error_code"] == E.FENCED_INSTANCE_ID, version
    named = {"protocol_type": "consumer", "protocol_name": "range"}
    for api in (Api.SYNC_GROUP, Api.HEARTBEAT):
        low, high = talk.target.client.versions[api]
        for version in range(low, high + 1):
            ids: dict[str, Any] = {"group_id": talk.group, "member_id": "other", "generation_id": x.generation}
            answer = await talk.call(api, version, **ids, group_instance_id="X", **named)
            expected = E.FENCED_INSTANCE_ID if version >= 3 else E.UNKNOWN_MEMBER_ID
            assert answer["error_code"] == expected, (api, version)
    assert await talk.heartbeat(x) is E.NONE


@row("A04", "ours: a rebalance waits for the static absentee")
async def A04_static_absentee_stalls_another_ones_join(talk: Conversation) -> None:
    """X is down, Y joins → the rebalance lasts until the rebalance timeout; X stays listed and gets an assignment."""
    (x,) = await talk.form("X", session_ms=30_000, rebalance_ms=1_500)
    began = asyncio.get_running_loop().time()
    joined = await talk.join("Y", session_ms=30_000, rebalance_ms=1_500)
    stalled_s = asyncio.get_running_loop().time() - began
    assert 1.0 < stalled_s < 5.0
    assert (joined.generation_id, joined.leader) == (x.generation + 1, joined.member_id)
    assert sorted(str(member.group_instance_id) for member in joined.members) == ["X", "Y"]


@row("A12", "ours: GroupMetadataManager.acceptJoiningMember counts member ids")
async def A12_restart_in_a_full_group_is_refused(talk: Conversation) -> None:
    """A full classic group, Stable: a static member that returns without member id → GROUP_MAX_SIZE_REACHED."""
    seats = await talk.form(*(f"X{i}" for i in range(MAX_SIZE)))
    assert (await talk.join("X0")).error_code is E.GROUP_MAX_SIZE_REACHED
    assert (await talk.join("Y")).error_code is E.GROUP_MAX_SIZE_REACHED
    assert await talk.heartbeat(seats[0]) is E.NONE
