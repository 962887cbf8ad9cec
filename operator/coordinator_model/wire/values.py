"""What the translators of all group types share: topic ids, copying by name.

Source: KIP-516 (topic ids).
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, TypeVar

from ..base import messages as m
from ..base.image import TopicImage
from .codec import Body

R = TypeVar("R")


class TopicIds:
    """Topic ids that follow from the names, so that every run of the model has the same."""

    def __init__(self, image: Callable[[], TopicImage]) -> None:
        self._image = image

    def of(self, name: str) -> uuid.UUID:
        """Return the id of a topic."""
        return uuid.uuid5(uuid.NAMESPACE_OID, name)

    def name(self, topic_id: uuid.UUID | None) -> str | None:
        """Return the name of a topic; None when no topic has this id."""
        return next((name for name in self._image().partitions if self.of(name) == topic_id), None)


def named_partitions(topics: Iterable[Body] | None, ids: TopicIds) -> m.TopicPartitions | None:
    """Return names instead of ids; a topic that does not exist keeps its id as its name."""
    if topics is None:
        return None
    pairs = ((ids.name(t["topic_id"]) or str(t["topic_id"]), tuple(sorted(t["partitions"]))) for t in topics)
    return tuple(sorted(pairs))


def wire_partitions(topics: m.TopicPartitions, ids: TopicIds) -> list[Body]:
    """Return both names and ids; the writer drops what a version lacks."""
    return [{"topic_id": ids.of(name), "topic_name": name, "partitions": p} for name, p in topics]


@cache
def _names(kind: type) -> frozenset[str]:
    return frozenset(field.name for field in dataclasses.fields(kind))


def alike(kind: Callable[..., R], body: Mapping[str, Any], **more: Any) -> R:
    """Make a message of the fields that have the same name on the wire."""
    names = _names(kind)
    return kind(**{**{name: value for name, value in body.items() if name in names}, **more})


def flat(message: Any) -> Any:
    """Return a message as dictionaries all the way down."""
    if dataclasses.is_dataclass(message):
        return {field.name: flat(getattr(message, field.name)) for field in dataclasses.fields(message)}
    return [flat(each) for each in message] if isinstance(message, tuple) else message
