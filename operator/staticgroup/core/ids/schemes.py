"""By which schemes a StaticGroup issues ids, as its object tells: its spec and what its status remembers."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from ...api.identifiers import AmbiguousIdentityError, IdScheme, InvalidInstanceIdError, resolve_template
from ...api.resources.staticgroup import StaticGroup
from .naming import scheme_of


def wanted_scheme(group: StaticGroup) -> tuple[IdScheme, ...]:
    """Return the scheme by which the next pods get ids; none while it makes no id that a broker takes."""
    template = resolved_template(group)
    return schemes_from(group, (template,)) if template is not None else ()


def resolved_template(group: StaticGroup) -> str | None:
    """Return the resolved template of a spec; None while it makes no id that a broker takes."""
    injected = group.status.injected if group.status is not None else None
    with suppress(InvalidInstanceIdError):
        return resolve_template(
            group.spec.template,
            namespace=group.metadata.namespace,
            workload_name=group.spec.workload_ref.name,
            group_name=group.metadata.name,
            # A scope that was not drawn yet is nobody else's: no id holds a blank.
            scope=injected.scope if injected is not None else " ",
        )
    return None


def schemes_of(group: StaticGroup) -> tuple[IdScheme, ...]:
    """Return every scheme that a StaticGroup issues ids by, or did; none while it makes no id that a broker takes."""
    status = group.status
    injected = status.injected if status is not None else None
    issued = status.memory.issued if status is not None else None
    templates = [*(issued.templates if issued is not None else ())]
    if injected is not None:
        templates.append(injected.id_template)
    present = resolved_template(group)
    return schemes_from(group, (*templates, present) if present is not None else templates)


def schemes_from(group: StaticGroup, templates: Iterable[str]) -> tuple[IdScheme, ...]:
    """Return the schemes of resolved templates; none where two members of a pod would carry the same id."""
    try:
        return tuple(scheme_of(group.spec, t) for t in dict.fromkeys(templates))
    except AmbiguousIdentityError:
        return ()
