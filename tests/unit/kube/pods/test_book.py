"""The book folds versions to the same incarnations, however they arrive."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticgroup.core.certificate import CertificateKind
from staticgroup.core.chain import Incarnation, IncarnationState
from staticgroup.core.memory import to_remember
from staticgroup.core.pod import NodeView, PodVersion
from staticgroup.core.words import Word
from staticgroup.kube.pods.behind import FRESH_S
from staticgroup.kube.pods.book import IncarnationBook
from staticgroup.kube.translate import pod_version
from unit.kube.raw_objects import NODE, at, born, composed, ended, finished, pod, running


def at_version(raw: dict[str, Any], resource_version: int) -> PodVersion:
    found = pod_version(at(raw, resource_version))
    assert isinstance(found, PodVersion)
    return found


def make_book(nodes: dict[str, NodeView] | None = None, **rest: Any) -> IncarnationBook:
    known = {"node-a": NODE} if nodes is None else nodes
    return IncarnationBook(node_of=known.get, now_s=lambda: 50.0, is_managed=rest.pop("is_managed", lambda ns, n: True), **rest)


def see(book: IncarnationBook, raw: dict[str, Any], resource_version: int, *, deleted: bool = False, listed: bool = False) -> Incarnation:
    change = book.take(at_version(raw, resource_version), is_deleted=deleted, in_order=not listed)
    return change.record.incarnation()


def test_graceful_end_is_certified_ended() -> None:
    book = make_book()
    see(book, pod(), 1)
    see(book, finished(), 2)
    last = see(book, finished(), 3, deleted=True)
    assert (last.state, last.object_present) == (IncarnationState.DEAD, False)
    assert last.certificate is not None
    assert (last.certificate.kind, last.certificate.resource_version) == (CertificateKind.ENDED, 2)


def test_force_deleted_running_pod_is_a_suspect() -> None:
    book = make_book()
    see(book, pod(), 1)
    assert see(book, pod(), 2, deleted=True).state is IncarnationState.SUSPECT


def test_vanish_without_a_certificate_tells_its_reason_once() -> None:
    book = make_book()
    see(book, pod(), 1)
    first = book.take(at_version(pod(), 2), is_deleted=True, in_order=True)
    again = book.take(at_version(pod(), 2), is_deleted=True, in_order=True)
    assert (first.refusal_reason, again.refusal_reason) == ("NotTerminal", "")
    see(book, pod("web-1", uid="other"), 3)
    (absent,) = book.take_absent("", {}, 4)
    assert absent.refusal_reason == "NotTerminal"
    assert book.take(at_version(finished("web-2", uid="good"), 5), is_deleted=True, in_order=True).refusal_reason == ""


def test_end_of_a_pod_that_belongs_to_no_staticgroup_is_not_told() -> None:
    book = make_book(is_managed=lambda namespace, name: False)
    assert book.take(at_version(pod(), 2), is_deleted=True, in_order=True).refusal_reason == ""


def test_stale_terminated_status_of_a_crash_loop_is_no_certificate() -> None:
    """lab-kubernetes 11: deletionTimestamp, phase Running and a stale terminated state come first."""
    book = make_book()
    stale = pod(phase="Running", statuses=[ended(reason="Error")], deletionTimestamp="2026-01-01T00:00:30Z")
    assert see(book, stale, 1).state is IncarnationState.LIVE
    assert see(book, stale, 2, deleted=True).state is IncarnationState.SUSPECT


def test_image_never_pulled_is_certified_only_when_known_from_birth() -> None:
    unpulled = pod(phase="Failed", statuses=[ended(reason="ContainerStatusUnknown", container_id=False)])
    book = make_book()
    see(book, born(), 1)
    seen = see(book, unpulled, 2)
    assert seen.certificate is not None
    assert seen.certificate.kind is CertificateKind.NEVER_RAN
    assert see(make_book(), unpulled, 2).state is IncarnationState.LIVE


def test_what_ran_in_the_pods_of_a_workload_is_remembered_once_for_all_of_them() -> None:
    """A hundred thousand pods with sidecars may not cost a tuple each."""
    book = make_book()
    statuses = [running(), running("side"), running("third")]
    for number in range(3):
        see(book, pod(f"web-{number}", uid=f"u{number}", statuses=statuses), 10 + number)
    shared = [r._started for r in book.records.in_scope("")]
    assert shared[0] == ("app", "side", "third")
    assert shared[0] is shared[1] is shared[2]


def test_list_ahead_of_the_watch_ends_the_knowledge_from_birth() -> None:
    """The skipped versions may have shown a container."""
    unpulled = pod(phase="Failed", statuses=[ended(reason="ContainerStatusUnknown", container_id=False)])
    book = make_book()
    see(book, born(), 1)
    assert see(book, unpulled, 5, listed=True).state is IncarnationState.LIVE
    assert see(book, pod(), 3).started_containers == {"app"}


def test_sidecar_still_running_withholds_the_certificate() -> None:
    raw = finished()
    raw["spec"]["initContainers"] = [{"name": "proxy", "restartPolicy": "Always"}]
    raw["status"]["initContainerStatuses"] = [running("proxy")]
    assert see(make_book(), raw, 1).state is IncarnationState.LIVE
    raw["status"]["initContainerStatuses"] = [ended("proxy")]
    assert see(make_book(), raw, 1).state is IncarnationState.DEAD


def test_older_version_does_not_overwrite_but_its_ids_stay() -> None:
    book = make_book()
    see(book, pod(instance_id="new-id"), 5)
    seen = see(book, born(instance_id="old-id"), 3)
    assert (seen.runs, seen.resource_version) == (True, 5)
    assert seen.instance_ids == {"new-id", "old-id"}
    assert [r.uid for r in book.records.carrying("shop", "old-id")] == ["uid-0"]


BY_ANNOTATION = "metadata.annotations['staticgroup.io/instance-id']"


def test_ids_are_fixed_when_they_are_in_every_version_that_was_folded() -> None:
    book = make_book()
    assert see(book, composed(born()), 1).ids_are_fixed
    assert see(book, composed(pod()), 2).ids_are_fixed
    debugged = composed(pod())
    debugged["spec"]["ephemeralContainers"] = [composed(pod(), reads=BY_ANNOTATION)["spec"]["containers"][0]]
    assert not see(book, debugged, 3).ids_are_fixed
    assert not see(book, composed(pod()), 4).ids_are_fixed


def test_ids_that_were_not_fixed_in_one_version_are_not_fixed_in_whatever_order_the_versions_come() -> None:
    for order in ((1, 2, 3), (3, 2, 1), (2, 3, 1), (1, 3, 2)):
        book = make_book()
        for n in order:
            last = see(book, composed(pod(), reads=BY_ANNOTATION if n == 2 else "metadata.name"), n)
        assert not last.ids_are_fixed


def test_ids_of_an_incarnation_that_is_only_remembered_are_not_fixed() -> None:
    book = make_book()
    entry = replace(see(make_book(), composed(born()), 1), resource_version=1)
    book.merge([replace(entry, ids_are_fixed=False)], complete_until=lambda namespace: 0)
    assert not see(book, composed(pod()), 2).ids_are_fixed


def test_listed_version_older_than_the_deletion_does_not_revive() -> None:
    book = make_book()
    see(book, pod(), 9, deleted=True)
    assert see(book, pod(), 4, listed=True).state is IncarnationState.SUSPECT


def test_deletion_older_than_the_version_that_came_back_is_ignored() -> None:
    book = make_book()
    see(book, pod(), 2)
    see(book, pod(), 6)
    seen = see(book, pod(), 4, deleted=True)
    assert (seen.state, seen.object_present) == (IncarnationState.LIVE, True)


def test_pod_seen_again_after_a_list_did_not_show_it_is_live_but_not_known_from_birth() -> None:
    book = make_book()
    see(book, born(), 1)
    (change,) = book.take_absent("", {}, 2)
    assert change.record.state is IncarnationState.SUSPECT
    seen = see(book, pod(statuses=[]), 3)
    assert (seen.state, seen.from_birth) == (IncarnationState.LIVE, False)


def test_terminal_version_waits_for_the_facts_of_its_node() -> None:
    nodes: dict[str, NodeView] = {}
    book = make_book(nodes)
    see(book, finished(), 2)
    assert see(book, finished(), 3, deleted=True).state is IncarnationState.SUSPECT
    nodes["node-a"] = NODE
    changes = book.take_node("node-a")
    assert [(c.record.state, c.record.object_present) for c in changes] == [(IncarnationState.DEAD, False)]
    assert book.take_node("node-a") == []


def test_version_that_waited_for_its_node_over_a_gap_is_no_sight_of_its_object_after_it() -> None:
    nodes: dict[str, NodeView] = {}
    book = make_book(nodes)
    see(book, finished(), 2)
    book.next_era("")
    nodes["node-a"] = NODE
    assert [c.record.seen_in for c in book.take_node("node-a")] == [0]
    see(book, finished(), 2, listed=True)
    assert [r.seen_in for r in book.records.in_scope("")] == [1]


def test_object_that_only_a_status_names_was_seen_by_nobody_here() -> None:
    book = make_book()
    see(book, pod(), 2)
    known = book.records.get("uid-0")
    assert known is not None
    entry = replace(known.incarnation(), uid="uid-1", resource_version=1)
    book.merge([entry], complete_until=lambda namespace: 0)
    merged = book.records.get("uid-1")
    assert merged is not None
    assert (merged.seen_in, merged.state) == (-1, IncarnationState.LIVE)
    book.merge([replace(entry, uid="uid-2")], complete_until=lambda namespace: 5)
    gone = book.records.get("uid-2")
    assert gone is not None
    assert gone.state is IncarnationState.SUSPECT


def test_old_kubelet_never_certifies() -> None:
    book = make_book({"node-a": replace(NODE, kubelet_minor=26, kubelet_version="v1.26.0")})
    assert see(book, finished(), 2).state is IncarnationState.LIVE
    assert book.take_node("node-a") == []


def test_unbound_pod_is_certified_when_its_deletion_was_delivered_and_not_when_a_list_lacks_it() -> None:
    book = make_book()
    see(book, born(), 1)
    assert see(book, born(), 2, deleted=True).state is IncarnationState.DEAD
    other = make_book()
    see(other, born(), 1)
    assert [c.record.state for c in other.take_absent("", {}, 2)] == [IncarnationState.SUSPECT]


def test_restored_object_voids_its_certificate() -> None:
    """A kubelet runs a pod object that comes back with a restored etcd."""
    book = make_book()
    see(book, finished(), 90, deleted=True)
    book.forget_versions(0)
    change = book.take_after_restore(at_version(pod(), 40))
    seen = change.record.incarnation()
    assert (seen.state, seen.certificate, seen.object_present, seen.resource_version) == (IncarnationState.LIVE, None, True, 40)


def test_position_stays_below_an_end_of_a_managed_pod_until_it_is_durable() -> None:
    book = make_book()
    see(book, pod(), 5)
    suspect = see(book, pod(), 7, deleted=True)
    assert book.unwritten.durable_position("", 20) == 6
    assert book.unwritten.mark_durable(suspect)
    assert book.unwritten.durable_position("", 20) == 20


def test_writing_an_outdated_state_does_not_make_the_new_one_durable() -> None:
    book = make_book()
    see(book, born(), 1)
    (absent,) = book.take_absent("", {}, 2)
    suspect = absent.record.incarnation()
    see(book, born(), 3, deleted=True)
    assert not book.unwritten.mark_durable(suspect)
    assert book.unwritten.durable_position("", 20) == 2


def test_unmanaged_ends_do_not_hold_the_position() -> None:
    book = make_book(is_managed=lambda namespace, name: False)
    see(book, pod(), 7, deleted=True)
    assert book.unwritten.durable_position("", 20) == 20


def test_ledger_of_an_earlier_process_is_kept_and_an_unknown_live_entry_becomes_a_suspect() -> None:
    earlier = make_book()
    live = see(earlier, pod(uid="a"), 1)
    see(earlier, pod(uid="b"), 2)
    suspect = see(earlier, pod(uid="b"), 3, deleted=True)
    dead = see(earlier, finished(uid="c"), 4, deleted=True)
    book = make_book()
    book.merge([live, suspect, dead], complete_until=lambda namespace: 0)
    book.take_absent("", {}, 10)
    chain = {i.uid: i.state for i in book.records.chain("shop", ["web-0"], [])}
    assert chain == {"a": IncarnationState.SUSPECT, "b": IncarnationState.SUSPECT, "c": IncarnationState.DEAD}


def test_ledger_entry_ahead_of_the_watch_is_not_taken_for_gone() -> None:
    """A standby merges what the active replica wrote about a pod that its own watch has yet to show."""
    live = see(make_book(), pod(), 9)
    book = make_book()
    book.merge([live], complete_until=lambda namespace: 8)
    assert see(book, pod(), 9).state is IncarnationState.LIVE
    behind = make_book()
    behind.merge([live], complete_until=lambda namespace: 9)
    assert [i.state for i in behind.records.chain("shop", ["web-0"], [])] == [IncarnationState.SUSPECT]


def test_purge_drops_the_dead_of_nobody_first_and_then_the_suspects() -> None:
    book = make_book(is_managed=lambda namespace, name: False, gone_max=10)
    for number in range(8):
        see(book, pod(uid=f"s{number}"), 10 + number, deleted=True)
    for number in range(3):
        see(book, finished(uid=f"d{number}"), 30 + number, deleted=True)
    book.purge()
    assert {r.uid for r in book.records.in_scope("")} >= {f"s{n}" for n in range(8)}
    for number in range(8, 20):
        see(book, pod(uid=f"s{number}"), 40 + number, deleted=True)
    book.purge()
    assert len(book.records) <= 10


def test_managed_suspects_are_never_purged() -> None:
    book = make_book(gone_max=4)
    for number in range(20):
        see(book, pod(uid=f"s{number}"), 10 + number, deleted=True)
    book.purge()
    assert len(book.records) == 20


def test_present_incarnation_is_not_forgotten_and_a_vanished_one_leaves_every_index() -> None:
    book = make_book()
    see(book, pod(), 1)
    assert not book.forget("uid-0")
    see(book, pod(), 2, deleted=True)
    assert book.forget("uid-0")
    assert book.records.chain("shop", ["web-0"], ["web-0.1a2b3c4d"]) == ()


# -- dead incarnations of one name


def rolled(book: IncarnationBook, number: int, *, name: str = "web-0", instance_id: str = "web-0.s", first: int = 0) -> None:
    """Let a pod of a name live and end gracefully; its versions lie in [first + 10 * number, first + 10 * number + 3]."""
    uid, at_first = f"{name}-{number}", first + 10 * number
    see(book, born(name, uid=uid, instance_id=instance_id), at_first)
    see(book, pod(name, uid=uid, instance_id=instance_id), at_first + 1)
    see(book, finished(name, uid=uid, instance_id=instance_id), at_first + 2)
    see(book, finished(name, uid=uid, instance_id=instance_id), at_first + 3, deleted=True)


@pytest.mark.parametrize("is_managed", [True, False])
def test_memory_stays_flat_over_a_thousand_rolls(is_managed: bool) -> None:
    book = make_book(is_managed=lambda namespace, name: is_managed)
    for number in range(1, 1001):
        for name in ("web-0", "web-1", "web-2"):
            rolled(book, number, name=name, instance_id=f"{name}.s")
    assert sorted(r.uid for r in book.records.in_scope("")) == ["web-0-1000", "web-1-1000", "web-2-1000"]
    assert len(book.gone) == len(book.unwritten.versions) == 3
    assert book._awaiting_node == {}


def test_memory_stays_flat_when_every_roll_carries_another_id() -> None:
    """The newest of every id would be evidence, but ids that change at each roll are not ours to remember."""
    book = make_book()
    for number in range(1, 101):
        rolled(book, number, instance_id=f"web-0.{number}")
    assert sorted(r.uid for r in book.records.in_scope("")) == [f"web-0-{n}" for n in (100, 97, 98, 99)]


def test_dead_incarnation_is_kept_while_it_alone_shows_who_carried_an_id() -> None:
    """After a template edit the old id has no other witness than the last pod that carried it."""
    book = make_book()
    rolled(book, 1, instance_id="web-0.old")
    rolled(book, 2, instance_id="web-0.old")
    for number in range(3, 50):
        rolled(book, number, instance_id="web-0.new")
    assert [r.uid for r in book.records.in_scope("")] == ["web-0-2", "web-0-49"]


def test_suspects_of_managed_names_outlive_every_roll() -> None:
    book = make_book(gone_max=4)
    see(book, pod(uid="lost", instance_id="web-0.s"), 1)
    see(book, pod(uid="lost", instance_id="web-0.s"), 2, deleted=True)
    for number in range(1, 200):
        rolled(book, number)
        book.purge()
    assert [i.uid for i in book.records.chain("shop", ["web-0"], [])] == ["lost", "web-0-199"]


def test_late_delivery_of_a_dropped_incarnation_does_not_bring_it_back() -> None:
    """A replay repeats what the main stream has folded; its pod would stand there as a suspect for good."""
    book = make_book()
    for number in (1, 2, 3):
        rolled(book, number)
    assert not book.take(at_version(pod(uid="web-0-1"), 11), is_deleted=False, in_order=True).is_visible
    book.take(at_version(pod(uid="web-0-1"), 13), is_deleted=True, in_order=True)
    assert [r.uid for r in book.records.in_scope("")] == ["web-0-3"]


def test_after_a_restore_an_old_number_is_not_taken_for_an_old_version() -> None:
    book = make_book()
    for number in (1, 2, 3):
        rolled(book, number)
    book.forget_versions(0)
    see(book, pod(uid="anew"), 5)
    assert {i.uid for i in book.records.chain("shop", ["web-0"], [])} == {"anew", "web-0-3"}


def test_end_that_is_certified_late_leaves_the_newest_in_place() -> None:
    nodes: dict[str, NodeView] = {}
    book = make_book(nodes)
    see(book, finished(uid="early"), 2, deleted=True)
    nodes["node-a"] = NODE
    rolled(book, 1, instance_id="web-0.1a2b3c4d")
    assert {r.uid: r.state for r in book.records.in_scope("")}["early"] is IncarnationState.SUSPECT
    book.take_node("node-a")
    assert [r.uid for r in book.records.in_scope("")] == ["web-0-1"]


# -- any split of a history folds to the same incarnations

_STEPS = st.sampled_from(["bind", "run", "end", "relabel", "vanish", "force", "new-id"])


def _history(steps: list[tuple[int, str]]) -> list[tuple[PodVersion, bool]]:
    """Play steps on three pod names; each vanish is followed by a new uid."""
    history: list[tuple[PodVersion, bool]] = []
    raws: dict[int, dict[str, Any]] = {}
    generation = dict.fromkeys(range(3), 0)
    for resource_version, (slot, step) in enumerate(steps, start=10):
        name, uid = f"web-{slot}", f"uid-{slot}-{generation[slot]}"
        raw = raws.get(slot)
        if raw is None:
            raws[slot] = born(name, uid=uid, instance_id=f"{name}.s")
        elif step == "run":
            raws[slot] = pod(name, uid=uid, instance_id=f"{name}.s")
        elif step == "end":
            raws[slot] = finished(name, uid=uid, instance_id=f"{name}.s")
        elif step == "new-id":
            raws[slot] = pod(name, uid=uid, instance_id=f"{name}.t")
        elif step in ("vanish", "force"):
            history.append((at_version(finished(name, uid=uid) if step == "vanish" else raw, resource_version), True))
            del raws[slot]
            generation[slot] += 1
            continue
        history.append((at_version(raws[slot], resource_version), False))
    return history


def _facts(book: IncarnationBook) -> dict[str, Any]:
    return {r.uid: replace(r.incarnation(), since_s=0.0, refusal="") for r in book.records.in_scope("")}


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, 2), _STEPS), max_size=25), st.lists(st.integers(0, 25), max_size=4))
def test_any_split_of_a_history_into_overlapping_watches_folds_to_the_same(
    steps: list[tuple[int, str]], restarts: list[int]
) -> None:
    """Each restart resumes from an earlier point, so versions come again; the result must not change."""
    history = _history(steps)
    straight, resumed = make_book(), make_book()
    for version, is_deleted in history:
        straight.take(version, is_deleted=is_deleted, in_order=True)
    done = 0
    for back_to in [*restarts, 0]:
        for version, is_deleted in history[min(back_to, done):]:
            resumed.take(version, is_deleted=is_deleted, in_order=True)
        done = len(history)
    assert _facts(resumed) == _facts(straight)


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, 2), _STEPS), max_size=25), st.integers(0, 25), st.integers(0, 25))
def test_list_at_any_point_of_a_replay_never_revives_and_never_certifies_more(
    steps: list[tuple[int, str]], listed_after: int, folded_at: int
) -> None:
    """A LIST at r folded early, late or in between; only the knowledge from birth may be smaller."""
    history = _history(steps)
    straight, mixed = make_book(), make_book()
    present: dict[str, PodVersion] = {}
    for version, is_deleted in history[:listed_after]:
        present.pop(version.uid, None)
        if not is_deleted:
            present[version.uid] = version
    for number, (version, is_deleted) in enumerate([*history, (None, False)]):
        if number == min(folded_at, len(history)):
            for listed in present.values():
                mixed.take(listed, is_deleted=False, in_order=False)
        if version is not None:
            straight.take(version, is_deleted=is_deleted, in_order=True)
            mixed.take(version, is_deleted=is_deleted, in_order=True)
    expected, found = _facts(straight), _facts(mixed)
    # What is certified less may be kept longer: a newer dead incarnation replaces an older dead one only.
    assert found.keys() >= expected.keys()
    for uid in expected:
        incarnation = found[uid]
        assert incarnation.object_present == expected[uid].object_present
        assert incarnation.instance_ids == expected[uid].instance_ids
        if incarnation.state is IncarnationState.DEAD:
            assert expected[uid].state is IncarnationState.DEAD


class Moving:
    """A book whose clock moves, with one workload for each name."""

    def __init__(self, **rest: Any) -> None:
        self.now_s = 1000.0
        self.managed = rest.pop("managed", lambda ns, n: True)
        self.book = IncarnationBook(node_of={"node-a": NODE}.get, now_s=lambda: self.now_s, is_managed=self._is_managed)

    def _is_managed(self, namespace: str, pod_name: str) -> bool:
        return bool(self.managed(namespace, pod_name))

    def dies(self, workload: str, resource_version: int) -> Incarnation:
        raw = pod(f"{workload}-0", uid=f"{workload}-{resource_version}")
        return see(self.book, raw, resource_version, deleted=True)


def test_position_waits_for_an_end_that_has_just_been_seen_and_then_leaves_its_workload_behind() -> None:
    world = Moving()
    world.dies("web", 7)
    world.dies("bill", 9)
    assert world.book.unwritten.stored_position("", 20) == (6, {})
    world.now_s += FRESH_S
    assert world.book.unwritten.stored_position("", 20) == (20, {("shop", "web"): 6, ("shop", "bill"): 8})
    world.dies("web", 25)
    world.dies("new", 26)
    assert world.book.unwritten.stored_position("", 30) == (25, {("shop", "web"): 6, ("shop", "bill"): 8})
    assert world.book.unwritten.stored_position("other", 30) == (30, {})


def test_workload_whose_end_is_durable_is_behind_no_more() -> None:
    world = Moving()
    suspect = world.dies("web", 7)
    world.now_s += FRESH_S
    assert world.book.unwritten.mark_durable(suspect)
    assert world.book.unwritten.stored_position("", 20) == (20, {})


def test_end_that_nobody_will_write_any_more_leaves_the_list() -> None:
    """Its StaticGroup was deleted, or its namespace."""
    world = Moving()
    world.dies("web", 7)
    world.now_s += FRESH_S
    world.managed = lambda ns, n: False
    assert world.book.unwritten.stored_position("", 20) == (20, {})


def test_staticgroup_that_is_new_leaves_only_its_own_workload_behind() -> None:
    world = Moving(managed=lambda ns, n: False)
    world.dies("web", 7)
    world.now_s += 3600
    world.managed = lambda ns, n: True
    assert world.book.unwritten.stored_position("", 20) == (20, {("shop", "web"): 6})


def test_list_that_is_full_keeps_the_position_below_those_that_have_no_room() -> None:
    """The oldest have it: so the position goes as far as it can, and nothing that it passed is missing on the list."""
    world = Moving()
    for n in range(5):
        world.dies(f"w{n}", 10 * (n + 1))
    world.now_s += FRESH_S
    assert world.book.unwritten.stored_position("", 99, room=3) == (39, {("shop", "w0"): 9, ("shop", "w1"): 19, ("shop", "w2"): 29})
    assert world.book.unwritten.stored_position("", 99, room=5)[0] == 99


def test_clock_that_goes_back_does_not_keep_the_position() -> None:
    world = Moving()
    world.dies("web", 7)
    world.now_s -= 3600
    assert world.book.unwritten.stored_position("", 20) == (20, {("shop", "web"): 6})


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.booleans()), max_size=30), st.integers(1, 4))
def test_every_end_up_to_the_stored_position_is_durable_or_above_the_position_of_its_workload(
    steps: list[tuple[int, int, bool]], room: int
) -> None:
    world, version, ends = Moving(), 10, []
    for workload, seconds, is_written in steps:
        version += 1
        world.now_s += seconds
        ends.append((f"w{workload}", version, world.dies(f"w{workload}", version)))
        if is_written:
            world.book.unwritten.mark_durable(ends[-1][2])
        position, behind = world.book.unwritten.stored_position("", version, room=room)
        assert len(behind) <= room
        for name, ended_at, incarnation in ends:
            durable_to = min(position, behind.get(("shop", name), position))
            assert world.book.unwritten.is_durable(incarnation.uid) or ended_at > durable_to
        assert world.book.unwritten.durable_position("", version) == min([position, *behind.values()])


def test_word_stays_beside_the_proven_end_of_a_later_pod_of_the_name() -> None:
    """A removal rests on both, so both are told; the newest dead one alone would hide whose word it was."""
    book = make_book()
    see(book, pod(), 2)
    see(book, pod(), 3, deleted=True)
    see(book, finished(uid="uid-1"), 4)
    see(book, finished(uid="uid-1"), 5, deleted=True)
    word = Word(namespace="shop", pod_name="web-0", pod_uid="uid-0", said_by="alice", statement="seen off", said_at_s=60.0)
    assert [c.record.uid for c in book.hear([word])] == ["uid-0"]
    chain = book.records.chain("shop", ["web-0"], ())
    assert [(i.uid, i.certificate.said_by if i.certificate else "") for i in chain] == [("uid-0", "alice"), ("uid-1", "")]
    assert {i.uid for i in to_remember(chain)} == {"uid-0", "uid-1"}
