"""The pod store against a fake API server over real HTTP: nothing is lost, and every gap is said."""

import pytest

from staticgroup.core.evidence.certificate import CertificateKind
from staticgroup.core.evidence.chain import PodState
from staticgroup.core.members.memory import began_s
from staticgroup.kube import transport as transport_module
from support.fake_apiserver import FakeApiServer
from support.narrowing import some
from unit.kube.pods.watched import following
from unit.kube.raw_objects import eventually, finished, pod


async def test_first_start_lists_in_chunks_and_begins_a_watch(server: FakeApiServer) -> None:
    for number in range(5):
        server.put(pod(f"web-{number}", uid=f"uid-{number}"))
    async with following(server) as world:
        assert len(world.store) == 5
        assert began_s(world.watch()) == 51, "the second after, so that none is older than it says"
        assert sum("continue=" in query for _, query in server.requests) == 2
        assert ("shop", "web", "web-0") in world.changes
        assert world.gaps == []


async def test_pods_named_like_those_of_a_statefulset_are_followed_whatever_their_labels(server: FakeApiServer) -> None:
    """Controllers before 1.28 set no pod index label, and a pod that is made by hand may have any labels."""
    server.put(pod(labels={}))
    async with following(server) as world:
        server.put(pod("web-1", uid="by-hand", labels={}, ownerReferences=[]))
        await eventually(lambda: world.state("by-hand") is PodState.LIVE)
        server.remove("shop", "web-1")
        await eventually(lambda: world.state("by-hand") is PodState.SUSPECT)
        assert world.state() is PodState.LIVE


@pytest.mark.parametrize("name", ["web", "web-7d9fc", "web-7d4b9c6b5d-x2x9z", "web-01"])
async def test_pods_that_no_statefulset_names_are_dropped_and_move_the_position(server: FakeApiServer, name: str) -> None:
    server.put(pod(name, uid="listed", instance_id=None))
    async with following(server) as world:
        server.put(pod(name, uid="watched", instance_id=None, namespace="other"))
        await eventually(lambda: world.store.position("shop") == server.resource_version)
        assert len(world.store) == 0
        await world.store.relist()
        assert world.gaps == []


async def test_graceful_end_is_certified_and_force_delete_is_a_suspect(server: FakeApiServer) -> None:
    server.put(pod("web-0", uid="graceful"))
    server.put(pod("web-1", uid="forced"))
    async with following(server) as world:
        server.put(finished("web-0", uid="graceful"))
        server.remove("shop", "web-0")
        server.remove("shop", "web-1")
        await eventually(lambda: world.state("forced") is PodState.SUSPECT)
        assert world.ends == [("shop", "web", "web-0"), ("shop", "web", "web-1")], "each once, and not again when its object goes"
        assert world.uncertified == ["NotTerminal"]
        found = some(world.store.get("graceful"))
        assert found.certificate is not None
        assert (found.state, found.certificate.kind) == (PodState.DEAD, CertificateKind.ENDED)
        assert not found.object_present


@pytest.mark.parametrize("how", ["end", "break"])
async def test_interrupted_stream_resumes_from_its_position_without_a_gap(server: FakeApiServer, how: str) -> None:
    server.put(pod())
    async with following(server) as world:
        watch, position = world.watch(), world.store.position("shop")
        server.end_watches() if how == "end" else server.break_watches()
        server.put(finished())
        server.remove("shop", "web-0")
        await eventually(lambda: world.state() is PodState.DEAD)
        assert (world.watch(), world.gaps) == (watch, [])
        assert ("pods", position, "") in server.watch_starts


async def test_largest_pod_that_anybody_can_write_is_followed_like_any_other(server: FakeApiServer) -> None:
    """1.5 MiB in etcd are 9 MiB in JSON when every character is escaped, as `<` is."""
    server.put(pod())
    async with following(server) as world:
        server.put(pod("web-1", uid="large", annotations={"large": "x" * 9 * 1024 * 1024}))
        await eventually(lambda: world.state("large") is PodState.LIVE)
        assert not world.gaps


async def test_event_that_is_too_large_to_be_taken_ends_the_connection_and_not_the_process(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.put(pod())
    async with following(server, is_watched=False) as world:
        monkeypatch.setattr(transport_module, "EVENT_MAX_BYTES", 20_000)
        server.put(pod("web-1", uid="large", annotations={"large": "x" * 4_000_000}))
        await eventually(lambda: len(server.watch_starts) >= 3)
        assert world.state("large") is None
        server.compact()
        await eventually(lambda: world.state("large") is PodState.LIVE)
        assert len(world.gaps) == 1
