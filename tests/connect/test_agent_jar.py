"""The agent's jar as it is built: what it says of real versions of Connect, and how it begins in a JVM."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.connect.builds import DEFAULT_VERSION, ensure_agent, ensure_connect
from support.devcluster.kafka_jars import class_path

CONFIG_MAP_MAX_BYTES = 1024 * 1024
REFUSED_STATUS = 81
OTHERS = tuple(os.environ.get("CONNECT_SELF_TESTS", "2.4.1 2.8.2 3.1.2 3.2.3 3.9.2").split())


def java(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["java", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def begin(options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Begin a worker that has no properties file: it says how it is used and ends with status 1."""
    jars = ensure_connect(DEFAULT_VERSION, print)
    agent = f"-javaagent:{ensure_agent(print)}{options}"
    return java(agent, "-cp", class_path(jars), "org.apache.kafka.connect.cli.ConnectDistributed", **environment)


def test_the_jar_fits_a_config_map() -> None:
    assert ensure_agent(print).stat().st_size * 4 / 3 < CONFIG_MAP_MAX_BYTES


@pytest.mark.parametrize(
    "version", [DEFAULT_VERSION, *(pytest.param(each, marks=pytest.mark.long) for each in OTHERS)]
)
def test_every_hook_is_found(version: str) -> None:
    done = java("-jar", str(ensure_agent(print)), "--self-test", str(ensure_connect(version, print)))
    assert done.returncode == 0, done.stdout
    assert "MISSING" not in done.stdout
    assert done.stdout.endswith("the agent can be active here\n")


def test_a_class_path_without_connect_is_reported(tmp_path: Path) -> None:
    jars = ensure_connect(DEFAULT_VERSION, print)
    (tmp_path / "clients.jar").symlink_to(next(jars.glob("kafka-clients-*.jar")))
    done = java("-jar", str(ensure_agent(print)), "--self-test", str(tmp_path))
    assert done.returncode == 1
    assert "found    heartbeat " in done.stdout
    assert "MISSING  assignment " in done.stdout


def test_it_begins_with_one_line() -> None:
    done = begin("", STATICGROUP_CONNECT_INSTANCE_ID="w-0")
    assert done.returncode == 1
    assert done.stderr.startswith("staticgroup-connect-agent 0.1.0: active, group.instance.id w-0\n")


def test_without_an_id_it_is_inert() -> None:
    done = begin("=refusal=exit", STATICGROUP_CONNECT_INSTANCE_ID="")
    assert done.returncode == 1
    assert "inert: STATICGROUP_CONNECT_INSTANCE_ID is not set" in done.stderr


@pytest.mark.parametrize(("options", "status"), [("", 1), ("=refusal=exit", REFUSED_STATUS)])
def test_a_value_that_is_not_understood_makes_it_inert_or_ends_the_process(options: str, status: int) -> None:
    done = begin(
        options, STATICGROUP_CONNECT_INSTANCE_ID="w-0", STATICGROUP_CONNECT_SESSION_TIMEOUT_MS="30 seconds"
    )
    assert done.returncode == status
    assert "STATICGROUP_CONNECT_SESSION_TIMEOUT_MS='30 seconds' is not understood: use milliseconds" in done.stderr
