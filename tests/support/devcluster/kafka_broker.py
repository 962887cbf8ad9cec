"""Real Kafka brokers for tests and demos, from jars, without a container engine.

Why: whether a removal is safe is decided by Kafka's coordinator, so tests ask the real one. One idea: brokers are
detached processes described by a state folder; `up` brings whatever it finds to the wanted state (first start, after
a crash, already running) and `down` leaves nothing.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from support.devcluster import kafka_process, kafka_tls
from support.devcluster.kafka_config import (
    PLAINTEXT,
    SASL_SSL,
    SSL,
    BrokerSettings,
    render,
    scram_records,
    server_properties,
)
from support.devcluster.kafka_jars import RESOURCES, Report, class_path, ensure_jars, ensure_tools, version_key
from support.devcluster.kafka_log import GroupLog
from support.devcluster.kafka_state import ClusterState, folder_of, load_state, lock_folder, new_state
from support.devcluster.kafka_wire import Coordinator, find_coordinator
from support.devcluster.layout import state_root

_READY_TIMEOUT_S = 90.0
_STOP_PATIENCE_S = 30.0
_KILL = ((signal.SIGKILL, 10.0),)
_PROBE_GROUP = "devcluster-readiness"


class BrokerFailed(RuntimeError):
    """A broker ended or did not become ready; the text ends with what its log says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Brokers:
    """A running cluster of 1 or 3 combined KRaft nodes. Make one with `up` or `attach`."""

    state: ClusterState
    report: Report

    @classmethod
    def up(cls, settings: BrokerSettings, report: Report = print) -> Brokers:
        """Start the cluster, or repair it, or attach to it when it runs already."""
        jars = ensure_jars(settings.version, report)
        ensure_tools(report)
        with lock_folder(folder_of(settings.name)):
            state = load_state(settings.name)
            if state is None:
                _erase(folder_of(settings.name), report)  # the remains of a run that was killed while it prepared
                state = new_state(settings)
            elif state.settings != settings:
                raise ValueError(f"cluster {settings.name} exists with other settings: take it down first")
            brokers = cls(state=state, report=report)
            started_s = time.monotonic()
            dead = [node for node in brokers.nodes if not brokers.is_running(node)]
            for node in dead:
                brokers._prepare(node, jars)
            for node in dead:
                brokers._launch(node, jars)
            brokers._await_ready(brokers.nodes)
            report(f"kafka {settings.name}: ready in {time.monotonic() - started_s:.1f} s at {brokers.bootstrap}")
            return brokers

    @classmethod
    def attach(cls, name: str, report: Report = print) -> Brokers:
        """Return the handle of a cluster that some process started before."""
        state = load_state(name)
        if state is None:
            raise LookupError(f"there is no Kafka cluster {name} below {state_root()}")
        return cls(state=state, report=report)

    @property
    def nodes(self) -> tuple[int, ...]:
        """The node ids."""
        return tuple(sorted(self.state.ports))

    @property
    def bootstrap(self) -> str:
        """The PLAINTEXT addresses (User:ANONYMOUS)."""
        return self.state.bootstrap(PLAINTEXT)

    @property
    def sasl_bootstrap(self) -> str:
        """The SASL_SSL addresses: SCRAM-SHA-256, SCRAM-SHA-512, PLAIN, OAUTHBEARER with unsecured JWS."""
        return self.state.bootstrap(SASL_SSL)

    @property
    def ssl_bootstrap(self) -> str:
        """The SSL addresses that require a client certificate."""
        return self.state.bootstrap(SSL)

    @property
    def ca_path(self) -> Path:
        """The PEM file of the authority that signed the broker certificate."""
        return self.state.tls_dir / "ca.pem"

    @property
    def group_log(self) -> GroupLog:
        """A reader of what the coordinators of all nodes logged, from the beginning."""
        return GroupLog({node: self.state.log_path(node) for node in self.nodes})

    def client_certificate(self, common_name: str) -> kafka_tls.ClientCertificate:
        """Return the certificate that makes a client `User:<common_name>` on the SSL listener."""
        with lock_folder(self.state.folder):
            return kafka_tls.make_client(self.state.tls_dir, common_name)

    def address(self, node: int, listener: str = PLAINTEXT) -> tuple[str, int]:
        """Return host and port of one listener of one node."""
        return self.state.settings.bind, self.state.ports[node][listener]

    def pid(self, node: int) -> int | None:
        """Return the pid of a node; None when it does not run."""
        stamp = kafka_process.read_stamp(self._pid_path(node))
        return stamp.pid if stamp and kafka_process.is_alive(stamp) else None

    def is_running(self, node: int) -> bool:
        """Say whether the node's process is alive."""
        return self.pid(node) is not None

    def coordinator(self, group_id: str, timeout_s: float = 30.0) -> int:
        """Return the node id of a group's coordinator, asking any running node until one knows."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            for node in filter(self.is_running, self.nodes):
                answer = self._ask(node, group_id)
                if answer is not None and answer.error_code == 0 and self.is_running(answer.node_id):
                    return answer.node_id
            time.sleep(0.1)
        raise TimeoutError(f"no running node named the coordinator of {group_id} within {timeout_s:.0f} s")

    def stop(self, node: int | None = None) -> None:
        """End one node, or all, with SIGTERM; SIGKILL after 30 s. Its records stay."""
        for each in self._chosen(node):
            self._end(each, ((signal.SIGTERM, _STOP_PATIENCE_S), *_KILL))

    def kill(self, node: int) -> None:
        """End one node with SIGKILL. Its records stay."""
        self._end(node, _KILL)

    def pause(self, node: int) -> None:
        """Freeze one node with SIGSTOP: it keeps its connections and answers nothing."""
        self._signal(node, signal.SIGSTOP)

    def resume(self, node: int) -> None:
        """Let a frozen node go on."""
        self._signal(node, signal.SIGCONT)

    def restart(self, node: int) -> None:
        """Stop the node if it runs, start it on the same ports and records, and wait until it serves groups."""
        jars = ensure_jars(self.state.settings.version, self.report)
        with lock_folder(self.state.folder):
            self.stop(node)
            self._prepare(node, jars)
            self._launch(node, jars)
            self._await_ready([node])

    def down(self) -> None:
        """End every node at once and remove all files of the cluster."""
        down(self.state.settings.name, self.report)

    def _chosen(self, node: int | None) -> Sequence[int]:
        return self.nodes if node is None else [node]

    def _pid_path(self, node: int) -> Path:
        return self.state.node_dir(node) / "pid.json"

    def _end(self, node: int, signals: Sequence[tuple[signal.Signals, float]]) -> None:
        stamp = kafka_process.read_stamp(self._pid_path(node))
        if stamp is None:
            return
        if not kafka_process.end(stamp, signals=signals):
            raise BrokerFailed(f"node {node} (pid {stamp.pid}) survived SIGKILL")
        self._pid_path(node).unlink()
        self.report(f"kafka {self.state.settings.name}: node {node} ended")

    def _signal(self, node: int, number: signal.Signals) -> None:
        stamp = kafka_process.read_stamp(self._pid_path(node))
        if stamp is None:
            raise ProcessLookupError(f"node {node} does not run")
        kafka_process.send(stamp, number)

    def _prepare(self, node: int, jars: Path) -> None:
        """Write the node's configuration and format its storage, if that was not finished before."""
        state, folder = self.state, self.state.node_dir(node)
        folder.mkdir(mode=0o700, exist_ok=True)
        for orphan in kafka_process.processes_naming(folder):  # started, but the starter died before the pid file
            kafka_process.end(orphan, signals=_KILL)
        if state.settings.security and not (state.tls_dir / "broker.p12").exists():
            shutil.rmtree(state.tls_dir, ignore_errors=True)
            kafka_tls.make_authority(state.tls_dir, f"devcluster {state.settings.name}")
            kafka_tls.make_broker_store(state.tls_dir, state.settings.bind)
        properties = server_properties(state.settings, node, state.ports, folder / "data", state.tls_dir)
        file = folder / "server.properties"
        file.touch(mode=0o600)
        file.write_text(render(properties))
        if (folder / "formatted").exists():
            return
        shutil.rmtree(folder / "data", ignore_errors=True)
        arguments = ["format", "-t", state.cluster_id, "-c", str(file)]
        for record in scram_records(state.settings):
            arguments += ["--add-scram", record]
        command = [*_java(jars, state.settings, heap_mb=128), "kafka.tools.StorageTool", *arguments]
        outcome = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=folder)
        if outcome.returncode != 0:
            raise BrokerFailed(f"node {node} could not be formatted: {(outcome.stderr or outcome.stdout)[-400:]}")
        (folder / "formatted").touch()

    def _launch(self, node: int, jars: Path) -> None:
        folder, settings = self.state.node_dir(node), self.state.settings
        command = [*_java(jars, settings, heap_mb=settings.heap_mb), "kafka.Kafka", str(folder / "server.properties")]
        stamp = kafka_process.spawn(command, log=self.state.log_path(node), cwd=folder)
        kafka_process.write_stamp(self._pid_path(node), stamp)
        self.report(f"kafka {settings.name}: node {node} started, Kafka {settings.version}, pid {stamp.pid}")

    def _await_ready(self, nodes: Sequence[int]) -> None:
        started_s = time.monotonic()
        next_report_s = started_s + 10
        waiting = list(nodes)
        while waiting:
            waiting = [node for node in waiting if not self._serves_groups(node)]
            now_s = time.monotonic()
            if waiting and now_s - started_s > _READY_TIMEOUT_S:
                trouble = self._trouble(waiting[0])
                raise BrokerFailed(f"nodes {waiting} not ready in {_READY_TIMEOUT_S:.0f} s: {trouble}")
            if waiting and now_s > next_report_s:
                self.report(f"kafka {self.state.settings.name}: waiting for {waiting}, {now_s - started_s:.0f} s")
                next_report_s = now_s + 10
            if waiting:
                time.sleep(0.1)

    def _serves_groups(self, node: int) -> bool:
        if not self.is_running(node):
            raise BrokerFailed(f"node {node} ended: {self._trouble(node)}")
        answer = self._ask(node, _PROBE_GROUP)
        return answer is not None and answer.error_code == 0

    def _ask(self, node: int, group_id: str) -> Coordinator | None:
        try:
            return find_coordinator(self.address(node), group_id, timeout_s=2.0)
        except OSError:
            return None

    def _trouble(self, node: int) -> str:
        lines = self.state.log_path(node).read_text(errors="replace").splitlines()
        telling = [line for line in lines if " ERROR " in line or " FATAL " in line or "Exception" in line]
        return " | ".join((telling or lines)[-3:])[-800:]


def down(name: str, report: Report = print) -> None:
    """End every process of a cluster and remove its folder; do nothing when there is none."""
    folder = folder_of(name)
    if not folder.exists():
        return
    with lock_folder(folder):
        _erase(folder, report)
        shutil.rmtree(folder)
    try:
        state_root().rmdir()
    except OSError:
        pass  # others live there


def leftovers(name: str) -> list[str]:
    """List what is left of a cluster: its folder and its processes. Empty after `down`."""
    folder = folder_of(name)
    found = [f"process {stamp.pid}" for stamp in kafka_process.processes_naming(folder)]
    return found + ([f"folder {folder}"] if folder.exists() else [])


def _erase(folder: Path, report: Report) -> None:
    """End all processes and empty the folder, which stays because it is the lock."""
    stamps = [kafka_process.read_stamp(path) for path in folder.glob("node-*/pid.json")]
    running = {stamp for stamp in (*stamps, *kafka_process.processes_naming(folder)) if stamp}
    for stamp in filter(kafka_process.is_alive, running):
        if not kafka_process.end(stamp, signals=_KILL):
            raise BrokerFailed(f"pid {stamp.pid} survived SIGKILL")
        report(f"kafka: pid {stamp.pid} ended")
    for entry in folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def _java(jars: Path, settings: BrokerSettings, heap_mb: int) -> list[str]:
    layout = "log4j.properties" if version_key(settings.version) < (4,) else "log4j2.properties"
    option = "log4j.configuration=file:" if layout == "log4j.properties" else "log4j2.configurationFile="
    return [
        *("java", f"-Xms{heap_mb}m", f"-Xmx{heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        *("-XX:-UsePerfData", "-Duser.timezone=UTC", f"-D{option}{RESOURCES / layout}", "-cp", class_path(jars)),
    ]
