"""Calls to the API server through the caller's kubectl, or in a pod by its service account; refusals are values.

Through kubectl contexts, credential helpers and proxies are those of every other kubectl command.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from ..api import names
from ..kube.problem import KubeProblem, KubeProblemKind

Json = dict[str, Any]
Run = Callable[[Sequence[str], str], tuple[int, str, str]]
"""Runs a command with a text as its input; returns exit status, output and errors."""
Ask = Callable[[str, str], tuple[str, str]]
"""Gets a path, or posts a text to it; returns the reason of a refusal, "" for none, and the text of the answer."""

GROUP_PATH: Final = f"/apis/{names.GROUP}/{names.VERSION}"
CALL_TIMEOUT_S: Final = 60
ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_KINDS: Final = {
    "Forbidden": KubeProblemKind.FORBIDDEN,
    "Unauthorized": KubeProblemKind.FORBIDDEN,
    "NotFound": KubeProblemKind.NOT_FOUND,
    "AlreadyExists": KubeProblemKind.CONFLICT,
    "Conflict": KubeProblemKind.CONFLICT,
    "Invalid": KubeProblemKind.INVALID,
    "BadRequest": KubeProblemKind.INVALID,
}
"""Reasons of a Status (k8s.io/apimachinery, StatusReason); kubectl prints them: `Error from server (Forbidden): …`."""


class Refused(Exception):
    """A command cannot be carried out; the text says why and what to do.

    Parameters
    ----------
    status: exit status of the command: 1 for a failure, 2 for wrong usage.
    """

    def __init__(self, text: str, status: int = 1) -> None:
        super().__init__(text)
        self.status = status


def run(command: Sequence[str], stdin: str) -> tuple[int, str, str]:
    """Run a command.

    Raises
    ------
    Refused: When the program does not exist, or does not answer in time.
    """
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=CALL_TIMEOUT_S, check=False, encoding="utf-8"
        )
    except FileNotFoundError as error:
        raise Refused(f"{command[0]} is not on the PATH") from error
    except subprocess.TimeoutExpired as error:
        raise Refused(f"{command[0]} did not answer within {CALL_TIMEOUT_S} s") from error
    return done.returncode, done.stdout, done.stderr


class ApiServer:
    """The API server as the caller reaches it.

    Parameters
    ----------
    default_namespace: returns the namespace that is meant where none is named.
    """

    def __init__(self, ask: Ask, default_namespace: Callable[[], str]) -> None:
        self._ask = ask
        self.default_namespace = default_namespace

    def read(
        self, path: str, *, verb: str = "get", resource: str = "", namespace: str = "", body: str = ""
    ) -> Json | KubeProblem:
        """Get one path, or post a text to it; a refusal says to a person which right of theirs may be missing.

        Parameters
        ----------
        verb, resource, namespace: what it is to a person, for the problem.
        """
        reason, text = self._ask(path, body)
        if not reason:
            try:
                parsed = json.loads(text)
            except json.JSONDecodeError:
                parsed = None
            if isinstance(parsed, dict):
                return parsed
            text = "the answer is no JSON object"
        kind, resource = _KINDS.get(reason, KubeProblemKind.UNAVAILABLE), resource or path
        if kind is KubeProblemKind.FORBIDDEN:
            text = f"you may not {verb} {resource} in {f'namespace {namespace}' if namespace else 'all namespaces'}"
        return KubeProblem(kind=kind, verb=verb, resource=resource, namespace=namespace, message=text)

    def items(self, base: str, resource: str, *, namespace: str = "", query: str = "") -> list[Json] | KubeProblem:
        """List objects, all of them, in pages.

        Parameters
        ----------
        base: path of the API, such as `/apis/apps/v1`. resource: plural with its group, such as `deployments.apps`.
        """
        plural = resource.partition(".")[0]
        where = f"{base}/namespaces/{quote(namespace)}/{plural}" if namespace else f"{base}/{plural}"
        found: list[Json] = []
        token = ""
        while True:
            path = f"{where}?limit=500{'&' + query if query else ''}{'&continue=' + quote(token) if token else ''}"
            answer = self.read(path, verb="list", resource=resource, namespace=namespace)
            if isinstance(answer, KubeProblem):
                return answer
            found += answer.get("items") or []
            token = (answer.get("metadata") or {}).get("continue") or ""
            if not token:
                return found

    def may(
        self,
        verb: str,
        group: str,
        resource: str,
        subresource: str = "",
        *,
        namespace: str = "",
        name: str = "",
        user: str = "",
    ) -> bool | KubeProblem:
        """Ask whether the caller has a right, or whether `user` has it; the latter question needs a right itself."""
        kind = "SubjectAccessReview" if user else "SelfSubjectAccessReview"
        plural = f"{kind.lower()}s"
        optional = {"subresource": subresource, "namespace": namespace, "name": name}
        attributes = {"verb": verb, "group": group, "resource": resource} | {k: v for k, v in optional.items() if v}
        spec: Json = {"resourceAttributes": attributes}
        if user:
            parts = user.split(":")  # system:serviceaccount:<namespace>:<name>
            groups = ["system:serviceaccounts", f"system:serviceaccounts:{parts[2]}", "system:authenticated"]
            spec |= {"user": user, "groups": groups}
        body = json.dumps({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec})
        path, reviews = f"/apis/authorization.k8s.io/v1/{plural}", f"{plural}.authorization.k8s.io"
        answer = self.read(path, verb="create", resource=reviews, body=body)
        return answer if isinstance(answer, KubeProblem) else (answer.get("status") or {}).get("allowed") is True


def api_server(flags: Sequence[str] = ()) -> ApiServer:
    """Return the API server of the caller's kubectl, or of the pod where there is none.

    Parameters
    ----------
    flags: global options of kubectl, such as `--context=prod`.
    """
    if not flags and shutil.which("kubectl") is None and (ACCOUNT / "token").is_file():
        return ApiServer(ask_as_pod, lambda: (ACCOUNT / "namespace").read_text(encoding="utf-8").strip())
    return through_kubectl(flags)


def through_kubectl(flags: Sequence[str] = (), run: Run = run) -> ApiServer:
    """Return the API server as kubectl reaches it; what kubectl does not call a refusal counts as no answer."""

    def ask(path: str, body: str) -> tuple[str, str]:
        verb, *more = ("create", "-f", "-") if body else ("get",)
        status, output, errors = run(["kubectl", *flags, verb, "--raw", path, *more], body)
        if status == 0:
            return "", output
        text = " ".join(errors.split()) or "kubectl said nothing"
        named = re.search(r"(?:Error from server|error:[^(]*) ?\((\w+)\)", text)
        return named[1] if named else "NoAnswer", text

    def default_namespace() -> str:
        status, output, _ = run(["kubectl", *flags, "config", "view", "--minify", "-o", "jsonpath={..namespace}"], "")
        return output.strip() if status == 0 and output.strip() else "default"

    return ApiServer(ask, default_namespace)


def ask_as_pod(path: str, body: str) -> tuple[str, str]:
    """Ask with the service account of this pod."""
    context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    token = (ACCOUNT / "token").read_text(encoding="utf-8").strip()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"])
    connection = http.client.HTTPSConnection(host, port, timeout=CALL_TIMEOUT_S, context=context)
    try:
        connection.request("POST" if body else "GET", path, body or None, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status < 300:
            return "", text
        refusal = json.loads(text)
        return refusal.get("reason") or "NoAnswer", refusal.get("message") or f"HTTP {answer.status}"
    except (OSError, http.client.HTTPException, ValueError) as error:
        return "NoAnswer", f"the API server gave no answer that can be read: {error}"
    finally:
        connection.close()
