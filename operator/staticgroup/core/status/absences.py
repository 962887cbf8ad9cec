"""Measured absences, to and from the StaticGroup's status."""

from __future__ import annotations

from collections.abc import Mapping

from ...api.resources import absences as api
from ...api.schema import INT32_MAX, TIMEOUT_MS_MAX
from ..absences.causes import Cause
from ..absences.reservoir import Reservoir, samples_from, text_of
from ..snapshot import History
from ..timeouts.desired import TimeoutHysteresis
from .times import wire_time


def wire_absences(history: History) -> api.Absences | None:
    """Write what is kept of absences; None before the first."""
    if not history.absences:
        return None
    held = history.measured
    is_lower = held is not None and held.lower_since_s is not None
    return api.Absences(
        causes=[_wire_cause(cause, history.absences[cause]) for cause in Cause if cause in history.absences],
        timeout_ms=min(held.timeout_ms, TIMEOUT_MS_MAX) if held is not None else None,
        lower_since=wire_time(held.lower_since_s) if held is not None and held.lower_since_s is not None else None,
        lower_ms=min(held.lower_ms, TIMEOUT_MS_MAX) if held is not None and is_lower else None,
    )


def _wire_cause(cause: Cause, kept: Reservoir) -> api.CauseOfAbsences:
    return api.CauseOfAbsences(
        cause=cause.value,
        seen=min(kept.seen, INT32_MAX),
        unmeasured=min(kept.unmeasured, INT32_MAX),
        longest_ms=kept.longest_ms,
        samples=text_of(kept.samples),
    )


def absences_from(written: api.Absences | None) -> Mapping[Cause, Reservoir]:
    """Read what earlier rounds kept; a cause that this version does not know is left out."""
    known = {cause.value for cause in Cause}
    return {
        Cause(each.cause): Reservoir(samples=samples_from(each.samples), seen=each.seen, unmeasured=each.unmeasured)
        for each in (written.causes if written is not None else ())
        if each.cause in known
    }


def measured_from(written: api.Absences | None) -> TimeoutHysteresis | None:
    """Read which session timeout the absences put in use; None while the structural estimate holds."""
    if written is None or written.timeout_ms is None:
        return None
    return TimeoutHysteresis(
        timeout_ms=written.timeout_ms,
        lower_since_s=written.lower_since.timestamp() if written.lower_since is not None else None,
        lower_ms=written.lower_ms or 0,
    )
