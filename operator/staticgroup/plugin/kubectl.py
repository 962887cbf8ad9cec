"""Calls to the API server through kubectl, whose refusals are values."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import quote

from ..api import names
from ..kube.problem import KubeProblem, KubeProblemKind

Json = dict[str, Any]
Run = Callable[[Sequence[str], str], tuple[int, str, str]]
"""Runs a command with a text as its input; returns exit status, output and errors."""

GROUP_PATH: Final = f"/apis/{names.GROUP}/{names.VERSION}"
CALL_TIMEOUT_S: Final = 60
_KINDS: Final = {
    "Forbidden": KubeProblemKind.FORBIDDEN,
    "Unauthorized": KubeProblemKind.FORBIDDEN,
    "NotFound": KubeProblemKind.NOT_FOUND,
    "AlreadyExists": KubeProblemKind.CONFLICT,
    "Conflict": KubeProblemKind.CONFLICT,
    "Invalid": KubeProblemKind.INVALID,
    "BadRequest": KubeProblemKind.INVALID,
}
"""Reasons of a Status (k8s.io/apimachinery, StatusReason) as kubectl prints them: `Error from server (Forbidden): …`."""


class NoKubectl(Exception):
    """There is no kubectl to ask through."""


def run(command: Sequence[str], stdin: str) -> tuple[int, str, str]:
    """Run a command.

    Raises
    ------
    NoKubectl: When the program does not exist, or does not answer in time.
    """
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=CALL_TIMEOUT_S, check=False, encoding="utf-8"
        )
    except FileNotFoundError as error:
        raise NoKubectl(f"{command[0]} is not on the PATH") from error
    except subprocess.TimeoutExpired as error:
        raise NoKubectl(f"{command[0]} did not answer within {CALL_TIMEOUT_S} s") from error
    return done.returncode, done.stdout, done.stderr


class Kubectl:
    """The API server as the caller's kubectl reaches it.

    Parameters
    ----------
    flags: global options of kubectl, such as `--context=prod`.
    """

    def __init__(self, flags: Sequence[str] = (), *, kubectl: str = "kubectl", run: Run = run) -> None:
        self._command = (kubectl, *flags)
        self._run = run

    def default_namespace(self) -> str:
        """Return the namespace of the context in use."""
        status, output, _ = self._run([*self._command, "config", "view", "--minify", "-o", "jsonpath={..namespace}"], "")
        return output.strip() if status == 0 and output.strip() else "default"

    def read(self, path: str, *, verb: str = "get", resource: str = "", namespace: str = "") -> Json | KubeProblem:
        """Get one path.

        Parameters
        ----------
        verb, resource, namespace: what it is to a person, for the problem.
        """
        return self._answer(["get", "--raw", path], "", verb=verb, resource=resource or path, namespace=namespace)

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

    def create(self, path: str, body: Json, *, resource: str, namespace: str = "") -> Json | KubeProblem:
        """Post one object; returns it as the API server answers."""
        text = json.dumps(body)
        return self._answer(["create", "--raw", path, "-f", "-"], text, verb="create", resource=resource, namespace=namespace)

    def may(self, verb: str, group: str, resource: str, subresource: str = "", *, namespace: str = "", user: str = "") -> bool | KubeProblem:
        """Ask whether the caller has a right, or, with `user`, whether somebody else has it, which needs a right itself."""
        kind, plural = ("SubjectAccessReview", "subjectaccessreviews") if user else ("SelfSubjectAccessReview", "selfsubjectaccessreviews")
        attributes = {"verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": namespace}
        spec: Json = {"resourceAttributes": {k: v for k, v in attributes.items() if v or k == "group"}}
        if user:
            parts = user.split(":")  # system:serviceaccount:<namespace>:<name>
            groups = ["system:serviceaccounts", f"system:serviceaccounts:{parts[2]}", "system:authenticated"]
            spec |= {"user": user, "groups": groups}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        answer = self.create(f"/apis/authorization.k8s.io/v1/{plural}", body, resource=f"{plural}.authorization.k8s.io")
        return answer if isinstance(answer, KubeProblem) else (answer.get("status") or {}).get("allowed") is True

    def _answer(self, arguments: Sequence[str], stdin: str, *, verb: str, resource: str, namespace: str) -> Json | KubeProblem:
        status, output, errors = self._run([*self._command, *arguments], stdin)
        if status == 0:
            try:
                parsed = json.loads(output)
            except json.JSONDecodeError:
                parsed = None
            if isinstance(parsed, dict):
                return parsed
            errors = "the answer is no JSON object"
        return _problem(errors, verb=verb, resource=resource, namespace=namespace)


def _problem(errors: str, *, verb: str, resource: str, namespace: str) -> KubeProblem:
    """Translate what kubectl printed; whatever it does not call a refusal is UNAVAILABLE."""
    text = " ".join(errors.split())
    named = re.search(r"(?:Error from server|error:[^(]*) ?\((\w+)\)", text)
    kind = _KINDS.get(named[1], KubeProblemKind.UNAVAILABLE) if named else KubeProblemKind.UNAVAILABLE
    return KubeProblem(kind=kind, verb=verb, resource=resource, namespace=namespace, message=text or "kubectl said nothing")
