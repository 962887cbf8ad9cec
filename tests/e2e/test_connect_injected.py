"""Kafka Connect workers whose agent the admission policy brings, from a pod template that knows nothing of it.

The one idea: as `test_connect.py` judges workers with an agent that is provided, by their tasks' own lines and the
brokers' log; and what keeps the agent out is reported before a pod is made.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.connect.rolls import CONNECTORS, TASK_COUNT, TASKS, assert_quiet, record_roll
from support.connect_pods.deployment import AGENT, surroundings, workload
from support.connect_pods.image import load_connect_image
from support.connect_pods.pods import ConnectPods, await_members
from support.devcluster.kafka_log import now_ms
from support.scene.play import Play
from support.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(600)]

WORKERS = 3
WISH: dict[str, Any] = {
    "client": {"type": "Connect", "injectAgent": True}, "sessionTimeout": {"seconds": 120},
}  # fmt: skip
OWN_OPTION = "-Dof.the.template=kept"


def without_agent(made: dict[str, Any]) -> dict[str, Any]:
    """Return a StatefulSet of workers whose template has nothing of the agent, and no KAFKA_OPTS."""
    pod = made["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    pod["volumes"] = [each for each in pod["volumes"] if each.get("configMap", {}).get("name") != AGENT]
    container["volumeMounts"] = [each for each in container["volumeMounts"] if each["name"] != "agent"]
    container["env"] = [each for each in container["env"] if each["name"] != "KAFKA_OPTS"]
    return made


def with_options(made: dict[str, Any]) -> dict[str, Any]:
    (container,) = made["spec"]["template"]["spec"]["containers"]
    container["env"].append({"name": "KAFKA_OPTS", "value": OWN_OPTION})
    return made


def injected(game: Play) -> tuple[str, str]:
    condition = game.condition("Injected")
    return condition.get("reason", ""), condition.get("message", "")


def test_workers_get_the_agent_from_the_policy_and_are_rolled_quietly(
    new_play: Callable[..., Play], tmp_path: Path
) -> None:
    game, shared = new_play(), tmp_path / "injected"
    load_connect_image(game.stage.cluster)
    with game.watched() as watch:
        game.stage.apply(game.static_group(**WISH))
        game.stage.apply(*surroundings(game), without_agent(workload(game, 0, shared, has_agent=True)))
        until(lambda: injected(game)[0] == "AgentNotInjected", deadline_s=60, what="what keeps the agent out")
        assert 'add - {name: KAFKA_OPTS, value: ""} to its env' in injected(game)[1]

        game.stage.apply(with_options(without_agent(workload(game, WORKERS, shared, has_agent=True))))
        pods = ConnectPods(game=game, shared=shared, watch=watch)
        await_members(game, WORKERS)
        for connector in CONNECTORS:
            pods.configure(connector, TASKS)
        before, led, began_ms = pods.await_rest(TASK_COUNT, deadline_s=120), pods.leader(), now_ms()
        for pod in game.pods():
            name = pod["metadata"]["name"]
            assert re.search(rf"active, group\.instance\.id {name}\.[0-9a-f]{{8}}", pods.log(name)), pods.log(name)[
                :400
            ]
            (init,) = pod["status"]["initContainerStatuses"]
            assert (init["restartCount"], init["state"]["terminated"]["exitCode"]) == (0, 0)
            options = [e["value"] for e in pod["spec"]["containers"][0]["env"] if e["name"] == "KAFKA_OPTS"]
            assert options == [f"{OWN_OPTION} -javaagent:/opt/{AGENT}/{AGENT}.jar"]
        until(lambda: injected(game)[0] == "IdsInjected", deadline_s=60, what="all pods to have their ids")

        game.roll()
        pods.await_heartbeats()
        after = pods.await_rest(TASK_COUNT, deadline_s=120)
        rolls = pods.rolled(before, after, led, pods.asked_to_end(began_ms))
        assert [roll.worker for roll in rolls] == [f"{game.name}-{n}" for n in (2, 1, 0)]
        for roll in rolls:
            record_roll("Connect in pods, agent injected", roll)
            assert_quiet(roll, generations=int(roll.led))
        complete = "AllMembersJoined"
        until(lambda: game.condition("MembershipComplete").get("reason") == complete, deadline_s=60, what=complete)
        assert pods.twice() == []
