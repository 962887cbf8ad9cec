"""Rows of streams groups with static members, Kafka 4.4 (catalogue §7.5)."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, field
from typing import Any, cast

from conformance.wire.catalogue import row
from conformance.wire.conversation import Conversation, E
from conformance.wire.targets import MAX_SIZE
from coordinator_model.streams import messages as st
from coordinator_model.wire.codec import Api

SUITE = "StreamsGroupStaticMemberTest"
TOPOLOGY = st.Topology(1, (st.Subtopology("sub", ("orders",)),))
LEAVE, AWAY = -1, -2


@dataclass(slots=True)
class Thread:
    """One member of a streams group, as a thread of an application keeps it."""

    talk: Conversation
    instance: str | None = None
    process: str = "p1"
    member: str = field(default_factory=lambda: str(uuid.uuid4()))
    epoch: int = 0
    tasks: st.TaskIds = ()

    async def beat(self, epoch: int | None = None, **options: Any) -> st.StreamsGroupHeartbeatResponse:
        """Heartbeat with everything and take over the answer; a join also sends the topology."""
        at = self.epoch if epoch is None else epoch
        held: dict[str, Any] = {}
        if at >= 0:
            held = {"active_tasks": self.tasks, "standby_tasks": (), "warmup_tasks": (), "process_id": self.process}
            held |= {"rebalance_timeout_ms": 30_000, "client_tags": ()}
        if at == 0:
            held["topology"] = TOPOLOGY
        ids = {"group_id": self.talk.group, "member_id": self.member, "group_instance_id": self.instance}
        request = st.StreamsGroupHeartbeatRequest(**{**ids, "member_epoch": at, **held, **options})
        answer = cast(st.StreamsGroupHeartbeatResponse, await self.talk.ask(request))
        if answer.error_code is E.NONE and at >= 0:
            self.epoch = answer.member_epoch
            self.tasks = self.tasks if answer.active_tasks is None else answer.active_tasks
        return answer

    async def join(self) -> Thread:
        """Join, which must succeed."""
        answer = await self.beat(0)
        assert answer.error_code is E.NONE, answer
        return self

    @property
    def count(self) -> int:
        """Return the number of active tasks."""
        return sum(len(partitions) for _, partitions in self.tasks)


async def described(talk: Conversation) -> st.StreamsGroupDescribedGroup:
    """Describe the streams group."""
    answer = await talk.ask(st.StreamsGroupDescribeRequest(group_ids=(talk.group,)))
    return cast(st.StreamsGroupDescribedGroup, answer.groups[0])


async def streams_group(talk: Conversation, *instances: str | None) -> list[Thread]:
    """Bring up a streams group in which every member has its share of the six tasks."""
    threads = [await Thread(talk, name, process=f"p{i}").join() for i, name in enumerate(instances)]

    async def balanced() -> bool:
        for thread in threads:
            assert (await thread.beat()).error_code is E.NONE
        group = await described(talk)
        return group.group_state == "Stable" and {thread.epoch for thread in threads} == {group.group_epoch}

    await talk.until(balanced)
    assert sum(thread.count for thread in threads) == 6
    return threads


@row("S01", f"{SUITE} 644, 699, 761", since="4.4")
async def S01_leave_for_good_and_for_a_while(talk: Conversation) -> None:
    """-1 with X → removed, group epoch + 1; -2 → kept at epoch -2, group epoch unchanged; -2 again → the same."""
    x, y = await streams_group(talk, "X", "Y")
    before = (await described(talk)).group_epoch
    for _ in range(2):
        answer = await y.beat(AWAY)
        assert (answer.error_code, answer.member_epoch) == (E.NONE, AWAY)
    group = await described(talk)
    assert (group.group_epoch, group.group_state) == (before, "Reconciling")
    assert {each.instance_id: each.member_epoch for each in group.members} == {"X": x.epoch, "Y": AWAY}
    assert (await x.beat(LEAVE)).error_code is E.NONE
    group = await described(talk)
    assert (group.group_epoch, [each.instance_id for each in group.members]) == (before + 1, ["Y"])


@row("S02", f"{SUITE} 813, 822", since="4.4")
async def S02_a_bounce_gives_back_the_tasks(talk: Conversation) -> None:
    """After -2 the rejoin with a new or the same member id → same tasks, group epoch unchanged."""
    x, _ = await streams_group(talk, "X", "Y")
    before, tasks = (await described(talk)).group_epoch, x.tasks
    await x.beat(AWAY)
    new = await Thread(talk, "X", process=x.process).join()
    assert (new.tasks, new.epoch) == (tasks, before)
    await new.beat(AWAY)
    same = await Thread(talk, "X", process=x.process, member=new.member).join()
    assert (same.tasks, (await described(talk)).group_epoch) == (tasks, before)


@row("S03", f"{SUITE} 499, 567, 1319", since="4.4")
async def S03_another_process_or_rack_bumps_the_epoch(talk: Conversation) -> None:
    """Rejoin with another process id → group epoch + 1; the same → none; another rack → + 1."""
    x, _ = await streams_group(talk, "X", "Y")
    before = (await described(talk)).group_epoch
    await x.beat(AWAY)
    moved = await Thread(talk, "X", process="elsewhere").join()
    assert (await described(talk)).group_epoch == before + 1
    await moved.beat(AWAY)
    racked = Thread(talk, "X", process="elsewhere")
    assert (await racked.beat(0, rack_id="r9")).error_code is E.NONE
    assert (await described(talk)).group_epoch == before + 2


@row("S05", f"{SUITE} 1752", since="4.4")
async def S05_the_session_ends_while_away(talk: Conversation) -> None:
    """-2, session over → removed, group epoch + 1."""
    assert (await talk.set_config(streams_session_timeout_ms=2_000)).error_code is E.NONE
    await _applied()
    thread = await Thread(talk, "X").join()
    before = (await described(talk)).group_epoch
    await thread.beat(AWAY)

    async def gone() -> bool:
        return not (await described(talk)).members

    await talk.until(gone)
    assert (await described(talk)).group_epoch == before + 1


async def _applied() -> None:
    await asyncio.sleep(0.5)


@row("S06", f"{SUITE} 91, 280, 1631, 1655, 129, 182, 234", since="4.4")
async def S06_unknown_members_and_held_ids(talk: Conversation) -> None:
    """Unknown X leaves → UNKNOWN; foreign id FENCED; a held X joins → UNRELEASED; epoch ahead → FENCED_MEMBER_EPOCH."""
    x, _ = await streams_group(talk, "X", "Y")
    for epoch in (LEAVE, AWAY):
        assert (await Thread(talk, "unknown").beat(epoch)).error_code is E.UNKNOWN_MEMBER_ID
        assert (await Thread(talk, "X").beat(epoch)).error_code is E.FENCED_INSTANCE_ID
    assert (await Thread(talk, "X").beat(x.epoch)).error_code is E.FENCED_INSTANCE_ID
    assert (await Thread(talk, "X").beat(0)).error_code is E.UNRELEASED_INSTANCE_ID
    assert (await x.beat(x.epoch + 1)).error_code is E.FENCED_MEMBER_EPOCH
    assert (await Thread(talk).beat(AWAY)).error_code is E.INVALID_REQUEST
    assert (await x.beat()).error_code is E.NONE


@row("S06", f"{SUITE}: a full group", since="4.4")
async def S06_a_full_group(talk: Conversation) -> None:
    """Full: a new member → GROUP_MAX_SIZE_REACHED, a returning one → NONE."""
    threads = await streams_group(talk, *(f"X{i}" for i in range(MAX_SIZE)))
    assert (await Thread(talk, "Y").beat(0)).error_code is E.GROUP_MAX_SIZE_REACHED
    await threads[0].beat(AWAY)
    assert (await Thread(talk, "X0", process=threads[0].process).beat(0)).error_code is E.NONE


@row("N23", "GroupMetadataManagerTest.testLeaveGroup on a streams group", since="4.4")
async def N23_leave_group_does_not_know_streams_members(talk: Conversation) -> None:
    """LeaveGroup on a streams group → every member UNKNOWN_MEMBER_ID; the members stay."""
    x, y = await streams_group(talk, "X", "Y")
    entries = [("", "X"), (y.member, "Y"), (x.member, None)]
    assert await talk.leave(*entries) == [E.UNKNOWN_MEMBER_ID] * 3
    assert len((await described(talk)).members) == 2


@row("N23", "a classic join into a streams group", since="4.4")
async def N23_other_protocols_are_refused_by_a_streams_group(talk: Conversation) -> None:
    """JoinGroup into a non-empty streams group → INCONSISTENT_GROUP_PROTOCOL; ConsumerGroupHeartbeat is refused too."""
    await streams_group(talk, "X")
    assert (await talk.join("Y")).error_code is E.INCONSISTENT_GROUP_PROTOCOL
    assert (await talk.beat("m", 0)).error_code is not E.NONE
    assert await talk.group_type() == "streams"


@row("N23", "GroupMetadataManagerTest.testLeaveGroup on a share group", since="4.4")
async def N23_leave_group_does_not_know_share_members(talk: Conversation) -> None:
    """LeaveGroup on a share group → UNKNOWN_MEMBER_ID; -1 by heartbeat removes; -2 is INVALID_REQUEST."""

    async def beat(epoch: int, **fields: Any) -> int:
        body = {"group_id": talk.group, "member_id": "m1", "member_epoch": epoch, **fields}
        return int((await talk.call(Api.SHARE_GROUP_HEARTBEAT, 1, **body))["error_code"])

    assert await beat(0, subscribed_topic_names=("orders",)) == E.NONE
    assert await talk.group_type() == "share"
    assert await talk.leave(("m1", None)) == [E.UNKNOWN_MEMBER_ID]
    assert await beat(-2) == E.INVALID_REQUEST
    assert await beat(-1) == E.NONE
    assert await beat(-1) == E.UNKNOWN_MEMBER_ID
