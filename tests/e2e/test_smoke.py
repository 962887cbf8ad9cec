"""Install the operator, adopt a running application, roll it and scale it down, on a cluster of pytest-kind.

The one idea: real kind where a container engine answers, the development cluster elsewhere; `make kind-smoke` makes one
for this test alone.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pytest_kind import KindCluster

from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.scene.kind_ground import ground_of
from support.scene.play import Play
from support.scene.stage import Stage
from support.waiting import until

pytestmark = pytest.mark.e2e

DEPARTURES = (GroupEventKind.REMOVED, GroupEventKind.LEFT, GroupEventKind.SESSION_EXPIRED)


@pytest.fixture(scope="session")
def installed(kind_cluster: KindCluster) -> Stage:
    """The operator, installed from its chart on the cluster that pytest-kind made or found."""
    stage = Stage.on_kind(ground_of(kind_cluster))
    stage.install()
    return stage


def uids(game: Play) -> set[str]:
    return {pod["metadata"]["uid"] for pod in game.pods()}


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.long)])
def test_running_dynamic_members_are_adopted_by_one_rolling_restart(
    new_play: Callable[..., Play], protocol: str
) -> None:
    game = new_play(protocol=protocol)
    session = game.outlast_restarts(60)
    game.stage.apply(game.stateful_set(3, podManagementPolicy="Parallel"))

    def described() -> list[str | None]:
        group = game.stage.admin.describe_group(game.name)
        return [m.instance_id for m in group.members] if group.state == "Stable" else []

    until(lambda: described() == [None] * 3, deadline_s=60, what="three dynamic members")
    until(
        lambda: all(p["status"]["containerStatuses"][0]["ready"] for p in game.pods()), deadline_s=30, what="all Ready"
    )
    before, adopted_at_ms = uids(game), now_ms()

    game.stage.apply(game.static_group(**session))
    until(
        lambda: game.condition("Injected").get("reason") == "PodsWithoutId", deadline_s=30, what="the report about pods"
    )
    assert "rollout restart" in game.condition("Injected")["message"]
    assert described() == [None] * 3
    assert uids(game) == before
    assert game.rebalances(adopted_at_ms) == 0

    game.roll()
    game.await_joined(3)
    assert {i.partition(".")[0] for i in game.member_ids()} == {f"{game.name}-{n}" for n in range(3)}
    assert None not in until(described, deadline_s=30, what="a stable group")
    assert game.removals() == []
    assert not uids(game) & before

    rolled_at_ms = now_ms()
    game.roll()
    game.await_joined(3)
    assert len(game.events(GroupEventKind.STATIC_MEMBER_REPLACED, since_ms=rolled_at_ms)) == 3
    assert game.rebalances(rolled_at_ms) == 0
    assert game.events(*DEPARTURES, since_ms=rolled_at_ms) == []

    leaver = game.member_ids()[next(i for i in game.member_ids() if i.startswith(f"{game.name}-2."))]
    game.scale(2)
    until(lambda: game.removals(rolled_at_ms), deadline_s=30, what="removal of the departed member")
    assert [e.member_id for e in game.removals()] == [leaver]
    game.await_joined(2)
