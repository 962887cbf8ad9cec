"""The API server's own count of the requests that it answered, read from /metrics.

Source: k8s.io/apiserver/pkg/endpoints/metrics (`apiserver_request_total`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

from .budgets import WRITING_VERBS

_REQUESTS = "apiserver_request_total"
Requests = Counter[tuple[str, str]]
"""(verb, resource with its subresource) to how many."""


def requests_of(text: str) -> Requests:
    """Read the counts of all requests."""
    lines = [line for line in text.splitlines() if line.startswith((f"{_REQUESTS}{{", f"# TYPE {_REQUESTS} "))]
    found: Requests = Counter()
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in family.samples:
            if sample.name == _REQUESTS:
                resource, sub = sample.labels.get("resource", ""), sample.labels.get("subresource", "")
                found[sample.labels["verb"], f"{resource}/{sub}" if sub else resource] += int(sample.value)
    if not found:
        raise ValueError(f"no {_REQUESTS} in what the API server tells of itself")
    return found


def writes_between(before: Requests, after: Requests) -> Mapping[str, int]:
    """Return the writes between two readings, by "VERB resource"."""
    grown = after - before
    return {f"{verb} {what}": count for (verb, what), count in sorted(grown.items()) if verb in WRITING_VERBS}


def without_leases(writes: Mapping[str, int]) -> int:
    """Count writes but those of Leases: of the operator's own and of the API server's identity, every few seconds."""
    return sum(count for what, count in writes.items() if what.partition(" ")[2] != "leases")
