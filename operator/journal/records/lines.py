"""Wrap facts in their envelopes, write them as lines, and read lines without believing them.

The one idea: a line that is no record says why: the reason of its quarantine. Sources: CloudEvents 1.0
(structured JSON format); RFC 8259; RFC 3339.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

from pydantic import ValidationError

from .facts import BY_TYPE, RECORD_BY_TYPE, TEXT_MAX, CoverageBeat, Data, GroupData, Record, schema_id, type_of

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SCOPE_MAX: Final = 200
"""It stands in every record."""
_OBSERVATION: Final = frozenset(Data.model_fields)


class Defect(StrEnum):
    """Name why a line is no record; the value is a reason of quarantine."""

    NOT_JSON = "NotJson"
    NOT_AN_EVENT = "NotAnEvent"
    UNKNOWN_TYPE = "UnknownType"
    INVALID = "Invalid"


class JournalError(ValueError):
    """A line is not a journal record.

    Parameters
    ----------
    defect: why.
    detail: which field, without repeating its value.
    """

    def __init__(self, defect: Defect, detail: str = "") -> None:
        super().__init__(f"{defect.value}: {detail}" if detail else defect.value)
        self.defect = defect
        self.detail = detail


def short(text: str, most: int = TEXT_MAX) -> str:
    """Keep a text within its bound, and two long ones apart: a very long one ends in a digest."""
    if len(text) <= most:
        return text
    mark = f"#{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
    return text[: most - len(mark)] + mark


def timestamp(unix_ms: int) -> str:
    """Write Unix milliseconds as RFC 3339 in UTC with three decimals, as the attribute `time` has it."""
    moment = _EPOCH + timedelta(milliseconds=unix_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def watch_scope_of(namespaces: Collection[str]) -> str:
    """Return what the records of an operator say of the namespaces that it serves.

    Parameters
    ----------
    namespaces: their names; empty for all.

    Returns
    -------
    The same text for the same namespaces, in whatever order; a digest where that takes more than `SCOPE_MAX`
    characters.
    """
    text = ",".join(sorted(set(namespaces)))
    return text if len(text) <= SCOPE_MAX else f"sha256:{sha256(text.encode()).hexdigest()}"


def group_record(k8s_cluster_uid: str, fact_id: str, data: GroupData) -> Record[GroupData]:
    """Wrap a fact about a group in its envelope.

    Parameters
    ----------
    k8s_cluster_uid: UID of the namespace kube-system.
    fact_id: derived from the fact, the same for every operator.
    """
    key = f"{data.kafka_cluster_id}/{data.group_id}"
    instance_id = getattr(data, "instance_id", None)
    source = f"/k8s/{k8s_cluster_uid}/ns/{data.namespace}/staticgroup/{data.static_group}"
    return Record[GroupData].model_construct(
        id=fact_id,
        source=source,
        subject=f"{key}/{instance_id}" if instance_id else key,
        partitionkey=key,
        **_of_every_record(data),
    )


def beat_record(k8s_cluster_uid: str, data: CoverageBeat) -> Record[CoverageBeat]:
    """Wrap a beat in its envelope; its id holds the operator and its clock."""
    who = f"{k8s_cluster_uid}/{data.operator_id}"
    return Record[CoverageBeat].model_construct(
        id=f"{who}/{data.observed_at_ms}/beat",
        source=f"/k8s/{k8s_cluster_uid}/operator/{data.operator_id}",
        subject=who,
        partitionkey=who,
        **_of_every_record(data),
    )


def _of_every_record(data: Data) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "datacontenttype": "application/json",
        "type": type_of(type(data)),
        "time": timestamp(data.observed_at_ms),
        "dataschema": schema_id(type(data)),
        "data": data,
    }


def write(record: Record[Data]) -> str:
    """Write a record as one line of ASCII JSON, without the line's end."""
    envelope = {name: getattr(record, name) for name in Record.model_fields if name != "data"}
    envelope |= record.model_extra or {}
    envelope["data"] = record.data.model_dump(mode="python")
    return json.dumps(envelope, separators=(",", ":"), allow_nan=False)


def read(line: str | bytes) -> Record[Data]:
    """Read one line.

    Returns
    -------
    The record, its data of the class that `BY_TYPE` names; fields it does not know are in `model_extra`.

    Raises
    ------
    JournalError: the line is not JSON, no CloudEvent, of a type this version does not know, or breaks its schema.
    """
    try:
        event = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise JournalError(Defect.NOT_JSON) from error
    if not isinstance(event, dict) or event.get("specversion") != "1.0" or not isinstance(event.get("type"), str):
        raise JournalError(Defect.NOT_AN_EVENT)
    model = RECORD_BY_TYPE.get(event["type"])
    if model is None:
        raise JournalError(Defect.UNKNOWN_TYPE, event["type"][:TEXT_MAX])
    try:
        record = model.model_validate(event)
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False, include_context=False)
        where = "; ".join(f"{'.'.join(str(p) for p in e['loc'])}: {e['msg']}" for e in problems)
        raise JournalError(Defect.INVALID, where[:TEXT_MAX]) from error
    if record.dataschema != schema_id(BY_TYPE[record.type]):
        raise JournalError(Defect.INVALID, "dataschema: it is not the schema of this type")
    return record


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON (RFC 8259)")


def fact_of(record: Record[Data]) -> dict[str, Any]:
    """Return what a record says without when and by which operator it was observed."""
    return {k: v for k, v in record.data.model_dump(mode="python").items() if k not in _OBSERVATION}
