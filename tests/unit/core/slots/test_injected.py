"""What the injection plan says of a Deployment: what keeps its pods from ids, and which templates they can have."""

from __future__ import annotations

import pytest

from staticgroup.core.injection import InjectionVerdict, plan_injection
from staticgroup.core.snapshot import History
from unit.core.builders import departure, history, spec
from unit.core.slots.deployments import deployment

REF = {"name": "web", "kind": "Deployment"}


def test_an_obstacle_is_said_and_nothing_is_injected() -> None:
    seen = departure(workload=deployment(), policy_served=True, slot_obstacle="node n1 is too old")
    found = plan_injection(spec(workloadRef=REF), seen, history())
    assert (found.verdict, found.message) == (InjectionVerdict.NOT_SERVED, "New pods get no id: node n1 is too old")
    assert found.injected is not None
    assert found.injected.method == "None"


@pytest.mark.parametrize("template", ["orders-{ordinal}.{scope}", "{podName}-{ordinal}.{scope}"])
def test_a_template_with_an_ordinal_is_refused_which_pods_of_a_deployment_do_not_have(template: str) -> None:
    """No waiter fills it in, and a client does not start with braces in its id."""
    seen = departure(workload=deployment(), policy_served=True)
    found = plan_injection(spec(workloadRef=REF, idTemplate=template), seen, History())
    assert (found.verdict, found.injected) == (InjectionVerdict.INVALID, None)
    assert "{podName}" in found.message
    assert "{ordinal}" in found.message


@pytest.mark.parametrize(
    ("ref", "template"),
    [(REF, "{podName}.{scope}"), (REF, "orders-{podName}.{scope}"), ({"name": "web"}, "orders-{ordinal}.{scope}")],
)
def test_any_other_template_is_taken(ref: dict[str, str], template: str) -> None:
    view = deployment() if ref is REF else departure().workload
    found = plan_injection(spec(workloadRef=ref, idTemplate=template), departure(workload=view, policy_served=True), History())
    assert found.verdict is InjectionVerdict.ACTIVE
