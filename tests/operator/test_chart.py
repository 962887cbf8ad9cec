"""Hold what the chart renders against what it promises: settings, CRDs, injection, network."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from test_chart_variants import (
    CHART,
    REPOSITORY,
    VARIANTS,
    Manifest,
    container,
    manifest_generator,
    of_kind,
    render,
    the,
    values_of,
)

from staticgroup.runtime.process import settings

# Settings


def environment(manifests: list[Manifest]) -> dict[str, str]:
    """Read the operator's variables as the process would see them in pod `pod-1`."""
    fields = {"metadata.namespace": "staticgroup-system", "metadata.name": "pod-1"}
    return {
        each["name"]: each["value"] if "value" in each else fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
        for each in container(manifests)["env"]
        if each["name"].startswith(settings.PREFIX)
    }


def test_shipped_values_are_the_operators_own_defaults() -> None:
    found = settings.Settings.from_environment(environment(render("default")))
    assert found == settings.Settings(identity="pod-1")


@pytest.mark.parametrize("variant", VARIANTS)
def test_chart_sets_every_setting_and_the_operator_accepts_it(variant: str) -> None:
    variables = environment(render(variant))
    assert set(variables) == {f"{settings.PREFIX}{name.upper()}" for name in settings.Settings.model_fields}
    settings.Settings.from_environment(variables)


def test_values_arrive_at_the_operator_with_their_units() -> None:
    assert settings.Settings.from_environment(environment(render("everything"))) == settings.Settings(
        identity="pod-1",
        lease_duration_s=30,
        lease_renew_deadline_s=20,
        lease_retry_s=2.5,
        concurrency=256,
        round_deadline_s=600,
        group_poll_s=600,
        relist_s=86_400,
        barrier_patience_s=0,
        secret_max_age_s=600,
        secret_label="staticgroup.io/kafka=yes",
        allow_loopback=True,
        tokens_path="/var/run/secrets/staticgroup/tokens",
        aws_msk_iam=("shop", "bill=arn:aws:iam::123456789012:role/kafka/bill"),
        journal_kafka_connection="kafka/journal",
        journal_kafka_topic="staticgroup.journal.v1",
        journal_files_path="/var/lib/staticgroup/journal",
        journal_files_max_mib=1024,
        journal_files_count=1000,
        journal_queue=1_000_000,
        recommendations_source="/recommendations/fleet",
        recommendations_poll_s=60,
        node_lifecycle="Cloud",
        settle_s=86_400,
    )
    namespaced = settings.Settings.from_environment(environment(render("namespaced")))
    assert namespaced.watch_namespaces == ("team-a", "team-b")
    assert namespaced.policy_name == injection(render("namespaced"))[0]["metadata"]["name"]
    assert settings.Settings.from_environment(environment(render("observe"))).force_observe is True


@pytest.mark.parametrize(
    ("options", "volume"),
    [
        ((), {"emptyDir": {"sizeLimit": "1Gi"}}),
        (("--set", "journal.files.volume.hostPath.path=/j"), {"hostPath": {"path": "/j"}}),
    ],
)
def test_files_of_the_journal_have_a_volume_of_their_own(options: tuple[str, ...], volume: Manifest) -> None:
    """The root file system is read-only."""
    manifests = render("default", "--set", "journal.files.enabled=true", *options)
    (deployment,) = of_kind(manifests, "Deployment")
    volumes = {v.pop("name"): v for v in deployment["spec"]["template"]["spec"]["volumes"]}
    mounts = {m["name"]: m["mountPath"] for m in container(manifests)["volumeMounts"]}
    assert volumes["journal"] == volume
    assert mounts["journal"] == environment(manifests)["STATICGROUP_JOURNAL_FILES_PATH"]


def test_recommendations_are_mounted_read_only_where_the_operator_reads_them() -> None:
    manifests = render("everything")
    (deployment,) = of_kind(manifests, "Deployment")
    volumes = {v.pop("name"): v for v in deployment["spec"]["template"]["spec"]["volumes"]}
    assert volumes["recommendations"] == {"persistentVolumeClaim": {"claimName": "fleet", "readOnly": True}}
    (mount,) = [m for m in container(manifests)["volumeMounts"] if m["name"] == "recommendations"]
    assert mount == {"name": "recommendations", "mountPath": "/recommendations", "readOnly": True}
    assert environment(manifests)["STATICGROUP_RECOMMENDATIONS_SOURCE"].startswith(mount["mountPath"] + "/")


def test_extra_variables_come_after_the_settings() -> None:
    names = [each["name"] for each in container(render("everything"))["env"]]
    assert names[-2:] == ["HTTPS_PROXY", "NODE_NAME"]


# CRDs


@pytest.mark.parametrize("variant", VARIANTS)
def test_chart_installs_exactly_the_committed_crds(variant: str) -> None:
    values = yaml.safe_load(Path(values_of(variant)).read_text()).get("crds", {})
    found = {each["metadata"]["name"]: each for each in of_kind(render(variant), "CustomResourceDefinition")}
    if not values.get("install", True):
        assert found == {}
        return
    files = [yaml.safe_load(path.read_text()) for path in sorted((REPOSITORY / "crds").glob("*.yaml"))]
    assert {name: each["spec"] for name, each in found.items()} == {
        each["metadata"]["name"]: each["spec"] for each in files
    }
    policy = "keep" if values.get("keep", True) else None
    assert {each["metadata"].get("annotations", {}).get("helm.sh/resource-policy") for each in found.values()} == {
        policy
    }


# Injection


def injection(manifests: list[Manifest]) -> list[Manifest]:
    return of_kind(manifests, "MutatingAdmissionPolicy") + of_kind(manifests, "MutatingAdmissionPolicyBinding")


def test_policy_is_the_generated_one() -> None:
    generated = list(yaml.safe_load_all((CHART / "files" / "policy.yaml").read_text()))
    found = injection(render("default"))
    assert [(each["metadata"]["name"], without_image(each["spec"])) for each in found] == [
        (each["metadata"]["name"], without_image(each["spec"])) for each in generated
    ]
    assert found[0]["spec"]["failurePolicy"] == "Ignore"


def image_in(spec: dict[str, Any]) -> tuple[str, ...]:
    """What the policy says of the image that brings the agent of Connect workers."""
    return tuple(each["expression"] for each in spec["variables"] if each["name"] in ("agentImage", "agentPullPolicy"))


def without_image(spec: dict[str, Any]) -> dict[str, Any]:
    said = [each for each in spec.get("variables", []) if each["name"] not in ("agentImage", "agentPullPolicy")]
    return spec | ({"variables": said} if said else {})


DIGEST = f"sha256:{'a' * 64}"


@pytest.mark.parametrize(
    ("options", "image"),
    [
        ((), "'localhost/staticgroup:0.1.0'"),
        (("--set", "image.repository=registry.example/sg,image.tag=v1"), "'registry.example/sg:v1'"),
        (("--set", f"image.repository=registry.example/sg,image.tag=v1,image.digest={DIGEST}"),
         f"'registry.example/sg@{DIGEST}'"),
    ],
    ids=["default", "tag", "digest"],
)  # fmt: skip
def test_policy_brings_the_agent_with_the_operators_own_image(options: tuple[str, ...], image: str) -> None:
    manifests = render("default", *options)
    (pod,) = [each["spec"]["template"]["spec"] for each in of_kind(manifests, "Deployment")]
    assert image_in(injection(manifests)[0]["spec"]) == (image, "'IfNotPresent'")
    assert image == f"'{pod['containers'][0]['image']}'"
    always = injection(render("default", *options, "--set", "image.pullPolicy=Always"))
    assert image_in(always[0]["spec"]) == (image, "'Always'")


def test_failure_policy_is_a_choice() -> None:
    assert injection(render("everything"))[0]["spec"]["failurePolicy"] == "Fail"


@pytest.mark.parametrize("variant", ["observe", "minimal"])
def test_no_policy_when_nothing_shall_be_injected(variant: str) -> None:
    assert injection(render(variant)) == []


@pytest.mark.parametrize(
    "options",
    [
        ("--kube-version", "1.36.0"),
        ("--kube-version", "1.35.9", "--api-versions", manifest_generator.POLICY_API),
    ],
    ids=["api not served", "version too old"],
)
def test_no_policy_where_the_api_server_has_none(options: tuple[str, ...]) -> None:
    assert injection(render("default", *options)) == []


def test_release_for_some_namespaces_injects_only_there() -> None:
    policy, binding = injection(render("namespaced"))
    name = "staticgroup-inject-staticgroup-system-staticgroup"
    assert (policy["metadata"]["name"], binding["metadata"]["name"], binding["spec"]["policyName"]) == (
        name, name, name,
    )  # fmt: skip
    assert binding["spec"]["matchResources"] == {
        "namespaceSelector": {
            "matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["team-a", "team-b"]}
            ]
        }
    }


# Network


def test_closed_egress_still_resolves_names() -> None:
    spec = the(render("everything"), "NetworkPolicy")["spec"]
    assert spec["egress"] == [
        {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]},
        {"ports": [{"port": 443}, {"port": 9093}]},
    ]
    (ingress,) = spec["ingress"]
    assert ingress["ports"] == [{"port": 8080, "protocol": "TCP"}]
    assert ingress["from"][0]["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "monitoring"}
    assert the(render("network-open-egress"), "NetworkPolicy")["spec"]["egress"] == [{}]
