"""Cases of KIP-848 groups that no Kafka test has (catalogue §7.9)."""

from __future__ import annotations

import asyncio

from conformance.wire.catalogue import row
from conformance.wire.conversation import Conversation, E, Member, consumer_group, settle
from conformance.wire.rows_consumer import GMMT, has_members, settings_apply


@row("A01", "ours: removal against the removed one's own late requests", since="4.0")
async def A01_late_requests_of_the_removed_consumer(talk: Conversation) -> None:
    """Removed: its late -2, -1 and heartbeat are UNKNOWN; with a new holder of X they are FENCED;
    never a double removal.
    """
    x, y = await consumer_group(talk, "X", "Y")
    assert await talk.leave((x.member, "X")) == [E.NONE]
    after = await talk.epoch()
    for epoch in (-2, -1, x.epoch):
        assert (await talk.beat(x.member, epoch, instance="X")).error_code is E.UNKNOWN_MEMBER_ID
    assert await talk.epoch() == after
    back = await Member(talk, "X").join()
    now = await talk.epoch()
    for epoch in (-2, -1, x.epoch):
        assert (await talk.beat(x.member, epoch, instance="X")).error_code is E.FENCED_INSTANCE_ID
    assert await talk.leave((x.member, "X")) == [E.FENCED_INSTANCE_ID]
    assert await talk.epoch() == now
    await settle(back, y)


@row("A02", "ours: -2 on behalf of a crashed member", since="4.0")
async def A02_crash_release_by_a_third_party(talk: Conversation) -> None:
    """A member crashed: wrong pair FENCED; another's -2 with its pair → its successor joins, same partitions."""
    x, _ = await consumer_group(talk, "X", "Y")
    before = await talk.epoch()
    assert (await Member(talk, "X").beat()).error_code is E.UNRELEASED_INSTANCE_ID
    assert (await talk.beat("bogus", -2, instance="X")).error_code is E.FENCED_INSTANCE_ID
    assert (await talk.beat(x.member, -2, instance="X")).member_epoch == -2
    again = await Member(talk, "X").join()
    assert (again.partitions, again.epoch, await talk.epoch()) == (x.partitions, x.epoch, before)
    assert (await talk.beat(x.member, -2, instance="X")).error_code is E.FENCED_INSTANCE_ID


@row("A03", "ours: the state while one is away (ConsumerGroup.maybeUpdateGroupState)", since="4.0")
async def A03_a_member_away_reads_reconciling(talk: Conversation) -> None:
    """One member at -2 → the group's state is Reconciling though group and assignment epoch agree; Stable when back."""
    x, _ = await consumer_group(talk, "X", "Y")
    assert (await talk.describe_consumer()).group_state == "Stable"
    await talk.beat(x.member, -2, instance="X")
    group = await talk.describe_consumer()
    assert (group.group_state, group.group_epoch) == ("Reconciling", group.assignment_epoch)
    await Member(talk, "X").join()
    assert (await talk.describe_consumer()).group_state == "Stable"


@row("A05", "ours: a static member that lost its join answer (apache/kafka pull request 23542)", since="4.0")
async def A05_a_lost_join_answer_blocks_the_member_itself(talk: Conversation) -> None:
    """Epoch 0 again with its own id and X → UNRELEASED_INSTANCE_ID; its own -2 heals it."""
    member = await Member(talk, "X").join()
    again = await talk.beat(member.member, 0, instance="X")
    assert again.error_code is E.UNRELEASED_INSTANCE_ID
    await talk.beat(member.member, -2, instance="X")
    assert (await talk.beat(member.member, 0, instance="X")).error_code is E.NONE


@row("A05", f"{GMMT}.testConsumerGroupDynamicMemberRejoins (KAFKA-19233)", since="4.2")
async def A05_a_dynamic_member_may_join_again(talk: Conversation) -> None:
    """Epoch 0 again of a known dynamic member → NONE, same epoch and partitions."""
    member = await Member(talk).join()
    again = await talk.beat(member.member, 0)
    assert (again.error_code, again.member_epoch, again.assignment) == (E.NONE, member.epoch, member.owned)


@row("A06", "ours: a changed session timeout counts from the next heartbeat", since="4.0")
async def A06_the_absent_keep_their_old_timer(talk: Conversation) -> None:
    """Session 2 s; X is away; raised to 60 s → X still goes after 2 s, Y, which has beaten since, stays."""
    assert (await talk.set_config(consumer_session_timeout_ms=2_000)).error_code is E.NONE
    await settings_apply()
    x = await Member(talk, "X").join()
    y = await Member(talk, "Y").join()
    await talk.beat(x.member, -2, instance="X")
    assert (await talk.set_config(consumer_session_timeout_ms=60_000)).error_code is E.NONE
    await asyncio.sleep(0.7)
    assert (await y.beat()).error_code is E.NONE
    await talk.until(lambda: has_members(talk, 1))
    await asyncio.sleep(2.5)
    assert (await y.beat()).error_code is E.NONE


@row("A06", "GroupConfigManagerTest: bounds", since="4.0")
async def A06_settings_out_of_bounds_are_refused(talk: Conversation) -> None:
    """Below the broker's minimum, above its maximum, unknown key → INVALID_CONFIG."""
    assert (await talk.set_config(consumer_session_timeout_ms=999)).error_code is E.INVALID_CONFIG
    assert (await talk.set_config(consumer_session_timeout_ms=600_001)).error_code is E.INVALID_CONFIG
    assert (await talk.set_config(consumer_no_such_thing=1)).error_code is E.INVALID_CONFIG
    assert (await talk.set_config(consumer_session_timeout_ms=600_000)).error_code is E.NONE


@row("A08", "ours: one batch, one bump (KIP-848)", since="4.0")
async def A08_batch_of_two_is_one_bump_consumer(talk: Conversation) -> None:
    """5 members, 2 removed in one request → group epoch + 1; the others own everything."""
    members = await consumer_group(talk, *(f"X{i}" for i in range(5)))
    before = await talk.epoch()
    assert await talk.leave((members[3].member, "X3"), ("", "X4")) == [E.NONE, E.NONE]
    assert await talk.epoch() == before + 1
    await settle(*members[:3])
    assert await talk.epoch() == before + 1
    assert sorted(len(member.partitions) for member in members[:3]) == [2, 2, 2]


@row("A09", "ours: one by one, two bumps (KIP-848)", since="4.0")
async def A09_one_by_one_is_two_bumps_consumer(talk: Conversation) -> None:
    """5 members, 2 removed one after the other → group epoch + 2."""
    members = await consumer_group(talk, *(f"X{i}" for i in range(5)))
    before = await talk.epoch()
    assert await talk.leave(("", "X3")) == [E.NONE]
    assert await talk.leave(("", "X4")) == [E.NONE]
    await settle(*members[:3])
    assert await talk.epoch() == before + 2


@row("A10", "ours: scale down and up again (KIP-848)", since="4.0")
async def A10_late_removal_misses_the_returned_pod_consumer(talk: Conversation) -> None:
    """3→2→3: the pod left with -2 and is back; the late removal with the old pair → FENCED, nobody is removed."""
    *_, last = await consumer_group(talk, "X0", "X1", "X2")
    await talk.beat(last.member, -2, instance="X2")
    back = await Member(talk, "X2").join()
    assert await talk.leave((last.member, "X2")) == [E.FENCED_INSTANCE_ID]
    assert await has_members(talk, 3)
    assert (await back.beat()).error_code is E.NONE


@row("A11", "ours: a pod with three members in one request", since="4.0")
async def A11_three_members_of_a_pod_consumer(talk: Conversation) -> None:
    """pod-1-1 … pod-1-3 are removed in one request → NONE × 3, one bump."""
    members = await consumer_group(talk, "pod-0-1", *(f"pod-1-{i}" for i in (1, 2, 3)))
    before = await talk.epoch()
    assert await talk.leave(*((each.member, each.instance) for each in members[1:])) == [E.NONE] * 3
    assert await talk.epoch() == before + 1
