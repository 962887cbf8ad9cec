"""spec.identity names a container that the pods do not have: nothing a pod does brings its client an id."""

from __future__ import annotations

from typing import Any

import pytest

from .operator_world import OperatorWorld

CONTAINER: dict[str, Any] = {"container": "worker"}
ENTRIES: dict[str, Any] = {
    "env": [{"instanceIdName": "KAFKA_GROUP_INSTANCE_ID"}, {"container": "worker", "suffix": "-b"}]
}


async def with_pods(identity: dict[str, Any], **changes: Any) -> OperatorWorld:
    """Let three pods be Ready for minutes whose clients got no id from the policy."""
    world = OperatorWorld(identity=identity)
    await world.begin(3, joins=False, **changes)
    world.now_s += 300
    await world.settled(3)
    return world


@pytest.mark.parametrize("identity", [CONTAINER, ENTRIES], ids=["container", "env"])
@pytest.mark.parametrize("changes", [{}, {"instance_ids": frozenset()}], ids=["annotated", "without an annotation"])
async def test_restart_gives_no_id_to_a_container_that_is_not_there(
    identity: dict[str, Any], changes: dict[str, Any]
) -> None:
    """The policy writes the annotation and no variable."""
    world = await with_pods(identity, **changes)
    messages = [c.message for c in world.status.conditions] + [e.message for e in world.status.exceptions]
    assert not any("restart its pod" in text or "rollout restart" in text for text in messages)
    assert world.condition("Injected") == (
        "False",
        "IdentityInvalid",
        "spec.identity names container worker, which the pods of StatefulSet web do not have, "
        "so its variables are written nowhere; "
        "correct the name of the container in spec.identity, and roll the StatefulSet",
    )
    assert "see Injected" in world.condition("MembershipComplete")[2]
    assert world.status.exceptions
    assert all("correct the name of the container in spec.identity" in e.message for e in world.status.exceptions)


@pytest.mark.parametrize(
    "identity", [{"container": "app"}, {"container": "worker", "method": "None"}], ids=["right", "by hand"]
)
async def test_container_that_receives_its_variables_or_is_to_receive_none(identity: dict[str, Any]) -> None:
    world = await with_pods(identity)
    assert "container" not in world.condition("Injected")[2]
    assert any("restart its pod" in e.message for e in world.status.exceptions)


async def test_container_of_a_statefulset_that_is_not_there_is_not_known() -> None:
    world = await OperatorWorld(identity=CONTAINER).started()
    world.delete_workload()
    await world.settled(2)
    assert "worker" not in world.condition("Injected")[2]
