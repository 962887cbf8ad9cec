"""Read the words that people have given about lost pods and about gaps, all of them, again and again.

A LIST says what is so now; nothing is decided from an event. Words are an extra: where they cannot be read, because the
CustomResourceDefinition is not installed yet or the right is missing, the operator works on without them, and finds them
when that changes. Seconds do not matter to a word, so there is no watch to keep.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from ..api import names
from ..api.resources.confirmation import PodEndConfirmation
from ..api.resources.gapconfirmation import WatchGapConfirmation
from ..core.evidence.spans import GapWord
from ..core.evidence.words import Word, gap_word_of, word_of
from ..kube.gateway import KubeGateway
from ..kube.pods.store import PodStore
from ..kube.problem import KubeProblem, KubeProblemKind

log = logging.getLogger(__name__)

Said = TypeVar("Said", Word, GapWord)

CHECK_S = 15.0
WORDS_MAX = 10_000
"""Most words of each kind that are kept of all namespaces, the newest."""


@dataclass(slots=True)
class Words:
    """What was read last of each scope.

    Parameters
    ----------
    scopes: namespaces that are served; `("",)` for all.
    on_gap_words: told when `gap_words` are others than before.

    Attributes
    ----------
    gap_words: what people have said about gaps, in the order in which it was said. They belong to no namespace.
    """

    kube: KubeGateway
    pods: PodStore
    scopes: tuple[str, ...]
    on_gap_words: Callable[[], None] = lambda: None
    gap_words: tuple[GapWord, ...] = ()
    _heard: dict[str, tuple[Word, ...]] = field(default_factory=dict)
    _trouble: dict[tuple[str, str], str] = field(default_factory=dict)

    async def follow(self) -> None:
        """Read every `CHECK_S` seconds until cancelled."""
        while True:
            await asyncio.sleep(CHECK_S)
            await self.read()

    async def read(self) -> None:
        """List every scope once and let the pod store hear what is there; what cannot be read now stays as it was."""
        for scope in self.scopes:
            words = await self._said(names.CONFIRMATION_PLURAL, scope, lambda b: word_of(PodEndConfirmation.from_wire(b)))
            if words is not None:
                self._heard[scope] = words
        newest = sorted((w for words in self._heard.values() for w in words), key=lambda w: -w.said_at_s)
        self.pods.hear(newest[:WORDS_MAX])
        said = await self._said(names.GAP_CONFIRMATION_PLURAL, "", lambda b: gap_word_of(WatchGapConfirmation.from_wire(b)))
        gap_words = self.gap_words if said is None else tuple(sorted(said, key=lambda w: w.said_at_s)[-WORDS_MAX:])
        if gap_words != self.gap_words:
            self.gap_words = gap_words
            self.on_gap_words()

    async def _said(
        self, plural: str, scope: str, said: Callable[[dict[str, Any]], Said]
    ) -> tuple[Said, ...] | None:
        """List the words of one kind once; none where the kind is not installed, None where they cannot be read now."""
        bodies = await self.kube.list_objects(plural, scope)
        if isinstance(bodies, KubeProblem):
            if bodies.kind is not KubeProblemKind.UNAVAILABLE:  # an API server that is away is told elsewhere
                self._note(plural, scope, bodies.message)
            return () if bodies.kind is KubeProblemKind.NOT_FOUND else None
        words, unreadable = _parsed(bodies, said)
        self._note(plural, scope, f"not readable: {', '.join(unreadable[:5])}" if unreadable else "")
        return words

    def _note(self, plural: str, scope: str, problem: str) -> None:
        if problem and problem != self._trouble.get((plural, scope), ""):
            if plural == names.CONFIRMATION_PLURAL:
                log.warning("confirmations of lost pods cannot be read", extra={"scope": scope, "problem": problem})
            else:
                log.warning("words about gaps of the pod watch are not heard", extra={"problem": problem})
        self._trouble[plural, scope] = problem


def _parsed(
    bodies: Iterable[dict[str, Any]], said: Callable[[dict[str, Any]], Said]
) -> tuple[tuple[Said, ...], list[str]]:
    """Return the words, and the names of the objects that an older or newer schema made unreadable."""
    words: list[Said] = []
    unreadable: list[str] = []
    for body in bodies:
        try:
            words.append(said(body))
        except ValidationError:
            metadata = body.get("metadata") or {}
            unreadable.append(f"{metadata.get('namespace', '')}/{metadata.get('name', '')}".removeprefix("/"))
    return tuple(words), unreadable
