"""Since which continuity epochs the history of each pod name is unbroken.

A gap of the watch draws a new epoch for everything, but it says nothing against a name that had the same object at both
ends: names are unique and uids never come back, so no other object of that name was in between (the uid rule). Such a name
stays unbroken since the epochs before; so does every name of a scope that had no gap. What had no object at one of the
ends, or another one, is blind over the gap.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

Name = tuple[str, str]
"""(namespace, pod name)"""
EPOCHS_MAX: Final = 16
"""Most earlier epochs that are remembered of a name; StaticGroups follow after each gap, so one is the usual number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """The object that had a name when a gap began, or ended.

    Parameters
    ----------
    restarts: restartCount over all its containers.
    ids_are_fixed: every id it carries comes from fields that cannot be edited.
    """

    uid: str
    restarts: int = 0
    ids_are_fixed: bool = False


class NameContinuity:
    """The epochs of every name of some scopes.

    Parameters
    ----------
    scopes: namespaces that are followed, or "" for all of them.
    """

    def __init__(self, scopes: Iterable[str]) -> None:
        self._of_scope: dict[str, tuple[str, ...]] = dict.fromkeys(scopes, ())
        self._of_name: dict[Name, tuple[str, ...]] = {}
        self._before: dict[str, Mapping[Name, Sighting]] = {}
        self._stayed: dict[str, frozenset[Name]] = {}

    def _scope_of(self, namespace: str) -> str:
        return namespace if namespace in self._of_scope else ""

    def epochs(self, namespace: str, pod_name: str) -> frozenset[str]:
        """Return the earlier epochs since which a name's history is unbroken, besides the present one."""
        own = self._of_name.get((namespace, pod_name), ())
        return frozenset((*own, *self._of_scope.get(self._scope_of(namespace), ())))

    def of_scope(self, namespace: str) -> frozenset[str]:
        """Return the earlier epochs since which the history of every name of a namespace is unbroken."""
        return frozenset(self._of_scope.get(self._scope_of(namespace), ()))

    def begin_gap(self, scope: str, present: Mapping[Name, Sighting]) -> None:
        """Note what had each name when the watch of a scope stopped being complete.

        Parameters
        ----------
        present: empty when nothing was known for certain: an operator began, or the server went back in time.
        """
        stayed = self._stayed.get(scope)
        if scope in self._before:  # another gap before the LIST after the first one
            present = {n: s for n, s in self._before[scope].items() if present.get(n) == s}
        elif stayed is not None:  # another gap before the epoch was drawn
            present = {n: s for n, s in present.items() if n in stayed}
        self._before[scope] = present

    def end_gap(self, scope: str, listed: Mapping[Name, Sighting]) -> None:
        """Compare with a complete LIST and note which names had the same object at both ends.

        Notes
        -----
        The uid rule says nothing of what the object did meanwhile. Where a container may have been started again (its
        restartCount is another one, or its object is gone) and its ids can be edited, it may have carried the id of
        another seat for a while: then no seat of its StatefulSet stays clear.
        """
        before = self._before.pop(scope, {})
        same = {n for n, s in listed.items() if n in before and before[n].uid == s.uid}
        unsure = {
            (n[0], n[1].rpartition("-")[0])
            for n, was in before.items()
            if not (was.ids_are_fixed and (n not in same or listed[n].ids_are_fixed))
            if n not in same or listed[n].restarts != was.restarts
        }
        self._stayed[scope] = frozenset(n for n in same if (n[0], n[1].rpartition("-")[0]) not in unsure)

    def heal(self, scope: str, epochs: Iterable[str]) -> None:
        """Note that the events of a scope's latest gap were seen after all.

        Parameters
        ----------
        epochs: since which every name of the scope was unbroken when the gap began.
        """
        self._of_scope[scope] = _bounded((*self._of_scope[scope], *epochs))

    def rewind(self) -> None:
        """Note that the server went back in time: uids may come back, so no name of any scope stays clear."""
        self._of_name.clear()
        self._before.clear()
        self._of_scope = dict.fromkeys(self._of_scope, ())
        self._stayed = dict.fromkeys(self._of_scope, frozenset())

    def draw(self, epoch_before: str) -> None:
        """Begin a new epoch, once all scopes are complete again.

        Parameters
        ----------
        epoch_before: the one that ended; "" when there was none.
        """
        ended = (epoch_before,) if epoch_before else ()
        for scope, earlier in self._of_scope.items():
            stayed = self._stayed.pop(scope, None)
            if stayed is None:
                self._of_scope[scope] = _bounded((*earlier, *ended))
                continue
            mine = [n for n in self._of_name if self._scope_of(n[0]) == scope]
            was = {n: self._of_name.pop(n) for n in mine}
            self._of_scope[scope] = ()
            for name in stayed:
                found = _bounded((*was.get(name, ()), *earlier, *ended))
                if found:
                    self._of_name[name] = found

    def keep_all(self, epoch: str) -> None:
        """Remember an epoch that ends without a gap, because the watch goes on under another name."""
        for scope, earlier in self._of_scope.items():
            self._of_scope[scope] = _bounded((*earlier, epoch))


def _bounded(epochs: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(epochs))[-EPOCHS_MAX:]
