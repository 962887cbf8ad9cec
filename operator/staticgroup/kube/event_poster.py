"""Post Kubernetes Events without flooding: a repeated Event about the same object becomes a count, not another object.

In events.k8s.io/v1 a series counts repeated events; within ten minutes a repetition patches `series.count`.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from ..api.names import FIELD_MANAGER
from .problem import KubeProblem, KubeProblemKind
from .transport import EVENTS, MERGE_PATCH, Json, Transport

SERIES_WINDOW_S: Final = 600.0
SERIES_MAX: Final = 4_096
NOTE_LENGTH_MAX: Final = 1_024
"""events.k8s.io/v1 refuses a longer note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Involved:
    """The object an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Series:
    name: str
    begun_s: float
    count: int


class EventPoster:
    """Post Events.

    Parameters
    ----------
    instance: name of this replica, shown as the reporting instance.
    now_s: seconds since the Unix epoch.
    """

    def __init__(self, transport: Transport, *, instance: str, now_s: Callable[[], float]) -> None:
        self._transport = transport
        self._instance = instance
        self._now_s = now_s
        self._series: dict[tuple[str, str, str], _Series] = {}

    async def post(
        self, involved: Involved, *, type_: str, reason: str, message: str, action: str
    ) -> KubeProblem | None:
        """Post one Event or count it up; None when it was written.

        Parameters
        ----------
        type_: Normal or Warning.
        reason, action: CamelCase.
        message: cut to 1024 characters.
        """
        note = message if len(message) <= NOTE_LENGTH_MAX else message[: NOTE_LENGTH_MAX - 1] + "…"
        key = (involved.uid, reason, note)
        now_s = self._now_s()
        known = self._series.get(key)
        # Step 1: count up the Event that exists, unless it was deleted.
        if known is not None and now_s - known.begun_s < SERIES_WINDOW_S:
            body: Json = {"series": {"count": known.count + 1, "lastObservedTime": _micro_time(now_s)}}
            answer = await self._transport.call(
                "patch", EVENTS, namespace=involved.namespace, name=known.name, body=body, content_type=MERGE_PATCH
            )
            if not isinstance(answer, KubeProblem):
                self._series[key] = replace(known, count=known.count + 1)
                return None
            if answer.kind is not KubeProblemKind.NOT_FOUND:
                return answer
        # Step 2: create one, and forget the series that began longest ago.
        digest = hashlib.sha256("\0".join((*key, self._instance, repr(now_s))).encode()).hexdigest()[:16]
        name = f"{involved.name[:200]}.{digest}"
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": involved.namespace},
            "eventTime": _micro_time(now_s),
            "type": type_,
            "reason": reason,
            "note": note,
            "action": action,
            "reportingController": f"staticgroup.io/{FIELD_MANAGER}",
            "reportingInstance": self._instance[:128],
            "regarding": {
                "apiVersion": involved.api_version, "kind": involved.kind, "namespace": involved.namespace,
                "name": involved.name, "uid": involved.uid,
            },
        }
        answer = await self._transport.call("create", EVENTS, namespace=involved.namespace, body=body)
        if isinstance(answer, KubeProblem):
            return answer
        self._series.pop(key, None)
        self._series[key] = _Series(name=name, begun_s=now_s, count=1)
        if len(self._series) > SERIES_MAX:
            del self._series[next(iter(self._series))]
        return None


def _micro_time(now_s: float) -> str:
    return datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
