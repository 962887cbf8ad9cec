"""Pass TCP connections on, and break them: what both proxies have in common.

The one idea: a connection is a link of two pumps, one for each direction; a subclass says what a pump does with what it
reads. What can be done to links as such is here: reset them, let them go silent for ever, refuse new ones.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

PIECE_BYTES = 64 * 1024
SLOW_PIECE_BYTES = 16
SLOW_PAUSE_S = 0.05
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER with no patience: the peer gets RST and no FIN (socket(7))."""


class ByteFault(StrEnum):
    """What can be done to bytes whose meaning is not known."""

    SLOW_BYTES = "slow bytes"
    HALF_OPEN = "half-open TCP"
    BLACKOUT = "blackout"


@dataclass(eq=False, slots=True)
class Link:
    """One accepted connection and the one that was dialled for it.

    Parameters
    ----------
    is_silent: nothing passes any more, without an error; it stays so when the fault is over, as after a lost route.
    """

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter | None = None
    is_silent: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def reset(self) -> None:
        """End both connections by RST."""
        self.ended.set()
        for writer in (self.client, self.server):
            if writer is None:
                continue
            with suppress(OSError, AttributeError):
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            writer.transport.abort()


class Relay(ABC):
    """Listen on an address, dial another one for each connection.

    Parameters
    ----------
    bind: IP address to listen on; the port is free to choose and stays the same.
    upstream: host and port of the real server.
    """

    def __init__(self, bind: str, upstream: tuple[str, int]) -> None:
        self.bind, self.port = bind, 0
        self._upstream = upstream
        self._links: set[Link] = set()
        self._server: asyncio.Server | None = None
        self.is_half_open = False

    @property
    def address(self) -> str:
        """Where it listens, `host:port`."""
        return f"{self.bind}:{self.port}"

    async def open(self) -> None:
        """Listen."""
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, self.bind, self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Listen no more and reset all connections."""
        self.refuse()
        await asyncio.sleep(0)

    def refuse(self) -> None:
        """Reset every connection, and refuse new ones until `open` is called."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.reset()

    def reset(self) -> None:
        """Reset every connection."""
        for link in list(self._links):
            link.reset()

    def silence(self) -> None:
        """Let every connection that is there be silent for ever."""
        for link in self._links:
            link.is_silent = True

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(writer, is_silent=self.is_half_open)
        self._links.add(link)
        try:
            if link.is_silent:
                await link.ended.wait()
                return
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._join(link, reader)
        finally:
            self._links.discard(link)
            link.client.close()
            if link.server is not None:
                link.server.close()

    async def _join(self, link: Link, reader: asyncio.StreamReader) -> None:
        upstream, link.server = await asyncio.open_connection(*self._upstream)
        pumps = [
            asyncio.ensure_future(self.pump_up(link, reader, link.server)),
            asyncio.ensure_future(self.pump_down(link, upstream, link.client)),
            asyncio.ensure_future(link.ended.wait()),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    @abstractmethod
    async def pump_up(self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry what the client says; returns at the end of the connection."""

    @abstractmethod
    async def pump_down(self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry what the server says; returns at the end of the connection."""


class ByteRelay(Relay):
    """Pass bytes; knows nothing of what they mean."""

    fault: ByteFault | None = None

    def begin(self, fault: ByteFault) -> None:
        """Switch a fault on."""
        self.fault = fault
        self.is_half_open = fault is ByteFault.HALF_OPEN
        if fault is ByteFault.HALF_OPEN:
            self.silence()
        elif fault is ByteFault.BLACKOUT:
            self.refuse()

    async def end(self) -> None:
        """Switch the fault off; connections that went silent stay so."""
        self.fault, self.is_half_open = None, False
        await self.open()

    async def pump_up(self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry bytes as fast as the fault allows."""
        while piece := await reader.read(PIECE_BYTES):
            while piece and not link.is_silent:
                is_slow = self.fault is ByteFault.SLOW_BYTES
                count = SLOW_PIECE_BYTES if is_slow else PIECE_BYTES
                writer.write(piece[:count])
                await writer.drain()
                piece = piece[count:]
                if is_slow:
                    await asyncio.sleep(SLOW_PAUSE_S)
        if link.is_silent:
            await link.ended.wait()

    pump_down = pump_up
