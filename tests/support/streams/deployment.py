"""The application as pods: three stream threads each, with a state directory that outlives the pod.

The one idea: what a user would put on a PersistentVolume lies in a folder of this machine, which every node of the
development cluster shares; a pod finds its folder again by its name, wherever it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support.scene.play import Play
from support.scene.pod_lines import PodLines
from support.streams.image import STREAMS_IMAGE
from support.waiting import until
from support.workload.process import Line

THREADS = 3
STATIC: Mapping[str, Any] = {"client": {"type": "KafkaStreams", "concurrency": THREADS}}
"""Of a StaticGroup of such pods."""
GRACE_S = 30
_STATE = "/state"


def workload(
    game: Play, pods: int, states: Path, *, threads: int = THREADS, env: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the StatefulSet; the pods' states lie in folders of `states` that have their names."""
    states.chmod(0o777)  # the kubelet makes a pod's folder in it with the same mode
    made = game.stateful_set(
        pods,
        env={"NUM_STREAM_THREADS": str(threads), "STATE_DIR": _STATE, **(env or {})},
        grace_s=GRACE_S,
        pod={"volumes": [{"name": "state", "hostPath": {"path": str(states), "type": "Directory"}}]},
        podManagementPolicy="Parallel",
    )
    (container,) = made["spec"]["template"]["spec"]["containers"]
    container["image"] = STREAMS_IMAGE
    container["env"].append({"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})
    container["volumeMounts"] = [{"name": "state", "mountPath": _STATE, "subPathExpr": "$(POD_NAME)"}]
    return made


def start(game: Play, pods: int, states: Path, **static: Any) -> None:
    """Apply the StaticGroup, then the application once ids are issued, and wait until every thread has joined."""
    game.stage.apply(game.static_group(**STATIC, **static))
    until(lambda: (game.status() or {}).get("injected"), deadline_s=30, what="ids are issued")
    game.stage.apply(workload(game, pods, states))
    game.await_joined(pods * THREADS, deadline_s=120)


def latest_opened(lines: PodLines, since_ms: int = 0) -> dict[int, tuple[str, Line]]:
    """Return for each partition which pod opened its store last, with the line that says what it held."""
    found: dict[int, tuple[str, Line]] = {}
    for voice in lines.voices():
        for line in voice.of_kind("opened"):
            before = found.get(line["partition"])
            if line["at_ms"] >= since_ms and (before is None or before[1]["at_ms"] < line["at_ms"]):
                found[line["partition"]] = (voice.pod_name, line)
    return found


def hosts(lines: PodLines) -> dict[int, str]:
    """Return which pod has opened each partition's store last."""
    return {partition: pod for partition, (pod, _) in latest_opened(lines).items()}


def await_opened(
    lines: PodLines, partitions: Sequence[int], since_ms: int, deadline_s: float
) -> dict[int, tuple[str, Line]]:
    """Wait until the stores of these partitions were opened since then."""

    def opened() -> dict[int, tuple[str, Line]] | None:
        found = latest_opened(lines, since_ms)
        return found if found.keys() >= set(partitions) else None

    what = f"{len(partitions)} stores to be opened"
    return until(opened, deadline_s=deadline_s, what=what, poll_s=0.2)


def restored(lines: PodLines, since_ms: int) -> list[Line]:
    """Return the lines about stores that read records again from their changelog."""
    found = lines.lines("restored", "restore_suspended")
    return [line for line in found if line["records"] and since_ms <= line["at_ms"]]


def store_lines(lines: PodLines) -> dict[int, list[Line]]:
    """Return the lines about each partition's store in the order of time: when it was opened, and its counts."""
    found: dict[int, list[Line]] = {}
    for voice in lines.voices():
        for line in voice.of_kind("opened"):
            found.setdefault(line["partition"], []).append({"pod_name": voice.pod_name, **line})
        for line in voice.of_kind("counted"):
            said = {"pod_name": voice.pod_name, "kind": "counted", "at_ms": line["at_ms"]}
            for partition, (count, following) in line["partitions"].items():
                found.setdefault(int(partition), []).append({**said, "count": count, "next": following})
    return {partition: sorted(each, key=lambda line: line["at_ms"]) for partition, each in found.items()}


def counts(lines: PodLines) -> dict[int, tuple[int, int]]:
    """Return the last count and next offset of each partition's store."""
    return {partition: (each[-1]["count"], each[-1]["next"]) for partition, each in store_lines(lines).items()}


def counted_too_late(lines: PodLines) -> list[tuple[str, int, Line]]:
    """Return pod, partition and line for each count of a partition that the pod had given up."""
    found: list[tuple[str, int, Line]] = []
    for voice in lines.voices():
        given_up: set[int] = set()
        for line in list(voice.lines):
            if line["kind"] in ("revoked", "lost"):
                given_up |= set(line["partitions"])
            elif line["kind"] == "opened":
                given_up.discard(line["partition"])
            elif line["kind"] == "counted":
                found += [
                    (voice.pod_name, n, line) for n in sorted(given_up & {int(each) for each in line["partitions"]})
                ]
    return found


def generations(lines: PodLines, since_ms: int) -> set[int]:
    """Return the generations in which threads were assigned partitions since then, by their own clients."""
    return {line["generation"] for line in lines.lines("assigned") if line["at_ms"] >= since_ms}
