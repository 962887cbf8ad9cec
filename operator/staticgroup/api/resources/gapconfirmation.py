"""Describe a person's word about a time in which the operator saw no pods: what ran unseen in it has ended.

The one idea: a gap of the pod watch is one for all namespaces, so one word closes it for every StaticGroup, and the object
belongs to no namespace. As for a PodEndConfirmation, creating it is the right to say it, and what was said cannot be
changed. It is read by the operator and never written by it, so it has no status.
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from ..remedies import LIST_GAPS
from ..schema import ApiModel, Timestamp, immutable, rule, ruled
from .confirmation import BY_TEXT, REMEDY, Author, Statement
from .staticgroup import ClusterObjectMeta

UNTIL_MESSAGE = f"spec.until must be after spec.since; take both from {LIST_GAPS}"


class WatchGapConfirmationSpec(ApiModel):
    """Say about which time, why it is sure, and who says so."""

    model_config = ruled(
        immutable("spec", REMEDY), rule("self.until > self.since", UNTIL_MESSAGE, field_path=".until")
    )

    since: Timestamp = Field(
        description="From here on the operator may have missed pods: no later than `since` of the spans that are meant, as "
        "status.continuity.blind of a StaticGroup shows them.",
    )
    until: Timestamp = Field(
        description="Up to here it may have: no earlier than `until` of the spans that are meant. A span that was not over when "
        "the object was created is not meant.",
    )
    statement: Statement = Field(
        description="Why it is sure that no process of a pod that came and went, or went, between since and until unseen by the "
        "operator runs any more, and that no pod that is still here took another id then, 1 to 500 characters. It is written to "
        "Events and the audit log.",
    )
    by: Author = Field(description=BY_TEXT)

    @model_validator(mode="after")
    def _ends_after_it_begins(self) -> Self:
        """Refuse what the API server refuses."""
        if self.until <= self.since:
            raise ValueError(UNTIL_MESSAGE)
        return self


class WatchGapConfirmation(ApiModel):
    """A WatchGapConfirmation is a person's word about a time in which the operator's pod watch was interrupted.

    No process of a pod that came and went, or went, between since and until unseen by the operator runs any more: no
    machine that left the cluster or was cut off in that time still runs pods. And no pod that is still here took another id in
    that time, as one does whose annotation is edited while a container starts. It counts once no pod is known to live that may
    have done so.
    """

    api_version: Literal["staticgroup.io/v1alpha1"] = "staticgroup.io/v1alpha1"
    kind: Literal["WatchGapConfirmation"] = "WatchGapConfirmation"
    metadata: ClusterObjectMeta
    spec: WatchGapConfirmationSpec = Field(description="What is said.")
