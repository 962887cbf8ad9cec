"""The versions of everything the Kubernetes part is made of.

The one idea: a version is written once. Kubernetes, etcd and Helm are written in `kubernetes/go.mod` (the Go tool
insists on it), and read from there; what has no such file is a constant here. Helm is the newest that was made for the
same minor version of Kubernetes, so that they share most of what is compiled.
"""

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
GO_MODULE = HERE / "kubernetes"

KIND_VERSION = "v0.33.0"


def required_module_version(module: str) -> str:
    """Read the version of a Go module from the go.mod of the cluster's programs.

    Parameters
    ----------
    module: module path, for instance `k8s.io/kubernetes`.

    Returns
    -------
    The version with its leading `v`.
    """
    text = (GO_MODULE / "go.mod").read_text()
    found = re.search(rf"^(?:require )?\s*{re.escape(module)} (v\S+)", text, re.MULTILINE)
    if found is None:
        raise LookupError(f"{module} is not required by {GO_MODULE / 'go.mod'}")
    return found.group(1)


def kubernetes_version() -> str:
    """Return the version of Kubernetes that is built, for instance `v1.36.3`."""
    return required_module_version("k8s.io/kubernetes")


def etcd_version() -> str:
    """Return the version of etcd that is built."""
    return required_module_version("go.etcd.io/etcd/server/v3")


def helm_version() -> str:
    """Return the version of Helm that is built."""
    return required_module_version("helm.sh/helm/v4")
