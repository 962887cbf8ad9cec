"""What the operator makes of the bytes of Connect's workers: the agent's own vectors, and anything that a worker may write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_model.connect.protocol import (
    Assignment,
    AssignmentError,
    ConnectProtocolCompatibility,
    encode_metadata,
)
from coordinator_model.connect.protocol import WorkerState as State
from coordinator_model.connect.static import Whole, decode_stored, encode_stored
from coordinator_model.connect.work import NOTHING, ConnectorsAndTasks, ConnectorTaskId
from staticgroup.core.group import WorkerView
from staticgroup.kafka.connect_protocol import WHOLE_MARK, worker_of

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "coordinator_model/connect_vectors/static.json").read_text(encoding="utf-8")
)
NOBODY = encode_metadata(State("http://w-1:8083/", 8), ConnectProtocolCompatibility.SESSIONED)


def work(*tasks: tuple[str, int]) -> ConnectorsAndTasks:
    return ConnectorsAndTasks.of(
        (name for name, task in tasks if task < 0), (ConnectorTaskId(name, task) for name, task in tasks if task >= 0)
    )


def assigning(assigned: ConnectorsAndTasks, revoked: ConnectorsAndTasks = NOTHING, *, delay_ms: int = 0) -> Assignment:
    return Assignment(2, AssignmentError.NO_ERROR, "w-0-1", "http://w-0:8083/", 7, assigned, revoked, delay_ms)


def reporting(held: ConnectorsAndTasks) -> bytes:
    return encode_metadata(State("http://w-1:8083/", 8, assigning(held)), ConnectProtocolCompatibility.SESSIONED)


def counts(spelled: dict[str, list[int]]) -> tuple[int, int]:
    numbers = [number for each in spelled.values() for number in each]
    return numbers.count(-1), len(numbers) - numbers.count(-1)


@pytest.mark.parametrize("vector", VECTORS["assignments"], ids=lambda v: f"v{v['version']}-{v['hex'][-8:]}")
def test_an_assignment_is_read_as_the_agent_reads_it(vector: dict[str, Any]) -> None:
    """Nothing was reported, so what is assigned and not revoked is all there is."""
    found = worker_of(NOBODY, bytes.fromhex(vector["hex"]))
    assert (found.connectors, found.tasks) == counts(vector["assigned"])
    assert (found.delay_ms, found.is_whole) == (vector["delayMs"], vector["whole"] is not None)


@pytest.mark.parametrize("vector", VECTORS["workerStates"], ids=lambda v: f"v{v['version']}-{v['hex'][-8:]}")
def test_a_workers_state_is_read_as_the_agent_reads_it(vector: dict[str, Any]) -> None:
    found = worker_of(bytes.fromhex(vector["hex"]), encode_stored(assigning(NOTHING), None))
    held = next((v["assigned"] for v in VECTORS["assignments"] if v["hex"] == vector["allocation"]), None)
    assert found.host == "w-1"
    assert (found.connectors, found.tasks) == (counts(held) if held else (1, 2) if vector["allocation"] else (0, 0))


def test_vectors_hold_every_version_with_and_without_the_mark() -> None:
    seen = {(v["version"], v["whole"] is not None) for v in VECTORS["assignments"]}
    assert seen == {(0, False), (1, False), (1, True), (2, False), (2, True)}


def test_a_worker_holds_what_it_reported_and_was_given_but_what_it_was_to_give_up() -> None:
    held, more, less = work(("a", -1), ("a", 0), ("a", 1)), work(("b", -1), ("b", 0)), work(("a", 1))
    found = worker_of(reporting(held), encode_stored(assigning(more, less, delay_ms=60_000), None))
    assert found == WorkerView(host="w-1", connectors=2, tasks=2, delay_ms=60_000)


def test_a_whole_allocation_is_all_that_its_worker_holds() -> None:
    """What it reported may be what another process held, and what is revoked and kept it may still run."""
    stored = assigning(work(("a", -1), ("a", 1)), work(("a", 1)))
    found = worker_of(reporting(work(("b", 0), ("b", 1))), encode_stored(stored, Whole("w-0", "http://w-1:8083/")))
    assert found == WorkerView(host="w-1", connectors=1, tasks=1, is_whole=True)


def test_bytes_that_only_begin_like_the_mark_make_no_whole_allocation() -> None:
    bare = encode_stored(assigning(work(("b", 0))), None)
    for tail in (b"x", WHOLE_MARK, WHOLE_MARK + b"\x00", encode_stored(assigning(NOTHING), Whole("w-0", "u"))[-40:] + b"x"):
        found = worker_of(reporting(work(("a", 0))), bare + tail)
        assert (found.tasks, found.is_whole) == (2, False)


@pytest.mark.parametrize(
    ("metadata", "assignment"),
    [
        (b"", b""),
        (NOBODY, b""),
        (NOBODY, b"\x00"),
        (NOBODY, b"\x00\x03" + encode_stored(assigning(NOTHING), None)[2:]),
        (NOBODY, b"\xff\xff" + encode_stored(assigning(NOTHING), None)[2:]),
        (b"", encode_stored(assigning(NOTHING), None)),
        (NOBODY[:20], encode_stored(assigning(NOTHING), None)),
        (b"\x00\x02\x00\x01\xff" + bytes(12), encode_stored(assigning(NOTHING), None)),
    ],
)
def test_of_a_rebalance_and_of_odd_bytes_no_allocation_is_known(metadata: bytes, assignment: bytes) -> None:
    found = worker_of(metadata, assignment)
    assert (found.connectors, found.tasks) == (None, None)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://web-0.web.shop.svc:8083/", "web-0.web.shop.svc"),
        ("http://10.0.0.7:8083/", "10.0.0.7"),
        ("http://[fd00::7]:8083/", "fd00::7"),
        ("https://user:word@web-0:8443", "web-0"),
        ("", ""),
        ("web-0:8083", ""),
        ("http://a\x07b:1/", ""),
    ],
)
def test_of_the_url_only_its_host_is_kept(url: str, host: str) -> None:
    metadata = encode_metadata(State(url, 8), ConnectProtocolCompatibility.SESSIONED)
    assert worker_of(metadata, encode_stored(assigning(NOTHING), None)).host == host


def test_a_url_that_is_none_costs_the_host_and_a_claim_of_billions_nothing() -> None:
    metadata = encode_metadata(State("http://[::1", 8), ConnectProtocolCompatibility.SESSIONED)
    assert worker_of(metadata, encode_stored(assigning(NOTHING), Whole("w-0", ""))) == WorkerView(connectors=0, tasks=0, is_whole=True)
    claim = encode_stored(assigning(NOTHING), None)[:-8] + b"\x7f\xff\xff\xff"
    assert worker_of(NOBODY, claim).tasks is None


names = st.text(alphabet="ab", min_size=1, max_size=3)
works = st.lists(st.tuples(names, st.integers(-1, 5)), max_size=6).map(lambda tasks: work(*tasks))


@given(assigned=works, revoked=works, reported=works, given=st.dictionaries(names, works, max_size=3), is_whole=st.booleans())
def test_what_the_twin_writes_is_read_back(
    assigned: ConnectorsAndTasks, revoked: ConnectorsAndTasks, reported: ConnectorsAndTasks,
    given: dict[str, ConnectorsAndTasks], is_whole: bool,
) -> None:
    found = worker_of(reporting(reported), encode_stored(assigning(assigned, revoked), Whole("w", "u", given) if is_whole else None))
    held = assigned if is_whole else reported.plus(assigned).minus(revoked)
    assert (found.connectors, found.tasks, found.is_whole) == (len(held.connectors), len(held.tasks), is_whole)


@given(metadata=st.binary(max_size=80), assignment=st.binary(max_size=120))
def test_any_bytes_are_read_or_not_known(metadata: bytes, assignment: bytes) -> None:
    found = worker_of(metadata, assignment)
    assert (found.connectors is None) == (found.tasks is None)


@given(position=st.integers(0, 200), value=st.integers(0, 255))
def test_one_changed_byte_is_read_as_the_agents_twin_reads_it(position: int, value: int) -> None:
    stored = bytearray(encode_stored(assigning(work(("a", -1), ("a", 0)), work(("b", 1))), Whole("w-0", "u", {"w-1": work(("c", 0))})))
    stored[position % len(stored)] = value
    try:
        twin, whole = decode_stored(bytes(stored))
    except ValueError:  # the twin knows Kafka's errors of an assignment; here only what is held matters
        return
    found = worker_of(NOBODY, bytes(stored))
    if twin.version > 2:
        assert found.tasks is None
        return
    held = twin.assigned if whole is not None or twin.version == 0 else twin.assigned.minus(twin.revoked)
    assert (found.connectors, found.tasks, found.is_whole) == (len(held.connectors), len(held.tasks), whole is not None)
