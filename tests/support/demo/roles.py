"""The roles by the names that `--role` and `--workload` take."""

from __future__ import annotations

from support.demo.connect import ConnectWorkers
from support.demo.consumers import Consumers, ConsumersInDeployment
from support.demo.role import Role
from support.demo.streams import StreamsPods
from support.demo.wording import CONSUMER

ROLES: dict[str, type[Role]] = {each.wording.role: each for each in (Consumers, ConnectWorkers, StreamsPods)}
WORKLOADS = ("statefulset", "deployment")
ONLY_CONSUMERS = (
    "--workload deployment shows consumers only: Connect workers need a StatefulSet, and the Kafka Streams pods of the "
    "demo find their state again by their names"
)


def role_of(name: str, workload: str) -> Role:
    """Return a new role; raises ValueError with a sentence when it is not shown in that workload."""
    if workload == "statefulset":
        return ROLES[name]()
    if name != CONSUMER.role:
        raise ValueError(ONLY_CONSUMERS)
    return ConsumersInDeployment()
