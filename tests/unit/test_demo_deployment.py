"""The demo of Deployments: which role is played, and which of its pods count as one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from support.demo.__main__ import options_of
from support.demo.consumers import DYNAMIC, ConsumersInDeployment
from support.demo.groups import DemoGroup
from support.demo.measure import moves
from support.demo.role import MANAGED
from support.demo.roles import role_of
from support.scene.pod_lines import PodVoice
from support.slots import DeploymentPlay


class Said:
    """What pods said, as a gateway to their logs gives it."""

    def __init__(self, voices: list[PodVoice]) -> None:
        self._voices = voices

    def voices(self) -> list[PodVoice]:
        return self._voices

    def stop(self) -> None:
        return


def voice(uid: str, instance_id: str | None, *consumed: tuple[int, int, int]) -> PodVoice:
    """Return what a pod said: when it began, and (partition, from, until) of what it received, in milliseconds."""
    lines: list[Any] = [{"kind": "started", "at_ms": 1, "instance_id": instance_id}]
    for partition, first, last in consumed:
        lines.append({"kind": "consumed", "at_ms": last, "partitions": {str(partition): {"received": [[first, last]]}}})
    return PodVoice(pod_name=f"pod-{uid}", uid=uid, lines=lines)


def group(name: str, *voices: PodVoice) -> DemoGroup:
    stage: Any = SimpleNamespace(brokers=SimpleNamespace(bootstrap="kafka:9092"))
    watch: Any = None
    play = DeploymentPlay(stage=stage, name=name, since_ms=0)
    return DemoGroup(role=ConsumersInDeployment(), play=play, voices=Said([*voices]), watch=watch)


def pods_and_moves(shown: DemoGroup) -> tuple[dict[int, list[str]], int]:
    pods = {ordinal: [voice.uid for voice in voices] for ordinal, voices in shown.by_ordinal().items()}
    return pods, moves(shown.times_by_ordinal(), since_ms=0, until_ms=1000)


def test_pod_that_takes_over_an_id_is_the_same_one_and_moves_nothing() -> None:
    waiting = PodVoice(pod_name="pod-w", uid="w", lines=[])
    before, after = voice("a", "id-7", (0, 10, 200)), voice("c", "id-7", (0, 300, 500))
    shown = group(MANAGED, before, voice("b", "id-4"), waiting, after)
    assert pods_and_moves(shown) == ({0: ["a", "c"], 1: ["b"]}, 0)


def test_dynamic_pod_is_never_another_one() -> None:
    shown = group(DYNAMIC, voice("a", None, (0, 10, 200)), voice("c", None, (0, 300, 500)))
    assert pods_and_moves(shown) == ({0: ["a"], 1: ["c"]}, 1)


def test_a_quarter_of_the_pods_is_one() -> None:
    """By Kubernetes' default strategy, with which nothing is promised for fewer."""
    made = ConsumersInDeployment().workload(group(MANAGED))
    assert made["kind"] == "Deployment"
    assert made["spec"]["replicas"] * 25 // 100 == 1
    assert "strategy" not in made["spec"]


def test_workload_is_a_stateful_set_unless_a_deployment_of_consumers_is_asked_for() -> None:
    assert role_of("consumer", options_of([]).workload).workload_kind == "StatefulSet"
    chosen = role_of("consumer", options_of(["--workload", "deployment"]).workload)
    assert chosen.workload_kind == "Deployment"
    assert chosen.chart_values["workloads"] == {"deployments": True}
    assert set(chosen.chart_values["slots"]["image"]) == {"repository", "tag"}


@pytest.mark.parametrize("role", ["connect", "streams"])
def test_deployment_of_another_role_is_refused_with_a_sentence(role: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        options_of(["--role", role, "--workload", "deployment"])
    assert ended.value.code == 2
    assert "--workload deployment shows consumers only: Connect workers need a StatefulSet" in capsys.readouterr().err
