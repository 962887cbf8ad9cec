"""Read settings of brokers and groups, write those of a group, and try whether a right is granted.

Source: KIP-339 (IncrementalAlterConfigs), KIP-848 (group configs), ConfigResource and AlterConfigOp of Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..wire import Api, Call, element_type

BROKER_RESOURCE, GROUP_RESOURCE = 4, 32
"""ConfigResource.Type of Kafka."""
SET_OPERATION, DELETE_OPERATION = 0, 1
"""AlterConfigOp.OpType of Kafka."""
OWN_SOURCE = 8
"""DescribeConfigsResponse.ConfigSource GROUP_CONFIG: set on the group itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigAnswer:
    """DescribeConfigs for one resource.

    Parameters
    ----------
    own: the keys that are set on a resource of type GROUP itself; the others show the broker's defaults.
    """

    resource_type: int
    error_code: int
    values: Mapping[str, str | None]
    own: frozenset[str]


def heartbeat(group_id: str, member_id: str) -> Call[int]:
    """Send a heartbeat of a member id that nobody holds, to see by the error code whether READ is granted."""

    def build(cls: Any, _version: int) -> Any:
        return cls(group_id=group_id, generation_id=0, member_id=member_id, group_instance_id=None)

    return Call(api=Api.HEARTBEAT, build=build, read=lambda response, _version: int(response.error_code))


def describe_configs(resources: Mapping[tuple[int, str], Sequence[str]]) -> Call[tuple[ConfigAnswer, ...]]:
    """Read the named keys of config resources, given as {(type, name): keys}."""

    def build(cls: Any, _version: int) -> Any:
        resource: Any = element_type(cls, "resources")
        wanted = (
            resource(resource_type=kind, resource_name=name, configuration_keys=tuple(keys))
            for (kind, name), keys in resources.items()
        )
        return cls(resources=tuple(wanted))

    def read(response: Any, _version: int) -> tuple[ConfigAnswer, ...]:
        return tuple(
            ConfigAnswer(
                resource_type=r.resource_type,
                error_code=int(r.error_code),
                values={c.name: c.value for c in r.configs},
                own=frozenset(c.name for c in r.configs if c.config_source == OWN_SOURCE),
            )
            for r in response.results
        )

    return Call(api=Api.DESCRIBE_CONFIGS, build=build, read=read)


def alter_group_config(group_id: str, values: Mapping[str, str | None], *, is_tried_only: bool = False) -> Call[int]:
    """Set settings of one group in one request, all of them or, if one is refused, none; None takes one back.

    Parameters
    ----------
    is_tried_only: the broker says whether it would, and changes nothing.
    """

    def build(cls: Any, _version: int) -> Any:
        resource: Any = element_type(cls, "resources")
        entry: Any = element_type(resource, "configs")
        entries = tuple(
            entry(name=name, config_operation=DELETE_OPERATION if value is None else SET_OPERATION, value=value)
            for name, value in values.items()
        )
        asked = resource(resource_type=GROUP_RESOURCE, resource_name=group_id, configs=entries)
        return cls(resources=(asked,), validate_only=is_tried_only)

    def read(response: Any, _version: int) -> int:
        return next((int(r.error_code) for r in response.responses), -1)

    return Call(api=Api.INCREMENTAL_ALTER_CONFIGS, build=build, read=read)
