"""Read the causes of all groups with Spark: silver/causes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fleet_learner.offsets.bytes import BadRecord
from fleet_learner.offsets.codec import decode
from fleet_learner.sources.offsets_topic import in_log_order

from .causes import Cause, Memberships
from .schemas import CAUSES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def causes(records: DataFrame) -> DataFrame:
    """Return what the records of groups prove, in the order of the log.

    Parameters
    ----------
    records: of this topic, with the columns of a Kafka source; all at once, because the members of a group are known
        only from its earlier records. Group records are few: later runs keep them.

    Returns
    -------
    silver/causes.
    """
    return in_log_order(records, _rows, CAUSES)


def _rows(record: Mapping[str, Any], state: dict[tuple[str, int], Memberships]) -> Iterator[dict[str, Any]]:
    fold = state.setdefault((record["topic"], record["partition"]), Memberships())
    try:
        decoded = decode(record["key"], record["value"])
    except BadRecord:
        return  # offsets_members counts it
    for index, cause in enumerate(fold.take(decoded, record["timestamp_ms"])):
        yield {
            "log_partition": record["partition"],
            "log_offset": record["offset"],
            "index": index,
            "at_ms": record["timestamp_ms"],
            **{name: _plain(getattr(cause, name)) for name in Cause.__dataclass_fields__},
        }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
