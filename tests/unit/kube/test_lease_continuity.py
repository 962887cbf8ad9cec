"""What a Lease keeps beside its holder: where the pod watch stood, and the word that etcd was restored."""

from dataclasses import replace

import pytest

from staticgroup.kube.lease import CONTINUITY_ANNOTATION, RESTORED_ANNOTATION
from staticgroup.kube.pods.continuity import Continuity
from staticgroup.kube.transport import Transport
from support.clock import Clock
from support.fake_apiserver import BROKEN, FakeApiServer
from unit.kube.leases import LEASE, make, noting


async def test_continuity_travels_on_the_lease_and_survives_a_renewal_without_one(
    server: FakeApiServer, transport: Transport, clock: Clock
) -> None:
    stored = Continuity(epoch="e1", resource_versions={"": 42})
    await make(transport, clock, "a", stored).attempt()
    assert await make(transport, clock, "b").read_continuity() == stored
    server.objects[LEASE]["metadata"]["labels"] = {"kept": "yes"}
    await make(transport, clock, "a", None).attempt()
    assert await make(transport, clock, "b").read_continuity() == stored
    assert server.objects[LEASE]["metadata"]["labels"] == {"kept": "yes"}
    server.objects[LEASE]["metadata"]["annotations"][CONTINUITY_ANNOTATION] = "garbage"
    assert await make(transport, clock, "b").read_continuity() is None


async def test_earlier_operator_and_this_one_never_go_on_from_each_others_history(
    server: FakeApiServer, transport: Transport, clock: Clock
) -> None:
    """Its history proves less; the annotation is recorded from one of them."""
    theirs = '{"epoch": "74c1b3bf1a9f3a52", "resourceVersions": {"": 4711}}'
    await make(transport, clock, "a", None).attempt()
    server.objects[LEASE]["metadata"]["annotations"] = {"staticgroup.io/watch-continuity": theirs}
    lease = make(transport, clock, "a", Continuity(epoch="e1", resource_versions={"": 42}))
    assert await lease.read_continuity() is None
    await lease.attempt()
    annotations = server.objects[LEASE]["metadata"]["annotations"]
    assert "staticgroup.io/watch-continuity" not in annotations
    annotations["staticgroup.io/watch-continuity"] = theirs  # it was rolled back to, and gives back what it does not know
    again = await make(transport, clock, "b").read_continuity()
    assert again == Continuity(epoch="e1", resource_versions={"": 42})


@pytest.mark.parametrize("status", [BROKEN, 401, 403, 410, 422, 429, 500, 503])
async def test_reading_of_continuity_that_fails_is_made_again_until_the_lease_answers(
    server: FakeApiServer, transport: Transport, clock: Clock, status: int
) -> None:
    """No answer is no word about continuity; taking it for one would begin a new epoch and hold every removal."""
    stored = Continuity(epoch="e1", resource_versions={"": 42})
    await make(transport, clock, "a", stored).attempt()
    server.failing["get", LEASE[0]] = [status] * 4
    paused_s: list[float] = []
    assert await make(transport, clock, "b", sleep=noting(paused_s)).read_continuity() == stored
    # When a connection that it had kept breaks, the HTTP client asks once more by itself.
    assert paused_s in ([[2.0] * 2, [2.0] * 3] if status == BROKEN else [[2.0] * 4])


async def test_lease_that_does_not_exist_means_no_continuity_at_once(transport: Transport, clock: Clock) -> None:
    paused_s: list[float] = []
    assert await make(transport, clock, "a", sleep=noting(paused_s)).read_continuity() is None
    assert paused_s == []


async def test_right_to_read_the_lease_is_named_while_it_is_missing(
    server: FakeApiServer, transport: Transport, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    server.failing["get", LEASE[0]] = [403]
    await make(transport, clock, "a", sleep=noting([])).read_continuity()
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "get leases.coordination.k8s.io in namespace ops; grant this verb" in record.__dict__["problem"]


async def test_without_election_continuity_is_stored_and_the_right_never_ends(
    server: FakeApiServer, transport: Transport, clock: Clock
) -> None:
    stored = Continuity(epoch="e1", resource_versions={"": 42})
    await make(transport, clock, "old").attempt()
    lease = make(transport, clock, "new", stored, is_election_enabled=False)
    assert lease.holds()
    await lease.attempt()
    assert await lease.read_continuity() == stored
    clock.now_s += 1000
    assert lease.holds()


async def test_continuity_from_before_a_word_about_a_restore_is_not_gone_on_from(
    server: FakeApiServer, transport: Transport, clock: Clock
) -> None:
    stored = Continuity(epoch="e", resource_versions={"": 5}, timeline="t")
    assert await make(transport, clock, "a", stored).attempt()
    lease = server.objects[LEASE]
    annotations = lease["metadata"]["annotations"] | {RESTORED_ANNOTATION: "now"}
    server.put(lease | {"metadata": lease["metadata"] | {"annotations": annotations}}, LEASE[0])
    told: list[str] = []
    other = make(transport, clock, "b", told=told)
    assert await other.read_continuity() is None
    assert other.restored == "now"
    await other.attempt()
    assert told == ["now"]
    assert other.told is None, "positions of before say nothing of now"
    known = replace(stored, restored="now")
    assert await make(transport, clock, "a", known).attempt()
    assert await other.read_continuity() == known
    del server.objects[LEASE]
    assert await other.read_continuity() is None
    assert other.told == known, "a Lease that is gone takes nothing back"


async def test_lease_in_an_older_version_shows_an_api_server_that_went_back(
    server: FakeApiServer, transport: Transport, clock: Clock
) -> None:
    told: list[str] = []
    holder = make(transport, clock, "a", told=told)
    assert await holder.attempt()
    backup = server.snapshot()
    clock.now_s += 1
    assert await holder.attempt()
    assert told == []
    server.restore(backup)
    await holder.attempt()
    assert len(told) == 1


async def test_lease_older_than_the_one_that_the_watch_goes_on_from_shows_it_too(
    server: FakeApiServer, transport: Transport, clock: Clock
) -> None:
    """The first reading gives the position of the pod watch, long before the Lease is asked for again."""
    await make(transport, clock, "before").attempt()
    backup = server.snapshot()
    clock.now_s += 1
    await make(transport, clock, "before").attempt()
    told: list[str] = []
    lease = make(transport, clock, "a", told=told)
    await lease.read_continuity()
    server.restore(backup)
    await lease.attempt()
    assert [t for t in told if "etcd restored?" in t] != []
