"""What the API server keeps: objects under one counter of resource versions, the events of a window, and the watches.

Sources: Kubernetes API concepts (resource versions, watch, bookmarks, 410); storage/cacher (window of events, bookmarks
at the position of the cache); etcdutl snapshot restore.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from .objects import Json
from .watch_log import Event, EventLog, Selector, Subscription

PROGRESS_EVERY_S: Final = 5.0
"""etcd reports its revision to the watch cache at least this often (k/k etcd3 progress notify)."""

Key = tuple[str, str]


class ApiError(Exception):
    """A refused request.

    Parameters
    ----------
    status: HTTP status.
    """

    def __init__(self, status: int, message: str = "") -> None:
        super().__init__(f"{status} {message}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Backup:
    """What an etcd snapshot holds."""

    resource_version: int
    objects: dict[str, dict[Key, Json]]


class Storage:
    """etcd and the watch cache before it.

    Parameters
    ----------
    now_s: virtual seconds.

    Attributes
    ----------
    observers: called with (resource, event) after each committed write.
    """

    def __init__(self, *, now_s: Callable[[], float]) -> None:
        self.now_s = now_s
        self.resource_version = 100
        self.subscriptions: dict[str, list[Subscription]] = {}
        self.observers: list[Callable[[str, Event], None]] = []
        self._objects: dict[str, dict[Key, Json]] = {}
        self._logs: dict[str, EventLog] = {}
        self._tick = (0, self.resource_version)
        self._cache_read: dict[str, int] = {}
        self._pages: dict[str, tuple[str, int, list[Json]]] = {}
        self._page_count = 0

    # -- reading

    def get(self, resource: str, namespace: str, name: str) -> Json | None:
        """Read one object consistently; None when it does not exist."""
        return self._objects.get(resource, {}).get((namespace, name))

    def list(self, resource: str, namespace: str = "", selector: Selector | None = None) -> list[Json]:
        """Read a collection consistently, in the order of namespace and name."""
        found = self._objects.get(resource, {})
        return [
            found[key]
            for key in sorted(found)
            if (not namespace or key[0] == namespace) and (selector is None or selector.matches(found[key]))
        ]

    def list_page(self, resource: str, namespace: str, selector: Selector, *, limit: int = 0, token: str = "") -> Json:
        """Answer a LIST with resourceVersion=0 as a replica whose cache is `age_s` behind, within kept events."""
        if token:
            kept = self._pages.pop(token, None)
            if kept is None or kept[1] < self._log(resource).floor:
                raise ApiError(410, "continue token expired")
            resource_version, items = kept[1], kept[2]
        else:
            resource_version, items = self.resource_version, self.list(resource, namespace, selector)
            self._cache_read[resource] = resource_version
        metadata: Json = {"resourceVersion": str(resource_version)}
        if limit and len(items) > limit:
            self._page_count += 1
            metadata["continue"] = token = f"page-{self._page_count}"
            self._pages[token] = (resource, resource_version, items[limit:])
            items = items[:limit]
        return {"kind": "List", "metadata": metadata, "items": items}

    def list_stale(self, resource: str, namespace: str, selector: Selector, age_s: float) -> Json:
        """Answer a LIST with resourceVersion=0 as a replica whose cache is `age_s` behind, within kept events."""
        log = self._log(resource)
        then_s = self.now_s() - age_s
        found = dict(self._objects.get(resource, {}))
        version = self.resource_version
        for event in reversed(log.events):
            if event.at_s <= then_s:
                break
            known = event.current if event.current is not None else event.previous
            assert known is not None
            key = (known["metadata"].get("namespace") or "", known["metadata"]["name"])
            if event.previous is None:
                found.pop(key, None)
            else:
                found[key] = event.previous
            version = event.resource_version - 1
        items = [found[k] for k in sorted(found) if (not namespace or k[0] == namespace) and selector.matches(found[k])]
        return {"kind": "List", "metadata": {"resourceVersion": str(version)}, "items": items}

    def subscribe(
        self,
        resource: str,
        namespace: str,
        selector: Selector,
        since: int,
        deliver: Callable[[Json], None],
        on_break: Callable[[], None],
    ) -> tuple[Subscription, Sequence[Json]]:
        """Open a watch and return what it has missed since a resourceVersion.

        Raises
        ------
        ApiError: 410 when the events after that version are no longer kept. A version in the future is accepted.
        """
        log = self._log(resource)
        if since < log.floor:
            raise ApiError(410, "too old resource version")
        open_watches = self.subscriptions.setdefault(resource, [])
        subscription = Subscription(open_watches, resource, namespace, selector, deliver, on_break)
        open_watches.append(subscription)
        missed = [r for e in log.after(since) if (r := subscription.rendered(e)) is not None]
        return subscription, missed

    def bookmark_version(self, resource: str) -> int:
        """Return how far the watch cache of a resource is known to be complete, which is what a bookmark says.

        Notes
        -----
        It follows the resource's own events, etcd's progress notifications, and every consistent LIST, which makes
        the cache ask etcd (KEP-2340).
        """
        self._note_progress()
        log = self._log(resource)
        last = log.versions[-1] if log.versions else log.floor
        return min(max(last, self._tick[1], self._cache_read.get(resource, 0)), self.resource_version)

    def _note_progress(self) -> None:
        tick = int(self.now_s() / PROGRESS_EVERY_S)
        if tick != self._tick[0]:
            self._tick = (tick, self.resource_version)

    def _log(self, resource: str) -> EventLog:
        log = self._logs.get(resource)
        if log is None:
            log = self._logs[resource] = EventLog(floor=0)
        return log

    # -- writing

    def _commit(self, resource: str, obj: Json | None, previous: Json | None) -> Json:
        self._note_progress()
        if obj is not None and previous is not None:
            version = previous["metadata"]["resourceVersion"]
            if obj["metadata"].get("resourceVersion") != version:
                obj = obj | {"metadata": obj["metadata"] | {"resourceVersion": version}}
            if obj == previous:
                return previous  # an update that changes nothing is not written
        return self._write(resource, obj, previous)

    def _write(self, resource: str, obj: Json | None, previous: Json | None) -> Json:
        known = obj if obj is not None else previous
        assert known is not None
        self.resource_version += 1
        key = (known["metadata"].get("namespace") or "", known["metadata"]["name"])
        objects = self._objects.setdefault(resource, {})
        if obj is not None:
            obj = obj | {"metadata": obj["metadata"] | {"resourceVersion": str(self.resource_version)}}
            objects[key] = obj
        else:
            del objects[key]
        event = Event(self.resource_version, self.now_s(), obj, previous)
        self._log(resource).append(event)
        for subscription in tuple(self.subscriptions.get(resource, ())):
            subscription.take(event)
        for observer in self.observers:
            observer(resource, event)
        return obj if obj is not None else known

    # -- what goes wrong

    def compact(self, resource: str) -> None:
        """Forget the events of a resource, so that a watch from before answers 410."""
        self._logs[resource] = EventLog(floor=self.resource_version)

    def restart(self) -> None:
        """Restart: no event from before is kept, every old position answers 410, and every connection breaks."""
        for resource in {*self._logs, *self._objects}:
            self.compact(resource)
        self._cache_read.clear()
        self._pages.clear()
        self.break_watches()

    def break_watches(self) -> None:
        """Drop every connection, as a restart of the API server does."""
        dropped = [s for subscriptions in self.subscriptions.values() for s in subscriptions]
        self.subscriptions.clear()
        for subscription in dropped:
            subscription.on_break()

    def backup(self) -> Backup:
        """Take an etcd snapshot."""
        return Backup(self.resource_version, {resource: dict(found) for resource, found in self._objects.items()})

    def restore(self, backup: Backup, *, bump: int = 0) -> None:
        """Restore etcd: objects and the version counter go back, and every connection breaks.

        Parameters
        ----------
        bump: the counter goes so far ahead of the backup's instead, and what lies before counts as compacted
            (etcdutl snapshot restore --bump-revision --mark-compacted).
        """
        self.resource_version = backup.resource_version + bump
        self._objects = {resource: dict(found) for resource, found in backup.objects.items()}
        self._logs = {resource: EventLog(floor=self.resource_version) for resource in {*self._logs, *self._objects}}
        self._tick = (self._tick[0], self.resource_version)
        self._cache_read.clear()
        self._pages.clear()
        self.break_watches()
