"""A StatefulSet that could not be read is not one that does not exist."""

from __future__ import annotations

from staticgroup.cli.operator.plan_in_words import explained
from staticgroup.core.plan import plan
from staticgroup.core.snapshot import History
from staticgroup.kube.problem import KubeProblem, KubeProblemKind

from .operator_world import KEY, OperatorWorld


async def test_read_that_failed_is_not_reported_as_a_statefulset_that_does_not_exist() -> None:
    """WorkloadFound says that the StatefulSet does not exist, create it; the API server has only not answered.

    `Reconciler._workload` returns None for a KubeProblem as for an absence, where the watch has not shown the
    StatefulSet yet. All ids are unwanted in that round, and the injected session timeout is planned without the
    template.
    """
    world = await OperatorWorld().started()
    injected_ms = world.injected.session_timeout_ms if world.status.injected is not None else None
    del world.stores.workloads["shop", "web"]
    world.kube.problems["read_workload"] = KubeProblem(
        kind=next(iter(KubeProblemKind)), verb="get", resource="statefulsets", message="it did not answer"
    )
    await world.round()
    assert "does not exist" not in world.condition("WorkloadFound")[2]
    assert world.condition("WorkloadFound")[:2] == ("Unknown", "WorkloadUnreadable")
    assert world.injected.session_timeout_ms == injected_ms
    assert world.left == []
    spec, snapshot = await world.reconciler.snapshot_of(world.stores.groups[KEY])
    decided = plan(spec, snapshot, History(), world.now_s)
    assert "StatefulSet web cannot be read." in explained(spec, snapshot, decided, world.now_s)


async def test_round_after_the_read_goes_on_as_if_nothing_had_been() -> None:
    world = await OperatorWorld().started()
    known = world.stores.workloads.pop(("shop", "web"))
    world.kube.problems["read_workload"] = KubeProblem(
        kind=next(iter(KubeProblemKind)), verb="get", resource="statefulsets", message="it did not answer"
    )
    await world.round()
    world.kube.problems.clear()
    world.stores.workloads["shop", "web"] = known
    await world.departs(4)
    assert [i for _, i in world.left] == [world.id_of(2)]
