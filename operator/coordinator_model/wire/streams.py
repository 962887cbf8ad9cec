"""Heartbeats and descriptions of streams groups off the wire and back.

Source: StreamsGroupHeartbeat (v0, as far as kio knows it), StreamsGroupDescribe.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..base import messages as m
from ..streams import messages as streams
from .codec import Body
from .values import TopicIds, alike, flat

ROLES = ("active_tasks", "standby_tasks", "warmup_tasks")


def streams_heartbeat(body: Body, common: Body, _ids: TopicIds) -> Sequence[m.Request]:
    """Read StreamsGroupHeartbeat; a subtopology with changelog topics is stateful."""
    tasks = {role: _task_ids(body[role]) for role in ROLES}
    tags = body["client_tags"]
    more = {
        "group_instance_id": body["instance_id"],
        "topology": _topology(body["topology"]),
        "client_tags": None if tags is None else tuple((tag["key"], tag["value"]) for tag in tags),
    }
    return [alike(streams.StreamsGroupHeartbeatRequest, body, **common, **tasks, **more)]


def _topology(body: Body | None) -> streams.Topology | None:
    if body is None:
        return None
    parts = (
        streams.Subtopology(s["subtopology_id"], tuple(s["source_topics"]), bool(s["state_changelog_topics"]))
        for s in body["subtopologies"]
    )
    return streams.Topology(body["epoch"], tuple(parts))


def _task_ids(rows: Iterable[Body] | None) -> streams.TaskIds | None:
    if rows is None:
        return None
    return tuple(sorted((row["subtopology_id"], tuple(sorted(row["partitions"]))) for row in rows))


def _wire_tasks(tasks: streams.TaskIds | None) -> list[Body] | None:
    return None if tasks is None else [{"subtopology_id": name, "partitions": p} for name, p in tasks]


def _by_role(held: Any) -> Body:
    return {role: _wire_tasks(getattr(held, role)) for role in ROLES}


def streams_heartbeat_answer(_version: int, _asked: Body, answers: Sequence[Any], _ids: TopicIds) -> Body:
    """Write the answer to StreamsGroupHeartbeat."""
    answer = answers[0]
    status = [{"status_code": int(code), "status_detail": detail} for code, detail in answer.status]
    return {**flat(answer), **_by_role(answer), "status": status}


def streams_describe_answer(_version: int, _asked: Body, answers: Sequence[Any], _ids: TopicIds) -> Body:
    """Write the answer to StreamsGroupDescribe; the topology is left out."""

    def member(each: streams.StreamsGroupDescribedMember) -> Body:
        both = {"assignment": _by_role(each.assignment), "target_assignment": _by_role(each.target_assignment)}
        return {**flat(each), **both}

    groups = [{**flat(g), "topology": None, "members": [member(each) for each in g.members]} for g in answers[0].groups]
    return {"groups": groups}
