"""State in standard conditions what the operator sees.

The one idea: lastTransitionTime moves only when the status flips, so that a status which says the same compares equal and
is not written again.
Sources: KEP-1623 (standard conditions); `meta.SetStatusCondition` of apimachinery; kstatus (Ready, observedGeneration).
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Final

from pydantic import Field

from ..reasons import ConditionStatus, ConditionType, Reason
from ..schema import ApiModel, Generation, Timestamp

MESSAGE_LENGTH_MAX: Final = 1024
CONDITIONS_MAX: Final = 16


class Condition(ApiModel):
    """One aspect of the observed state, in the form that every Kubernetes tool understands."""

    type: Annotated[str, Field(min_length=1, max_length=63, pattern="^[A-Z][A-Za-z]*$")] = Field(
        description="Which aspect this is about, such as Ready or MembershipComplete. True is always the good answer."
    )
    status: ConditionStatus = Field(description="True, False, or Unknown while it has not been observed.")
    reason: Annotated[str, Field(min_length=1, max_length=63, pattern="^[A-Z][A-Za-z0-9]*$")] = Field(
        description="One CamelCase word for the cause; stable, so that alerts can match on it."
    )
    message: Annotated[str, Field(max_length=MESSAGE_LENGTH_MAX)] = Field(
        description="What is so, why, and what to do about it, for people."
    )
    last_transition_time: Timestamp = Field(description="When status last changed; not when the message did.")
    observed_generation: Generation = Field(description="metadata.generation of the spec that this condition is about.")


def with_conditions(
    before: Sequence[Condition],
    found: Iterable[tuple[ConditionType, ConditionStatus, Reason, str]],
    *,
    observed_generation: int,
    now: datetime,
) -> tuple[Condition, ...]:
    """Return the conditions with what was found now, moving lastTransitionTime only where a status flips.

    Parameters
    ----------
    before: The conditions as they are, at most one of each type.
    found: Status, reason and message of each type; messages are cut to 1024 characters.
    observed_generation: metadata.generation of the spec in force, from 0.
    now: Aware time of this round; kept to the second, as metav1.Time does.

    Returns
    -------
    The conditions in their old order, new types at the end. Equal to the old ones when nothing but time has passed.

    Notes
    -----
    Same rule as `meta.SetStatusCondition` of apimachinery (KEP-1623).
    """
    conditions = {condition.type: condition for condition in before}
    for kind, status, reason, message in found:
        old = conditions.get(kind)
        conditions[kind] = Condition(
            type=kind,
            status=status,
            reason=reason,
            message=message if len(message) <= MESSAGE_LENGTH_MAX else message[: MESSAGE_LENGTH_MAX - 1] + "…",
            last_transition_time=old.last_transition_time if old is not None and old.status is status else now.replace(microsecond=0),
            observed_generation=observed_generation,
        )
    return tuple(conditions.values())
