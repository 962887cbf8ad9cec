"""The fleet learner's image: the tested packages only, all imports, and an entry point for Spark."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from fleet_learner.assembly import NAMED_LIBRARIES
from support.scene.fleet_image import copied_paths

REPOSITORY = Path(__file__).parents[2]
DEPLOY = REPOSITORY / "deploy" / "fleet-learner"


# the image -----------------------------------------------------------------------------------------------------------


def pins(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", path.read_text(), re.MULTILINE))


def test_the_spark_application_names_the_locked_version_of_spark() -> None:
    application = yaml.safe_load((DEPLOY / "spark-operator" / "sparkapplication.yaml").read_text())
    assert application["spec"]["sparkVersion"] == pins(DEPLOY / "requirements.lock")["pyspark"]


def test_the_image_has_the_versions_that_were_tested() -> None:
    tested = pins(REPOSITORY / "tests" / "pipeline.lock")
    locked = pins(DEPLOY / "requirements.lock")
    assert locked
    assert {name: tested.get(name) for name in locked} == locked


def test_the_image_has_the_extra_and_what_records_are_read_with() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extra = {re.split(r"[<>=]", each)[0] for each in project["optional-dependencies"]["pipeline"]}
    lines = (DEPLOY / "requirements.in").read_text().splitlines()
    wanted = {line for line in lines if line and not line.startswith("#")}
    assert wanted == extra | {"prometheus-client", "pydantic", "pyyaml"}


def test_the_image_knows_the_releases_that_the_report_names() -> None:
    """The learner is no package in the image, so its build creates and checks all metadata."""
    assert {package for _, package in NAMED_LIBRARIES} <= pins(DEPLOY / "requirements.lock").keys()
    assert "pyproject.toml" in copied_paths()
    assert "print(made_with())" in (DEPLOY / "Dockerfile").read_text()


def test_the_image_is_built_from_just_the_files_that_it_copies() -> None:
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert lines[0] == "*"
    assert {line.removeprefix("!") for line in lines if line.startswith("!")} == set(copied_paths())
    assert all((REPOSITORY / path).exists() for path in copied_paths())


LOCKED = {
    "confluent_kafka", "delta", "jinja2", "markupsafe", "matplotlib", "numpy", "pandas", "prometheus_client", "py4j",
    "pyarrow", "pydantic", "pyspark", "scipy", "yaml",
}
OPERATOR = REPOSITORY / "operator"


def test_the_learner_needs_nothing_that_the_image_lacks() -> None:
    """Imports within functions count, and those of the modules of ours that it imports."""
    waiting = [module_name(path) for path in (OPERATOR / "fleet_learner").rglob("*.py")]
    seen: set[str] = set()
    missing = set()
    while waiting:
        name = waiting.pop()
        path = module_path(name)
        if name in seen or path is None:
            continue
        seen.add(name)
        if not any(path.is_relative_to(REPOSITORY / copied) for copied in copied_paths()):
            missing.add(name)
        for other in imported(path, name):
            if module_path(other) is not None:
                waiting += [other, other.rpartition(".")[0]]  # importing a module runs its package first
            elif other.partition(".")[0] not in LOCKED | sys.stdlib_module_names:
                missing.add(f"{other} for {name}")
    assert {"coordinator_model.coordinator", "journal.recommendations"} <= seen
    assert missing == set()


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(OPERATOR).with_suffix("").parts).removesuffix(".__init__")


def module_path(name: str) -> Path | None:
    """Return the file of a module of ours; None: it is not one."""
    path = OPERATOR.joinpath(*name.split("."))
    found = (each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file())
    return next(found, None) if name else None


def imported(path: Path, name: str) -> Iterator[str]:
    """Yield the modules that a module imports anywhere, within functions too."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            yield source
            yield from (f"{source}.{alias.name}" for alias in node.names if module_path(f"{source}.{alias.name}"))


# the entry point -----------------------------------------------------------------------------------------------------

ENVIRONMENT = {
    "JAVA_HOME": "/opt/java",
    "SPARK_HOME": "/opt/spark",
    "SPARK_DRIVER_BIND_ADDRESS": "10.1.2.3",
    "SPARK_EXECUTOR_MEMORY": "600m",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.1.2.3:7078",
    "SPARK_EXECUTOR_ID": "EXECID",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.1.2.4",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "fleet-1-exec-1",
}


@pytest.fixture(scope="module")
def entrypoint() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fleet_entrypoint", DEPLOY / "entrypoint.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_executor_becomes_sparks_backend(entrypoint: ModuleType) -> None:
    """Spark: BasicExecutorFeatureStep (the environment), KubernetesExecutorBackend.parseArguments (the options)."""
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dn={number}" for number in (10, 2, 0)}
    words = entrypoint.command(["executor"], ENVIRONMENT | options)
    assert words[:6] == ["/opt/java/bin/java", "-Dn=0", "-Dn=2", "-Dn=10", "-Xms600m", "-Xmx600m"]
    assert words[6:8] == ["-cp", "/opt/spark/conf:/opt/spark/jars/*"]
    assert words[8] == "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
    assert dict(zip(words[9::2], words[10::2], strict=True)) == {
        "--driver-url": "spark://CoarseGrainedScheduler@10.1.2.3:7078",
        "--executor-id": "EXECID",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.1.2.4",
        "--resourceProfileId": "0",
        "--podName": "fleet-1-exec-1",
    }


def test_a_driver_becomes_spark_submit_in_its_own_process(entrypoint: ModuleType) -> None:
    words = entrypoint.command(["driver", "--master", "k8s://x", "job.py", "run"], ENVIRONMENT)
    assert words == [
        "/opt/spark/bin/spark-submit", "--deploy-mode", "client",
        "--conf", "spark.driver.bindAddress=10.1.2.3", "--master", "k8s://x", "job.py", "run",
    ]  # fmt: skip


def test_anything_else_is_for_the_command_line(entrypoint: ModuleType) -> None:
    assert entrypoint.command(["demo", "--root", "/x"], {})[1:] == ["-m", "fleet_learner", "demo", "--root", "/x"]


@pytest.mark.parametrize("name", sorted(set(ENVIRONMENT) - {"SPARK_DRIVER_BIND_ADDRESS"}))
def test_an_executor_without_its_environment_says_what_is_missing(entrypoint: ModuleType, name: str) -> None:
    there = {key: value for key, value in ENVIRONMENT.items() if key != name}
    with pytest.raises(KeyError, match=name):
        entrypoint.command(["executor"], there)
