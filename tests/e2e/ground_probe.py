"""Probe pods on the development cluster, and calls of its `kind` command."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from support.devcluster import kind_commands
from support.devcluster.cluster import Cluster
from support.devcluster.progress import await_condition

KIND = Path(kind_commands.__file__).with_name("kind")

IMAGE = "localhost/ground-probe:test"

PROBE = """
import os, socket, ssl, sys, time, urllib.request
if "API_PATH" in os.environ:
    account = "/var/run/secrets/kubernetes.io/serviceaccount"
    context = ssl.create_default_context(cafile=account + "/ca.crt")
    request = urllib.request.Request("https://10.96.0.1" + os.environ["API_PATH"])
    request.add_header("Authorization", "Bearer " + open(account + "/token").read())
    print("answer:", urllib.request.urlopen(request, timeout=10, context=context).read().decode(), flush=True)
if "GET" in os.environ:
    print("got:", urllib.request.urlopen(os.environ["GET"], timeout=10).read().decode(), flush=True)
if "SERVE" in os.environ:
    from http.server import BaseHTTPRequestHandler, HTTPServer
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(os.environ["SERVE"].encode())
    HTTPServer(("", 8080), Handler).serve_forever()
if "HOST" in os.environ:
    host, port = os.environ["HOST"].split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        print("heard:", connection.recv(100).decode(), flush=True)
time.sleep(100000)
"""

PYTEST_KIND_TEST = """
from pykube import Pod
def test_fixture(kind_cluster):
    assert "control-plane" in kind_cluster.kubectl("get", "nodes")
    kind_cluster.load_docker_image("%s")
    kind_cluster.kubectl("run", "p", "--image=%s", "--image-pull-policy=Never")
    kind_cluster.kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=60s")
    assert [pod.name for pod in Pod.objects(kind_cluster.api)] == ["p"]
    with kind_cluster.port_forward("pod/p", 1234, retries=1) as port:
        assert port > 0
"""


def run_pod(cluster: Cluster, name: str, *, role: str = "worker", **environment: str) -> dict[str, Any]:
    """Create a probe pod on a node and return it once it runs."""
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"pod": name}},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": f"{cluster.name}-{role}"},
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "probe", "image": IMAGE, "imagePullPolicy": "Never",
                "env": [{"name": key, "value": value} for key, value in environment.items()],
            }],
        },
    }  # fmt: skip
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    cluster.kubectl("wait", "--for=jsonpath={.status.phase}=Running", f"pod/{name}", "--timeout=60s")
    return read_pod(cluster, name)


def read_pod(cluster: Cluster, name: str) -> dict[str, Any]:
    pod: dict[str, Any] = json.loads(cluster.kubectl("get", "pod", name, "-o", "json"))
    return pod


def delete_pod(cluster: Cluster, name: str) -> None:
    cluster.kubectl("delete", "pod", name, "--wait=true", "--timeout=60s")


def await_log(cluster: Cluster, pod: str, text: str) -> str:
    """Wait until `kubectl logs` of a pod contains a text, and return the log."""
    await_condition(f"{text!r} in the log of {pod}", lambda: text in cluster.kubectl("logs", pod), 30.0, poll_s=0.3)
    return cluster.kubectl("logs", pod)


def kind(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(KIND), *arguments], capture_output=True, text=True, check=False, cwd="/",
        env={**os.environ, "CLUSTER": "local", **environment},
    )  # fmt: skip


def write_kubeconfig(directory: Path, *names: str) -> Path:
    """Write a kubeconfig with a context per name; the first one is current."""
    path = directory / "kubeconfig"
    path.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": names[0],
        "clusters": [{"name": name, "cluster": {"server": "https://127.0.0.1:1"}} for name in names],
        "users": [{"name": name, "user": {"token": "none"}} for name in names],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in names],
    }))  # fmt: skip
    return path


def contexts(kubeconfig: Path) -> tuple[str, list[str]]:
    """Return the current context and the names of all."""
    content = yaml.safe_load(kubeconfig.read_text())
    return content["current-context"], sorted(context["name"] for context in content["contexts"])


def await_log_of_finished(cluster: Cluster, pod: str, text: str) -> None:
    cluster.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", f"pod/{pod}", "--timeout=60s")
    assert cluster.kubectl("logs", pod) == text
