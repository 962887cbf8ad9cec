"""Read the words that people have given about lost pods, all of them, again and again.

A LIST says what is so now; nothing is decided from an event. Words are an extra: where they cannot be read, because the
CustomResourceDefinition is not installed yet or the right is missing, the operator works on without them, and finds them
when that changes. Seconds do not matter to a word, so there is no watch to keep.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from ..api import names
from ..api.confirmation import PodEndConfirmation
from ..core.continuity import GapWord
from ..core.words import Word, word_of
from ..kube.gateway import KubeGateway
from ..kube.pod_store import PodStore
from ..kube.problem import KubeProblem, KubeProblemKind

log = logging.getLogger(__name__)

CHECK_S = 15.0
WORDS_MAX = 10_000
"""Most words that are kept of all namespaces, the newest."""


@dataclass(slots=True)
class Words:
    """What was read last of each scope.

    Parameters
    ----------
    scopes: namespaces that are served; `("",)` for all.
    """

    kube: KubeGateway
    pods: PodStore
    scopes: tuple[str, ...]
    gap_words: tuple[GapWord, ...] = ()
    _heard: dict[str, tuple[Word, ...]] = field(default_factory=dict)
    _trouble: dict[str, str] = field(default_factory=dict)

    async def follow(self) -> None:
        """Read every `CHECK_S` seconds until cancelled."""
        while True:
            await asyncio.sleep(CHECK_S)
            await self.read()

    async def read(self) -> None:
        """List every scope once and let the pod store hear what is there; what cannot be read now stays as it was."""
        for scope in self.scopes:
            bodies = await self.kube.list_objects(names.CONFIRMATION_PLURAL, scope)
            if isinstance(bodies, KubeProblem):
                if bodies.kind is not KubeProblemKind.UNAVAILABLE:  # an API server that is away is told elsewhere
                    self._note(scope, bodies.message)
                if bodies.kind is KubeProblemKind.NOT_FOUND:
                    self._heard[scope] = ()
                continue
            words, unreadable = _parsed(bodies)
            self._note(scope, f"not readable: {', '.join(unreadable[:5])}" if unreadable else "")
            self._heard[scope] = words
        newest = sorted((w for words in self._heard.values() for w in words), key=lambda w: -w.said_at_s)
        self.pods.hear(newest[:WORDS_MAX])

    def _note(self, scope: str, problem: str) -> None:
        if problem and problem != self._trouble.get(scope, ""):
            log.warning("confirmations of lost pods cannot be read", extra={"scope": scope, "problem": problem})
        self._trouble[scope] = problem


def _parsed(bodies: Iterable[dict[str, Any]]) -> tuple[tuple[Word, ...], list[str]]:
    """Return the words, and the names of the objects that an older or newer schema made unreadable."""
    words: list[Word] = []
    unreadable: list[str] = []
    for body in bodies:
        try:
            words.append(word_of(PodEndConfirmation.from_wire(body)))
        except ValidationError:
            metadata = body.get("metadata") or {}
            unreadable.append(f"{metadata.get('namespace', '')}/{metadata.get('name', '')}")
    return tuple(words), unreadable
