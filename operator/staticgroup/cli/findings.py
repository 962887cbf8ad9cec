"""What `doctor` prints: one check each; and the rights that the operator needs in each namespace that it serves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..api import names

POLICY_MINOR: Final = 36
"""From this minor of Kubernetes on MutatingAdmissionPolicy is v1 (KEP-3962)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check: what was checked, whether it is good, and what to do when it is not.

    Parameters
    ----------
    is_fatal: False for something the operator can do without; it costs a feature, which `remedy` names.
    """

    check: str
    is_good: bool
    remedy: str = ""
    is_fatal: bool = True

    @property
    def mark(self) -> str:
        """Return `ok`, `warn` or `FAIL`."""
        return "ok" if self.is_good else ("FAIL" if self.is_fatal else "warn")

    def __str__(self) -> str:
        return f"{self.mark:4}  {self.check}" + ("" if self.is_good else f"\n      {self.remedy}")


RIGHTS: Final[tuple[tuple[str, str, str, str, bool], ...]] = (
    *(
        (verb, names.GROUP, resource, "", True)
        for resource in ("staticgroups", "kafkaconnections")
        for verb in ("get", "list", "watch")
    ),
    *(("patch", names.GROUP, resource, "status", True) for resource in ("staticgroups", "kafkaconnections")),
    *((verb, "apps", "statefulsets", "", True) for verb in ("get", "list", "watch")),
    *((verb, "", "pods", "", True) for verb in ("get", "list", "watch")),
    ("create", "events.k8s.io", "events", "", False),
)
"""(verb, group, resource, subresource, is_fatal) that the operator needs in each served namespace."""
CLUSTER_RIGHTS: Final[tuple[tuple[str, str, str, str, bool], ...]] = (
    *((verb, names.GROUP, names.CLUSTER_KAFKA_CONNECTION_PLURAL, "", False) for verb in ("get", "list", "watch")),
    ("patch", names.GROUP, names.CLUSTER_KAFKA_CONNECTION_PLURAL, "status", False),
    *((verb, "", "namespaces", "", False) for verb in ("list", "watch")),
)
"""The same of an operator that serves all namespaces."""


def rights_in(namespace: str) -> tuple[tuple[str, str, str, str, bool], ...]:
    """Return the rights that the operator needs in a namespace, or for "" in all."""
    return RIGHTS if namespace else (*RIGHTS, *CLUSTER_RIGHTS)


def right(verb: str, group: str, resource: str, subresource: str = "") -> str:
    """Name a right as RBAC messages do, such as `patch staticgroups/status.staticgroup.io`."""
    part = f"{resource}/{subresource}" if subresource else resource
    return f"{verb} {part}{'.' + group if group else ''}"
