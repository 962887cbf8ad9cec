"""Recommendations over HTTP: the requests, and wrong responses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from journal import recommendations as api
from journal.recommendations.reader import HttpSource, Recommendations, fleet_timeout
from staticgroup.api.reasons import Reason
from support.recommendations import CLUSTER_ID
from unit.journal.snapshots import FLEET, Clock, asked, clock, lengthen_shard, publish, reader_of, shard_of

__all__ = ["clock"]


class Bucket:
    """A web server over a directory that counts requests."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[tuple[str, int]] = []
        self.status = 0
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path = self.root / request.match_info["path"]
        answer = self._answer(request, path)
        self.asked.append((request.match_info["path"], answer.status))
        return answer

    def _answer(self, request: web.Request, path: Path) -> web.Response:
        if self.status:
            return web.Response(status=self.status, headers={"Location": "/elsewhere"})
        if not path.is_file():
            return web.Response(status=404)
        etag = f'"{path.stat().st_mtime_ns}"'
        if request.headers.get("If-None-Match") == etag:
            return web.Response(status=304)
        return web.Response(body=path.read_bytes(), headers={"ETag": etag})


@pytest.fixture
async def bucket(tmp_path: Path) -> AsyncIterator[Bucket]:
    served = Bucket(tmp_path)
    app = web.Application()
    app.router.add_get("/fleet/{path:.*}", served.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    served.url = f"http://127.0.0.1:{runner.addresses[0][1]}/fleet"
    yield served
    await runner.cleanup()


def over_http(bucket: Bucket, clock: Clock) -> Recommendations:
    return reader_of(HttpSource(bucket.url + "/"), clock)


async def test_over_http_only_the_manifest_and_the_shards_of_our_groups_are_asked_for(
    bucket: Bucket, clock: Clock
) -> None:
    manifest = publish(bucket.root)
    reader = over_http(bucket, clock)
    assert (await asked(reader)).record == fleet_timeout(FLEET[0])
    own = str(shard_of(bucket.root, manifest, "orders").relative_to(bucket.root))
    assert bucket.asked == [(api.MANIFEST_NAME, 200), (own, 200)]
    bucket.asked.clear()
    assert (await asked(reader)).record == fleet_timeout(FLEET[0])
    assert bucket.asked == [(api.MANIFEST_NAME, 304)]


async def test_group_that_asks_later_is_loaded_from_the_snapshot_in_use(bucket: Bucket, clock: Clock) -> None:
    manifest = publish(bucket.root)
    reader = over_http(bucket, clock)
    await asked(reader)
    bucket.asked.clear()
    assert reader.advice(CLUSTER_ID, "mail").reason is Reason.NOT_OBSERVED_YET
    assert (await asked(reader, "mail")).record == fleet_timeout(FLEET[3])
    own = str(shard_of(bucket.root, manifest, "mail").relative_to(bucket.root))
    assert bucket.asked == [(api.MANIFEST_NAME, 304), (own, 200)]
    assert reader.advice(CLUSTER_ID, "orders").record == fleet_timeout(FLEET[0])


@pytest.mark.parametrize("status", [302, 403, 404, 500])
async def test_other_answers_of_the_server_are_named(bucket: Bucket, clock: Clock, status: int) -> None:
    """No redirect is followed, because its target was not configured."""
    publish(bucket.root)
    bucket.status = status
    answer = await asked(over_http(bucket, clock))
    assert answer.reason is Reason.RECOMMENDATION_UNREACHABLE
    assert ("not there" if status == 404 else f"HTTP {status}") in answer.cause
    assert [path for path, _ in bucket.asked] == [api.MANIFEST_NAME]


async def test_server_that_sends_more_than_announced_is_cut_off(bucket: Bucket, clock: Clock) -> None:
    manifest = publish(bucket.root)
    lengthen_shard(bucket.root, manifest)
    assert (await asked(over_http(bucket, clock))).reason is Reason.RECOMMENDATION_CORRUPT


async def test_server_that_is_gone_is_unreachable(clock: Clock, unused_port: int) -> None:
    answer = await asked(reader_of(HttpSource(f"http://127.0.0.1:{unused_port}"), clock))
    assert answer.reason is Reason.RECOMMENDATION_UNREACHABLE
    assert "does not answer" in answer.cause


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])
