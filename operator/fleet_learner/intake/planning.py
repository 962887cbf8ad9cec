"""Plan a run: the positions of its sources, fixed before it begins.

The one idea: an unreadable source does not delay the others. It is reported, keeps its position, and is read when it
can be. This also holds for the plan of a killed run, as long as that run has written nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..errors import SourceError
from ..lake import Plan, Published

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OnStep = Callable[[str], None]
LEFT_OUT: Final = "left out: "
"""The prefix of a step that reports an unreadable source, which a later run reads from its old position."""


class Source(Protocol):
    """A source of records; positions are JSON values."""

    @property
    def name(self) -> str:
        """Return the name under which runs keep the positions."""

    def plan(self, start: Mapping[str, Any], log: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the `start` and `end` positions of a run that continues from `start`, and notes to keep or report.

        Parameters
        ----------
        log: the source's description of itself in the previous plan; {} without one.

        Returns
        -------
        `start`, `end`; if needed, `log`, `left_out` (why something is not read, and what to do) and `gone` (names of
        what was deleted since).

        Raises
        ------
        SourceError: it cannot be read.
        """

    def recheck(self, plan: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an unfinished plan without unreadable parts; raises SourceError if nothing can be read."""

    def frame(self, spark: SparkSession, plan: Mapping[str, Any]) -> DataFrame:
        """Return the records of a plan, with the columns of bronze/events, the same at every call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """How far back outages are recomputed.

    Parameters
    ----------
    rewrite_days: at least so many days before the newest fact of the previous run.
    open_days_max: an outage that lasts for longer is blind from then on.
    backfill_from_ms: for one run, from here on if that is earlier; None for an ordinary run.
    """

    rewrite_days: int = 3
    open_days_max: int = 7
    backfill_from_ms: int | None = None


def new_plan(
    before: Published | None,
    sources: Sequence[Source],
    as_of_ms: int,
    horizon: Horizon,
    on_step: OnStep,
    erased: str | None = None,
) -> Plan:
    """Return the plan of the next run.

    Parameters
    ----------
    before: the last run; the plan continues its positions and keeps those of sources that are no longer configured.
    on_step: gets a line for each part that is left out.

    Raises
    ------
    SourceError: no source can be read.
    """
    known = before.plan.sources if before is not None else {}
    planned: dict[str, Mapping[str, Any]] = {}
    failed: list[SourceError] = []
    for source in sources:
        try:
            old = known.get(source.name, {})
            planned[source.name] = _report_notes(
                source.name, source.plan(old.get("end", {}), old.get("log", {})), on_step
            )
        except SourceError as error:
            failed.append(error)
            on_step(f"{LEFT_OUT}{error}")
    if failed and not planned:
        raise failed[0]
    kept = {name: {**old, "start": old["end"]} for name, old in known.items() if name not in planned}
    settings = {
        "rewrite_days": horizon.rewrite_days,
        "open_days_max": horizon.open_days_max,
        "backfill_from_ms": horizon.backfill_from_ms,
        **({"erased": erased} if erased is not None else {}),
    }
    number = 0 if before is None else before.number + 1
    return Plan(number=number, as_of_ms=as_of_ms, sources={**planned, **kept}, settings=settings)


def revised_plan(plan: Plan, sources: Sequence[Source], on_step: OnStep) -> Plan:
    """Return an unfinished plan without unreadable sources, which a later run reads.

    Parameters
    ----------
    plan: of a run that has written nothing yet.
    on_step: gets a line for each part that is left out.

    Raises
    ------
    SourceError: no configured source can be read; the plan is kept.
    """
    here = {source.name: source for source in sources}
    revised: dict[str, Mapping[str, Any]] = {}
    failed: dict[str, SourceError] = {}
    for name, each in plan.sources.items():
        try:
            if each["start"] == each["end"]:
                revised[name] = each
            elif name in here:
                revised[name] = _report_notes(name, here[name].recheck(each), on_step)
            else:
                gone = f"run {plan.number} was begun with the source {name}, which the configuration no longer names"
                raise SourceError(f"{gone}: what it was to read is read when it is named again")
        except SourceError as error:
            failed[name] = error
            on_step(f"{LEFT_OUT}{error}")
            revised[name] = {**each, "end": each["start"]}
    if failed and here.keys() <= failed.keys():
        raise failed[next(iter(here or failed))]
    return replace(plan, sources=revised)


def _report_notes(name: str, planned: Mapping[str, Any], on_step: OnStep) -> Mapping[str, Any]:
    """Report a source's notes; returns what the plan keeps."""
    for text in planned.get("left_out", ()):
        on_step(f"{LEFT_OUT}{text}")
    if gone := planned.get("gone", ()):
        more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        on_step(f"{name}: {gone[0]}{more} went away since the run before")
    return {key: value for key, value in planned.items() if key not in {"left_out", "gone"}}


def is_idle(before: Published, plan: Plan) -> bool:
    """Return whether a plan would only repeat the published state."""
    nothing_new = all(source["start"] == source["end"] for source in plan.sources.values())
    same_window = before.plan.as_of_ms == plan.as_of_ms and plan.settings == before.plan.settings
    return nothing_new and same_window
