"""Administer a test cluster over its PLAINTEXT listener.

Why: tests need topics, users, rights and group settings in one line each. One idea: every call waits for the broker's
answer and raises its error by name. Uses confluent-kafka, imported when first needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from support.waiting import until

_TIMEOUT_S = 30.0

ResourceKind = Literal["topic", "group", "cluster"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """One member as DescribeGroups or ConsumerGroupDescribe shows it; `instance_id` is None for a dynamic member."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    topic_partitions: frozenset[tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group's state (`Stable`, `PreparingRebalance`, …, `Dead` for none) and members, sorted by instance id."""

    state: str
    members: tuple[GroupMember, ...]


class BrokerRefused(RuntimeError):
    """The broker answered with an error; `error` is its name in the protocol, such as `INVALID_CONFIG`."""

    def __init__(self, error: str, text: str) -> None:
        super().__init__(f"{error}: {text}")
        self.error = error


class BrokerAdmin:
    """Blocking administration of one cluster; every method raises BrokerRefused when the broker refuses.

    Parameters
    ----------
    bootstrap: PLAINTEXT addresses.
    client_settings: further librdkafka settings, for administrators over TLS or SASL.
    """

    def __init__(self, bootstrap: str, client_settings: Mapping[str, str] | None = None) -> None:
        api = _api()
        settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 2, **(client_settings or {})}
        self._client = api.AdminClient(settings, logger=None)

    def create_topic(self, name: str, partitions: int = 6) -> None:
        """Create a topic with the broker's default replication factor."""
        try:
            self._create_topic(name, partitions)
        except BrokerRefused as lost:
            # librdkafka drops a broker that metadata does not show, as just after the start of a cluster, and what it
            # was asked.
            if lost.error != "_DESTROY_BROKER":
                raise
            try:
                self._create_topic(name, partitions)
            except BrokerRefused as refused:
                if refused.error != "TOPIC_ALREADY_EXISTS":
                    raise

    def _create_topic(self, name: str, partitions: int) -> None:
        topic = _api().NewTopic(name, num_partitions=partitions, replication_factor=-1)
        self._wait(self._client.create_topics([topic], operation_timeout=_TIMEOUT_S))

    def delete_topic(self, name: str) -> None:
        self._wait(self._client.delete_topics([name], operation_timeout=_TIMEOUT_S))

    def topics(self) -> list[str]:
        """Return the names of all topics that are not internal."""
        names = self._client.list_topics(timeout=_TIMEOUT_S).topics
        return sorted(name for name in names if not name.startswith("__"))

    def allow(self, user: str, operation: str, kind: ResourceKind, name: str, *, is_prefix: bool = False) -> None:
        """Allow one operation (`READ`, `DESCRIBE`, `ALTER_CONFIGS`, …) to `User:<user>` from any host.

        Parameters
        ----------
        name: the resource, or the prefix; `kafka-cluster` for the cluster.
        """
        self._wait(self._client.create_acls([self._acl(user, operation, kind, name, is_prefix)]))

    def withdraw(self, user: str) -> int:
        """Delete all rules of `User:<user>` and return how many there were."""
        api = _api()
        chosen = api.AclBindingFilter(
            api.ResourceType.ANY, None, api.ResourcePatternType.ANY, f"User:{user}", None, api.AclOperation.ANY,
            api.AclPermissionType.ANY,
        )  # fmt: skip
        (deleted,) = self._wait(self._client.delete_acls([chosen]))
        return len(deleted)

    def put_user(self, name: str, password: str) -> None:
        """Create a SCRAM user, or change the password (KIP-554)."""
        api = _api()
        kind = api.ScramCredentialInfo(api.ScramMechanism.SCRAM_SHA_512, 4096)
        change = api.UserScramCredentialUpsertion(name, kind, password.encode())
        self._wait(self._client.alter_user_scram_credentials([change]))

    def delete_user(self, name: str) -> None:
        """Delete a SCRAM user."""
        api = _api()
        change = api.UserScramCredentialDeletion(name, api.ScramMechanism.SCRAM_SHA_512)
        self._wait(self._client.alter_user_scram_credentials([change]))

    def alter_group(self, group_id: str, values: Mapping[str, str]) -> None:
        """Set GROUP configurations such as `consumer.session.timeout.ms` (KIP-848), leaving others alone.

        A controller answers before the broker has read the change, so this waits until the broker shows it.
        """
        api = _api()
        entries = [
            api.ConfigEntry(key, value, incremental_operation=api.AlterConfigOpType.SET)
            for key, value in values.items()
        ]
        resource = self._group_resource(group_id, entries)
        self._wait(self._client.incremental_alter_configs([resource]))
        until(lambda: values.items() <= self.group_settings(group_id).items(), deadline_s=_TIMEOUT_S,
              what=f"{dict(values)} of group {group_id} to be shown")  # fmt: skip

    def commit_offsets(self, group_id: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Let a group without members go on at these offsets, by partition."""
        plain = import_module("confluent_kafka")
        positions = [plain.TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        wanted = plain.ConsumerGroupTopicPartitions(group_id, positions)
        self._wait(self._client.alter_consumer_group_offsets([wanted], request_timeout=_TIMEOUT_S))

    def group_settings(self, group_id: str) -> dict[str, str]:
        """Return all GROUP configurations, the broker's defaults included."""
        (entries,) = self._wait(self._client.describe_configs([self._group_resource(group_id)]))
        return {key: entry.value for key, entry in entries.items()}

    def group_type(self, group_id: str) -> str:
        """Return the type of a group by ListGroups v5, `classic` or `consumer`; "" if there is no such group."""
        listed = self._client.list_consumer_groups(request_timeout=_TIMEOUT_S).result(timeout=_TIMEOUT_S)
        return next((found.type.name.lower() for found in listed.valid if found.group_id == group_id), "")

    def describe_group(self, group_id: str) -> GroupDescription:
        """Return a group's state and members, classic or consumer."""
        (shown,) = self._wait(self._client.describe_consumer_groups([group_id], request_timeout=_TIMEOUT_S))
        members = [
            GroupMember(
                member_id=member.member_id, instance_id=member.group_instance_id, client_id=member.client_id,
                host=member.host,
                topic_partitions=frozenset((tp.topic, tp.partition) for tp in member.assignment.topic_partitions),
            )
            for member in shown.members
        ]  # fmt: skip
        ordered = sorted(members, key=lambda member: (member.instance_id or "", member.member_id))
        return GroupDescription(state=_camel(shown.state.name), members=tuple(ordered))

    @staticmethod
    def _group_resource(group_id: str, entries: list[Any] | None = None) -> Any:
        api = _api()
        return api.ConfigResource(api.ConfigResource.Type.GROUP, group_id, incremental_configs=entries)

    @staticmethod
    def _acl(user: str, operation: str, kind: ResourceKind, name: str, is_prefix: bool) -> Any:
        api = _api()
        types = {"topic": api.ResourceType.TOPIC, "group": api.ResourceType.GROUP, "cluster": api.ResourceType.BROKER}
        pattern = api.ResourcePatternType.PREFIXED if is_prefix else api.ResourcePatternType.LITERAL
        return api.AclBinding(
            types[kind], name, pattern, f"User:{user}", "*", api.AclOperation[operation], api.AclPermissionType.ALLOW
        )

    @staticmethod
    def _wait(futures: Mapping[Any, Future[Any]]) -> list[Any]:
        try:
            return [future.result(timeout=_TIMEOUT_S) for future in futures.values()]
        except import_module("confluent_kafka").KafkaException as refused:
            error = refused.args[0]
            raise BrokerRefused(error.name(), error.str()) from None


def _api() -> Any:
    """Return confluent-kafka's admin module, which declares neither types nor exports."""
    return import_module("confluent_kafka.admin")


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))
