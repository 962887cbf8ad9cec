"""Versions come in any order, twice or late, and what is known of their pods is the same."""

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from staticgroup.core.evidence.chain import PodState
from staticgroup.core.evidence.pod import PodVersion
from staticgroup.kube.pods.book import PodBook
from support.fake_apiserver import FakeApiServer
from support.long_drills import by_length
from unit.kube.pods.books import at_version, make_book, see
from unit.kube.pods.watched import WatchedStore, following
from unit.kube.raw_objects import born, eventually, finished, pod


def test_older_version_does_not_overwrite_but_its_ids_stay() -> None:
    book = make_book()
    see(book, pod(instance_id="new-id"), 5)
    seen = see(book, born(instance_id="old-id"), 3)
    assert (seen.runs, seen.resource_version) == (True, 5)
    assert seen.instance_ids == {"new-id", "old-id"}
    assert [r.uid for r in book.index.chain("shop", [], ["old-id"])] == ["uid-0"]


def test_listed_version_older_than_the_deletion_does_not_revive() -> None:
    book = make_book()
    see(book, pod(), 9, deleted=True)
    assert see(book, pod(), 4, listed=True).state is PodState.SUSPECT


def test_deletion_older_than_the_version_that_came_back_is_ignored() -> None:
    book = make_book()
    see(book, pod(), 2)
    see(book, pod(), 6)
    seen = see(book, pod(), 4, deleted=True)
    assert (seen.state, seen.object_present) == (PodState.LIVE, True)


def test_pod_seen_again_after_a_list_did_not_show_it_is_live_but_not_known_from_birth() -> None:
    book = make_book()
    see(book, born(), 1)
    (change,) = book.take_absent("", {}, 2)
    assert change.pod.state is PodState.SUSPECT
    seen = see(book, pod(statuses=[]), 3)
    assert (seen.state, seen.from_birth) == (PodState.LIVE, False)


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
        elif raw["status"]["phase"] == "Succeeded" and step in ("bind", "run", "end", "relabel", "new-id"):
            pass  # a terminal phase is never left
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


def _facts(book: PodBook) -> dict[str, Any]:
    return {r.uid: replace(r, since_s=0.0, refusal="") for r in book.index.in_scope("")}


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
    assert found.keys() == expected.keys()
    for uid in expected:
        seen = found[uid]
        assert seen.object_present == expected[uid].object_present
        assert seen.instance_ids == expected[uid].instance_ids
        if seen.state is PodState.DEAD:
            assert expected[uid].state is PodState.DEAD


@settings(max_examples=by_length(short=12, long=25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["run", "end", "remove", "cut", "restart", "tick"])), max_size=14))
async def test_any_split_of_a_history_into_resumed_watches_shows_every_pod_as_one_watch_does(steps: list[tuple[int, str]]) -> None:
    """Cut connections and restart the process anywhere: what one process has not stored yet, the next one replays."""
    async with FakeApiServer().serving() as server, following(server, reconnect_delay_s=0.0005) as straight:
        generation = dict.fromkeys(range(3), 0)
        resume = straight.store.lease_position(None)
        segments: list[list[tuple[int, str]]] = [[]]
        for step in steps:
            segments[-1].append(step) if step[1] != "restart" else segments.append([])
        for segment in segments:
            async with following(server, resume=resume) as world:
                for slot, step in segment:
                    _step(server, generation, slot, step)
                await eventually(lambda w=world: _is_all_seen(straight, w, server))  # type: ignore[misc]
                resume = world.store.lease_position(None)
                assert _states(world) == _states(straight)
                assert (world.gaps, straight.gaps, world.watch()) == ([], [], straight.watch())


def _states(world: WatchedStore) -> dict[str, tuple[PodState, bool]]:
    return {i.uid: (i.state, i.object_present) for i in world.store.chain("shop", pod_names=[f"web-{n}" for n in range(3)])}


def _step(server: FakeApiServer, generation: dict[int, int], slot: int, step: str) -> None:
    name, uid = f"web-{slot}", f"uid-{slot}-{generation[slot]}"
    there = server.objects.get(("pods", "shop", name), {})
    if step == "run" and there.get("status", {}).get("phase") == "Succeeded":
        return  # a terminal phase is never left
    if step in ("run", "end"):
        server.put((pod if step == "run" else finished)(name, uid=uid))
    elif step == "remove" and ("pods", "shop", name) in server.objects:
        server.remove("shop", name)
        generation[slot] += 1
    elif step == "cut":
        server.break_watches()
    elif step == "tick":
        server.tick()


def _is_all_seen(straight: WatchedStore, world: WatchedStore, server: FakeApiServer) -> bool:
    last = max((event.resource_version for _, event in server.history), default=0)
    return min(straight.store.position("shop"), world.store.position("shop")) >= last
