"""`restored`: a person says that etcd was restored from a backup.

A restore that the resourceVersions do not show cannot be noticed by the operator, and pods that ended after the backup may
run again. The word is a new value of an annotation on the operator's Lease, written with the rights of whoever calls this;
running replicas read it within seconds, and one that starts finds it there.
"""

from __future__ import annotations

import asyncio
import secrets
from datetime import UTC, datetime

from ...api.remedies import LIST_GAPS
from ...api.resources.confirmation import Author, Statement
from ...api.schema import ApiModel
from ...kube.lease import RESTORED_ANNOTATION, RESTORED_BY_ANNOTATION
from ...kube.problem import KubeProblem, KubeProblemKind
from ...kube.transport import LEASES, Json, Transport
from .as_person import caller, said, with_transport
from .person import Refused, plain, time_text

ATTEMPTS_MAX = 10
"""The holder writes the Lease every two seconds; losing against it more often than this is another fault."""
RETRY_S = 0.2


class _Said(ApiModel):
    """What is written for people, within the bounds of every word."""

    statement: Statement
    by: Author


async def say_restored(statement: str, by: str, lease_namespace: str, lease_name: str) -> int:
    """Say that etcd was restored.

    Parameters
    ----------
    by: who says so; "" asks the API server who the caller is.
    lease_namespace, lease_name: the operator's Lease.

    Returns
    -------
    0; or 1 when it was not said.
    """
    return await with_transport(lambda t: _say(t, statement, by, lease_namespace, lease_name))


async def _say(transport: Transport, statement: str, by: str, namespace: str, name: str) -> None:
    word = said(_Said, {"statement": statement, "by": by or await caller(transport)})
    # A suffix that nobody used before: a backup may bring back an earlier value, and two people may speak in one second.
    mark = f"{time_text(datetime.now(UTC))}-{secrets.token_hex(4)}"
    note = " ".join(f"{word.by}: {word.statement}".split())
    await _write(transport, namespace, name, {RESTORED_ANNOTATION: mark, RESTORED_BY_ANNOTATION: note})
    print(
        f"{word.by} has said that etcd was restored ({mark} on Lease {namespace}/{name}). Every seat of every StaticGroup that this "
        "operator serves counts as blind from now on: its departed members wait for their sessions until words are said. When "
        f"the operator has told so in the statuses, see: {LIST_GAPS}"
    )


async def _write(transport: Transport, namespace: str, name: str, annotations: dict[str, str]) -> None:
    """Add annotations to the Lease as it is, again when somebody else writes it in between."""
    for _ in range(ATTEMPTS_MAX):
        lease = await transport.call("get", LEASES, namespace=namespace, name=name)
        if isinstance(lease, KubeProblem):
            raise Refused(_why_not(lease, namespace, name))
        metadata: Json = lease["metadata"]
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata | {"annotations": (metadata.get("annotations") or {}) | annotations},
            "spec": lease.get("spec") or {},
        }
        answer = await transport.call("update", LEASES, namespace=namespace, name=name, body=body)
        if not isinstance(answer, KubeProblem):
            return
        if answer.kind is not KubeProblemKind.CONFLICT:
            raise Refused(_why_not(answer, namespace, name))
        await asyncio.sleep(RETRY_S)
    raise Refused(f"Lease {namespace}/{name} was written by somebody else {ATTEMPTS_MAX} times in between; say it again")


def _why_not(problem: KubeProblem, namespace: str, name: str) -> str:
    if problem.kind is KubeProblemKind.NOT_FOUND:
        return (
            f"there is no Lease {namespace}/{name}; name the operator's with --lease-namespace and --lease-name. An operator that "
            "finds none when it starts counts every seat as blind by itself"
        )
    if problem.kind is KubeProblemKind.FORBIDDEN:
        return f"{plain(problem)}; it needs get and update on the Lease {name}"
    return problem.message
