"""`explain`: one round of observe and plan, by a process of its own, that writes nothing.

It resumes the pod watch from where the operator stored it and reads what the status remembers, so it sees the same carriers
as the operator does.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from ...api import names
from ...api.resources.staticgroup import StaticGroup
from ...core.plan import plan
from ...core.status.durable import history_from
from ...kube.problem import KubeProblem
from ..operator import Operator
from ..process import kube_client, logs
from ..process.namespaces import serving
from ..process.settings import Settings
from .explanation import explained
from .snapshot_file import SnapshotFile, write_snapshot_file

ANCHOR_TIMEOUT_S = 60.0


async def explain(settings: Settings, namespace: str, name: str, snapshot_path: Path | None) -> int:
    """Print the explanation of one StaticGroup.

    Returns
    -------
    0; or 1 when the StaticGroup or the cluster cannot be read.
    """
    transport = await kube_client.connected()
    operator = Operator(await serving(transport, settings), transport, journal_sinks=())
    logs.configure("WARNING", "text", operator.connections.secret_texts)
    try:
        async with asyncio.timeout(ANCHOR_TIMEOUT_S):
            return await _explain(operator, namespace, name, snapshot_path)
    except TimeoutError:
        print(
            f"staticgroup: the operator's Lease or the pods could not be read within {ANCHOR_TIMEOUT_S:.0f} s; run `staticgroup doctor`",
            file=sys.stderr,
        )
        return 1
    finally:
        await operator.kafka.close()
        await transport.close()


async def _explain(operator: Operator, namespace: str, name: str, snapshot_path: Path | None) -> int:
    body = await operator.kube.read_object(names.STATIC_GROUP_PLURAL, namespace, name)
    if body is None or isinstance(body, KubeProblem):
        print(
            f"staticgroup: StaticGroup {namespace}/{name}: {'not found' if body is None else body.message}",
            file=sys.stderr,
        )
        return 1
    group = StaticGroup.from_wire(body)
    async with operator.watching():
        cluster_id = operator.stores.kafka_cluster_id(group.spec.connection_ref.key(namespace))
        operator.recommendations.advice(cluster_id, group.spec.group_id)  # it reads only what was asked for
        await operator.recommendations.poll()
        spec, snapshot = await operator.reconciler.snapshot_of(group)
        history = history_from(group.status, group.metadata.namespace)
        now_s = operator.sources.now_s()
        decided = plan(spec, snapshot, history, now_s)
    print(explained(spec, snapshot, decided, now_s), end="")
    if snapshot_path is not None:
        write_snapshot_file(SnapshotFile(spec=spec, snapshot=snapshot, history=history, now_s=now_s), snapshot_path)
        print(f"Snapshot written to {snapshot_path}.")
    return 0
