"""Describe what a StaticGroup remembers of its pods' history, so that a gap of the pod watch costs only what it must.

The one idea: names are unique and uids never come back. So a name that has the object which is written here had no other
one meanwhile, whatever the operator missed; only the rest is blind. Source: docs/design.md, "Continuity, per pod name".
"""

from typing import Annotated, Final

from pydantic import Field, StringConstraints

from ..ordinals import ORDINALS_TEXT_MAX
from ..schema import ATOMIC, INT32_MAX, INT64_MAX, ApiModel, Timestamp

SEATS_MAX: Final = 1000
BLIND_SPANS_MAX: Final = 8

Uid = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Ordinal = Annotated[int, Field(ge=0, le=INT32_MAX)]
OrdinalsText = Annotated[
    str, StringConstraints(max_length=ORDINALS_TEXT_MAX, pattern=r"^([0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)?$")
]


class Seat(ApiModel):
    """Tell which object had the name of an ordinal."""

    ordinal: Ordinal = Field(description="Of the pod's name.")
    uid: Uid = Field(description="metadata.uid of the pod.")
    node_name: Annotated[str, StringConstraints(max_length=253)] = Field("", description="Node it was bound to.")
    restarts: Annotated[int, Field(ge=0, le=INT32_MAX)] | None = Field(
        None, description="Restarts of its containers, where its ids can be edited; absent: they are fixed while it lives."
    )
    other_ids: bool = Field(False, description="It carried other ids than those that status.injected makes.")


class SettledWorkload(ApiModel):
    """Tell what the StatefulSet wanted when its controller had taken that in and the pod watch had shown the outcome."""

    uid: Uid = Field(description="metadata.uid of the StatefulSet.")
    generation: Annotated[int, Field(ge=0, le=INT64_MAX)] = Field(
        description="metadata.generation, equal to status.observedGeneration."
    )
    start: Ordinal = Field(0, description="spec.ordinals.start.")
    replicas: Annotated[int, Field(ge=0, le=INT32_MAX)] = Field(description="spec.replicas.")


class BlindSpan(ApiModel):
    """Name a time in which pods of some ordinals can have come and gone unseen."""

    ordinals: OrdinalsText = Field(
        description="As ranges such as 0-4,7. Departed members of these wait for their sessions, or for a word."
    )
    since: Timestamp = Field(description="Up to here the history is complete.")
    until: Timestamp = Field(description="From here on it is complete again.")
    reason: Annotated[str, StringConstraints(max_length=63, pattern="^[A-Z][A-Za-z0-9]*$")] = Field(
        description="WatchGap, Restored, MemoryLost, LedgerFull or ScopeWritten."
    )
    watch_epoch: Annotated[str, StringConstraints(max_length=128)] = Field(
        "", description="Continuity epoch of the pod watch that ended at `since`; empty when nobody knows."
    )


class Continuity(ApiModel):
    """Say since when, and for which seats, no pod can have come and gone unseen."""

    watch_epoch: Annotated[str, StringConstraints(min_length=1, max_length=128)] = Field(
        description="Continuity epoch of the pod watch under which this was written."
    )
    timeline: Annotated[str, StringConstraints(max_length=64)] = Field(
        "", description="Changes whenever the API server goes back in time; uids compare only within one."
    )
    at: Timestamp = Field(description="When this was so.")
    static_group_uid: Annotated[str, StringConstraints(max_length=64)] = Field(
        "", description="metadata.uid of the StaticGroup that this was written for; that of another one remembers nothing."
    )
    ids_by_hand: bool = Field(
        False, description="Ids could be carried under any pod name, so no rule about a name says anything."
    )
    workload_name: Annotated[str, StringConstraints(max_length=253)] = Field(description="Name of the StatefulSet.")
    seats: Annotated[list[Seat], Field(max_length=SEATS_MAX)] = Field(
        [], description="The objects that had the StatefulSet's pod names, at most 1000.", json_schema_extra=ATOMIC
    )
    all_seats: bool = Field(True, description="No pod of these names existed besides the seats that are listed.")
    workload: SettledWorkload | None = Field(
        None, description="What the StatefulSet wanted; absent while that is not known for certain."
    )
    digest: Annotated[str, StringConstraints(max_length=64)] = Field(
        "",
        description="Of what the next operator goes on from: continuity, injected, issued, ledger and settling. A status of "
        "which a part was taken away or put back by others is no memory.",
    )
    blind: Annotated[list[BlindSpan], Field(max_length=BLIND_SPANS_MAX)] = Field(
        [],
        description="Times without sight, at most 8 (older ones are told as one); `staticgroup confirm-gap` closes them by "
        "a person's word.",
        json_schema_extra=ATOMIC,
    )
