"""Reads are shared, and each begins after those asked who wait for it."""

import asyncio

from staticgroup.runtime.webhook.shared_reads import SharedReads


class Slow:
    """A read that ends when its gate opens, and shows how many had begun."""

    def __init__(self) -> None:
        self.begun = 0
        self.gates: list[asyncio.Event] = []

    async def __call__(self, _: str) -> int:
        self.begun += 1
        number = self.begun
        gate = asyncio.Event()
        self.gates.append(gate)
        await gate.wait()
        return number


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_who_asks_while_a_read_runs_waits_for_the_next_one_together() -> None:
    slow = Slow()
    reads = SharedReads(slow)
    early = asyncio.ensure_future(reads("ns"))
    await settle()
    late = [asyncio.ensure_future(reads("ns")) for _ in range(100)]
    await settle()
    assert slow.begun == 1
    slow.gates[0].set()
    await settle()
    later = asyncio.ensure_future(reads("ns"))
    await settle()
    assert slow.begun == 2
    slow.gates[1].set()
    await settle()
    slow.gates[2].set()
    assert await early == 1
    assert {await each for each in late} == {2}
    assert await later == 3


async def test_a_waiter_that_gives_up_takes_the_read_from_nobody() -> None:
    slow = Slow()
    reads = SharedReads(slow)
    first, second = asyncio.ensure_future(reads("ns")), asyncio.ensure_future(reads("other"))
    await settle()
    first.cancel()
    await settle()
    again = asyncio.ensure_future(reads("ns"))
    await settle()
    for gate in slow.gates:
        gate.set()
    await settle()
    for gate in slow.gates:
        gate.set()
    assert await second == 2
    assert await again == 3
