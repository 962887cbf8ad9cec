"""Rows of LeaveGroup on classic groups, and our own removal cases (catalogue §7.2, §7.6, §7.9)."""

from __future__ import annotations

import asyncio

from conformance.wire.catalogue import row
from conformance.wire.conversation import Conversation, E, Seat
from coordinator_model.base import messages as m

GMMT = "GroupMetadataManagerTest"


@row("L01", f"{GMMT}.testClassicGroupLeaveUnknownGroup")
async def L01_unknown_group(talk: Conversation) -> None:
    """No such group → v3+: every member UNKNOWN_MEMBER_ID, top NONE; v0-2: UNKNOWN_MEMBER_ID on top."""
    assert await talk.leave(("m", None), ("", "X")) == [E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID]
    old = await talk.leave_answer(("m", None), version=2)
    assert old.error_code is E.UNKNOWN_MEMBER_ID


@row("L02", f"{GMMT}.testClassicGroupLeaveUnknownMemberIdExistingGroup")
async def L02_unknown_member_of_a_known_group(talk: Conversation) -> None:
    """A group with one member: leave of another id → the member is UNKNOWN_MEMBER_ID, top NONE."""
    (x,) = await talk.form("X")
    assert await talk.leave(("made-up", None)) == [E.UNKNOWN_MEMBER_ID]
    assert await talk.heartbeat(x) is E.NONE


@row("L04", f"{GMMT}.testClassicGroupLeaveValid")
async def L04_the_only_member_leaves(talk: Conversation) -> None:
    """One dynamic member, Stable: it leaves → Empty; the next generation begins at 3 as the empty one was 2."""
    (x,) = await talk.form(None)
    assert await talk.leave((x.member, None)) == [E.NONE]
    assert await talk.state() == "Empty"
    assert (await talk.join("Y")).generation_id == x.generation + 2


@row("L05", f"{GMMT}.testClassicGroupLeaveWithFencedInstanceId")
async def L05_other_id_with_a_known_instance_is_fenced(talk: Conversation) -> None:
    """X→m1: leave {other, X} → FENCED_INSTANCE_ID, m1 stays."""
    (x,) = await talk.form("X")
    assert await talk.leave(("other", "X")) == [E.FENCED_INSTANCE_ID]
    assert await talk.heartbeat(x) is E.NONE


@row("L06", f"{GMMT}.testClassicGroupLeaveStaticMemberWithUnknownMemberId")
async def L06_by_instance_id_alone(talk: Conversation) -> None:
    """X→m1: leave {"", X} → NONE, removed; the answer echoes the empty member id."""
    await talk.form("X")
    answer = await talk.leave_answer(("", "X"))
    assert [(e.member_id, e.group_instance_id, e.error_code) for e in answer.members] == [("", "X", E.NONE)]
    assert await talk.state() == "Empty"


@row("L07", f"{GMMT}.testStaticMembersValidBatchLeaveGroup")
async def L07_a_batch_of_static_members(talk: Conversation) -> None:
    """Leader X, follower Y: leave {"", X}, {"", Y} → both NONE, Empty."""
    await talk.form("X", "Y")
    assert await talk.leave(("", "X"), ("", "Y")) == [E.NONE, E.NONE]
    assert await talk.state() == "Empty"


@row("L09", f"{GMMT}.testStaticMembersUnknownInstanceBatchLeaveGroup")
async def L09_a_batch_with_an_unknown_instance(talk: Conversation) -> None:
    """{"", unknown}, {"", Y} → UNKNOWN_MEMBER_ID and NONE; empty member id and null instance → UNKNOWN_MEMBER_ID."""
    await talk.form("X", "Y")
    assert await talk.leave(("", "unknown"), ("", "Y")) == [E.UNKNOWN_MEMBER_ID, E.NONE]
    assert await talk.leave(("", None)) == [E.UNKNOWN_MEMBER_ID]


@row("L12", "LeaveGroupRequestTest.testLeaveGroup (core)")
async def L12_every_version(talk: Conversation) -> None:
    """v0 to v5: unknown member, unknown instance, fenced, good, and the second time UNKNOWN_MEMBER_ID."""
    empty = m.LeaveGroupRequest(group_id="", members=(m.MemberIdentity(member_id="m"),))
    assert (await talk.ask(empty)).error_code is E.INVALID_GROUP_ID
    low, high = talk.target.client.versions[13]
    for version in range(low, high + 1):
        (x,) = await talk.form("X")
        if version < 3:
            codes = [
                (await talk.leave_answer((i, None), version=version)).error_code for i in ("no", x.member, x.member)
            ]
            assert codes == [E.UNKNOWN_MEMBER_ID, E.NONE, E.UNKNOWN_MEMBER_ID], version
            continue
        entries = [("no", None), (x.member, "no"), ("no", "X"), (x.member, "X"), (x.member, "X")]
        codes = [(await talk.leave(entry, version=version))[0] for entry in entries]
        assert codes == [E.UNKNOWN_MEMBER_ID] * 2 + [E.FENCED_INSTANCE_ID, E.NONE, E.UNKNOWN_MEMBER_ID], version


@row("L12", "GroupMetadataManager.classicGroupLeaveToClassicGroup: one entry after the other")
async def L12_same_identity_twice_in_one_request(talk: Conversation) -> None:
    """{other, X2}, {"", ?}, {m2, X2}, {"", X2}, {m3, null} → 82, 25, 0, 25, 0 on a classic group."""
    _, second, third = await talk.form("X1", "X2", "X3")
    entries = (("other", "X2"), ("", "?"), (second.member, "X2"), ("", "X2"), (third.member, None))
    expected = [E.FENCED_INSTANCE_ID, E.UNKNOWN_MEMBER_ID, E.NONE, E.UNKNOWN_MEMBER_ID, E.NONE]
    assert await talk.leave(*entries) == expected


@row("L04", f"{GMMT}.testClassicGroupLeavePendingMember")
async def L04_a_pending_member_is_dropped(talk: Conversation) -> None:
    """A member that got MEMBER_ID_REQUIRED and has not come back: leave → NONE; its id is then unknown."""
    pending = await talk.join()
    assert pending.error_code is E.MEMBER_ID_REQUIRED
    assert await talk.leave((pending.member_id, None)) == [E.NONE]
    assert (await talk.join(None, pending.member_id)).error_code is E.UNKNOWN_MEMBER_ID


@row("I05", "PlaintextAdminIntegrationTest.testConsumerGroupsDeprecatedConsumerGroupState (classic)")
async def I05_removals_one_by_one_and_delete(talk: Conversation) -> None:
    """2 static, 1 dynamic: unknown instance UNKNOWN; delete NON_EMPTY; dynamic leaves → 2; one → 1; all → 0;
    deleted.
    """
    _, second, dynamic = await talk.form("X", "Y", None)
    delete = m.DeleteGroupsRequest(group_ids=(talk.group,))
    assert await talk.leave(("", "unknown")) == [E.UNKNOWN_MEMBER_ID]
    assert (await talk.ask(delete)).results == ((talk.group, E.NON_EMPTY_GROUP),)
    assert await talk.leave((dynamic.member, None)) == [E.NONE]
    assert len((await talk.describe()).members) == 2
    assert await talk.leave(("", "X")) == [E.NONE]
    assert len((await talk.describe()).members) == 1
    assert await talk.leave((second.member, "Y")) == [E.NONE]
    assert len((await talk.describe()).members) == 0
    assert (await talk.ask(delete)).results == ((talk.group, E.NONE),)
    gone = await talk.describe()
    expected = E.GROUP_ID_NOT_FOUND if talk.version >= (4, 0) else E.NONE  # KIP-1043
    assert (gone.error_code, gone.group_state) == (expected, "Dead")
    assert (await talk.ask(delete)).results == ((talk.group, E.GROUP_ID_NOT_FOUND),)


@row("A01", "ours: removal against the removed one's own late requests")
async def A01_late_requests_of_the_removed_classic(talk: Conversation) -> None:
    """After a removal the same pair is UNKNOWN;
    once another process has X the old pair is FENCED and removes nobody.
    """
    x, y = await talk.form("X", "Y")
    assert await talk.leave((x.member, "X")) == [E.NONE]
    assert await talk.leave((x.member, "X")) == [E.UNKNOWN_MEMBER_ID]
    assert await talk.heartbeat(x) is E.UNKNOWN_MEMBER_ID
    again = await talk.parked(talk.join("X"))
    survivor = await talk.join("Y", y.member)
    returned = await again
    assert returned.generation_id == survivor.generation_id
    assert await talk.leave((x.member, "X")) == [E.FENCED_INSTANCE_ID]
    assert len((await talk.describe()).members) == 2


@row("A08", "ours: one batch, one rebalance (classic)")
async def A08_batch_of_two_is_one_rebalance_classic(talk: Conversation) -> None:
    """5 members, 2 removed in one request → exactly one generation more."""
    seats = await talk.form(*(f"X{i}" for i in range(5)))
    assert await talk.leave(("", "X3"), ("", "X4")) == [E.NONE, E.NONE]
    survivors = seats[:3]
    before = seats[0].generation
    for seat in survivors:
        assert await talk.heartbeat(seat) is E.REBALANCE_IN_PROGRESS
    await talk.rejoin(survivors)
    assert {seat.generation for seat in survivors} == {before + 1}
    assert len((await talk.describe()).members) == 3


@row("A09", "ours: one by one, at most two rebalances (classic)")
async def A09_one_by_one_during_the_rebalance_is_still_one(talk: Conversation) -> None:
    """5 members, 2 removed one after the other before any member rejoins → one generation more."""
    seats = await talk.form(*(f"X{i}" for i in range(5)))
    before = seats[0].generation
    assert await talk.leave(("", "X3")) == [E.NONE]
    assert await talk.leave(("", "X4")) == [E.NONE]
    await talk.rejoin(seats[:3])
    assert {seat.generation for seat in seats[:3]} == {before + 1}


@row("A10", "ours: scale down and up again (classic)")
async def A10_late_removal_misses_the_returned_pod_classic(talk: Conversation) -> None:
    """3→2→3: the pod is back under a new id; the late removal with the old pair → FENCED, nobody is removed."""
    *_, last = await talk.form("X0", "X1", "X2")
    back = await talk.join("X2")
    assert (back.error_code, back.generation_id) == (E.NONE, last.generation)
    assert await talk.leave((last.member, "X2")) == [E.FENCED_INSTANCE_ID]
    assert len((await talk.describe()).members) == 3
    assert await talk.heartbeat(Seat("X2", back.member_id, back.generation_id)) is E.NONE


@row("A11", "ours: a Streams pod with three threads in one request")
async def A11_three_threads_in_one_request(talk: Conversation) -> None:
    """pod-1-1, pod-1-2, pod-1-3 are removed in one request → NONE ×3, one generation more for the others."""
    seats = await talk.form("pod-0-1", *(f"pod-1-{i}" for i in (1, 2, 3)))
    gone = [(seat.member, seat.instance) for seat in seats[1:]]
    assert await talk.leave(*gone) == [E.NONE] * 3
    await talk.rejoin(seats[:1])
    assert seats[0].generation == 2


@row("L02", f"{GMMT}.testLeaveGroup: the removal ends a stalled rebalance")
async def L02_removal_of_the_absentee_ends_the_rebalance(talk: Conversation) -> None:
    """Y joins while X is away: the rebalance waits; X removed → it completes at once."""
    (x,) = await talk.form("X")
    waiting = await talk.parked(talk.join("Y"))
    assert await talk.leave((x.member, "X")) == [E.NONE]
    async with asyncio.timeout(2.0):
        joined = await waiting
    assert [member.group_instance_id for member in joined.members] == ["Y"]
