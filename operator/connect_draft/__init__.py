"""The Connect draft, executable: Kafka Connect on the rebalance protocol of KIP-848, with client-side assignors.

A proposal that was never voted on; no Kafka has any of it. Where it contradicts itself or leaves a gap, the rule's
docstring says what was decided, with the number of the item in the list of the proposals' mechanisms.
"""

from __future__ import annotations

from .broker.coordinator import ConnectDraftCoordinator
from .broker.settings import DraftSettings
from .errors import DraftErrorCode
from .messages import DraftResult

__all__ = ["ConnectDraftCoordinator", "DraftErrorCode", "DraftResult", "DraftSettings"]
