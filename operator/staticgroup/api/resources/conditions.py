"""State in standard conditions what the operator sees.

The one idea: lastTransitionTime moves only when the status flips, so that a status which says the same compares equal and
is not written again.
Sources: KEP-1623 (standard conditions); `meta.SetStatusCondition` of apimachinery; kstatus (Ready, observedGeneration).
"""

from collections.abc import Sequence
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


def stated(
    kind: ConditionType,
    reason: Reason,
    *,
    status: ConditionStatus,
    message: str,
    observed_generation: int,
    now: datetime,
) -> Condition:
    """Build a condition whose sentence was composed where the facts are.

    Parameters
    ----------
    message: What is so, why, and what to do; cut to 1024 characters.
    observed_generation: metadata.generation of the spec in force, from 0.
    now: Aware time, used as lastTransitionTime until `set_condition` decides otherwise.
    """
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message if len(message) <= MESSAGE_LENGTH_MAX else message[: MESSAGE_LENGTH_MAX - 1] + "…",
        last_transition_time=now,
        observed_generation=observed_generation,
    )


def set_condition(conditions: Sequence[Condition], new: Condition, now: datetime) -> tuple[Condition, ...]:
    """Put a condition into the list, moving lastTransitionTime only when its status flips.

    Parameters
    ----------
    conditions: The list as it is, at most one entry for each type.
    new: The condition as it is now; its own lastTransitionTime is not used.
    now: Aware time of this round; kept to the second, as metav1.Time does.

    Returns
    -------
    The new list, in the old order, a new type at the end. Equal to the old one when nothing but time has passed.

    Notes
    -----
    Same rule as `meta.SetStatusCondition` of apimachinery (KEP-1623).
    """
    since = now.replace(microsecond=0)
    for place, old in enumerate(conditions):
        if old.type == new.type:
            if old.status is new.status:
                since = old.last_transition_time
            return (*conditions[:place], _since(new, since), *conditions[place + 1 :])
    return (*conditions, _since(new, since))


def _since(condition: Condition, moment: datetime) -> Condition:
    if condition.last_transition_time == moment:
        return condition
    return condition.model_copy(update={"last_transition_time": moment})
