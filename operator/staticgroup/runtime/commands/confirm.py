"""`confirm`: a person says that the process of a lost pod has ended.

It runs as the person, never as the operator: it creates one PodEndConfirmation with the rights of whoever calls it. It
refuses where the word would count for nothing, so that nobody believes to have said something.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from ...api import names
from ...api.resources.confirmation import PodEndConfirmation
from ...api.resources.durable import Incarnation, IncarnationState
from ...kube.gateway import AioKubeGateway
from ...kube.problem import KubeProblem
from ...kube.transport import Resource, Transport
from .as_person import (
    STATEMENT_TO_FILL,
    Refused,
    caller,
    gateway,
    plain,
    refuse_placeholder,
    said,
    static_groups,
    time_text,
    why_not_created,
    with_transport,
)

CONFIRMATIONS = Resource(group=names.GROUP, version=names.VERSION, plural=names.CONFIRMATION_PLURAL)
SHOWN_MAX = 20
"""Suspects that an error names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """One suspect, as the ledger of a StaticGroup shows it."""

    group_name: str
    entry: Incarnation

    def __str__(self) -> str:
        node, since = self.entry.node_name or "unknown", time_text(self.entry.since)
        return f"pod {self.entry.pod_name} uid {self.entry.uid} on node {node}, a suspect since {since}"


async def list_suspects(namespace: str) -> int:
    """Print the suspects of a namespace, each with the command to type.

    Returns
    -------
    0; or 1 when they cannot be read.
    """
    return await with_transport(lambda transport: _list(transport, namespace))


async def confirm(namespace: str, pod_name: str, uid: str, statement: str, by: str) -> int:
    """Say that the process of one suspect has ended.

    Parameters
    ----------
    by: who says so; "" asks the API server who the caller is.

    Returns
    -------
    0; or 1 when it was not said.
    """
    return await with_transport(lambda t: _say(t, namespace, pod_name, uid, statement, by))


async def _list(transport: Transport, namespace: str) -> None:
    suspects = await _suspects(gateway(transport), namespace)
    for suspect in suspects:
        print(f"{suspect}, of StaticGroup {suspect.group_name}: {suspect.entry.evidence}")
        print(f"    {_command(namespace, suspect.entry)}")
    if not suspects:
        print(f"no StaticGroup of namespace {namespace} has a suspect in its ledger")
        return
    print(
        "\nSay it only of a pod whose machine is off for good, was wiped, or was seen not to run it, and give that as the "
        "statement. A living member would be removed."
    )


async def _say(transport: Transport, namespace: str, pod_name: str, uid: str, statement: str, by: str) -> None:
    refuse_placeholder(statement)
    kube = gateway(transport)
    said_by = by or await caller(transport)
    body = {
        "apiVersion": names.API_VERSION,
        "kind": names.CONFIRMATION_KIND,
        "metadata": {"name": uid, "namespace": namespace},
        "spec": {"podName": pod_name, "podUid": uid, "statement": statement, "by": said_by},
    }
    said(PodEndConfirmation, body)
    await _refuse_while_present(kube, namespace, pod_name, uid)
    suspect = await _suspect(kube, namespace, pod_name, uid)
    answer = await transport.call("create", CONFIRMATIONS, namespace=namespace, body=body)
    if isinstance(answer, KubeProblem):
        raise Refused(_why_not(answer, namespace, uid, is_named=bool(by)))
    created = PodEndConfirmation.from_wire(answer).metadata.creation_timestamp
    print(f"{said_by} has said: no process of {suspect} runs any more. Statement: {statement}")
    if created is not None and int(created.timestamp()) < int(suspect.entry.since.timestamp()):
        raise Refused(
            f"the API server's clock says {time_text(created)}, which is before the pod became a suspect by the operator's clock, "
            f"so the word does not count; after {time_text(suspect.entry.since)} take it back and say it again: kubectl -n "
            f"{namespace} delete {names.CONFIRMATION_PLURAL} {uid}"
        )
    print(
        f"Within half a minute the operator takes it for dead, posts an Event SuspectConfirmed on StaticGroup "
        f"{suspect.group_name} and writes an audit line; departed members that waited for this proof alone are then removed. "
        "If the pod's object comes back, the word is void."
    )


async def _refuse_while_present(kube: AioKubeGateway, namespace: str, pod_name: str, uid: str) -> None:
    read = await kube.read_pod(namespace, pod_name)
    if isinstance(read, KubeProblem):
        raise Refused(f"it cannot be told whether pod {namespace}/{pod_name} is really gone: {plain(read)}")
    if read.version is not None and read.version.uid == uid:
        raise Refused(
            f"pod {namespace}/{pod_name} with uid {uid} still exists, and nobody's word is taken about a pod that does: its "
            "kubelet may run it. Wait for its end"
        )


async def _suspect(kube: AioKubeGateway, namespace: str, pod_name: str, uid: str) -> Suspect:
    suspects = await _suspects(kube, namespace)
    for suspect in suspects:
        if (suspect.entry.pod_name, suspect.entry.uid) == (pod_name, uid):
            return suspect
    there_are = "; ".join(str(s) for s in suspects[:SHOWN_MAX]) or "none"
    raise Refused(
        f"no StaticGroup of namespace {namespace} has pod {pod_name} with uid {uid} as a suspect in its ledger, and a word "
        f"counts only about a suspect. There are: {there_are}"
    )


async def _suspects(kube: AioKubeGateway, namespace: str) -> list[Suspect]:
    """Read the suspects that no word has closed, each once, the oldest first."""
    found: dict[str, Suspect] = {}
    for group in await static_groups(kube, namespace, what="the ledgers"):
        ledger = group.status.ledger if group.status is not None else None
        for entry in ledger.incarnations if ledger is not None else ():
            is_here = entry.namespace in (None, namespace)  # a word counts only in the namespace of the pod
            if is_here and entry.state is IncarnationState.SUSPECT and entry.confirmed_by is None:
                found.setdefault(entry.uid, Suspect(group_name=group.metadata.name, entry=entry))
    return sorted(found.values(), key=lambda s: (s.entry.since, s.entry.pod_name))


def _why_not(problem: KubeProblem, namespace: str, uid: str, *, is_named: bool) -> str:
    return why_not_created(
        problem,
        said=f"kubectl -n {namespace} get {names.CONFIRMATION_PLURAL} {uid}",
        again=", for example after the pod came back and was lost again",
        place=f"{CONFIRMATIONS.label()} in namespace {namespace}",
        missing=f"namespace {namespace} or the kind {names.CONFIRMATION_KIND}",
        role="staticgroup-confirm",
        is_named=is_named,
    )


def _command(namespace: str, entry: Incarnation) -> str:
    words = ["staticgroup", "-n", namespace, "confirm", entry.pod_name, "--uid", entry.uid]
    return f"{shlex.join(words)} --statement '{STATEMENT_TO_FILL}'"
