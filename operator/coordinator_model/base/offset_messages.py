"""Requests and answers about committed offsets."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import ErrorCode
from .messages import Request, Response


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest(Request):
    """OffsetCommit v0-10 (api 8); offsets are (topic, partition, offset)."""

    api_version: int = 10
    group_id: str
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    offsets: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponse(Response):
    """Answer to OffsetCommit: (topic, partition, error) for each; error_code is the one that all share, or NONE."""

    results: tuple[tuple[str, int, ErrorCode], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequest(Request):
    """TxnOffsetCommit v0-5 (api 28); generation -1 and member_id "" skip the membership check."""

    api_version: int = 5
    group_id: str
    producer_id: int = 0
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    offsets: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest(Request):
    """OffsetFetch v0-10 (api 9) of one group; partitions None: all; KIP-848 groups check the member fields."""

    api_version: int = 10
    group_id: str
    member_id: str | None = None
    member_epoch: int = -1
    partitions: tuple[tuple[str, int], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse(Response):
    """Answer to OffsetFetch: (topic, partition, offset); offset -1: nothing committed."""

    offsets: tuple[tuple[str, int, int], ...] = ()
