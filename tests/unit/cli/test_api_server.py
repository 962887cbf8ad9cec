"""In a pod the API server is asked with the pod's service account, and refuses in the same terms as through kubectl."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from staticgroup.cli import api_server
from staticgroup.kube.problem import KubeProblem, KubeProblemKind
from staticgroup.runtime.webhook.certificates import due

HOST = "localhost"


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        refusal = {"kind": "Status", "reason": "NotFound", "message": 'x "gone" not found'}
        status, body = (404, refusal) if self.path == "/gone" else (200, {"token": self.headers["Authorization"]})
        self._answer(status, json.dumps(body) if self.path != "/odd" else "no JSON")

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        allowed = review["spec"]["resourceAttributes"]["verb"] == "list"
        self._answer(201, json.dumps(review | {"status": {"allowed": allowed}}))

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[api_server.ApiServer]:
    made = due(None, [HOST], now_s=time.time(), trusted_for_s=0)
    assert made is not None
    (tmp_path / "ca.crt").write_bytes(made.bundle())
    for name, content in made.entries().items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "namespace").write_text("ops")
    server = HTTPServer((HOST, 0), Answers)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setattr(api_server, "ACCOUNT", tmp_path)
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", HOST)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.server_port))
    yield api_server.api_server()
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_pod_asks_with_its_service_account(pod: api_server.ApiServer) -> None:
    assert pod.read("/any") == {"token": "Bearer secret"}
    assert pod.default_namespace() == "ops"
    assert (pod.may("list", "", "pods"), pod.may("delete", "", "pods")) == (True, False)


def test_refusals_are_values_as_through_kubectl(pod: api_server.ApiServer) -> None:
    gone, odd = pod.read("/gone"), pod.read("/odd")
    assert isinstance(gone, KubeProblem)
    assert isinstance(odd, KubeProblem)
    assert (gone.kind, gone.message) == (KubeProblemKind.NOT_FOUND, 'x "gone" not found')
    assert (odd.kind, odd.message) == (KubeProblemKind.UNAVAILABLE, "the answer is no JSON object")


def test_an_api_server_that_does_not_answer_is_a_value(
    pod: api_server.ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    silent = pod.read("/any")
    assert isinstance(silent, KubeProblem)
    assert silent.kind is KubeProblemKind.UNAVAILABLE


def test_without_kubectl_and_outside_a_pod_that_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(api_server, "ACCOUNT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(api_server.Refused, match="kubectl is not on the PATH"):
        api_server.api_server().read("/any")
