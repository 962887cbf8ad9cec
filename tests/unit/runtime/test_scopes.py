"""The one look at all ids says what each StaticGroup would find by looking for itself, and is not older than it may be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticgroup.api import names
from staticgroup.api.identifiers import IdScheme
from staticgroup.core.ids.naming import Naming
from staticgroup.runtime.memory.scopes import Scopes
from staticgroup.runtime.stores import Stores

from .operator_world import static_group

SCOPES = ("0123abcd", "123abcde", "deadbeef")
Ids = set[tuple[str, str]]


class Pods:
    """The ids of a pod watch, and what tells that others came; counts how often all are looked at."""

    def __init__(self, ids: Iterable[tuple[str, str]] = ()) -> None:
        self.held: Ids = set(ids)
        self.epoch: str | None = "epoch-1"
        self.new_ids = len(self.held)
        self.looks = 0

    def ids(self) -> Iterator[tuple[str, str]]:
        self.looks += 1
        return iter(self.held)

    def come(self, place: str, instance_id: str) -> None:
        self.held.add((place, instance_id))
        self.new_ids += 1


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def scopes_of(pods: Pods, clock: Clock, told: Iterable[str] = SCOPES) -> Scopes:
    stores = Stores()
    for number, scope in enumerate(told):
        body = static_group(workloadRef={"name": f"web{number}"})
        body["metadata"] |= {"name": f"g{number}", "uid": f"sg-{number}"}
        body["status"] = {
            "injected": {
                "scope": scope, "watchEpoch": "e", "method": "Policy", "idTemplate": f"{{podName}}.{scope}",
                "ids": [{"annotation": names.INSTANCE_ID_ANNOTATION, "suffix": ""}], "env": [],
            }
        }  # fmt: skip
        assert stores.put_group(("shop", f"g{number}"), body)
    return Scopes(pods=pods, stores=stores, monotonic_s=clock)  # type: ignore[arg-type]  # what it asks of the watch


fragments = st.sampled_from([*SCOPES, "0", "a", "web-1", ".", "-"])
texts = st.lists(fragments, min_size=1, max_size=8).map("".join)


@given(st.sets(st.tuples(st.sampled_from(["shop", "bill"]), texts), max_size=20), st.sampled_from(SCOPES))
def test_a_sight_is_what_the_naming_finds_by_itself(held: Ids, scope: str) -> None:
    """Scopes that overlap in one id, and stand there twice, included."""
    naming = Naming(schemes=(IdScheme(template=f"{{podName}}.{scope}", workload_name="web"),), scope=scope)
    assert naming.is_told_by_scope
    seen = scopes_of(Pods(held), Clock()).sight(scope, not_before_s=math.inf)
    assert seen is not None
    assert seen.ids == {(place, i) for place, i in held if naming.is_own(i)}


def test_all_staticgroups_share_one_look() -> None:
    pods = Pods([("shop", f"web-{n}.{scope}") for n in range(3) for scope in SCOPES])
    scopes = scopes_of(pods, Clock())
    sights = [scopes.sight(scope, not_before_s=math.inf) for scope in SCOPES]
    assert [len(s.ids) for s in sights if s is not None] == [3, 3, 3]
    assert pods.looks == 1


def test_a_scope_of_which_no_status_tells_is_not_answered() -> None:
    pods = Pods([("shop", "web-0.deadbeef")])
    assert scopes_of(pods, Clock(), told=SCOPES[:1]).sight("deadbeef", not_before_s=math.inf) is None


def test_whoever_must_know_all_gets_what_came_a_moment_ago() -> None:
    pods, clock = Pods(), Clock()
    scopes = scopes_of(pods, clock)
    scopes.sight("deadbeef", not_before_s=math.inf)
    pods.come("shop", "web-0.deadbeef")
    seen = scopes.sight("deadbeef", not_before_s=math.inf)
    assert seen is not None
    assert seen.ids == {("shop", "web-0.deadbeef")}


@pytest.mark.parametrize(("age_s", "looks"), [(0.0, 1), (5.0, 1), (5.1, 2)])
def test_a_look_may_be_as_old_as_is_asked_and_says_its_age(age_s: float, looks: int) -> None:
    pods, clock = Pods(), Clock()
    scopes = scopes_of(pods, clock)
    scopes.sight("deadbeef", not_before_s=math.inf)
    began_s = clock.now_s
    pods.come("shop", "web-0.deadbeef")
    clock.now_s += age_s
    seen = scopes.sight("deadbeef", not_before_s=clock.now_s - 5.0)
    assert seen is not None
    assert (pods.looks, bool(seen.ids)) == (looks, looks == 2)
    assert seen.at_s == (began_s if looks == 1 else clock.now_s)
    assert seen.of_new_ids == (0 if looks == 1 else 1)


def test_a_look_is_of_now_while_no_id_comes() -> None:
    pods, clock = Pods([("shop", "web-0.deadbeef")]), Clock()
    scopes = scopes_of(pods, clock)
    scopes.sight("deadbeef", not_before_s=math.inf)
    clock.now_s += 3600
    seen = scopes.sight("deadbeef", not_before_s=clock.now_s)
    assert seen is not None
    assert (seen.at_s, pods.looks) == (clock.now_s, 1)


def test_another_epoch_of_the_watch_is_looked_at_anew() -> None:
    pods, clock = Pods(), Clock()
    scopes = scopes_of(pods, clock)
    scopes.sight("deadbeef", not_before_s=math.inf)
    pods.epoch = "epoch-2"
    scopes.sight("deadbeef", not_before_s=0)
    assert pods.looks == 2
