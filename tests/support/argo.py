"""Argo Rollouts: its own controller, built from its Go module, and Rollouts of real consumers.

The controller runs as a process beside the cluster, with the rights of system:masters; what it makes of a Rollout does
not depend on where it runs.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from staticgroup.api.workloads import ARGO_ROLLOUT
from support.devcluster.cache import built
from support.devcluster.kafka_log import now_ms
from support.devcluster.node import now_rfc3339
from support.devcluster.process import Process, run
from support.devcluster.programs import run_go
from support.fault_proxy.free_port import free_port
from support.scene.stage import Stage
from support.slots import READY_S, DeploymentPlay
from support.waiting import until

VERSION: Final = "v1.8.3"
MODULE: Final = "github.com/argoproj/argo-rollouts"
API_VERSION = f"{ARGO_ROLLOUT.group}/v1alpha1"
PLURAL: Final = f"{ARGO_ROLLOUT.plural}.{ARGO_ROLLOUT.group}"


def controller_directory() -> Path:
    """Return the directory with `rollouts-controller` and its `crds`; build it first when it is missing."""

    def build(directory: Path) -> None:
        # Its go.mod has replace directives, which count only where it is the main module, so it is built in its place.
        module = Path(json.loads(run(["go", "mod", "download", "-json", f"{MODULE}@{VERSION}"]))["Dir"])
        run_go(["build", "-trimpath", "-ldflags=-s -w", "-o", f"{directory}/", "./cmd/rollouts-controller"],
               f"build Argo Rollouts {VERSION} (3 to 10 minutes when the Go cache is empty)", module, {})  # fmt: skip
        (directory / "crds").mkdir()
        for path in module.glob("manifests/crds/*-crd.yaml"):
            shutil.copyfile(path, directory / "crds" / path.name)

    return built(f"argo-rollouts-{VERSION}", build)


@contextmanager
def argo_rollouts(stage: Stage, directory: Path) -> Iterator[None]:
    """Have Argo's CustomResourceDefinitions and its controller meanwhile; its log is below an empty directory."""
    programs = controller_directory()
    crds = [f"--filename={path}" for path in sorted((programs / "crds").iterdir())]
    controller = Process(name="argo-rollouts", directory=directory)
    stage.kubectl("apply", "--server-side", *crds)
    try:
        stage.kubectl("wait", "--for=condition=Established", "--timeout=60s", *crds)
        controller.start([
            programs / "rollouts-controller", f"--kubeconfig={stage.cluster.state.kubeconfig}", "--leader-elect=false",
            f"--metricsport={free_port()}", f"--healthzPort={free_port()}",
        ])  # fmt: skip
        yield
    finally:
        controller.stop()
        stage.kubectl("delete", "--wait=false", *crds)


class ArgoPlay(DeploymentPlay):
    """Consumers of one group in a Rollout of Argo."""

    def static_group(self, **spec: Any) -> dict[str, Any]:
        """Return the StaticGroup of the Rollout."""
        ref = {"apiVersion": API_VERSION, "kind": ARGO_ROLLOUT.kind, "name": self.name}
        return super().static_group(**{"workloadRef": ref, **spec})

    def deployment(self, replicas: int, **workload: Any) -> dict[str, Any]:
        """Return the Rollout, by default a canary without steps; what is None of its spec is left out."""
        made = super().deployment(replicas, **{"strategy": {"canary": {}}, **workload})
        spec = {key: value for key, value in made["spec"].items() if value is not None}
        return made | {"apiVersion": API_VERSION, "kind": ARGO_ROLLOUT.kind, "spec": spec}

    def service(self) -> dict[str, Any]:
        """Return a Service of the pods, which a strategy of two colours needs."""
        return {
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": self.name, "namespace": self.name},
            "spec": {"selector": {"app": self.name}, "ports": [{"port": 80}]},
        }  # fmt: skip

    def scale(self, replicas: int) -> None:
        """Set spec.replicas."""
        self.stage.kubectl("scale", f"{PLURAL}/{self.name}", "-n", self.name, f"--replicas={replicas}")

    def change_template(self, kind: str = PLURAL) -> None:
        """Begin a roll; `kind` is what has the template."""
        note = {"metadata": {"annotations": {"test/note": str(now_ms())}}}
        self.stage.apply_patch(kind, self.name, self.name, {"spec": {"template": note}})

    def restart(self) -> None:
        """Have each pod evicted, as `kubectl argo rollouts restart` does."""
        self.stage.apply_patch(PLURAL, self.name, self.name, {"spec": {"restartAt": now_rfc3339()}})

    def promote(self) -> None:
        """Go on behind a pause, as `kubectl argo rollouts promote` does."""
        self.stage.kubectl(
            "patch", PLURAL, self.name, "-n", self.name, "--subresource=status", "--type=merge",
            "-p", '{"status": {"pauseConditions": null}}',
        )  # fmt: skip

    def await_phase(self, phase: str, deadline_s: float = READY_S) -> dict[str, Any]:
        """Wait until the controller says so of the newest generation; returns the status."""

        def found() -> dict[str, Any] | None:
            shown = self.stage.get(PLURAL, self.name, self.name) or {}
            status: dict[str, Any] = shown.get("status", {})
            is_new = status.get("observedGeneration") == str(shown["metadata"]["generation"])
            return status if is_new and status.get("phase") == phase else None

        return until(found, deadline_s=deadline_s, what=f"{self.name} {phase}", poll_s=0.3)

    def uids(self) -> set[str]:
        """Return the uids of the pods that are there."""
        return {pod["metadata"]["uid"] for pod in self.pods()}

    def await_gone(self, uids: set[str], deadline_s: float = READY_S) -> None:
        """Wait until none of these pods is left."""
        until(lambda: not uids & self.uids(), deadline_s=deadline_s, what=f"old pods of {self.name} gone", poll_s=0.3)

    def roll(self, deadline_s: float = READY_S) -> None:
        """Change the template and wait until no pod of before is left, and the controller is done."""
        before = self.uids()
        self.change_template()
        self.await_gone(before, deadline_s)
        self.await_phase("Healthy")
