"""A namespace is allowed by its name or by all labels that are asked, as Kubernetes' selectors read them."""

from __future__ import annotations

from typing import Any

import pytest

from staticgroup.api.resources.clusterkafkaconnection import AllowedNamespaces
from staticgroup.core.allowance import entries_of

SHOP = {"kubernetes.io/metadata.name": "shop", "team": "orders", "tier": ""}


def allowed(**spec: Any) -> AllowedNamespaces:
    return AllowedNamespaces.model_validate(spec)


def asks(key: str, operator: str, *values: str) -> AllowedNamespaces:
    expression = {"key": key, "operator": operator, "values": list(values)}
    return allowed(selector={"matchExpressions": [expression]})


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (allowed(), False),
        (allowed(names=["bill"]), False),
        (allowed(names=["bill", "shop"]), True),
        (allowed(selector={"matchLabels": {"team": "orders"}}), True),
        (allowed(selector={"matchLabels": {"team": "orders", "tier": "gold"}}), False),
        (allowed(selector={"matchLabels": {"absent": ""}}), False),
        (allowed(names=["shop"], selector={"matchLabels": {"team": "other"}}), True),
        (asks("team", "In", "orders", "bills"), True),
        (asks("team", "In", "bills"), False),
        (asks("absent", "In", ""), False),
        (asks("team", "NotIn", "bills"), True),
        (asks("team", "NotIn", "orders"), False),
        (asks("absent", "NotIn", "orders"), True),
        (asks("tier", "Exists"), True),
        (asks("absent", "Exists"), False),
        (asks("absent", "DoesNotExist"), True),
        (asks("tier", "DoesNotExist"), False),
        (allowed(selector={}), False),
    ],
)
def test_a_namespace_is_allowed_by_name_or_by_everything_that_its_labels_are_asked(
    said: AllowedNamespaces, answer: bool
) -> None:
    assert bool(entries_of([said], "shop", SHOP)) is answer


def test_one_of_two_things_asked_is_not_enough() -> None:
    both = allowed(
        selector={
            "matchLabels": {"team": "orders"},
            "matchExpressions": [{"key": "tier", "operator": "Exists"}, {"key": "absent", "operator": "Exists"}],
        }
    )
    assert not entries_of([both], "shop", SHOP)


@pytest.mark.parametrize("said", [asks("absent", "NotIn", "x"), asks("absent", "DoesNotExist")])
def test_labels_that_are_not_known_allow_nothing(said: AllowedNamespaces) -> None:
    """A namespace without labels would be allowed here; one of which nothing is known must not be."""
    assert entries_of([said], "shop", {})
    assert not entries_of([said], "shop", None)
