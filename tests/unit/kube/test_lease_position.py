"""What a Lease keeps beside its holder: what a later process goes on from."""

import pytest

from staticgroup.kube.lease import POSITION_ANNOTATION
from staticgroup.kube.pods.position import ScopePosition, WatchPosition
from staticgroup.kube.transport import Transport
from support.clock import Clock
from support.fake_apiserver import BROKEN, FakeApiServer
from unit.kube.leases import LEASE, make, noting

STORED = WatchPosition({"": ScopePosition(42, "1800000000-0a1b2c3d")})


async def test_position_travels_on_the_lease_and_survives_a_renewal_without_one(
    server: FakeApiServer, transport: Transport, clock: Clock
) -> None:
    await make(transport, clock, "a", STORED).attempt()
    assert await make(transport, clock, "b").read_position() == STORED
    server.objects[LEASE]["metadata"]["labels"] = {"kept": "yes"}
    await make(transport, clock, "a", None).attempt()
    assert await make(transport, clock, "b").read_position() == STORED
    assert server.objects[LEASE]["metadata"]["labels"] == {"kept": "yes"}
    server.objects[LEASE]["metadata"]["annotations"][POSITION_ANNOTATION] = "garbage"
    assert await make(transport, clock, "b").read_position() is None


@pytest.mark.parametrize("status", [BROKEN, 401, 403, 410, 422, 429, 500, 503])
async def test_reading_of_the_position_that_fails_is_made_again_until_the_lease_answers(
    server: FakeApiServer, transport: Transport, clock: Clock, status: int
) -> None:
    """No answer says nothing about it; taking it for an empty one would begin a new watch and hold removals back."""
    await make(transport, clock, "a", STORED).attempt()
    server.failing["get", LEASE[0]] = [status] * 4
    paused_s: list[float] = []
    assert await make(transport, clock, "b", sleep=noting(paused_s)).read_position() == STORED
    # When a connection that it had kept breaks, the HTTP client asks once more by itself.
    assert paused_s in ([[2.0] * 2, [2.0] * 3] if status == BROKEN else [[2.0] * 4])


async def test_lease_that_does_not_exist_means_new_watches_at_once(transport: Transport, clock: Clock) -> None:
    paused_s: list[float] = []
    assert await make(transport, clock, "a", sleep=noting(paused_s)).read_position() is None
    assert paused_s == []


async def test_right_to_read_the_lease_is_named_while_it_is_missing(
    server: FakeApiServer, transport: Transport, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    server.failing["get", LEASE[0]] = [403]
    await make(transport, clock, "a", sleep=noting([])).read_position()
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "get leases.coordination.k8s.io in namespace ops; grant this verb" in record.__dict__["problem"]


async def test_without_election_the_position_is_stored_and_the_right_never_ends(
    server: FakeApiServer, transport: Transport, clock: Clock
) -> None:
    await make(transport, clock, "old").attempt()
    lease = make(transport, clock, "new", STORED, is_election_enabled=False)
    assert lease.holds()
    await lease.attempt()
    assert await lease.read_position() == STORED
    clock.now_s += 1000
    assert lease.holds()


async def test_lease_in_an_older_version_shows_an_api_server_that_went_back(
    server: FakeApiServer, transport: Transport, clock: Clock
) -> None:
    reasons: list[str] = []
    holder = make(transport, clock, "a", went_back=reasons)
    assert await holder.attempt()
    backup = server.snapshot()
    clock.now_s += 1
    assert await holder.attempt()
    assert reasons == []
    server.restore(backup)
    await holder.attempt()
    assert len(reasons) == 1


async def test_lease_older_than_the_one_that_the_watch_goes_on_from_shows_it_too(
    server: FakeApiServer, transport: Transport, clock: Clock
) -> None:
    """The first reading gives the position of the pod watch, long before the Lease is asked for again."""
    await make(transport, clock, "before").attempt()
    backup = server.snapshot()
    clock.now_s += 1
    await make(transport, clock, "before").attempt()
    reasons: list[str] = []
    lease = make(transport, clock, "a", went_back=reasons)
    await lease.read_position()
    server.restore(backup)
    await lease.attempt()
    assert [t for t in reasons if "etcd restored?" in t] != []


async def test_lease_that_is_gone_keeps_nothing_for_those_who_read_it(server: FakeApiServer, transport: Transport, clock: Clock) -> None:
    """Deleting it means that no earlier position may be resumed."""
    holder = make(transport, clock, "a", STORED)
    await holder.attempt()
    del server.objects[LEASE]
    assert await make(transport, clock, "b").read_position() is None
    await make(transport, clock, "b").attempt()
    assert POSITION_ANNOTATION not in server.objects[LEASE]["metadata"]["annotations"]


async def test_position_of_a_watch_that_is_not_whole_any_more_takes_the_place_of_what_was_stored(
    server: FakeApiServer, transport: Transport, clock: Clock
) -> None:
    await make(transport, clock, "a", STORED).attempt()
    await make(transport, clock, "a", WatchPosition({})).attempt()
    assert await make(transport, clock, "b").read_position() is None
