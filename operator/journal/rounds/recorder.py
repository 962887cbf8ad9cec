"""What a round is to the journal, what is remembered between rounds, and the one way to record a fact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import Any

from staticgroup.api.protocols import GroupProtocol
from staticgroup.api.resources.staticgroup import StaticGroupSpec
from staticgroup.core.absences.measure import Reading
from staticgroup.core.outcomes import Executed
from staticgroup.core.plan import Plan
from staticgroup.core.protocols import chosen_by, protocol_asked_for, protocol_of
from staticgroup.core.snapshot import Snapshot
from staticgroup.core.workload import WorkloadView

from .. import records as api
from ..runs import RunChange


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """A group epoch that was seen and not recorded yet: reached between `lo_ms` and `hi_ms`, the operator's clock."""

    number: int
    lo_ms: int
    hi_ms: int
    state_before: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Epochs:
    """What is remembered of the epochs of a KIP-848 or streams group.

    Parameters
    ----------
    waiting: those whose rebalance has not settled, so that it is not recorded yet.
    last: its epoch when it was last there.
    anew_ms: began_ms of the round that saw the group made anew, after one of its name with more epochs; None: none did.
    """

    waiting: tuple[Epoch, ...] = ()
    last: int | None = None
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
    seen_ms: began_ms of the last round.
    reading: of the group; None while it could not be read.
    recorded: ids of the states that were recorded and last.
    """

    uid: str
    group_key: str
    seen_ms: int
    protocol: str = GroupProtocol.UNKNOWN.value
    reading: Reading | None = None
    epochs: Epochs = field(default_factory=Epochs)
    workload: WorkloadView | None = None
    rollout: Rollout | None = None
    recorded: frozenset[str] = frozenset()

    def seen_again(self, began_ms: int) -> Remembered:
        """Return it after a round, begun at `began_ms`, that saw the same: what changes next does after that."""
        reading = self.reading.seen_again(began_ms) if self.reading is not None else None
        return replace(self, seen_ms=began_ms, reading=reading)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One fact with its id; `data.seq` is 0 until it is written."""

    id: str
    data: api.GroupData


@dataclass(slots=True, kw_only=True)
class Recorder:
    """Record the facts of one round.

    Parameters
    ----------
    kafka_cluster_id: "" when the brokers do not tell.
    began_ms, ended_ms: the operator's clock before the group was described and after the outcomes, Unix milliseconds.
    timeout_before_ms: session timeout in the status before this round; None when there was none.
    runs: what pods of the workload did since the last round.
    before: what was remembered after the last round; None at the first round of this process.

    Attributes
    ----------
    remembered: what is remembered now; begins as what was.
    last_ms: began_ms of the last round of this StaticGroup and this group; None: this is the first.
    group_seen_ms: began_ms of the last round that read the group; None: none did.
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
    before: InitVar[Remembered | None] = None
    remembered: Remembered = field(init=False)
    last_ms: int | None = field(init=False)
    group_seen_ms: int | None = field(init=False)
    facts: list[Fact] = field(default_factory=list, init=False)

    def __post_init__(self, before: Remembered | None) -> None:
        key = f"{self.kafka_cluster_id}/{self.spec.group_id}"
        if before is not None and (before.uid, before.group_key) != (self.snapshot.uid, key):
            before = None  # another StaticGroup of this name, or its connection leads to another cluster now
        known = before or Remembered(uid=self.snapshot.uid, group_key=key, seen_ms=self.began_ms)
        self.last_ms = before.seen_ms if before is not None else None
        self.group_seen_ms = known.reading.began_ms if known.reading is not None else None
        self.remembered = replace(known, seen_ms=self.began_ms, protocol=self._protocol(known.protocol))

    def _protocol(self, known: str) -> str:
        """Return the protocol in force; an absent group says nothing, so what was known stays."""
        seen, chosen = protocol_of(self.snapshot.group).reported_as, chosen_by(protocol_asked_for(self.spec))
        if seen is not None:
            return seen.value
        if known != GroupProtocol.UNKNOWN.value or chosen is None or chosen.reported_as is None:
            return known
        return chosen.reported_as.value

    @property
    def group_key(self) -> str:
        """Return `<kafka cluster id>/<group id>`."""
        return self.remembered.group_key

    @property
    def rebalances(self) -> int:
        """Return how many rebalances of the group this process has seen."""
        return self.remembered.reading.rebalances if self.remembered.reading is not None else 0

    def record(self, fact_id: str, data_type: type[api.GroupData], **fields: Any) -> None:
        """Add one fact; `fields` are those of its type, and win over what all facts of a round have in common."""
        common: dict[str, Any] = {
            "operator_id": self.operator_id,
            "seq": 0,
            "observed_at_ms": self.ended_ms,
            "kafka_cluster_id": self.kafka_cluster_id,
            "group_id": self.spec.group_id,
            "namespace": self.snapshot.namespace,
            "static_group": self.snapshot.name,
            "workload": self.spec.workload_ref.name,
            "protocol": self.remembered.protocol,
        }
        self.facts.append(Fact(id=api.short(fact_id, api.ID_MAX), data=data_type(**(common | fields))))
