"""Journal records for pipeline tests: written by the product's own classes, one builder for each fact."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from journal import records as journal

T0_MS = 1_700_000_000_000
CLUSTER = "k8s-1"


def group(group_id: str, observed_at_ms: int, seq: int = 0, **more: Any) -> dict[str, Any]:
    """Return the common data of every record about a group."""
    return {
        "operator_id": "op-1", "seq": seq, "observed_at_ms": observed_at_ms, "kafka_cluster_id": "kafka-1",
        "group_id": group_id, "namespace": "shop", "static_group": group_id, "workload": group_id,
        "protocol": "Classic", **more,
    }  # fmt: skip


def change(
    kind: str, group_id: str, ordinal: int, run: int, at_ms: int, *, source: bool = True,
    bounds: tuple[int | None, int | None] = (None, None), pod: str = "", **more: Any,
) -> str:  # fmt: skip
    """Return a `member.down` or `member.up` of the run `run` of a pod, as one line."""
    pod_uid = pod or f"{group_id}-{ordinal}"
    model = journal.MemberDown if kind == "down" else journal.MemberUp
    data = model(
        **group(group_id, at_ms + 100, **more),
        source_time_ms=at_ms if source else None, time_lo_ms=bounds[0], time_hi_ms=bounds[1],
        instance_id=f"{group_id}-{ordinal}", pod_name=f"{group_id}-{ordinal}", pod_uid=pod_uid, restart_count=run,
        node_name="node-1", reason="Error" if kind == "down" else "", session_timeout_ms=45_000,
    )  # fmt: skip
    return journal.write(journal.group_record(CLUSTER, f"{pod_uid}/{run}/{kind}", data))


def back(group_id: str, ordinal: int, run: int, at_ms: int, *, absorbed: bool = True, **more: Any) -> str:
    """Return a `member.rejoined` seen between two reads a second apart, as one line."""
    data = journal.MemberRejoined(
        **group(group_id, at_ms, **more),
        time_lo_ms=at_ms - 1_000, time_hi_ms=at_ms, instance_id=f"{group_id}-{ordinal}",
        member_id=f"{group_id}-{ordinal}-m{run}", absorbed=absorbed, members=3, partitions_total=12,
    )  # fmt: skip
    return journal.write(journal.group_record(CLUSTER, f"{group_id}-{ordinal}-m{run}/rejoined", data))


def removed(group_id: str, ordinal: int, at_ms: int, number: int = 0, **more: Any) -> str:
    """Return a `member.removed` that worked, as one line."""
    data = journal.MemberRemoved(
        **group(group_id, at_ms, **more),
        instance_id=f"{group_id}-{ordinal}", member_id=f"{group_id}-{ordinal}-{number}", certificates=["uid E1"],
        outcome="Removed",
    )  # fmt: skip
    return journal.write(journal.group_record(CLUSTER, f"{group_id}-{ordinal}-{number}/removed", data))


def rebalanced(group_id: str, epoch: int, at_ms: int, **more: Any) -> str:
    """Return a `group.rebalanced`, as one line."""
    data = journal.GroupRebalanced(**group(group_id, at_ms, **more), group_epoch=epoch, members=3, partitions_total=12)
    return journal.write(journal.group_record(CLUSTER, f"{group_id}/{epoch}/rebalanced", data))


def beat(
    at_ms: int, *, operator_id: str = "op-1", epoch: str = "e", seq: int = 0, interval_ms: int = 30_000, **more: Any
) -> str:
    """Return a coverage beat, as one line."""
    data = journal.CoverageBeat(
        operator_id=operator_id, seq=seq, observed_at_ms=at_ms, static_groups=1, watch_epoch=epoch,
        interval_ms=interval_ms, **more,
    )  # fmt: skip
    return journal.write(journal.beat_record(CLUSTER, data))


def write_file(path: Path, lines: Iterable[str]) -> None:
    """Append lines to a journal file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)


def events_frame(spark: Any, lines: Sequence[str | bytes | None], partitions: int = 2) -> Any:
    """Return bronze/events of these lines."""
    from fleet_learner import schemas

    rows = [
        (None if line is None else bytearray(line if isinstance(line, bytes) else line.encode()), "t", 0, n, n, None)
        for n, line in enumerate(lines)
    ]
    return spark.createDataFrame(rows, schemas.EVENTS.spark_nullable).repartition(partitions)
