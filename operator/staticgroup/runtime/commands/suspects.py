"""A word about a lost pod: which pods it can be about, what is refused, what is written and what is told.

The one idea: `staticgroup confirm` and `kubectl staticgroup confirm` are this module with two ways to the API server. It
refuses where the word would count for nothing, so that nobody believes to have said something.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from ...api import names
from ...kube.problem import KubeProblem
from .person import (
    STATEMENT_TO_FILL,
    Json,
    Person,
    Refused,
    moment_of,
    plain,
    refuse_placeholder,
    time_text,
    why_not_created,
)

SHOWN_MAX = 20
"""Suspects that an error names."""
CONFIRMATIONS = f"{names.CONFIRMATION_PLURAL}.{names.GROUP}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """One suspect, as the ledger of a StaticGroup shows it."""

    group_name: str
    pod_name: str
    uid: str
    node_name: str
    since: datetime
    evidence: str

    def __str__(self) -> str:
        return f"pod {self.pod_name} uid {self.uid} on node {self.node_name or 'unknown'}, a suspect since {time_text(self.since)}"


async def list_suspects(person: Person, namespace: str) -> None:
    """Print the suspects of a namespace, each with the command to type.

    Raises
    ------
    Refused: When they cannot be read.
    """
    suspects = await _suspects(person, namespace)
    for suspect in suspects:
        print(f"{suspect}, of StaticGroup {suspect.group_name}: {suspect.evidence}")
        print(f"    {_command(person.program, namespace, suspect)}")
    if not suspects:
        print(f"no StaticGroup of namespace {namespace} has a suspect in its ledger")
        return
    print(
        "\nSay it only of a pod whose machine is off for good, was wiped, or was seen not to run it, and give that as the "
        "statement. A living member would be removed."
    )


async def say_ended(person: Person, namespace: str, pod_name: str, uid: str, statement: str, by: str) -> None:
    """Say that the process of one suspect has ended.

    Parameters
    ----------
    by: who says so; "" asks the API server who the person is.

    Raises
    ------
    Refused: When it was not said, or does not count.
    """
    refuse_placeholder(statement)
    said_by = by or await person.user()
    body: Json = {
        "apiVersion": names.API_VERSION,
        "kind": names.CONFIRMATION_KIND,
        "metadata": {"name": uid, "namespace": namespace},
        "spec": {"podName": pod_name, "podUid": uid, "statement": statement, "by": said_by},
    }
    person.refuse_out_of_bounds(body)
    await _refuse_while_present(person, namespace, pod_name, uid)
    suspect = await _suspect(person, namespace, pod_name, uid)
    answer = await person.say(names.CONFIRMATION_PLURAL, namespace, body)
    if isinstance(answer, KubeProblem):
        raise Refused(_why_not(answer, namespace, uid, is_named=bool(by)))
    created = moment_of((answer.get("metadata") or {}).get("creationTimestamp"))
    print(f"{said_by} has said: no process of {suspect} runs any more. Statement: {statement}")
    if created is not None and int(created.timestamp()) < int(suspect.since.timestamp()):
        raise Refused(
            f"the API server's clock says {time_text(created)}, which is before the pod became a suspect by the operator's clock, "
            f"so the word does not count; after {time_text(suspect.since)} take it back and say it again: kubectl -n "
            f"{namespace} delete {names.CONFIRMATION_PLURAL} {uid}"
        )
    print(
        f"Within half a minute the operator takes it for dead, posts an Event SuspectConfirmed on StaticGroup "
        f"{suspect.group_name} and writes an audit line; departed members that waited for this proof alone are then removed. "
        "If the pod's object comes back, the word is void."
    )


async def _refuse_while_present(person: Person, namespace: str, pod_name: str, uid: str) -> None:
    present = await person.pod_uid(namespace, pod_name)
    if isinstance(present, KubeProblem):
        raise Refused(f"it cannot be told whether pod {namespace}/{pod_name} is really gone: {plain(present)}")
    if present == uid:
        raise Refused(
            f"pod {namespace}/{pod_name} with uid {uid} still exists, and nobody's word is taken about a pod that does: its "
            "kubelet may run it. Wait for its end"
        )


async def _suspect(person: Person, namespace: str, pod_name: str, uid: str) -> Suspect:
    suspects = await _suspects(person, namespace)
    for suspect in suspects:
        if (suspect.pod_name, suspect.uid) == (pod_name, uid):
            return suspect
    there_are = "; ".join(str(s) for s in suspects[:SHOWN_MAX]) or "none"
    raise Refused(
        f"no StaticGroup of namespace {namespace} has pod {pod_name} with uid {uid} as a suspect in its ledger, and a word "
        f"counts only about a suspect. There are: {there_are}"
    )


async def _suspects(person: Person, namespace: str) -> list[Suspect]:
    bodies = await person.static_groups(namespace)
    if isinstance(bodies, KubeProblem):
        raise Refused(f"the ledgers cannot be read: {plain(bodies)}")
    return suspects_of(bodies, namespace)


def suspects_of(bodies: Iterable[Json], namespace: str) -> list[Suspect]:
    """Return the suspects that no word has closed, each once, the oldest first.

    Parameters
    ----------
    bodies: StaticGroups as they are stored. namespace: a word counts only in the namespace of the pod.
    """
    found: dict[str, Suspect] = {}
    for suspect in (each for body in bodies for each in _of_one(body, namespace)):
        found.setdefault(suspect.uid, suspect)
    return sorted(found.values(), key=lambda s: (s.since, s.pod_name))


def _of_one(body: Json, namespace: str) -> Iterator[Suspect]:
    """Yield those of one StaticGroup; an entry stored under another schema is left out, the operator reports it."""
    ledger = (body.get("status") or {}).get("ledger") or {}
    for entry in ledger.get("incarnations") or ():
        since = moment_of(entry.get("since"))
        is_here = entry.get("namespace") in (None, namespace)
        is_open = entry.get("state") == "Suspect" and entry.get("confirmedBy") is None and entry.get("nodeCertificate") is None
        if is_here and is_open and since is not None and entry.get("podName") and entry.get("uid"):
            yield Suspect(
                group_name=str(body["metadata"]["name"]), pod_name=str(entry["podName"]), uid=str(entry["uid"]),
                node_name=str(entry.get("nodeName") or ""), since=since, evidence=str(entry.get("evidence") or ""),
            )  # fmt: skip


def _why_not(problem: KubeProblem, namespace: str, uid: str, *, is_named: bool) -> str:
    return why_not_created(
        problem,
        said=f"kubectl -n {namespace} get {names.CONFIRMATION_PLURAL} {uid}",
        again=", for example after the pod came back and was lost again",
        place=f"{CONFIRMATIONS} in namespace {namespace}",
        missing=f"namespace {namespace} or the kind {names.CONFIRMATION_KIND}",
        role="staticgroup-confirm",
        is_named=is_named,
    )


def _command(program: str, namespace: str, suspect: Suspect) -> str:
    words = [*program.split(), "-n", namespace, "confirm", suspect.pod_name, "--uid", suspect.uid]
    return f"{shlex.join(words)} --statement '{STATEMENT_TO_FILL}'"
