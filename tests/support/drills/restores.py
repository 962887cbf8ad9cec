"""A backup of etcd, and its restore: the API server goes back in time while kubelets, pods and operators go on."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.devcluster.cluster import Cluster
from support.devcluster.control_plane import ControlPlane
from support.devcluster.process import run
from support.devcluster.programs import etcdutl_program


def back_up(cluster: Cluster) -> Path:
    """Copy etcd's data while it is stopped for a moment; returns the copy's path below the cluster's directory."""
    plane = ControlPlane(state=cluster.state)
    plane.process("etcd").stop()
    copy = plane.directory / "etcd-backup"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(plane.directory / "etcd", copy)
    plane.start_server()
    plane.await_server()
    return copy


def restore(cluster: Cluster, copy: Path, *, raised_by: int = 0) -> None:
    """Put a copy of etcd's data in the place of the present one, with the whole control plane started afresh on it.

    Parameters
    ----------
    raised_by: so much is added to the copy's revision, and what lies before is compacted, as etcd describes it for
        Kubernetes; 0: nothing.
    """
    plane = ControlPlane(state=cluster.state)
    for name in ("kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"):
        plane.process(name).stop(grace_s=0)
    shutil.rmtree(plane.directory / "etcd")
    if raised_by:
        run([
            etcdutl_program(), "snapshot", "restore", copy / "member/snap/db", f"--data-dir={plane.directory}/etcd",
            "--skip-hash-check",
            f"--bump-revision={raised_by}", "--mark-compacted", "--initial-cluster=default=http://127.0.0.1:2380",
            "--initial-advertise-peer-urls=http://127.0.0.1:2380",
        ])  # fmt: skip
    else:
        shutil.copytree(copy, plane.directory / "etcd")
    plane.start_server()
    plane.await_server()
    plane.start_controllers()
