"""Names of Kafka's broker and group properties for the fields of `BrokerSettings`.

One idea: a property's name with underscores, less `group.`, is the field; so `--set` and DescribeConfigs need no table.
The model's own switches, which no Kafka has, begin with `model.`; only `--set` knows them.
Source: GroupCoordinatorConfig, GroupConfig.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from .settings import BrokerSettings

_GROUP_TYPES = ("consumer", "streams", "share")
_GROUP_KEYS = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms", "initial.rebalance.delay.ms")
_SWITCHES = frozenset(
    {"static_self_rejoin", "first_consumer_epoch", "streams_static_membership", "pre_registration", "hot_standby"}
)
_HIDDEN = frozenset({"node_id", "host", "port", "is_denied", "new_member_join_timeout_ms"})


class UnknownProperty(ValueError):
    """A property that the model does not have, or a value that it cannot take."""


def properties(settings: BrokerSettings) -> dict[str, str]:
    """Return all of Kafka's broker properties that the model knows, with their values."""
    fields = (field.name for field in dataclasses.fields(settings))
    known = {name: getattr(settings, name) for name in fields if name not in _HIDDEN | _SWITCHES}
    return {_property(name): _text(value) for name, value in known.items() if isinstance(value, str | int | tuple)}


def group_defaults(settings: BrokerSettings) -> dict[str, str]:
    """Return the properties of a GROUP resource that nothing is set on."""
    broker = properties(settings)
    keys = [f"{kind}.{key}" for kind in _GROUP_TYPES for key in _GROUP_KEYS]
    return {key: broker[f"group.{key}"] for key in keys if f"group.{key}" in broker}


def with_properties(settings: BrokerSettings, changes: Mapping[str, str]) -> BrokerSettings:
    """Return the settings with properties set.

    Raises
    ------
    UnknownProperty: the model has no such property, or the value is not a number where one is needed.
    """
    fields = {_property(f.name): f.name for f in dataclasses.fields(settings) if f.name not in _HIDDEN}
    values: dict[str, Any] = {}
    for name, text in changes.items():
        if name not in fields:
            raise UnknownProperty(f"unknown property {name}; known: {', '.join(sorted(fields))}")
        before = getattr(settings, fields[name])
        values[fields[name]] = _value(name, text, before)
    return dataclasses.replace(settings, **values)


def parse_pairs(pairs: Iterable[str]) -> dict[str, str]:
    """Split `name=value` texts.

    Raises
    ------
    UnknownProperty: a text has no `=`.
    """
    split = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UnknownProperty(f"{pair!r} is not name=value")
        split[name.strip()] = value.strip()
    return split


def _property(field: str) -> str:
    if field == "migration_policy":
        return "group.consumer.migration.policy"
    dotted = field.replace("_", ".")
    if field in _SWITCHES:
        return f"model.{dotted}"
    return f"group.{dotted}" if field.split("_", maxsplit=1)[0] in _GROUP_TYPES else dotted


def _text(value: str | int | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(name: str, text: str, before: object) -> object:
    if isinstance(before, bool):
        if text not in ("true", "false"):
            raise UnknownProperty(f"{name} is true or false, not {text!r}")
        return text == "true"
    if isinstance(before, int):
        if not (text.isascii() and text.isdigit()):
            raise UnknownProperty(f"{name} takes a number from 0 on, not {text!r}")
        return int(text)
    return tuple(part.strip() for part in text.split(",")) if isinstance(before, tuple) else text
