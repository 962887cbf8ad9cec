"""What `status.injected` says of a Deployment's pods: keys of the file of their slot, and what stands there."""

from __future__ import annotations

from typing import Any

import pytest

from staticgroup.api.injection import resolve_injected
from staticgroup.api.resources.client import Client
from staticgroup.api.resources.injected import InjectedMethod, InjectedStatus
from staticgroup.api.resources.staticgroup import StaticGroupSpec
from staticgroup.api.resources.status import StaticGroupStatus
from staticgroup.core.snapshot import Injected
from staticgroup.core.status.memory import history_from, wire_injected
from unit.core.builders import SCOPE, injected, spec

TEMPLATE = f"{{podName}}.{SCOPE}"
TWO = {
    "type": "Custom",
    "env": [
        {"container": "app", "instanceIdName": "ORDERS_ID", "sessionTimeoutName": "TIMEOUT", "suffix": "-orders"},
        {"container": "audit", "instanceIdName": "AUDIT_ID", "sessionTimeoutName": "", "suffix": "-audit"},
    ],
}


def resolved(client: dict[str, Any] | None = None, template: str = TEMPLATE, **changes: Any) -> InjectedStatus:
    values: dict[str, Any] = {"session_timeout_ms": None, "container": "app", "by_slot": True}
    return resolve_injected(
        Client.model_validate(client or {}), method=InjectedMethod.POLICY, scope=SCOPE, id_template=template,
        **(values | changes),
    )  # fmt: skip


def shown(status: InjectedStatus) -> list[tuple[str, str, str | None, str | None]]:
    return [(entry.container, entry.name, entry.key, entry.value) for entry in status.env]


def test_the_variable_reads_a_key_whose_value_is_made_of_the_slot() -> None:
    assert shown(resolved()) == [("app", "KAFKA_GROUP_INSTANCE_ID", "ID_0", f"%s.{SCOPE}")]


def test_each_consumer_has_a_key_of_its_own_and_the_session_timeout_has_none() -> None:
    assert shown(resolved(TWO, session_timeout_ms=45_000)) == [
        ("app", "ORDERS_ID", "ID_0", f"%s.{SCOPE}-orders"),
        ("app", "TIMEOUT", None, None),
        ("audit", "AUDIT_ID", "ID_1", f"%s.{SCOPE}-audit"),
    ]


def test_a_stateful_sets_variables_have_no_key() -> None:
    assert {entry.key for entry in resolved(TWO, by_slot=False, session_timeout_ms=45_000).env} == {None}


def test_also_where_the_users_variable_is_the_one_that_ids_are_composed_of_the_file_is_read() -> None:
    client = {"type": "Custom", "env": [{"instanceIdName": "STATICGROUP_POD_NAME"}]}
    assert shown(resolved(client)) == [("app", "STATICGROUP_POD_NAME", "ID_0", f"%s.{SCOPE}")]


@pytest.mark.parametrize(("kind", "key"), [("Deployment", "ID_0"), ("StatefulSet", None)])
def test_the_status_says_it_by_the_kind_of_the_workload_and_is_read_back(kind: str, key: str | None) -> None:
    asked: StaticGroupSpec = spec(workloadRef={"name": "web", "kind": kind})
    written = wire_injected(asked, injected())
    assert written is not None
    assert written.env[0].key == key
    body = StaticGroupStatus(injected=written).model_dump(by_alias=True, exclude_none=True, mode="json")
    read: Injected | None = history_from(StaticGroupStatus.model_validate(body), "shop").injected
    assert read == injected()
