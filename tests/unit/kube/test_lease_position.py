"""What a Lease keeps beside its holder: what a later process goes on from."""

import pytest

from staticgroup.kube.lease import POSITION_ANNOTATION
from staticgroup.kube.pods.position import ScopePosition, WatchPosition
from support.fake_apiserver import BROKEN
from unit.kube.leases import LEASE, Leases, noting

STORED = WatchPosition({"": ScopePosition(42, "1800000000-0a1b2c3d")})


async def test_position_travels_on_the_lease_and_survives_a_renewal_without_one(leases: Leases) -> None:
    await leases.make("a", STORED).attempt()
    assert await leases.make("b").read_position() == STORED
    leases.server.objects[LEASE]["metadata"]["labels"] = {"kept": "yes"}
    await leases.make("a", None).attempt()
    assert await leases.make("b").read_position() == STORED
    assert leases.server.objects[LEASE]["metadata"]["labels"] == {"kept": "yes"}
    leases.server.objects[LEASE]["metadata"]["annotations"][POSITION_ANNOTATION] = "garbage"
    assert await leases.make("b").read_position() is None


@pytest.mark.parametrize("status", [BROKEN, 401, 403, 410, 422, 429, 500, 503])
async def test_reading_of_the_position_that_fails_is_made_again_until_the_lease_answers(
    leases: Leases, status: int
) -> None:
    """No answer says nothing about it; taking it for an empty one would begin a new watch and hold removals back."""
    await leases.make("a", STORED).attempt()
    leases.server.failing["get", LEASE[0]] = [status] * 4
    paused_s: list[float] = []
    assert await leases.make("b", sleep=noting(paused_s)).read_position() == STORED
    # When a connection that it had kept breaks, the HTTP client asks once more by itself.
    assert paused_s in ([[2.0] * 2, [2.0] * 3] if status == BROKEN else [[2.0] * 4])


async def test_lease_that_does_not_exist_means_new_watches_at_once(leases: Leases) -> None:
    paused_s: list[float] = []
    assert await leases.make("a", sleep=noting(paused_s)).read_position() is None
    assert paused_s == []


async def test_right_to_read_the_lease_is_named_while_it_is_missing(
    leases: Leases, caplog: pytest.LogCaptureFixture
) -> None:
    leases.server.failing["get", LEASE[0]] = [403]
    await leases.make("a", sleep=noting([])).read_position()
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "get leases.coordination.k8s.io in namespace ops; grant this verb" in record.__dict__["problem"]


async def test_without_election_the_position_is_stored_and_the_right_never_ends(leases: Leases) -> None:
    await leases.make("old").attempt()
    lease = leases.make("new", STORED, is_election_enabled=False)
    assert lease.holds()
    await lease.attempt()
    assert await lease.read_position() == STORED
    leases.clock.now_s += 1000
    assert lease.holds()


async def test_lease_in_an_older_version_shows_an_api_server_that_went_back(leases: Leases) -> None:
    reasons: list[str] = []
    holder = leases.make("a", went_back=reasons)
    assert await holder.attempt()
    backup = leases.server.snapshot()
    leases.clock.now_s += 1
    assert await holder.attempt()
    assert reasons == []
    leases.server.restore(backup)
    await holder.attempt()
    assert len(reasons) == 1


async def test_lease_older_than_the_one_that_the_watch_goes_on_from_shows_it_too(leases: Leases) -> None:
    """The first reading gives the position of the pod watch, long before the Lease is asked for again."""
    await leases.make("before").attempt()
    backup = leases.server.snapshot()
    leases.clock.now_s += 1
    await leases.make("before").attempt()
    reasons: list[str] = []
    lease = leases.make("a", went_back=reasons)
    await lease.read_position()
    leases.server.restore(backup)
    await lease.attempt()
    assert [t for t in reasons if "etcd restored?" in t] != []


async def test_lease_that_is_gone_keeps_nothing_for_those_who_read_it(leases: Leases) -> None:
    """Deleting it means that no earlier position may be resumed."""
    holder = leases.make("a", STORED)
    await holder.attempt()
    del leases.server.objects[LEASE]
    assert await leases.make("b").read_position() is None
    await leases.make("b").attempt()
    assert POSITION_ANNOTATION not in leases.server.objects[LEASE]["metadata"]["annotations"]


async def test_position_of_a_watch_that_is_not_whole_any_more_takes_the_place_of_what_was_stored(
    leases: Leases
) -> None:
    await leases.make("a", STORED).attempt()
    await leases.make("a", WatchPosition({})).attempt()
    assert await leases.make("b").read_position() is None
