"""Connect workers as processes on loopback, with or without the agent, and their REST API.

One idea: a worker is started, ended and started again as a pod's container would be; what its tasks did meanwhile is
in the files they write themselves, one per process, so nothing is asked of a worker that is not there.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.connect import ticks
from support.connect.builds import DEFAULT_VERSION, ensure_agent, ensure_connect, ensure_ticking
from support.connect.cluster import ConnectCluster, call
from support.devcluster.kafka_config import render
from support.devcluster.kafka_jars import RESOURCES, Report, class_path, version_key
from support.devcluster.process import Process
from support.fault_proxy.free_port import free_port
from support.waiting import until

STOP_GRACE_S = 40.0
START_DEADLINE_S = 90.0
_LEADER = re.compile(r"Joined group .* leaderUrl='http://127\.0\.0\.1:(\d+)/'")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """A Connect cluster to start.

    Parameters
    ----------
    group_id: names its topics and its folder too.
    static: whether its workers run with the agent, each with its own name as instance id.
    protocol: `connect.protocol`: eager, compatible or sessioned.
    session_timeout_ms, rebalance_delay_ms: of static workers by the agent's variables, of others by the worker's own
        properties.
    """

    group_id: str
    static: bool
    version: str = DEFAULT_VERSION
    protocol: str = "sessioned"
    session_timeout_ms: int = 10_000
    rebalance_delay_ms: int = 300_000
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Worker:
    """One worker, running or not; its name is that of its seat."""

    name: str
    port: int
    group: ConnectGroup
    starts: int = 0
    is_static: bool = True
    instance_id: str = ""
    """Its own name when empty."""

    @property
    def process(self) -> Process:
        """The process of now, or the last one."""
        return Process(name=f"{self.name}-{self.starts}", directory=self.group.folder)

    @property
    def url(self) -> str:
        """Its REST API."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def tick_files(self) -> list[Path]:
        """What the tasks of all its processes wrote."""
        return [self.group.folder / f"{self.name}-{n}.ticks" for n in range(1, self.starts + 1)]

    def start(self) -> None:
        """Start a new process."""
        self.starts += 1
        environment = {**os.environ, "TICK_FILE": str(self.tick_files[-1])}
        if self.is_static:
            settings = self.group.settings
            environment |= {
                "STATICGROUP_CONNECT_INSTANCE_ID": self.instance_id or self.name,
                "STATICGROUP_CONNECT_SESSION_TIMEOUT_MS": str(settings.session_timeout_ms),
                "STATICGROUP_CONNECT_REBALANCE_DELAY_MS": str(settings.rebalance_delay_ms),
            }
        self.process.start(self.group.command(self), environment=environment)

    def stop(self) -> None:
        """End the process as a kubelet does: SIGTERM, and SIGKILL after the grace period."""
        self.process.stop(grace_s=STOP_GRACE_S)

    def kill(self) -> None:
        """End the process with SIGKILL."""
        self.process.signal(signal.SIGKILL)
        until(lambda: self.process.pid() is None, deadline_s=10, what=f"{self.name} to end", poll_s=0.02)

    def is_up(self) -> bool:
        """Whether its REST API answers."""
        try:
            self.call("GET", "/", timeout_s=2)
        except OSError:
            return False
        return True

    def await_up(self) -> None:
        """Wait for its REST API; AssertionError with the end of its log when the process ends instead."""

        def answers() -> bool:
            assert self.process.pid() is not None, f"{self.name} ended: {self.process.last_lines()}"
            return self.is_up()

        until(answers, deadline_s=START_DEADLINE_S, what=f"REST of {self.name}", poll_s=0.05)

    def call(self, method: str, path: str, body: Any = None, timeout_s: float = 90) -> Any:
        """Call the REST API; returns the answer, None for an empty one; OSError when it refuses or is not there."""
        return call(self.url, method, path, body, timeout_s)


@dataclass(slots=True)
class ConnectGroup(ConnectCluster):
    """Workers of one group."""

    settings: GroupSettings
    bootstrap: str
    folder: Path
    report: Report = print
    workers: dict[str, Worker] = field(default_factory=dict)

    def start(self, *names: str) -> None:
        """Start workers, one after the other so that the first leads, and wait for them."""
        for name in names:
            if name not in self.workers:
                self.workers[name] = Worker(
                    name=name, port=free_port(), group=self, is_static=self.settings.static
                )
            self.workers[name].start()
        for name in names:
            self.workers[name].await_up()

    def down(self) -> None:
        """End all processes at once."""
        for worker in self.workers.values():
            worker.process.stop(grace_s=0)

    def command(self, worker: Worker) -> Sequence[str]:
        """Return the command line of a worker, its properties written."""
        jars = ensure_connect(self.settings.version, self.report)
        layout = "log4j.properties" if version_key(self.settings.version) < (4,) else "log4j2.properties"
        option = "log4j.configuration=file:" if layout == "log4j.properties" else "log4j2.configurationFile="
        agent = [f"-javaagent:{ensure_agent(self.report)}=refusal=exit"] if worker.is_static else []
        file = self.folder / f"{worker.name}.properties"
        self.folder.mkdir(parents=True, exist_ok=True)
        file.write_text(render(self.properties(worker)))
        return [
            *("java", "-Xms48m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
            *("-Duser.timezone=UTC", f"-D{option}{RESOURCES / layout}", *agent),
            *("-cp", f"{ensure_ticking(jars, self.report)}:{class_path(jars)}"),
            *("org.apache.kafka.connect.cli.ConnectDistributed", str(file)),
        ]

    def properties(self, worker: Worker) -> dict[str, str]:
        group = self.settings.group_id
        own = {} if worker.is_static else {
            "session.timeout.ms": str(self.settings.session_timeout_ms),
            "scheduled.rebalance.max.delay.ms": str(self.settings.rebalance_delay_ms),
        }  # fmt: skip
        discovery = {"plugin.discovery": "service_load"} if version_key(self.settings.version) >= (3, 6) else {}
        topics = {
            f"{name}.storage.{what}": value
            for name in ("config", "offset", "status")
            for what, value in (("topic", f"{group}-{name}"), ("replication.factor", "1"))
        }
        converter = "org.apache.kafka.connect.json.JsonConverter"
        return {
            "bootstrap.servers": self.bootstrap, "group.id": group, "connect.protocol": self.settings.protocol,
            "key.converter": converter, "value.converter": converter, "offset.storage.partitions": "1",
            "status.storage.partitions": "1", "listeners": worker.url, "rest.advertised.host.name": "127.0.0.1",
            "rest.advertised.port": str(worker.port), **topics, **own, **discovery, **self.settings.properties,
        }  # fmt: skip

    def any(self) -> Worker:
        """Return a worker that runs."""
        return next(worker for worker in self.workers.values() if worker.process.pid() is not None)

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Call the REST API of a worker that runs."""
        return self.any().call(method, path, body)

    def lines(self) -> list[ticks.Line]:
        """Return what all tasks wrote so far."""
        return ticks.read({name: worker.tick_files for name, worker in self.workers.items()})

    def leader(self) -> str:
        """Return the name of the worker that leads, by what the workers logged last."""
        found: list[tuple[str, int]] = []
        for worker in self.workers.values():
            if worker.process.pid() is None:
                continue
            for line in worker.process.log.read_text(errors="replace").splitlines():
                if match := _LEADER.search(line):
                    found.append((line[:24], int(match[1])))
        port = max(found)[1]
        return next(name for name, worker in self.workers.items() if worker.port == port)
