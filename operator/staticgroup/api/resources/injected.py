"""Describe what the next pod receives: the one thing in a status that the admission policy and the webhook read."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from ..schema import INT32_MAX, NULLABLE, ApiModel, EnvName, list_map

INJECTED_IDS_MAX: Final = 8
INJECTED_ENV_MAX: Final = 16
INJECTED_VALUE_MAX: Final = 1024

IdTemplate = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
AnnotationKey = Annotated[str, StringConstraints(min_length=1, max_length=317)]


class InjectedMethod(StrEnum):
    """Name the injection method in force."""

    POLICY = "Policy"
    WEBHOOK = "Webhook"
    NONE = "None"


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
        description="The variable's value, in which the kubelet expands $(STATICGROUP_POD_NAME), the pod's name; "
        "absent: the variable reads the annotation.",
    )
    # Absent, not null, as above.
    key: Annotated[str, StringConstraints(min_length=1, max_length=63)] | None = Field(
        None,
        description="Of a Deployment's pods: the key in the file of the pod's slot that the variable reads; the value "
        "is then what stands there, %s in it being the slot.",
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
        description="Variable that receives the pod's name in its headless Service where the container has none; "
        "empty: none."
    )


class InjectedStatus(ApiModel):
    """Tell the admission policy what the next pod receives; while this is absent nothing is injected."""

    scope: Annotated[str, StringConstraints(pattern="^[0-9a-f]{8}$", min_length=8, max_length=8)] = Field(
        description="The 8 hex digits that stand for {scope}; constant for the life of the StaticGroup."
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
    container: Annotated[str, StringConstraints(max_length=63)] = Field(
        "",
        description="Container that receives the variables where spec.client names none: the one that has the variable "
        "already, else the first that is no known sidecar; empty while the pod template is not known.",
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
