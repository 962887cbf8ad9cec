"""Describe what a StaticGroup remembers of its members: which pods may hold them, and which pods may live unseen.

It is the operator's own memory, written for the next process, and nothing that a user has to read.
"""

from typing import Annotated, Final

from pydantic import Field, StringConstraints

from ..schema import ATOMIC, ApiModel, InstanceIdText, Timestamp

SEATS_MAX: Final = 2000
CARRIERS_MAX: Final = 20
SUSPECTS_MAX: Final = 2000
SUSPECT_IDS_MAX: Final = 512
ADDRESSES_MAX: Final = 8
SEATS_LENGTH_MAX: Final = 500_000
SUSPECTS_LENGTH_MAX: Final = 500_000
"""Characters of all seats, of all suspects: a request to etcd has 1.5 MiB."""

Uid = Annotated[str, StringConstraints(min_length=1, max_length=64)]
NodeName = Annotated[str, StringConstraints(max_length=253)]
Address = Annotated[str, StringConstraints(max_length=64)]


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
        "pod watch was whole. unattributed: no pod explains it.",
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
        description="A run of it was lost by its kubelet or runtime, and may go on.",
    )
    addresses: Annotated[list[Address], Field(max_length=ADDRESSES_MAX)] = Field(
        [], description="Addresses of its own.", json_schema_extra=ATOMIC
    )
