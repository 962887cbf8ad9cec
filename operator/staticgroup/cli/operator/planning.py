"""`plan`: one round of gather and plan, on the cluster or from a file, that writes nothing to either.

On the cluster it resumes the pod watch where the operator stored it and reads what the status remembers, so it sees the
same carriers as the operator does.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from ...api import names
from ...api.resources.staticgroup import StaticGroup
from ...core.plan import plan
from ...core.status.memory import history_from
from ...kube.problem import KubeProblem
from ...runtime.operator import Operator
from ...runtime.process import kube_client, logs
from ...runtime.process.namespaces import serving
from ...runtime.process.settings import Settings
from ..api_server import Refused
from .plan_in_words import explained
from .snapshot_file import SnapshotFile, write_snapshot_file

ANCHOR_TIMEOUT_S = 60.0


def print_plan(taken: SnapshotFile) -> None:
    """Print what would be done in a recorded world."""
    decided = plan(taken.spec, taken.snapshot, taken.history, taken.now_s)
    print(explained(taken.spec, taken.snapshot, decided, taken.now_s), end="")


async def plan_now(settings: Settings, namespace: str, name: str, snapshot_path: Path | None) -> None:
    """Print the plan of one StaticGroup.

    Raises
    ------
    Refused: The StaticGroup or the cluster cannot be read.
    """
    transport = await kube_client.connected()
    operator = Operator(await serving(transport, settings), transport, journal_sinks=())
    logs.configure("WARNING", "text", operator.connections.secret_texts)
    try:
        async with asyncio.timeout(ANCHOR_TIMEOUT_S):
            taken = await _take(operator, namespace, name)
    except TimeoutError as error:
        text = f"the operator's Lease or the pods could not be read within {ANCHOR_TIMEOUT_S:.0f} s"
        raise Refused(f"{text}; run: staticgroup doctor") from error
    finally:
        await operator.kafka.close()
        await transport.close()
    print_plan(taken)
    if snapshot_path is not None:
        write_snapshot_file(taken, snapshot_path)
        print(f"Snapshot written to {snapshot_path}.")


async def _take(operator: Operator, namespace: str, name: str) -> SnapshotFile:
    body = await operator.kube.read_object(names.STATIC_GROUP_PLURAL, namespace, name)
    if body is None or isinstance(body, KubeProblem):
        raise Refused(f"StaticGroup {namespace}/{name}: {'not found' if body is None else body.message}")
    group = StaticGroup.from_wire(body)
    async with operator.watching():
        cluster_id = operator.stores.kafka_cluster_id_of(group.spec, namespace)
        if operator.recommendations is not None:
            operator.recommendations.advice(cluster_id, group.spec.group_id)  # it reads only what was asked for
            await operator.recommendations.poll()
        spec, snapshot = await operator.reconciler.snapshot_of(group)
        history = history_from(group.status, group.metadata.namespace)
        return SnapshotFile(spec=spec, snapshot=snapshot, history=history, now_s=operator.sources.now_s())
