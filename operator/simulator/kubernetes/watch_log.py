"""What a watch is made of: the events that are still kept, selectors, and the server's end of an open watch.

Sources: storage/cacher watch_cache.go (events are kept for 75 s, and a hundred in any case), cache_watcher.go (an
object that leaves the selection is DELETED for that watch).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .objects import Json

EVENTS_KEPT_S: Final = 75.0
EVENTS_KEPT_MIN: Final = 100


@dataclass(frozen=True, slots=True)
class Event:
    """One committed write; `current` is None for a deletion, `previous` for a creation."""

    resource_version: int
    at_s: float
    current: Json | None
    previous: Json | None


class EventLog:
    """The events of one resource that a watch may still start from."""

    __slots__ = ("events", "floor", "versions")

    def __init__(self, floor: int) -> None:
        self.events: list[Event] = []
        self.versions: list[int] = []
        self.floor = floor

    def append(self, event: Event) -> None:
        """Keep an event, and forget what is old and not needed."""
        self.events.append(event)
        self.versions.append(event.resource_version)
        if len(self.events) > 2 * EVENTS_KEPT_MIN:
            self._trim(event.at_s)

    def _trim(self, now_s: float) -> None:
        count = len(self.events) - EVENTS_KEPT_MIN
        while count > 0 and now_s - self.events[count - 1].at_s < EVENTS_KEPT_S:
            count -= 1
        if count > 0:
            self.floor = self.versions[count - 1]
            del self.events[:count], self.versions[:count]

    def after(self, resource_version: int) -> list[Event]:
        """Return the events after a version."""
        return self.events[bisect_right(self.versions, resource_version) :]


class Selector:
    """A label selector (equality and existence) and a field selector on metadata.name or spec.nodeName."""

    __slots__ = ("_fields", "_labels")

    def __init__(self, labels: str = "", fields: str = "") -> None:
        self._labels = [t.partition("=") for t in labels.split(",") if t]
        self._fields = [t.partition("=") for t in fields.split(",") if t]

    def matches(self, obj: Json | None) -> bool:
        """True when an object is selected; None never is."""
        if obj is None:
            return False
        if self._labels:
            labels = obj["metadata"].get("labels") or {}
            for key, equals, value in self._labels:
                if key not in labels or (equals and labels[key] != value):
                    return False
        return all(_field(obj, path) == value for path, _, value in self._fields)


def _field(obj: Json, path: str) -> str:
    if path == "metadata.name":
        return str(obj["metadata"]["name"])
    if path == "spec.nodeName":
        return str(obj["spec"].get("nodeName") or "")
    raise ValueError(f"field selector {path} is not modelled")


class Subscription:
    """One open watch as the server sees it.

    Parameters
    ----------
    deliver: called with each watch event, synchronously with the write.
    on_break: called when the server drops the connection (restore, restart).
    """

    __slots__ = ("_deliver", "_open", "namespace", "on_break", "resource", "selector")

    def __init__(
        self,
        open_watches: list[Subscription],
        resource: str,
        namespace: str,
        selector: Selector,
        deliver: Callable[[Json], None],
        on_break: Callable[[], None],
    ) -> None:
        self._open = open_watches
        self._deliver = deliver
        self.resource = resource
        self.namespace = namespace
        self.selector = selector
        self.on_break = on_break

    def take(self, event: Event) -> None:
        """Deliver a write if it concerns this watch."""
        rendered = self.rendered(event)
        if rendered is not None:
            self._deliver(rendered)

    def rendered(self, event: Event) -> Json | None:
        """Show a write as this watch sees it: an object that leaves the selection is DELETED for it."""
        current, previous = event.current, event.previous
        known = current if current is not None else previous
        assert known is not None
        if self.namespace and known["metadata"].get("namespace") != self.namespace:
            return None
        is_now, was = self.selector.matches(current), self.selector.matches(previous)
        if is_now:
            return {"type": "MODIFIED" if was else "ADDED", "object": current}
        if not was:
            return None
        assert previous is not None
        last = previous | {"metadata": previous["metadata"] | {"resourceVersion": str(event.resource_version)}}
        return {"type": "DELETED", "object": last}

    def close(self) -> None:
        """End the watch."""
        if self in self._open:
            self._open.remove(self)
