"""Which members a process was: one process may hold several ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from ...api.identifiers import InvalidInstanceIdError, Ordinal
from ...api.injection import env_entries, identity_of
from ...api.resources.staticgroup import StaticGroupSpec
from ..ids.naming import Naming
from .runs import RECENT_MS, RunChange


def by_member(
    changes: Iterable[RunChange], naming: Naming, spec: StaticGroupSpec, now_ms: int
) -> Iterator[tuple[RunChange, str]]:
    """Yield each recent change with each id that a member in the container holds."""
    for change in changes:
        if now_ms - change.observed_at_ms <= RECENT_MS:
            for instance_id in _ids_of(change, naming, spec):
                yield change, instance_id


def _ids_of(change: RunChange, naming: Naming, spec: StaticGroupSpec) -> list[str]:
    """Return the ids of the `identity.env` entries that name the container, as the pod carries them."""
    index = change.pod.pod_name.rpartition("-")[2]
    if not (index.isascii() and index.isdigit()):
        return []
    found: set[str] = set()
    for entry in env_entries(identity_of(spec)):
        if entry.container != change.container.name and not (entry.container is None and change.container.is_first):
            continue
        for scheme in naming.schemes:
            if entry.suffix not in scheme.env_suffixes:
                continue
            with suppress(InvalidInstanceIdError):
                base = str(scheme.base_id(Ordinal(int(index)), entry.suffix))
                if base in change.pod.instance_ids:
                    found.update(base + added for added in scheme.suffixes)
    return sorted(found)
