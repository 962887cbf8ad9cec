"""One harness for Kafka's wire protocol, for the model's listener and real brokers alike."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conformance.wire.catalogue import Row

_MODULES = (
    "rows_classic", "rows_leave", "rows_consumer", "rows_ours", "rows_migration", "rows_streams", "rows_failover",
)


def all_rows() -> Mapping[str, Row]:
    """Return every row by its name."""
    for name in _MODULES:
        importlib.import_module(f"{__name__}.{name}")
    from conformance.wire.catalogue import ROWS

    return ROWS
