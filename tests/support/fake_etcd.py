"""The store of the fake API server; tests may write to it directly and choose its history."""

from collections.abc import Iterator, MutableMapping
from typing import Any

from simulator.kubernetes.api_server import ApiServer
from simulator.kubernetes.watch_log import Event, EventLog

Json = dict[str, Any]
Key = tuple[str, str, str]  # plural.group, namespace, name


class Etcd(ApiServer):
    """The model's API server, whose store a test may write to directly."""

    def write(self, resource: str, obj: Json) -> Json:
        """Store a new version of an object, even of the same content; a missing uid is drawn or kept."""
        metadata = obj.get("metadata") or {}
        present = self.get(resource, metadata.get("namespace") or "", metadata["name"])
        uid = metadata.get("uid") or (present["metadata"]["uid"] if present else self._new_uid())
        return self._write(resource, obj | {"metadata": metadata | {"uid": uid}}, present)

    def erase(self, resource: str, namespace: str, name: str) -> Json:
        """Delete an object at once; returns its last content with the version of its deletion."""
        last = self._commit(resource, None, self._present(resource, namespace, name))
        return last | {"metadata": last["metadata"] | {"resourceVersion": str(self.resource_version)}}

    @property
    def history(self) -> list[tuple[str, Event]]:
        """Every event that a watch can still be sent, with its resource, in order."""
        kept = [(resource, event) for resource, log in self._logs.items() for event in log.events]
        return sorted(kept, key=lambda one: one[1].resource_version)

    def keep(self, history: list[tuple[str, Event]], floor: int) -> None:
        """Keep these events and no others; requests from below `floor` are answered 410."""
        self._logs = {resource: EventLog(floor) for resource in {*self._logs, *self._objects}}
        for resource, event in history:
            self._log(resource).append(event)

    def forget_last(self) -> Event:
        """Make the last event one that no watch will be sent."""
        resource, last = self.history[-1]
        self.keep([(r, e) for r, e in self.history if e is not last], self._log(resource).floor)
        return last


class Objects(MutableMapping[Key, Json]):
    """Everything that is stored, by resource, namespace and name; what is changed here is seen by no watch."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    def __getitem__(self, key: Key) -> Json:
        return self._server._objects.get(key[0], {})[key[1:]]

    def __setitem__(self, key: Key, value: Json) -> None:
        self._server._objects.setdefault(key[0], {})[key[1:]] = value

    def __delitem__(self, key: Key) -> None:
        del self._server._objects.get(key[0], {})[key[1:]]

    def __iter__(self) -> Iterator[Key]:
        return iter([(resource, *key) for resource, found in self._server._objects.items() for key in found])

    def __len__(self) -> int:
        return sum(len(found) for found in self._server._objects.values())
