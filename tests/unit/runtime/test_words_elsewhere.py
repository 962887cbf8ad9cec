"""A word about a suspect of another namespace, given as the status tells: it is read only where the operator watches."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from staticgroup.api import names
from staticgroup.runtime.words import Words

from .operator_world import OperatorWorld, guards
from .stories import by_hand, departs, left, managed
from .test_carried_by_the_living import elsewhere


def confirmation(world: OperatorWorld, namespace: str) -> dict[str, Any]:
    created = datetime.fromtimestamp(world.now_s, tz=UTC).isoformat()
    return {
        "apiVersion": names.API_VERSION, "kind": "PodEndConfirmation",
        "metadata": {"namespace": namespace, "name": "scrapped", "uid": "w-1", "creationTimestamp": created},
        "spec": {"podName": "canary-0", "podUid": "stray", "by": "anna", "statement": "scrapped"},
    }  # fmt: skip


async def reads(world: OperatorWorld, *scopes: str) -> None:
    """Let the operator read the words of the namespaces that it watches."""
    await Words(kube=world.kube, pods=world.pods.book, scopes=scopes).read()  # type: ignore[arg-type]  # the store passes it on
    await world.settled(4)


@pytest.mark.parametrize("scopes", [("",), ("shop", "bill")], ids=["all namespaces", "both namespaces"])
async def test_word_about_a_suspect_of_another_namespace_is_read_once_that_is_watched(scopes: tuple[str, ...]) -> None:
    """The chart value watchNamespaces was set to [shop] after a stray of bill was lost, whose process has long ended."""
    world = await by_hand()
    elsewhere(world)
    world._happens(world.kube.pods["bill", "canary-0"], is_deleted=True)
    await world.settled(3)
    world.restart()
    world.pods.is_managed = managed
    await world.settled(2)
    await departs(world, 3)
    assert guards(world) == ["DeathNotProven"]
    (told,) = (e.message for e in world.status.exceptions if e.kind.value == "Suspect")
    way_out = "create a PodEndConfirmation of this uid in namespace bill, which is read if the operator watches it"
    assert told.endswith(f"if its process has surely ended: {way_out} (chart value watchNamespaces)")
    world.now_s += 5
    world.kube.put_object(names.CONFIRMATION_PLURAL, confirmation(world, "bill"))
    await reads(world, "shop")
    assert left(world) == []
    await reads(world, *scopes)
    assert left(world) == [world.id_of(2)], guards(world)
