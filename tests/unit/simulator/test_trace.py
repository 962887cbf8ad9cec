"""A trace is read by people and compared byte by byte."""

from __future__ import annotations

from simulator.engine.trace import Entry, Trace


def test_lines_are_aligned_and_leave_out_what_is_none() -> None:
    trace = Trace()
    trace.add(12.3451, "kubelet/n1", "container terminated", pod="web-2", exit=0, note=None)
    trace.add(601.5, "user", "scales", workload="web", wait_s=0.250)
    assert trace.text().splitlines() == [
        "   12.345  kubelet/n1       container terminated           pod=web-2  exit=0",
        "  601.500  user             scales                         workload=web  wait_s=0.25",
    ]


def test_unordered_facts_are_sorted() -> None:
    trace = Trace()
    trace.add(0, "operator-a", "leave", ids={"b", "a", "c"})
    assert trace.entries[0].line().endswith("ids=a,b,c")


def test_listeners_and_selection_see_each_entry_once() -> None:
    trace = Trace()
    heard: list[Entry] = []
    trace.listeners.append(heard.append)
    trace.add(1, "user", "scales")
    trace.add(2, "kubelet/n1", "frozen")
    assert heard == trace.entries
    assert [e.at_s for e in trace.select(who="kubelet")] == [2]
    assert list(trace.select(who="user", what="rolls")) == []


def test_digest_depends_on_every_fact() -> None:
    one, other = Trace(), Trace()
    one.add(1, "user", "scales", replicas=2)
    other.add(1, "user", "scales", replicas=3)
    assert one.digest() != other.digest()
