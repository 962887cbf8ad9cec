"""How the shell says things: durations, partitions, records, answers."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any

from ..assignors.subscription import to_topic_partitions
from ..base.errors import ErrorCode
from ..base.messages import Response, TopicPartitions
from ..base.records import Record

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000}
_WIDTH = 140
_HIDDEN = frozenset({"error_code", "error_message", "members", "heartbeat_interval_ms", "protocol_type"})


def parse_duration_ms(text: str) -> int:
    """Return milliseconds of a duration such as 500ms, 5s, 1.5m or 2h.

    Raises
    ------
    ValueError: it is none.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h)", text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a duration; write 500ms, 5s, 1.5m or 2h")
    return round(float(match[1]) * _UNITS_MS[match[2]])


def seconds(duration_ms: int) -> str:
    """Return a time as seconds with three digits."""
    return f"{duration_ms / 1_000:.3f} s"


def partitions(owned: TopicPartitions) -> str:
    """Return partitions as `orders 0-2,5`; `-` for none."""
    return " ".join(f"{topic} {_ranges(numbers)}" for topic, numbers in owned) or "-"


def _ranges(numbers: tuple[int, ...]) -> str:
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ",".join("-".join(str(end) for end in part) for part in parts)


def record(entry: Record) -> str:
    """Return a record in one line; a tombstone says so."""
    key = " ".join(str(part) for part in entry.key)
    value = "deleted" if entry.value is None else brief(entry.value)
    return f"{entry.record_type.name} {key}: {value}"


def answer(response: Response) -> str:
    """Return what an answer says beyond that all is well; of a refusal only the error and its reason."""
    if response.error_code is not ErrorCode.NONE:
        new_id = getattr(response, "member_id", "") if response.error_code is ErrorCode.MEMBER_ID_REQUIRED else ""
        return ": ".join(part for part in (response.error_code.name, response.error_message or new_id) if part)
    fields = {f.name: getattr(response, f.name) for f in dataclasses.fields(response)}
    said = [f"{name} {brief(fields[name])}" for name in fields if name not in _HIDDEN and not _is_empty(fields[name])]
    inner = [
        f"{m.member_id or m.group_instance_id} {m.error_code.name}"
        for m in fields.get("members", ())
        if hasattr(m, "error_code")
    ]
    return ", ".join([response.error_code.name, *said, *inner])


def cut(line: str) -> str:
    """Return a line short enough for a terminal."""
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"


def brief(value: object) -> str:
    """Return a value in a short form that is the same in every run; fields that say nothing are left out."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if dataclasses.is_dataclass(value):
        parts = ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
        return "{" + ", ".join(f"{name} {brief(part)}" for name, part in parts if not _is_empty(part)) + "}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{brief(k)}: {brief(value[k])}" for k in sorted(value)) + "}"
    if isinstance(value, frozenset | tuple):
        return _several(value)
    return str(value)


def _several(values: frozenset[Any] | tuple[Any, ...]) -> str:
    """Return partitions or tasks as such, anything else as a list."""
    if values and isinstance(values, frozenset) and all(_is_pair(part, int) for part in values):
        return partitions(to_topic_partitions(values))
    if values and isinstance(values, tuple) and all(_is_pair(part, tuple) for part in values):
        return partitions(values)
    if isinstance(values, tuple) and _is_pair(values, int):
        return f"{values[0]} {values[1]}"
    return "[" + ", ".join(brief(part) for part in (sorted(values) if isinstance(values, frozenset) else values)) + "]"


def _is_pair(value: object, second: type) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], second)


def _is_empty(value: object) -> bool:
    return value is None or value is False or value in ("", (), -1, {}, frozenset())
