"""Settings of one operator process, read once from the environment.

Everything a user may tune has one name here, a unit in the name, a bound and a default; the Helm chart sets the same
names. It needs only pydantic: pydantic-settings takes unknown variables, splits at no commas, and costs 5 MiB.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from ...api.remedies import hint
from ...core.members.memory import SETTLE_MIN_S
from ...core.members.node_gone import NodeLifecycle

PREFIX = "STATICGROUP_"
_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
LABEL = rf"^(([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}(=({_NAME})?)?)?$"
AWS_ACCESS = r"^(\*|[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)(=arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=.@/-]+)?$"
TOPIC = r"^(\.{0,2}[a-zA-Z0-9_-][a-zA-Z0-9._-]*|\.{3,})$"


class SettingsError(ValueError):
    """A setting is malformed or lacking; the message names the variable and what it allows, never a value."""


def _parts(text: object) -> object:
    return tuple(part.strip() for part in text.split(",") if part.strip()) if isinstance(text, str) else text


def _path_or_url(source: str) -> str:
    """Refuse what is neither an absolute path nor an http(s) URL, or may hold a password."""
    try:
        url = urlsplit(source)
        is_url = url.scheme in ("http", "https") and url.hostname and (url.port is None or url.port > 0)
        is_url = is_url and not (url.query or url.fragment or "@" in url.netloc)
    except ValueError:
        is_url = False
    if source and not is_url and not source.startswith("/"):
        raise ValueError("must be an absolute path, or an http:// or https:// URL without user, query and fragment")
    return source


Item = TypeVar("Item")
Listed = Annotated[tuple[Item, ...], BeforeValidator(_parts)]
"""Written with commas."""
Port = Annotated[int, Field(ge=1, le=65_535)]
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]
LogFormat = Literal["json", "text"]


class EnvironmentSettings(BaseModel):
    """Settings of one process: each field is the environment variable STATICGROUP_<FIELD>."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read settings from environment variables.

        Raises
        ------
        SettingsError: A value is malformed or outside its bounds, or a variable of our prefix is unknown.
        """
        fields = {f"{PREFIX}{name.upper()}": name for name in cls.model_fields}
        for variable in sorted(environment):
            if variable.startswith(PREFIX) and variable not in fields:
                raise SettingsError(
                    f"unknown setting {variable} (all: docs/reference/settings.md){hint(variable, fields)}"
                )
        try:
            return cls.model_validate({name: environment[v].strip() for v, name in fields.items() if v in environment})
        except ValidationError as error:
            raise SettingsError("; ".join(map(cls._said, error.errors()))) from None

    @classmethod
    def _said(cls, error: ErrorDetails) -> str:
        """Say what is wrong with a setting and what it means; its value is not repeated."""
        is_form = error["type"] == "string_pattern_mismatch"
        text = "it is malformed" if is_form else error["msg"].removeprefix("Value error, ")
        if not error["loc"]:
            return text
        name = str(error["loc"][0])
        return f"{PREFIX}{name.upper()}: {text}. Meaning: {cls.model_fields[name].description}"


class Settings(EnvironmentSettings):
    """How one operator process runs."""

    force_observe: bool = False
    """Plan and report, but never write to Kafka and never inject, whatever the StaticGroups say."""
    docs_url: str = Field("", pattern=r"^(https?://[^\s#]+[^\s#/])?$", max_length=200)
    """Where the site of docs/ is read, without a slash at the end: messages of conditions link its pages."""
    watch_namespaces: Listed[str] = ()
    """Namespaces to serve; empty means all."""
    namespace: str = "staticgroup-system"
    """Where the Lease lives; the pod's own namespace."""
    identity: str = "staticgroup-operator"
    """Name of this replica in the Lease; the pod's name."""
    leader_election: bool = True
    """False only where a single replica is guaranteed otherwise."""
    lease_name: str = "staticgroup-operator"
    """Name of the coordination.k8s.io/Lease, which also keeps the position of the pod watch."""
    policy_name: str = "staticgroup-inject"
    """Name of the MutatingAdmissionPolicy that injects for this installation."""
    webhook_name: str = "staticgroup-inject"
    """Name of its MutatingWebhookConfiguration."""
    deployments: bool = False
    """Give ids to pods of Deployments, and write notes into these pods."""
    slots_name: str = "staticgroup-slots"
    """Name of the MutatingAdmissionPolicy that injects into pods of Deployments, and of the ValidatingAdmissionPolicy
    that keeps their notes."""
    lease_duration_s: float = 5.0
    """A holder that has not renewed for so long is replaced by another replica; longer than the renew deadline."""
    lease_renew_deadline_s: float = 3.5
    """A holder that has not renewed for so long stops by itself; longer than the retry."""
    lease_retry_s: float = 1.0
    """How often another replica tries to lead, and a renewal that failed is tried again."""
    concurrency: int = Field(32, ge=1, le=256)
    """Rounds at once; those that have waited longer than a second for an answer do not count, one namespace gets half
    of it and one KafkaConnection a quarter."""
    round_deadline_s: float = Field(90.0, ge=75, le=600)
    """How long one round may take before it is given up and tried again later: longer than any requestTimeoutSeconds,
    so that a silent broker is still reported."""
    group_poll_s: float = Field(30.0, ge=5, le=600)
    """How often a quiet group is described."""
    relist_s: float = Field(600.0, ge=60, le=86_400)
    """How often the pod watch is checked against a full LIST, and StaticGroups, KafkaConnections and StatefulSets are
    listed again at the latest."""
    barrier_patience_s: float = Field(0.1, ge=0, le=5)
    """How long the main watch may take to pass a read before a replay is opened."""
    secret_max_age_s: float = Field(20.0, ge=1, le=600)
    """How long a read Secret is used before it is read again."""
    secret_label: str = Field("", pattern=LABEL)
    """Label that a Secret must carry to be used, `<key>` or `<key>=<value>`; empty: any Secret that a KafkaConnection
    of its namespace names."""
    allow_loopback: bool = False
    """KafkaConnections may set spec.allowLoopback, which lets the operator dial brokers at loopback and link-local
    addresses; for test machines only."""
    tokens_path: str = Field("", pattern="^(/.*)?$")
    """Directory of the tokens that namespaces may use, each at `<namespace>/<name>` below it, an absolute path; empty:
    there are none."""
    aws_msk_iam: Listed[Annotated[str, StringConstraints(pattern=AWS_ACCESS)]] = ()
    """Namespaces whose KafkaConnections may log in at Amazon MSK with the operator's AWS identity, each `<namespace>`
    or `<namespace>=<role ARN>`, the namespace * for any; empty: none may."""
    health_port: Port = 8080
    """/healthz, /readyz and /metrics."""
    log_level: LogLevel = "INFO"
    """DEBUG, INFO, WARNING or ERROR."""
    log_format: LogFormat = "json"
    """`json`, or `text` for people."""
    journal_kafka_connection: str = Field("", pattern="^([^/]+/[^/]+)?$")
    """`<namespace>/<name>` of the KafkaConnection to whose cluster the journal goes; empty: no topic."""
    journal_kafka_topic: str = Field("staticgroup-journal", pattern=TOPIC, max_length=249)
    """Topic of the journal, which must exist."""
    journal_files_path: str = ""
    """Directory of the journal's files; empty: no files."""
    journal_files_max_mib: int = Field(64, ge=1, le=1024)
    """Size at which a file is full."""
    journal_files_count: int = Field(8, ge=2, le=1000)
    """Files that are kept."""
    journal_queue: int = Field(20_000, ge=100, le=1_000_000)
    """Records that may wait for the brokers or the disk before others are dropped."""
    recommendations_source: Annotated[str, AfterValidator(_path_or_url)] = ""
    """Where the fleet learner publishes: a directory (absolute path) or an http(s) base URL without credentials; empty:
    recommendations are not read."""
    recommendations_poll_s: float = Field(300.0, ge=10, le=86_400)
    """How often a new snapshot is asked for."""
    settle_s: float = Field(SETTLE_MIN_S, ge=1, le=86_400)
    """Shortest silence after which a pod that may live unseen counts no more for members to come, and after which a pod
    watch that began anew is whole. A group with longer sessions, or pods with longer grace periods, wait longer."""
    node_lifecycle: NodeLifecycle = NodeLifecycle.AUTO
    """What the deletion of a Node object says of its machine. Auto: that it is off where spec.providerID names a cloud
    whose controller deletes Nodes, and Karpenter does not. Cloud: that it is off (cloud controller, Karpenter from 1.0,
    cluster autoscaler). Fixed: only people remove nodes, powered off first. Untrusted: nothing."""

    @model_validator(mode="after")
    def _lease_times_are_in_order(self) -> Settings:
        if not self.lease_duration_s > self.lease_renew_deadline_s > self.lease_retry_s > 0:
            names = (f"{PREFIX}LEASE_{name}_S" for name in ("DURATION", "RENEW_DEADLINE", "RETRY"))
            raise ValueError(f"{' > '.join(names)} > 0 must hold")
        return self
