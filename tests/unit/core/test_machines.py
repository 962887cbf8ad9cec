"""What is remembered of nodes: which machine a Node object stands for, and since when no other one can have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from staticgroup.core.evidence.machines import Fleet, Machine, NodeRecord, bounded, gone, machine_of, merged, seen
from staticgroup.core.evidence.pod import NodeView
from unit.core.builders import NOW_S

LATER_S = NOW_S + 500


def view(**changes: Any) -> NodeView:
    values: dict[str, Any] = {
        "name": "n1", "uid": "node-1", "kubelet_version": "v1.36.3", "kubelet_minor": 36, "machine_id": "m1", "system_uuid": "s1",
        "boot_id": "b1", "created_at_s": NOW_S - 100, "is_ready": True,
    }  # fmt: skip
    return NodeView(**(values | changes))


def record(**changes: Any) -> NodeRecord:
    return replace(seen(None, view(), now_s=NOW_S), **changes)


def test_a_machine_that_is_listed_first_is_known_since_now_on_every_clock() -> None:
    assert seen(None, view(), now_s=NOW_S).known_since_s == NOW_S + 60


def test_a_node_that_the_watch_saw_born_stood_for_this_machine_from_its_creation() -> None:
    assert seen(None, view(), is_birth=True, now_s=NOW_S).known_since_s == NOW_S - 100


def test_another_boot_is_the_same_machine() -> None:
    after = seen(record(), view(boot_id="b2"), now_s=LATER_S)
    assert (after.known_since_s, after.boot_since_s, after.machine.boot_id) == (NOW_S + 60, LATER_S, "b2")
    assert seen(after, view(boot_id="b2"), now_s=LATER_S + 1) == after


def test_another_machine_under_the_same_object_is_known_since_now() -> None:
    """A replacement takes the Node object over; what was before may still run."""
    for change in ({"machine_id": "m2"}, {"system_uuid": "s2"}, {"machine_id": ""}):
        after = seen(record(known_since_s=0.0), view(**change), now_s=LATER_S)
        assert (after.known_since_s, after.earlier_until_s) == (LATER_S + 60, LATER_S)


def test_another_object_of_the_name_remembers_until_when_there_was_one_before() -> None:
    before = gone(record(), now_s=LATER_S - 10)
    after = seen(before, view(uid="node-2", created_at_s=LATER_S - 5), is_birth=True, now_s=LATER_S)
    assert (after.uid, after.known_since_s, after.earlier_until_s) == ("node-2", LATER_S - 5, LATER_S - 10)
    assert after.gone_since_s is None


def test_a_taint_counts_since_it_was_written_and_ends() -> None:
    out = view(is_out_of_service=True, written_at_s=LATER_S - 3)
    tainted = seen(record(), out, is_next=True, now_s=LATER_S)
    assert tainted.tainted_since_s == LATER_S - 3
    assert seen(tainted, replace(out, written_at_s=LATER_S + 9), is_next=True, now_s=LATER_S + 9).tainted_since_s == LATER_S - 3
    assert seen(tainted, view(), now_s=LATER_S + 9).tainted_since_s is None


def test_two_processes_know_the_same_machine_for_as_long_as_either() -> None:
    mine, written = record(), record(known_since_s=NOW_S - 9000, boot_since_s=NOW_S - 8000)
    assert merged(mine, written, now_s=LATER_S).known_since_s == NOW_S - 9000
    assert merged(mine, written, now_s=LATER_S).boot_since_s == NOW_S - 8000


def test_a_machine_that_was_booted_while_nobody_looked_keeps_its_history_and_not_its_boot() -> None:
    written = record(known_since_s=NOW_S - 9000, boot_since_s=NOW_S - 8000)
    both = merged(seen(None, view(boot_id="b2"), now_s=LATER_S), written, now_s=LATER_S)
    assert (both.known_since_s, both.boot_since_s) == (NOW_S - 9000, LATER_S)


def test_a_machine_that_was_replaced_while_nobody_looked_is_known_since_now() -> None:
    written = record(known_since_s=NOW_S - 9000)
    both = merged(seen(None, view(machine_id="m2"), now_s=LATER_S), written, now_s=LATER_S)
    assert (both.known_since_s, both.earlier_until_s) == (LATER_S + 60, LATER_S)


def test_an_object_that_was_made_again_while_nobody_looked_had_one_before() -> None:
    mine = seen(None, view(uid="node-2", created_at_s=LATER_S - 5), is_birth=True, now_s=LATER_S)
    both = merged(mine, record(gone_since_s=NOW_S + 7), now_s=LATER_S)
    assert (both.known_since_s, both.earlier_until_s) == (mine.known_since_s, NOW_S + 7)


def test_texts_that_say_nothing_or_the_same_of_two_nodes_identify_no_machine() -> None:
    """Two kubelets on one host share them, clones of an image too, and some boards have zeros."""

    def identifies(mine: Machine, *others: Machine) -> bool:
        first = record(machine=mine)
        rest = {f"n{n}": record(name=f"n{n}", machine=m) for n, m in enumerate(others, start=2)}
        return Fleet(records={"n1": first, **rest}).identifies(first)

    told = Machine(machine_id="m1", system_uuid="s1", boot_id="b1")
    assert identifies(told, Machine(machine_id="m2", system_uuid="s2", boot_id="b1"))
    assert not identifies(replace(told, machine_id=""))
    assert not identifies(replace(told, system_uuid=""))
    assert not identifies(replace(told, boot_id=""))
    assert not identifies(replace(told, system_uuid="00000000-0000-0000-0000-000000000000"))
    assert not identifies(told, Machine(machine_id="m1", system_uuid="s2", boot_id="b2"))
    assert not identifies(told, Machine(machine_id="m2", system_uuid="s1", boot_id="b2"))


def test_a_machine_that_joined_again_under_another_name_is_still_one() -> None:
    """It was installed anew, or renamed: its earlier Node went before the later one was made."""
    earlier = record(name="n2", uid="node-2", created_at_s=NOW_S - 900, gone_since_s=NOW_S - 200)
    again = record(created_at_s=NOW_S - 100)

    def identifies(*others: NodeRecord) -> bool:
        return Fleet(records={"n1": again, **{r.name: r for r in others}}).identifies(again)

    assert identifies(earlier)
    assert identifies(replace(earlier, machine=replace(earlier.machine, machine_id="m0")))
    assert identifies(earlier, replace(earlier, name="n3", created_at_s=NOW_S - 199, gone_since_s=NOW_S - 101))
    assert not identifies(replace(earlier, gone_since_s=NOW_S - 100)), "for a moment both were there"
    assert not identifies(replace(earlier, gone_since_s=None))
    assert not identifies(earlier, replace(earlier, name="n3", created_at_s=NOW_S - 300, gone_since_s=NOW_S - 101)), "two that are gone"
    assert not identifies(replace(earlier, created_at_s=NOW_S - 50, gone_since_s=NOW_S)), "a later one that is gone"


def test_one_text_in_two_spellings_is_one() -> None:
    """The system UUID is told with hyphens and, on some boards, in capitals."""
    assert machine_of(view(system_uuid="AB-cd")) == machine_of(view(system_uuid="abcd"))


def test_nodes_that_are_gone_are_dropped_oldest_first_and_it_is_remembered_until_when() -> None:
    records = {f"n{n}": record(name=f"n{n}", gone_since_s=NOW_S + n if n < 3 else None) for n in range(5)}
    kept, until_s = bounded(records, limit=3)
    assert (sorted(kept), until_s) == (["n2", "n3", "n4"], NOW_S + 1)
    assert bounded(records, limit=5) == (records, 0.0)
    assert sorted(bounded(records, limit=1)[0]) == ["n3", "n4"]
