"""What a Kafka Connect group distributes: connectors and their tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, order=True, slots=True)
class ConnectorTaskId:
    """One task of one connector (Connect's ConnectorTaskId; the number is an int32 on the wire)."""

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


@dataclass(frozen=True, slots=True)
class ConnectorsAndTasks:
    """Connectors and tasks in a fixed order without repetition (WorkerCoordinator.ConnectorsAndTasks).

    The order matters: which of its tasks a worker loses to balance the load is decided by their place in the list.
    """

    connectors: tuple[str, ...] = ()
    tasks: tuple[ConnectorTaskId, ...] = ()

    @classmethod
    def of(cls, connectors: Iterable[str] = (), tasks: Iterable[ConnectorTaskId] = ()) -> ConnectorsAndTasks:
        """Build from any iterables; a repetition keeps its first place."""
        return cls(tuple(dict.fromkeys(connectors)), tuple(dict.fromkeys(tasks)))

    @classmethod
    def union(cls, parts: Iterable[ConnectorsAndTasks]) -> ConnectorsAndTasks:
        """Everything that is in any of the parts, in their order."""
        parts = list(parts)
        return cls.of((c for part in parts for c in part.connectors), (t for part in parts for t in part.tasks))

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)

    def __len__(self) -> int:
        return len(self.connectors) + len(self.tasks)

    def plus(self, *others: ConnectorsAndTasks) -> ConnectorsAndTasks:
        """Return this and then the others, without repetition."""
        return ConnectorsAndTasks.union((self, *others))

    def minus(self, *others: ConnectorsAndTasks) -> ConnectorsAndTasks:
        """What is here and in none of the others, in this order."""
        connectors = {c for other in others for c in other.connectors}
        tasks = {t for other in others for t in other.tasks}
        return ConnectorsAndTasks(
            tuple(c for c in self.connectors if c not in connectors), tuple(t for t in self.tasks if t not in tasks)
        )

    def common(self, other: ConnectorsAndTasks) -> ConnectorsAndTasks:
        """What is here and in the other, in this order."""
        connectors, tasks = set(other.connectors), set(other.tasks)
        return ConnectorsAndTasks(
            tuple(c for c in self.connectors if c in connectors), tuple(t for t in self.tasks if t in tasks)
        )

    def sorted(self) -> ConnectorsAndTasks:
        """The same content in natural order."""
        return ConnectorsAndTasks(tuple(sorted(self.connectors)), tuple(sorted(self.tasks)))

    def within(self, other: ConnectorsAndTasks) -> bool:
        """Whether everything here is in the other too."""
        return not self.minus(other)

    def same_as(self, other: ConnectorsAndTasks) -> bool:
        """Whether both hold the same things in whatever order."""
        return self.sorted() == other.sorted()


NOTHING = ConnectorsAndTasks()


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """A snapshot of the config topic (Connect's ClusterConfigState): its offset and how many tasks a connector has."""

    offset: int
    tasks_per_connector: Mapping[str, int] = field(default_factory=dict)

    def configured(self) -> ConnectorsAndTasks:
        """All connectors and tasks that should run, in natural order."""
        names = sorted(self.tasks_per_connector)
        return ConnectorsAndTasks(
            tuple(names),
            tuple(ConnectorTaskId(name, task) for name in names for task in range(self.tasks_per_connector[name])),
        )
