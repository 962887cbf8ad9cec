"""The few requests that the ground itself makes to its API server, with the standard library only."""

import base64
import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServerClient:
    """A bearer-token client of one API server."""

    url: str
    token: str
    ca_file: Path

    def request(self, method: str, path: str, body: object = None, *, timeout_s: float = 5.0) -> Any:
        """Make one request.

        Returns
        -------
        The decoded answer; None when the object does not exist (404).
        """
        content = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = urllib.request.Request(
            f"{self.url}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": content, "Accept": "application/json"},
        )
        context = ssl.create_default_context(cafile=str(self.ca_file))
        # No proxy: the server is on a bridge of this machine.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        try:
            with opener.open(request, timeout=timeout_s) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise
        return json.loads(text) if text.startswith("{") else text

    def is_ready(self) -> bool:
        try:
            return bool(self.request("GET", "/readyz") == "ok")
        except OSError:
            return False

    def has(self, path: str) -> bool:
        """Return whether an object exists."""
        try:
            return self.request("GET", path) is not None
        except OSError:
            return False

    def node_is_ready(self, name: str, *, since: str = "") -> bool:
        """Return whether a node's Ready condition is True, reported after `since` (RFC 3339; empty means ever)."""
        try:
            node = self.request("GET", f"/api/v1/nodes/{name}")
        except OSError:
            return False
        conditions = node["status"].get("conditions", []) if node else []
        return any(
            condition["type"] == "Ready" and condition["status"] == "True" and condition["lastHeartbeatTime"] >= since
            for condition in conditions
        )

    def node_conditions(self, name: str) -> str:
        """Return a node's conditions in words, for an error; says so when there is no Node object."""
        try:
            node = self.request("GET", f"/api/v1/nodes/{name}")
        except OSError as failed:
            return f"the API server did not answer: {failed}"
        if not node:
            return "it has not registered"
        conditions = node["status"].get("conditions", [])
        return "; ".join(f"{each['type']} {each['status']}: {each.get('message', '')}" for each in conditions)

    def kubeconfig(self, context: str) -> dict[str, Any]:
        """Return a kubeconfig with one context for this server and token."""
        authority = base64.b64encode(self.ca_file.read_bytes()).decode()
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": context,
            "clusters": [{"name": context, "cluster": {"server": self.url, "certificate-authority-data": authority}}],
            "users": [{"name": context, "user": {"token": self.token}}],
            "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        }


def write_private_json(path: Path, content: object) -> None:
    """Write a file that only its owner reads, in one step. JSON is valid YAML, so kubectl and pykube read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    temporary.touch(0o600)
    temporary.chmod(0o600)
    temporary.write_text(json.dumps(content, indent=2) + "\n")
    temporary.replace(path)
