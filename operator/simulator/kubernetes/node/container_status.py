"""Write container statuses exactly as a kubelet does, and find out what a container's environment says.

Sources: kubelet kubelet_pods.go (convertToAPIContainerStatuses, getPhase), status_manager.go (TerminatePod), container
runtime exit reasons; seen on 1.36.3: a graceful end, a crash loop, an image that was never pulled (of the only
container, a sidecar, behind an init container), a deletion during init, a container that ignores SIGTERM.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from staticgroup.api.names import SLOT_NAME

from ..objects import Json, time_text

_KEYED: Final = re.compile(r"metadata\.(annotations|labels)\['([^']*)'\]")
_REFERENCE: Final = re.compile(r"\$\$|\$\(([^)]*)\)")
LOST_EXIT_CODE: Final = 137
REBOOT_EXIT_CODE: Final = 255


@dataclass(slots=True, kw_only=True)
class ContainerRecord:
    """What a kubelet knows of one container.

    Parameters
    ----------
    kind: the list of the pod's status it belongs to: containerStatuses or initContainerStatuses.
    run: number of the present or last run, from 1; 0: it never ran.
    started_s, finished_s: of that run, virtual seconds; None: not yet.
    is_oneshot: an init container that ends by itself before the others start.
    is_unpulled: its image is not there, so it waits.
    previous: terminated state of the run before.
    """

    name: str
    kind: str = "containerStatuses"
    image: str = ""
    is_oneshot: bool = False
    is_unpulled: bool = False
    run: int = 0
    started_s: float | None = None
    finished_s: float | None = None
    exit_code: int = 0
    exit_reason: str = ""
    is_ready: bool = False
    is_backing_off: bool = False
    is_lost: bool = False
    previous: Json | None = None

    @property
    def is_running(self) -> bool:
        """True while the kubelet believes that it runs."""
        return self.started_s is not None and self.finished_s is None

    @property
    def is_due(self) -> bool:
        """True before its first run, and for an init container that has not ended by itself yet."""
        return not self.run or (self.is_oneshot and self.is_running)

    @property
    def is_waiter(self) -> bool:
        """True for the init container that waits for a slot; it ends with code 0 also on SIGTERM."""
        return self.is_oneshot and self.name.startswith(f"{SLOT_NAME}-")

    def begin(self, now_s: float) -> None:
        """Note a new run."""
        if self.run:
            self.previous = self.terminated("")
        self.run += 1
        self.started_s, self.finished_s, self.exit_code, self.exit_reason = now_s, None, 0, ""
        self.is_backing_off = self.is_ready = self.is_lost = False

    def end(self, now_s: float, exit_code: int, reason: str = "") -> None:
        """Note the end of the present run."""
        self.finished_s, self.exit_code, self.is_ready = now_s, exit_code, False
        self.exit_reason = reason or ("Completed" if exit_code == 0 else "Error")

    def container_id(self, pod_uid: str) -> str:
        """Return the id of the present or last run; "" when it never ran."""
        return f"containerd://{pod_uid[:8]}-{self.name}-{self.run}" if self.run else ""

    def terminated(self, pod_uid: str) -> Json:
        """Write the terminated state of the last run."""
        return {
            "exitCode": self.exit_code,
            "reason": self.exit_reason,
            "startedAt": time_text(self.started_s or 0.0),
            "finishedAt": time_text(self.finished_s or 0.0),
            "containerID": self.container_id(pod_uid),
        }

    def status(self, pod_uid: str, *, is_pod_ending: bool, is_final: bool) -> Json:
        """Write the status entry.

        Parameters
        ----------
        is_pod_ending: no restart will come, so a container in back-off shows its end, not its waiting.
        is_final: the pod has ended, and this container is one that the kubelet ends: if it never ran, it is unknown.
        """
        entry: Json = {
            "name": self.name,
            "image": "",
            "imageID": "",
            "ready": self.is_ready,
            "started": self.is_running,
            "restartCount": max(0, self.run - 1),
            "lastState": {},
            "state": self._state(pod_uid, is_pod_ending, is_final),
        }
        if self.run:
            entry["containerID"] = self.container_id(pod_uid)
        if self.is_backing_off and not is_pod_ending:
            entry["lastState"] = {"terminated": self.terminated(pod_uid)}
        elif self.previous is not None:
            previous_id = f"containerd://{pod_uid[:8]}-{self.name}-{self.run - 1}"
            entry["lastState"] = {"terminated": {**self.previous, "containerID": previous_id}}
        return entry

    def _state(self, pod_uid: str, is_pod_ending: bool, is_final: bool) -> Json:
        if self.is_lost or (is_final and not self.run):
            return {
                "terminated": {
                    "exitCode": LOST_EXIT_CODE,
                    "reason": "ContainerStatusUnknown",
                    "startedAt": None,
                    "finishedAt": None,
                    "message": "The container could not be located when the pod was terminated",
                }
            }
        if self.is_running:
            return {"running": {"startedAt": time_text(self.started_s or 0.0)}}
        if self.is_backing_off and not is_pod_ending:
            return {"waiting": {"reason": "CrashLoopBackOff"}}
        if self.finished_s is not None:
            return {"terminated": self.terminated(pod_uid)}
        if self.is_unpulled and not is_pod_ending:
            return {"waiting": {"reason": "ImagePullBackOff"}}
        return {
            "waiting": {"reason": "PodInitializing" if self.kind == "initContainerStatuses" else "ContainerCreating"}
        }


def records_of(pod: Json) -> list[ContainerRecord]:
    """Make the records of every container that a pod's spec names, init containers first."""
    spec = pod["spec"]
    found = [
        ContainerRecord(
            name=c["name"],
            image=c.get("image", ""),
            kind="initContainerStatuses",
            is_oneshot=c.get("restartPolicy") != "Always",
        )
        for c in spec.get("initContainers") or ()
    ]
    return found + [ContainerRecord(name=c["name"], image=c.get("image", "")) for c in spec["containers"]]


def environment(
    pod: Json, container_name: str, files: Mapping[str, Mapping[str, str]] | None = None
) -> Mapping[str, str]:
    """Resolve a container's variables as its process sees them: literals, `$(VAR)`, fields and keys in files.

    Parameters
    ----------
    files: what the file of each of the pod's volumes says; a variable whose key is not there is not set.
    """
    known: dict[str, str] = {}
    containers = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
    for container in containers:
        if container["name"] == container_name:
            for entry in container.get("env") or ():
                in_file = (entry.get("valueFrom") or {}).get("fileKeyRef")
                if in_file is None:
                    known[entry["name"]] = _value(entry, pod, known)
                elif in_file["key"] in (found := (files or {}).get(in_file["volumeName"], {})):
                    known[entry["name"]] = found[in_file["key"]]
    return known


def _value(entry: Json, pod: Json, known: Mapping[str, str]) -> str:
    reference = (entry.get("valueFrom") or {}).get("fieldRef")
    if reference is None:
        return _REFERENCE.sub(lambda m: "$" if m[1] is None else known.get(m[1], m[0]), entry.get("value") or "")
    path = reference["fieldPath"]
    keyed = _KEYED.fullmatch(path)
    if keyed:
        return str((pod["metadata"].get(keyed[1]) or {}).get(keyed[2], ""))
    if path == "spec.nodeName":
        return str(pod["spec"].get("nodeName", ""))
    return str(pod["metadata"].get(path.removeprefix("metadata."), ""))


def statuses(records: Iterable[ContainerRecord], pod_uid: str, *, is_pod_ending: bool, is_final: bool) -> Json:
    """Write both status lists; the end of a pod is not that of containers behind those that were never reached."""
    every = list(records)
    inits = [r for r in every if r.kind == "initContainerStatuses"]
    reached = max((n for n, r in enumerate(inits) if r.run), default=0)
    is_initialized = all(r.run and (r.exit_code == 0 or not r.is_oneshot) for r in inits)
    ended = {r.name for r in inits[: reached + 1]} | {r.name for r in every if is_initialized}
    found: dict[str, list[Json]] = {"initContainerStatuses": [], "containerStatuses": []}
    for record in every:
        is_over = is_final and record.name in ended
        found[record.kind].append(record.status(pod_uid, is_pod_ending=is_pod_ending, is_final=is_over))
    return {kind: entries for kind, entries in found.items() if entries}
