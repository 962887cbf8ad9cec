"""Group requests off the wire into the model's messages, and the model's answers back.

One idea: most fields have the same name on both sides and are copied by name; only what differs is written here
(topic ids instead of names, one group per message, the flat forms of old versions).
Source: the message schemas of Kafka 4.4 (clients/src/main/resources/common/message).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..base import messages as m
from ..base.offset_messages import OffsetCommitRequest, OffsetFetchRequest, TxnOffsetCommitRequest
from ..share import messages as share
from ..streams import messages as streams
from .codec import Api, Body
from .streams import streams_describe_answer, streams_heartbeat, streams_heartbeat_answer
from .values import TopicIds, alike, flat, named_partitions, wire_partitions

UNKNOWN_TOPIC_ID = 100


@dataclass(frozen=True, slots=True)
class Peer:
    """Who asks: the client id of the request header and the address of the connection."""

    client_id: str
    client_host: str


def to_requests(api: Api, version: int, body: Body, peer: Peer, ids: TopicIds) -> Sequence[m.Request]:
    """Return the model's requests for one request of the wire; several where the wire names several groups."""
    common = {"api_version": version, "client_id": peer.client_id, "client_host": peer.client_host}
    return _READ[api](body, common, ids)


def to_body(api: Api, version: int, asked: Body, answers: Sequence[m.Response], ids: TopicIds) -> Body:
    """Return the wire's answer for the model's answers to what was asked."""
    return _WRITE[api](version, asked, answers, ids)


# requests ----------------------------------------------------------------------------------------------------------


def _join(body: Body, common: Body, _: TopicIds) -> Sequence[m.Request]:
    protocols = tuple(m.Protocol(p["name"], p["metadata"]) for p in body["protocols"])
    if "rebalance_timeout_ms" not in body:  # v0 has one timeout for both
        body = {**body, "rebalance_timeout_ms": body["session_timeout_ms"]}
    return [alike(m.JoinGroupRequest, body, **common, protocols=protocols)]


def _sync(body: Body, common: Body, _: TopicIds) -> Sequence[m.Request]:
    assignments = tuple((a["member_id"], a["assignment"]) for a in body["assignments"])
    return [alike(m.SyncGroupRequest, body, **common, assignments=assignments)]


def _leave(body: Body, common: Body, _: TopicIds) -> Sequence[m.Request]:
    entries = body.get("members", [body])
    members = tuple(alike(m.MemberIdentity, each) for each in entries)
    return [m.LeaveGroupRequest(**common, group_id=body["group_id"], members=members)]


def _find(body: Body, common: Body, _: TopicIds) -> Sequence[m.Request]:
    keys = body.get("coordinator_keys", (body.get("key"),))
    return [m.FindCoordinatorRequest(**common, keys=tuple(keys), key_type=body.get("key_type", 0))]


def _commit(kind: type[m.Request]) -> Callable[[Body, Body, TopicIds], Sequence[m.Request]]:
    def read(body: Body, common: Body, ids: TopicIds) -> Sequence[m.Request]:
        named = ((t["name"] if "name" in t else ids.name(t["topic_id"]), t) for t in body["topics"])
        offsets = tuple(
            (name, p["partition_index"], p["committed_offset"])
            for name, topic in named
            if name is not None
            for p in topic["partitions"]
        )
        return [alike(kind, body, **common, offsets=offsets)]

    return read


def _offset_fetch(body: Body, common: Body, ids: TopicIds) -> Sequence[m.Request]:
    return [
        alike(OffsetFetchRequest, group, **common, partitions=_wanted(group["topics"], ids))
        for group in body.get("groups", [body])
    ]


def _wanted(topics: Iterable[Body] | None, ids: TopicIds) -> tuple[tuple[str, int], ...] | None:
    if topics is None:
        return None
    named = ((t["name"] if "name" in t else ids.name(t["topic_id"]), t["partition_indexes"]) for t in topics)
    return tuple((name, partition) for name, partitions in named if name is not None for partition in partitions)


def _consumer_heartbeat(body: Body, common: Body, ids: TopicIds) -> Sequence[m.Request]:
    owned = named_partitions(body["topic_partitions"], ids)
    more = {"group_instance_id": body["instance_id"], "topic_partitions": owned}
    return [alike(m.ConsumerGroupHeartbeatRequest, body, **common, **more)]


def _same(kind: type[m.Request]) -> Callable[[Body, Body, TopicIds], Sequence[m.Request]]:
    return lambda body, common, _: [alike(kind, body, **common)]


def _delete(body: Body, common: Body, _: TopicIds) -> Sequence[m.Request]:
    return [m.DeleteGroupsRequest(**common, group_ids=body["groups_names"])]


# responses ---------------------------------------------------------------------------------------------------------


def _as_is(_version: int, _asked: Body, answers: Sequence[Any], _ids: TopicIds) -> Body:
    body: Body = flat(answers[0])
    return body


def _join_answer(version: int, asked: Body, answers: Sequence[Any], ids: TopicIds) -> Body:
    body = _as_is(version, asked, answers, ids)
    if version < 7 and body["protocol_name"] is None:  # nullable since v7
        body["protocol_name"] = ""
    return body


def _find_answer(version: int, _asked: Body, answers: Sequence[Any], _ids: TopicIds) -> Body:
    found = [{**flat(each), "error_message": None} for each in answers[0].coordinators]
    return {"coordinators": found} if version >= 4 else found[0]


def _delete_answer(_version: int, _asked: Body, answers: Sequence[Any], _ids: TopicIds) -> Body:
    return {"results": [{"group_id": group, "error_code": int(code)} for group, code in answers[0].results]}


def _commit_answer(_version: int, asked: Body, answers: Sequence[Any], ids: TopicIds) -> Body:
    codes = {(topic, partition): int(code) for topic, partition, code in answers[0].results}

    def answer(topic: Body) -> Body:
        name = topic["name"] if "name" in topic else ids.name(topic["topic_id"])
        rows = [p["partition_index"] for p in topic["partitions"]]
        named: Body = {key: topic[key] for key in ("name", "topic_id") if key in topic}
        missing = int(answers[0].error_code) if name is not None else UNKNOWN_TOPIC_ID
        partitions = [{"partition_index": p, "error_code": codes.get((str(name), p), missing)} for p in rows]
        return {**named, "partitions": partitions}

    return {"topics": [answer(topic) for topic in asked["topics"]]}


def _offset_fetch_answer(version: int, asked: Body, answers: Sequence[Any], ids: TopicIds) -> Body:
    groups = [_fetched(group, answer, ids) for group, answer in zip(asked.get("groups", [asked]), answers, strict=True)]
    return {"groups": groups} if version >= 8 else groups[0]


def _fetched(group: Body, answer: Any, ids: TopicIds) -> Body:
    by_topic: dict[str, list[Body]] = {}
    for topic, partition, offset in answer.offsets:
        row = {"partition_index": partition, "committed_offset": offset, "metadata": "", "error_code": 0}
        by_topic.setdefault(topic, []).append(row)
    if answer.error_code and group["topics"]:  # before v8 the partitions carry the error
        for name, partition in _wanted(group["topics"], ids) or ():
            row = {"partition_index": partition, "committed_offset": -1, "error_code": int(answer.error_code)}
            by_topic.setdefault(name, []).append(row)
    topics = [{"name": name, "topic_id": ids.of(name), "partitions": rows} for name, rows in by_topic.items()]
    return {"group_id": group["group_id"], "error_code": int(answer.error_code), "topics": topics}


def _assigning_answer(_version: int, _asked: Body, answers: Sequence[Any], ids: TopicIds) -> Body:
    """Write the answer to the heartbeat of a consumer or share group."""
    answer = answers[0]
    assignment = None
    if answer.assignment is not None:
        assignment = {"topic_partitions": wire_partitions(answer.assignment, ids)}
    return {**flat(answer), "assignment": assignment}


def _consumer_describe_answer(_version: int, _asked: Body, answers: Sequence[Any], ids: TopicIds) -> Body:
    def member(each: m.ConsumerGroupDescribedMember) -> Body:
        return {
            **flat(each),
            "assignment": {"topic_partitions": wire_partitions(each.assignment, ids)},
            "target_assignment": {"topic_partitions": wire_partitions(each.target_assignment, ids)},
        }

    return {"groups": [{**flat(g), "members": [member(each) for each in g.members]} for g in answers[0].groups]}


_READ: dict[Api, Callable[[Body, Body, TopicIds], Sequence[m.Request]]] = {
    Api.JOIN_GROUP: _join,
    Api.SYNC_GROUP: _sync,
    Api.HEARTBEAT: _same(m.HeartbeatRequest),
    Api.LEAVE_GROUP: _leave,
    Api.FIND_COORDINATOR: _find,
    Api.DESCRIBE_GROUPS: _same(m.DescribeGroupsRequest),
    Api.LIST_GROUPS: _same(m.ListGroupsRequest),
    Api.DELETE_GROUPS: _delete,
    Api.OFFSET_COMMIT: _commit(OffsetCommitRequest),
    Api.TXN_OFFSET_COMMIT: _commit(TxnOffsetCommitRequest),
    Api.OFFSET_FETCH: _offset_fetch,
    Api.CONSUMER_GROUP_HEARTBEAT: _consumer_heartbeat,
    Api.CONSUMER_GROUP_DESCRIBE: _same(m.ConsumerGroupDescribeRequest),
    Api.STREAMS_GROUP_HEARTBEAT: streams_heartbeat,
    Api.STREAMS_GROUP_DESCRIBE: _same(streams.StreamsGroupDescribeRequest),
    Api.SHARE_GROUP_HEARTBEAT: _same(share.ShareGroupHeartbeatRequest),
}

_WRITE: dict[Api, Callable[[int, Body, Sequence[Any], TopicIds], Body]] = {
    Api.JOIN_GROUP: _join_answer,
    Api.SYNC_GROUP: _as_is,
    Api.HEARTBEAT: _as_is,
    Api.LEAVE_GROUP: _as_is,
    Api.FIND_COORDINATOR: _find_answer,
    Api.DESCRIBE_GROUPS: _as_is,
    Api.LIST_GROUPS: _as_is,
    Api.DELETE_GROUPS: _delete_answer,
    Api.OFFSET_COMMIT: _commit_answer,
    Api.TXN_OFFSET_COMMIT: _commit_answer,
    Api.OFFSET_FETCH: _offset_fetch_answer,
    Api.CONSUMER_GROUP_HEARTBEAT: _assigning_answer,
    Api.CONSUMER_GROUP_DESCRIBE: _consumer_describe_answer,
    Api.STREAMS_GROUP_HEARTBEAT: streams_heartbeat_answer,
    Api.STREAMS_GROUP_DESCRIBE: streams_describe_answer,
    Api.SHARE_GROUP_HEARTBEAT: _assigning_answer,
}
GROUP_APIS = frozenset(_READ)
