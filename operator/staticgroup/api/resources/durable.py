"""Describe the little of a status that must survive a restart: what was injected and issued, the ledger, what settles.

The one idea: this is the durable part of the evidence chain. What is lost of it is never taken for innocence: departed
members then wait for their session to expire.
"""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from ..schema import (
    ATOMIC,
    INT32_MAX,
    NULLABLE,
    ApiModel,
    EnvName,
    InstanceIdText,
    MemberIdText,
    Timestamp,
    list_map,
)
from .continuity import OrdinalsText, Uid

INCARNATIONS_MAX: Final = 200
INSTANCE_IDS_MAX: Final = 64
LEDGER_IDS_LENGTH_MAX: Final = 400_000
"""Characters of all ids of a ledger: 200 entries of 64 ids of any length would be more than etcd takes."""
SETTLING_MAX: Final = 100
POD_UIDS_MAX: Final = 16
TEMPLATES_MAX: Final = 8
INJECTED_IDS_MAX: Final = 8
INJECTED_ENV_MAX: Final = 16
INJECTED_VALUE_MAX: Final = 1024

PodName = Annotated[str, StringConstraints(max_length=253)]
NodeName = Annotated[str, StringConstraints(max_length=253)]
SaidBy = Annotated[str, StringConstraints(min_length=1, max_length=256)]
ShortText = Annotated[str, StringConstraints(max_length=300)]
IdTemplate = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
ResourceVersion = Annotated[str, StringConstraints(max_length=64)]
AnnotationKey = Annotated[str, StringConstraints(min_length=1, max_length=317)]


class InjectedMethod(StrEnum):
    """Name the injection method in force."""

    POLICY = "Policy"
    WEBHOOK = "Webhook"
    NONE = "None"


class IncarnationState(StrEnum):
    """Say what is known of the process of one pod UID."""

    LIVE = "Live"
    SUSPECT = "Suspect"
    DEAD = "Dead"


class Certificate(StrEnum):
    """Name the proof that a process is dead."""

    E1 = "E1"
    E1_PRIME = "E1Prime"


class NodeCertificate(StrEnum):
    """Name the proof that what became of a node gives."""

    NODE_GONE = "E2Node"
    REAPED = "E3"
    REBOOTED = "E4"


class ReapDoubt(StrEnum):
    """Say why the work of a kubelet after an object vanished need not have ended its processes."""

    HOST_PID = "HostPID"
    MIRROR = "MirrorPod"
    STUCK = "StuckTerminating"
    END_UNSEEN = "EndUnseen"


class InjectedId(ApiModel):
    """Name one annotation that carries an id."""

    annotation: AnnotationKey = Field(description="Key of the pod annotation.")
    suffix: Annotated[str, StringConstraints(max_length=40)] = Field(
        description="Appended to idTemplate; empty for the usual single consumer."
    )


class InjectedEnv(ApiModel):
    """Name one variable and where its value comes from."""

    container: Annotated[str, StringConstraints(max_length=63)] = Field(
        description="Container that receives the variable; empty: the first container of the pod."
    )
    name: EnvName = Field(description="Name of the variable.")
    annotation: AnnotationKey = Field(
        description="Key of the pod annotation that the variable reads; with a value, of the one that repeats it."
    )
    value: Annotated[str, StringConstraints(min_length=1, max_length=INJECTED_VALUE_MAX)] | None = Field(
        None,
        description="The variable's value, in which the kubelet expands $(STATICGROUP_POD_NAME), the pod's name; absent: "
        "the variable reads the annotation.",
    )


class InjectedWorker(ApiModel):
    """Tell what the container of a Connect worker receives besides its variables."""

    container: Annotated[str, StringConstraints(max_length=63)] = Field(
        description="The worker's container; empty: the first container of the pod."
    )
    agent: bool = Field(description="True: the agent is injected.")
    options_may_be_absent: bool = Field(
        description="True: KAFKA_OPTS is written where the container has none, because its image sets none."
    )
    host_variable: Annotated[str, StringConstraints(max_length=128)] = Field(
        description="Variable that receives the pod's name in its headless Service where the container has none; empty: none."
    )


class Injected(ApiModel):
    """Tell the admission policy what the next pod receives; while this is absent nothing is injected."""

    scope: Annotated[str, StringConstraints(pattern="^[0-9a-f]{8}$", min_length=8, max_length=8)] = Field(
        description="The 8 hex digits that stand for {scope}; constant for the life of the StaticGroup."
    )
    watch_epoch: Annotated[str, StringConstraints(min_length=1, max_length=128)] = Field(
        description="Continuity epoch of the pod watch in which ids began to be issued: from then on every pod that "
        "carries one has been seen."
    )
    method: InjectedMethod = Field(
        description="The method in force: Policy or Webhook, or None when nothing is injected."
    )
    id_template: IdTemplate = Field(description="The id template with only {podName} and {ordinal} left to fill in.")
    session_timeout_ms: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = Field(
        None,
        description="Session timeout that the next pod receives, in milliseconds; null: none is injected.",
        json_schema_extra=NULLABLE,
    )
    # Absent, not false: what was written before the field was known means the same, and is written again unchanged.
    suffix_follows_preset: bool | None = Field(
        None,
        description="True: suffix Auto stands for what the preset's client appends. Absent: it stands for nothing, because "
        "ids were issued with suffix None, once the default.",
    )
    ids: Annotated[list[InjectedId], Field(min_length=1, max_length=INJECTED_IDS_MAX)] = Field(
        description="The ids of a pod, one for each of its consumers.", json_schema_extra=list_map("annotation")
    )
    env: Annotated[list[InjectedEnv], Field(max_length=INJECTED_ENV_MAX)] = Field(
        description="The variables that the containers receive.", json_schema_extra=list_map("container", "name")
    )
    # Absent, not null: what was written before the field was known means the same, and is written again unchanged.
    worker: InjectedWorker | None = Field(
        None, description="What the container of a Connect worker receives besides; absent: nothing."
    )


class Issued(ApiModel):
    """Remember every id ever issued, compactly."""

    ordinals: OrdinalsText = Field(
        description="Ordinals that have been given an id, as ranges such as 0-4,7; narrow gaps are filled when they are too "
        "many to list."
    )
    templates: Annotated[list[IdTemplate], Field(max_length=TEMPLATES_MAX)] = Field(
        [], description="Earlier id templates, oldest first, at most 8.", json_schema_extra=ATOMIC
    )


class Incarnation(ApiModel):
    """Remember one pod UID that carried our ids, and what became of its process."""

    pod_name: PodName = Field(description="Name of the pod.")
    # Absent, not empty: what was written before the field was known means the same, and is written again unchanged.
    namespace: Annotated[str, StringConstraints(min_length=1, max_length=63)] | None = Field(
        None, description="Namespace of the pod; absent: that of the StaticGroup."
    )
    uid: Uid = Field(description="UID of the pod: one incarnation of the id.")
    instance_ids: Annotated[list[InstanceIdText], Field(max_length=INSTANCE_IDS_MAX)] = Field(
        description="The ids it was seen to carry.", json_schema_extra=ATOMIC
    )
    node_name: NodeName = Field("", description="Node it was bound to; empty: none.")
    state: IncarnationState = Field(
        description="Live: the pod exists, and has carried ids that its name does not tell. Suspect: it is gone without proof of death, but see confirmedBy. Dead: "
        "proven."
    )
    certificate: Certificate | None = Field(
        None,
        description="The proof. E1: the kubelet reported its end, every container terminated. E1Prime: it never ran.",
        json_schema_extra=NULLABLE,
    )
    confirmed_by: SaidBy | None = Field(
        None,
        description="Whose word closed the suspicion, by a PodEndConfirmation (E2). With it a Suspect counts as dead.",
        json_schema_extra=NULLABLE,
    )
    # Absent, not null, from here on: what was written before these fields were known means the same, and is written again unchanged.
    node_certificate: NodeCertificate | None = Field(
        None,
        description="The proof that what became of its node gave. E2Node: the node is gone or out of service. E3: its kubelet has "
        "caught up and worked on since. E4: the same after a reboot. With it a Suspect counts as dead.",
    )
    created: Timestamp | None = Field(None, description="When the pod of a suspect was created.")
    bound: Timestamp | None = Field(None, description="When it was bound to its node; absent: not seen.")
    node_uid: Uid | None = Field(None, description="UID of the Node that had the name of its node when that was seen last; absent: none.")
    grace_seconds: Annotated[int, Field(ge=0, le=INT32_MAX)] | None = Field(
        None, description="How long the kubelet lets the pod of a suspect end by itself; absent: not known."
    )
    reap_doubt: ReapDoubt | None = Field(
        None,
        description="Why the work of its node need not have ended a suspect. HostPID: its processes may outlive its containers. "
        "MirrorPod: a static pod, which runs whatever becomes of its object. "
        "StuckTerminating: its deletion was overdue. EndUnseen: nobody saw how its object went.",
    )
    owed: ShortText | None = Field(None, description="What the node of a suspect has not shown yet, and since when that is so.")
    evidence: ShortText = Field("", description="What the proof rests on, for people.")
    since: Timestamp = Field(description="When it entered this state.")
    resource_version: ResourceVersion = Field("", description="resourceVersion of the pod version that says so.")


class Ledger(ApiModel):
    """Hold the durable part of the evidence chain."""

    overflow: bool = Field(
        False, description="True while more incarnations are unproven than fit; see the blind span LedgerFull of continuity."
    )
    incarnations: Annotated[list[Incarnation], Field(max_length=INCARNATIONS_MAX)] = Field(
        [], description="The incarnations to remember, at most 200.", json_schema_extra=list_map("uid")
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
    pod_uids: Annotated[list[Uid], Field(max_length=POD_UIDS_MAX)] = Field(
        [],
        description="Incarnations known when it was removed; a holder without a new one is reported, never removed.",
        json_schema_extra=ATOMIC,
    )
