"""Which ids StaticGroups make, worked out from what their users wrote and from nothing that an operator says.

The rules are restated here on purpose: an operator that computed other ids would be found out.

Sources: the descriptions of `spec.client` and `spec.idTemplate` in the resource; KIP-345.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ..kubernetes.objects import Json, id_template

ORDINALS_MAX: Final = 40
"""No workload of the simulation has an ordinal as high as this."""


@dataclass(frozen=True, slots=True)
class Issue:
    """One id as one StaticGroup makes it; `base` is what the pod is given, before the client appends anything."""

    ordinal: int
    base: str


@dataclass(slots=True)
class GroupLife:
    """One StaticGroup by uid, with every way in which it ever made its ids.

    Parameters
    ----------
    versions: (since virtual second, instance id → issue), the last one in force.
    """

    namespace: str
    name: str
    group_id: str
    workload: str
    scope: str
    versions: list[tuple[float, dict[str, Issue]]] = field(default_factory=list)
    is_gone: bool = False
    _client_and_template: tuple[Json, str] | None = None

    def take(self, spec: Json, at_s: float) -> None:
        """Note a spec; one that makes other ids than before begins a new version."""
        client_and_template = spec.get("client") or {}, id_template(spec)
        if client_and_template != self._client_and_template:
            self._client_and_template = client_and_template
            issues = self._issues(*client_and_template)
            if not self.versions or issues != self.versions[-1][1]:
                self.versions.append((at_s, issues))

    def issued(self, instance_id: str) -> list[Issue]:
        """Return how this StaticGroup ever made an id; empty: it never did."""
        return [ids[instance_id] for _, ids in self.versions if instance_id in ids]

    def current(self, instance_id: str) -> tuple[float, Issue] | None:
        """Return since when the present template makes an id, and how; None: it does not."""
        since_s, ids = self.versions[-1]
        return (since_s, ids[instance_id]) if instance_id in ids else None

    def ids_of(self, ordinals: Sequence[int]) -> set[str]:
        """Return every id that the members of these ordinals use now."""
        return {i for i, issue in self.versions[-1][1].items() if issue.ordinal in ordinals}

    def _issues(self, client: Json, template: str) -> dict[str, Issue]:
        known = {
            "namespace": self.namespace,
            "workloadName": self.workload,
            "groupName": self.name,
            "scope": self.scope,
        }
        for name, value in known.items():
            template = template.replace(f"{{{name}}}", value)
        own = [str(entry.get("suffix") or "") for entry in client.get("env") or ()] or [""]
        added = client_suffixes(client)
        found: dict[str, Issue] = {}
        for ordinal in range(ORDINALS_MAX):
            made = template.replace("{podName}", f"{self.workload}-{ordinal}").replace("{ordinal}", str(ordinal))
            for base in (made + suffix for suffix in own):
                found |= {base + suffix: Issue(ordinal, base) for suffix in added}
        return found


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
