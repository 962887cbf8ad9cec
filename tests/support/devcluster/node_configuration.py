"""The configuration files of one node: containerd, CNI, kubelet, kube-proxy.

The one idea: everything a node writes goes below its own directory, so that two nodes (and two clusters) share nothing
and deleting is removing one tree.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .apiserver_client import ApiServerClient, write_private_json
from .cgroups import PODS
from .layout import ClusterState, NodeRecord
from .machine import CNI_PROGRAMS

# containerd's own root has the images, state what a reboot of the machine would lose.
CONTAINERD_STATE = "containerd/state"

_CONTAINERD = """\
version = 2
root = "{directory}/containerd/root"
state = "{directory}/containerd/state"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{directory}/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause_image}"
  disable_apparmor = true
  # Lowering oom_score_adj needs CAP_SYS_RESOURCE, which root in a container or small VM may lack.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni_programs}"
    conf_dir = "{directory}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
        Root = "{directory}/containerd/state/runc"
"""


def cni_network_name(state: ClusterState) -> str:
    """Return the name under which CNI keeps results in its machine-wide cache."""
    return f"sg-{state.id}"


def write_configuration(
    state: ClusterState, node: NodeRecord, pause_image: str, client: ApiServerClient | None
) -> None:
    """Write a node's configuration files.

    Parameters
    ----------
    state, node: the cluster and its node.
    pause_image: reference of the imported pause image.
    client: a client with the node's own token, for the kubeconfig; None while there is no API server yet.
    """
    directory = Path(node.directory)
    (directory / "cni").mkdir(parents=True, exist_ok=True)
    (directory / "containerd.toml").write_text(
        _CONTAINERD.format(
            directory=directory, socket=node.containerd_socket, pause_image=pause_image, cni_programs=CNI_PROGRAMS
        )
    )
    _write_json(directory / "cni/10-pods.conflist", _cni(state, node))
    _write_json(directory / "kubelet.json", _kubelet(node))
    _write_json(directory / "kube-proxy.json", _kube_proxy(state, node))
    # No DNS is served. A name server that refuses at once beats one that never answers.
    (directory / "resolv.conf").write_text(f"nameserver {node.address}\n")
    if client is not None:
        write_private_json(directory / "kubeconfig", client.kubeconfig(node.name))


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")


def _cni(state: ClusterState, node: NodeRecord) -> dict[str, Any]:
    addresses = {
        "type": "host-local", "dataDir": f"{node.directory}/cni-addresses", "ranges": [[{"subnet": node.pod_subnet}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }  # fmt: skip
    return {
        "cniVersion": "0.4.0", "name": cni_network_name(state),
        "plugins": [{"type": "ptp", "ipMasq": False, "ipam": addresses}],
    }  # fmt: skip


def _kubelet(node: NodeRecord) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{node.containerd_socket}",
        "address": node.address,
        "podLogsDir": f"{node.directory}/pod-logs",
        "volumePluginDir": f"{node.directory}/volume-plugins",
        "resolvConf": f"{node.directory}/resolv.conf",
        "clusterDomain": "cluster.local",
        "clusterDNS": [node.address],
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.cgroup}/{PODS}",
        "failCgroupV1": False,
        "enforceNodeAllocatable": ["none"],
        # A laboratory shares its machine: never evict, never collect images, never fail on swap.
        "evictionHard": {
            "memory.available": "50Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%",
        },
        "imageGCHighThresholdPercent": 100, "localStorageCapacityIsolation": False, "failSwapOn": False,
        "oomScoreAdj": 0, "maxOpenFiles": 20000, "makeIPTablesUtilChains": False, "nodeStatusUpdateFrequency": "2s",
        "nodeLeaseDurationSeconds": 4, "shutdownGracePeriod": "0s",
        # Only this machine reaches the bridge.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
    }  # fmt: skip


def _kube_proxy(state: ClusterState, node: NodeRecord) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "iptables",
        "clientConnection": {"kubeconfig": state.kubeconfig}, "clusterCIDR": state.subnet,
        "hostnameOverride": node.name,
        # conntrack's limits belong to the machine and cannot be set from a network namespace.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }  # fmt: skip
