"""Translation of the model's messages into bodies of Kafka's protocol, and of answers back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from coordinator_model.base import messages as m
from coordinator_model.base.config_messages import AlterGroupConfigRequest, AlterGroupConfigResponse
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.offset_messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from coordinator_model.streams import messages as st
from coordinator_model.wire.codec import Api, Body

if TYPE_CHECKING:
    from .client import WireClient

    Build = Callable[[Any, int, WireClient], Body]
    Read = Callable[[Body, int, WireClient], m.Response]


def _flat(message: Any) -> Body:
    return {name: getattr(message, name) for name in message.__dataclass_fields__}


def _join(request: m.JoinGroupRequest, _version: int, _client: WireClient) -> Body:
    return {**_flat(request), "protocols": [_flat(p) for p in request.protocols]}


def _joined(body: Body, _version: int, _client: WireClient) -> m.Response:
    members = tuple(
        m.JoinGroupResponseMember(each["member_id"], each.get("group_instance_id"), each["metadata"])
        for each in body["members"]
    )
    return m.JoinGroupResponse(
        error_code=ErrorCode(body["error_code"]), generation_id=body["generation_id"],
        protocol_type=body.get("protocol_type"), protocol_name=body["protocol_name"], leader=body["leader"],
        skip_assignment=body.get("skip_assignment", False), member_id=body["member_id"], members=members,
    )


def _sync(request: m.SyncGroupRequest, _version: int, _client: WireClient) -> Body:
    rows = [{"member_id": member, "assignment": content} for member, content in request.assignments]
    return {**_flat(request), "assignments": rows}


def _synced(body: Body, _version: int, _client: WireClient) -> m.Response:
    return m.SyncGroupResponse(
        error_code=ErrorCode(body["error_code"]), protocol_type=body.get("protocol_type"),
        protocol_name=body.get("protocol_name"), assignment=body["assignment"],
    )


def _plain(request: m.Request, _version: int, _client: WireClient) -> Body:
    return _flat(request)


def _heartbeat(body: Body, _version: int, _client: WireClient) -> m.Response:
    return m.HeartbeatResponse(error_code=ErrorCode(body["error_code"]))


def _leave(request: m.LeaveGroupRequest, version: int, _client: WireClient) -> Body:
    if version < 3:
        (entry,) = request.members
        return {"group_id": request.group_id, "member_id": entry.member_id}
    return {"group_id": request.group_id, "members": [_flat(entry) for entry in request.members]}


def _left(body: Body, _version: int, _client: WireClient) -> m.Response:
    rows = body.get("members", ())
    members = tuple(
        m.MemberResponse(
            member_id=row["member_id"],
            group_instance_id=row["group_instance_id"],
            error_code=ErrorCode(row["error_code"]),
        )
        for row in rows
    )
    return m.LeaveGroupResponse(error_code=ErrorCode(body["error_code"]), members=members)


def _described(body: Body, _version: int, _client: WireClient) -> m.Response:
    groups = []
    for group in body["groups"]:
        members = tuple(
            m.DescribedMember(
                member_id=each["member_id"], group_instance_id=each.get("group_instance_id"),
                client_id=each["client_id"], client_host=each["client_host"], member_metadata=each["member_metadata"],
                member_assignment=each["member_assignment"],
            )
            for each in group["members"]
        )
        groups.append(
            m.DescribedGroup(
                group_id=group["group_id"], error_code=ErrorCode(group["error_code"]), group_state=group["group_state"],
                protocol_type=group["protocol_type"], protocol_data=group["protocol_data"], members=members,
            )
        )
    return m.DescribeGroupsResponse(groups=tuple(groups))


def _listed(body: Body, _version: int, _client: WireClient) -> m.Response:
    groups = tuple(
        m.ListedGroup(g["group_id"], g["protocol_type"], g.get("group_state", ""), g.get("group_type", ""))
        for g in body["groups"]
    )
    return m.ListGroupsResponse(error_code=ErrorCode(body["error_code"]), groups=groups)


def _delete(request: m.DeleteGroupsRequest, _version: int, _client: WireClient) -> Body:
    return {"groups_names": request.group_ids}


def _deleted(body: Body, _version: int, _client: WireClient) -> m.Response:
    return m.DeleteGroupsResponse(
        results=tuple((row["group_id"], ErrorCode(row["error_code"])) for row in body["results"])
    )


def _commit(request: OffsetCommitRequest, _version: int, _client: WireClient) -> Body:
    rows = [
        {"name": topic, "partitions": [{"partition_index": partition, "committed_offset": offset}]}
        for topic, partition, offset in request.offsets
    ]
    return {**_flat(request), "topics": rows}


def _committed(body: Body, _version: int, _client: WireClient) -> m.Response:
    results = tuple(
        (topic["name"], row["partition_index"], ErrorCode(row["error_code"]))
        for topic in body["topics"]
        for row in topic["partitions"]
    )
    codes = {code for _, _, code in results}
    shared = codes.pop() if len(codes) == 1 else ErrorCode.NONE
    return OffsetCommitResponse(error_code=shared, results=results)


def _offset_fetch(request: OffsetFetchRequest, version: int, _client: WireClient) -> Body:
    topics = None
    if request.partitions is not None:
        topics = [{"name": topic, "partition_indexes": (partition,)} for topic, partition in request.partitions]
    group = {
        "group_id": request.group_id, "member_id": request.member_id, "member_epoch": request.member_epoch,
        "topics": topics,
    }
    return {"groups": [group]} if version >= 8 else group


def _offsets(body: Body, version: int, _client: WireClient) -> m.Response:
    group = body["groups"][0] if version >= 8 else body
    offsets = tuple(
        (topic["name"], row["partition_index"], row["committed_offset"])
        for topic in group["topics"]
        for row in topic["partitions"]
    )
    return OffsetFetchResponse(error_code=ErrorCode(group["error_code"]), offsets=offsets)


def _consumer(request: m.ConsumerGroupHeartbeatRequest, _version: int, client: WireClient) -> Body:
    owned = request.topic_partitions
    rows = None if owned is None else [{"topic_id": client.id_of(name), "partitions": p} for name, p in owned]
    return {**_flat(request), "instance_id": request.group_instance_id, "topic_partitions": rows}


def _by_name(rows: Any, client: WireClient) -> m.TopicPartitions:
    return tuple(sorted((client.topic_ids[row["topic_id"]], tuple(sorted(row["partitions"]))) for row in rows))


def _consumed(body: Body, _version: int, client: WireClient) -> m.Response:
    assignment = body["assignment"]
    return m.ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode(body["error_code"]),
        error_message=body["error_message"],
        member_id=body["member_id"],
        member_epoch=body["member_epoch"],
        heartbeat_interval_ms=body["heartbeat_interval_ms"],
        assignment=None if assignment is None else _by_name(assignment["topic_partitions"], client),
    )


def _named(rows: Any) -> m.TopicPartitions:
    return tuple(sorted((row["topic_name"], tuple(sorted(row["partitions"]))) for row in rows))


def _consumer_described(body: Body, _version: int, _client: WireClient) -> m.Response:
    groups = []
    for group in body["groups"]:
        members = tuple(
            m.ConsumerGroupDescribedMember(
                **{
                    **{key: each[key] for key in ("member_id", "instance_id", "rack_id", "member_epoch", "client_id")},
                    "client_host": each["client_host"],
                    "subscribed_topic_names": tuple(sorted(each["subscribed_topic_names"])),
                    "subscribed_topic_regex": each["subscribed_topic_regex"] or None,
                    "assignment": _named(each["assignment"]["topic_partitions"]),
                    "target_assignment": _named(each["target_assignment"]["topic_partitions"]),
                    "member_type": each.get("member_type", -1),
                }
            )
            for each in group["members"]
        )
        groups.append(
            m.ConsumerGroupDescribedGroup(
                **{
                    **{key: group[key] for key in ("group_id", "group_state", "group_epoch", "assignment_epoch")},
                    "error_code": ErrorCode(group["error_code"]),
                    "assignor_name": group["assignor_name"],
                    "members": members,
                }
            )
        )
    return m.ConsumerGroupDescribeResponse(groups=tuple(groups))


def _alter(request: AlterGroupConfigRequest, _version: int, _client: WireClient) -> Body:
    rows = [{"name": n, "config_operation": 1 if v is None else 0, "value": v} for n, v in request.configs]
    return {"resources": [{"resource_type": 32, "resource_name": request.group_id, "configs": rows}]}


def _altered(body: Body, _version: int, _client: WireClient) -> m.Response:
    (row,) = body["responses"]
    return AlterGroupConfigResponse(error_code=ErrorCode(row["error_code"]), error_message=row["error_message"])


def _streams(request: st.StreamsGroupHeartbeatRequest, _version: int, _client: WireClient) -> Body:
    def tasks(held: st.TaskIds | None) -> list[Body] | None:
        return None if held is None else [{"subtopology_id": name, "partitions": p} for name, p in held]

    topology = None
    if request.topology is not None:
        parts = [{**_flat(part), "state_changelog_topics": ()} for part in request.topology.subtopologies]
        topology = {"epoch": request.topology.epoch, "subtopologies": parts}
    roles = ("active_tasks", "standby_tasks", "warmup_tasks")
    more = {"instance_id": request.group_instance_id, "topology": topology, "user_endpoint": None}
    tags = None if request.client_tags is None else [{"key": k, "value": v} for k, v in request.client_tags]
    held = {role: tasks(getattr(request, role)) for role in roles}
    return {**_flat(request), **held, **more, "client_tags": tags}


def _task_ids(rows: Any) -> st.TaskIds | None:
    if rows is None:
        return None
    return tuple(sorted((row["subtopology_id"], tuple(sorted(row["partitions"]))) for row in rows))


def _streamed(body: Body, _version: int, _client: WireClient) -> m.Response:
    return st.StreamsGroupHeartbeatResponse(
        error_code=ErrorCode(body["error_code"]), error_message=body["error_message"], member_id=body["member_id"],
        member_epoch=body["member_epoch"], heartbeat_interval_ms=body["heartbeat_interval_ms"],
        active_tasks=_task_ids(body["active_tasks"]), standby_tasks=_task_ids(body["standby_tasks"]),
        warmup_tasks=_task_ids(body["warmup_tasks"]),
    )


def _streams_described(body: Body, _version: int, _client: WireClient) -> m.Response:
    def tasks(held: Body) -> st.DescribedTasks:
        return st.DescribedTasks(**{role: _task_ids(rows) or () for role, rows in held.items()})

    groups = []
    for group in body["groups"]:
        names = ("member_id", "member_epoch", "instance_id", "rack_id", "client_id", "client_host", "topology_epoch")
        members = tuple(
            st.StreamsGroupDescribedMember(
                **{name: each[name] for name in (*names, "process_id")},
                assignment=tasks(each["assignment"]),
                target_assignment=tasks(each["target_assignment"]),
            )
            for each in group["members"]
        )
        shown = {key: group[key] for key in ("group_id", "group_state", "group_epoch", "assignment_epoch")}
        code = ErrorCode(group["error_code"])
        groups.append(st.StreamsGroupDescribedGroup(**shown, error_code=code, members=members))
    return st.StreamsGroupDescribeResponse(groups=tuple(groups))

TRANSLATIONS: Mapping[type[m.Request], tuple[Api, Build, Read]] = {
    m.JoinGroupRequest: (Api.JOIN_GROUP, _join, _joined),
    m.SyncGroupRequest: (Api.SYNC_GROUP, _sync, _synced),
    m.HeartbeatRequest: (Api.HEARTBEAT, _plain, _heartbeat),
    m.LeaveGroupRequest: (Api.LEAVE_GROUP, _leave, _left),
    m.DescribeGroupsRequest: (Api.DESCRIBE_GROUPS, _plain, _described),
    m.ListGroupsRequest: (Api.LIST_GROUPS, _plain, _listed),
    m.DeleteGroupsRequest: (Api.DELETE_GROUPS, _delete, _deleted),
    OffsetCommitRequest: (Api.OFFSET_COMMIT, _commit, _committed),
    OffsetFetchRequest: (Api.OFFSET_FETCH, _offset_fetch, _offsets),
    m.ConsumerGroupHeartbeatRequest: (Api.CONSUMER_GROUP_HEARTBEAT, _consumer, _consumed),
    m.ConsumerGroupDescribeRequest: (Api.CONSUMER_GROUP_DESCRIBE, _plain, _consumer_described),
    st.StreamsGroupHeartbeatRequest: (Api.STREAMS_GROUP_HEARTBEAT, _streams, _streamed),
    st.StreamsGroupDescribeRequest: (Api.STREAMS_GROUP_DESCRIBE, _plain, _streams_described),
    AlterGroupConfigRequest: (Api.INCREMENTAL_ALTER_CONFIGS, _alter, _altered),
}
"""Each message's API and translation; offsets go by topic name (below v10), KIP-848 by topic id."""
