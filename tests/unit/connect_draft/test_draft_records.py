"""The draft's records: they round-trip, and only what changed is written."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from connect_draft import records
from connect_draft.codec import decode_record, encode_key, encode_value
from connect_draft.messages import AlterConnectGroupConfigRequest
from connect_draft.records import DraftRecordType
from connect_draft.workers.assignors import DeclarativeAssignor, EagerDraftAssignor, TodaysAssignor
from connect_draft.workers.cluster import DraftCluster
from connect_draft.workers.worker import DraftWorker
from coordinator_model.base.errors import ErrorCode
from coordinator_model.connect.work import ConnectorsAndTasks, ConnectorTaskId

from .draft_bench import ALL, CONFIG, GROUP, beat, cluster_of, code, describe, join

texts = st.text(max_size=6)
int32 = st.integers(-(2**31), 2**31 - 1)
int16 = st.integers(-(2**15), 2**15 - 1)
int8 = st.integers(-128, 127)
works = st.builds(
    ConnectorsAndTasks.of, st.lists(texts, max_size=3), st.lists(st.builds(ConnectorTaskId, texts, int32), max_size=4)
)
assignors = st.builds(records.Assignor, texts, int16, int16, int8, int16, st.binary(max_size=200))
owners = st.tuples(texts, works)
VALUES: dict[DraftRecordType, st.SearchStrategy[records.Value]] = {
    DraftRecordType.GROUP_METADATA: st.builds(records.GroupMetadata, int32, texts),
    DraftRecordType.CONNECTORS_TASKS_METADATA: st.builds(
        records.ConnectorsTasksMetadata, int32, works, st.integers(-1, 9)
    ),
    DraftRecordType.MEMBER_METADATA: st.builds(
        records.MemberMetadata,
        int32,
        st.none() | texts,
        texts,
        texts,
        int32,
        st.lists(assignors, max_size=2).map(tuple),
        st.none()
        | st.builds(
            records.ClassicWorker, int32, st.lists(st.tuples(texts, st.binary(max_size=5)), max_size=2).map(tuple)
        ),
    ),
    DraftRecordType.TARGET_ASSIGNMENT: st.builds(
        records.TargetAssignment,
        int32,
        int8,
        st.lists(st.builds(records.TargetMember, texts, int8, works, int16, st.binary(max_size=5)), max_size=3).map(
            tuple
        ),
        st.lists(owners, max_size=2).map(tuple),
    ),
    DraftRecordType.CURRENT_MEMBER_ASSIGNMENT: st.builds(
        records.CurrentMemberAssignment, int32, int32, int8, works, works, int16, st.binary(max_size=5)
    ),
    DraftRecordType.GROUP_CONFIGURATION: st.builds(
        records.GroupConfiguration, st.lists(st.tuples(texts, texts), max_size=2).map(tuple)
    ),
}


@given(st.data(), st.sampled_from(DraftRecordType))
def test_item_83_records_round_trip(data: st.DataObject, record_type: DraftRecordType) -> None:
    """Every record type comes back from its bytes; a tombstone has none."""
    member_key = record_type in (DraftRecordType.MEMBER_METADATA, DraftRecordType.CURRENT_MEMBER_ASSIGNMENT)
    record = records.DraftRecord(record_type, ("g", "W1") if member_key else ("g",), data.draw(VALUES[record_type]))
    assert record.value is not None
    assert decode_record(encode_key(record_type, record.key), encode_value(record.value)) == record
    assert decode_record(encode_key(record_type, record.key), None) == replace(record, value=None)


def test_item_83_bytes() -> None:
    """Key: version and plain strings; value: version, big-endian fields, compact strings and tags."""
    assert encode_key(DraftRecordType.CURRENT_MEMBER_ASSIGNMENT, ("g", "W1")).hex(" ") == "00 07 00 01 67 00 02 57 31"
    assert encode_value(records.GroupMetadata(5, "W1")).hex(" ") == "00 00 00 00 00 05 03 57 31 00"
    assert [t.value for t in DraftRecordType] == [3, 4, 5, 6, 7, 8]


def test_item_83_only_what_changed_is_written() -> None:
    """X + 2 records make a group of X workers, and one more for what each runs; later only what changed is written."""
    cluster = DraftCluster()
    cluster.send(join("W1"))
    assert [r.record_type for r in cluster.log] == [
        DraftRecordType.MEMBER_METADATA,
        DraftRecordType.CONNECTORS_TASKS_METADATA,
        DraftRecordType.GROUP_METADATA,
        DraftRecordType.CURRENT_MEMBER_ASSIGNMENT,
    ]
    cluster = cluster_of("W1", "W2")
    before = len(cluster.log)
    beat(cluster, "W1")
    assert len(cluster.log) == before
    beat(cluster, "W2", member_epoch=-1)
    assert [(r.record_type, r.key, r.value is None) for r in cluster.log[before:]] == [
        (DraftRecordType.CURRENT_MEMBER_ASSIGNMENT, (GROUP, "W2"), True),
        (DraftRecordType.MEMBER_METADATA, (GROUP, "W2"), True),
        (DraftRecordType.GROUP_METADATA, (GROUP,), False),
    ]


def test_item_83_group_configuration() -> None:
    """Key 8: a group's own session timeout; it holds from the next heartbeat on, and across coordinators."""
    cluster = cluster_of("W1", "W2")
    config = AlterConnectGroupConfigRequest(group_id=GROUP, configs=(("connect.session.timeout.ms", "10000"),))
    assert code(cluster, config) is ErrorCode.NONE
    for bad in (("connect.session.timeout.ms", "soon"), ("session.timeout.ms", "1")):
        assert code(cluster, replace(config, configs=(bad,))) is ErrorCode.INVALID_CONFIG
    cluster.advance(11_000)
    assert len(describe(cluster).members) == 2
    beat(cluster, "W1")
    beat(cluster, "W2")
    cluster.fail_over()
    cluster.advance(9_999)
    assert len(describe(cluster).members) == 2
    cluster.advance(1)
    assert describe(cluster).group_state == "Empty"


def test_item_84_assignors_plug_in() -> None:
    """Eager, today's cooperative and the draft's assignor serve one interface and assign everything once."""
    for make in (EagerDraftAssignor, TodaysAssignor, DeclarativeAssignor):
        cluster = DraftCluster()
        for name in ("W1", "W2", "W3"):
            cluster.start(DraftWorker(name, make(), CONFIG))
            cluster.settle()
        running = cluster.running()
        assert ConnectorsAndTasks.union(running.values()).same_as(ALL)
        assert sum(len(work) for work in running.values()) == len(ALL)
        assert describe(cluster).assignor_name == make().name
