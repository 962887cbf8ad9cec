"""What a release may add to the chart's own objects, each seen where it must arrive and nowhere else."""

import re
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
import yaml
from test_chart_variants import CHART, REPOSITORY, Manifest, container, manifest_generator, of_kind, render, the


def pods(manifests: list[Manifest]) -> list[Manifest]:
    """Return the pod of the operator and that of the doctor."""
    return [the(manifests, "Deployment")["spec"]["template"]["spec"], the(manifests, "Pod")["spec"]]


def test_volumes_are_mounted_in_both_pods_because_both_connect_to_kafka() -> None:
    for spec in pods(render("extras")):
        assert (
            next(v for v in spec["volumes"] if v["name"] == "kafka-token")["projected"]["sources"][0][
                "serviceAccountToken"
            ]["audience"]
            == "kafka"
        )
        assert {"name": "kafka-token", "mountPath": "/var/run/kafka-token", "readOnly": True} in spec["containers"][0][
            "volumeMounts"
        ]


def test_names_are_found_in_the_same_way_by_both_pods() -> None:
    for spec in pods(render("extras")):
        assert (spec["dnsPolicy"], spec["dnsConfig"]["nameservers"]) == ("None", ["10.0.0.10"])
        assert spec["hostAliases"] == [{"ip": "10.0.0.20", "hostnames": ["broker-0.kafka.example"]}]
    for spec in pods(render("default")):
        assert {"dnsPolicy", "dnsConfig", "hostAliases"}.isdisjoint(spec)


def test_common_labels_are_on_every_object_and_in_no_selector() -> None:
    manifests = [m for m in render("extras") if m["kind"] != "ConfigMap"]
    assert len(manifests) > 15
    assert {m["metadata"]["labels"].get("example.com/cost-centre") for m in manifests} == {"streams"}
    deployment = the(manifests, "Deployment")["spec"]
    assert (
        deployment["template"]["metadata"]["labels"].items()
        >= {"example.com/cost-centre": "streams", "team": "kafka"}.items()
    )
    selectors = [deployment["selector"], the(manifests, "PodDisruptionBudget")["spec"]["selector"]]
    assert all(
        s["matchLabels"].keys() == {f"app.kubernetes.io/{part}" for part in ("name", "instance", "component")}
        for s in selectors
    )


def test_a_label_of_the_pods_wins_over_a_common_one() -> None:
    labels = the(render("extras", "--set", "podLabels.example\\.com/cost-centre=mine"), "Deployment")["spec"][
        "template"
    ]["metadata"]["labels"]
    assert labels["example.com/cost-centre"] == "mine"


def test_extra_objects_are_templates_whether_map_or_text() -> None:
    found = {m["metadata"]["name"]: m["data"] for m in of_kind(render("extras"), "ConfigMap")}
    assert found == {
        "staticgroup-notes": {"image": container(render("extras"))["image"]},
        "staticgroup-text": {"replicas": "2"},
    }


def test_how_pods_are_replaced_is_a_choice() -> None:
    deployment = the(render("extras"), "Deployment")
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    assert deployment["spec"]["revisionHistoryLimit"] == 2
    assert deployment["metadata"]["annotations"]["reloader.example.com/auto"] == "true"
    assert the(render("default"), "Deployment")["spec"]["revisionHistoryLimit"] == 10


SCRAPE = {
    "interval": "15s", "scrapeTimeout": "10s",
    "relabelings": [{"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}],
    "metricRelabelings": [{"action": "drop", "regex": "python_gc_.*", "sourceLabels": ["__name__"]}],
}  # fmt: skip


def test_pods_are_scraped_without_a_service() -> None:
    manifests = render("prometheus-pods")
    monitor = the(manifests, "PodMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["podMetricsEndpoints"] == [{"port": "http", "path": "/metrics", **SCRAPE}]
    assert monitor["spec"]["podMetricsEndpoints"][0]["port"] in {port["name"] for port in container(manifests)["ports"]}
    assert of_kind(render("default"), "PodMonitor") == []


def test_a_service_is_scraped_with_the_same_options() -> None:
    options = [f"metrics.serviceMonitor.{key}={value}" for key, value in (("scrapeTimeout", "10s"),)]
    options += [
        "metrics.serviceMonitor.relabelings[0].targetLabel=node",
        "metrics.serviceMonitor.metricRelabelings[0].action=drop",
    ]
    (endpoint,) = the(
        render("prometheus-operator", *(word for o in options for word in ("--set", o))), "ServiceMonitor"
    )["spec"]["endpoints"]
    assert endpoint == {
        "port": "http-metrics", "path": "/metrics", "interval": "15s", "scrapeTimeout": "10s", "honorLabels": True,
        "relabelings": [{"targetLabel": "node"}], "metricRelabelings": [{"action": "drop"}],
    }  # fmt: skip
    (plain,) = the(render("prometheus-operator"), "ServiceMonitor")["spec"]["endpoints"]
    assert plain == {"port": "http-metrics", "path": "/metrics", "interval": "15s", "honorLabels": True}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("metrics.serviceMonitor.enabled=true", "metrics.podMonitor.enabled=true"),
         "every sample would be there twice"),
        (("metrics.podMonitor.interval=often",), "'/metrics/podMonitor/interval': 'often' does not match pattern"),
        (("commonLabels.app\\.kubernetes\\.io/name=mine",), "invalid propertyName 'app.kubernetes.io/name'"),
        (("updateStrategy.type=OnDelete",), "'/updateStrategy/type': value must be one of"),
        (("extraVolumes[0].emptyDir.medium=Memory",), "'/extraVolumes/0': missing property 'name'"),
        (("extraVolumeMounts[0].name=a", "extraVolumeMounts[0].mountPath=b"),
         "'/extraVolumeMounts/0/mountPath': 'b' does not match pattern"),
        (("dnsPolicy=Mine",), "'/dnsPolicy': value must be one of"),
        (("hostAliases[0].ip=10.0.0.1",), "'/hostAliases/0': missing property 'hostnames'"),
        (("revisionHistoryLimit=-1",), "'/revisionHistoryLimit': minimum: got -1, want 0"),
    ],
)  # fmt: skip
def test_an_extra_that_cannot_be_is_refused_by_name(options: tuple[str, ...], says: str) -> None:
    with pytest.raises(RuntimeError, match=re.escape(says)):
        render("default", *(word for option in options for word in ("--set", option)))


# Chart.yaml


def card() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    return found


def test_the_artifact_hub_card_lists_the_resources_of_the_crds() -> None:
    listed = {row["name"]: row for row in yaml.safe_load(card()["annotations"]["artifacthub.io/crds"])}
    crds = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in (REPOSITORY / "crds").glob("*s.yaml")]
    assert {(c["metadata"]["name"], c["spec"]["names"]["kind"], c["spec"]["versions"][0]["name"]) for c in crds} == {
        (name, row["kind"], row["version"]) for name, row in listed.items()
    }
    assert all(row["displayName"] and row["description"] for row in listed.values())


def test_the_icon_is_a_picture_of_one_piece() -> None:
    """Nothing is fetched for it, by Helm or by whoever shows it."""
    scheme, comma, text = card()["icon"].partition(",")
    assert (scheme, comma) == ("data:image/svg+xml", ",")
    assert ElementTree.fromstring(unquote(text)).tag == "{http://www.w3.org/2000/svg}svg"
    assert "href" not in text


def test_the_version_goes_from_the_project_into_the_card() -> None:
    assert (card()["version"], card()["appVersion"]) == (manifest_generator.version(),) * 2
    assert (
        manifest_generator.with_version("version: 1\nkubeVersion: 2\nappVersion: 3\n", "4.5.6")
        == "version: 4.5.6\nkubeVersion: 2\nappVersion: 4.5.6\n"
    )
