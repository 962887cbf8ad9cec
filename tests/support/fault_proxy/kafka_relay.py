"""A proxy before one broker's PLAINTEXT listener that knows frames, and no more of Kafka's protocol.

The one idea: a frame is four bytes of length and the rest; a request tells its API key in the first two bytes of the
rest. Where an answer names the broker by host and port, the port becomes the proxy's, so that clients come back to it:
both numbers have four bytes, in every version of every answer (Metadata, FindCoordinator), so no length changes.
Source: Kafka protocol guide (request and response headers).
"""

from __future__ import annotations

import asyncio
import random
import struct
from enum import StrEnum

from support.fault_proxy.relay import PIECE_BYTES, Link, Relay
from support.fault_proxy.tripwire import Passing, Peer, Tripwire

LATENCY_S = 1.5
LORIS_PAUSE_S = 0.5
GIANT_BYTES = 2**31 - 1
FRAME_MAX_BYTES = 64 * 1024 * 1024


class KafkaFault(StrEnum):
    """What a broker, or the way to it, can do wrong."""

    CUT = "cut"
    ONE_WAY_CUT = "one-way cut"
    LATENCY = "latency"
    RESET_AFTER_REQUEST = "reset after request"
    SLOW_LORIS = "slow-loris"
    GARBAGE = "garbage"
    GIANT_FRAME = "giant frame"


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """Read one frame without its length; raises IncompleteReadError at the end of the connection."""
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    if not 0 <= size <= FRAME_MAX_BYTES:
        raise ConnectionResetError(f"a frame of {size} bytes")
    return await reader.readexactly(size)


class KafkaRelay(Relay):
    """Pass frames, and spoil answers.

    Parameters
    ----------
    bind: the address under which the broker advertises itself.
    upstream: the broker's own address, of the same host.
    seed: of the garbage.
    """

    def __init__(self, bind: str, upstream: tuple[str, int], tripwire: Tripwire, *, seed: int = 0) -> None:
        super().__init__(bind, upstream)
        self.fault: KafkaFault | None = None
        self._tripwire = tripwire
        self._rng = random.Random(seed)

    def begin(self, fault: KafkaFault) -> None:
        """Switch a fault on."""
        self.fault = fault
        if fault is KafkaFault.CUT:
            self.refuse()

    async def end(self) -> None:
        """Switch the fault off."""
        self.fault = None
        await self.open()

    async def pump_up(self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry requests."""
        while True:
            frame = await read_frame(reader)
            call = str(struct.unpack_from(">h", frame)[0])
            self._tripwire.see(Passing(peer=Peer.BROKER, call=call))
            if link.ended.is_set():
                return
            writer.write(struct.pack(">i", len(frame)) + frame)
            await writer.drain()

    async def pump_down(self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry answers, as the fault has it."""
        while True:
            frame = self._renamed(await read_frame(reader))
            answer = struct.pack(">i", len(frame)) + frame
            match self.fault:
                case _ if link.is_silent:
                    continue
                case KafkaFault.ONE_WAY_CUT:
                    link.is_silent = True
                case KafkaFault.RESET_AFTER_REQUEST:
                    return link.reset()
                case KafkaFault.SLOW_LORIS:
                    await self._trickle(writer, answer)
                case KafkaFault.GIANT_FRAME:
                    await self._flood(writer, frame)
                    return link.reset()
                case KafkaFault.GARBAGE:
                    await self._write(writer, answer[:4] + self._rng.randbytes(len(frame)))
                case KafkaFault.LATENCY:
                    await asyncio.sleep(LATENCY_S)
                    await self._write(writer, answer)
                case _:
                    await self._write(writer, answer)

    async def _write(self, writer: asyncio.StreamWriter, content: bytes) -> None:
        writer.write(content)
        await writer.drain()

    async def _trickle(self, writer: asyncio.StreamWriter, answer: bytes) -> None:
        """Write byte after byte while the fault lasts, then the rest."""
        while answer and self.fault is KafkaFault.SLOW_LORIS:
            await self._write(writer, answer[:1])
            answer = answer[1:]
            await asyncio.sleep(LORIS_PAUSE_S)
        await self._write(writer, answer)

    async def _flood(self, writer: asyncio.StreamWriter, frame: bytes) -> None:
        """Announce 2 GB and deliver them for as long as the fault lasts."""
        await self._write(writer, struct.pack(">i", GIANT_BYTES) + frame)
        while self.fault is KafkaFault.GIANT_FRAME:
            await self._write(writer, bytes(PIECE_BYTES))
            await asyncio.sleep(0.01)

    def _renamed(self, frame: bytes) -> bytes:
        host, port = self._upstream
        name = host.encode()
        return frame.replace(name + struct.pack(">i", port), name + struct.pack(">i", self.port))
