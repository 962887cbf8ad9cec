"""The ground itself: a real Kubernetes on this machine behaves as the other end-to-end tests need it to.

Everything here runs against real processes; each wait is on a condition with a deadline.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.ground_probe import (
    IMAGE,
    KIND,
    PROBE,
    PYTEST_KIND_TEST,
    await_log,
    await_log_of_finished,
    contexts,
    delete_pod,
    kind,
    read_pod,
    run_pod,
    write_kubeconfig,
)
from support.devcluster import versions
from support.devcluster.cluster import Cluster, NodeWish, pod_processes
from support.devcluster.images import build_image
from support.devcluster.leftovers import leftovers
from support.devcluster.machine import mounts_below
from support.devcluster.programs import programs_directory
from support.devcluster.progress import await_condition

pytestmark = [
    pytest.mark.e2e, pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="the development cluster needs root"),
]  # fmt: skip

TWO_NODES = (NodeWish(role="control-plane", labels={}), NodeWish(role="worker", labels={"zone": "b"}))


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small Python image; pip inside its build proves that the build reaches the package index."""
    context = tmp_path_factory.mktemp("probe")
    (context / "probe.py").write_text(PROBE)
    (context / "Dockerfile").write_text(
        "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\n"
        "RUN python3 -m venv /venv && /venv/bin/pip install --quiet iniconfig\n"
        'COPY probe.py /probe.py\nENTRYPOINT ["/venv/bin/python", "/probe.py"]\n'
    )
    build_image(IMAGE, context)
    return IMAGE


@pytest.fixture(scope="module")
def cluster(image: str) -> Iterator[Cluster]:
    """A cluster of two nodes with the probe image in both."""
    ground = Cluster("ground")
    ground.down()
    ground.up(TWO_NODES)
    ground.load_image(image)
    yield ground
    ground.down()
    assert leftovers("ground") == []


def test_path_names_programs_of_the_versions_that_are_pinned() -> None:
    kubectl, helm = (kind("path", name).stdout.strip() for name in ("kubectl", "helm"))
    client = subprocess.run([kubectl, "version", "--client", "-o", "json"], capture_output=True, text=True, check=True)
    assert json.loads(client.stdout)["clientVersion"]["gitVersion"] == versions.kubernetes_version()
    helm_client = subprocess.run([helm, "version", "--short"], capture_output=True, text=True, check=True)
    assert helm_client.stdout.startswith(versions.helm_version())


def test_kinds_verbs_work_from_anywhere_and_get_clusters_prints_names_only(cluster: Cluster) -> None:
    listed = kind("get", "clusters")
    assert listed.returncode == 0, listed.stderr
    assert cluster.name in listed.stdout.splitlines()
    assert all(line.replace("-", "").isalnum() for line in listed.stdout.splitlines())
    assert kind("get", "nodes", "--name", cluster.name).stdout.split() == ["ground-control-plane", "ground-worker"]
    again = kind("create", "cluster", "--name", cluster.name)
    assert again.returncode == 1
    assert "already exist" in again.stderr
    missing = kind("load", "docker-image", "--name", cluster.name, "localhost/never-built:1")
    assert missing.returncode == 1
    assert "never-built" in missing.stderr


def test_nodes_are_ready_with_identities_of_their_own(cluster: Cluster) -> None:
    nodes = json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"]
    identities = {node["metadata"]["name"]: node["status"]["nodeInfo"] for node in nodes}
    assert sorted(identities) == ["ground-control-plane", "ground-worker"]
    assert len({identity["machineID"] for identity in identities.values()}) == 2
    assert len({identity["systemUUID"] for identity in identities.values()}) == 2
    assert {name: identity["bootID"] for name, identity in identities.items()} == {
        node.name: node.boot_id for node in cluster.nodes
    }
    assert all(cluster.client.node_is_ready(name) for name in identities)
    assert nodes[1]["metadata"]["labels"]["zone"] == "b"


def test_mutating_admission_policy_v1_is_served(cluster: Cluster) -> None:
    served = cluster.client.request("GET", "/apis/admissionregistration.k8s.io/v1")
    assert "mutatingadmissionpolicies" in {resource["name"] for resource in served["resources"]}


@pytest.mark.parametrize("role", ["control-plane", "worker"])
def test_pod_reaches_the_api_server_by_its_service_address(cluster: Cluster, role: str) -> None:
    run_pod(cluster, f"api-{role}", role=role, API_PATH="/version")
    assert "v1." in await_log(cluster, f"api-{role}", "answer:")
    delete_pod(cluster, f"api-{role}")


def test_service_reaches_its_pod_from_both_nodes_and_from_itself(cluster: Cluster) -> None:
    run_pod(cluster, "server", SERVE="the word")
    cluster.kubectl("expose", "pod", "server", "--port=80", "--target-port=8080")
    address = cluster.kubectl("get", "service", "server", "-o", "jsonpath={.spec.clusterIP}")
    for role in ("control-plane", "worker"):
        run_pod(cluster, f"client-{role}", role=role, GET=f"http://{address}/")
        await_log(cluster, f"client-{role}", "got: the word")
        delete_pod(cluster, f"client-{role}")
    fetch = f"import urllib.request as r; print(r.urlopen('http://{address}/', timeout=10).read().decode())"
    assert cluster.kubectl("exec", "server", "--", "/venv/bin/python", "-c", fetch) == "the word\n"
    cluster.kubectl("delete", "service", "server")
    delete_pod(cluster, "server")


def test_pod_reaches_the_host_address_and_is_seen_under_its_own(cluster: Cluster) -> None:
    with socket.create_server((cluster.state.host_address, 0)) as listener:
        listener.settimeout(60)
        host, port = listener.getsockname()
        pod = run_pod(cluster, "caller", HOST=f"{host}:{port}")
        connection, peer = listener.accept()
        with connection:
            connection.sendall(b"well met")
    assert peer[0] == pod["status"]["podIP"]
    await_log(cluster, "caller", "heard: well met")
    delete_pod(cluster, "caller")


def test_pod_processes_are_those_of_the_containers_and_vanish_with_them(cluster: Cluster) -> None:
    uid = run_pod(cluster, "counted")["metadata"]["uid"]
    pids = pod_processes(cluster.name, uid)
    assert [Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1] for pid in pids] == [b"/probe.py"]
    delete_pod(cluster, "counted")
    assert pod_processes(cluster.name, uid) == []


def test_killed_container_is_restarted_by_the_kubelet(cluster: Cluster) -> None:
    uid = run_pod(cluster, "crashing")["metadata"]["uid"]
    (pid,) = cluster.pod_processes(uid)
    cluster.node("worker").kill_pod(uid)

    def has_restarted() -> bool:
        return bool(read_pod(cluster, "crashing")["status"]["containerStatuses"][0]["restartCount"] == 1)

    await_condition("a restart", has_restarted, 60.0, poll_s=0.3)
    await_condition("a new process", lambda: cluster.pod_processes(uid) not in ([], [pid]), 30.0)
    delete_pod(cluster, "crashing")


def test_frozen_node_turns_not_ready_while_the_pods_process_lives_on(cluster: Cluster) -> None:
    """A zombie: the object is force-deleted, the process runs until the kubelet learns of it."""
    uid = run_pod(cluster, "zombie")["metadata"]["uid"]
    worker = cluster.node("worker")
    pids = cluster.pod_processes(uid)
    worker.freeze()
    try:
        await_condition("NotReady", lambda: not cluster.client.node_is_ready(worker.name), 30.0)
        cluster.kubectl("delete", "pod", "zombie", "--force", "--grace-period=0", "--wait=false")
        await_condition("no object", lambda: not cluster.client.has("/api/v1/namespaces/default/pods/zombie"), 10.0)
        assert cluster.pod_processes(uid) == pids
        assert cluster.is_healthy(), "a frozen kubelet is not a dead one"
    finally:
        worker.thaw()
    await_condition("Ready", lambda: cluster.client.node_is_ready(worker.name), 30.0)
    await_condition("the orphan to be killed", lambda: cluster.pod_processes(uid) == [], 30.0)


def test_unplugged_node_turns_not_ready_and_returns_when_plugged(cluster: Cluster) -> None:
    uid = run_pod(cluster, "islander")["metadata"]["uid"]
    worker = cluster.node("worker")
    pids = cluster.pod_processes(uid)
    worker.unplug()
    try:
        await_condition("NotReady", lambda: not cluster.client.node_is_ready(worker.name), 30.0)
        assert cluster.pod_processes(uid) == pids
    finally:
        worker.plug()
    await_condition("Ready", lambda: cluster.client.node_is_ready(worker.name), 60.0)
    cluster.kubectl("delete", "pod", "islander", "--ignore-not-found", "--wait=true", "--timeout=60s")
    await_condition("the islander to end", lambda: cluster.pod_processes(uid) == [], 30.0)


def test_rebooted_node_kills_its_pods_and_reports_a_new_boot_id(cluster: Cluster) -> None:
    uid = run_pod(cluster, "rebooted")["metadata"]["uid"]
    worker = cluster.node("worker")

    def identity() -> dict[str, str]:
        node = cluster.client.request("GET", f"/api/v1/nodes/{worker.name}")
        return dict(node["status"]["nodeInfo"])

    before, pids = identity(), set(cluster.pod_processes(uid))
    worker.power_off()
    assert cluster.pod_processes(uid) == []
    assert mounts_below(worker.directory) == []
    worker.power_on()
    await_condition("the new boot id", lambda: identity()["bootID"] == worker.boot_id, 30.0)
    assert worker.boot_id != before["bootID"]
    assert [identity()[key] for key in ("machineID", "systemUUID")] == [
        before[key] for key in ("machineID", "systemUUID")
    ]
    # The same pod object gets a new process, on a network that works.
    await_condition("the pod's new process", lambda: set(cluster.pod_processes(uid)) - pids != set(), 60.0)
    assert read_pod(cluster, "rebooted")["metadata"]["uid"] == uid
    run_pod(cluster, "after-reboot", API_PATH="/version")
    await_log(cluster, "after-reboot", "answer:")
    for pod in ("rebooted", "after-reboot"):
        delete_pod(cluster, pod)


def test_node_is_added_used_and_removed_with_its_object(cluster: Cluster, image: str) -> None:
    assert kind("node", "add", "worker2", "--name", cluster.name).returncode == 0
    cluster.load_image(image)
    uid = run_pod(cluster, "guest", role="worker2", API_PATH="/version")["metadata"]["uid"]
    await_log(cluster, "guest", "answer:")
    directory = cluster.node("worker2").directory
    removed = kind("node", "remove", "ground-worker2", "--name", cluster.name)
    assert removed.returncode == 0, removed.stderr
    assert cluster.pod_processes(uid) == []
    assert not cluster.client.has("/api/v1/nodes/ground-worker2")
    assert not directory.exists()
    assert [node.record.role for node in cluster.nodes] == ["control-plane", "worker"]


def test_unchanged_image_is_not_built_again_and_a_changed_one_is_loaded(cluster: Cluster, tmp_path: Path) -> None:
    tag = "localhost/ground-changing:test"
    (tmp_path / "Dockerfile").write_text('ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY word /word\nCMD ["cat", "/word"]\n')
    (tmp_path / "word").write_text("first")
    first = build_image(tag, tmp_path)
    stamp = first.stat().st_mtime_ns
    assert (build_image(tag, tmp_path), first.stat().st_mtime_ns) == (first, stamp)
    (tmp_path / "word").write_text("second")
    assert build_image(tag, tmp_path) != first
    assert kind("load", "docker-image", "--name", cluster.name, tag).returncode == 0
    cluster.kubectl("run", "speaker", f"--image={tag}", "--image-pull-policy=Never", "--restart=Never")
    await_log_of_finished(cluster, "speaker", "second")
    delete_pod(cluster, "speaker")


def test_create_repairs_whatever_was_killed_and_pods_survive_it(cluster: Cluster, tmp_path: Path) -> None:
    uid = run_pod(cluster, "survivor")["metadata"]["uid"]
    pids = cluster.pod_processes(uid)
    for process in cluster.processes:
        assert process.signal(signal.SIGKILL), process.name
    await_condition("all to be dead", lambda: not any(process.pid() for process in cluster.processes), 10.0)
    assert cluster.name not in kind("get", "clusters").stdout.split()
    kubeconfig = write_kubeconfig(tmp_path, "elsewhere")
    repaired = kind("create", "cluster", "--name", cluster.name, "--kubeconfig", str(kubeconfig))
    assert repaired.returncode == 0, repaired.stderr
    assert contexts(kubeconfig) == ("kind-ground", ["elsewhere", "kind-ground"])
    assert cluster.is_healthy()
    assert cluster.pod_processes(uid) == pids
    assert read_pod(cluster, "survivor")["metadata"]["uid"] == uid
    run_pod(cluster, "after-repair", API_PATH="/version")
    await_log(cluster, "after-repair", "answer:")
    for pod in ("survivor", "after-repair"):
        delete_pod(cluster, pod)


def test_two_clusters_run_side_by_side(cluster: Cluster, image: str) -> None:
    other = Cluster("ground-twin").up()
    try:
        other.load_image(image)
        assert other.state.subnet != cluster.state.subnet
        for one in (cluster, other):
            # Same service address, different servers: each answer is verified with the CA of the pod's own cluster.
            run_pod(one, "twin", role=one.nodes[-1].record.role, API_PATH="/version")
            await_log(one, "twin", "answer:")
        assert {cluster.name, other.name} <= set(kind("get", "clusters").stdout.split())
    finally:
        other.down()
    assert leftovers("ground-twin") == []
    assert cluster.is_healthy(), "deleting one cluster must not touch the other"
    delete_pod(cluster, "twin")


def test_second_create_is_fast_and_delete_leaves_nothing() -> None:
    name = "ground-again"
    Cluster(name).down()
    started = time.monotonic()
    again = Cluster(name).up()
    took_s = time.monotonic() - started
    print(f"second create: {took_s:.1f} s")
    try:
        assert again.is_healthy()
        found = leftovers(name)
        # The check can fail: a running cluster is full of what it finds.
        kinds = {"process", "cgroup", "mount", "interface", "network", "route", "directory"}
        assert kinds <= {line.split()[0] for line in found}
    finally:
        again.down()
    assert leftovers(name) == []
    assert took_s <= 60


def test_create_that_was_killed_half_way_is_finished_by_the_next_one() -> None:
    name = "ground-half"
    half = subprocess.Popen([str(KIND), "create", "cluster", "--name", name, "--kubeconfig", os.devnull],
                            env={**os.environ, "CLUSTER": "local"}, stderr=subprocess.DEVNULL)  # fmt: skip
    cluster = Cluster(name)
    await_condition("etcd", (cluster.directory / "pid/etcd").exists, 60.0, poll_s=0.01)
    half.kill()
    half.wait()
    assert not cluster.is_healthy()
    try:
        assert cluster.up().is_healthy()
        assert "Ready" in cluster.kubectl("get", "nodes")
    finally:
        cluster.down()
    assert leftovers(name) == []


@pytest.mark.parametrize("is_state_lost", [False, True], ids=["state kept", "state lost"])
def test_delete_cleans_up_after_a_crash(image: str, is_state_lost: bool, tmp_path: Path) -> None:
    name = "ground-crash"
    crashed = Cluster(name).up()
    crashed.load_image(image)
    run_pod(crashed, "orphan", role="control-plane")
    for process in crashed.processes:
        process.signal(signal.SIGKILL)
    if is_state_lost:
        (crashed.directory / "state.json").unlink()
    assert any("process" in line for line in leftovers(name)), "the pod's processes must be left to clean up"
    kubeconfig = write_kubeconfig(tmp_path, "elsewhere", f"kind-{name}")
    deleted = kind("delete", "cluster", "--name", name, "--kubeconfig", str(kubeconfig))
    assert deleted.returncode == 0, deleted.stderr
    assert is_state_lost or contexts(kubeconfig) == ("elsewhere", ["elsewhere"])
    assert leftovers(name) == []


def test_process_record_of_another_process_is_never_believed(cluster: Cluster) -> None:
    """Pids are used again: a record counts only with the start time of the process that wrote it."""
    process = cluster.node("worker").process("kube-proxy")
    written = process.record.read_text()
    _, ticks, boot_id = written.split()
    try:
        process.record.write_text(f"{os.getpid()} {ticks} {boot_id}\n")
        assert process.pid() is None
        assert process.signal(signal.SIGTERM) is False
    finally:
        process.record.write_text(written)
    assert process.pid() is not None


def test_pytest_kinds_unmodified_fixture_runs_on_it(image: str, tmp_path: Path) -> None:
    (tmp_path / "test_inner.py").write_text(PYTEST_KIND_TEST % (image, image))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    inner = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_inner.py", "--cluster-name=ground-pk",
         "--kind-bin", KIND, "--kind-kubectl-bin", programs_directory() / "kubectl"],
        cwd=tmp_path, env={**os.environ, "CLUSTER": "local"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert inner.returncode == 0, inner.stdout + inner.stderr
    assert "1 passed" in inner.stdout
    assert leftovers("ground-pk") == []
