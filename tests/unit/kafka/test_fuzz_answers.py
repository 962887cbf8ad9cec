"""Any bytes that a broker may answer: a typed value or a typed refusal, soon and in little memory, and no empty group out of noise.

The one idea of the last: a group is empty or absent only if the broker says so in words, `Empty`, `Dead` or the code for "no such
group"; so where these are not in the bytes, nothing may be read as if nobody were there.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_frames import BadFrame
from staticgroup.core.group import GroupType, GroupView, KafkaProblem
from staticgroup.kafka.addresses import HostPort
from staticgroup.kafka.calls.reading import BrokerNode
from staticgroup.kafka.connection import BrokerConnection, open_connection
from staticgroup.kafka.describe import GroupReader
from staticgroup.kafka.errors import Refusal
from staticgroup.kafka.login.credentials import ConnectionSettings
from staticgroup.kafka.pool import ClusterPool
from staticgroup.kafka.wire import PINNED, Api, Call
from support.long_drills import by_length
from support.memory_bound import memory_bound
from support.mutations import mutated_bytes
from support.narrowing import of_type
from unit.kafka.fake_broker import Cluster, FakeBroker, Group, encode, respond
from unit.kafka.test_wire import CALLS, EVERY_VERSION, answer_of

FUZZED = settings(max_examples=by_length(short=1_500, long=40_000), deadline=None)
MEMORY_MIB = by_length(short=64.0, long=256.0)
"""Of which Hypothesis takes what it remembers of a hundred thousand examples; a claim that is believed takes gigabytes."""
SLOWEST_S = 2.0
"""Of one answer, in CPU time: none here has more than a few kilobytes."""
ANSWERS = {target: answer_of(*target) for target in EVERY_VERSION}
ONCE = ConnectionSettings(bootstrap_servers=("kafka:9092",), request_timeout_s=0.02)
"""Too short for a second try: pauses take no time here."""
NODE = BrokerNode(node_id=1, host="kafka", port=9092)
DESCRIBES = {Api.DESCRIBE_GROUPS: "classic", Api.CONSUMER_GROUP_DESCRIBE: "consumer", Api.STREAMS_GROUP_DESCRIBE: "streams"}
NOBODY_SAID = (b"Empty", b"Dead", (69).to_bytes(2, "big"))


@pytest.fixture(scope="module", autouse=True)
def _memory() -> Iterator[None]:
    with memory_bound(MEMORY_MIB):
        yield


@contextmanager
def soon() -> Iterator[None]:
    began_s = time.process_time()
    yield
    assert time.process_time() - began_s < SLOWEST_S


@FUZZED
@given(data=st.data())
def test_changed_answers_are_answers_or_unreadable(data: st.DataObject) -> None:
    api, version = data.draw(st.sampled_from(EVERY_VERSION))
    frame = data.draw(mutated_bytes(st.just(ANSWERS[api, version])))
    with soon():
        try:
            assert type(CALLS[api].decode(version, frame)) is type(CALLS[api].decode(version, ANSWERS[api, version]))
        except BadFrame:
            pass


class ScriptedConnection(BrokerConnection):
    """A connection whose broker answers each call with given bytes; everything after the socket is the real one."""

    def __init__(self, versions: dict[int, tuple[int, int]], frames: dict[Api, bytes]) -> None:
        super().__init__(target=HostPort(host="kafka", port=9092), raw=None, opened_at_s=0.0, used_at_s=0.0)  # type: ignore[arg-type]
        self._served, self._frames = versions, frames

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        """What the script serves."""
        return self._served

    async def _exchange(self, call: Call[Any], deadline_s: float) -> bytes:
        return self._frames[call.api]


class ScriptedPool(ClusterPool):
    """A pool of one such connection."""

    def __init__(self, connection: BrokerConnection) -> None:
        super().__init__(ONCE, resolver=_resolve, rng=random.Random(7), clock=lambda: 0.0)
        self._connection_ = connection

    async def coordinators(self, group_ids: Sequence[str], deadline_s: float) -> dict[str, BrokerNode | Refusal]:
        """Name the one broker."""
        return dict.fromkeys(group_ids, NODE)

    async def connection_to(self, node: BrokerNode, deadline_s: float) -> BrokerConnection:
        """Return the one connection."""
        return self._connection_


async def _resolve(host: str, port: int) -> Sequence[str]:
    return ("10.0.0.1",)


async def _no_pause(seconds: float) -> None:
    await asyncio.sleep(0)


def described(api: Api, version: int, listing: bytes, describe: bytes) -> GroupView | KafkaProblem:
    """Read the group through everything that is behind a socket."""
    versions = {int(Api.LIST_GROUPS): PINNED[Api.LIST_GROUPS], int(api): (version, version)}
    connection = ScriptedConnection(versions, {Api.LIST_GROUPS: listing, api: describe})
    reader = GroupReader(ScriptedPool(connection), pause=_no_pause, rng=random.Random(7))
    return asyncio.run(reader.describe("orders"))


def listing_of(group_type: str) -> bytes:
    """What ListGroups v5 says of a broker with the group."""
    return ANSWERS[Api.LIST_GROUPS, 5].replace(b"\x08classic", bytes([len(group_type) + 1]) + group_type.encode())


@pytest.mark.parametrize(("api", "version"), [t for t in EVERY_VERSION if t[0] in DESCRIBES])
def test_the_answers_that_are_changed_below_are_read_whole(api: Api, version: int) -> None:
    """Or the tests below would show nothing."""
    view = of_type(GroupView, described(api, version, listing_of(DESCRIBES[api]), ANSWERS[api, version]))
    assert view.group_type is GroupType(DESCRIBES[api].capitalize())
    assert [m.member_id for m in view.members] == ["m-0", "m-1"]


def is_read_as_nobody(outcome: GroupView | KafkaProblem) -> bool:
    return isinstance(outcome, GroupView) and not outcome.members


@settings(max_examples=by_length(short=700, long=30_000), deadline=None)
@given(data=st.data())
def test_no_changed_describe_becomes_an_empty_group_unless_it_says_so(data: st.DataObject) -> None:
    api, version = data.draw(st.sampled_from([t for t in EVERY_VERSION if t[0] in DESCRIBES]))
    describe = data.draw(mutated_bytes(st.just(ANSWERS[api, version])))
    with soon():
        outcome = described(api, version, listing_of(DESCRIBES[api]), describe)
    assert not is_read_as_nobody(outcome) or any(word in describe for word in NOBODY_SAID), (outcome, describe)


@settings(max_examples=by_length(short=700, long=20_000), deadline=None)
@given(data=st.data())
def test_no_changed_listing_becomes_an_absent_group_while_the_describe_shows_it(data: st.DataObject) -> None:
    api = data.draw(st.sampled_from(list(DESCRIBES)))
    listing = data.draw(mutated_bytes(st.just(listing_of(DESCRIBES[api]))))
    with soon():
        outcome = described(api, PINNED[api][1], listing, ANSWERS[api, PINNED[api][1]])
    assert not is_read_as_nobody(outcome)


@settings(max_examples=by_length(short=700, long=20_000), deadline=None)
@given(listing=st.binary(max_size=120), describe=st.binary(max_size=120), api=st.sampled_from(list(DESCRIBES)))
def test_noise_is_never_a_group(listing: bytes, describe: bytes, api: Api) -> None:
    with soon():
        outcome = described(api, PINNED[api][1], listing, describe)
    assert isinstance(outcome, KafkaProblem) or any(word in describe for word in NOBODY_SAID)


STATES = ("Stable", "Empty", "Dead", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady", "", "stable")
CODES = st.sampled_from([0, 0, 0, 0, 3, 14, 15, 16, 24, 25, 29, 30, 35, 69])


@settings(max_examples=by_length(short=1_000, long=20_000), deadline=None)
@given(data=st.data())
def test_no_answer_whose_parts_contradict_each_other_becomes_an_empty_group_unless_it_says_so(data: st.DataObject) -> None:
    """Well-formed bytes whose fields were drawn one by one, by which what noise hardly ever hits is hit every time."""
    api, version = data.draw(st.sampled_from([t for t in EVERY_VERSION if t[0] in DESCRIBES]))
    cluster = Cluster(groups={"orders": Group(type=DESCRIBES[api])})
    broker = FakeBroker(cluster)
    group = cluster.groups["orders"]
    group.state, code = data.draw(st.sampled_from(STATES) | st.text(max_size=8)), data.draw(CODES)
    group.members = data.draw(st.lists(st.sampled_from([("m-0", "orders-0"), ("m-1", None)]), max_size=2))
    describe = {
        Api.DESCRIBE_GROUPS: broker.describe_classic,
        Api.CONSUMER_GROUP_DESCRIBE: broker.describe_consumer,
        Api.STREAMS_GROUP_DESCRIBE: broker.describe_streams,
    }[api]
    frame = encode(respond(api, version, groups=(describe("orders", version, error_code=code),)))
    outcome = described(api, version, listing_of(DESCRIBES[api]), frame)
    # A classic group that everybody is leaving has no members for a moment before it is empty.
    says_so = group.state == "Empty" or (group.state == "PreparingRebalance" and api is Api.DESCRIBE_GROUPS)
    assert not is_read_as_nobody(outcome) or (says_so and code == 0), (outcome, group, code)


@settings(max_examples=by_length(short=60, long=1_000), deadline=None)
@given(said=st.binary(max_size=400), announces=st.sampled_from([None, 4, 64, 2**20, 2**31 - 1]))
def test_peer_that_answers_noise_at_first_is_refused_in_time(said: bytes, announces: int | None) -> None:
    """Before a broker has shown its versions, aiokafka's own reader is the one that sees the bytes."""
    head = b"" if announces is None else announces.to_bytes(4, "big")

    async def meet() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            request = await reader.read(1000)
            writer.write(head + request[8:12] + said)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Refusal):
            await open_connection(
                ONCE, HostPort(host="127.0.0.1", port=port), "127.0.0.1", context=None, tokens=None,
                deadline_s=asyncio.get_running_loop().time() + 2.0, now_s=0.0,
            )  # fmt: skip
        server.close()

    with soon():
        asyncio.run(meet())
