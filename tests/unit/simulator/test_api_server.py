"""The model API server keeps the rules that controllers and the operator rest on."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from simulator.kubernetes.admission import inject, webhook_configuration
from simulator.kubernetes.api_server import ApiServer
from simulator.kubernetes.node.container_status import environment
from simulator.kubernetes.objects import (
    MUTATING_POLICIES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    STATEFULSETS,
    STATIC_GROUPS,
    Json,
    with_condition,
)
from simulator.kubernetes.storage import ApiError
from simulator.kubernetes.watch_log import Selector
from staticgroup.api import names
from staticgroup.api.injection import resolve_injected
from staticgroup.api.resources.durable import InjectedMethod
from staticgroup.api.resources.identity import EnvEntry, Identity

from .plain_world import static_group

POD_INDEX = Selector(labels=names.POD_INDEX_LABEL)


class Clock:
    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server(clock: Clock) -> ApiServer:
    server = ApiServer(now_s=clock)
    for namespace in ("shop", "other"):
        server.create(NAMESPACES, {"metadata": {"name": namespace}})
    return server


def pod(name: str = "web-0", **spec: Any) -> Json:
    labels = {"app": "web", names.POD_INDEX_LABEL: name.rpartition("-")[2]}
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "set-1", "controller": True}
    return {
        "metadata": {"namespace": "shop", "name": name, "labels": labels, "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "app"}]} | spec,
        "status": {"phase": "Pending"},
    }


def refused(status: int) -> Any:
    return pytest.raises(ApiError, match=f"^{status} ")


class Watching:
    """A watch and what it has delivered."""

    def __init__(self, server: ApiServer, *, since: int | None = None, selector: Selector = POD_INDEX) -> None:
        self.events: list[Json] = []
        self.breaks = 0
        since = server.resource_version if since is None else since
        self.subscription, missed = server.subscribe(PODS, "shop", selector, since, self.events.append, self._broke)
        self.events += missed

    def _broke(self) -> None:
        self.breaks += 1

    @property
    def told(self) -> list[tuple[str, str, int]]:
        return [
            (e["type"], e["object"]["metadata"]["name"], int(e["object"]["metadata"]["resourceVersion"]))
            for e in self.events
        ]


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
    group = server.patch(STATIC_GROUPS, "shop", "orders", {"spec": {"suspend": True}, "status": {"x": 1}})
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


def test_who_wrote_the_history_in_a_status_is_noted(server: ApiServer) -> None:
    """As managedFields tell of a real object (KEP-555); without it a status that somebody set back was the operator's own (seed 141225)."""

    def owners() -> set[str]:
        found = server.get(STATIC_GROUPS, "shop", "orders")
        assert found is not None
        return {entry["manager"] for entry in found["metadata"].get("managedFields") or ()}

    made = server.create(STATIC_GROUPS, static_group())
    assert owners() == set()
    server.apply_status(STATIC_GROUPS, "shop", "orders", {"status": {"continuity": {"digest": "a"}}})
    assert owners() == {names.FIELD_MANAGER}
    server.update(STATIC_GROUPS, {"metadata": made["metadata"] | {"resourceVersion": ""}, "status": {"continuity": {"digest": "b"}}}, subresource="status")
    assert owners() == {"kubectl"}
    server.apply_status(STATIC_GROUPS, "shop", "orders", {"status": {"continuity": {"digest": "c"}}})
    assert owners() == {names.FIELD_MANAGER}
    server.update(STATIC_GROUPS, server.get(STATIC_GROUPS, "shop", "orders") | {"metadata": made["metadata"] | {"resourceVersion": ""}})  # type: ignore[operator]
    assert owners() == set(), "cleared"
    server.update(STATIC_GROUPS, {"metadata": made["metadata"] | {"resourceVersion": ""}, "status": {"continuity": {"digest": "d"}}}, subresource="status")
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
    left = server.delete(PODS, "shop", "web-1")
    assert left is not None
    assert left["metadata"]["deletionGracePeriodSeconds"] == 40
    assert left["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:50Z"
    longer = server.delete(PODS, "shop", "web-1", grace_s=60)
    assert longer is left, "a grace is never prolonged"
    shorter = server.delete(PODS, "shop", "web-1", grace_s=5)
    assert shorter is not None
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    assert server.delete(PODS, "shop", "web-1", grace_s=0) is None
    assert server.get(PODS, "shop", "web-1") is None


def test_finalizer_keeps_a_deleted_object_until_it_is_taken_away(server: ApiServer) -> None:
    """Orphan propagation is a finalizer that the garbage collector removes."""
    body = {"metadata": {"namespace": "shop", "name": "web"}, "spec": {"replicas": 1}}
    server.create(STATEFULSETS, body)
    left = server.delete(STATEFULSETS, "shop", "web", propagation="Orphan")
    assert left is not None
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


def test_watch_replays_from_any_kept_version_and_then_follows(server: ApiServer) -> None:
    since = server.resource_version
    server.create(PODS, pod("web-0"))
    watching = Watching(server, since=since)
    server.create(PODS, pod("web-1"))
    assert [(kind, name) for kind, name, _ in watching.told] == [("ADDED", "web-0"), ("ADDED", "web-1")]


def test_label_edit_looks_like_a_deletion_to_a_selecting_watch(server: ApiServer) -> None:
    """Cacher: an object that leaves the selection is DELETED with its previous content and the new version."""
    server.create(PODS, pod())
    watching, by_name = Watching(server), Watching(server, selector=Selector(fields="metadata.name=web-0"))
    server.patch(PODS, "shop", "web-0", {"metadata": {"labels": {names.POD_INDEX_LABEL: None}}})
    edited = server.resource_version
    assert watching.told == [("DELETED", "web-0", edited)]
    assert names.POD_INDEX_LABEL in watching.events[0]["object"]["metadata"]["labels"]
    assert by_name.told == [("MODIFIED", "web-0", edited)]
    server.patch(PODS, "shop", "web-0", {"metadata": {"labels": {names.POD_INDEX_LABEL: "0"}}})
    assert watching.told[1][:2] == ("ADDED", "web-0")


def test_deletion_event_has_a_version_of_its_own_and_the_last_content(server: ApiServer) -> None:
    made = server.create(PODS, pod())
    watching = Watching(server)
    server.delete(PODS, "shop", "web-0")
    assert watching.told == [("DELETED", "web-0", int(made["metadata"]["resourceVersion"]) + 1)]
    assert watching.events[0]["object"]["status"] == made["status"]


def test_events_are_kept_for_75_seconds_and_at_least_a_hundred(server: ApiServer, clock: Clock) -> None:
    """watch_cache.go: eventFreshDuration and the lower bound of its capacity; 410 before that."""
    server.create(PODS, pod())
    begun = server.resource_version
    for n in range(150):
        server.patch(PODS, "shop", "web-0", {"metadata": {"labels": {"n": str(n)}}})
    clock.s = 60.0
    for n in range(60):
        server.patch(PODS, "shop", "web-0", {"metadata": {"labels": {"n": f"later {n}"}}})
    Watching(server, since=begun)
    clock.s = 100.0
    for n in range(60):
        server.patch(PODS, "shop", "web-0", {"metadata": {"labels": {"n": f"last {n}"}}})
    with refused(410):
        Watching(server, since=begun)
    Watching(server, since=server.resource_version - 100)


def test_compaction_expires_watches_and_continue_tokens(server: ApiServer) -> None:
    for n in range(5):
        server.create(PODS, pod(f"web-{n}"))
    page = server.list_page(PODS, "shop", POD_INDEX, limit=2)
    token = page["metadata"]["continue"]
    second = server.list_page(PODS, "shop", POD_INDEX, limit=2, token=token)
    assert [p["metadata"]["name"] for p in second["items"]] == ["web-2", "web-3"]
    assert second["metadata"]["resourceVersion"] == page["metadata"]["resourceVersion"]
    server.create(PODS, pod("web-9"))
    server.compact(PODS)
    with refused(410):
        server.list_page(PODS, "shop", POD_INDEX, limit=2, token=second["metadata"]["continue"])
    with refused(410):
        Watching(server, since=server.resource_version - 1)
    Watching(server)


def test_bookmark_says_how_far_the_cache_of_the_resource_has_come(server: ApiServer, clock: Clock) -> None:
    """A bookmark follows the resource's own events, a consistent LIST (KEP-2340) and etcd's progress notifications."""
    clock.s = 1.0
    server.create(PODS, pod())
    at_pod = server.resource_version
    server.create(NODES, {"metadata": {"name": "n1"}, "spec": {}})
    assert server.bookmark_version(PODS) == at_pod
    server.list_page(PODS, "shop", POD_INDEX)
    assert server.bookmark_version(PODS) == server.resource_version
    server.create(NODES, {"metadata": {"name": "n2"}, "spec": {}})
    assert server.bookmark_version(PODS) == server.resource_version - 1
    clock.s = 6.0
    assert server.bookmark_version(PODS) == server.resource_version


def test_restart_loses_the_history_of_every_watch_and_keeps_the_objects(server: ApiServer) -> None:
    """The watch cache starts from a LIST at the present revision, so whatever lies before it is 410."""
    server.create(PODS, pod("web-0"))
    before = server.resource_version
    server.create(PODS, pod("web-1"))
    broken: list[bool] = []
    server.subscribe(PODS, "", Selector(), before, lambda _: None, lambda: broken.append(True))
    server.restart()
    assert broken == [True]
    with refused(410):
        server.subscribe(PODS, "", Selector(), before, lambda _: None, lambda: None)
    server.subscribe(PODS, "", Selector(), server.resource_version, lambda _: None, lambda: None)
    assert len(server.list(PODS)) == 2


def test_restored_etcd_may_go_ahead_and_then_answers_410_for_every_old_position(server: ApiServer) -> None:
    """etcdutl snapshot restore --bump-revision --mark-compacted."""
    server.create(PODS, pod("web-0"))
    backup = server.backup()
    server.create(PODS, pod("web-1"))
    seen = server.resource_version
    server.restore(backup, bump=1000)
    assert server.resource_version == seen + 1000
    assert [p["metadata"]["name"] for p in server.list(PODS)] == ["web-0"]
    with refused(410):
        server.subscribe(PODS, "", Selector(), seen, lambda _: None, lambda: None)


def test_restored_etcd_goes_back_in_versions_and_objects_and_breaks_watches(server: ApiServer) -> None:
    server.create(PODS, pod("web-0"))
    backup = server.backup()
    server.create(PODS, pod("web-1"))
    server.delete(PODS, "shop", "web-0")
    watching = Watching(server)
    server.restore(backup)
    assert server.resource_version == backup.resource_version
    assert [p["metadata"]["name"] for p in server.list(PODS)] == ["web-0"]
    assert watching.breaks == 1
    again = server.create(PODS, pod("web-1"))
    assert int(again["metadata"]["resourceVersion"]) == backup.resource_version + 1
    assert watching.events == []


def test_stale_read_shows_the_past(server: ApiServer, clock: Clock) -> None:
    server.create(PODS, pod("web-0"))
    clock.s = 10.0
    server.delete(PODS, "shop", "web-0")
    server.create(PODS, pod("web-1"))
    page = server.list_stale(PODS, "shop", POD_INDEX, 5.0)
    assert [p["metadata"]["name"] for p in page["items"]] == ["web-0"]
    assert int(page["metadata"]["resourceVersion"]) == server.resource_version - 2


# -- admission

INJECTED: Json = {
    "scope": "0123abcd",
    "watchEpoch": "e1",
    "method": "Policy",
    "idTemplate": "{podName}.0123abcd",
    "sessionTimeoutMs": 45000,
    "ids": [{"annotation": names.INSTANCE_ID_ANNOTATION, "suffix": ""}],
    "env": [
        {"container": "", "name": "KAFKA_GROUP_INSTANCE_ID", "annotation": names.INSTANCE_ID_ANNOTATION},
        {"container": "", "name": "KAFKA_SESSION_TIMEOUT_MS", "annotation": names.SESSION_TIMEOUT_ANNOTATION},
    ],
}


def admitted(server: ApiServer, clock: Clock, *, injected: Json = INJECTED, wait_s: float = 2.0, **spec: Any) -> Json:
    """Create the policy, a StaticGroup with its status, and then a pod."""
    server.create(MUTATING_POLICIES, {"metadata": {"name": server.policy_name}})
    server.create(STATIC_GROUPS, static_group(**spec))
    server.apply_status(STATIC_GROUPS, "shop", "orders", {"status": {"injected": injected}})
    clock.s += wait_s
    containers = [{"name": "app", "env": [{"name": "KAFKA_GROUP_INSTANCE_ID", "value": "old"}, {"name": "A"}]}]
    return server.create(PODS, pod("web-3", containers=[*containers, {"name": "side"}]))


@pytest.mark.parametrize(("method", "answers", "is_given"), [("Webhook", True, True), ("Webhook", False, False), ("Policy", True, False)])
def test_webhook_injects_at_once_what_is_meant_for_it_while_it_answers(
    server: ApiServer, clock: Clock, method: str, answers: bool, is_given: bool
) -> None:
    """runtime/webhook: each review reads consistently, so nothing is late as with the policy's parameter informer."""
    server.create(MUTATING_WEBHOOKS, webhook_configuration(server.policy_name))
    server.webhook_answers = lambda: answers
    server.create(STATIC_GROUPS, static_group())
    server.apply_status(STATIC_GROUPS, "shop", "orders", {"status": {"injected": INJECTED | {"method": method}}})
    made = server.create(PODS, pod("web-3", containers=[{"name": "app"}]))
    found = made["metadata"].get("annotations", {})
    assert found.get(names.INSTANCE_ID_ANNOTATION) == ("web-3.0123abcd" if is_given else None)


def test_policy_injects_annotations_and_field_references_first(server: ApiServer, clock: Clock) -> None:
    """api/policy.py: ids as annotations, variables that read them, in front of the container's own."""
    made = admitted(server, clock)
    assert made["metadata"]["annotations"] == {
        names.INSTANCE_ID_ANNOTATION: "web-3.0123abcd",
        names.SESSION_TIMEOUT_ANNOTATION: "45000",
    }
    env = made["spec"]["containers"][0]["env"]
    assert [e["name"] for e in env] == ["KAFKA_GROUP_INSTANCE_ID", "KAFKA_SESSION_TIMEOUT_MS", "A"]
    assert env[0]["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.annotations['{names.INSTANCE_ID_ANNOTATION}']"
    assert "env" not in made["spec"]["containers"][1]


COMPOSED = copy.deepcopy(INJECTED)
COMPOSED["env"][0]["value"] = "$(STATICGROUP_POD_NAME).0123abcd"


def test_composed_id_stands_behind_the_pods_name_and_before_what_refers_to_it(server: ApiServer, clock: Clock) -> None:
    """api/policy.py: an entry with a value is written as it is, and the kubelet expands it."""
    made = admitted(server, clock, injected=COMPOSED)
    env = made["spec"]["containers"][0]["env"]
    assert env[0] == {"name": "STATICGROUP_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    assert env[1] == {"name": "KAFKA_GROUP_INSTANCE_ID", "value": "$(STATICGROUP_POD_NAME).0123abcd"}
    assert [e["name"] for e in env[2:]] == ["KAFKA_SESSION_TIMEOUT_MS", "A"]
    assert environment(made, "app")["KAFKA_GROUP_INSTANCE_ID"] == "web-3.0123abcd"
    assert made["metadata"]["annotations"][names.INSTANCE_ID_ANNOTATION] == "web-3.0123abcd"


@pytest.mark.parametrize("suffix", ["", "-orders"])
def test_operators_upgrade_and_rollback_change_no_id_that_a_pod_gets(
    server: ApiServer, clock: Clock, suffix: str
) -> None:
    """The same text, whether it is read from the annotation or composed of the pod's name."""
    issued = resolve_injected(
        Identity(env=[EnvEntry(container="app", instance_id_name="KAFKA_GROUP_INSTANCE_ID", suffix=suffix)]),
        method=InjectedMethod.POLICY,
        scope="0123abcd",
        watch_epoch="e1",
        id_template="{podName}.0123abcd",
        session_timeout_ms=45_000,
    ).to_wire()
    before = issued | {"env": [{k: v for k, v in e.items() if k != "value"} for e in issued["env"]]}
    old, new = (inject(pod("web-3"), [static_group() | {"status": {"injected": each}}], InjectedMethod.POLICY) for each in (before, issued))
    assert "value" in new["spec"]["containers"][0]["env"][1]
    assert "valueFrom" in old["spec"]["containers"][0]["env"][0]
    for name in ("KAFKA_GROUP_INSTANCE_ID", "KAFKA_SESSION_TIMEOUT_MS"):
        assert environment(old, "app")[name] == environment(new, "app")[name]
    assert old["metadata"] == new["metadata"]
    assert environment(new, "app")["KAFKA_GROUP_INSTANCE_ID"] == f"web-3.0123abcd{suffix}"


def test_no_timeout_is_injected_where_there_is_none(server: ApiServer, clock: Clock) -> None:
    """KIP-848 clients refuse to start with session.timeout.ms, so its variable stays away too."""
    made = admitted(server, clock, injected=INJECTED | {"sessionTimeoutMs": None})
    assert names.SESSION_TIMEOUT_ANNOTATION not in made["metadata"]["annotations"]
    assert [e["name"] for e in made["spec"]["containers"][0]["env"]] == ["KAFKA_GROUP_INSTANCE_ID", "A"]


@pytest.mark.parametrize(
    ("spec", "injected", "wait_s"),
    [
        ({"suspend": True}, INJECTED, 2.0),
        ({"mode": "Observe"}, INJECTED, 2.0),
        ({"workloadRef": {"name": "another"}}, INJECTED, 2.0),
        ({}, INJECTED | {"method": "None"}, 2.0),
        ({}, INJECTED, 0.1),
    ],
    ids=["suspended", "observed", "another-workload", "method-none", "informer-lags"],
)
def test_policy_leaves_a_pod_alone(server: ApiServer, clock: Clock, spec: Json, injected: Json, wait_s: float) -> None:
    """The match conditions of api/policy.py, and the second until the policy knows its parameter."""
    made = admitted(server, clock, injected=injected, wait_s=wait_s, **spec)
    assert "annotations" not in made["metadata"]


def test_condition_keeps_its_transition_time_while_its_status_stays() -> None:
    first = with_condition([], "Ready", "True", 5.0)
    same = with_condition(first, "Ready", "True", 9.0, reason="Again")
    flipped = with_condition(same, "Ready", "False", 12.0)
    times = [c[0]["lastTransitionTime"] for c in (first, same, flipped)]
    assert times == ["2026-01-01T00:00:05Z", "2026-01-01T00:00:05Z", "2026-01-01T00:00:12Z"]
