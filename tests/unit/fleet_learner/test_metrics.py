"""A run's metrics, checked with promtool and a fake Pushgateway."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from fleet_learner.metrics import GAUGES, MetricsError, RunMetrics


def metrics(now_s: float = 1_000.0) -> RunMetrics:
    ticks = iter(range(0, 1_000, 7))
    return RunMetrics(clock_s=lambda: now_s, stopwatch_s=lambda: float(next(ticks)))


def lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if not line.startswith("#")]


def test_a_good_run_tells_what_it_did(tmp_path: Path) -> None:
    run = metrics()
    with run.stage("ingest"):
        pass
    run.tell("fleet_learner_records", 12, "silver")
    run.tell("fleet_learner_records", 3, "quarantine")
    run.end(0, is_good=True)
    run.write(tmp_path / "made" / "fleet.prom")
    assert sorted(lines(tmp_path / "made" / "fleet.prom")) == [
        'fleet_learner_records{fate="quarantine"} 3.0',
        'fleet_learner_records{fate="silver"} 12.0',
        "fleet_learner_run_end_timestamp_seconds 1000.0",
        "fleet_learner_run_status 0.0",
        "fleet_learner_run_success_timestamp_seconds 1000.0",
        'fleet_learner_stage_seconds{stage="ingest"} 7.0',
    ]


def test_a_failed_run_keeps_when_one_last_ended_well_and_nothing_of_its_own_half(tmp_path: Path) -> None:
    path = tmp_path / "fleet.prom"
    good = metrics(1_000.0)
    good.tell("fleet_learner_records", 12, "silver")
    good.end(4, is_good=True)
    good.write(path)
    bad = metrics(2_000.0)
    bad.tell("fleet_learner_records", 1, "silver")
    bad.end(1, is_good=False)
    bad.write(path)
    assert sorted(lines(path)) == [
        'fleet_learner_records{fate="silver"} 12.0',
        "fleet_learner_run_end_timestamp_seconds 2000.0",
        "fleet_learner_run_status 1.0",
        "fleet_learner_run_success_timestamp_seconds 1000.0",
    ]


@pytest.mark.parametrize("text", ["", "fleet_learner_records{fate=", "other_metric 1\n"])
def test_a_file_that_is_none_of_ours_is_replaced(tmp_path: Path, text: str) -> None:
    path = tmp_path / "fleet.prom"
    path.write_text(text)
    run = metrics()
    run.end(1, is_good=False)
    run.write(path)
    assert lines(path) == ["fleet_learner_run_status 1.0", "fleet_learner_run_end_timestamp_seconds 1000.0"]


def test_every_metric_says_what_it_is_with_its_unit_last() -> None:
    for name, (text, _) in GAUGES.items():
        assert name.startswith("fleet_learner_")
        assert text.endswith(".")
        assert "timestamp" not in name or name.endswith("_timestamp_seconds")


class Gateway(BaseHTTPRequestHandler):
    """Keep what is sent, and answer with the status that the path names."""

    seen: list[tuple[str, str, bytes]]
    answer = 200

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        type(self).seen.append((self.command, self.path, body))
        self.send_response(type(self).answer)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def gateway() -> Iterator[HTTPServer]:
    Gateway.seen, Gateway.answer = [], 200
    server = HTTPServer(("127.0.0.1", 0), Gateway)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_push_leaves_what_it_does_not_name(gateway: HTTPServer) -> None:
    """POST adds to a group, PUT would replace it: Pushgateway's README."""
    run = metrics()
    run.end(1, is_good=False)
    run.push(f"http://127.0.0.1:{gateway.server_port}")
    ((method, path, body),) = Gateway.seen
    assert (method, path) == ("POST", "/metrics/job/fleet_learner")
    assert b"fleet_learner_run_status 1.0" in body
    assert b"success" not in body


def test_a_gateway_that_refuses_or_is_gone_is_named(gateway: HTTPServer) -> None:
    Gateway.answer = 503
    run = metrics()
    run.end(0, is_good=True)
    for port in (gateway.server_port, 1):
        with pytest.raises(MetricsError, match=f"at http://127.0.0.1:{port}"):
            run.push(f"http://127.0.0.1:{port}")


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = metrics()
    run.end(0, is_good=True)
    with pytest.raises(MetricsError, match="metrics were not written to"):
        run.write(tmp_path / "file" / "fleet.prom")
