"""What the slots of a Deployment stand on: a waiter in the pod, a note in an annotation, and a variable out of a file.

The one idea: pods are given by hand what admission will give them, and notes with kubectl, so that what kubelets and
clients do is known without the operator. The annotation has another name than the operator's, which only it may write.
"""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.devcluster.images import slot_waiter_image
from support.devcluster.kafka_log import now_ms
from support.jvm_workload.image import JVM_WORKLOAD_IMAGE, load_jvm_workload_image
from support.scene.figures import prompt_s, record
from support.scene.play import Play
from support.scene.pod_lines import PodLines, PodVoice, collected_lines
from support.scene.stage import Stage
from support.slots import WAITER, DeploymentPlay, NewPlay
from support.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(300)]

SCOPE = "51742858"
ANNOTATION = "ground.example/note"
SILENCE_S = 30.0
VOLUME = f"{WAITER}{SCOPE}"
CLIENTS = ("librdkafka", "java")
QUICK = {"cpu": "10m", "memory": "16Mi"}
WRITES_A_FILE = {
    "fileKeyRef": {"volumeName": VOLUME, "path": "env", "key": "ID", "optional": True},
}
WAITS: dict[str, Any] = {
    "name": VOLUME, "image": "", "imagePullPolicy": "IfNotPresent", "args": [f"ID=%s.{SCOPE}"],
    "env": [{"name": "STATICGROUP_WORKLOAD", "value": "ground"}],
    "volumeMounts": [
        {"name": VOLUME, "mountPath": "/staticgroup/out"},
        {"name": f"{VOLUME}-in", "mountPath": "/staticgroup/in", "readOnly": True},
    ],
    "resources": {"requests": QUICK, "limits": QUICK},
    "securityContext": {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
    },
}  # fmt: skip
VOLUMES: list[dict[str, Any]] = [
    {"name": VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
    {
        "name": f"{VOLUME}-in",
        "downwardAPI": {
            "items": [
                {"path": "uid", "fieldRef": {"fieldPath": "metadata.uid"}},
                {"path": "note", "fieldRef": {"fieldPath": f"metadata.annotations['{ANNOTATION}']"}},
            ]
        },
    },
]


@pytest.fixture
def images(installed: Stage) -> dict[str, str]:
    """The images in the nodes: of the waiter, and of the clients by name."""
    reference, _ = slot_waiter_image()
    installed.cluster.load_image(reference)
    load_jvm_workload_image(installed.cluster)
    return {"waiter": reference, "java": JVM_WORKLOAD_IMAGE, "librdkafka": ""}


def injected(play: DeploymentPlay, images: dict[str, str], client: str) -> dict[str, Any]:
    """Return a Deployment of one pod that waits for its id."""
    made = play.deployment(1, image=images[client], env={"KAFKA_SESSION_TIMEOUT_MS": "30000"})
    spec = made["spec"]["template"]["spec"]
    spec |= {"initContainers": [{**WAITS, "image": images["waiter"]}], "volumes": VOLUMES}
    own = {"name": "KAFKA_GROUP_INSTANCE_ID", "valueFrom": WRITES_A_FILE}
    spec["containers"][0]["env"] = [own, *spec["containers"][0]["env"]]
    return made


def waiting_pod(play: Play) -> dict[str, Any]:
    """Return the pod whose waiter runs."""

    def waits() -> dict[str, Any] | None:
        shown = [(p, s) for p in play.pods() for s in p["status"].get("initContainerStatuses", [])]
        return next((p for p, s in shown if "running" in s["state"]), None)

    return until(waits, deadline_s=60, what="a pod that waits", poll_s=0.05)


def note(play: Play, pod: dict[str, Any], text: str) -> int:
    """Write a note for a pod; returns when."""
    change = {"metadata": {"annotations": {ANNOTATION: f"{pod['metadata']['uid']} {text}"}}}
    play.stage.kubectl(
        "patch", "pod", pod["metadata"]["name"], "-n", play.name, "--type=merge", "-p", json.dumps(change)
    )
    return now_ms()


def started(consumers: PodLines, uid: str, count: int = 1, deadline_s: float = 60) -> PodVoice:
    """Wait until the application of a pod has started so many times."""

    def voice() -> PodVoice | None:
        return next((v for v in consumers.voices() if v.uid == uid and len(v.of_kind("started")) >= count), None)

    return until(voice, deadline_s=deadline_s, what=f"start number {count} of the application")


def await_members(play: Play, instance_ids: list[str | None]) -> None:
    """Wait until the group has just the members with these ids; None: a dynamic one."""
    until(
        lambda: [m.instance_id or None for m in play.admin.describe_group(play.name).members] == instance_ids,
        deadline_s=60, what=f"members {instance_ids}", poll_s=0.3,
    )  # fmt: skip


def end_sandbox(uid: str) -> None:
    """Kill the process that holds a pod's namespaces: the kubelet makes a new sandbox and runs everything again."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            is_pause = entry.name.isdigit() and (entry / "comm").read_text().strip() == "pause"
            if is_pause and f"pod{uid}" in (entry / "cgroup").read_text():
                os.kill(int(entry.name), signal.SIGKILL)


@pytest.mark.parametrize("client", CLIENTS)
def test_note_reaches_the_process_as_its_id_and_stays_it(
    new_play: NewPlay, images: dict[str, str], client: str
) -> None:
    play = new_play(kind=DeploymentPlay)
    with collected_lines(play.stage.cluster, play.name) as consumers:
        play.stage.apply(injected(play, images, client))
        pod = waiting_pod(play)
        uid = pod["metadata"]["uid"]
        note(play, pod, "waits 1 -")
        given_ms = note(play, pod, "has ground-17")
        wanted = f"ground-17.{SCOPE}"
        voice = started(consumers, uid)
        assert voice.instance_id() == wanted
        await_members(play, [wanted])
        took_s = (voice.of_kind("started")[0]["at_ms"] - given_ms) / 1000
        record(f"note to process, {client}", note_to_process_s=took_s)
        assert took_s <= prompt_s(4.0, otherwise_s=15)

        # Whatever the note says later, and whatever is started anew, the pod goes on with what it was given.
        note(play, pod, "has ground-18")
        end_sandbox(uid)
        assert [line["instance_id"] for line in started(consumers, uid, 2).of_kind("started")] == [wanted, wanted]
        await_members(play, [wanted])
        said = play.stage.kubectl("logs", pod["metadata"]["name"], "-n", play.name, "-c", VOLUME)
        assert "already" in said


@pytest.mark.parametrize("client", CLIENTS)
def test_silence_gives_a_dynamic_member_after_half_a_minute(
    new_play: NewPlay, images: dict[str, str], client: str
) -> None:
    """A note for another pod, which a copy brings with it, is silence too."""
    play = new_play(kind=DeploymentPlay)
    with collected_lines(play.stage.cluster, play.name) as consumers:
        made = injected(play, images, client)
        made["spec"]["template"]["metadata"]["annotations"] = {
            ANNOTATION: "9d6a2f0e-0000-4000-8000-000000000000 has ground-17"
        }
        play.stage.apply(made)
        uid = waiting_pod(play)["metadata"]["uid"]
        waits_ms = now_ms()
        voice = started(consumers, uid, deadline_s=60)
        took_s = (voice.of_kind("started")[0]["at_ms"] - waits_ms) / 1000
        record(f"silence to process, {client}", waiter_to_process_s=took_s)
        assert voice.instance_id() is None
        await_members(play, [None])
        assert SILENCE_S - 1 <= took_s <= SILENCE_S + prompt_s(3.0, otherwise_s=15)
