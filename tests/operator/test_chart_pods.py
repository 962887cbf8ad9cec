"""Hold the operator's pods against the restricted Pod Security Standard, and against drains and probes.

The standard is spelled out here a second time on purpose: the API server only warns about a Deployment that breaks it.
Source: Pod Security Standards, profile Restricted.
"""

from collections.abc import Iterator

import pytest
import yaml
from test_chart_variants import CHART, VARIANTS, Manifest, container, render, the

from staticgroup.runtime.process import settings

OPTIONAL_MOUNTS = {
    "/var/lib/staticgroup/journal", "/recommendations", "/var/run/secrets/staticgroup/tokens", "/var/run/kafka-token",
}  # fmt: skip
"""Of values that are off by default, and of the variant with extras."""


def pod_specs(manifests: list[Manifest]) -> Iterator[Manifest]:
    for each in manifests:
        if each["kind"] == "Pod":
            yield each["spec"]
        elif each["kind"] == "Deployment":
            yield each["spec"]["template"]["spec"]


def violations(spec: Manifest) -> list[str]:
    """List what the restricted Pod Security Standard forbids in a pod."""
    found = [field for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    allowed = {
        "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
    }  # fmt: skip
    for volume in spec.get("volumes", []):
        found += [f"volume {volume['name']}: {kind}" for kind in set(volume) - {"name"} - allowed]
    pod = spec.get("securityContext", {})
    found += [field for field in ("sysctls", "seLinuxOptions", "windowsOptions", "appArmorProfile") if field in pod]
    for each in [*spec.get("initContainers", []), *spec["containers"]]:
        context = {**{key: pod[key] for key in ("runAsNonRoot", "runAsUser", "seccompProfile") if key in pod}}
        context |= each.get("securityContext", {})
        capabilities = context.get("capabilities", {})
        rules = {
            "privileged": not context.get("privileged"),
            "allowPrivilegeEscalation": context.get("allowPrivilegeEscalation") is False,
            "capabilities.drop": "ALL" in capabilities.get("drop", []),
            "capabilities.add": set(capabilities.get("add", [])) <= {"NET_BIND_SERVICE"},
            "runAsNonRoot": context.get("runAsNonRoot") is True,
            "runAsUser": context.get("runAsUser") != 0,
            "seccompProfile": context.get("seccompProfile", {}).get("type") in ("RuntimeDefault", "Localhost"),
            "procMount": context.get("procMount", "Default") == "Default",
            "hostPort": not any(port.get("hostPort") for port in each.get("ports", [])),
        }
        found += [f"{each['name']}: {name}" for name, is_kept in rules.items() if not is_kept]
    return found


@pytest.mark.parametrize("variant", VARIANTS)
def test_pods_keep_the_restricted_standard(variant: str) -> None:
    specs = list(pod_specs(render(variant)))
    assert len(specs) == 2
    for spec in specs:
        assert violations(spec) == []
        (only,) = spec["containers"]
        assert only["securityContext"]["readOnlyRootFilesystem"] is True
        assert spec["securityContext"].get("runAsUser") == (None if variant == "openshift" else 65532)
        assert {mount["mountPath"] for mount in only["volumeMounts"]} - OPTIONAL_MOUNTS == {"/tmp"}
        assert set(only["resources"]) >= {"requests", "limits"}


def test_the_check_of_the_standard_finds_a_careless_pod() -> None:
    careless = {
        "hostPID": True, "volumes": [{"name": "root", "hostPath": {"path": "/"}}],
        "containers": [
            {"name": "c", "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}, "ports": [{"hostPort": 1}]}
        ],
    }  # fmt: skip
    assert set(violations(careless)) == {
        "hostPID", "volume root: hostPath", "c: allowPrivilegeEscalation", "c: capabilities.drop",
        "c: capabilities.add", "c: runAsNonRoot", "c: seccompProfile", "c: hostPort",
    }  # fmt: skip


ASSIGNED_BY_RESTRICTED_V2 = {"runAsUser", "runAsGroup", "fsGroup", "fsGroupChangePolicy", "supplementalGroups"}
"""OpenShift refuses pods that name other numbers than those of their namespace."""


def test_openshift_may_assign_the_numbers_and_the_rest_of_the_standard_stays() -> None:
    specs = list(pod_specs(render("openshift")))
    for spec in specs:
        assert spec["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        (only,) = spec["containers"]
        assert not ASSIGNED_BY_RESTRICTED_V2 & set(only["securityContext"])
    assert [v["name"] for v in specs[0]["volumes"]] == ["tmp", "journal"]


def test_numbers_of_ones_own_reach_both_pods_and_the_journals_volume() -> None:
    options = ("--set", "podSecurityContext.runAsUser=1000650000", "--set", "podSecurityContext.runAsGroup=1000650001")
    operator, doctor = (
        each["securityContext"]
        for each in pod_specs(render("default", "--set", "journal.files.enabled=true", *options))
    )
    assert (operator["runAsUser"], operator["runAsGroup"], operator["fsGroup"]) == (1000650000, 1000650001, 1000650001)
    assert (doctor["runAsUser"], doctor["runAsGroup"]) == (1000650000, 1000650001)
    assert (
        "fsGroup" not in the(render("default", *options), "Deployment")["spec"]["template"]["spec"]["securityContext"]
    )
    chosen = render("default", "--set", "journal.files.enabled=true", "--set", "podSecurityContext.fsGroup=7")
    context = next(pod_specs(chosen))["securityContext"]
    assert (context["fsGroup"], "fsGroupChangePolicy" in context) == (7, False)


def test_shared_tokens_are_mounted_where_the_operator_reads_those_of_a_namespace() -> None:
    """Of the operator's own service account, each with an audience of its own, in both pods that speak to brokers."""
    for spec in pod_specs(render("everything")):
        (volume,) = (v["projected"]["sources"] for v in spec["volumes"] if v["name"] == "tokens")
        assert [source["serviceAccountToken"] for source in volume] == [
            {"path": "shop/entra", "audience": "api://AzureADTokenExchange", "expirationSeconds": 7200},
            {"path": "bill/kafka", "audience": "kafka", "expirationSeconds": 3600},
        ]
        (mount,) = (m for m in spec["containers"][0]["volumeMounts"] if m["name"] == "tokens")
        environment = {each["name"]: each.get("value") for each in spec["containers"][0]["env"]}
        assert mount == {"name": "tokens", "mountPath": environment["STATICGROUP_TOKENS_PATH"], "readOnly": True}


@pytest.mark.parametrize("lacking", ["namespace", "name", "audience"])
def test_token_without_an_audience_is_refused(lacking: str) -> None:
    """Without an audience it would be one for the API server."""
    token = {"namespace": "shop", "name": "entra", "audience": "kafka"} | {lacking: ""}
    options = [option for key, value in token.items() for option in ("--set", f"operator.tokens[0].{key}={value}")]
    with pytest.raises(RuntimeError, match=lacking):
        render("default", *options)


def test_security_contexts_can_be_emptied_and_extended() -> None:
    for spec in pod_specs(render("everything", "--set", "podSecurityContext=null", "--set", "securityContext=null")):
        assert "securityContext" not in spec
        assert "securityContext" not in spec["containers"][0]
    for spec in pod_specs(render("default", "--set", "securityContext.seLinuxOptions.type=container_t")):
        context = spec["containers"][0]["securityContext"]
        assert context["seLinuxOptions"] == {"type": "container_t"}
        assert context["capabilities"] == {"drop": ["ALL"]}


def test_replicas_survive_updates_and_drains() -> None:
    manifests = render("default")
    deployment = the(manifests, "Deployment")["spec"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}
    spec = deployment["template"]["spec"]
    assert {each["whenUnsatisfiable"] for each in spec["topologySpreadConstraints"]} == {"ScheduleAnyway"}
    assert spec["terminationGracePeriodSeconds"] == 30
    budget = the(manifests, "PodDisruptionBudget")["spec"]
    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")
    labels = deployment["template"]["metadata"]["labels"]
    service = the(manifests, "Service")["spec"]
    for selector in (deployment["selector"]["matchLabels"], budget["selector"]["matchLabels"], service["selector"]):
        assert selector.items() <= labels.items()


def test_probes_ask_the_port_that_the_operator_listens_on() -> None:
    manifests = render("default")
    only = container(manifests)
    ports = {port["name"]: port["containerPort"] for port in only["ports"]}
    (port,) = [each["value"] for each in only["env"] if each["name"] == f"{settings.PREFIX}HEALTH_PORT"]
    assert ports == {"http": int(port)}
    probes = {name: only[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert probes == {
        "startupProbe": {"path": "/healthz", "port": "http"},
        "livenessProbe": {"path": "/healthz", "port": "http"},
        "readinessProbe": {"path": "/readyz", "port": "http"},
    }


def test_image_is_named_by_tag_or_by_digest() -> None:
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert container(render("default"))["image"] == f"localhost/staticgroup:{version}"
    assert container(render("default", "--set", "image.tag=edge"))["image"] == "localhost/staticgroup:edge"
    assert (
        container(render("everything"))["image"] == f"registry.example/team/staticgroup@sha256:{'0123456789abcdef' * 4}"
    )


def test_doctor_runs_as_the_operator_and_only_as_a_test() -> None:
    manifests = render("everything")
    doctor, operator = the(manifests, "Pod"), the(manifests, "Deployment")["spec"]["template"]["spec"]
    assert doctor["metadata"]["annotations"]["helm.sh/hook"] == "test"
    (only,) = doctor["spec"]["containers"]
    assert only["args"] == ["doctor"]
    assert only["env"] == operator["containers"][0]["env"]
    assert only["image"] == operator["containers"][0]["image"]
    assert doctor["spec"]["serviceAccountName"] == operator["serviceAccountName"]
    selector = the(manifests, "Service")["spec"]["selector"]
    assert not selector.items() <= doctor["metadata"]["labels"].items()


@pytest.mark.parametrize("variant", VARIANTS)
def test_services_nearby_cannot_look_like_settings(variant: str) -> None:
    """A Service named staticgroup-… would give pods STATICGROUP_…_SERVICE_HOST; an unknown setting ends the process."""
    assert all(spec["enableServiceLinks"] is False for spec in pod_specs(render(variant)))
