"""Write the restart history of a fleet as silver/member_events, as large as asked, in little memory.

The one idea: a file is a block of groups drawn from a key of its own (Philox, seed and number of the block), so a
history of 100 million events is made of the same blocks whatever the order, and is the same on every machine. Rows lie
in the order in which they were observed, so groups and members are thoroughly mixed and no engine finds them sorted.

In it: a group of up to 10,000 members that holds a few per cent of the events, copies of records by a second operator,
facts known only between two looks, returns that were never seen, removals, ends and starts within one second, events
after the end of the window, and kinds of records that are no business of outages.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fleet_learner.schemas import BLIND_WINDOWS, MEMBER_EVENTS

DAY_MS: Final = 86_400_000
START_MS: Final = 1_790_985_600_000
DAYS: Final = 30
AS_OF_MS: Final = START_MS + DAYS * DAY_MS
ROWS_PER_FILE: Final = 500_000
STOPS_PER_MEMBER: Final = 24
MEMBERS_PER_GROUP: Final = 10
LARGE_GROUP_MEMBERS_MAX: Final = 10_000
K8S_CLUSTERS: Final = 20
POLL_MS: Final = 5_000
COPIES: Final = 0.015
KINDS: Final = ("member.down", "member.up", "member.removed", "member.rejoined")
DOWN, UP, REMOVED, REJOINED = range(4)
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What happened to the members of a block: arrays of (n,), one entry for each fact.

    Parameters
    ----------
    member: number within the block.
    kind: index into KINDS.
    true_ms: when it happened, Unix milliseconds.
    pod, restart: number of the member's pod, and of the container within it.
    is_refused: a removal that the coordinator did not carry out.
    """

    member: Ints
    kind: Ints
    true_ms: Ints
    pod: Ints
    restart: Ints
    is_refused: NDArray[np.bool_]


def keys(numbers: Ints) -> Ints:
    """Spread numbers over 64 bits, one to one (the finaliser of SplitMix64, Steele et al. 2014)."""
    z = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))).view(np.int64)


def group_of_members(rng: np.random.Generator, members: int, large: int) -> Ints:
    """Return the group of each member, (members,): lognormal sizes, and one group of `large` members before them."""
    sizes = np.ceil(rng.lognormal(np.log(MEMBERS_PER_GROUP) - 0.5, 1.0, members)).astype(np.int64)
    groups = np.repeat(np.arange(members) + (large > 0), sizes)[: members - large]
    return np.concatenate((np.zeros(large, np.int64), groups))[:members]


def draw_facts(rng: np.random.Generator, members: int) -> Facts:
    """Draw stops and what followed them: three or four in a hundred do not simply return."""
    counts = np.maximum(rng.poisson(STOPS_PER_MEMBER, members), 1)
    member = np.repeat(np.arange(members), counts)
    n = member.size
    first = np.concatenate(([True], member[1:] != member[:-1]))
    run_ms = (rng.exponential(DAYS * DAY_MS / STOPS_PER_MEMBER, n)).astype(np.int64)
    run_ms[(rng.random(n) < 0.003) & ~first] = 0
    gap_ms = (25_000 * np.exp(0.6 * rng.standard_normal(n))).astype(np.int64)
    gap_ms = np.where(rng.random(n) < 0.01, gap_ms * rng.integers(2, 200, n), gap_ms)
    steps = np.cumsum(run_ms + gap_ms)
    before = np.concatenate(([0], steps[:-1]))
    down_ms = START_MS + before - np.repeat(before[first], counts) + run_ms
    # A member with n stops had n + 1 processes; the stop i is the end of process i + member[i].
    ends = np.arange(n) + member
    is_new_pod = rng.random(n + members) < 0.6
    is_new_pod[ends[first]] = True
    pod = np.cumsum(is_new_pod)
    process = np.arange(is_new_pod.size)
    restart = process - np.maximum.accumulate(np.where(is_new_pod, process, 0))
    fate = rng.random(n)
    is_removed, is_refused, is_unseen = fate < 0.015, (fate >= 0.015) & (fate < 0.02), (fate >= 0.02) & (fate < 0.03)
    returns = np.flatnonzero(~is_removed & ~is_unseen)
    removals = np.flatnonzero(is_removed | is_refused)
    # A few joins are never seen; the others come some seconds after the start of the container.
    rejoins = returns[rng.random(returns.size) < 0.995]
    join_ms = (10_000 * np.exp(0.5 * rng.standard_normal(n))).astype(np.int64)
    parts = (
        (DOWN, np.arange(n), down_ms, ends),
        (UP, returns, (down_ms + gap_ms)[returns], ends[returns] + 1),
        (REMOVED, removals, down_ms[removals] + 2_000, ends[removals]),
        (REJOINED, rejoins, (down_ms + gap_ms + join_ms)[rejoins], ends[rejoins] + 1),
    )
    return Facts(
        member=np.concatenate([member[rows] for _, rows, _, _ in parts]),
        kind=np.concatenate([np.full(rows.size, kind) for kind, rows, _, _ in parts]),
        true_ms=np.concatenate([times for _, _, times, _ in parts]),
        pod=np.concatenate([pod[of] for _, _, _, of in parts]),
        restart=np.concatenate([restart[of] for _, _, _, of in parts]),
        is_refused=np.concatenate([is_refused[rows] for _, rows, _, _ in parts]),
    )


def observations(rng: np.random.Generator, facts: Facts) -> tuple[Ints, dict[str, NDArray[Any]]]:
    """Let operators observe: the fact of each row, and when which operator saw it; a second operator adds copies."""
    n = facts.member.size
    copies = np.flatnonzero(rng.random(n) < COPIES)
    fact = np.concatenate((np.arange(n), copies))
    is_copy = np.arange(fact.size) >= n
    is_polled = ((rng.random(n) < 0.05) | (facts.kind == REJOINED))[fact]
    delay = np.where(is_polled, rng.integers(1, POLL_MS, fact.size), rng.integers(50, 400, fact.size))
    observed = facts.true_ms[fact] + delay + np.where(is_copy, rng.integers(1_000, 60_000, fact.size), 0)
    return fact, {
        "observed_at_ms": observed, "is_copy": is_copy, "is_polled": is_polled,
        "source_time_ms": facts.true_ms[fact] // 1000 * 1000,
    }  # fmt: skip


def table(seed: int, block: int, large: int) -> pa.Table:
    """Return one file's rows of silver/member_events, in the order in which they were observed."""
    rng = np.random.Generator(np.random.Philox(key=[seed, block]))
    members = ROWS_PER_FILE // (3 * STOPS_PER_MEMBER + 2)
    group = group_of_members(rng, members, large)
    facts = draw_facts(rng, members)
    fact, seen = observations(rng, facts)
    order = np.argsort(seen["observed_at_ms"], kind="stable")
    fact, seen = fact[order], {name: values[order] for name, values in seen.items()}
    member, kind = facts.member[fact], facts.kind[fact]
    is_down = kind == DOWN
    lo, hi = seen["observed_at_ms"] - POLL_MS, seen["observed_at_ms"]
    event_ms = np.where(seen["is_polled"], np.where(is_down, lo, hi), seen["source_time_ms"])
    numbers = {
        "event_ms": event_ms, "observed_at_ms": seen["observed_at_ms"],
        "group_key": keys(block * 2**32 + group)[member],
        "member_key": keys(2**62 + block * 2**32 + np.arange(members))[member],
        "restart_count": facts.restart[fact], "seq": np.arange(fact.size),
        "session_timeout_ms": np.full(fact.size, 45_000),
    }  # fmt: skip
    columns: dict[str, Any] = {name: pa.array(values) for name, values in numbers.items()}
    columns |= {
        "source_time_ms": pa.array(seen["source_time_ms"], mask=seen["is_polled"]),
        "time_lo_ms": pa.array(lo, mask=~seen["is_polled"]),
        "time_hi_ms": pa.array(hi, mask=~seen["is_polled"]),
        **_names(block, group, facts, fact, seen["is_copy"]),
    }
    rows = fact.size
    arrow = MEMBER_EVENTS.arrow
    return pa.Table.from_arrays([columns.get(f.name, pa.nulls(rows, f.type)).cast(f.type) for f in arrow], schema=arrow)


def _names(block: int, group: Ints, facts: Facts, fact: Ints, is_copy: NDArray[np.bool_]) -> dict[str, pa.Array]:
    """Return the columns of text, as long as real ones."""
    member, kind = pa.array(facts.member[fact]), facts.kind[fact]
    group_names = pc.binary_join_element_wise("orders", pa.scalar(str(block)), _text(np.arange(group.max() + 1)), "-")
    uids = pa.array([f"{n:08d}-5a1f-4c6e-9b0d-{n * 7919:012d}" for n in range(K8S_CLUSTERS)])
    uid_of_group = uids.take(pa.array((np.arange(group.max() + 1) + block) % K8S_CLUSTERS))
    source = pc.binary_join_element_wise("/k8s/", uid_of_group, "/ns/shop/staticgroup/", group_names, "")
    of_row = pa.array(group).take(member)
    name, uid = group_names.take(of_row), uid_of_group.take(of_row)
    instance = pc.binary_join_element_wise(group_names.take(pa.array(group)), _text(np.arange(group.size)), "-")
    instance = instance.take(member)
    pod_text = pc.utf8_lpad(_text(facts.pod[fact]), 12, "0")
    pod_uid = pc.binary_join_element_wise(f"{block:08d}-5a1f-4c6e-9b0d", pod_text, "-")
    verbs = pa.array([kind_name.partition(".")[2] for kind_name in KINDS]).take(pa.array(kind))
    event_id = pc.binary_join_element_wise(pod_uid, _text(facts.restart[fact]), verbs, "/")
    outcomes = pa.array(["Removed", "Resurrected"]).take(pa.array(facts.is_refused[fact].astype(np.int64)))
    reasons = pa.array(["Completed", "Error", "Deleted", "OOMKilled"]).take(pa.array(facts.pod[fact] % 4))
    is_removal = pa.array(kind == REMOVED)
    missing = pa.scalar(None, pa.string())
    operators = pa.array(["operator-0", "operator-1"]).take(pa.array(is_copy.astype(np.int64)))
    constant = {"namespace": "shop", "protocol": "Classic", "kafka_cluster_id": "kafka-0"}
    return {
        "event_id": event_id, "source": source.take(of_row), "kind": pa.array(KINDS).take(pa.array(kind)),
        "k8s_cluster_uid": uid, "operator_id": pc.binary_join_element_wise(uid, operators, "/"), "group_id": name,
        "static_group": name, "workload": name, "instance_id": instance, "pod_name": instance, "pod_uid": pod_uid,
        "reason": pc.if_else(pa.array(kind == DOWN), reasons, missing),
        "outcome": pc.if_else(is_removal, outcomes, missing),
        "rollout_id": pc.binary_join_element_wise(name, _text(facts.pod[fact] % 50), "-"),
        **{column: pa.repeat(value, fact.size) for column, value in constant.items()},
    }  # fmt: skip


def _text(numbers: Ints) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def blind_windows(seed: int) -> pa.Table:
    """Return silver/blind_windows: four unwatched times in the month, for every Kubernetes cluster."""
    rng = np.random.Generator(np.random.Philox(key=[seed, 2**32]))
    begin = START_MS + (np.arange(4) * 7 + rng.random((K8S_CLUSTERS, 4)) * 6) * DAY_MS
    end = begin + 600_000 * rng.lognormal(0.0, 1.0, begin.shape)
    uids = [f"{n:08d}-5a1f-4c6e-9b0d-{n * 7919:012d}" for n in range(K8S_CLUSTERS) for _ in range(4)]
    columns = [pa.array(uids), pa.array(begin.ravel().astype(np.int64)), pa.array(end.ravel().astype(np.int64))]
    return pa.Table.from_arrays(columns, schema=BLIND_WINDOWS.arrow)


def write(folder: Path, events: int, seed: int) -> int:
    """Write a history of about this many events, unless it is there; return the exact number of rows."""
    note = folder / "written.json"
    settings = {"events": events, "seed": seed}
    if note.exists() and (known := json.loads(note.read_text())) | settings == known:
        return int(known["rows"])
    (folder / "events").mkdir(parents=True, exist_ok=True)
    pq.write_table(blind_windows(seed), folder / "blind_windows.parquet")
    rows = 0
    for block in range(max(events // ROWS_PER_FILE, 1)):
        large = min(events // 1_000, LARGE_GROUP_MEMBERS_MAX, ROWS_PER_FILE // (3 * STOPS_PER_MEMBER + 2))
        made = table(seed, block, large if block == 0 else 0)
        pq.write_table(made, folder / "events" / f"part-{block:05d}.parquet", compression="zstd")
        rows += made.num_rows
    note.write_text(json.dumps(settings | {"rows": rows}))
    return rows


def main(written: Callable[[Path, int, int], int], description: str | None) -> None:
    """Write a history or journals in a process of its own, so that no sample includes its memory."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(written(options.folder, options.events, options.seed))


if __name__ == "__main__":
    main(write, __doc__)
