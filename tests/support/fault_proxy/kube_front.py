"""The whole way to an API server: a relay for faults of bytes, and behind it a proxy for faults of HTTP.

The one idea: clients see one address and one certificate, and the fault's kind decides which of the two misbehaves.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from support.devcluster import kafka_tls
from support.fault_proxy.kube_proxy import KubeFault, KubeProxy
from support.fault_proxy.relay import ByteFault, ByteRelay
from support.fault_proxy.tripwire import Tripwire

HOST = "127.0.0.1"
FrontFault = KubeFault | ByteFault
FRONT_FAULTS: tuple[FrontFault, ...] = (*KubeFault, *ByteFault)


class KubeFront:
    """Stand before one API server.

    Parameters
    ----------
    upstream: its URL.
    folder: for the certificate of the proxy, and for that of the authority that signed it.
    trust: verifies the API server's own certificate.
    """

    def __init__(self, upstream: str, folder: Path, *, trust: ssl.SSLContext, tripwire: Tripwire) -> None:
        if not (folder / "ca.pem").exists():
            kafka_tls.make_authority(folder, "fault proxies")
            kafka_tls.make_broker_store(folder, HOST)
        self.ca_file = folder / "ca.pem"
        identity = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        identity.load_cert_chain(folder / "broker.pem", folder / "broker.key")
        self._proxy = KubeProxy(upstream, trust=trust, identity=identity, tripwire=tripwire)
        self._relay: ByteRelay | None = None

    @property
    def url(self) -> str:
        """Where clients find it."""
        assert self._relay is not None
        return f"https://{self._relay.address}"

    async def open(self) -> None:
        """Listen."""
        await self._proxy.open()
        self._relay = ByteRelay(HOST, (HOST, self._proxy.port))
        await self._relay.open()

    async def close(self) -> None:
        """Listen no more."""
        assert self._relay is not None
        await self._relay.close()
        await self._proxy.close()

    def begin(self, fault: FrontFault) -> None:
        """Switch a fault on."""
        assert self._relay is not None
        if isinstance(fault, ByteFault):
            self._relay.begin(fault)
        else:
            self._proxy.begin(fault)

    async def end(self) -> None:
        """Switch every fault off."""
        assert self._relay is not None
        await self._relay.end()
        await self._proxy.end()
