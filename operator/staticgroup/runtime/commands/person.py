"""Refusals in plain words, for whoever calls a command with rights of his own.

Imports the standard library and ours alone, because the kubectl plugin carries it as it is.
"""

from __future__ import annotations

from ...kube.problem import KubeProblem, KubeProblemKind


class Refused(Exception):
    """The command cannot be carried out; the text says why, and what to do."""


def plain(problem: KubeProblem) -> str:
    """Say a problem to a person, whose own right it is that may be missing."""
    if problem.kind is KubeProblemKind.FORBIDDEN:
        where = f"namespace {problem.namespace}" if problem.namespace else "all namespaces"
        return f"you may not {problem.verb} {problem.resource} in {where}"
    return problem.message
