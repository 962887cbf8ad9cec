"""Which client created a member id, and when: the truth that no coordinator tells."""

from __future__ import annotations

from coordinator_model.base.messages import EpochHeartbeatRequest, Request

from ..engine.loop import SimulationLoop
from .network import Exchange, KafkaLink


class Births:
    """The member ids of one cluster."""

    def __init__(self, loop: SimulationLoop) -> None:
        self._loop = loop
        self._requester: Exchange | None = None
        self._uuids = 0
        self._creators: dict[str, KafkaLink] = {}
        self._born_s: dict[str, float] = {}

    def creator_of(self, member_id: str) -> KafkaLink:
        """Return the client whose request created a member id; raises KeyError where nobody did."""
        return self._creators.get(member_id) or self._creators[member_id.rpartition("-")[2]]

    def born_s(self, member_id: str) -> float:
        """Return when a member id was created, virtual seconds; raises KeyError as `creator_of` does."""
        return self._born_s.get(member_id) or self._born_s[member_id.rpartition("-")[2]]

    def note_request(self, exchange: Exchange | None, request: Request) -> None:
        """Note who asks; the client of a newer protocol draws its member id itself (KIP-848)."""
        self._requester = exchange
        if isinstance(request, EpochHeartbeatRequest) and request.member_epoch == 0 and exchange is not None:
            self._creators.setdefault(request.member_id, exchange.link)
            self._born_s.setdefault(request.member_id, self._loop.time())

    def new_uuid(self) -> str:
        """Return the next number for a coordinator to make a member id of, and note the client that it serves."""
        self._uuids += 1
        uuid = f"{self._uuids:08x}"
        if self._requester is not None:
            self._creators[uuid] = self._requester.link
            self._born_s[uuid] = self._loop.time()
        return uuid
