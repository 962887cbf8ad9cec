"""Describe what the operator remembers in a status for the process that comes after it; nobody else has to read it.

Losing any of it proves nothing: departed members then wait for their session to expire.
"""

from typing import Annotated, Final

from pydantic import Field, StringConstraints

from ..ordinals import ORDINALS_TEXT_MAX
from ..schema import ATOMIC, INT32_MAX, NULLABLE, ApiModel, InstanceIdText, MemberIdText, TimeoutMs, Timestamp
from .absences import Absences
from .injected import IdTemplate

SETTLING_MAX: Final = 100
TEMPLATES_MAX: Final = 8
UNREAD_TOPICS_MAX: Final = 20
SEATS_MAX: Final = 2000
CARRIERS_MAX: Final = 20
SUSPECTS_MAX: Final = 2000
SUSPECT_IDS_MAX: Final = 512
ADDRESSES_MAX: Final = 8
SEATS_LENGTH_MAX: Final = 500_000
SUSPECTS_LENGTH_MAX: Final = 500_000
"""Characters of all seats, of all suspects: a request to etcd has 1.5 MiB."""

PodName = Annotated[str, StringConstraints(max_length=253)]
ShortText = Annotated[str, StringConstraints(max_length=300)]
TopicName = Annotated[str, StringConstraints(min_length=1, max_length=249)]
OrdinalsText = Annotated[
    str, StringConstraints(max_length=ORDINALS_TEXT_MAX, pattern=r"^([0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)?$")
]
Uid = Annotated[str, StringConstraints(min_length=1, max_length=64)]
NodeName = Annotated[str, StringConstraints(max_length=253)]
Address = Annotated[str, StringConstraints(max_length=64)]


class Issued(ApiModel):
    """Remember every id ever issued, compactly."""

    ordinals: OrdinalsText = Field(
        description="Ordinals that have been given an id, as ranges such as 0-4,7; narrow gaps are filled when they "
        "are too many to list."
    )
    templates: Annotated[list[IdTemplate], Field(max_length=TEMPLATES_MAX)] = Field(
        [], description="Earlier id templates, oldest first, at most 8.", json_schema_extra=ATOMIC
    )


class Settling(ApiModel):
    """Remember one acknowledged removal until its id is wanted again."""

    instance_id: InstanceIdText = Field(description="The id that was removed.")
    member_id: MemberIdText = Field(description="The member id that was removed with it.")
    coordinator: Annotated[str, StringConstraints(max_length=300)] = Field(
        description="The coordinator that acknowledged it, as node id and address."
    )
    acknowledged_at: Timestamp = Field(description="When it was acknowledged.")
    attempts: Annotated[int, Field(ge=1, le=INT32_MAX)] = Field(1, description="How often it has been sent.")
    absent_since: Timestamp | None = Field(
        None,
        description="Since when the member is absent under another coordinator than the one that acknowledged.",
        json_schema_extra=NULLABLE,
    )
    settled_at: Timestamp | None = Field(
        None, description="When the removal was seen to last; null while it is not.", json_schema_extra=NULLABLE
    )


class UnreadTopicsMemory(ApiModel):
    """Tell which topics members subscribe and nobody reads, and what was done about it."""

    topics: Annotated[list[TopicName], Field(max_length=UNREAD_TOPICS_MAX)] = Field(
        description="Their names, the first 20.", json_schema_extra=ATOMIC
    )
    since: Timestamp = Field(description="Since when these are unread.")
    rebalanced_for: Annotated[list[TopicName], Field(max_length=UNREAD_TOPICS_MAX)] = Field(
        [], description="The topics for which the group was rebalanced last.", json_schema_extra=ATOMIC
    )
    rebalanced_at: Timestamp | None = Field(
        None, description="When it was; null: never, since there are unread ones.", json_schema_extra=NULLABLE
    )


class LeftOnCloseMemory(ApiModel):
    """Tell which static member left last when its pod was stopped."""

    instance_id: InstanceIdText = Field(description="The id of the member that left last.")
    pod_name: PodName = Field(description="The pod that was stopped.")
    at: Timestamp = Field(description="When it was first not described any more.")
    count: Annotated[int, Field(ge=1, le=INT32_MAX)] = Field(
        description="How many have left so, since the last one that was seen to stay."
    )


class TimeoutMemory(ApiModel):
    """Remember which session timeouts were chosen, written and announced, exactly."""

    own_ms: TimeoutMs | None = Field(
        None,
        description="Session timeout that this StaticGroup by itself wants its KIP-848 or Streams group to have at the "
        "brokers, in milliseconds, inside all bounds. The longest of all StaticGroups of the group in the namespace is "
        "set. Null in a classic group, or while the protocol was never known.",
        json_schema_extra=NULLABLE,
    )
    written_ms: TimeoutMs | None = Field(
        None,
        description="The session timeout that the operator has set on the group at the brokers and read back, in "
        "milliseconds. Where another one is stored there, somebody else has set it since, and the operator sets it no "
        "more. Null where it has set none.",
        json_schema_extra=NULLABLE,
    )
    next_ms: TimeoutMs | None = Field(
        None,
        description="Session timeout that the next pods get, in milliseconds. Null when unknown.",
        json_schema_extra=NULLABLE,
    )


class SeatMember(ApiModel):
    """Remember one member and the pods that may hold it."""

    id: InstanceIdText = Field(description="The group.instance.id that it holds.")
    member: Annotated[str, StringConstraints(pattern="^[0-9a-f]{16}$", max_length=16)] = Field(
        description="The first 16 hex digits of the SHA-256 of its member id."
    )
    first_seen: Timestamp = Field(description="When it was first described.")
    carriers: Annotated[list[Uid], Field(max_length=CARRIERS_MAX)] = Field(
        [],
        description="Uids of the pods that carried the id then and have not ended since. unseen: it joined before the "
        "pod watch was complete. unattributed: no pod explains it.",
        json_schema_extra=ATOMIC,
    )


class SuspectStatus(ApiModel):
    """Remember one pod whose processes may live although nothing is heard of them any more."""

    uid: Uid = Field(description="metadata.uid of the pod.")
    pod: Annotated[str, StringConstraints(max_length=253)] = Field(description="Name of the pod.")
    namespace: Annotated[str, StringConstraints(max_length=63)] = Field(
        "", description="Namespace of the pod; empty: that of the StaticGroup."
    )
    ids: Annotated[list[InstanceIdText], Field(max_length=SUSPECT_IDS_MAX)] = Field(
        [], description="The ids that it carried.", json_schema_extra=ATOMIC
    )
    since: Timestamp = Field(description="When it became a suspect.")
    node: NodeName = Field("", description="Node that it was bound to; empty: none.")
    provider: Annotated[str, StringConstraints(max_length=63)] = Field(
        "", description="Scheme of that node's spec.providerID."
    )
    machine: Annotated[str, StringConstraints(pattern="^([0-9a-f]{16})?$", max_length=16)] = Field(
        "",
        description="The first 16 hex digits of the SHA-256 of machineID and systemUUID of that node; empty: the "
        "absence of the Node proves nothing.",
    )
    lost_run: bool = Field(
        False,
        description="A container of it was lost by its kubelet or runtime, and may still run.",
    )
    addresses: Annotated[list[Address], Field(max_length=ADDRESSES_MAX)] = Field(
        [], description="Addresses of its own.", json_schema_extra=ATOMIC
    )


class Writer(ApiModel):
    """Tell under which holding of the operator's Lease this status was written, so that an outdated replica desists."""

    lease_uid: Annotated[str, StringConstraints(max_length=64)] = Field(description="metadata.uid of the Lease.")
    lease_transitions: Annotated[int, Field(ge=0, le=INT32_MAX)] = Field(
        description="spec.leaseTransitions of the Lease while the writer held it."
    )


class StatusMemory(ApiModel):
    """Remember what the next process needs."""

    static_group_uid: Uid | None = Field(
        None,
        description="UID of the StaticGroup that this status is about; one of another, as from a backup, is not gone "
        "on from.",
    )
    issued: Issued | None = Field(None, description="Every id ever issued, compactly.")
    settling: Annotated[list[Settling], Field(max_length=SETTLING_MAX)] = Field(
        [],
        description="Acknowledged removals whose id is not wanted again, at most 100; settledAt says which were seen "
        "to last.",
        json_schema_extra=ATOMIC,
    )
    timeout: TimeoutMemory | None = Field(None, description="Session timeouts that were chosen and set.")
    absences: Absences | None = Field(
        None,
        description="For how long members were away when their process ended; absent before the first was measured.",
    )
    unread_topics: UnreadTopicsMemory | None = Field(
        None, description="Topics that members of a classic group subscribe and nobody reads; absent: there are none."
    )
    left_on_close: LeftOnCloseMemory | None = Field(
        None, description="Members that leave when their pods are stopped; absent: the last one that was seen stayed."
    )
    watch: Annotated[str, StringConstraints(max_length=128)] | None = Field(
        None, description="Name of the pod watch under which no pod can have joined unseen; null: none."
    )
    seats: Annotated[list[SeatMember], Field(max_length=SEATS_MAX)] = Field(
        [], description="The members, each with the pods that may hold it.", json_schema_extra=ATOMIC
    )
    suspects: Annotated[list[SuspectStatus], Field(max_length=SUSPECTS_MAX)] = Field(
        [], description="Pods whose processes may live unseen.", json_schema_extra=ATOMIC
    )
    seal: Annotated[str, StringConstraints(pattern="^[0-9a-f]{16}$", max_length=16)] | None = Field(
        None,
        description="Digest of watch, seats and suspects; where it is another one, seats and watch are not believed.",
    )
    writer: Writer | None = Field(
        None,
        description="The holding of the operator's Lease under which this was written; absent without leader election.",
    )
