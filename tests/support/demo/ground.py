"""What the demo stands on, from nothing to a running operator, and back to nothing.

The one idea: brokers are new in every run, so that no record and no group of an earlier one is met; the Kubernetes
cluster is kept when asked for, and then only the demo's namespaces are emptied.
"""

from __future__ import annotations

import shutil

from support.demo.role import FILES, Role
from support.demo.roles import ROLES
from support.devcluster.cluster import Cluster
from support.devcluster.kafka_broker import down as kafka_down
from support.devcluster.kafka_broker import leftovers as kafka_leftovers
from support.devcluster.leftovers import leftovers
from support.devcluster.progress import say, step
from support.scene.stage import Stage

CLUSTER = "sg-demo"


def bring_up(role: Role) -> Stage:
    """Bring up cluster, broker, the images of a role and the operator with the chart's default values."""
    kafka_down(CLUSTER, say)
    stage = Stage.up(CLUSTER)
    role.prepare(stage)
    names = sorted({name for each in ROLES.values() for name in each.names})
    with step("empty the namespaces of an earlier run"):
        stage.kubectl("delete", "namespace", *names, "--ignore-not-found", "--timeout=120s")
        _clear_files()
        FILES.mkdir()
    stage.install(**role.chart_values)
    return stage


def _clear_files() -> None:
    shutil.rmtree(FILES, ignore_errors=True)


def take_down() -> list[str]:
    """Take cluster and brokers away, whatever state they are in; return what is left behind, in words."""
    Cluster(CLUSTER).down()
    kafka_down(CLUSTER, say)
    _clear_files()
    files = [f"the folder {FILES}"] if FILES.exists() else []
    return leftovers(CLUSTER) + kafka_leftovers(CLUSTER) + files
