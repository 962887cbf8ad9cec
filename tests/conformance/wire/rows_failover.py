"""Rows in which the coordinator is lost and loaded again from its log (catalogue §7.9)."""

from __future__ import annotations

import asyncio

from conformance.wire.catalogue import row
from conformance.wire.conversation import Conversation, E, Member, consumer_group


@row("A07", "ours: a fail-over during a bounce (classic)", fails_over=True)
async def A07_a_bounce_across_a_fail_over_costs_nothing_classic(talk: Conversation) -> None:
    """X is down while the coordinator changes: X returns → same generation and assignment, no rebalance."""
    x, y = await talk.form("X", "Y")
    await talk.target.fail_over()
    await talk.loaded()
    back = await talk.join("X")
    assert (back.error_code, back.generation_id) == (E.NONE, x.generation)
    assert await talk.heartbeat(y) is E.NONE
    x.member = back.member_id
    synced = await talk.sync(x)
    assert (synced.error_code, synced.assignment) == (E.NONE, x.assignment)


@row("A07", "GroupMetadataManagerTest.testOnLoaded: sessions begin again (classic)", fails_over=True)
async def A07_sessions_begin_again_after_a_fail_over_classic(talk: Conversation) -> None:
    """Silent for 9.5 s of a session of 12 s, then a fail-over:
    still a member 3.5 s later, gone after a whole session.
    """
    (x,) = await talk.form("X", session_ms=12_000)
    assert await talk.heartbeat(x) is E.NONE
    await asyncio.sleep(9.5)
    await talk.target.fail_over()
    await talk.loaded()
    await asyncio.sleep(3.5)
    assert len((await talk.describe()).members) == 1

    async def gone() -> bool:
        return not (await talk.describe()).members

    await talk.until(gone)


@row("A07", "ours: an acknowledged removal that was not stored", fails_over=True)
async def A07_a_removal_before_the_new_generation_is_undone_classic(talk: Conversation) -> None:
    """X is removed, answer NONE; the coordinator is lost before any member rejoined → X is a member again, Stable."""
    x, y = await talk.form("X", "Y")
    assert await talk.leave((x.member, "X")) == [E.NONE]
    await talk.target.fail_over()
    await talk.loaded()
    group = await talk.describe()
    assert (group.group_state, sorted(str(m.group_instance_id) for m in group.members)) == ("Stable", ["X", "Y"])
    assert await talk.heartbeat(y) is E.NONE
    assert await talk.leave((x.member, "X")) == [E.NONE]


@row("A07", "ours: a fail-over during a bounce (KIP-848)", since="4.0", fails_over=True)
async def A07_removal_and_absence_survive_a_fail_over_consumer(talk: Conversation) -> None:
    """X at -2, Z removed, then a fail-over: Z stays removed, X returns to its partitions, group epoch unchanged."""
    x, y, z = await consumer_group(talk, "X", "Y", "Z")
    await talk.beat(x.member, -2, instance="X")
    assert await talk.leave((z.member, "Z")) == [E.NONE]
    before = await talk.epoch()
    await talk.target.fail_over()

    async def loaded() -> bool:
        return (await talk.describe_consumer()).error_code is E.NONE

    await talk.until(loaded, within_s=60.0)
    group = await talk.describe_consumer()
    assert (group.group_epoch, {each.instance_id for each in group.members}) == (before, {"X", "Y"})
    assert {each.instance_id: each.member_epoch for each in group.members}["X"] == -2
    back = await Member(talk, "X").beat()
    assert back.error_code is E.NONE
    assert (await y.beat()).error_code is E.NONE
    assert await talk.epoch() == before
