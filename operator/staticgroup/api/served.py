"""Compare the schema that an API server serves with what this operator writes.

The one idea: a status is applied as a whole, so one field, value or length that an older CustomResourceDefinition does
not know has all of it refused. This module names, field by field, what the models may write and the served schema does
not take. Source: server-side apply answers "field not declared in schema" (kubernetes/kubernetes issue 139253); values
and bounds are the structural schema's own rules.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

Schema = Mapping[str, Any]

_BOUNDS: Final = ("maxItems", "maxLength", "maximum")


def lacking(written: Schema, served: Schema) -> tuple[str, ...]:
    """Name what a served CRD does not take of a status.

    Parameters
    ----------
    written: schema of the status, as `crd.status_schema` gives it.
    served: schema of the whole resource, as the API server publishes it.

    Returns
    -------
    Paths such as `status.memory.suspects[].lostRun`, with the value or bound where the field is there; empty
    when everything is taken.
    """
    status = (served.get("properties") or {}).get("status")
    return tuple(_lacking("status", written, status)) if isinstance(status, Mapping) else ("status",)


def _lacking(path: str, written: Schema, served: Schema) -> Iterator[str]:
    """Yield what one node of the served schema does not take, then what those below it do not."""
    if served.get("x-kubernetes-preserve-unknown-fields"):
        return
    taken = served.get("enum")
    if taken is not None:
        yield from (f"{path}={value}" for value in written.get("enum") or () if value not in taken)
    for bound in _BOUNDS:
        most, wanted = served.get(bound), written.get(bound)
        if most is not None and wanted is not None and most < wanted:
            yield f"{path} (at most {most} served, {wanted} written)"
    known = served.get("properties") or {}
    for name, field in sorted((written.get("properties") or {}).items()):
        if name in known:
            yield from _lacking(f"{path}.{name}", field, known[name])
        else:
            yield f"{path}.{name}"
    if isinstance(written.get("items"), Mapping) and isinstance(served.get("items"), Mapping):
        yield from _lacking(f"{path}[]", written["items"], served["items"])
