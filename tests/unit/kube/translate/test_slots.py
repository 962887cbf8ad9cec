"""What a pod shows of its slots: notes of every shape, two StaticGroups on one pod, and the ids that follow."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticgroup.core.evidence.pod import PodVersion, SlotView
from staticgroup.kube.translate import MalformedObject, pod_version
from staticgroup.kube.translate.pods import may_hold_a_seat
from staticgroup.kube.translate.slots import waits_for_slot
from support.narrowing import of_type
from unit.kube.raw_deployments import OTHER_SCOPE, SCOPE, annotation_of, deployed, file_key_ref, waiter, waiter_of
from unit.kube.raw_objects import Json, at, ended, pod, waiting

ID = f"web-41.{SCOPE}"


def version(raw: Json) -> PodVersion:
    return of_type(PodVersion, pod_version(at(raw, 7)))


def slot(raw: Json) -> SlotView:
    (found,) = version(raw).slots
    return found


@pytest.mark.parametrize(
    ("note", "given_slot", "claimed", "count"),
    [
        ("uid-0 has web-41", "web-41", "", 0),
        ("uid-0 has web-41 3", "web-41", "", 3),
        ("uid-0 waits 1 -", "", "", 1),
        ("uid-0 waits 12 web-41", "", "web-41", 12),
        ("  uid-0\thas  web-41\n", "web-41", "", 0),
        ("uid-0 has web-41 -3", "web-41", "", 0),
        ("uid-0 has web-41 x", "web-41", "", 0),
        ("uid-0 has web-41 ٣", "web-41", "", 0),
        ("uid-0 has web-41 " + "9" * 5_000, "web-41", "", 0),
        ("uid-0 waits x web-41", "", "web-41", 0),
        ("uid-0 waits 1", "", "", 0),
        ("uid-0 waits", "", "", 0),
        ("uid-0 has", "", "", 0),
        ("uid-0 had web-41", "", "", 0),
        ("uid-0", "", "", 0),
        ("has web-41 1", "", "", 0),
        ("", "", "", 0),
    ],
)
def test_a_note_gives_a_slot_or_says_which_one_the_pod_waits_for(
    note: str, given_slot: str, claimed: str, count: int
) -> None:
    found = slot(deployed(notes={SCOPE: note}))
    assert (found.given, found.claimed, found.count) == (given_slot, claimed, count)


@pytest.mark.parametrize("note", ["uid-1 has web-41 1", "uid-01 has web-41", "UID-0 has web-41", "uid-1 waits 1 web-41"])
def test_the_note_of_another_pod_says_nothing_to_its_copy(note: str) -> None:
    found = version(deployed(notes={SCOPE: note}, waits=False))
    assert (found.slots[0].given, found.slots[0].claimed, found.instance_ids) == ("", "", frozenset())


def test_a_pod_without_notes_and_without_annotations_waits() -> None:
    raw = deployed()
    del raw["metadata"]["annotations"]
    assert slot(raw) == SlotView(scope=SCOPE, workload_name="web", is_waiting=True)


@pytest.mark.parametrize("value", [1, True, ["uid-0 has web-41"], {"uid-0": "has"}, None])
def test_a_note_that_is_no_text_says_nothing(value: Any) -> None:
    raw = deployed()
    raw["metadata"]["annotations"][annotation_of()] = value
    assert (slot(raw).given, slot(raw).claimed) == ("", "")


@pytest.mark.parametrize(
    ("entries", "is_waiting", "has_started"),
    [
        ([], False, False),
        ([waiting(waiter_of())], False, False),
        ([{"name": waiter_of()}], False, False),
        ([{"name": waiter_of(), "state": {}}], False, False),
        ([{"name": waiter_of(), "state": {"running": {}}}], True, False),
        ([ended(waiter_of())], False, True),
        ([ended(waiter_of(), reason="Error")], False, True),
        ([{"name": waiter_of(), "state": {"running": {}, "terminated": {}}}], True, False),
        ([ended("migrate")], False, False),
    ],
)
def test_a_pod_waits_while_its_waiter_runs_and_has_started_once_that_has_ended(
    entries: list[Json], is_waiting: bool, has_started: bool
) -> None:
    raw = deployed()
    raw["status"]["initContainerStatuses"] = entries
    assert (slot(raw).is_waiting, slot(raw).has_started) == (is_waiting, has_started)


def test_a_sandbox_that_is_made_anew_shows_its_waiter_again_with_the_slot_that_it_has() -> None:
    raw = deployed(notes={SCOPE: "uid-0 has web-41 1"})
    raw["status"]["initContainerStatuses"][0] |= {"restartCount": 1, "lastState": ended()["state"]}
    assert (slot(raw).given, slot(raw).is_waiting, slot(raw).has_started) == ("web-41", True, False)


def test_two_static_groups_on_one_pod_each_have_their_own_note_waiter_and_id() -> None:
    raw = deployed(
        scopes=(SCOPE, OTHER_SCOPE), notes={SCOPE: "uid-0 has web-41 1", OTHER_SCOPE: "uid-0 waits 2 web-7"}
    )
    raw["status"]["initContainerStatuses"] = [ended(waiter_of(SCOPE)), waiting(waiter_of(OTHER_SCOPE))]
    found = version(raw)
    assert found.slots == (
        SlotView(scope=SCOPE, workload_name="web", given="web-41", count=1, has_started=True),
        SlotView(scope=OTHER_SCOPE, workload_name="web", claimed="web-7", count=2),
    )
    assert (found.instance_ids, found.ids_are_fixed) == ({ID}, True)
    raw["metadata"]["annotations"][annotation_of(OTHER_SCOPE)] = "uid-0 has web-7 3"
    assert version(raw).instance_ids == {ID, f"web-7.{OTHER_SCOPE}"}


def test_the_workload_is_the_one_that_the_waiter_names() -> None:
    raw = deployed(name="anything", owner=None, workload="orders")
    assert slot(raw).workload_name == "orders"
    raw["spec"]["initContainers"][0]["env"] = []
    assert slot(raw).workload_name == ""


def test_a_pod_without_a_waiter_has_no_slots_whatever_its_annotations_say() -> None:
    raw = pod()
    raw["metadata"]["annotations"][annotation_of()] = "uid-0 has web-41 1"
    raw["spec"]["initContainers"] = [{"name": "staticgroup-slots"}, {"name": "migrate"}]
    assert (version(raw).slots, waits_for_slot(raw)) == ((), False)


# the ids


def test_the_ids_of_a_file_are_carried_once_the_note_gives_the_slot_and_are_fixed_before_and_after() -> None:
    before, after = version(deployed()), version(deployed(notes={SCOPE: "uid-0 has web-41 1"}))
    assert (before.instance_ids, before.ids_are_fixed) == (frozenset(), True)
    assert (after.instance_ids, after.ids_are_fixed) == ({ID}, True)
    shown = {c.name: (c.may_hold_id, c.only_ids) for c in after.required}
    assert shown == {"app": (True, frozenset({ID}))}


def test_a_container_that_reads_the_file_may_hold_any_id_until_the_note_gives_the_slot() -> None:
    (app,) = version(deployed(notes={SCOPE: "uid-0 waits 1 web-41"})).required
    assert (app.may_hold_id, app.only_ids) == (True, frozenset())


def test_a_container_that_does_not_read_the_file_holds_no_id() -> None:
    raw = deployed(notes={SCOPE: "uid-0 has web-41 1"})
    raw["spec"]["containers"].append({"name": "proxy", "env": [{"name": "LOG", "value": "info"}]})
    assert [(c.name, c.may_hold_id) for c in version(raw).required] == [("app", True), ("proxy", False)]


def test_each_container_holds_the_ids_of_the_keys_that_it_reads() -> None:
    raw = deployed(notes={SCOPE: "uid-0 has web-41 1"})
    raw["spec"]["initContainers"] = [waiter(SCOPE, "web", f"ID_0=%s.{SCOPE}", "ID_1=%s-audit")]
    raw["spec"]["containers"].append({"name": "audit", "env": [{"name": "A", **file_key_ref(key="ID_1")}]})
    found = version(raw)
    assert found.instance_ids == {ID, "web-41-audit"}
    assert [c.only_ids for c in found.required] == [{ID}, {"web-41-audit"}]


def test_a_variable_may_refer_to_one_that_reads_the_file() -> None:
    raw = deployed(notes={SCOPE: "uid-0 has web-41 1"})
    raw["spec"]["containers"][0]["env"].append({"name": "GROUP_INSTANCE_ID", "value": "$(KAFKA_GROUP_INSTANCE_ID)-x"})
    found = version(raw)
    assert (found.instance_ids, found.ids_are_fixed) == ({ID, f"{ID}-x"}, True)


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "INSTANCE_ID", **file_key_ref(volumeName="theirs")},
        {"name": "INSTANCE_ID", **file_key_ref(path="other")},
        {"name": "INSTANCE_ID", **file_key_ref(key="ID_9")},
        {"name": "INSTANCE_ID", **file_key_ref(scope=OTHER_SCOPE)},
        {"name": "OTHER", **file_key_ref(scope=OTHER_SCOPE)},
        {"name": "INSTANCE_ID", "valueFrom": {"fileKeyRef": {}}},
    ],
)
@pytest.mark.parametrize("has_waiter", [True, False])
def test_a_file_that_no_waiter_writes_may_hold_any_id_and_is_not_fixed(entry: Json, has_waiter: bool) -> None:
    raw = deployed(notes={SCOPE: "uid-0 has web-41 1"})
    raw["spec"]["containers"][0]["env"] = [entry]
    if not has_waiter:
        del raw["spec"]["initContainers"]
    found = version(raw)
    assert (found.instance_ids, found.ids_are_fixed) == ({ID} if has_waiter else frozenset(), False)
    assert [(c.may_hold_id, c.only_ids) for c in found.required] == [(True, frozenset())]


def test_a_file_of_the_users_own_that_names_no_id_is_none_of_ours() -> None:
    raw = deployed(notes={SCOPE: "uid-0 has web-41 1"})
    raw["spec"]["containers"].append({"name": "proxy", "env": [{"name": "COLOR", **file_key_ref(volumeName="theirs")}]})
    found = version(raw)
    assert (found.instance_ids, found.ids_are_fixed, found.required[1].may_hold_id) == ({ID}, True, False)


def test_a_slot_that_makes_no_legal_id_is_carried_by_nobody() -> None:
    assert version(deployed(notes={SCOPE: "uid-0 has web/41 1"})).instance_ids == frozenset()
    assert version(deployed(notes={SCOPE: f"uid-0 has {'w' * 300} 1"})).instance_ids == frozenset()


# which pods are followed, and what has a wrong shape


def test_a_pod_with_a_waiter_is_followed_and_one_of_a_deployment_without_is_not() -> None:
    raw = deployed()
    raw["spec"]["containers"][0]["env"] = []
    assert may_hold_a_seat(raw)
    raw["spec"]["initContainers"] = [{"name": "migrate"}]
    assert not may_hold_a_seat(raw)


@pytest.mark.parametrize("spec", [None, [], "x", {"initContainers": None}, {"initContainers": "x"},
                                  {"initContainers": [None, 1, {}, {"name": None}, {"name": 3}]}])  # fmt: skip
def test_whatever_its_shape_a_pod_is_asked_whether_it_waits(spec: Any) -> None:
    assert waits_for_slot({"metadata": {}, "spec": spec}) is False


@pytest.mark.parametrize(
    ("path", "wrong", "field"),
    [
        (("spec", "initContainers"), "x", "spec.initContainers"),
        (("spec", "initContainers", 0), "x", "spec.initContainers[]"),
        (("spec", "initContainers", 0, "env"), "x", "spec.containers[].env"),
        (("spec", "initContainers", 0, "env", 0), 1, "spec.containers[].env[]"),
        (("spec", "initContainers", 0, "env", 0, "value"), 1, "spec.containers[].env[].value"),
        (("spec", "containers", 0, "env", 0, "valueFrom"), "x", "spec.containers[].env[].valueFrom"),
        (("spec", "containers", 0, "env", 0, "valueFrom", "fileKeyRef"), "x", "valueFrom.fileKeyRef"),
        (("spec", "containers", 0, "env", 0, "valueFrom", "fileKeyRef", "volumeName"), 1, "fileKeyRef.volumeName"),
        (("spec", "containers", 0, "env", 0, "valueFrom", "fileKeyRef", "key"), [], "fileKeyRef.key"),
        (("metadata", "annotations"), [], "metadata.annotations"),
        (("status", "initContainerStatuses"), {}, "status.initContainerStatuses"),
        (("status", "initContainerStatuses", 0, "state"), "x", "state"),
    ],
)
def test_a_wrong_shape_is_named_by_its_field(path: tuple[Any, ...], wrong: Any, field: str) -> None:
    raw = at(deployed(notes={SCOPE: "uid-0 has web-41 1"}), 7)
    place: Any = raw
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = wrong
    assert field.rpartition(".")[2] in of_type(MalformedObject, pod_version(raw)).field


@pytest.mark.parametrize("arguments", [None, "x", 3, [None], [1, {}], ["ID_0"], []])
def test_arguments_of_another_shape_write_nothing_that_is_an_id(arguments: Any) -> None:
    raw = deployed(notes={SCOPE: "uid-0 has web-41 1"})
    raw["spec"]["initContainers"][0]["args"] = arguments
    found = version(raw)
    assert (found.instance_ids, found.slots[0].given) == (frozenset(), "web-41")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "state", "running"]), inner),
    max_leaves=4,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in _places(each, (*path, key)))]


_RAW = at(deployed(scopes=(SCOPE, OTHER_SCOPE), notes={SCOPE: "uid-0 has web-41 1"}), 7)


@given(st.sampled_from([p for p in _places(_RAW) if p]), _JSON)
def test_no_shape_of_any_field_raises(path: tuple[Any, ...], wrong: Any) -> None:
    raw = copy.deepcopy(_RAW)
    place: Any = raw
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = wrong
    assert isinstance(pod_version(raw), PodVersion | MalformedObject)
    assert isinstance(waits_for_slot(raw), bool)


_WORD = st.text(st.characters(exclude_categories=("Z", "C")), min_size=1, max_size=6)


@given(st.lists(_WORD | st.sampled_from(["uid-0", "has", "waits", "-", "1"]), max_size=6), st.sampled_from([" ", "  ", "\n", "\t"]))
def test_only_a_note_for_this_pod_gives_a_slot_and_never_gives_one_that_it_claims(words: list[str], gap: str) -> None:
    found = slot(deployed(notes={SCOPE: gap.join(words)}))
    assert not (found.given and found.claimed)
    if found.given or found.claimed:
        assert words[0] == "uid-0"
        assert words[2 if found.given else 3] == (found.given or found.claimed)
