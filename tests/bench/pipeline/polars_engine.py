"""The work in polars: one sort of 64-bit numbers, then each row compared with the two below it.

The one idea: after a sort by member and time, "the next row of the member" is a shift; no grouping is needed. Text is
hashed while the files are read, and only copied records are put in order, as in the DuckDB engine.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from bench.pipeline.events import AS_OF_MS
from bench.pipeline.job import RESULT, Engine, Task, own_cpu_s


def ready(task: Task) -> Engine:
    """Return the work, bound to this many threads."""
    os.environ["POLARS_MAX_THREADS"] = str(task.cores)
    import polars as pl

    def work(result: Path) -> None:
        facts = _facts(pl, pl.scan_parquet(task.folder / "events" / "*.parquet")).collect()
        copied = facts.group_by("fact").len().filter(pl.col("len") > 1).select("fact")
        first = facts.join(copied, on="fact", how="semi").sort("observed_at_ms").unique("fact", keep="first")
        once = pl.concat([facts.join(copied, on="fact", how="anti"), first])
        del facts
        windows = pl.read_parquet(task.folder / "blind_windows.parquet")
        _per_group(pl, _seen(pl, _paired(pl, once.lazy()), windows)).collect().write_parquet(result)

    return Engine(work=work, cpu_s=own_cpu_s)


def _facts(pl: Any, events: Any) -> Any:
    kind = pl.col("kind")
    is_removal = (kind == "member.removed") & (pl.col("outcome") == "Removed")
    rank = pl.when(kind == "member.down").then(0).when(kind == "member.up").then(2).otherwise(1)
    bound = pl.when(kind == "member.down").then("time_lo_ms").otherwise("time_hi_ms")
    wanted = (pl.col("event_ms") <= AS_OF_MS) & (kind.is_in(["member.down", "member.up"]) | is_removal)
    return events.filter(wanted).select(
        "member_key",
        "group_key",
        pl.col("k8s_cluster_uid").cast(pl.Categorical),
        "observed_at_ms",
        "source_time_ms",
        "restart_count",
        (pl.col("event_ms") * 4 + rank).alias("packed"),
        pl.struct("pod_uid", "restart_count").hash().alias("run"),
        pl.struct("source", "event_id").hash().alias("fact"),
        pl.coalesce(bound, "observed_at_ms").alias("operator_ms"),
    )


def _paired(pl: Any, once: Any) -> Any:
    ordered = once.sort("member_key", "packed", "restart_count", "fact")

    def after(name: str, steps: int) -> Any:
        is_same = pl.col("member_key").shift(-steps) == pl.col("member_key")
        return pl.when(is_same).then(pl.col(name).shift(-steps)).alias(f"{name}_{steps}")

    followed = ordered.with_columns(
        after(name, steps) for name in ("packed", "run", "source_time_ms", "operator_ms") for steps in (1, 2)
    ).filter(pl.col("packed") % 4 == 0)
    own_start = (pl.col("packed_1") == pl.col("packed") + 2) & (pl.col("run_1") == pl.col("run"))
    follows = (pl.col("packed_2") == pl.col("packed_1") + 2) & (pl.col("run_2") == pl.col("run_1"))
    second = own_start.fill_null(False) | ((pl.col("packed_1") % 4 == 0) & follows).fill_null(False)
    following = followed.with_columns(
        pl.when(second).then(f"{name}_2").otherwise(f"{name}_1").alias(f"next_{name}")
        for name in ("packed", "source_time_ms", "operator_ms")
    )
    down, then = pl.col("packed") // 4, pl.col("next_packed")
    is_open = then.is_null()
    gap = (
        pl.when(is_open)
        .then(AS_OF_MS - down)
        .when(then % 4 == 0)
        .then(0)
        .when(pl.col("source_time_ms").is_not_null() & pl.col("next_source_time_ms").is_not_null())
        .then(pl.col("next_source_time_ms") - pl.col("source_time_ms"))
        .otherwise(pl.col("next_operator_ms") - pl.col("operator_ms"))
    )
    kinds = pl.when(is_open).then(3).otherwise(then % 4)
    return following.select(
        "group_key",
        "k8s_cluster_uid",
        down.alias("down_ms"),
        pl.max_horizontal(gap, 0).alias("gap_ms"),
        kinds.alias("end"),
    )


def _seen(pl: Any, paired: Any, windows: Any) -> Any:
    """Look for the first window that each outage meets; a cluster's windows become columns of its rows."""
    number = pl.col("start_ms").rank("ordinal").over("k8s_cluster_uid") - 1
    wide = windows.with_columns(number.alias("n")).pivot("n", index="k8s_cluster_uid", values=["start_ms", "end_ms"])
    wide = wide.with_columns(pl.col("k8s_cluster_uid").cast(pl.Categorical)).lazy()
    most = windows.group_by("k8s_cluster_uid").len()["len"].max()
    until = pl.when(pl.col("end") == 3).then(AS_OF_MS).otherwise(pl.col("down_ms") + pl.col("gap_ms"))
    met = [
        pl.when((pl.col("down_ms") < pl.col(f"end_ms_{n}")) & (until > pl.col(f"start_ms_{n}"))).then(f"start_ms_{n}")
        for n in range(most)
    ]
    joined = paired.join(wide, on="k8s_cluster_uid", how="left").with_columns(pl.coalesce(*met).alias("blind_ms"))
    is_blind = pl.col("blind_ms").is_not_null()
    since = pl.max_horizontal(pl.col("blind_ms") - pl.col("down_ms"), 0)
    return joined.with_columns(
        pl.when(is_blind).then(0).otherwise("end").alias("end"),
        pl.when(is_blind).then(since).otherwise("gap_ms").alias("gap_ms"),
    )


def _per_group(pl: Any, rows: Any) -> Any:
    ends = {"blind": 0, "removed": 1, "returned": 2, "open": 3}
    return (
        rows.group_by("group_key")
        .agg(
            pl.len().cast(pl.Int64).alias("downs"),
            *((pl.col("end") == code).sum().cast(pl.Int64).alias(name) for name, code in ends.items()),
            pl.col("gap_ms").sum(),
            pl.col("gap_ms").max().alias("gap_ms_max"),
        )
        .select(*RESULT)
    )
