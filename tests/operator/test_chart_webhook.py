"""Hold what the chart installs of the webhook: where, with which rights, and two answers to each API server."""

from __future__ import annotations

from typing import Any

import pytest
from test_chart_pods import pod_specs, violations
from test_chart_rbac import granted, table
from test_chart_variants import Manifest, manifest_generator, of_kind, part, render, the

from staticgroup.runtime.webhook.process import WebhookSettings

OLDER = ("--kube-version", manifest_generator.WEBHOOK_KUBERNETES_VERSION)
OLDEST = ("--kube-version", "1.29.0")
BY_CERT_MANAGER = ("--set", "injection.webhook.certManager.enabled=true")


def values(*options: str) -> tuple[str, ...]:
    return tuple(each for option in options for each in ("--set", option))


def webhook(*options: str, variant: str = "default") -> list[Manifest]:
    return part(render(variant, *options), "webhook")


@pytest.mark.parametrize(
    ("options", "is_installed"),
    [
        ((), False),
        (OLDER, True),
        (OLDEST, True),
        ((*OLDER, *values("injection.policy.enabled=false")), False),
        ((*OLDER, *values("injection.webhook.enabled=false")), False),
        ((*OLDER, *values("operator.forceObserve=true")), False),
        (values("injection.webhook.enabled=true"), True),
        (values("injection.webhook.enabled=true", "injection.policy.enabled=false"), True),
        (values("injection.webhook.enabled=true", "operator.forceObserve=true"), False),
    ],
)
def test_it_is_installed_where_the_policy_is_not_served_or_where_it_is_asked_for(
    options: tuple[str, ...], is_installed: bool
) -> None:
    kinds = {each["kind"] for each in webhook(*options)}
    assert ("MutatingWebhookConfiguration" in kinds) is is_installed
    assert bool(kinds) is is_installed, "all of it or nothing"


def test_the_webhook_selects_pods_by_their_labels() -> None:
    """Whatever the values: the webhook co-owns its entries, so server-side apply could not take one away again."""
    configuration = the(webhook(*OLDER), "MutatingWebhookConfiguration")
    selectors = {entry["name"]: entry["objectSelector"]["matchExpressions"] for entry in configuration["webhooks"]}
    of_strimzi = [{"key": "strimzi.io/controller", "operator": "In", "values": ["strimzipodset"]}]
    indexed = [{"key": "apps.kubernetes.io/pod-index", "operator": "Exists"}]
    of_replica_sets = {"key": "pod-template-hash", "operator": "Exists"}
    never = [of_replica_sets, of_replica_sets | {"operator": "DoesNotExist"}]
    never_rollouts = [each | {"key": "rollouts-pod-template-hash"} for each in never]
    assert selectors == {
        **{f"inject-{replica}.staticgroup.io": indexed for replica in range(2)},
        **{f"inject-strimzi-{replica}.staticgroup.io": of_strimzi for replica in range(2)},
        **{f"inject-deployments-{replica}.staticgroup.io": never for replica in range(2)},
        **{f"inject-rollouts-{replica}.staticgroup.io": never_rollouts for replica in range(2)},
    }


@pytest.mark.parametrize("variant", ["default", "namespaced"])
def test_each_entry_leads_to_a_service_of_one_pod(variant: str) -> None:
    manifests = webhook(*OLDER, variant=variant)
    configuration = the(manifests, "MutatingWebhookConfiguration")
    assert len(configuration["webhooks"]) == 8
    services = {each["metadata"]["name"]: each["spec"] for each in of_kind(manifests, "Service")}
    deployments = [each["spec"] for each in of_kind(manifests, "Deployment")]
    reached = set()
    for entry in configuration["webhooks"]:
        assert (entry["failurePolicy"], entry["timeoutSeconds"], entry["sideEffects"], entry["reinvocationPolicy"]) == (
            "Ignore", 2, "None", "IfNeeded",
        )  # fmt: skip
        reference = entry["clientConfig"]["service"]
        selector = services[reference["name"]]["selector"]
        (mine,) = [d for d in deployments if selector.items() <= d["template"]["metadata"]["labels"].items()]
        assert mine["replicas"] == 1
        (container,) = mine["template"]["spec"]["containers"]
        found = WebhookSettings.from_environment(settings_of(container))
        assert f"{reference['name']}.{reference['namespace']}.svc" in found.service_names
        assert found.configuration_name == configuration["metadata"]["name"]
        assert container["ports"][0] == {"name": "https", "containerPort": found.port}
        reached.add(reference["name"])
    assert reached == set(services)
    wanted = [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["team-a", "team-b"]}]
    selectors = [entry.get("namespaceSelector") for entry in configuration["webhooks"]]
    assert selectors == ([{"matchExpressions": wanted}] * 8 if variant == "namespaced" else [None] * 8)


def settings_of(container: Manifest) -> dict[str, str]:
    return {each["name"]: each.get("value", "staticgroup-system") for each in container["env"]}


def test_every_setting_is_set() -> None:
    (container, _) = [spec["containers"][0] for spec in pod_specs(webhook(*OLDER))]
    ports = {"STATICGROUP_PORT", "STATICGROUP_HEALTH_PORT"}
    assert set(settings_of(container)) | ports == {
        f"STATICGROUP_{name.upper()}" for name in WebhookSettings.model_fields
    }
    assert container["args"] == ["webhook"]


@pytest.mark.parametrize("options", [OLDER, OLDEST, (*OLDER, *BY_CERT_MANAGER)])
def test_its_pods_keep_the_restricted_standard(options: tuple[str, ...]) -> None:
    specs = list(pod_specs(webhook(*options)))
    assert len(specs) == 2
    assert [violations(spec) for spec in specs] == [[], []]


RIGHTS = """
    {where}            | staticgroup.io               | staticgroups                  |                     | list
    *                  | admissionregistration.k8s.io | mutatingwebhookconfigurations | {configuration}     | {verbs}
    staticgroup-system | core                         | secrets                       | staticgroup-webhook | {verbs}
"""


@pytest.mark.parametrize(
    ("options", "variant", "rights"),
    [
        (OLDER, "default", {"where": "*", "configuration": "staticgroup-inject", "verbs": "get patch"}),
        ((*OLDER, *BY_CERT_MANAGER), "default", {"where": "*", "configuration": "staticgroup-inject", "verbs": "get"}),
    ],
)
def test_its_account_has_exactly_these_rights(options: tuple[str, ...], variant: str, rights: dict[str, str]) -> None:
    manifests = render(variant, *options)
    assert granted(manifests, "staticgroup-webhook") == table(RIGHTS.format(**rights))
    operators = granted(manifests, "staticgroup-operator")
    assert not {row for row in operators if "staticgroup-webhook" in row}, "the key is the webhook's alone"


def test_its_rights_are_in_the_served_namespaces_only() -> None:
    found = granted(render("namespaced", *OLDER), "staticgroup-webhook")
    assert {row.split(" | ")[0] for row in found if "| staticgroups |" in row} == {"team-a", "team-b"}


def test_a_certificate_of_cert_manager_holds_for_both_services() -> None:
    manifests = webhook(*OLDER, *BY_CERT_MANAGER)
    certificate: dict[str, Any] = the(manifests, "Certificate")
    names = [f"{each['metadata']['name']}.staticgroup-system.svc" for each in of_kind(manifests, "Service")]
    assert sorted(certificate["spec"]["dnsNames"]) == sorted(names)
    assert certificate["spec"]["secretName"] == "staticgroup-webhook"
    annotation = the(manifests, "MutatingWebhookConfiguration")["metadata"]["annotations"][
        "cert-manager.io/inject-ca-from"
    ]
    assert annotation == f"staticgroup-system/{certificate['metadata']['name']}"
    assert not of_kind(manifests, "Secret"), "cert-manager makes it"
    assert the(manifests, "Issuer")["metadata"]["name"] == certificate["spec"]["issuerRef"]["name"]
    named = webhook(
        *OLDER, *BY_CERT_MANAGER,
        *values(
            "injection.webhook.certManager.issuerRef.name=internal",
            "injection.webhook.certManager.issuerRef.kind=ClusterIssuer",
        ),
    )  # fmt: skip
    assert the(named, "Certificate")["spec"]["issuerRef"] == {"kind": "ClusterIssuer", "name": "internal"}
    assert not of_kind(named, "Issuer")


@pytest.mark.parametrize("by", ["serviceMonitor", "podMonitor"])
def test_its_pods_are_scraped_where_the_operators_are(by: str) -> None:
    chosen = values(
        f"metrics.{by}.enabled=true", f"metrics.{by}.interval=7s", f"metrics.{by}.labels.release=prometheus"
    )
    manifests = webhook(*OLDER, *chosen)
    monitor = the(manifests, "PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert (endpoint["interval"], monitor["metadata"]["labels"]["release"]) == ("7s", "prometheus")
    for each in of_kind(manifests, "Deployment"):
        template = each["spec"]["template"]
        assert monitor["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        assert endpoint["port"] in {port["name"] for port in template["spec"]["containers"][0]["ports"]}
    assert of_kind(webhook(*chosen), "PodMonitor") == []
