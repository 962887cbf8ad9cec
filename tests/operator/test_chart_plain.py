"""Hold the plain manifests of deploy/ against what the chart installs with its default values, object by object."""

from pathlib import Path

import yaml
from test_chart_variants import REPOSITORY, Manifest, helm, manifest_generator, render


def test_generated_files_are_not_stale() -> None:
    assert [str(path.relative_to(REPOSITORY)) for path in manifest_generator.stale(helm())] == []


def kustomized(folder: Path) -> list[Manifest]:
    """Read what a kustomization names, as kubectl would: bases first, in order."""
    (kustomization,) = [path for path in folder.iterdir() if path.name in ("kustomization.yaml", "Kustomization")]
    content = yaml.safe_load(kustomization.read_text())
    assert set(content) == {"apiVersion", "kind", "resources"}, "this reader knows resources only"
    found: list[Manifest] = []
    for entry in content["resources"]:
        path = (folder / entry).resolve()
        found += kustomized(path) if path.is_dir() else [each for each in yaml.safe_load_all(path.read_text()) if each]
    return found


def key(manifest: Manifest) -> tuple[str, str, str]:
    return manifest["kind"], manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]


def test_plain_manifests_install_what_the_chart_installs() -> None:
    chart = {key(each): each for each in manifest_generator.plain(render("default"))}
    plain = {key(each): each for each in kustomized(REPOSITORY / "deploy")}
    namespace = plain.pop(("Namespace", "", "staticgroup-system"))
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert plain.keys() == chart.keys()
    for name, each in chart.items():
        if each["kind"] == "CustomResourceDefinition":  # the chart adds labels, the files of crds/ have none
            assert plain[name]["spec"] == each["spec"]
        else:
            assert plain[name] == each, name


def test_plain_manifests_with_the_webhook_install_what_the_chart_installs_on_older_clusters() -> None:
    older = render("default", "--kube-version", manifest_generator.WEBHOOK_KUBERNETES_VERSION)
    chart = {key(each): each for each in manifest_generator.plain(older)}
    plain = {key(each): each for each in kustomized(REPOSITORY / "deploy" / "webhook")}
    del plain["Namespace", "", "staticgroup-system"]
    assert plain.keys() == chart.keys()
    assert {name for name in chart if name[0] != "CustomResourceDefinition" and plain[name] != chart[name]} == set()
    assert {"Deployment", "Service", "MutatingWebhookConfiguration"} <= {kind for kind, *_ in chart}


def test_plain_manifests_without_injection_lack_only_the_policy() -> None:
    everything = {key(each) for each in kustomized(REPOSITORY / "deploy")}
    older = {key(each) for each in kustomized(REPOSITORY / "deploy" / "operator")}
    assert {kind for kind, _, _ in everything - older} == {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}
    assert older < everything
