"""A StatefulSet that could not be read is not one that does not exist."""

from __future__ import annotations

from staticgroup.kube.problem import KubeProblem, KubeProblemKind

from .world import World


async def test_read_that_failed_is_not_told_as_a_statefulset_that_does_not_exist() -> None:
    """WorkloadFound says that the StatefulSet does not exist, create it; the API server has only not answered.

    `Reconciler._workload` returns None for a KubeProblem as for an absence, where the watch has not shown the StatefulSet yet.
    All ids are unwanted in that round, and the injected session timeout is planned without the template.
    """
    world = await World().started()
    injected_ms = world.status.injected.session_timeout_ms if world.status.injected is not None else None
    del world.stores.workloads["shop", "web"]
    world.kube.problems["read_workload"] = KubeProblem(
        kind=next(iter(KubeProblemKind)), verb="get", resource="statefulsets", message="it did not answer"
    )
    await world.round()
    assert "does not exist" not in world.condition("WorkloadFound")[2]
    assert world.status.injected is not None
    assert world.status.injected.session_timeout_ms == injected_ms
