"""What a new StaticGroup with `identity.exclusive` need not prove, and what it still must."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from simulator.oracles.assumptions import Assumptions
from simulator.oracles.ground_truth import GroundTruth, PodLife


def life(uid: str, **changes: Any) -> PodLife:
    return PodLife(
        uid=uid, namespace="shop", name="web-2", created_s=10.0, ids={"web-2"}, shown={"app"}, was_bound=True, **changes
    )


def test_exclusive_proves_the_end_of_pods_that_are_gone_and_not_of_one_that_is_there() -> None:
    processes: Any = SimpleNamespace(creator=lambda member_id: SimpleNamespace(ended_s=None, pod_uid="late"))
    loop: Any = SimpleNamespace(time=lambda: 1000.0)
    truth = GroundTruth(
        loop,
        processes,
        [],
        "cluster",
        lambda operator, group: None,
        lambda operator, group: None,
        assumptions=Assumptions(settle_s=600),
    )
    truth.pods = {"lost": life("lost", gone_s=500.0), "there": life("there"), "late": life("late", has_proof=True)}
    assert sorted(truth.uncertified("web-2", "m")) == ["lost", "there"]
    truth.prove_ends_of_gone_pods()
    assert truth.uncertified("web-2", "m") == ["there"]
