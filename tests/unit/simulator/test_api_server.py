"""The model API server keeps the rules of writes that controllers and the operator rely on."""

from __future__ import annotations

import json

from simulator.kubernetes.api_server import ApiServer
from simulator.kubernetes.objects import (
    NAMESPACES,
    NODES,
    PODS,
    STATEFULSETS,
    STATIC_GROUPS,
    Json,
    with_condition,
)
from staticgroup.api import names
from support.narrowing import some

from .plain_world import static_group
from .served import Clock, pod, refused


def test_every_write_draws_the_next_version_of_one_counter(server: ApiServer) -> None:
    """etcd has one revision for everything (API concepts: resource versions)."""
    first = server.create(PODS, pod("web-0"))
    node = server.create(NODES, {"metadata": {"name": "n1"}, "spec": {}})
    second = server.create(PODS, pod("web-1"))
    versions = [int(o["metadata"]["resourceVersion"]) for o in (first, node, second)]
    assert versions == [server.resource_version - 2, server.resource_version - 1, server.resource_version]
    assert len({o["metadata"]["uid"] for o in (first, node, second)}) == 3


def test_write_that_changes_nothing_is_not_written(server: ApiServer) -> None:
    """registry/generic Store.Update: an identical object keeps its resourceVersion."""
    made = server.create(PODS, pod())
    before = server.resource_version
    again = server.patch(PODS, "shop", "web-0", {"metadata": {"labels": {"app": "web"}}})
    assert again is made
    assert server.resource_version == before


def test_stored_objects_are_never_changed_in_place(server: ApiServer) -> None:
    """Readers keep what they were given, so each version must stay what it was."""
    kept: list[tuple[Json, str]] = []
    server.observers.append(lambda _, e: kept.append((e.current, json.dumps(e.current))) if e.current else None)
    server.create(PODS, pod())
    server.bind("shop", "web-0", "n1", [])
    server.patch(PODS, "shop", "web-0", {"status": {"phase": "Running"}}, subresource="status")
    server.patch(PODS, "shop", "web-0", {"metadata": {"labels": {"app": None}}})
    server.delete(PODS, "shop", "web-0")
    assert len(kept) == 5
    assert all(json.dumps(obj) == text for obj, text in kept)


def test_optimistic_writes_and_preconditions_conflict(server: ApiServer) -> None:
    """409 for an old resourceVersion, for another uid, and for a name that is taken."""
    made = server.create(PODS, pod())
    server.patch(PODS, "shop", "web-0", {"metadata": {"labels": {"x": "1"}}})
    with refused(409):
        server.update(PODS, made)
    with refused(409):
        server.create(PODS, pod())
    with refused(409):
        server.delete(PODS, "shop", "web-0", uid="another")
    with refused(409):
        server.patch(PODS, "shop", "web-0", {"status": {"phase": "Failed"}}, subresource="status", uid="another")
    with refused(404):
        server.patch(PODS, "shop", "web-9", {})


def test_generation_counts_changes_of_the_spec_and_status_is_apart(server: ApiServer) -> None:
    group = server.create(STATIC_GROUPS, static_group())
    assert group["metadata"]["generation"] == 1
    assert group["spec"]["mode"] == "Manage", "schema defaults are filled in"
    group = server.apply_status(STATIC_GROUPS, "shop", "orders", {"status": {"observedGeneration": 1}})
    assert group["metadata"]["generation"] == 1
    group = server.patch(STATIC_GROUPS, "shop", "orders", {"spec": {"mode": "Suspended"}, "status": {"x": 1}})
    assert group["metadata"]["generation"] == 2
    assert group["status"] == {"observedGeneration": 1}, "a status in a write of the object is ignored"
    with refused(422):
        server.patch(STATIC_GROUPS, "shop", "orders", {"spec": {"mode": "Sometimes"}})


def test_apply_of_a_status_ignores_the_uid_and_compares_the_version(server: ApiServer) -> None:
    """Seen on 1.36.3: a uid in an apply to /status is reset before it is compared."""
    group = server.create(STATIC_GROUPS, static_group())
    version = group["metadata"]["resourceVersion"]
    server.apply_status(
        STATIC_GROUPS, "shop", "orders", {"metadata": {"uid": "x", "resourceVersion": version}, "status": {"a": 1}}
    )
    with refused(409):
        server.apply_status(
            STATIC_GROUPS, "shop", "orders", {"metadata": {"resourceVersion": version}, "status": {"a": 2}}
        )


def test_the_writer_of_the_history_in_a_status_is_noted(server: ApiServer) -> None:
    """As in managedFields of a real object (KEP-555); without it a restored status counted as the operator's own (seed
    141225)."""

    def owners() -> set[str]:
        found = some(server.get(STATIC_GROUPS, "shop", "orders"))
        return {entry["manager"] for entry in found["metadata"].get("managedFields") or ()}

    made = server.create(STATIC_GROUPS, static_group())
    assert owners() == set()
    server.apply_status(STATIC_GROUPS, "shop", "orders", {"status": {"continuity": {"digest": "a"}}})
    assert owners() == {names.FIELD_MANAGER}
    server.update(
        STATIC_GROUPS,
        {"metadata": made["metadata"] | {"resourceVersion": ""}, "status": {"continuity": {"digest": "b"}}},
        subresource="status",
    )
    assert owners() == {"kubectl"}
    server.apply_status(STATIC_GROUPS, "shop", "orders", {"status": {"continuity": {"digest": "c"}}})
    assert owners() == {names.FIELD_MANAGER}
    server.update(STATIC_GROUPS, made | {"metadata": made["metadata"] | {"resourceVersion": ""}})
    assert owners() == set(), "cleared"
    server.update(
        STATIC_GROUPS,
        {"metadata": made["metadata"] | {"resourceVersion": ""}, "status": {"continuity": {"digest": "d"}}},
        subresource="status",
    )
    assert owners() == set(), "nothing is noted until the next apply"
    server.apply_status(STATIC_GROUPS, "shop", "orders", {"status": {"continuity": {"digest": "d"}}})
    assert owners() == {names.FIELD_MANAGER}


def test_pod_deletion_waits_for_its_kubelet_unless_nothing_can_run(server: ApiServer, clock: Clock) -> None:
    """Pod strategy CheckGracefulDelete: unbound and ended pods go at once, others get their grace."""
    server.create(PODS, pod("web-0"))
    assert server.delete(PODS, "shop", "web-0") is None
    server.create(PODS, pod("web-1", terminationGracePeriodSeconds=40))
    server.bind("shop", "web-1", "n1", [])
    clock.s = 10.0
    left = some(server.delete(PODS, "shop", "web-1"))
    assert left["metadata"]["deletionGracePeriodSeconds"] == 40
    assert left["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:50Z"
    longer = server.delete(PODS, "shop", "web-1", grace_s=60)
    assert longer is left, "a grace is never prolonged"
    shorter = some(server.delete(PODS, "shop", "web-1", grace_s=5))
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    assert server.delete(PODS, "shop", "web-1", grace_s=0) is None
    assert server.get(PODS, "shop", "web-1") is None


def test_finalizer_keeps_a_deleted_object_until_it_is_taken_away(server: ApiServer) -> None:
    """Orphan propagation is a finalizer that the garbage collector removes."""
    body = {"metadata": {"namespace": "shop", "name": "web"}, "spec": {"replicas": 1}}
    server.create(STATEFULSETS, body)
    left = some(server.delete(STATEFULSETS, "shop", "web", propagation="Orphan"))
    assert left["metadata"]["finalizers"] == ["orphan"]
    assert left["metadata"]["generation"] == 2
    server.patch(STATEFULSETS, "shop", "web", {"metadata": {"finalizers": None}})
    assert server.get(STATEFULSETS, "shop", "web") is None


def test_nothing_is_created_in_a_namespace_that_ends_or_does_not_exist(server: ApiServer) -> None:
    server.create(PODS, pod())
    server.delete(NAMESPACES, "", "shop")
    with refused(403):
        server.create(PODS, pod("web-1"))
    lost = pod()
    lost["metadata"]["namespace"] = "nowhere"
    with refused(404):
        server.create(PODS, lost)


def test_condition_keeps_its_transition_time_while_its_status_stays() -> None:
    first = with_condition([], "Ready", "True", 5.0)
    same = with_condition(first, "Ready", "True", 9.0, reason="Again")
    flipped = with_condition(same, "Ready", "False", 12.0)
    times = [c[0]["lastTransitionTime"] for c in (first, same, flipped)]
    assert times == ["2026-01-01T00:00:05Z", "2026-01-01T00:00:05Z", "2026-01-01T00:00:12Z"]
