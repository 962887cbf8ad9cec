"""The stage itself: everything up, images built and loaded, the operator installed from its chart."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from support.devcluster.agent_image import TOOLS as AGENT_TOOLS
from support.devcluster.cache import cache_directory, file_lock
from support.devcluster.cluster import Cluster, NodeWish
from support.devcluster.images import build_image
from support.devcluster.kafka_admin import BrokerAdmin
from support.devcluster.kafka_broker import Brokers
from support.devcluster.kafka_config import BrokerSettings
from support.devcluster.kafka_jars import DEFAULT_VERSION, ensure_jars, ensure_tools
from support.devcluster.machine import ensure_requirements
from support.devcluster.programs import helm_program, programs_directory
from support.devcluster.progress import say, step
from support.drills.api import Api

if TYPE_CHECKING:
    from support.scene.kind_ground import LocalKind, RealKind

REPOSITORY = Path(__file__).parents[3]
CHART = REPOSITORY / "charts" / "staticgroup"
SYSTEM = "staticgroup-system"
RELEASE = "staticgroup"
OPERATOR_IMAGE = "localhost/staticgroup:0.1.0"
WORKLOAD_IMAGE = "localhost/workload:0.1.0"
TWO_NODES = (NodeWish(role="control-plane", labels={}), NodeWish(role="worker", labels={}))


ASKED_DIRECTLY = {
    "pod": "Pod", "pods": "Pod", "lease": "Lease", "statefulset": "StatefulSet", "ksg": "StaticGroup",
    "staticgroup": "StaticGroup",
}  # fmt: skip
"""What tests ask for again and again: starting kubectl each time costs a tenth of a second of a core."""


@contextmanager
def _as_kubectl_says() -> Iterator[None]:
    """Turn an API server that is away into the error that a call of kubectl raises."""
    try:
        yield
    except (OSError, HTTPException) as failed:
        raise RuntimeError(f"the API server did not answer: {failed}") from failed


def build_what_is_missing() -> str:
    """Build the cluster's programs, the broker's jars and both images in parallel; returns the operator's build."""
    ensure_requirements()  # first, since apt-get does one thing at a time
    ensure_tools(say, AGENT_TOOLS)
    with ThreadPoolExecutor() as builders:
        operator = builders.submit(build_image, OPERATOR_IMAGE, REPOSITORY)
        workload = builders.submit(build_image, WORKLOAD_IMAGE, REPOSITORY / "tests" / "support" / "workload")
        jars = builders.submit(ensure_jars, DEFAULT_VERSION, say)
        programs_directory()
        for build in (workload, jars):
            build.result()
        return operator.result().parent.name


@dataclass(slots=True, kw_only=True)
class Stage:
    """A cluster of two nodes, brokers on its host address, and the operator."""

    cluster: Any
    brokers: Brokers
    admin: BrokerAdmin
    values: dict[str, Any] = field(default_factory=dict)
    operator_build: str = ""

    @classmethod
    def up(
        cls, name: str, *, nodes: int = 1, kafka: str | None = None, security: bool = False,
        users: Mapping[str, str] | None = None,
    ) -> Stage:  # fmt: skip
        """Bring the ground up (or attach to it), build and load the images.

        Parameters
        ----------
        name: of the cluster; the brokers are called the same unless `kafka` names others.
        nodes: brokers, 1 or 3.
        """
        operator_build = build_what_is_missing()
        cluster = Cluster(name)
        if not cluster.is_healthy():
            cluster.up(TWO_NODES)
        settings = BrokerSettings(
            name=kafka or name, nodes=nodes, bind=cluster.state.host_address, security=security, users=dict(users or {})
        )
        brokers = Brokers.up(settings, report=say)
        for image in (OPERATOR_IMAGE, WORKLOAD_IMAGE):
            cluster.load_image(image)
        return cls(
            cluster=cluster, brokers=brokers, admin=BrokerAdmin(brokers.bootstrap), operator_build=operator_build
        )

    @classmethod
    def on_kind(cls, ground: RealKind | LocalKind) -> Stage:
        """Build and load the images, and start a broker, for a cluster that is there."""
        build = ground.build(OPERATOR_IMAGE, REPOSITORY)
        ground.build(WORKLOAD_IMAGE, REPOSITORY / "tests" / "support" / "workload")
        for image in (OPERATOR_IMAGE, WORKLOAD_IMAGE):
            ground.load_image(image)
        brokers = Brokers.up(BrokerSettings(name=ground.name, bind=ground.state.host_address), report=say)
        return cls(cluster=ground, brokers=brokers, admin=BrokerAdmin(brokers.bootstrap), operator_build=build)

    @staticmethod
    def ground(cluster: Cluster) -> str:
        """Bring a cluster of two nodes up with the operator's image in them; returns what the image was built from."""
        if not cluster.is_healthy():
            cluster.up(TWO_NODES)
        build = build_image(OPERATOR_IMAGE, REPOSITORY).parent.name
        cluster.load_image(OPERATOR_IMAGE)
        return build

    # kubernetes -----------------------------------------------------------------------------------------------

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl; raises RuntimeError with what it said when it fails."""
        return self.cluster.kubectl(*arguments, stdin=stdin)

    def get(self, kind: str, name: str, namespace: str) -> dict[str, Any] | None:
        """Return one object; None when it does not exist."""
        if kind in ASKED_DIRECTLY and isinstance(self.cluster, Cluster):
            with _as_kubectl_says():
                return Api(cluster=self.cluster).get(ASKED_DIRECTLY[kind], name, namespace) or None
        text = self.kubectl("get", kind, name, "-n", namespace, "--ignore-not-found", "-o", "json")
        return json.loads(text) if text.strip() else None

    def items(self, kind: str, namespace: str, selector: str = "") -> list[dict[str, Any]]:
        """Return the objects of one kind."""
        if kind in ASKED_DIRECTLY and isinstance(self.cluster, Cluster):
            with _as_kubectl_says():
                return Api(cluster=self.cluster).items(ASKED_DIRECTLY[kind], namespace, selector)
        arguments = ["get", kind, "-n", namespace, "-o", "json", *(["-l", selector] if selector else [])]
        found: list[dict[str, Any]] = json.loads(self.kubectl(*arguments))["items"]
        return found

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Apply objects server-side."""
        manifests = yaml.safe_dump_all([dict(o) for o in objects])
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifests)

    def apply_patch(self, kind: str, name: str, namespace: str, change: Mapping[str, Any]) -> None:
        """Change some fields of one object by a merge patch; None takes a field away."""
        self.kubectl("patch", kind, name, "-n", namespace, "--type=merge", "-p", json.dumps(change))

    # operator -------------------------------------------------------------------------------------------------

    def install(self, **values: Any) -> None:
        """Install or upgrade the operator from its chart and wait until it is ready.

        Parameters
        ----------
        values: chart values as nested dictionaries, on top of the local image.
        """
        repository, _, tag = OPERATOR_IMAGE.rpartition(":")
        merged = {"image": {"repository": repository, "tag": tag, "pullPolicy": "Never"}, **values}
        # The tag stays the same when the content changes; the annotation makes the Deployment roll.
        merged["podAnnotations"] = {"staticgroup.io/build": self.operator_build, **values.get("podAnnotations", {})}
        if merged == self.values and self.operator_pods():
            return
        # Workers of one test run may do this at once, and Helm refuses the second one.
        with file_lock(cache_directory() / f".helm-{self.cluster.name}.lock"), step("helm upgrade --install"):
            self.helm(
                "upgrade", "--install", RELEASE, str(CHART), "--namespace", SYSTEM, "--create-namespace",
                # Tests scale the Deployment by hand too, after which its replicas are not Helm's own any more.
                "--force-conflicts",
                # Other tests on this cluster have applied crds/ without Helm.
                "--take-ownership", "--wait", "--timeout", "120s", "--values", "-", stdin=yaml.safe_dump(merged),
            )  # fmt: skip
        self.values = merged

    def helm(self, *arguments: str, stdin: str = "") -> str:
        """Run helm; raises RuntimeError with what it said when it fails."""
        done = subprocess.run(
            [str(helm_program()), f"--kubeconfig={self.cluster.state.kubeconfig}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "HELM_CACHE_HOME": "/tmp/helm-cache"},
        )
        if done.returncode != 0:
            raise RuntimeError(f"helm {arguments[0]}: {done.stderr.strip()}")
        return done.stdout

    def operator_pods(self) -> list[dict[str, Any]]:
        """Return the operator's running pods."""
        try:
            pods = self.items("pods", SYSTEM, "app.kubernetes.io/name=staticgroup")
        except RuntimeError:
            return []
        running = (p for p in pods if p.get("status", {}).get("phase") == "Running")
        return [p for p in running if "deletionTimestamp" not in p["metadata"]]

    def lease_holder(self) -> str:
        """Return the pod name of the active replica; "" when the Lease has no holder."""
        return str(self.lease().get("spec", {}).get("holderIdentity") or "")

    def lease(self) -> dict[str, Any]:
        """Return the Lease of the operator; {} when there is none."""
        return self.get("lease", f"{RELEASE}-operator", SYSTEM) or {}

    def watch_name(self) -> str:
        """Return the name of the pod watch as the active replica stored it last; "" when it stored none."""
        return self._watch()[1]

    def watch_version(self) -> int:
        """Return the resourceVersion that the active replica stored last with that name; 0 when it stored none."""
        return self._watch()[0]

    def _watch(self) -> tuple[int, str]:
        stored = self.lease().get("metadata", {}).get("annotations", {}).get("staticgroup.io/watch-position", "{}")
        version, name = json.loads(stored).get("", (0, ""))
        return int(version), str(name)

    def operator_restarts(self) -> dict[str, int]:
        """Return pod UID to restart count of the operator's pods, to show that nothing was restarted meanwhile."""
        return {
            p["metadata"]["uid"]: sum(s["restartCount"] for s in p["status"].get("containerStatuses", []))
            for p in self.operator_pods()
        }

    def operator_processes(self) -> dict[str, list[int]]:
        """Return the host pids of each operator pod's containers, by pod name."""
        return {p["metadata"]["name"]: self.cluster.pod_processes(p["metadata"]["uid"]) for p in self.operator_pods()}

    def operator_logs(self) -> str:
        """Return the logs of all operator pods, for a failed test's report."""
        names = [pod["metadata"]["name"] for pod in self.operator_pods()]
        return "\n".join(f"== {name}\n{self.kubectl('logs', '-n', SYSTEM, name, '--tail=2000')}" for name in names)
