"""Which ids StaticGroups make, worked out from what their users wrote and from nothing that an operator says.

The rules are restated here on purpose: an operator that computed other ids would be found out.

Sources: the descriptions of `spec.client` and `spec.idTemplate` in the resource; KIP-345.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from ..kubernetes.objects import Json, id_template

ORDINALS_MAX: Final = 40
"""No workload of the simulation has an ordinal as high as this."""
PROBED: Final = range(ORDINALS_MAX)
"""Two templates are the same when they make the same ids of these."""
POD_NAME: Final = re.escape("{podName}")


@dataclass(frozen=True, slots=True)
class Issue:
    """One id as one StaticGroup makes it; `base` is what the pod is given, before the client appends anything.

    Parameters
    ----------
    ordinal: of a Deployment's pod, the number of its slot.
    """

    ordinal: int
    base: str


@dataclass(slots=True)
class GroupLife:
    """One StaticGroup by uid, with every way in which it ever made its ids.

    Parameters
    ----------
    is_of_slots: its workload is a Deployment, whose pods get the ids of slots, `<deployment>-<number>`.
    versions: (since virtual second, instance id → issue), the last one in force; of slots, those that pods have had.
    """

    namespace: str
    name: str
    group_id: str
    workload: str
    scope: str
    versions: list[tuple[float, dict[str, Issue]]] = field(default_factory=list)
    is_gone: bool = False
    is_of_slots: bool = False
    _written: list[tuple[Json, str]] = field(default_factory=list)
    _numbers: set[int] = field(default_factory=set)

    def take(self, spec: Json, at_s: float) -> None:
        """Note a spec; one that makes other ids than before begins a new version."""
        written = spec.get("client") or {}, id_template(spec)
        if self._written and written == self._written[-1]:
            return
        is_other = not self._written or self._issues(*written, PROBED) != self._issues(*self._written[-1], PROBED)
        if is_other:
            ordinals = self._numbers if self.is_of_slots else range(ORDINALS_MAX)
            self.versions.append((at_s, self._issues(*written, ordinals)))
            self._written.append(written)
        else:
            self._written[-1] = written

    def note_given(self, given: str) -> int | None:
        """Note what a process was given as its id, and return the number of the slot; None: it is made of none here."""
        found: int | None = None
        for (_, known), (client, template) in zip(self.versions, self._written, strict=True):
            for suffix in _own_suffixes(client) if self.is_of_slots else ():
                pattern = re.escape(self._filled(template) + suffix)
                matched = re.fullmatch(pattern.replace(POD_NAME, f"{re.escape(self.workload)}-([0-9]+)"), given)
                if matched:
                    found = int(matched[1])
                    self._numbers.add(found)
                    known.update(self._issues(client, template, (found,)))
        return found

    def issued(self, instance_id: str) -> list[Issue]:
        """Return how this StaticGroup ever made an id; empty: it never did."""
        return [ids[instance_id] for _, ids in self.versions if instance_id in ids]

    def current(self, instance_id: str) -> tuple[float, Issue] | None:
        """Return since when the present template makes an id, and how; None: it does not."""
        since_s, ids = self.versions[-1]
        return (since_s, ids[instance_id]) if instance_id in ids else None

    def ids_of(self, ordinals: Collection[int]) -> set[str]:
        """Return every id that the members of these ordinals use now."""
        return {i for i, issue in self.versions[-1][1].items() if issue.ordinal in ordinals}

    def _filled(self, template: str) -> str:
        """Return a template with only the pod's name and ordinal left to fill in."""
        known = {
            "namespace": self.namespace,
            "workloadName": self.workload,
            "groupName": self.name,
            "scope": self.scope,
        }
        for name, value in known.items():
            template = template.replace(f"{{{name}}}", value)
        return template

    def _issues(self, client: Json, template: str, ordinals: Iterable[int]) -> dict[str, Issue]:
        template = self._filled(template)
        added = client_suffixes(client)
        found: dict[str, Issue] = {}
        for ordinal in ordinals:
            made = template.replace("{podName}", f"{self.workload}-{ordinal}").replace("{ordinal}", str(ordinal))
            for base in (made + suffix for suffix in _own_suffixes(client)):
                found |= {base + suffix: Issue(ordinal, base) for suffix in added}
        return found


def _own_suffixes(client: Json) -> list[str]:
    """Return what each consumer of a pod appends to the template, by `spec.client`."""
    return [str(entry.get("suffix") or "") for entry in client.get("env") or ()] or [""]


def client_suffixes(client: Json) -> list[str]:
    """Return what the client appends to the id of a pod, one entry for each member, by `spec.client`."""
    if client.get("suffixes"):
        return list(client["suffixes"])
    count = int(client.get("concurrency") or 1)
    if client.get("type") == "KafkaStreams":
        return [f"-{n}" for n in range(1, count + 1)]
    return [f"-{n}" for n in range(count)] if client.get("type") == "SpringBoot" else [""]


def scope_of(cluster_uid: str, namespace: str, name: str, uid: str) -> str:
    """Return the scope of a StaticGroup's ids: 8 hex digits that its uid fixes."""
    return hashlib.sha256(f"{cluster_uid}/{namespace}/{name}/{uid}".encode()).hexdigest()[:8]
