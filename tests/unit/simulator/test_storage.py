"""The model API server shows each change once to every watch, and positions expire as those of a real one."""

from __future__ import annotations

from simulator.kubernetes.api_server import ApiServer
from simulator.kubernetes.objects import (
    NODES,
    PODS,
)
from simulator.kubernetes.watch_log import Selector
from staticgroup.api import names

from .served import POD_INDEX, Clock, Watching, pod, refused


def test_watch_replays_from_any_kept_version_and_then_follows(server: ApiServer) -> None:
    since = server.resource_version
    server.create(PODS, pod("web-0"))
    watching = Watching(server, since=since)
    server.create(PODS, pod("web-1"))
    assert [(kind, name) for kind, name, _ in watching.events] == [("ADDED", "web-0"), ("ADDED", "web-1")]


def test_label_edit_looks_like_a_deletion_to_a_selecting_watch(server: ApiServer) -> None:
    """Cacher: an object that leaves the selection is DELETED with its previous content and the new version."""
    server.create(PODS, pod())
    watching, by_name = Watching(server), Watching(server, selector=Selector(fields="metadata.name=web-0"))
    server.patch(PODS, "shop", "web-0", {"metadata": {"labels": {names.POD_INDEX_LABEL: None}}})
    edited = server.resource_version
    assert watching.events == [("DELETED", "web-0", edited)]
    assert names.POD_INDEX_LABEL in watching.delivered[0]["object"]["metadata"]["labels"]
    assert by_name.events == [("MODIFIED", "web-0", edited)]
    server.patch(PODS, "shop", "web-0", {"metadata": {"labels": {names.POD_INDEX_LABEL: "0"}}})
    assert watching.events[1][:2] == ("ADDED", "web-0")


def test_deletion_event_has_a_version_of_its_own_and_the_last_content(server: ApiServer) -> None:
    made = server.create(PODS, pod())
    watching = Watching(server)
    server.delete(PODS, "shop", "web-0")
    assert watching.events == [("DELETED", "web-0", int(made["metadata"]["resourceVersion"]) + 1)]
    assert watching.delivered[0]["object"]["status"] == made["status"]


def test_events_are_kept_for_75_seconds_and_at_least_a_hundred(server: ApiServer, clock: Clock) -> None:
    """watch_cache.go: eventFreshDuration and the lower bound of its capacity; 410 before that."""
    server.create(PODS, pod())
    begun = server.resource_version
    for n in range(150):
        server.patch(PODS, "shop", "web-0", {"metadata": {"labels": {"n": str(n)}}})
    clock.s = 60.0
    for n in range(60):
        server.patch(PODS, "shop", "web-0", {"metadata": {"labels": {"n": f"later {n}"}}})
    assert len(Watching(server, since=begun).events) == 210
    clock.s = 100.0
    for n in range(60):
        server.patch(PODS, "shop", "web-0", {"metadata": {"labels": {"n": f"last {n}"}}})
    with refused(410):
        Watching(server, since=begun)
    assert len(Watching(server, since=server.resource_version - 100).events) == 100


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
    """etcdutl snapshot restore --bump-revision --mark-compacted, which adds to the revision of the snapshot."""
    server.create(PODS, pod("web-0"))
    backup = server.backup()
    server.create(PODS, pod("web-1"))
    seen = server.resource_version
    server.restore(backup, bump=1000)
    assert server.resource_version == backup.resource_version + 1000 > seen
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
