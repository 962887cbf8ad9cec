"""What a broker reads off a request before its coordinator sees it, and what it notes of a removal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coordinator_model.base.config_messages import AlterGroupConfigRequest
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import DescribeGroupsRequest, EpochDescribeRequest, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedLeave:
    """One member of a LeaveGroup or a leaving heartbeat at the moment in which the coordinator decided on it.

    Parameters
    ----------
    client: name of the link that the request came over.
    member_id: of the member concerned, also when the request named only the instance id; "" when there was none.
    error_code: NONE: the member was removed at `at_s`.
    """

    at_s: float
    client: str
    group_id: str
    member_id: str
    instance_id: str | None
    error_code: ErrorCode


def group_of(request: Any) -> str:
    """Return the group that a request concerns; of a describe the first."""
    if isinstance(request, DescribeGroupsRequest):
        return request.groups[0]
    if isinstance(request, EpochDescribeRequest):
        return request.group_ids[0]
    return str(getattr(request, "group_id", ""))


def operation(request: Request) -> str:
    """Return the right on the group that a request needs (KafkaApis)."""
    if isinstance(request, DescribeGroupsRequest | EpochDescribeRequest):
        return "DESCRIBE"
    return "ALTER_CONFIGS" if isinstance(request, AlterGroupConfigRequest) else "READ"


def java_hash(text: str) -> int:
    """Return String.hashCode without its sign."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value
