"""Settings of one operator process, read once from the environment.

Everything a user may tune has one name here, a unit in the name, a bound and a default; the Helm chart sets the
same names. An unknown or malformed value stops the process with the variable's name and the allowed range.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ...core.members.memory import SETTLE_MIN_S
from ...core.members.node_gone import NodeLifecycle

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

PREFIX = "STATICGROUP_"
_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
AWS_LOAN = re.compile(r"(\*|[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)(=arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=.@/-]+)?")
LABEL = re.compile(rf"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}(=({_NAME})?)?")
TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class SettingsError(ValueError):
    """A setting is malformed or lacking; the message names the variable and what it allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How one operator process runs.

    Parameters
    ----------
    force_observe: plan and report, but never write to Kafka and never inject, whatever the StaticGroups say.
    watch_namespaces: namespaces to serve; empty means all.
    namespace: where the Lease lives; the pod's own namespace.
    identity: name of this replica in the Lease; the pod's name.
    leader_election: False only where a single replica is guaranteed otherwise.
    lease_name: name of the coordination.k8s.io/Lease, which also keeps the position of the pod watch.
    policy_name: name of the MutatingAdmissionPolicy that injects for this installation.
    webhook_name: name of its MutatingWebhookConfiguration.
    lease_duration_s: a holder that has not renewed for so long is replaced by another replica; longer than the renew deadline.
    lease_renew_deadline_s: a holder that has not renewed for so long stops by itself; longer than the retry.
    lease_retry_s: how often another replica looks, and a renewal that failed is tried again.
    concurrency: rounds at once, 1-256; those that have waited longer than a second for an answer do not count, one
        namespace gets half of it and one KafkaConnection a quarter.
    round_deadline_s: how long one round may take before it is given up and tried again later, 75-600 s: longer than any
        requestTimeoutSeconds, so that a silent broker is still reported.
    group_poll_s: how often a quiet group is described, 5-600 s.
    relist_s: how often the pod watch is checked against a full LIST, and StaticGroups, KafkaConnections and StatefulSets
        are listed again at the latest, 60-86400 s.
    barrier_patience_s: how long the main watch may take to pass a read before a replay is opened, 0-5 s.
    secret_max_age_s: how long a read Secret is used before it is read again, 1-600 s.
    secret_label: label that a Secret must carry to be used, `<key>` or `<key>=<value>`; empty: any Secret that a
        KafkaConnection of its namespace names.
    allow_loopback: KafkaConnections may set spec.allowLoopback, which lets the operator dial brokers at loopback and
        link-local addresses; for test machines only.
    tokens_path: directory of the tokens that are lent to namespaces, each at `<namespace>/<name>` below it, an absolute
        path; empty: none are lent.
    aws_msk_iam: namespaces whose KafkaConnections may log in at Amazon MSK with the operator's AWS identity, each
        `<namespace>` or `<namespace>=<role ARN>`, the namespace * for any; empty: none may.
    log_level: DEBUG, INFO, WARNING or ERROR.
    log_format: json, or text for people.
    health_port: /healthz, /readyz and /metrics, 1-65535.
    journal_kafka_connection: `<namespace>/<name>` of the KafkaConnection to whose cluster the journal goes; empty: no
        topic.
    journal_kafka_topic: topic of the journal, which must exist.
    journal_files_path: directory of the journal's files; empty: no files.
    journal_files_max_mib: size at which a file is full, 1-1024 MiB.
    journal_files_count: files that are kept, 2-1000.
    recommendations_source: where the fleet learner publishes: a directory (absolute path) or an http(s) base URL without
        credentials; empty: recommendations are not read.
    recommendations_poll_s: how often a new snapshot is looked for, 10-86400 s.
    settle_s: shortest silence after which a pod that may live unseen counts no more for members to come, and after which a pod watch that
        began anew is whole, 1-86400 s. A group with longer sessions, or pods with longer grace periods, wait longer.
    node_lifecycle: what the deletion of a Node object says of its machine. Auto: that it is off where spec.providerID names a cloud whose
        controller deletes Nodes, and Karpenter does not. Cloud: that it is off (cloud controller, Karpenter from 1.0,
        cluster autoscaler). Fixed: only people remove nodes, powered off first. Untrusted:
        nothing.
    journal_queue: records that may wait for the brokers or the disk before others are dropped, 100-1000000.
    """

    force_observe: bool = False
    watch_namespaces: tuple[str, ...] = ()
    namespace: str = "staticgroup-system"
    identity: str = "staticgroup-operator"
    leader_election: bool = True
    lease_name: str = "staticgroup-operator"
    policy_name: str = "staticgroup-inject"
    webhook_name: str = "staticgroup-inject"
    lease_duration_s: float = 5.0
    lease_renew_deadline_s: float = 3.5
    lease_retry_s: float = 1.0
    concurrency: int = 32
    round_deadline_s: float = 90.0
    group_poll_s: float = 30.0
    relist_s: float = 600.0
    barrier_patience_s: float = 0.1
    secret_max_age_s: float = 20.0
    secret_label: str = ""
    allow_loopback: bool = False
    tokens_path: str = ""
    aws_msk_iam: tuple[str, ...] = ()
    health_port: int = 8080
    log_level: str = "INFO"
    log_format: str = "json"
    journal_kafka_connection: str = ""
    journal_kafka_topic: str = "staticgroup-journal"
    journal_files_path: str = ""
    journal_files_max_mib: int = 64
    journal_files_count: int = 8
    journal_queue: int = 20_000
    recommendations_source: str = ""
    recommendations_poll_s: float = 300.0
    settle_s: float = SETTLE_MIN_S
    node_lifecycle: str = NodeLifecycle.AUTO.value

    def __post_init__(self) -> None:
        _bounded("concurrency", self.concurrency, 1, 256)
        _bounded("round_deadline_s", self.round_deadline_s, 75, 600)
        _bounded("group_poll_s", self.group_poll_s, 5, 600)
        _bounded("relist_s", self.relist_s, 60, 86_400)
        _bounded("barrier_patience_s", self.barrier_patience_s, 0, 5)
        _bounded("secret_max_age_s", self.secret_max_age_s, 1, 600)
        _bounded("health_port", self.health_port, 1, 65_535)
        _bounded("journal_files_max_mib", self.journal_files_max_mib, 1, 1024)
        _bounded("journal_files_count", self.journal_files_count, 2, 1000)
        _bounded("journal_queue", self.journal_queue, 100, 1_000_000)
        _bounded("recommendations_poll_s", self.recommendations_poll_s, 10, 86_400)
        _bounded("settle_s", self.settle_s, 1, 86_400)
        if self.node_lifecycle not in list(NodeLifecycle):
            raise SettingsError(f"{PREFIX}NODE_LIFECYCLE must be Auto, Cloud, Fixed or Untrusted, got {self.node_lifecycle!r}")
        _recommendations(self.recommendations_source)
        if self.secret_label and not LABEL.fullmatch(self.secret_label):
            raise SettingsError(
                f"{PREFIX}SECRET_LABEL must be the label <key> or <key>=<value>, got {self.secret_label!r}"
            )
        if self.tokens_path and not self.tokens_path.startswith("/"):
            raise SettingsError(f"{PREFIX}TOKENS_PATH must be an absolute path, got {self.tokens_path!r}")
        for loan in self.aws_msk_iam:
            if not AWS_LOAN.fullmatch(loan):
                raise SettingsError(f"{PREFIX}AWS_MSK_IAM must be <namespace> or <namespace>=<role ARN>, got {loan!r}")
        namespace, slash, name = self.journal_kafka_connection.partition("/")
        if self.journal_kafka_connection and not (namespace and slash and name and "/" not in name):
            raise SettingsError(
                f"{PREFIX}JOURNAL_KAFKA_CONNECTION must be <namespace>/<name>, got {self.journal_kafka_connection!r}"
            )
        if not TOPIC.fullmatch(self.journal_kafka_topic) or self.journal_kafka_topic in (".", ".."):
            raise SettingsError(
                f"{PREFIX}JOURNAL_KAFKA_TOPIC must be 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', "
                f"got {self.journal_kafka_topic!r}"
            )
        if not self.lease_duration_s > self.lease_renew_deadline_s > self.lease_retry_s > 0:
            raise SettingsError(
                f"{PREFIX}LEASE_DURATION_S > {PREFIX}LEASE_RENEW_DEADLINE_S > {PREFIX}LEASE_RETRY_S > 0 must hold, got "
                f"{self.lease_duration_s}, {self.lease_renew_deadline_s}, {self.lease_retry_s}"
            )
        if self.log_level not in ("DEBUG", "INFO", "WARNING", "ERROR"):
            raise SettingsError(f"{PREFIX}LOG_LEVEL must be DEBUG, INFO, WARNING or ERROR, got {self.log_level!r}")
        if self.log_format not in ("json", "text"):
            raise SettingsError(f"{PREFIX}LOG_FORMAT must be json or text, got {self.log_format!r}")


def _bounded(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise SettingsError(f"{PREFIX}{name.upper()} must be between {low} and {high}, got {value}")


def _recommendations(source: str) -> None:
    """Refuse a source that is neither an absolute path nor an http(s) URL; the text itself may hold a password."""
    try:
        url = urlsplit(source)
        is_url = url.scheme in ("http", "https") and url.hostname and (url.port is None or url.port > 0)
        is_url = is_url and not (url.query or url.fragment or "@" in url.netloc)
    except ValueError:
        is_url = False
    if source and not is_url and not source.startswith("/"):
        raise SettingsError(
            f"{PREFIX}RECOMMENDATIONS_SOURCE must be an absolute path, or an http:// or https:// URL without user, query "
            "and fragment"
        )


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Read the settings from environment variables named STATICGROUP_<FIELD>.

    Raises
    ------
    SettingsError: a value is malformed or outside its bounds, or a variable of our prefix is unknown.
    """
    return Settings(**values_from(environment, Settings))  # type: ignore[arg-type]


def values_from(environment: Mapping[str, str], settings: type[DataclassInstance]) -> dict[str, object]:
    """Return the fields of a class of settings that an environment names; raises SettingsError as `from_environment` does."""
    known = {f"{PREFIX}{f.name.upper()}": f for f in fields(settings)}
    unknown = sorted(v for v in environment if v.startswith(PREFIX) and v not in known)
    if unknown:
        raise SettingsError(f"unknown setting {unknown[0]}; known are {', '.join(sorted(known))}")
    return {
        f.name: _parsed(variable, environment[variable], f.default)
        for variable, f in known.items()
        if variable in environment
    }


def _parsed(variable: str, text: str, default: object) -> object:
    """Parse one value by the type of the field's default."""
    text = text.strip()
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise SettingsError(f"{variable} must be true or false, got {text!r}")
        return text.lower() == "true"
    if isinstance(default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if isinstance(default, int | float):
        try:
            return type(default)(text)
        except ValueError as error:
            raise SettingsError(f"{variable} must be a number, got {text!r}") from error
    return text
