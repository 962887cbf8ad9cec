"""Odd but legal orders of what the watches of pods deliver."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from staticgroup.core.evidence.chain import IncarnationState
from staticgroup.kube.pods.continuity import Continuity
from staticgroup.kube.pods.watch.sink import Gap
from support.fake_apiserver import FakeApiServer
from unit.core.builders import incarnation
from unit.kube.pods.watched import following
from unit.kube.raw_objects import composed, eventually, finished, pod


async def test_stored_time_never_passes_an_end_that_is_not_durable(server: FakeApiServer) -> None:
    """Statuses cannot be written for some minutes (an older CRD, a webhook), the Lease can; then the operator is gone.

    The position is held back at the first end that no status holds, but the time beside it says "complete up to now". When
    the events after the position are gone, the blind span begins at that time, and a word about the span, however true,
    says nothing of what ended before it.
    """
    server.put(pod())
    now = [1000.0]
    async with following(server, now_s=lambda: now[0]) as world:
        server.remove("shop", "web-0")
        await eventually(lambda: world.state() is IncarnationState.SUSPECT)
        now[0] = 1700.0
        stored = world.store.continuity()
        assert stored is not None
        assert stored.behind
        assert stored.at_s <= 1000.0


async def test_pod_with_an_id_written_by_hand_is_followed_whatever_its_name(server: FakeApiServer) -> None:
    """identity.method None; `kubectl debug web-2 --copy-to=web-2-debug --keep-labels`, and the id reads the pod-name label.

    The copy fences web-2 and holds its id. Its name is none of a StatefulSet and it has no annotation, so it is dropped on
    arrival: without any gap the chain of web-2 is proven dead while the copy runs.
    """
    async with following(server) as world:
        raw = pod("web-2-debug", uid="copy", instance_id=None, labels={"statefulset.kubernetes.io/pod-name": "web-2"})
        raw["spec"]["containers"][0]["env"] = [{"name": "KAFKA_GROUP_INSTANCE_ID", "value": "web-2.1a2b3c4d"}]
        server.put(raw)
        await eventually(lambda: world.store.position("shop") >= server.resource_version)
        assert [i.uid for i in world.store.chain("shop", instance_ids=("web-2.1a2b3c4d",))] == ["copy"]


async def test_pods_listed_before_the_gap_of_another_namespace_count_as_seen(server: FakeApiServer) -> None:
    """Namespaces are watched one by one; an operator begins after an upgrade of the control plane, and both get 410.

    The second 410 comes while the LIST of the other namespace is under way. What was listed by then is of an era for which
    no epoch is ever noted, so the uid rule says nothing of those pods, and their seats are blind for good.
    """
    for number in range(8):
        server.put(composed(pod(f"web-{number}", uid=f"a{number}")))
        server.put(composed(pod(f"web-{number}", uid=f"b{number}", namespace="bill")))
    position = server.resource_version
    stored = Continuity(epoch="e0", resource_versions={"shop": position, "bill": position})
    server.tick()
    server.tick()
    server.compact()
    blind_seats = []
    for seed in range(12):
        server.failing["watch", "pods"] = [503] * (seed % 4)
        async with following(server, scopes=("shop", "bill"), resume=stored, seed=seed) as world:
            await asyncio.sleep(0.05)
            await eventually(lambda: world.store.epoch)
            for namespace, letter in (("shop", "a"), ("bill", "b")):
                for number in range(8):
                    seen = world.store.seen_under(f"{letter}{number}")
                    if seen not in world.store.unbroken_since(namespace, f"web-{number}"):
                        blind_seats.append(f"{namespace}/web-{number}")
    assert blind_seats == []


async def test_seat_that_is_merged_while_another_namespace_has_a_gap_makes_no_gap_here(server: FakeApiServer) -> None:
    """A status with an old seat is first read while another namespace is not anchored: the seat stays as a live pod.

    No LIST of its own namespace will come for it but the comparison, which takes it for an end that was never delivered.
    """
    server.put(composed(pod("web-0", uid="u0")))
    async with following(server, scopes=("shop", "bill")) as world:
        await eventually(lambda: len(server.watches) == 2)
        server.failing["list", "pods"] = [503] * 5
        world.store._streams["bill"].report_gap(Gap(reason="410"))
        await eventually(lambda: world.gaps)
        seat = incarnation(3, uid="long-gone", resource_version=1, state=IncarnationState.LIVE, object_present=True)
        world.store.merge([replace(seat, namespace="shop", pod_name="web-3")])
        await eventually(lambda: world.store.epoch)
        await world.store.relist()
        await asyncio.sleep(0.1)
        assert (world.state("long-gone"), len(world.gaps)) == (IncarnationState.SUSPECT, 1)


async def test_position_does_not_go_back_when_many_staticgroups_are_made(server: FakeApiServer) -> None:
    """A team applies seventy StaticGroups at once, for StatefulSets of which a pod has been replaced weeks ago.

    Those ends become managed at once; for some of them there is no room behind the position, so it goes back by weeks.
    """
    is_onboarded = [False]
    for number in range(70):
        server.put(composed(pod(f"team{number}-0", uid=f"a{number}")))
    now = [50.0]
    async with following(server, now_s=lambda: now[0], is_managed=lambda: is_onboarded[0]) as world:
        for number in range(70):
            server.put(composed(finished(f"team{number}-0", uid=f"a{number}")))
            server.remove("shop", f"team{number}-0")
            server.put(composed(pod(f"team{number}-0", uid=f"b{number}")))
        for _ in range(100):
            server.put(composed(pod("api-0", uid="api")))
        await eventually(lambda: world.store.position("") == server.resource_version)
        now[0] += 1_000_000
        before = world.store.continuity()
        is_onboarded[0] = True
        after = world.store.continuity()
        assert before is not None
        assert after is not None
        assert after.resource_versions[""] >= before.resource_versions[""]
