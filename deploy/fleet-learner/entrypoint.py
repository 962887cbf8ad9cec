"""Start what a container of the fleet learner is to be: a Spark executor, a Spark driver, or the command line itself.

The one idea: Spark on Kubernetes says by the container's first argument what it wants, and by the environment all the
rest; this turns both into one command and becomes it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

_BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_JAVA_OPTION = "SPARK_JAVA_OPT_"


def command(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the command for a container's arguments.

    Parameters
    ----------
    arguments: `executor`; `driver` and spark-submit's own arguments; or those of `fleet-learner`.
    environment: as Spark's BasicExecutorFeatureStep and BasicDriverFeatureStep fill it.

    Raises
    ------
    KeyError
        When a variable is missing that Spark always sets.
    """
    match list(arguments):
        case ["executor", *_]:
            return _executor(environment)
        case ["driver", *rest]:
            bind = f"spark.driver.bindAddress={environment['SPARK_DRIVER_BIND_ADDRESS']}"
            return [f"{environment['SPARK_HOME']}/bin/spark-submit", "--deploy-mode", "client", "--conf", bind, *rest]
        case others:
            return [sys.executable, "-m", "fleet_learner", *others]


def _executor(environment: Mapping[str, str]) -> list[str]:
    numbered = {
        int(name.removeprefix(_JAVA_OPTION)): value
        for name, value in environment.items()
        if name.startswith(_JAVA_OPTION)
    }
    memory = environment["SPARK_EXECUTOR_MEMORY"]
    home = environment["SPARK_HOME"]
    extra = environment.get("SPARK_CLASSPATH", "")
    return [
        f"{environment['JAVA_HOME']}/bin/java",
        *(numbered[number] for number in sorted(numbered)),
        f"-Xms{memory}",
        f"-Xmx{memory}",
        "-cp",
        ":".join(part for part in (f"{home}/conf", extra, f"{home}/jars/*") if part),
        _BACKEND,
        "--driver-url",
        environment["SPARK_DRIVER_URL"],
        "--executor-id",
        environment["SPARK_EXECUTOR_ID"],
        "--cores",
        environment["SPARK_EXECUTOR_CORES"],
        "--app-id",
        environment["SPARK_APPLICATION_ID"],
        "--hostname",
        environment["SPARK_EXECUTOR_POD_IP"],
        "--resourceProfileId",
        environment["SPARK_RESOURCE_PROFILE_ID"],
        "--podName",
        environment["SPARK_EXECUTOR_POD_NAME"],
    ]


if __name__ == "__main__":
    words = command(sys.argv[1:], os.environ)
    os.execvp(words[0], words)
