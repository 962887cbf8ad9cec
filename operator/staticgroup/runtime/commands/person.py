"""A person who gives a word: what is asked in his name, whom he hears, and refusals in plain words.

Imports the standard library and ours alone, because the kubectl plugin carries it as it is: the two ways of giving a word
say the same and refuse the same.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Protocol

from ...api.remedies import INSTALL_CRDS
from ...kube.problem import KubeProblem, KubeProblemKind

Json = dict[str, Any]

STATEMENT_TO_FILL = "why this is sure"
"""What a printed command has in place of the statement."""


class Refused(Exception):
    """The word is not given; the text says why, and what to do."""


class Person(Protocol):
    """What a command asks of the API server with the rights of whoever calls it."""

    @property
    def program(self) -> str:
        """The words by which the person calls this program."""

    async def user(self) -> str:
        """Ask by which user name the API server knows the person; raises Refused when it does not tell."""

    async def static_groups(self, namespace: str) -> list[Json] | KubeProblem:
        """Read the StaticGroups of a namespace as they are stored; "" for all."""

    async def pod_uid(self, namespace: str, name: str) -> str | KubeProblem | None:
        """Read the uid of a pod; None when there is none of that name."""

    async def gap_words(self) -> list[Json] | KubeProblem:
        """Read the words about gaps as they are stored."""

    def refuse_out_of_bounds(self, body: Json) -> None:
        """Raise Refused for a word that the API server would refuse; may leave that to the API server."""

    async def say(self, plural: str, namespace: str, body: Json) -> Json | KubeProblem:
        """Create a word; returns it as it is stored."""


def refuse_placeholder(statement: str) -> None:
    """Refuse a statement that says nothing.

    Raises
    ------
    Refused: When it is the text that the printed command has in its place.
    """
    if statement.strip() == STATEMENT_TO_FILL:
        raise Refused(f"'{STATEMENT_TO_FILL}' stands for your own words: say how you know; the audit log keeps it")


def why_not_created(
    problem: KubeProblem, *, said: str, again: str = "", place: str, missing: str, role: str, is_named: bool
) -> str:
    """Say why a word could not be written, and what to do.

    Parameters
    ----------
    said: command that shows who said it before. again: when one would say it once more.
    place: resource, and where, that may not be created. missing: what does not exist where it is not found.
    role: whose binding allows it. is_named: the speaker was named with --by.
    """
    if problem.kind is KubeProblemKind.CONFLICT:
        return f"it was said before; see who said it: {said}. To say it again{again}, delete that first"
    if problem.kind is KubeProblemKind.NOT_FOUND:
        return f"{missing} does not exist here; {INSTALL_CRDS}"
    if problem.kind is KubeProblemKind.FORBIDDEN:
        other = ", or --by is not your own user name" if is_named else ""
        return f"you may not create {place}{other}; who may is decided by the one who binds the ClusterRole {role}"
    return problem.message


def plain(problem: KubeProblem) -> str:
    """Say a problem to a person, whose own right it is that may be missing."""
    if problem.kind is KubeProblemKind.FORBIDDEN:
        where = f"namespace {problem.namespace}" if problem.namespace else "all namespaces"
        return f"you may not {problem.verb} {problem.resource} in {where}"
    return problem.message


def moment_of(text: object) -> datetime | None:
    """Read a time as the API server writes it; None for what is none."""
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def time_text(moment: datetime) -> str:
    """Write a time in UTC and whole seconds, as people copy it: 2026-11-21T10:00:00Z."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
