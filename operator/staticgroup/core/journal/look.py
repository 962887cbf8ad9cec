"""What the journal is given of a round, what it remembers between rounds, and the one way to tell a fact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from ...api import journal as api
from ...api.protocols import GroupProtocol
from ...api.resources.staticgroup import StaticGroupSpec
from ..group import GroupType
from ..outcomes import Executed
from ..plan import Plan
from ..snapshot import Snapshot
from ..workload import WorkloadView
from .runs import RunChange


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One round as the journal sees it.

    Parameters
    ----------
    kafka_cluster_id: "" when the brokers do not tell.
    began_ms, ended_ms: the operator's clock before the group was described and after the outcomes, Unix milliseconds.
    timeout_before_ms: session timeout in the status before this round; None when there was none.
    runs: what pods of the workload did since the last round.
    """

    operator_id: str
    kafka_cluster_id: str
    spec: StaticGroupSpec
    snapshot: Snapshot
    plan: Plan
    executed: Executed
    began_ms: int
    ended_ms: int
    timeout_before_ms: int | None = None
    runs: Sequence[RunChange] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """A group epoch that was seen and not told yet: reached between `lo_ms` and `hi_ms`, the operator's clock."""

    number: int
    lo_ms: int
    hi_ms: int
    state_before: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedGroup:
    """What the last complete reading of the group showed.

    Parameters
    ----------
    seen_ms: began_ms of that look.
    settled_ms: began_ms of the last look that saw it settled; None: none did.
    shares: partitions, or connectors and tasks, by member, static ones by instance id; None values are unknown. Of the last settled
        look.
    digest: of these members with their member ids and shares; "" when no look saw it settled.
    was_unsettled: a rebalance was in flight at a look since.
    untold: epochs whose rebalance has not settled.
    last_epoch: its epoch when it was last there.
    anew_ms: began_ms of the look that saw it made anew, after one of its name with more epochs; None: none did.
    """

    group_type: GroupType
    state: str
    epoch: int | None
    seen_ms: int
    settled_ms: int | None = None
    shares: Mapping[str, int | None] = field(default_factory=dict)
    digest: str = ""
    was_unsettled: bool = False
    untold: tuple[Epoch, ...] = ()
    last_epoch: int | None = None
    anew_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """A rollout in progress.

    Parameters
    ----------
    metadata_generation: of the StatefulSet when it was first seen.
    rebalances: how many this process had seen by then.
    """

    revision: str
    metadata_generation: int
    rebalances: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What the journal remembers of one StaticGroup between rounds; lost at a restart.

    Parameters
    ----------
    uid: of the StaticGroup.
    group_key: `<kafka cluster id>/<group id>`.
    seen_ms: began_ms of the last look.
    holders: per id of ours its member.id, and how many rebalances had been seen when it was last described.
    told: ids of the states that were told and last.
    """

    uid: str
    group_key: str
    seen_ms: int
    protocol: str = GroupProtocol.UNKNOWN.value
    group: RememberedGroup | None = None
    holders: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    rebalances: int = 0
    workload: WorkloadView | None = None
    rollout: Rollout | None = None
    told: frozenset[str] = frozenset()

    def seen_again(self, began_ms: int) -> Remembered:
        """Return it after a look that saw the same once more, begun at `began_ms`: what changes next changes after that."""
        group = self.group
        if group is not None:
            settled_ms = began_ms if group.settled_ms == group.seen_ms else group.settled_ms
            group = replace(group, seen_ms=began_ms, settled_ms=settled_ms)
        return replace(self, seen_ms=began_ms, group=group)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One fact with its id; `data.seq` is 0 until it is written."""

    id: str
    data: api.GroupData


class Collector:
    """Collect the facts of one look.

    Attributes
    ----------
    remembered: what is remembered; begins as what was.
    is_first: this process has not looked before.
    group_seen_ms: began_ms of the last look that read the group; None: none did.
    group_key: as in `remembered`.
    """

    def __init__(self, look: Look, remembered: Remembered, *, is_first: bool) -> None:
        self.look = look
        self.remembered = remembered
        self.is_first = is_first
        self.group_seen_ms = remembered.group.seen_ms if remembered.group is not None else None
        self.group_key = remembered.group_key
        self.facts: list[Fact] = []

    def tell(self, fact_id: str, data_type: type[api.GroupData], **fields: Any) -> None:
        """Add one fact; `fields` are those of its type, and win over what all facts of a look have in common."""
        look = self.look
        common: dict[str, Any] = {
            "operator_id": look.operator_id,
            "seq": 0,
            "observed_at_ms": look.ended_ms,
            "kafka_cluster_id": look.kafka_cluster_id,
            "group_id": look.spec.group_id,
            "namespace": look.snapshot.namespace,
            "static_group": look.snapshot.name,
            "workload": look.spec.workload_ref.name,
            "protocol": self.remembered.protocol,
        }
        self.facts.append(Fact(id=short(fact_id, api.ID_MAX), data=data_type(**(common | fields))))


def short(text: str, most: int = api.TEXT_MAX) -> str:
    """Keep a text within its bound, and two long ones apart."""
    if len(text) <= most:
        return text
    mark = f"#{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
    return text[: most - len(mark)] + mark
