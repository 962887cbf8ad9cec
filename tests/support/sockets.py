"""Count the connections that a gateway to Kafka, or one of its pools, has open."""

from __future__ import annotations

from staticgroup.kafka.gateway import KioGateway
from staticgroup.kafka.pool import ClusterPool


def socket_count(of: KioGateway | ClusterPool) -> int:
    pools = [reader.pool for reader in of._readers.values()] if isinstance(of, KioGateway) else [of]
    slots = [slot for pool in pools for slot in pool._slots.values()]
    return sum(1 for slot in slots for c in (slot.current, slot.retiring) if c and c.is_open)
