"""Compute the canary's account from the tables: the effects of changed timeouts, by group and day.

The one idea: a gap does not depend on the timeout, so a group's stops before its change predict the new timeout's
evictions and how long absent members are kept. The account compares this expectation with the outcome: an eviction is a
return that the group did not absorb, regardless of gap and timeout. A timeout that the fleet learner never advised has
no expectation; if it is shorter than the previous one, it is compared with the previous one's effects. A stop counts if
its process ran with the learner's timeout, for a classic group after its next restart. All sums are integers, so they
are the same with any number of cores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from staticgroup.api.absences import EndKind

from ..days.facts import DAY_MS
from .canary import (
    FOLLOWING_SOURCES,
    PATIENCE_MS,
    WATCH_MS,
    WAVES,
    Arm,
    CanaryHistory,
    CanaryState,
    TrialDay,
    Wave,
    WaveAccount,
    canary_state,
    harm,
    judge_wave,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

STOPS_BEFORE_MIN: Final = 10
"""With fewer earlier stops a group has no expectation."""
TREATED: Final = "treated"
CONTROL: Final = "control"
FLEET: Final = "Fleet"
_MICRO: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The scope of an account.

    Parameters
    ----------
    campaign_ms, wave_ms: when the campaign and its present wave began, Unix milliseconds.
    wave: the present one.
    as_of_ms: end of the account, Unix milliseconds.
    salt: of the waves.
    """

    campaign_ms: int
    wave_ms: int
    wave: Wave
    as_of_ms: int
    salt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Hold one group's contribution on one day; all fields but the first three can be summed.

    Parameters
    ----------
    arm: treated, control, or "" for neither.
    day_ms: 0 for contributions without a day.
    promised_micro: expected evictions, in millionths.
    stops_before: stops behind the expectation.
    wave_stops: stops of a group that changed since the wave began.
    followers: 1 once for a group that acts, or may still act, on recommendations.
    """

    arm: str = ""
    wave: Wave
    day_ms: int = 0
    stops: int = 0
    evictions: int = 0
    promised_micro: int = 0
    ghost_ms: int = 0
    ghost_promised_ms: int = 0
    stops_before: int = 0
    wave_stops: int = 0
    followers: int = 0


_NAMES: Final = tuple(each.name for each in fields(Share))
_BY: Final = _NAMES[:3]
_DDL: Final = "arm string, wave bigint, " + ", ".join(f"{name} bigint" for name in _NAMES[2:])


def shares(row: Mapping[str, Any], trial: Trial) -> list[Share]:
    """Return one group's contributions to the account.

    Parameters
    ----------
    row: `wave`, `stops` (down_ms, gap_ms, end_kind, absorbed, session_timeout_ms) and `changes` (event_ms,
        timeout_source, session_timeout_ms_before, session_timeout_ms_after) in order or null, and from the previous run
        `earlier_timeout_source`, `earlier_session_timeout_ms`, `earlier_recommended_ms`, `earlier_advised_ms`,
        `earlier_model_version`; null if that run did not have the group.
    """
    wave: Wave = row["wave"]
    changes = row["changes"] or []
    since = [each for each in changes if each["event_ms"] >= trial.campaign_ms]
    by_fleet = [each for each in since if each["timeout_source"] == FLEET]
    source = changes[-1]["timeout_source"] if changes else row["earlier_timeout_source"]
    said_ms = row["earlier_recommended_ms"]
    is_new = row["earlier_model_version"] is None
    has_to_change = is_new or (said_ms is not None and said_ms != row["earlier_session_timeout_ms"])
    # A group that was released long ago and did not act is not awaited; groups of later waves are.
    may_act = has_to_change and (wave > trial.wave or trial.as_of_ms - trial.wave_ms < PATIENCE_MS)
    made = []
    if source in FOLLOWING_SOURCES and (by_fleet or may_act):
        made.append(Share(wave=wave, followers=1))
    stops = [s for s in row["stops"] or [] if s["end_kind"] == EndKind.RETURNED and s["session_timeout_ms"] is not None]
    if by_fleet:
        promised = _promised_timeouts(by_fleet, row["earlier_advised_ms"])
        return made + _compared(TREATED, wave, stops, by_fleet, promised, trial)
    return made if since else made + _compared(CONTROL, wave, stops, [], {}, trial)


def _promised_timeouts(changes: Iterable[Mapping[str, Any]], advised_ms: Iterable[int] | None) -> dict[int, int]:
    """Return, by timeout in force, the timeout that sets the expectation; unlisted ones set their own.

    Parameters
    ----------
    advised_ms: all recommendations for this group; None: unknown, so every change counts as advised.
    """
    if advised_ms is None:
        return {}
    known = set(advised_ms)
    promised: dict[int, int] = {}
    for each in changes:
        before_ms, after_ms = each["session_timeout_ms_before"], each["session_timeout_ms_after"]
        if after_ms not in known and before_ms is not None and after_ms < before_ms:
            promised[after_ms] = promised.get(before_ms, before_ms)
    return promised


def _compared(
    arm: str,
    wave: Wave,
    stops: list[Mapping[str, Any]],
    changes: list[Mapping[str, Any]],
    promised: Mapping[int, int],
    trial: Trial,
) -> list[Share]:
    """Compare the stops since a group's first change, or else since the campaign's begin, with those before."""
    split_ms = changes[0]["event_ms"] if changes else trial.campaign_ms
    timeouts = {each["session_timeout_ms_after"] for each in changes}
    before = np.sort(np.array([s["gap_ms"] for s in stops if s["down_ms"] < split_ms], dtype=np.int64))
    after = [s for s in stops if s["down_ms"] >= split_ms and (not changes or s["session_timeout_ms"] in timeouts)]
    if before.size < STOPS_BEFORE_MIN or not after:
        return []
    is_of_wave = any(each["event_ms"] >= trial.wave_ms for each in changes)
    made = [Share(arm=arm, wave=wave, stops_before=int(before.size))]
    for stop in after:
        gap_ms, timeout_ms = int(stop["gap_ms"]), int(stop["session_timeout_ms"])
        expected_ms = promised.get(timeout_ms, timeout_ms)
        expelled = before.size - int(np.searchsorted(before, expected_ms, side="right"))
        made.append(
            Share(
                arm=arm,
                wave=wave,
                day_ms=int(stop["down_ms"]) // DAY_MS * DAY_MS,
                stops=1,
                evictions=int(not stop["absorbed"]),
                promised_micro=round(_MICRO * expelled / before.size),
                ghost_ms=min(gap_ms, timeout_ms),
                ghost_promised_ms=int(np.minimum(before, expected_ms).sum()) // int(before.size),
                wave_stops=int(is_of_wave),
            )
        )
    return made


def account_of(found: Iterable[Share]) -> tuple[WaveAccount, dict[Wave, int]]:
    """Sum up contributions, and count the followers of each wave."""
    every = list(found)
    followers: dict[Wave, int] = {}
    for each in every:
        followers[each.wave] = followers.get(each.wave, 0) + each.followers

    def arm(name: str) -> tuple[Arm, tuple[TrialDay, ...]]:
        own = [each for each in every if each.arm == name]
        stops, before = sum(each.stops for each in own), sum(each.stops_before for each in own)
        promised = sum(each.promised_micro for each in own) / _MICRO
        counted = Arm(
            stops_before=before,
            evictions_before=before * promised / stops if stops else 0.0,
            stops=stops,
            evictions=sum(each.evictions for each in own),
        )
        days: dict[int, list[Share]] = {}
        for each in own:
            days.setdefault(each.day_ms, []).append(each)
        return counted, tuple(
            TrialDay(
                day_ms=day_ms,
                stops=sum(each.stops for each in rows),
                ghost_ms=sum(each.ghost_ms for each in rows),
                promised_ms=sum(each.ghost_promised_ms for each in rows),
                evictions=sum(each.evictions for each in rows),
                evictions_promised=sum(each.promised_micro for each in rows) / _MICRO,
            )
            for day_ms, rows in sorted(days.items())
        )

    treated, treated_days = arm(TREATED)
    control, control_days = arm(CONTROL)
    account = WaveAccount(
        treated=treated, control=control, treated_days=treated_days, control_days=control_days,
        wave_stops=sum(each.wave_stops for each in every),
    )  # fmt: skip
    return account, followers


def clock_ms(*, as_of_ms: int, newest_ms: int) -> int:
    """Return the canary's time: the end of the window, or a day after the newest record if that is earlier.

    Waves begin and wait by this clock. Otherwise one run with an end in the future, or with a fast clock, would hold
    all waves back until then.

    Parameters
    ----------
    newest_ms: time of the newest record up to the window's end, Unix milliseconds.
    """
    return min(as_of_ms, newest_ms + DAY_MS)


def trial_begin_ms(before: CanaryState | None, *, as_of_ms: int) -> int:
    """Return the time since which changes are watched: from the first run on, after the last wave for `WATCH_MS`."""
    if before is None:
        return as_of_ms
    return max(before.campaign_ms, as_of_ms - WATCH_MS) if before.is_over else before.campaign_ms


def with_waves(groups: DataFrame, salt: str) -> DataFrame:
    """Add `wave` to the groups of a fleet, like `canary.waves_of`.

    Parameters
    ----------
    groups: one row per group, with `kafka_cluster_id` and `group_id`. All go through one task: few columns, no events.
    """
    from pyspark.sql import Window as W
    from pyspark.sql import functions as F

    text = F.concat_ws("/", F.lit("canary"), F.lit(salt), "kafka_cluster_id", "group_id")
    order = W.orderBy(F.crc32(F.encode(text, "UTF-8")), "kafka_cluster_id", "group_id")
    rank, number = F.row_number().over(order) - 1, F.count("*").over(W.partitionBy(F.lit(0)))
    last = F.greatest(number - 1, F.lit(1))
    wave = F.lit(WAVES[-1])
    for each in reversed(WAVES[:-1]):
        reach = F.least(F.greatest(F.floor(number * each / 100), F.lit(1)), last)
        wave = F.when(rank < reach, each).otherwise(wave)
    return groups.withColumn("wave", wave.cast("int"))


def canary_history(
    groups: DataFrame,
    group_events: DataFrame,
    outages: DataFrame,
    earlier: DataFrame | None,
    before: CanaryState | None,
    *,
    as_of_ms: int,
    salt: str,
) -> CanaryHistory:
    """Read the account of a campaign from the tables.

    Parameters
    ----------
    groups: (group_key, wave), of `with_waves`, all present groups.
    group_events, outages: silver, up to `as_of_ms`, from the earliest time that expectations may use.
    earlier: gold/recommendation of the previous run.
    before: that run's canary; None: this is the first run.
    as_of_ms: the canary's clock, of `clock_ms`.
    salt: of the waves.
    """
    from pyspark.sql import functions as F

    begin_ms = trial_begin_ms(before, as_of_ms=as_of_ms)
    wave_ms, wave = (as_of_ms, WAVES[0]) if before is None else (before.began_ms, before.wave)
    trial = Trial(campaign_ms=begin_ms, wave_ms=wave_ms, wave=wave, as_of_ms=as_of_ms, salt=salt)
    if begin_ms >= as_of_ms:
        outages = outages.where(F.lit(False))  # nothing is on trial yet, so no expectation is needed
    rows = _trial_rows(groups, group_events, outages, earlier)

    def of_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            found = [each for row in batch.to_pylist() for each in shares(row, trial)]
            columns = [pa.array([getattr(each, name) for each in found]) for name in _NAMES]
            types = [pa.string(), *[pa.int64()] * (len(_NAMES) - 1)]
            typed = [column.cast(kind) for column, kind in zip(columns, types, strict=True)]
            yield pa.RecordBatch.from_arrays(typed, names=list(_NAMES))

    summed = (
        rows.mapInArrow(of_groups, _DDL)
        .groupBy(*_BY)
        .agg(*(F.sum(name).alias(name) for name in _NAMES[len(_BY) :]))
        .orderBy(*_BY)
        .collect()
    )
    account, followers = account_of(Share(**row.asDict()) for row in summed)
    return CanaryHistory(before=before, now_ms=as_of_ms, account=account, followers=followers)


def _trial_rows(groups: DataFrame, group_events: DataFrame, outages: DataFrame, earlier: DataFrame | None) -> DataFrame:
    """Return one row per group with the inputs of `shares`."""
    from pyspark.sql import functions as F

    changes = F.struct(
        "event_ms", "event_id", "timeout_source", "session_timeout_ms_before", "session_timeout_ms_after"
    )
    stops = F.struct("down_ms", "event_id", "gap_ms", "end_kind", "absorbed", "session_timeout_ms")
    changed = group_events.where(F.col("kind") == "timeout.changed").groupBy("group_key")
    is_compared = (F.col("end_kind") == EndKind.RETURNED.value) & F.col("session_timeout_ms").isNotNull()
    stopped = outages.where(is_compared).groupBy("group_key")
    rows = groups.join(
        changed.agg(F.array_sort(F.collect_list(changes)).alias("changes")), on="group_key", how="left"
    ).join(stopped.agg(F.array_sort(F.collect_list(stops)).alias("stops")), on="group_key", how="left")
    names = ("timeout_source", "session_timeout_ms", "recommended_ms", "advised_ms", "model_version")
    if earlier is None:
        return rows.selectExpr("*", *(f"NULL AS earlier_{name}" for name in names))
    known = earlier.selectExpr("group_key", *(f"{name} AS earlier_{name}" for name in names))
    return rows.join(known, on="group_key", how="left")


def canary_row(history: CanaryHistory, salt: str) -> dict[str, Any]:
    """Write the canary's next state as the row of gold/canary, with its evidence."""
    state, account = canary_state(history), history.account
    verdict = None if history.before is None else judge_wave(history.before, account, now_ms=history.now_ms)
    row: dict[str, Any] = {
        "model_version": salt,
        "as_of_ms": history.now_ms,
        "wave": state.wave,
        "began_ms": state.began_ms,
        "campaign_ms": state.campaign_ms,
        "locked_until_ms": state.locked_until_ms,
        "withdrawn": state.withdrawn,
        "is_over": state.is_over,
        "verdict": "Begin" if verdict is None else verdict.value,
        # Rounded, so that another mathematics library yields the same bytes.
        "evidence": round(min(harm(account), 1e6), 4),
        "wave_stops": account.wave_stops,
    }
    arms = ((TREATED, account.treated, account.treated_days), (CONTROL, account.control, account.control_days))
    for name, arm, days in arms:
        row |= {
            f"{name}_stops": arm.stops,
            f"{name}_evictions": arm.evictions,
            f"{name}_evictions_promised": round(arm.stops * arm.evictions_before / max(arm.stops_before, 1), 6),
            f"{name}_ghost_ms": sum(day.ghost_ms for day in days),
            f"{name}_ghost_promised_ms": sum(day.promised_ms for day in days),
        }
    return row


def state_of(row: Mapping[str, Any]) -> CanaryState:
    """Read a row of gold/canary."""
    return CanaryState(**{each.name: row[each.name] for each in fields(CanaryState)})
