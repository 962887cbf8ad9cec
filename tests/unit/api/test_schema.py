"""What parsed models keep of which fields were given is shared, and stays what it was."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from staticgroup.api.resources.staticgroup import Mode, StaticGroup
from staticgroup.api.schema import _FIELD_NAMES, FIELD_NAMES_MAX
from support.full_status import full_status
from unit.runtime.operator_world import static_group


def parsed(**spec: object) -> StaticGroup:
    body = static_group(**spec)
    body["status"] = full_status().to_wire()
    return StaticGroup.from_wire(body)


def test_models_with_the_same_fields_keep_one_set_of_names() -> None:
    one, other = parsed(), parsed()
    assert one.status is not None
    assert other.status is not None
    pairs = [
        (one, other),
        (one.spec, other.spec),
        (one.status, other.status),
        (one.status.conditions[0], other.status.conditions[0]),
    ]
    for mine, theirs in pairs:
        assert mine.model_fields_set
        assert mine.model_fields_set is theirs.model_fields_set
        assert mine.model_fields_set == set(mine.model_dump(by_alias=False, exclude_unset=True))


def test_a_copy_with_another_field_changes_no_other_model() -> None:
    one, other = parsed(), parsed()
    assert "mode" not in other.spec.model_fields_set
    changed = one.spec.model_copy(update={"mode": Mode.OBSERVE})
    assert "mode" in changed.model_fields_set
    assert "mode" not in one.spec.model_fields_set | other.spec.model_fields_set
    with pytest.raises(ValidationError, match="frozen"):
        one.spec.mode = Mode.OBSERVE  # type: ignore[misc]


def test_a_model_with_more_fields_has_a_set_of_its_own() -> None:
    assert "mode" in parsed(mode="Manage").spec.model_fields_set
    assert "mode" not in parsed().spec.model_fields_set


def test_combinations_that_a_tenant_may_write_are_bounded() -> None:
    before = dict(_FIELD_NAMES)
    try:
        _FIELD_NAMES.update({frozenset({str(n)}): {str(n)} for n in range(FIELD_NAMES_MAX)})
        assert parsed().spec.model_fields_set == {"workload_ref", "connection_ref", "group_id", "group_protocol"}
        assert len(_FIELD_NAMES) < FIELD_NAMES_MAX
    finally:
        _FIELD_NAMES.clear()
        _FIELD_NAMES.update(before)
