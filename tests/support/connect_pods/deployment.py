"""The workers as a user deploys them: docs/guide/kafka-connect.md, "The plain distribution", field by field.

The one idea: what a test needs to know besides (when tasks ran) and what the development cluster does not serve (DNS)
goes through one folder of this machine, which every node shares.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.connect.builds import AGENT_JAR, ensure_agent
from support.connect_pods.image import CONNECT_IMAGE
from support.devcluster.kafka_config import render
from support.devcluster.kafka_jars import RESOURCES
from support.devcluster.progress import say
from support.scene.play import Play

AGENT, CONFIG, PORT = "staticgroup-connect-agent", "connect", 8083
STATIC: Mapping[str, Any] = {"client": {"type": "Connect"}}
"""Of a StaticGroup of such pods."""
GRACE_S = 30
_START = (Path(__file__).parent / "start.sh").read_text()
_HEAP = "-Xms48m -Xmx192m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
_OPTIONS = "-Duser.timezone=UTC -Djdk.net.hosts.file=/shared/hosts -Dlog4j2.configurationFile=/config/log4j2.properties"
_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"


def properties(game: Play, **more: str) -> dict[str, str]:
    """Return the properties of the workers of a play; `more` replaces them, underscores being dots."""
    topics = {
        f"{name}.storage.{what}": value
        for name in ("config", "offset", "status")
        for what, value in (("topic", f"{game.name}-{name}"), ("replication.factor", "1"))
    }
    return {
        "bootstrap.servers": game.brokers.bootstrap, "group.id": game.name, "key.converter": _CONVERTER,
        "value.converter": _CONVERTER, "offset.storage.partitions": "1", "status.storage.partitions": "1",
        "listeners": f"http://0.0.0.0:{PORT}", "plugin.discovery": "service_load", **topics,
        **{name.replace("_", "."): value for name, value in more.items()},
    }  # fmt: skip


def surroundings(game: Play, **more: str) -> list[dict[str, Any]]:
    """Return what the pods need: configuration, agent, and the headless Service; `more` are properties."""
    data = {
        "connect.properties": render(properties(game, **more)),
        "log4j2.properties": (RESOURCES / "log4j2.properties").read_text(),
    }
    jar = base64.b64encode(ensure_agent(say).read_bytes()).decode()
    return [
        {**_named("ConfigMap", CONFIG, game), "data": data},
        {**_named("ConfigMap", AGENT, game), "binaryData": {AGENT_JAR: jar}},
        {
            **_named("Service", game.name, game),
            "spec": {"clusterIP": "None", "selector": {"app": game.name}, "ports": [{"port": PORT}]},
        },
    ]


def _named(kind: str, name: str, game: Play) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": game.name}}


def workload(game: Play, pods: int, shared: Path, *, has_agent: bool, **spec: Any) -> dict[str, Any]:
    """Return the StatefulSet.

    Parameters
    ----------
    shared: a folder of this machine for the pods' ticks and names.
    has_agent: whether the agent is in the workers' JVMs, as `KAFKA_OPTS` of the user's own pod template.
    spec: adds to the spec of the StatefulSet.
    """
    for each in (shared, shared / "names", shared / "ticks"):
        each.mkdir(exist_ok=True)
        each.chmod(0o777)
    static = {
        "STATICGROUP_CONNECT_REBALANCE_DELAY_MS": "0",
        "KAFKA_OPTS": f"-javaagent:/agent/{AGENT_JAR}=refusal=exit",
    }
    volumes = [
        {"name": "agent", "configMap": {"name": AGENT}},
        {"name": "config", "configMap": {"name": CONFIG}},
        {"name": "shared", "hostPath": {"path": str(shared), "type": "Directory"}},
    ]
    made = game.stateful_set(
        pods,
        env={"KAFKA_HEAP_OPTS": _HEAP, "WORKER_OPTS": _OPTIONS, **(static if has_agent else {})},
        grace_s=GRACE_S,
        pod={"volumes": volumes},
        **spec,
    )
    (container,) = made["spec"]["template"]["spec"]["containers"]
    container |= {
        "image": CONNECT_IMAGE,
        "command": ["sh", "-ec"],
        "args": [_START],
        "readinessProbe": {"httpGet": {"path": "/", "port": PORT}, "periodSeconds": 1, "failureThreshold": 60},
        "volumeMounts": [{"name": each["name"], "mountPath": f"/{each['name']}"} for each in volumes],
    }
    container["env"] += [_of_pod("POD_NAME", "metadata.name"), _of_pod("POD_UID", "metadata.uid")]
    return made


def _of_pod(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
