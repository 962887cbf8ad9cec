"""Settings of Spark, the configuration and a cluster for a root in S3, without a store."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet_learner.lake import object_store, s3_jars
from fleet_learner.lake.jars import spark_folder
from fleet_learner.lake.object_store import ObjectStoreError, is_in_object_store, s3_settings, settings_for

DEPLOY = Path(__file__).parents[3] / "deploy" / "fleet-learner"
SECRET = "not-to-be-seen"
ENDPOINT = {"spark.hadoop.fs.s3a.endpoint": "https://s3.example:9000"}
CONDITIONAL = "spark.hadoop.fs.s3a.create.conditional.enabled"
LOG_STORE = "spark.delta.logStore.s3a.impl"


def test_a_root_on_a_disk_changes_no_setting() -> None:
    assert settings_for("file:/data/fleet", {"spark.driver.memory": "1g"}) == {"spark.driver.memory": "1g"}


def test_the_jars_come_after_those_that_the_user_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "s3_jar_paths", lambda: [Path("/cache/a.jar"), Path("/cache/b.jar")])
    assert settings_for("s3a://b/f", {"spark.jars": "/mine.jar"})["spark.jars"] == "/mine.jar,/cache/a.jar,/cache/b.jar"


def test_buckets_are_asked_for_by_path_only_where_a_server_is_named() -> None:
    style = "spark.hadoop.fs.s3a.path.style.access"
    assert style not in s3_settings({})
    assert s3_settings(ENDPOINT)[style] == "true"
    assert s3_settings({**ENDPOINT, style: "false"})[style] == "false", "the user's own setting wins"


def test_without_conditional_writes_deltas_own_log_store_is_left() -> None:
    assert s3_settings({})[LOG_STORE] == s3_jars.LOG_STORE
    assert LOG_STORE not in s3_settings({CONDITIONAL: "false"})


@pytest.mark.parametrize("name", ["access.key", "secret.key", "session.token", "bucket.fleet.secret.key"])
def test_a_secret_in_the_settings_is_refused_and_not_shown(name: str) -> None:
    with pytest.raises(ObjectStoreError, match=r"secret\.key|access\.key|session\.token") as refused:
        s3_settings({f"spark.hadoop.fs.s3a.{name}": SECRET})
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(("root", "said"), [
    ("s3://bucket/fleet", "write s3a://"),
    (f"s3a://key:{SECRET}@bucket/fleet", "credentials do not belong in a URI"),
    ("s3a:///fleet", "name the bucket"),
])  # fmt: skip
def test_a_root_that_cannot_work_is_refused(root: str, said: str) -> None:
    with pytest.raises(ObjectStoreError, match=said) as refused:
        is_in_object_store(root)
    assert SECRET not in str(refused.value)


def test_only_s3a_is_an_object_store_here() -> None:
    assert is_in_object_store("s3a://bucket/fleet")
    assert not any(map(is_in_object_store, ("file:/data", "/data", "hdfs://name/data")))


def test_the_client_is_as_old_as_sparks_hadoop_and_no_library_is_there_twice() -> None:
    """Two Hadoops, or two Nettys, in one JVM end in errors that name neither."""
    spark = {path.name for path in spark_folder().glob("*.jar")}
    assert f"hadoop-client-api-{s3_jars.HADOOP}.jar" in spark
    names = [jar.name for jar in s3_jars.S3_JARS]
    assert len(names) == len(set(names)) == len({jar.sha256 for jar in s3_jars.S3_JARS})
    artifacts = {name.removesuffix(".jar").rpartition("-")[0] for name in spark}
    assert not artifacts & {jar.artifact for jar in s3_jars.S3_JARS}
    assert {
        "httpclient", "httpcore", "netty-codec-http2", "netty-handler", "commons-codec", "jcl-over-slf4j",
    } <= artifacts  # fmt: skip


# in a cluster --------------------------------------------------------------------------------------------------------


def document(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / name).read_text())
    return found


def test_executors_differ_from_the_usual_ones_by_their_volume_only() -> None:
    expected = deepcopy(document("base/executor.yaml"))
    container = expected["spec"]["containers"][0]
    credentials = {"name": "object-store", "mountPath": "/etc/fleet-learner-object-store", "readOnly": True}
    container["volumeMounts"][0] = credentials
    container["env"] = [{"name": "AWS_SHARED_CREDENTIALS_FILE", "value": "/etc/fleet-learner-object-store/credentials"}]
    secret = {"secretName": "fleet-learner-object-store", "optional": True}
    expected["spec"]["volumes"][0] = {"name": "object-store", "secret": secret}
    assert document("object-store/executor.yaml") == expected
    driver = document("object-store/driver.yaml")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert driver["containers"][0]["volumeMounts"] == [credentials]
    assert driver["containers"][0]["env"] == container["env"]
    assert driver["volumes"] == [expected["spec"]["volumes"][0]]


def test_the_component_names_files_that_are_there() -> None:
    component = document("object-store/kustomization.yaml")
    named = [*component["configMapGenerator"][0]["files"], *(patch["path"] for patch in component["patches"])]
    assert all((DEPLOY / "object-store" / name).is_file() for name in named)
