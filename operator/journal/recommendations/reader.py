"""Pull the fleet learner's recommendations and answer for one group at a time.

The one idea: nothing is trusted and nothing is urgent. A snapshot (manifest and shards, see `manifest`) is verified
before use and accepted as a whole or not at all, and the last good one is used until it expires; every failure is an
answer with a reason, and the caller keeps the value it has. Rounds never wait: they ask the memory, and a new group is
loaded for its next round. A source is a directory (a mounted volume) or an http(s) base URL; shards are immutable, so
only the manifest is requested again, by its ETag if the server sends one.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp
from prometheus_client import Counter

from staticgroup.api.reasons import Reason
from staticgroup.core.timeouts.desired import Advice, FleetTimeout

from .manifest import (
    MANIFEST_BYTES_MAX,
    MANIFEST_NAME,
    Manifest,
    RecommendationError,
    RecommendationProblem,
    Shard,
    read_manifest,
    read_shard,
)
from .records import Recommendation, RecommendationReason

log = logging.getLogger(__name__)

MODEL_MAJOR = "2"
"""The model version that this operator understands; others are refused."""
GATHER_S = 1.0
"""New groups that are requested within this time are loaded together."""
REQUEST_TIMEOUT_S = 30.0
CHUNK_BYTES = 64 * 1024
GroupKey = tuple[str, str]


class SourceError(Exception):
    """A file of the source cannot be read; the message is fit for a condition and holds no secret."""


class WrongFileError(SourceError):
    """The source answers, but a file is missing or has the wrong size."""


class Source(Protocol):
    """Where snapshots are published.

    Parameters
    ----------
    is_local: reading is cheap, so every shard is checked, not only the needed ones.
    """

    is_local: bool

    async def read(self, path: str, bytes_max: int) -> bytes:
        """Return a file whole; `path` is relative and has been checked.

        Raises
        ------
        SourceError: it is absent or larger than `bytes_max` (WrongFileError), or unreadable.
        """


class DirectorySource:
    """A snapshot in a directory that holds manifest.json, such as a mounted volume."""

    is_local = True

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def read(self, path: str, bytes_max: int) -> bytes:
        """Return a file of the directory."""
        return await asyncio.to_thread(self._read, path, bytes_max)

    def _read(self, path: str, bytes_max: int) -> bytes:
        file = self._directory / path
        try:
            if not stat.S_ISREG(file.stat().st_mode):  # a pipe would never end
                raise WrongFileError(f"{path} is no file")
            with file.open("rb") as opened:
                payload = opened.read(bytes_max + 1)
        except FileNotFoundError:
            raise WrongFileError(f"{path} is not there") from None
        except OSError as error:
            raise SourceError(f"{path}: {error.strerror}") from None
        if len(payload) > bytes_max:
            raise WrongFileError(f"{path} has more than {bytes_max} bytes")
        return payload


class HttpSource:
    """A snapshot with its manifest.json directly below an http(s) URL without a query, such as a bucket's."""

    is_local = False

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url.rstrip("/")
        self._etag = ""
        self._manifest = b""

    async def read(self, path: str, bytes_max: int) -> bytes:
        """Return a file; an unchanged manifest is not sent again (RFC 9110 §13.1.2, If-None-Match)."""
        is_manifest = path == MANIFEST_NAME
        headers = {"If-None-Match": self._etag} if is_manifest and self._etag else {}
        try:
            async with (
                asyncio.timeout(REQUEST_TIMEOUT_S),
                aiohttp.ClientSession(trust_env=True) as session,
                session.get(f"{self._base_url}/{path}", headers=headers, allow_redirects=False) as response,
            ):
                if response.status == 304 and headers:
                    return self._manifest
                if response.status == 404:
                    raise WrongFileError(f"{path} is not there")
                if response.status != 200:
                    raise SourceError(f"{path}: the server answered HTTP {response.status}")
                payload = await _bounded_body(response, path, bytes_max)
        except (TimeoutError, OSError, aiohttp.ClientError) as error:
            raise SourceError(f"{path}: the server does not answer ({type(error).__name__})") from None
        if is_manifest:
            self._etag, self._manifest = response.headers.get("ETag", ""), payload
        return payload


async def _bounded_body(response: aiohttp.ClientResponse, path: str, bytes_max: int) -> bytes:
    payload = bytearray()
    async for chunk in response.content.iter_chunked(CHUNK_BYTES):
        payload += chunk
        if len(payload) > bytes_max:
            raise WrongFileError(f"{path} has more than {bytes_max} bytes")
    return bytes(payload)


def source_of(text: str) -> Source:
    """Return the source that a setting names: an http(s) URL, else a directory."""
    return HttpSource(text) if urlsplit(text).scheme in ("http", "https") else DirectorySource(Path(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Good:
    """A verified snapshot, as far as this operator needs it.

    Parameters
    ----------
    groups: groups whose shards were read; one of them without a record is not in the snapshot.
    """

    manifest: Manifest
    groups: frozenset[GroupKey]
    records: Mapping[GroupKey, Recommendation]


@dataclass(slots=True)
class Recommendations:
    """Hold the last good snapshot and read the next one.

    Parameters
    ----------
    poll_s: how often the manifest is requested.
    polls: counts them by their result.
    now_s: seconds since the Unix epoch.
    """

    source: Source
    poll_s: float
    polls: Counter
    now_s: Callable[[], float]
    _good: _Good | None = None
    _problem: tuple[Reason, str] | None = None
    _asked: set[GroupKey] = field(default_factory=set)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def advice(self, kafka_cluster_id: str | None, group_id: str) -> Advice:
        """Answer what is known of one group now; never waits.

        Parameters
        ----------
        kafka_cluster_id: as the brokers report it; None or "" when it is not known.
        """
        if not kafka_cluster_id:
            text = "the brokers have not reported the id of their cluster"
            return Advice(reason=Reason.RECOMMENDATION_ABSENT, cause=text)
        key = (kafka_cluster_id, group_id)
        if key not in self._asked:
            self._asked.add(key)
            self._wake.set()
        good, now_ms = self._good, int(self.now_s() * 1000)
        if good is not None and key in good.groups and now_ms < good.manifest.expires_ms:
            return self._of_snapshot(good, key, now_ms)
        if self._problem is not None:
            return Advice(reason=self._problem[0], cause=self._problem[1])
        if good is not None and now_ms >= good.manifest.expires_ms:
            return Advice(reason=Reason.RECOMMENDATION_STALE, cause=f"the snapshot {good.manifest.run_id} has expired")
        return Advice(reason=Reason.NOT_OBSERVED_YET)

    def _of_snapshot(self, good: _Good, key: GroupKey, now_ms: int) -> Advice:
        record = good.records.get(key)
        if record is None:
            text = f"the snapshot {good.manifest.run_id} has no record of group {key[1][:100]} of cluster {key[0]}"
            return Advice(reason=Reason.RECOMMENDATION_ABSENT, cause=text)
        if not record.is_valid_at(now_ms):
            text = f"the record of group {key[1][:100]} in the snapshot {good.manifest.run_id} has expired"
            return Advice(reason=Reason.RECOMMENDATION_STALE, cause=text)
        valid_until_ms = min(record.valid_until_ms, good.manifest.expires_ms)
        return Advice(
            record=fleet_timeout(record),
            valid_until_ms=valid_until_ms,
            cause="" if self._problem is None else self._problem[1],
        )

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            await self.poll()
            try:
                async with asyncio.timeout(self.poll_s):
                    await self._wake.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(GATHER_S)

    async def poll(self) -> None:
        """Read the source once; a problem is kept beside the last good snapshot."""
        self._wake.clear()
        try:
            self._good = await self._look(frozenset(self._asked))
            problem = None
        except RecommendationError as error:
            problem = (Reason(error.problem.value), str(error))
        except SourceError as error:
            problem = (Reason.RECOMMENDATION_UNREACHABLE, str(error))
        except Exception:
            log.exception("recommendations could not be read")
            problem = (Reason.RECOMMENDATION_CORRUPT, "they could not be read, see the operator's log")
        self.polls.labels(problem[0].value if problem else "Good").inc()
        if problem is not None and problem != self._problem:
            log.warning("recommendations are not used", extra={"reason": problem[0].value, "cause": problem[1]})
        self._problem = problem

    async def _look(self, asked: frozenset[GroupKey]) -> _Good:
        """Return the current snapshot, verified; shards in memory are not read again."""
        payload = await self.source.read(MANIFEST_NAME, MANIFEST_BYTES_MAX)
        manifest = read_manifest(payload, now_ms=int(self.now_s() * 1000))
        if manifest.model_version.partition(".")[0] != MODEL_MAJOR:
            text = f"model {manifest.model_version[:100]!r}, this operator knows {MODEL_MAJOR}.x"
            raise RecommendationError(RecommendationProblem.UNSUPPORTED, text)
        known = self._good
        is_new = known is None or known.manifest.digest != manifest.digest
        if known is None or is_new:
            known = _Good(manifest=manifest, groups=frozenset(), records={})
        missing = asked - known.groups
        if not is_new and not missing:
            return known
        needed: dict[int, set[GroupKey]] = {}
        for key in missing:
            shard = manifest.shard_for(*key)
            if shard is not None:
                needed.setdefault(shard.index, set()).add(key)
        records = dict(known.records)
        for shard in manifest.shards:
            keys = needed.get(shard.index)
            if keys or (is_new and self.source.is_local):
                records |= await self._shard(manifest, shard, keys or set())
        if is_new:
            log.info("recommendations read", extra={"run_id": manifest.run_id, "records": manifest.records})
        return _Good(manifest=manifest, groups=known.groups | missing, records=records)

    async def _shard(self, manifest: Manifest, shard: Shard, keys: set[GroupKey]) -> dict[GroupKey, Recommendation]:
        """Return the records of some groups from one shard; without groups only its digest is checked."""
        try:
            payload = await self.source.read(shard.path, shard.size_bytes)
        except WrongFileError as error:
            raise RecommendationError(RecommendationProblem.CORRUPT, f"the manifest lists it, and {error}") from None
        if keys:
            found = await asyncio.to_thread(read_shard, manifest, shard, payload)
            return {key: found[key] for key in keys & found.keys()}
        digest = await asyncio.to_thread(lambda: hashlib.sha256(payload).hexdigest())
        if digest != shard.sha256:
            text = f"{shard.path} does not match the manifest's digest"
            raise RecommendationError(RecommendationProblem.CORRUPT, text)
        return {}


def fleet_timeout(record: Recommendation) -> FleetTimeout:
    """Return what a round needs of a record."""
    return FleetTimeout(
        setting=record.setting.value,
        recommended_ms=record.recommended_ms,
        uncapped_ms=record.uncapped_ms,
        stops=record.evidence.stops,
        method=record.evidence.method.value,
        reasons=tuple(reason.value for reason in record.reasons),
        is_released=record.released,
        is_rolled_back=RecommendationReason.CANARY_ROLLED_BACK in record.reasons,
        is_capped=RecommendationReason.BROKER_CAP in record.reasons,
    )
