"""Generate member events by the million, as Arrow tables, for benchmarks of engines.

The one idea: only the shape that costs time matters: many members that restart again and again, string names beside
64-bit keys, very different group sizes, and a share of duplicates. Each chunk of members has its own random key, so any
process can generate it and the union is the same; both ends of an outage are in one chunk, in random order. Keys are
equal numbers for equal names, not `xxhash64`, so that every engine gets the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .truth import DAY_MS, START_MS

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_ROWS = 1_000_000
OUTAGES_PER_MEMBER = 25
MEMBERS_PER_GROUP_MEAN = 10
DUPLICATE_SHARE = 0.01
DAYS = 30
MIX = np.uint64(0x9E3779B97F4A7C15)


def member_events(rows: int, *, seed: int = 1, chunk_rows: int = CHUNK_ROWS) -> Iterator[pa.Table]:
    """Generate events.

    Parameters
    ----------
    rows: total, including duplicates; rounded down to whole outages in each chunk.
    seed: the same seed, rows and chunk_rows give the same tables.
    chunk_rows: maximum rows of a table.

    Yields
    ------
    pyarrow.Table
        kafka_cluster_id, group_id, instance_id, event_id, kind: string; event_ms, group_key, member_key: int64. No
            member and no group spans tables.
    """
    for chunk, begin in enumerate(range(0, rows, chunk_rows)):
        yield _chunk(min(chunk_rows, rows - begin), seed, chunk)


def _chunk(rows: int, seed: int, chunk: int) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    rng = np.random.Generator(np.random.Philox(key=[seed, chunk]))
    copies = int(rows * DUPLICATE_SHARE)
    outages = (rows - copies) // 2
    members = max(outages // OUTAGES_PER_MEMBER, 1)
    group_of = _groups(members, rng)
    member = rng.integers(0, members, outages)
    down = START_MS + rng.integers(0, DAYS * DAY_MS, outages)
    gap = np.maximum(25_000 * np.exp(0.5 * rng.standard_normal(outages)), 500).astype(np.int64)
    number = np.arange(outages)
    columns = {
        "member": np.concatenate((member, member)),
        "number": np.concatenate((number, number)),
        "is_up": np.concatenate((np.zeros(outages, dtype=bool), np.ones(outages, dtype=bool))),
        "event_ms": np.concatenate((down, down + gap)),
    }
    order = rng.permutation(2 * outages)
    order = np.concatenate((order, order[rng.integers(0, order.size, copies)])) if order.size else order
    columns = {name: values[order] for name, values in columns.items()}
    group = group_of[columns["member"]]

    def text(*parts: object) -> pa.Array:
        cast = [part.cast(pa.string()) if isinstance(part, pa.Array) else part for part in parts]
        return pc.binary_join_element_wise(*cast, "")

    kind = pc.if_else(pa.array(columns["is_up"]), "member.up", "member.down")
    group_name, member_name = pa.array(group), pa.array(columns["member"])
    return pa.table(
        {
            "kafka_cluster_id": text("kafka-", pa.array(group % 16)),
            "group_id": text(f"team-{chunk:04d}.group-", group_name),
            "instance_id": text(f"team-{chunk:04d}-", group_name, "-", member_name, ".0a1b2c3d"),
            "event_id": text(f"{chunk}-", pa.array(columns["number"]), "/", kind),
            "kind": kind,
            "event_ms": pa.array(columns["event_ms"]),
            "group_key": pa.array(_key(group, chunk, 1)),
            "member_key": pa.array(_key(columns["member"], chunk, 2)),
        }
    )


def _groups(members: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Assign members to groups of lognormal size: (members,) int64, the group of each."""
    sizes = np.maximum(np.exp(rng.normal(np.log(MEMBERS_PER_GROUP_MEAN) - 0.5, 1.0, members)), 1).astype(np.int64)
    return np.repeat(np.arange(members), sizes)[:members]


def _key(number: NDArray[np.int64], chunk: int, purpose: int) -> NDArray[np.int64]:
    """Mix a number into 64 bits (splitmix64's finaliser), different for every chunk and purpose."""
    mixed = number.astype(np.uint64) + np.uint64((chunk << 34) | (purpose << 32))
    with np.errstate(over="ignore"):
        mixed = (mixed + np.uint64(1)) * MIX
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (mixed ^ (mixed >> np.uint64(31))).astype(np.int64)
