"""The log of a streams group: what random histories leave in it, refused writes, tombstones, commits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_model.assignors.subscription import to_topic_partitions
from coordinator_model.base.errors import ErrorCode, GroupError
from coordinator_model.base.image import TopicImage
from coordinator_model.base.records import Record, RecordType
from coordinator_model.streams.group import check_commit, check_fetch
from coordinator_model.streams.member import tasks_of
from coordinator_model.streams.messages import StreamsGroupHeartbeatResponse, TaskIds

from .streams_bench import GROUP, beat, coordinator, group, join, send

# properties ---------------------------------------------------------------------------------------------------------

steps = st.lists(
    st.tuples(
        st.sampled_from(["join", "beat", "beat", "beat", "silent", "leave", "away", "wait", "grow"]),
        st.sampled_from([("m1", "X"), ("m2", "Y"), ("m3", None), ("m4", None)]),
        st.sampled_from(["p", "q"]),
    ),
    max_size=40,
)


@settings(max_examples=80, derandomize=True, deadline=None)
@given(steps=steps, standbys=st.integers(0, 1))
def test_no_task_runs_twice_and_the_log_gives_the_state(
    steps: list[tuple[str, tuple[str, str | None], str]], standbys: int
) -> None:
    """KIP-1071: an active task has one owner at any moment; a fresh coordinator reads the same state from the log."""
    broker = coordinator(3, streams_num_standby_replicas=standbys)
    log: list[Record] = []
    owned: dict[str, TaskIds] = {}
    now_ms = 0
    for action, (member_id, instance_id), process_id in steps:
        now_ms += 100
        held = broker.groups[GROUP].members.get(member_id) if GROUP in broker.groups else None
        epoch = 0 if held is None else held.current.member_epoch
        if action == "join":
            result = broker.handle(join(member_id, process_id, group_instance_id=instance_id), now_ms)
        elif action in ("beat", "silent"):
            reported = None if action == "silent" or held is None else owned.get(member_id, ())
            standby = None if reported is None or held is None else to_topic_partitions(held.current.assigned.standby)
            tells = {"standby_tasks": standby, "group_instance_id": instance_id}
            result = broker.handle(beat(member_id, max(epoch, 1), reported, **tells), now_ms)
        elif action in ("leave", "away"):
            left = -2 if action == "away" and instance_id is not None else -1
            result = broker.handle(beat(member_id, left, group_instance_id=instance_id), now_ms)
        elif action == "grow":
            broker.image = broker.image.with_topic("foo", broker.image.partitions["foo"] + 1)
            continue
        else:
            now_ms += 20_000
            result = broker.expire(now_ms)
        log += result.records
        answer = result.response
        if isinstance(answer, StreamsGroupHeartbeatResponse) and answer.active_tasks is not None:
            owned[member_id] = answer.active_tasks
        if GROUP in broker.groups:
            runs = [task for m in group(broker).members.values() for task in m.current.assigned.active]
            assert len(runs) == len(set(runs))
    loaded = coordinator(3)
    loaded.replay(log)
    assert loaded.groups.keys() == broker.groups.keys()
    if GROUP in broker.groups:
        for name in ("members", "static_members", "targets", "topology", "metadata", "target_metadata", "state"):
            assert getattr(group(loaded), name) == getattr(group(broker), name)


# records ------------------------------------------------------------------------------------------------------------


def test_a_refused_write_leaves_nothing_and_is_tried_again() -> None:
    """testStreamsPartitionMetadataRefreshedAgainAfterWriteFailure."""
    broker = coordinator(2)
    broker.handle(join("m1"), 0)
    broker.write_error = ErrorCode.NOT_COORDINATOR
    broker.image = TopicImage({"foo": 3})
    before = (dict(group(broker).members), group(broker).metadata)
    assert send(broker, beat("m1", 2), 1).error_code is ErrorCode.NOT_COORDINATOR
    assert send(broker, join("m2"), 1).error_code is ErrorCode.NOT_COORDINATOR
    assert (group(broker).members, group(broker).metadata) == before
    broker.write_error = None
    assert send(broker, beat("m1", 2), 2).active_tasks == (("s", (0, 1, 2)),)


def test_tombstones_delete_the_group() -> None:
    """testReplayStreamsGroupEpochTombstoneExisting, StreamsGroupTest.testCreateGroupTombstoneRecords."""
    broker = coordinator()
    log = list(broker.handle(join("m1"), 0).records)
    log += broker.handle(beat("m1", -1), 1).records
    log += group(broker).tombstones()
    loaded = coordinator()
    loaded.replay(log)
    assert loaded.groups == {}


def test_compacted_log_without_the_member_record_is_read() -> None:
    """testReplayStreamsGroupCurrentMemberAssignmentWithCompaction."""
    broker = coordinator()
    log = [
        r for r in broker.handle(join("m1"), 0).records if r.record_type is not RecordType.STREAMS_GROUP_MEMBER_METADATA
    ]
    log += [
        Record(RecordType.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT, (GROUP, "gone"), None),
        Record(RecordType.STREAMS_GROUP_METADATA, ("other",), None),
    ]
    loaded = coordinator()
    loaded.replay(log)
    assert list(loaded.groups) == [GROUP]
    assert set(group(loaded).members["m1"].current.assigned.active) == tasks_of((("s", (0, 1, 2, 3)),))


# offsets ------------------------------------------------------------------------------------------------------------


def test_commits_of_an_older_epoch_pass_for_tasks_held_since() -> None:
    """StreamsGroupTest.testValidateOffsetCommit… (KIP-1251)."""
    broker = coordinator(2)
    broker.handle(join("m1"), 0)
    broker.handle(join("m2", "q"), 1)
    broker.handle(beat("m1", 2, (("s", (0, 1)),)), 2)
    broker.handle(beat("m1", 2, (("s", (0,)),)), 3)
    broker.handle(beat("m2", 3, ()), 4)
    app = group(broker)
    check_commit(app, "m1", 3, "foo", 0)
    check_commit(app, "m1", 2, "foo", 0)
    check_fetch(app, "m1", 3)
    check_fetch(app, None, -1)
    refusals = [("m1", 1, "foo", 0), ("m1", 4, "foo", 0), ("m1", 2, "foo", 1), ("m2", 2, "foo", 1), ("m1", 2, "bar", 0)]
    for member_id, epoch, topic, partition in refusals:
        with pytest.raises(GroupError, match="STALE_MEMBER_EPOCH"):
            check_commit(app, member_id, epoch, topic, partition)
    with pytest.raises(GroupError, match="UNKNOWN_MEMBER_ID"):
        check_commit(app, "", -1, "foo", 0)
    with pytest.raises(GroupError, match="STALE_MEMBER_EPOCH"):
        check_fetch(app, "m1", 2)
