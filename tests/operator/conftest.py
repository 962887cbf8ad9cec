"""Give the tests a real API server: kubectl and kubeconfig come from the environment variables KUBECTL and KUBECONFIG.

OPERATOR_IMAGE names an image that the nodes have.

Where they are not set, tests marked `cluster` are deselected; where they are set, nothing is skipped.
"""

import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

# This folder cannot be imported as a package: its name is that of a module of the standard library.
sys.path.insert(0, str(Path(__file__).parent))

from live_cluster import REPOSITORY, Kubectl

from support.waiting import until


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("KUBECTL") and os.environ.get("KUBECONFIG"):
        return
    here = Path(__file__).parent
    out = [item for item in items if item.path.is_relative_to(here) and item.get_closest_marker("cluster")]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]


@pytest.fixture(scope="session")
def kubectl() -> Kubectl:
    return Kubectl(program=os.environ["KUBECTL"], kubeconfig=os.environ["KUBECONFIG"])


@pytest.fixture(scope="session")
def crds(kubectl: Kubectl) -> str:
    """Apply the committed CRDs, wait until they are served, and return kubectl's answer."""
    answer = kubectl.must("apply", "--server-side", "--force-conflicts", "-f", str(REPOSITORY / "crds"))
    # No `kubectl wait`: it ends with an error where a new object has no conditions yet.
    until(
        lambda: kubectl.run("get", "ksg,kconn,ckconn", "-A").returncode == 0,
        deadline_s=30,
        what="discovery of the new resources",
    )
    return answer


@pytest.fixture(scope="session")
def namespace(kubectl: Kubectl, crds: str) -> Iterator[str]:
    name = f"staticgroup-api-{uuid.uuid4().hex[:8]}"
    kubectl.must("create", "namespace", name)
    kubectl.must("create", "serviceaccount", "app", "-n", name)
    yield name
    kubectl.run("delete", "ksg,kconn", "--all", "-n", name)
    kubectl.run("delete", "namespace", name, "--wait=false")
