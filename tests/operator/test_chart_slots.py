"""Hold what the chart installs for Deployments: both policies or neither right, by the names of the release."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from test_chart import environment
from test_chart_rbac import granted, table
from test_chart_variants import CHART, Manifest, manifest_generator, of_kind, render, the, values

from staticgroup.runtime.process.settings import Settings
from staticgroup.runtime.webhook.process import WebhookSettings

ON = values("workloads.deployments=true")
ROLLOUTS = values("workloads.deployments=true,workloads.argoRollouts=true")
OLDER = ("--kube-version", manifest_generator.WEBHOOK_KUBERNETES_VERSION)
INJECTING, FENCE = "MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"
ACCOUNT = "system:serviceaccount:staticgroup-system:staticgroup-operator"


def slots(manifests: list[Manifest]) -> dict[str, Manifest]:
    """What is installed for slots, by kind; the name is the same for all."""
    kinds = (INJECTING, f"{INJECTING}Binding", FENCE, f"{FENCE}Binding")
    found = [each for each in manifests if each["kind"] in kinds and "-slots" in each["metadata"]["name"]]
    return {each["kind"]: each for each in found}


def said(policy: Manifest) -> dict[str, str]:
    return {each["name"]: each["expression"] for each in policy["spec"]["variables"]}


def test_by_default_nothing_of_it_is_installed() -> None:
    manifests = render("default")
    assert slots(manifests) == {}
    assert of_kind(manifests, FENCE) == []
    assert not Settings.from_environment(environment(manifests)).deployments


def test_the_policies_are_the_generated_ones_with_image_and_account_filled_in() -> None:
    found = slots(render("default", *ON))
    generated = list(yaml.safe_load_all((CHART / "files" / "slot-policies.yaml").read_text()))
    assert [each["kind"] for each in generated] == [INJECTING, f"{INJECTING}Binding", FENCE, f"{FENCE}Binding"]
    filled = {
        "slotImage": "'localhost/staticgroup-slot-waiter:0.1.0'", "slotPullPolicy": "'IfNotPresent'",
        "operator": f"'{ACCOUNT}'",
    }  # fmt: skip
    for each in generated:
        for variable in each["spec"].get("variables", ()):
            variable["expression"] = filled.get(variable["name"], variable["expression"])
        assert found[each["kind"]]["spec"] == each["spec"]
        assert found[each["kind"]]["metadata"]["name"] == "staticgroup-slots"


@pytest.mark.parametrize(
    ("options", "image"),
    [
        (values("slots.image.tag=v1"), "localhost/staticgroup-slot-waiter:v1"),
        (values("slots.image.repository=registry.example/w,global.imageRegistry=mirror.example"), "mirror.example/w:0.1.0"),
        (values(f"slots.image.repository=r.example/w,slots.image.digest=sha256:{'a' * 64}"), f"r.example/w@sha256:{'a' * 64}"),
    ],
    ids=["tag", "registry of a parent", "digest"],
)  # fmt: skip
def test_the_waiters_image_reaches_the_policy_and_the_webhook(options: tuple[str, ...], image: str) -> None:
    policy = slots(render("default", *ON, *options))[INJECTING]
    assert said(policy)["slotImage"] == f"'{image}'"
    assert {each.slot_image for each in webhook_settings(render("default", *OLDER, *ON, *options))} == {image}
    off = render("default", *OLDER, *options)
    assert {each.slot_image for each in webhook_settings(off)} == {""}, "no slots without Deployments"


def webhook_settings(manifests: list[Manifest]) -> list[WebhookSettings]:
    containers = [each["spec"]["template"]["spec"]["containers"][0] for each in of_kind(manifests, "Deployment")]
    return [
        WebhookSettings.from_environment({e["name"]: e.get("value", "staticgroup-system") for e in c["env"]})
        for c in containers
        if c["name"] == "webhook"
    ]


def test_a_release_for_some_namespaces_has_policies_of_its_own() -> None:
    manifests = render("namespaced", *ON)
    found, name = slots(manifests), "staticgroup-slots-staticgroup-system-staticgroup"
    assert {each["metadata"]["name"] for each in found.values()} == {name}
    wanted = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["team-a", "team-b"]}
    for kind in (f"{INJECTING}Binding", f"{FENCE}Binding"):
        assert found[kind]["spec"]["policyName"] == name
        assert found[kind]["spec"]["matchResources"] == {"namespaceSelector": {"matchExpressions": [wanted]}}
    settings = Settings.from_environment(environment(manifests))
    assert (settings.deployments, settings.slots_name) == (True, name)


def test_the_fence_knows_the_account_whatever_it_is_called() -> None:
    options = values("serviceAccount.create=false,serviceAccount.name=mine,namespaceOverride=kafka-tools")
    fence = slots(render("default", *ON, *options))[FENCE]
    assert said(fence)["operator"] == "'system:serviceaccount:kafka-tools:mine'"


MORE_RIGHTS = """
    {where} | apps                         | deployments                 |        | get
    {where} | core                         | pods                        |        | patch
    *       | admissionregistration.k8s.io | mutatingadmissionpolicies   | {name} | get
    *       | admissionregistration.k8s.io | validatingadmissionpolicies | {name} | get
"""


def test_deployments_add_exactly_these_rights() -> None:
    more, less = granted(render("default", *ON)), granted(render("default"))
    assert less <= more
    assert more - less == table(MORE_RIGHTS.format(where="*", name="staticgroup-slots"))
    more, less = granted(render("namespaced", *ON)), granted(render("namespaced"))
    name = "staticgroup-slots-staticgroup-system-staticgroup"
    expected = [MORE_RIGHTS.format(where=team, name=name) for team in ("team-a", "team-b")]
    assert more - less == table(*expected)


def may_patch_pods(manifests: list[Manifest]) -> bool:
    return any("| pods |" in row and "patch" in row for row in granted(manifests, "staticgroup-operator"))


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        ((), {INJECTING, FENCE}),
        (OLDER, {FENCE}),
        (values("injection.policy.enabled=false"), {FENCE}),
        (values("operator.forceObserve=true"), set()),
    ],
    ids=["1.36", "1.35", "policy switched off", "observing"],
)
def test_pods_may_be_written_only_with_the_fence_around_it(options: tuple[str, ...], kinds: set[str]) -> None:
    manifests = render("default", *options, *ON)
    assert {kind for kind in slots(manifests) if not kind.endswith("Binding")} == kinds
    assert may_patch_pods(manifests) is (FENCE in kinds)
    assert not may_patch_pods(render("default", *options))


def test_what_the_cluster_cannot_do_is_refused_with_a_sentence() -> None:
    with pytest.raises(RuntimeError, match=r"workloads\.deployments needs Kubernetes 1\.35"):
        render("default", *ON, "--kube-version", "1.34.9")


def test_the_webhook_is_asked_about_pods_of_deployments_only_where_they_are_served() -> None:
    def asked(*options: str) -> list[Any]:
        configuration = the(render("default", *OLDER, *options), "MutatingWebhookConfiguration")
        entries = [e for e in configuration["webhooks"] if e["name"].startswith("inject-deployments-")]
        return [e["objectSelector"]["matchExpressions"] for e in entries]

    has_label = {"key": "pod-template-hash", "operator": "Exists"}
    assert asked(*ON) == [[has_label]] * 2
    assert asked() == [[has_label, has_label | {"operator": "DoesNotExist"}]] * 2


def test_rollouts_of_argo_add_one_right_and_take_the_selector_away_which_knows_one_label() -> None:
    more, less = granted(render("default", *ROLLOUTS)), granted(render("default", *ON))
    assert less <= more
    assert more - less == table("    * | argoproj.io | rollouts | | get\n")
    found, plain = slots(render("default", *ROLLOUTS))[INJECTING]["spec"], slots(render("default", *ON))[INJECTING]["spec"]
    selector = plain["matchConstraints"].pop("objectSelector")
    assert selector == {"matchExpressions": [{"key": "pod-template-hash", "operator": "Exists"}]}
    assert found == plain


def test_the_webhook_is_asked_about_pods_of_rollouts_where_they_are_served() -> None:
    configuration = the(render("default", *OLDER, *ROLLOUTS), "MutatingWebhookConfiguration")
    entries = {e["name"]: e["objectSelector"]["matchExpressions"] for e in configuration["webhooks"]}
    has_label = [{"key": "rollouts-pod-template-hash", "operator": "Exists"}]
    assert [entries[f"inject-rollouts-{n}.staticgroup.io"] for n in range(2)] == [has_label] * 2


def test_rollouts_are_served_only_beside_deployments() -> None:
    with pytest.raises(RuntimeError, match=r"workloads\.argoRollouts needs workloads\.deployments: true"):
        render("default", *values("workloads.argoRollouts=true"))
