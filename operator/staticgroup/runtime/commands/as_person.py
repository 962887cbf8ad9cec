"""What the commands that speak for a person have in common: whose rights, who that is, and refusals in plain words.

They run as the person, never as the operator: what they write is written with the rights of whoever calls them.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from kubernetes.aio.config import ConfigException

from ...kube.problem import KubeProblem, KubeProblemKind
from ...kube.transport import SELF_REVIEWS, Transport
from ..process import kube_client

STATEMENT_TO_FILL = "why this is sure"
"""What a printed command has in place of the statement."""


class Refused(Exception):
    """The word is not given; the text says why, and what to do."""


def refuse_placeholder(statement: str) -> None:
    """Refuse a statement that says nothing.

    Raises
    ------
    Refused: When it is the text that the printed command has in its place.
    """
    if statement.strip() == STATEMENT_TO_FILL:
        raise Refused(f"'{STATEMENT_TO_FILL}' stands for your own words: say how you know; the audit log keeps it")


async def with_transport(work: Callable[[Transport], Awaitable[None]]) -> int:
    """Do something at the API server as the caller.

    Returns
    -------
    0; or 1 when it was refused, and then the reason is on the standard error output.
    """
    try:
        transport = await kube_client.connected()
    except ConfigException as error:
        print(f"staticgroup: there is no cluster to talk to: {error}; set KUBECONFIG or pass a kubeconfig", file=sys.stderr)
        return 1
    try:
        await work(transport)
    except Refused as refusal:
        print(f"staticgroup: {refusal}", file=sys.stderr)
        return 1
    finally:
        await transport.close()
    return 0


async def caller(transport: Transport) -> str:
    """Ask the API server by which user name it knows the caller.

    Raises
    ------
    Refused: When it does not tell.
    """
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await transport.call("create", SELF_REVIEWS, body=body)
    if isinstance(answer, KubeProblem) and answer.kind is KubeProblemKind.UNAVAILABLE:
        raise Refused(f"the API server cannot be reached: {answer.message}")
    if isinstance(answer, KubeProblem):
        raise Refused(f"the API server does not tell who you are ({answer.message}); say it with --by")
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username", ""))


def plain(problem: KubeProblem) -> str:
    """Say a problem to a person, whose own right it is that may be missing."""
    if problem.kind is KubeProblemKind.FORBIDDEN:
        where = f"namespace {problem.namespace}" if problem.namespace else "all namespaces"
        return f"you may not {problem.verb} {problem.resource} in {where}"
    return problem.message


def time_text(moment: datetime) -> str:
    """Write a time in UTC and whole seconds, as people copy it: 2026-11-21T10:00:00Z."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
