"""Expected trouble at the API server, as values.

A refused or unanswered call is part of normal operation, so it is returned and matched, not raised. The text of a
problem is shown in conditions and Events: it names the verb and the resource, never a response body, because a
body may repeat what was sent.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class KubeProblemKind(StrEnum):
    """Kinds of trouble a caller treats differently; the value is what status shows."""

    NOT_FOUND = "NotFound"
    FORBIDDEN = "Forbidden"
    CONFLICT = "Conflict"
    GONE = "Gone"
    INVALID = "Invalid"
    UNDECLARED = "UndeclaredField"
    TOO_LARGE = "TooLarge"
    UNAVAILABLE = "Unavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeProblem:
    """One call that did not succeed.

    Parameters
    ----------
    kind: what the caller may do about it: UNAVAILABLE is worth a retry, TOO_LARGE a smaller page, the others need a
        change first. UNDECLARED is an apply with a field that the served CRD does not know.
    verb: get, list, watch, patch, create or update.
    resource: plural with its subresource and group, such as `pods`, `staticgroups.staticgroup.io/status`.
    namespace: "" for cluster-scoped or all namespaces.
    status: HTTP status; 0 when no answer arrived.
    message: one sentence for people.
    """

    kind: KubeProblemKind
    verb: str
    resource: str
    namespace: str = ""
    status: int = 0
    message: str = ""


_KINDS = {
    403: KubeProblemKind.FORBIDDEN,
    401: KubeProblemKind.FORBIDDEN,
    404: KubeProblemKind.NOT_FOUND,
    409: KubeProblemKind.CONFLICT,
    410: KubeProblemKind.GONE,
    400: KubeProblemKind.INVALID,
    413: KubeProblemKind.TOO_LARGE,
    415: KubeProblemKind.INVALID,
    422: KubeProblemKind.INVALID,
}


_PHRASES: Final = {
    "field not declared in schema": KubeProblemKind.UNDECLARED,
    "request is too large": KubeProblemKind.TOO_LARGE,
}
"""What API servers say in an answer whose status says less; both come as HTTP 500 (kubernetes/kubernetes issue 139253,
and etcd's own refusal of a large object, which is passed on)."""


def problem_of(status: int, *, verb: str, resource: str, namespace: str = "", text: str = "") -> KubeProblem:
    """Translate an HTTP status into a problem.

    Parameters
    ----------
    status: HTTP status outside 2xx; 0 when the call timed out or the connection broke.
    text: beginning of the answer's body; it is searched for a few phrases and never repeated.

    Notes
    -----
    Everything that is not known to need a change (429, 5xx, no answer) is UNAVAILABLE: retry later.
    """
    kind = _KINDS.get(status, KubeProblemKind.UNAVAILABLE)
    kind = next((meant for phrase, meant in _PHRASES.items() if phrase in text), kind)
    where = f" in namespace {namespace}" if namespace else ""
    answer = f"HTTP {status}" if status else "no answer"
    messages = {
        KubeProblemKind.FORBIDDEN: f"not allowed to {verb} {resource}{where}; grant this verb to the operator's role",
        KubeProblemKind.NOT_FOUND: f"{resource}{where} not found",
        KubeProblemKind.CONFLICT: f"{verb} {resource}{where} conflicts with a newer or another object",
        KubeProblemKind.GONE: f"the resourceVersion asked for in {verb} {resource}{where} is too old",
        KubeProblemKind.INVALID: f"the API server refused to {verb} {resource}{where} as invalid (HTTP {status})",
        KubeProblemKind.UNDECLARED: f"the API server refused to {verb} {resource}{where}: "
        f"its CRD does not know a field (HTTP {status})",
        KubeProblemKind.TOO_LARGE: f"the API server refused to {verb} {resource}{where} as too large (HTTP {status})",
        KubeProblemKind.UNAVAILABLE: f"the API server did not {verb} {resource}{where} ({answer})",
    }
    return KubeProblem(
        kind=kind, verb=verb, resource=resource, namespace=namespace, status=status, message=messages[kind]
    )
