"""Java clients: one that leaves on closing is named with the setting, and a topic that a deploy adds gets its readers.

Restates: KIP-1092 (CloseOptions: LEAVE_GROUP makes a static member leave) and KAFKA-12759 (static members that come
back with another subscription cause no rebalance).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.devcluster.kafka_log import now_ms
from support.jvm_workload.image import JVM_WORKLOAD_IMAGE, load_jvm_workload_image
from support.scene.play import Play
from support.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(600)]


def workload(play: Play, **env: str) -> dict[str, Any]:
    """Return two pods of the Java client."""
    made = play.stateful_set(2, env=env, podManagementPolicy="Parallel")
    (container,) = made["spec"]["template"]["spec"]["containers"]
    container["image"] = JVM_WORKLOAD_IMAGE
    return made


def started(play: Play, **env: str) -> None:
    """Bring them up, each with an id of its own."""
    play.stage.apply(play.static_group())
    until(lambda: (play.status() or {}).get("injected"), deadline_s=30, what="ids are issued")
    load_jvm_workload_image(play.stage.cluster)
    play.stage.apply(workload(play, **env))
    play.await_joined(2)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_member_that_leaves_on_closing_is_named_with_the_setting(
    new_play: Callable[..., Play], protocol: str
) -> None:
    play = new_play(protocol=protocol)
    started(play, LEAVE_ON_CLOSE="true")
    rolled_ms = now_ms()
    play.roll()
    play.await_joined(2)
    said = until(
        lambda: c if (c := play.condition("RollsQuietly")).get("status") == "False" else None,
        deadline_s=60, what="the status says that members leave",
    )  # fmt: skip
    assert said["reason"] == "MembersLeaveOnClose"
    assert f"{play.name}-" in said["message"]
    assert "CloseOptions" in said["message"]
    assert play.removals() == []
    assert play.rebalances(rolled_ms) > 0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_member_that_stays_is_quiet(new_play: Callable[..., Play], protocol: str) -> None:
    play = new_play(protocol=protocol)
    started(play)
    rolled_ms = now_ms()
    play.roll()
    play.await_joined(2)
    assert play.rebalances(rolled_ms) == 0
    assert play.condition("RollsQuietly").get("reason") == "MembersStay"


def test_topic_that_a_deploy_adds_gets_its_readers_by_one_rebalance(new_play: Callable[..., Play]) -> None:
    play = new_play()
    started(play)
    added = f"{play.name}-added"
    play.admin.create_topic(added, partitions=6)
    rolled_ms = now_ms()
    play.stage.apply(workload(play, TOPIC=f"{play.name},{added}"))
    play.stage.kubectl("rollout", "status", f"statefulset/{play.name}", "-n", play.name, "--timeout=120s")
    said = until(
        lambda: c if (c := play.condition("Consuming")).get("status") == "False" else None,
        deadline_s=120, what="the status says that nobody reads the topic",
    )  # fmt: skip
    assert (said["reason"], added in said["message"]) == ("TopicsUnread", True)
    assert play.rebalances(rolled_ms) == 0
    members = play.member_ids()

    def read() -> set[str]:
        return {topic for m in play.admin.describe_group(play.name).members for topic, _ in m.topic_partitions}

    until(lambda: read() == {play.name, added}, deadline_s=120, what="readers of both topics", poll_s=1.0)
    until(lambda: play.condition("Consuming").get("status") == "True", deadline_s=60, what="the status to say so")
    assert play.rebalances(rolled_ms) == 1
    assert play.member_ids() == members, "nobody was fenced or replaced"
