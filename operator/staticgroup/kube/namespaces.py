"""The labels of namespaces, by which a ClusterKafkaConnection may be allowed to some."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Namespaces:
    """Labels as the watch showed them last.

    Attributes
    ----------
    problem: why they cannot be read; empty while they can.
    """

    problem: str = ""
    _labels: dict[str, dict[str, str]] = field(default_factory=dict)

    def put(self, body: dict[str, Any]) -> bool:
        """Store the labels of a namespace; True when they are new."""
        metadata = body.get("metadata") or {}
        name, found = str(metadata.get("name", "")), metadata.get("labels") or {}
        before = self.labels_of(name)
        self._labels[name] = {str(k): str(v) for k, v in found.items()}
        return before != self.labels_of(name)

    def drop(self, name: str) -> bool:
        """Forget a namespace; False when it is unknown."""
        return self._labels.pop(name, None) is not None

    def labels_of(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of a namespace; None while they are not known or cannot be read."""
        return self._labels.get(name) if not self.problem else None
