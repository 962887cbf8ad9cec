"""Keep what is remembered of nodes in ConfigMaps of the operator's namespace, cut into chunks, written only when something is news.

A chunk is replaced as a whole over the version that this process knows. Whoever wrote meanwhile is read first and merged, so
nothing that one process saw is lost to another. What cannot be read is as good as nothing: of a node that is not remembered
nothing is concluded. The first line of each says of which cluster and timeline it is; what is of another one is as good as nothing, too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final
from zlib import crc32

from ...core.evidence.machines import Machine, NodeRecord
from ..problem import KubeProblem, KubeProblemKind
from ..transport import CONFIG_MAPS, Json, Transport
from .ledger import NodeLedger, NodeScope

_log = logging.getLogger(__name__)

CHUNKS: Final = 8
"""10,000 nodes of some 350 bytes each are half of what a ConfigMap takes (1 MiB) in each of them; the chart names each in its Role."""
KEY: Final = "nodes.json"
_TIMES: Final = (
    "created_at_s", "known_since_s", "boot_since_s", "earlier_until_s", "old_boot_until_s", "runtime_since_s", "tainted_since_s", "gone_since_s",
)  # fmt: skip
_TEXTS: Final = ("machine_id", "system_uuid", "boot_id", "runtime")

_UNREADABLE: Final = (ValueError, RecursionError)
"""What reading a text as JSON ends with, that of whoever may write here, however it is nested."""


def chunk_of(node_name: str) -> int:
    """Return in which chunk a node is kept."""
    return crc32(node_name.encode()) % CHUNKS


class NodeRecords:
    """Read and write the chunks.

    Parameters
    ----------
    prefix: of their names; the operator's own, so that two operators of one namespace keep theirs apart.

    Attributes
    ----------
    is_forbidden: the last chunk that could not be read may not be.
    """

    def __init__(self, transport: Transport, ledger: NodeLedger, *, namespace: str, prefix: str) -> None:
        self._transport = transport
        self._ledger = ledger
        self._namespace = namespace
        self._prefix = prefix
        self._versions: dict[int, str] = {}
        self._texts: dict[int, str] = {}
        self._unread = set(range(CHUNKS))
        self._news: set[int] = set()
        self._read_as: NodeScope | None = None
        self._told = ""
        self.is_forbidden = False
        ledger.on_news = self._note

    def _note(self, node_name: str) -> None:
        self._news.add(chunk_of(node_name))

    def forget(self) -> None:
        """Have all chunks read again, because another process may have written since."""
        self._unread = set(range(CHUNKS))

    async def read(self) -> bool:
        """Read and merge the chunks that were not read yet; False while one cannot be read."""
        scope = self._ledger.scope()
        if self._read_as is not None and not scope.is_of(self._read_as):
            self.forget()
        self._read_as = scope
        for chunk in sorted(self._unread):
            if not await self._read(chunk):
                return False
        return True

    @property
    def has_news(self) -> bool:
        """True while something is to be written."""
        return bool(self._news)

    async def write(self) -> bool:
        """Write one chunk that has news, so that a storm of nodes is no storm of writes; False when it has to be tried again."""
        chunk = next(iter(sorted(self._news)), None)
        if chunk is None:
            return True
        if chunk in self._unread and not await self._read(chunk):
            return False
        self._news.discard(chunk)
        if not await self._write(chunk):
            self._news.add(chunk)
            return False
        self._told = ""
        return True

    async def _read(self, chunk: int) -> bool:
        raw = await self._transport.call("get", CONFIG_MAPS, namespace=self._namespace, name=self._name(chunk))
        if isinstance(raw, KubeProblem):
            if raw.kind is not KubeProblemKind.NOT_FOUND:
                self.is_forbidden = raw.kind is KubeProblemKind.FORBIDDEN
                self._tell(raw)
                return False
            self._versions.pop(chunk, None)
            self._texts.pop(chunk, None)
            raw = {}
        else:
            self._versions[chunk] = str(raw["metadata"]["resourceVersion"])
            self._texts[chunk] = str((raw.get("data") or {}).get(KEY) or "")
        self._unread.discard(chunk)
        text = self._texts.get(chunk, "")
        written = scope_of(text)
        self._ledger.merge(parsed(text), written)
        if text and written != self._ledger.scope():
            self._news.add(chunk)
        return True

    async def _write(self, chunk: int) -> bool:
        text = text_of((r for r in self._ledger.records() if chunk_of(r.name) == chunk), self._ledger.scope())
        if text == self._texts.get(chunk, ""):
            return True
        metadata: Json = {"name": self._name(chunk), "namespace": self._namespace}
        version = self._versions.get(chunk)
        body: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {KEY: text}}
        if version is None:
            answer = await self._transport.call("create", CONFIG_MAPS, namespace=self._namespace, body=body)
        else:
            metadata["resourceVersion"] = version
            answer = await self._transport.call(
                "update", CONFIG_MAPS, namespace=self._namespace, name=self._name(chunk), body=body
            )
        if not isinstance(answer, KubeProblem):
            self._versions[chunk], self._texts[chunk] = str(answer["metadata"]["resourceVersion"]), text
            return True
        # Somebody else wrote, made or deleted it.
        self._unread.add(chunk)
        if answer.kind not in (KubeProblemKind.CONFLICT, KubeProblemKind.NOT_FOUND):
            self._tell(answer)
        return False

    def _name(self, chunk: int) -> str:
        return f"{self._prefix}-nodes-{chunk}"

    def _tell(self, problem: KubeProblem) -> None:
        if problem.message != self._told and problem.kind is not KubeProblemKind.UNAVAILABLE:
            _log.warning("what is remembered of nodes cannot be kept", extra={"problem": problem.message})
            self._told = problem.message


def text_of(records: Iterable[NodeRecord], scope: NodeScope) -> str:
    """Write what records are about, and the records in the order of their names, one line each."""
    lines = (asdict(scope), *(_entry(r) for r in sorted(records, key=lambda r: r.name)))
    return "\n".join(json.dumps(line, separators=(",", ":"), sort_keys=True) for line in lines)


def scope_of(text: str) -> NodeScope | None:
    """Read back what records are about; None when that cannot be read."""
    try:
        entry = json.loads(text.partition("\n")[0])
    except _UNREADABLE:
        return None
    if not isinstance(entry, Mapping) or not all(isinstance(entry.get(k), str) for k in ("cluster_uid", "timeline")):
        return None
    since_s: Any = entry.get("timeline_since_s")
    trusted_since_s: Any = entry.get("trusted_since_s")
    if not _is_time(since_s) or not (trusted_since_s is None or _is_time(trusted_since_s)):
        return None
    return NodeScope(
        cluster_uid=entry["cluster_uid"], timeline=entry["timeline"], timeline_since_s=since_s, trusted_since_s=trusted_since_s
    )


def _entry(record: NodeRecord) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": record.name, "uid": record.uid, "is_virtual": record.is_virtual}
    entry |= {name: getattr(record.machine, name) for name in _TEXTS}
    return entry | {name: getattr(record, name) for name in _TIMES}


def parsed(text: object) -> tuple[NodeRecord, ...]:
    """Read records back; a line that cannot be read is left out."""
    records = (_record(line) for line in text.splitlines()) if isinstance(text, str) else ()
    return tuple(r for r in records if r is not None)


def _record(line: str) -> NodeRecord | None:
    try:
        entry = json.loads(line)
    except _UNREADABLE:
        return None
    if not isinstance(entry, Mapping) or not all(isinstance(entry.get(k), str) for k in ("name", "uid", *_TEXTS)):
        return None
    times: dict[str, Any] = {k: entry.get(k) for k in _TIMES}
    may_lack = ("tainted_since_s", "gone_since_s")
    are_times = all(_is_time(v) or (v is None and k in may_lack) for k, v in times.items())
    if not are_times or not isinstance(entry.get("is_virtual"), bool):
        return None
    machine = Machine(**{name: entry[name] for name in _TEXTS})
    return NodeRecord(name=entry["name"], uid=entry["uid"], machine=machine, is_virtual=entry["is_virtual"], **times)


def _is_time(found: object) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool) and 0 <= found < 1e11
