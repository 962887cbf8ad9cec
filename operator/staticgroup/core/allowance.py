"""What a connection of the whole cluster allows a namespace.

One idea: by name or by label, and what is not known allows nothing. Source: the label selectors of Kubernetes
(LabelSelectorAsSelector): all that is asked must hold, and a label that is not there is in no set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..api.resources.clusterkafkaconnection import AllowedNamespaces, LabelOperator, LabelRequirement, NamespaceSelector


def entries_of(
    allowed: Sequence[AllowedNamespaces], namespace: str, labels: Mapping[str, str] | None
) -> tuple[AllowedNamespaces, ...]:
    """Return the entries that name or select a namespace; none: it is not allowed.

    Parameters
    ----------
    labels: of the namespace; None while they are not known, and then only its name can allow it.
    """
    return tuple(
        entry
        for entry in allowed
        if namespace in entry.names
        or (entry.selector is not None and labels is not None and _selects(entry.selector, labels))
    )


def _selects(selector: NamespaceSelector, labels: Mapping[str, str]) -> bool:
    wanted, expressions = selector.match_labels or {}, selector.match_expressions or []
    if not wanted and not expressions:
        return False
    is_labelled = all(labels.get(key) == value for key, value in wanted.items())
    return is_labelled and all(_holds(e, labels) for e in expressions)


def _holds(asked: LabelRequirement, labels: Mapping[str, str]) -> bool:
    match asked.operator:
        case LabelOperator.IN:
            return asked.key in labels and labels[asked.key] in asked.values
        case LabelOperator.NOT_IN:
            return asked.key not in labels or labels[asked.key] not in asked.values
        case LabelOperator.EXISTS:
            return asked.key in labels
        case LabelOperator.DOES_NOT_EXIST:
            return asked.key not in labels
