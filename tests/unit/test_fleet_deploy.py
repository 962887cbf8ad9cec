"""The fleet learner's image and manifests: complete, equal for both ways to start it, with minimal rights."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet_learner.configuration import read_configuration
from staticgroup.runtime.process.settings import Settings

REPOSITORY = Path(__file__).parents[2]
DEPLOY = REPOSITORY / "deploy" / "fleet-learner"
NAMESPACE = "fleet-learner"
CONTAINER = "spark-kubernetes-executor"


def documents(name: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all((DEPLOY / name).read_text()) if each]


def resources(folder: Path = DEPLOY) -> Iterator[dict[str, Any]]:
    """Yield the objects of a kustomization and those below it, without its ConfigMaps."""
    for entry in yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]:
        path = (folder / entry).resolve()
        if path.is_dir():
            yield from resources(path)
        else:
            yield from documents(str(path))


def properties() -> dict[str, str]:
    lines = (DEPLOY / "base" / "spark.properties").read_text().splitlines()
    return dict(line.split(None, 1) for line in lines if line and not line.startswith("#"))


def cronjob() -> dict[str, Any]:
    return documents("cronjob.yaml")[0]


def driver_pod() -> dict[str, Any]:
    return dict(cronjob()["spec"]["jobTemplate"]["spec"]["template"]["spec"])


def application() -> dict[str, Any]:
    return documents("spark-operator/sparkapplication.yaml")[0]


def executor_pod() -> dict[str, Any]:
    return dict(documents("base/executor.yaml")[0]["spec"])


PODS = {
    "the CronJob's driver": driver_pod,
    "executor": executor_pod,
    "the SparkApplication's driver": lambda: application()["spec"]["driver"]["template"]["spec"],
    "the SparkApplication's executor": lambda: application()["spec"]["executor"]["template"]["spec"],
}


# objects -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("folder", "runner"), [(".", "CronJob"), ("spark-operator", "SparkApplication")])
def test_a_kustomization_applies_these_objects_and_no_other(folder: str, runner: str) -> None:
    found = [(each["kind"], each["metadata"]["name"]) for each in resources(DEPLOY / folder)]
    assert sorted(found) == sorted([
        ("Namespace", NAMESPACE),
        ("ServiceAccount", "fleet-learner-driver"),
        ("ServiceAccount", "fleet-learner-executor"),
        ("Role", "fleet-learner-driver"),
        ("RoleBinding", "fleet-learner-driver"),
        ("PersistentVolumeClaim", NAMESPACE),
        (runner, NAMESPACE),
    ])  # fmt: skip


@pytest.mark.parametrize("folder", [".", "spark-operator"])
def test_every_object_names_its_namespace(folder: str) -> None:
    homes = {e["kind"]: e["metadata"].get("namespace") for e in resources(DEPLOY / folder)}
    assert homes.pop("Namespace") is None
    assert set(homes.values()) == {NAMESPACE}


def test_the_config_map_holds_the_files_that_pods_read() -> None:
    (generator,) = documents("base/kustomization.yaml")[0]["configMapGenerator"]
    assert generator["options"] == {"disableNameSuffixHash": True}, "a SparkApplication would not follow the suffix"
    for name in generator["files"]:
        assert (DEPLOY / "base" / name).is_file()
    mounted = {f"/etc/fleet-learner/{name}" for name in generator["files"]}
    named = {word for word in driver_pod()["containers"][0]["args"] if word.startswith("/etc/fleet-learner/")}
    named |= {value for value in properties().values() if value.startswith("/etc/fleet-learner/")}
    assert named == mounted


# rights --------------------------------------------------------------------------------------------------------------


def test_the_driver_may_handle_pods_of_its_namespace_and_nothing_else() -> None:
    """KubernetesClusterSchedulerBackend and ExecutorPodsAllocator ask for no more with the settings checked below."""
    kinds = {each["kind"] for each in resources()} | {each["kind"] for each in resources(DEPLOY / "spark-operator")}
    assert not kinds & {"ClusterRole", "ClusterRoleBinding"}
    (role,) = (each for each in resources() if each["kind"] == "Role")
    assert role["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["pods"],
            "verbs": ["create", "delete", "deletecollection", "get", "list", "watch"],
        }
    ]
    (binding,) = (each for each in resources() if each["kind"] == "RoleBinding")
    assert [subject["name"] for subject in binding["subjects"]] == ["fleet-learner-driver"]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.kubernetes.executor.disableConfigMap", "true"),
        ("spark.kubernetes.driver.service.deleteOnTermination", "false"),
        ("spark.kubernetes.driver.ownPersistentVolumeClaim", "false"),
        ("spark.kubernetes.driver.reusePersistentVolumeClaim", "false"),
    ],
)
def test_spark_is_configured_without_rights_that_it_lacks(setting: str, value: str) -> None:
    """Spark's own documentation, "Running on Kubernetes", section Spark Properties."""
    assert properties()[setting] == value
    assert application()["spec"]["sparkConf"][setting] == value


def test_only_drivers_carry_a_token() -> None:
    accounts = {e["metadata"]["name"]: e for e in resources() if e["kind"] == "ServiceAccount"}
    assert [each["automountServiceAccountToken"] for each in accounts.values()] == [False, False]
    tokens = {name: pod()["automountServiceAccountToken"] for name, pod in PODS.items()}
    assert tokens == {name: "driver" in name for name in PODS}
    assert driver_pod()["serviceAccountName"] == "fleet-learner-driver"
    assert application()["spec"]["driver"]["serviceAccount"] == "fleet-learner-driver"
    executor = "fleet-learner-executor"
    assert executor_pod()["serviceAccountName"] == application()["spec"]["executor"]["serviceAccount"] == executor
    assert properties()["spark.kubernetes.authenticate.executor.serviceAccountName"] == executor


@pytest.mark.parametrize("name", PODS)
def test_every_pod_is_restricted(name: str) -> None:
    """Kubernetes, Pod Security Standards, level Restricted; the namespace enforces it."""
    (namespace,) = (each for each in resources() if each["kind"] == "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    pod = PODS[name]()
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 65532
    assert not set(pod) & {"hostNetwork", "hostPID", "hostIPC"}
    assert {next(iter(set(each) - {"name"})) for each in pod["volumes"]} <= {
        "configMap", "emptyDir", "persistentVolumeClaim",
    }  # fmt: skip
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }


def test_no_other_pod_may_give_a_driver_work() -> None:
    """Spark, Security: with `spark.authenticate` each application on Kubernetes has a secret of its own."""
    for settings in (properties(), application()["spec"]["sparkConf"]):
        assert settings["spark.authenticate"] == settings["spark.network.crypto.enabled"] == "true"


# equality of both ways -----------------------------------------------------------------------------------------------


def test_both_ways_start_the_same_executors() -> None:
    assert application()["spec"]["executor"]["template"]["spec"] == executor_pod()
    assert [c["name"] for c in executor_pod()["containers"]] == [CONTAINER]
    assert properties()["spark.kubernetes.executor.podTemplateContainerName"] == CONTAINER


def test_both_ways_start_the_same_driver() -> None:
    other = application()["spec"]["driver"]["template"]["spec"]
    mine = driver_pod()
    assert other["volumes"] == mine["volumes"]
    assert other["securityContext"] == mine["securityContext"]
    assert other["containers"][0]["volumeMounts"] == mine["containers"][0]["volumeMounts"]
    arguments = mine["containers"][0]["args"]
    job = arguments.index("/opt/fleet-learner/learner/job.py")
    assert application()["spec"]["mainApplicationFile"] == f"local://{arguments[job]}"
    assert application()["spec"]["arguments"] == arguments[job + 1 :]
    assert application()["spec"]["image"] == mine["containers"][0]["image"]


def test_both_ways_have_the_same_settings() -> None:
    spec = application()["spec"]
    fields = {
        "spark.executor.instances": str(spec["executor"]["instances"]),
        "spark.executor.cores": str(spec["executor"]["cores"]),
        "spark.executor.memory": spec["executor"]["memory"],
        "spark.executor.memoryOverhead": spec["executor"]["memoryOverhead"],
        "spark.driver.memory": spec["driver"]["memory"],
        "spark.kubernetes.authenticate.executor.serviceAccountName": spec["executor"]["serviceAccount"],
    }
    template = {name: value for name, value in properties().items() if "podTemplate" in name}
    assert spec["sparkConf"] | fields | template == properties()


# the CronJob ---------------------------------------------------------------------------------------------------------


def test_every_reference_in_the_arguments_has_a_value() -> None:
    """Kubernetes leaves `$(NAME)` as it is when it is not set; the two of the API server's service it always sets."""
    (container,) = driver_pod()["containers"]
    used = set(re.findall(r"\$\((\w+)\)", " ".join(container["args"])))
    service = {"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"}
    assert used == {each["name"] for each in container["env"]} | service


def test_executors_take_the_drivers_image() -> None:
    (container,) = driver_pod()["containers"]
    assert next(each["value"] for each in container["env"] if each["name"] == "IMAGE") == container["image"]
    (replacement,) = documents("kustomization.yaml")[0]["replacements"]
    path = "spec.jobTemplate.spec.template.spec.containers.[name=driver]"
    assert replacement["source"]["fieldPath"] == f"{path}.image"
    assert replacement["targets"][0]["fieldPaths"] == [f"{path}.env.[name=IMAGE].value"]


def test_runs_do_not_overlap_and_wrong_usage_is_not_tried_again() -> None:
    spec = cronjob()["spec"]
    assert spec["concurrencyPolicy"] == "Forbid"
    job = spec["jobTemplate"]["spec"]
    assert job["template"]["spec"]["restartPolicy"] == "Never", "podFailurePolicy allows no other"
    from fleet_learner import cli, errors

    (fail,) = (rule for rule in job["podFailurePolicy"]["rules"] if rule["action"] == "FailJob")
    assert fail["onExitCodes"]["values"] == [cli.EXIT_USAGE, cli.EXIT_CONFLICT, errors.EXIT_LEFT_OUT]


def test_why_a_run_failed_stays_with_its_pod() -> None:
    """Kubernetes, "Determine the reason for pod failure"; logs of a pod go with it, its status is in every listing."""
    for pod in (driver_pod(), application()["spec"]["driver"]["template"]["spec"]):
        assert [c["terminationMessagePolicy"] for c in pod["containers"]] == ["FallbackToLogsOnError"]


def mib(text: str) -> int:
    """Return a quantity of Spark's (`2g`) or Kubernetes' (`2Gi`)."""
    (number, unit) = re.fullmatch(r"(\d+)([mg])i?", text.lower()).groups()  # type: ignore[union-attr]
    return int(number) * {"m": 1, "g": 1024}[unit]


def test_a_container_has_memory_for_more_than_its_heap() -> None:
    """Spark, Configuration, spark.executor.memoryOverhead: what is left to Spark is a tenth, as for tasks in Java.

    With two cores the JVM was seen to have 660 MiB beside its heap, and six workers of Python had 400.
    """
    settings = properties()
    assert mib(settings["spark.executor.memoryOverhead"]) >= 1024 + 256 * int(settings["spark.executor.cores"])
    (container,) = driver_pod()["containers"]
    assert mib(container["resources"]["limits"]["memory"]) - mib(settings["spark.driver.memory"]) >= 1024


def test_the_guide_says_what_a_run_asks_for() -> None:
    settings = properties()
    executors, (container,) = int(settings["spark.executor.instances"]), driver_pod()["containers"]
    request = container["resources"]["requests"]
    cpus = int(request["cpu"]) + executors * int(settings["spark.executor.cores"])
    each = mib(settings["spark.executor.memory"]) + mib(settings["spark.executor.memoryOverhead"])
    memory = mib(request["memory"]) + executors * each
    guide = (REPOSITORY / "docs" / "guide" / "fleet-learner.md").read_text()
    assert f"a run asks for {cpus} CPUs and {memory // 1024} GiB" in guide


def test_the_shipped_settings_are_accepted_and_leave_the_master_to_spark() -> None:
    settings = read_configuration(DEPLOY / "base" / "fleet.yaml", {})
    assert settings.master is None
    assert settings.kafka is not None
    assert settings.kafka.topic == Settings().journal_kafka_topic
    assert settings.root.startswith("file:/data/")


# the SparkApplication ------------------------------------------------------------------------------------------------

SPEC_FIELDS = {
    "type", "pythonVersion", "mode", "sparkVersion", "image", "mainApplicationFile", "arguments", "restartPolicy",
    "timeToLiveSeconds", "sparkConf", "driver", "executor",
}  # fmt: skip
DRIVER_FIELDS = {"cores", "memory", "memoryOverhead", "serviceAccount", "template"}
EXECUTOR_FIELDS = {"instances", "cores", "memory", "memoryOverhead", "serviceAccount", "template"}
QUANTITY = re.compile(r"\d+[kmgt]")


def assert_types(fields: Mapping[str, Any], types: Mapping[str, type]) -> None:
    assert {name: type(fields[name]) for name in types} == dict(types)


def test_the_spark_application_is_of_the_form_of_its_kind() -> None:
    """kubeflow/spark-operator, SparkApplication v1beta2: required fields, types and enumerations of what is used."""
    manifest = application()
    assert manifest["apiVersion"] == "sparkoperator.k8s.io/v1beta2"
    spec = manifest["spec"]
    assert set(spec) == SPEC_FIELDS, "look a new field up in the kind's definition"
    assert set(spec["driver"]) == DRIVER_FIELDS
    assert set(spec["executor"]) == EXECUTOR_FIELDS
    assert (spec["type"], spec["mode"], spec["pythonVersion"]) == ("Python", "cluster", "3")
    assert_types(spec, {"sparkVersion": str, "image": str, "timeToLiveSeconds": int})
    assert all(type(value) is str for value in (*spec["sparkConf"].values(), *spec["arguments"]))
    assert spec["restartPolicy"].pop("type") == "OnFailure"
    assert set(spec["restartPolicy"]) == {
        "onFailureRetries", "onFailureRetryInterval", "onSubmissionFailureRetries", "onSubmissionFailureRetryInterval",
    }  # fmt: skip
    assert all(type(value) is int and value > 0 for value in spec["restartPolicy"].values())
    for role in (spec["driver"], spec["executor"]):
        assert_types(
            role, {"cores": int, "memory": str, "memoryOverhead": str, "serviceAccount": str, "template": dict}
        )
        assert QUANTITY.fullmatch(role["memory"])
        assert QUANTITY.fullmatch(role["memoryOverhead"])
