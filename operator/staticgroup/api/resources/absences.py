"""Describe what is remembered of absences: a bounded sample for each cause, and the session timeout that it put in use.

The one idea: this is memory too, as `durable` is, but losing it only loses measurements: the structural estimate holds
again. A sample is a text, because objects for ten thousand groups would be most of what the operator holds.
"""

from typing import Annotated, Final

from pydantic import Field, StringConstraints

from ..schema import NULLABLE, ApiModel, Count, TimeoutMs, Timestamp, list_map

CAUSES_MAX: Final = 8
SAMPLES_LENGTH_MAX: Final = 45 * 64
"""Characters of 64 samples, each as long as it can be."""
_SAMPLE: Final = "[0-9]{1,8}-[0-9]{1,8}@[0-9]{1,11}[.][0-9a-f]{8}"


class CauseOfAbsences(ApiModel):
    """Remember the absences of one cause."""

    # No enum: a status with a word that an older schema does not list would be refused as a whole.
    cause: Annotated[str, StringConstraints(max_length=63, pattern="^[A-Z][A-Za-z0-9]*$")] = Field(
        description="Why the members were away: Rollout, Drain (an eviction, or a deletion without another template), "
        "Crash, or NodeLoss (no kubelet reported the end)."
    )
    seen: Count = Field(0, description="Absences that ended with a return, as far as this operator saw them.")
    unmeasured: Count = Field(
        0,
        description="How many of them have no length: an end or a return was not seen in time, or no restart takes so "
        "long.",
    )
    longest_ms: TimeoutMs | None = Field(
        None, description="The longest of the samples, in milliseconds; null without any.", json_schema_extra=NULLABLE
    )
    samples: Annotated[
        str, StringConstraints(max_length=SAMPLES_LENGTH_MAX, pattern=f"^({_SAMPLE}(,{_SAMPLE})*)?$")
    ] = Field(
        "",
        description="At most 64 of them, mostly the newer ones, each as <shortest>-<longest>@<end>.<lot>: for how long "
        "the member was away, at least and at most, in milliseconds, when it was back, in Unix seconds, and the lot by "
        "which it is kept.",
    )


class Absences(ApiModel):
    """Remember for how long members were away when their process ended, and what was made of it."""

    causes: Annotated[list[CauseOfAbsences], Field(max_length=CAUSES_MAX)] = Field(
        [], description="What is kept of them, by cause.", json_schema_extra=list_map("cause")
    )
    timeout_ms: TimeoutMs | None = Field(
        None,
        description="The session timeout that the measured absences ask for, in milliseconds, before any bound; it "
        "goes up at once and down after a day. Null while the structural estimate is not replaced.",
        json_schema_extra=NULLABLE,
    )
    lower_since: Timestamp | None = Field(
        None, description="Since when less is asked for; null while it is not.", json_schema_extra=NULLABLE
    )
    lower_ms: TimeoutMs | None = Field(
        None,
        description="The most that was asked for since then, in milliseconds: what comes next.",
        json_schema_extra=NULLABLE,
    )
