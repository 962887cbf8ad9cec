"""Bring the stage up and down from the command line: `python -m support.scene up NAME`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from support.devcluster.cluster import Cluster
from support.devcluster.kafka_broker import down as kafka_down
from support.devcluster.kafka_broker import leftovers as kafka_leftovers
from support.devcluster.layout import state_root
from support.devcluster.leftovers import leftovers
from support.devcluster.programs import helm_program
from support.devcluster.progress import say
from support.scene.stage import OPERATOR_IMAGE, Stage

USAGE = "usage: python -m support.scene up NAME | down NAME | with-cluster NAME -- COMMAND..."


def up(name: str) -> int:
    """Bring cluster, broker, images and operator up, and say how to reach them."""
    stage = Stage.up(name)
    stage.install()
    state = stage.cluster.state
    print(
        f"export KUBECONFIG={state.kubeconfig}\nexport "
        f"PATH={state.bin_directory}:$PATH\nBOOTSTRAP={stage.brokers.bootstrap}"
    )
    return 0


def down(name: str) -> int:
    """Take the cluster and every broker of its name away; 1 when something is left behind."""
    Cluster(name).down()
    for folder in sorted(state_root().glob(f"kafka-{name}*")):
        kafka_down(folder.name.removeprefix("kafka-"), say)
    left = leftovers(name) + kafka_leftovers(name)
    for each in left:
        print(f"left behind: {each}", file=sys.stderr)
    return 1 if left else 0


def cluster_environment(name: str) -> dict[str, str]:
    """Return the variables by which tests find a running development cluster."""
    state = Cluster.load(name).state
    return {
        "KUBECTL": f"{state.bin_directory}/kubectl", "KUBECONFIG": state.kubeconfig, "HELM": str(helm_program()),
        "OPERATOR_IMAGE": OPERATOR_IMAGE, "CLUSTER": "local",
    }  # fmt: skip


def with_cluster(name: str, command: Sequence[str]) -> int:
    """Run a command with a cluster that has the operator's image and nothing installed; removes it afterwards."""
    try:
        Stage.ground(Cluster(name))
        process = subprocess.Popen(command, env={**os.environ, **cluster_environment(name), "E2E_CLUSTER": name})
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command ends by it, and what it stands on after it
        return process.wait()
    finally:
        down(name)


def main(arguments: Sequence[str]) -> int:
    """Run one verb."""
    match list(arguments):
        case ["up", name]:
            return up(name)
        case ["down", name]:
            return down(name)
        case ["with-cluster", name, "--", *command] if command:
            return with_cluster(name, command)
    print(USAGE, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
