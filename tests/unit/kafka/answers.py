"""Answers of brokers, made of the schemas of their messages."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from staticgroup.kafka.wire import Api


def leave_answer(version: int, top: int, rows: Any) -> Any:
    members = tuple(
        element(Api.LEAVE_GROUP, version, "members", member_id=m, group_instance_id=i, error_code=code)
        for m, i, code in rows
    )
    return respond(Api.LEAVE_GROUP, version, error_code=top, members=members)


def encode(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def respond(api: Api, version: int, **values: Any) -> Any:
    return fill(load_response_schema(int(api), version), throttle_time=timedelta(0), **values)


def altered(version: int, request: Any, error_code: int) -> Any:
    """Answer every resource of an IncrementalAlterConfigs alike."""
    api = Api.INCREMENTAL_ALTER_CONFIGS
    rows = tuple(
        element(
            api, version, "responses", error_code=error_code, error_message=None, resource_type=r.resource_type,
            resource_name=r.resource_name,
        )
        for r in request.resources
    )  # fmt: skip
    return respond(api, version, responses=rows)


def released(version: int, code: int, member_id: str = "m-0") -> Any:
    """The answer to a temporary leave."""
    return respond(
        Api.CONSUMER_GROUP_HEARTBEAT, version, error_code=code, error_message=None, member_id=member_id, member_epoch=-2,
        heartbeat_interval=timedelta(0), assignment=None,
    )


def streams_left(version: int, code: int, member_id: str = "m-0") -> Any:
    """The answer to a leave from a streams group."""
    return respond(
        Api.STREAMS_GROUP_HEARTBEAT, version, error_code=code, error_message=None, member_id=member_id, member_epoch=-1,
        heartbeat_interval=timedelta(0), acceptable_recovery_lag=0, task_offset_interval=timedelta(0), status=None,
        active_tasks=None, standby_tasks=None, warmup_tasks=None, endpoint_information_epoch=0,
        partitions_by_user_endpoint=None,
    )


def element(api: Api, version: int, field_name: str, **values: Any) -> Any:
    return nested_element(api, version, (field_name,), **values)


def nested_element(api: Api, version: int, path: tuple[str, ...], **values: Any) -> Any:
    current: Any = load_response_schema(int(api), version)
    for name in path:
        current = current.__dataclass_fields__[name].type
        while hasattr(current, "__args__"):  # X | None, tuple[X, ...], tuple[X, ...] | None
            current = current.__args__[0]
    return fill(current, **values)


def fill(cls: Any, **values: Any) -> Any:
    if "error_code" in values:
        values["error_code"] = ErrorCode(values["error_code"])
    return cls(**{name: value for name, value in values.items() if name in cls.__dataclass_fields__})
