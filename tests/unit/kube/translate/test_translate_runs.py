"""What a raw Pod object shows of the runs of its containers, and which of them may hold an instance id."""

from __future__ import annotations

from typing import Any

import pytest

from staticgroup.core.evidence.pod import ContainerPhase, ContainerView, EndView, PodVersion, RunView
from staticgroup.kube.translate import MalformedObject, pod_version
from staticgroup.kube.translate.carried_ids import CARRIED_IDS_MAX, SEARCHED_IDS_MAX
from support.narrowing import of_type
from unit.kube.raw_objects import STATUS_FIELDS, at, composed, pod, running, wrote

Json = dict[str, Any]
STARTED, ENDED = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
STARTED_S, ENDED_S = 1767225600.0, 1767225660.0


def version(raw: Json) -> PodVersion:
    found = of_type(PodVersion, pod_version(at(raw, 7)))
    return found


def end(run: str = "a", **changes: Any) -> Json:
    values = {"exitCode": 137, "reason": "OOMKilled", "startedAt": STARTED, "finishedAt": ENDED, "containerID": f"containerd://{run}"}
    return {"terminated": values | changes}


def entry(state: Json, *, restarts: int = 0, last: Json | None = None, run: str = "a") -> Json:
    return {"name": "app", "containerID": f"containerd://{run}", "restartCount": restarts, "state": state, "lastState": last or {}}


def app(status: Json) -> ContainerView:
    (found,) = version(pod(statuses=[status])).required
    return found


# runs ----------------------------------------------------------------------------------------------------------------


def test_running_container_shows_its_id_and_its_restarts() -> None:
    found = app(entry({"running": {"startedAt": STARTED}}, restarts=1, last=end(), run="b"))
    assert (found.phase, found.container_id, found.restart_count) == (ContainerPhase.RUNNING, "containerd://b", 1)


@pytest.mark.parametrize(
    ("status", "phase", "ended"),
    [
        (running(), ContainerPhase.RUNNING, None),
        (entry({"running": {"startedAt": STARTED}}, restarts=1, last=end(), run="b"), ContainerPhase.RUNNING, "a"),
        (entry(end("b"), restarts=1, last=end("a"), run="b"), ContainerPhase.TERMINATED, "b"),
        (entry({"waiting": {"reason": "CrashLoopBackOff"}}, last=end()), ContainerPhase.WAITING, "a"),
    ],
    ids=["first run", "runs again", "has ended", "in back-off"],
)
def test_container_shows_the_newest_end_of_its_runs(status: Json, phase: ContainerPhase, ended: str | None) -> None:
    found = app(status)
    end_view = EndView(container_id=f"containerd://{ended}", finished_at_s=ENDED_S, reason="OOMKilled")
    assert (found.phase, found.last_end) == (phase, end_view if ended else None)


RUN_0 = RunView(
    restart_count=0, started_at_s=STARTED_S, end=EndView(container_id="containerd://a", finished_at_s=ENDED_S, reason="OOMKilled")
)
NOTHING = EndView(container_id="", finished_at_s=None)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (entry({"running": {"startedAt": STARTED}}), (RunView(restart_count=0, started_at_s=STARTED_S),)),
        (entry(end()), (RUN_0,)),
        (entry({"running": {"startedAt": ENDED}}, restarts=1, last=end()), (RUN_0, RunView(restart_count=1, started_at_s=ENDED_S))),
        (entry({"waiting": {"reason": "CrashLoopBackOff"}}, last=end()), (RUN_0,)),
        (entry({"waiting": {"reason": "ContainerCreating"}}), ()),
        (entry({"running": {"startedAt": STARTED}}, last=end()), (RunView(restart_count=0, started_at_s=STARTED_S),)),
        (entry({"terminated": {"startedAt": "0001-01-01T00:00:00Z", "finishedAt": None}}), (RunView(restart_count=0, end=NOTHING),)),
    ],
    ids=["running", "ended", "restarted in place", "waits to restart", "starting", "lastState without a restart", "no times"],
)  # fmt: skip
def test_runs_of_one_status_entry(status: Json, expected: tuple[RunView, ...]) -> None:
    assert app(status).runs == expected


@pytest.mark.parametrize(("image", "digest"), [("docker.io/app:1", "docker.io/app:1"), ("registry.example/app@sha256:feed", "sha256:feed")])
def test_image_of_a_container_is_its_digest(image: str, digest: str) -> None:
    assert app(entry({}) | {"imageID": image}).image_digest == digest


def test_pod_tells_its_revision_why_it_failed_and_when_its_deletion_was_asked_for() -> None:
    raw = pod(labels={"controller-revision-hash": "web-abc"}, deletionTimestamp="2026-01-01T00:01:00Z", deletionGracePeriodSeconds=60)
    raw["status"]["reason"] = "Evicted"
    found = version(raw)
    assert (found.revision, found.reason, found.deletion_asked_at_s) == ("web-abc", "Evicted", STARTED_S)


@pytest.mark.parametrize("text", [None, "", "0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "soon"])
def test_time_that_shows_nothing_is_none(text: str | None) -> None:
    found = app(entry(end(finishedAt=text)) if text is not None else entry({"terminated": {"reason": "Error"}}))
    assert found.last_end is not None
    assert found.last_end.finished_at_s is None


@pytest.mark.parametrize(
    "status",
    [entry({"running": {}}, last={"terminated": "x"}), entry({}, restarts="1"), {"name": "app", "state": {"running": []}}],  # type: ignore[arg-type]
)
def test_entry_of_the_wrong_shape_makes_the_whole_object_unreadable(status: Json) -> None:
    assert isinstance(pod_version(at(pod(statuses=[status]), 7)), MalformedObject)


# the pod ---------------------------------------------------------------------------------------------------------------


def test_pod_shows_whether_its_containers_share_their_processes() -> None:
    raw = pod()
    assert not version(raw).shares_processes
    raw["spec"]["shareProcessNamespace"] = True
    assert version(raw).shares_processes


def test_pod_shows_when_its_phase_was_written_last() -> None:
    written = [wrote("kubelet", *STATUS_FIELDS, at=ENDED), wrote("kueue", "f:phase", at=STARTED)]
    assert version(pod(managedFields=written)).phase_written_at_s == ENDED_S
    assert version(pod(managedFields=[])).phase_written_at_s is None


# who may hold an id --------------------------------------------------------------------------------------------------


def holders(*, sidecar: Json | None = None, init: Json | None = None, ephemeral: Json | None = None, **rest: Any) -> set[str]:
    """The containers that may hold an id, of a pod whose first container does, beside another one."""
    raw = pod(**rest)
    raw["spec"]["containers"][0]["env"] = [{"name": "INSTANCE_ID", "value": "web-0.1a2b3c4d"}]
    if sidecar is not None:
        raw["spec"]["containers"].append({"name": "proxy"} | sidecar)
    if init is not None:
        raw["spec"]["initContainers"] = [{"name": "init"} | init]
    if ephemeral is not None:
        raw["spec"]["ephemeralContainers"] = [{"name": "debug"} | ephemeral]
    raw["spec"]["volumes"] = VOLUMES
    found = version(raw)
    return {container.name for container in (*found.required, *found.inits) if container.may_hold_id}


def file_of(path: str) -> Json:
    return {"downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": path}}]}}


VOLUMES = [
    {"name": "id"} | file_of("metadata.annotations['staticgroup.io/instance-id']"),
    {"name": "all"} | file_of("metadata.annotations"),
    {"name": "labels"} | file_of("metadata.labels"),
]


def test_container_whose_variable_is_called_so_holds_an_id_and_its_neighbour_does_not() -> None:
    assert holders(sidecar={"env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}) == {"app"}


@pytest.mark.parametrize(
    "sidecar",
    [
        {"envFrom": [{"secretRef": {"name": "s"}}]},
        {"env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['staticgroup.io/instance-id']"}}}]},
        {"env": [{"name": "X", "value": "web-0.1a2b3c4d"}]},
        {"env": [{"name": "JAVA_OPTS", "value": "-Xmx1g -Dgroup.instance.id=web-0.1a2b3c4d"}]},
        {"args": ["--instance-id=web-0.1a2b3c4d"]},
        {"command": ["consume", "web-0.1a2b3c4d"]},
        {
            "env": [{"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "args": ["--instance-id=$(NAME).1a2b3c4d"],
        },
        {"volumeMounts": [{"name": "id", "mountPath": "/etc"}]},
        {"volumeMounts": [{"name": "all", "mountPath": "/etc"}]},
    ],
    ids=["envFrom", "annotation", "value", "within a value", "argument", "command", "expanded", "file of the id", "file of all"],
)
def test_container_that_may_read_an_id_in_another_way_holds_one_too(sidecar: Json) -> None:
    assert holders(sidecar=sidecar) == {"app", "proxy"}


POD_NAME = {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}


@pytest.mark.parametrize(
    "sidecar",
    [
        {"command": ["sh", "-c", "exec consume --instance-id=$(hostname).1a2b3c4d"]},
        {"env": [{"name": "REST", "value": ".1a2b3c4d"}], "args": ["sh", "-c", "exec consume $HOSTNAME$REST"]},
        {"env": [POD_NAME, {"name": "OPTS", "value": f"-Dgroup.instance.id=$(NAME).1a2b3c4d {'-X' * 200}"}]},
        {"env": [POD_NAME], "args": [f"--instance-id=$(NAME).1a2b3c4d {'-X' * 200}"]},
        {"env": [POD_NAME, {"name": "REST", "value": "1a2b3c4d"}, {"name": "OPTS", "value": f"$(NAME).$(REST) {'-X' * 200}"}]},
        {"env": [{"name": "SCOPE", "value": "1a2b3c4d"}], "args": ["sh", "-c", "exec consume --instance-id=$HOSTNAME.$SCOPE"]},
        {"lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", "consume $HOSTNAME.1a2b3c4d &"]}}}},
    ],
    ids=[
        "shell", "shell with a variable", "within a long value", "within a long argument", "composed within a long value",
        "shell that writes the separator", "hook",
    ],
)
def test_container_that_has_the_rest_of_an_id_may_compose_it_of_its_host_name(sidecar: Json) -> None:
    assert holders(sidecar=sidecar) == {"app", "proxy"}


def test_container_that_has_a_longer_piece_does_not_have_the_rest_of_an_id() -> None:
    assert holders(sidecar={"env": [{"name": "SCOPE", "value": "x1a2b3c4dx"}], "args": ["$HOSTNAME"]}) == {"app"}


@pytest.mark.parametrize(
    "sidecar",
    [
        {"env": [{"name": "OF", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}, POD_NAME], "args": ["$(NAME).$(OF)"]},
        {"env": [{"name": "OF", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}, POD_NAME, {"name": "X", "value": "$(NAME).$(OF)"}]},
    ],
    ids=["argument", "value"],
)
def test_container_that_has_a_text_with_the_name_of_its_pod_that_only_the_kubelet_knows_may_hold_an_id(sidecar: Json) -> None:
    assert holders(sidecar=sidecar) == {"app", "proxy"}


def test_every_container_may_take_the_name_of_its_pod_as_its_host_name_where_that_is_the_id() -> None:
    raw = composed(pod(instance_id=None))
    raw["spec"]["containers"].append({"name": "consumer"})
    assert [c.may_hold_id for c in version(raw).required] == [True, True]


def test_somebody_may_type_an_id_in_a_debug_container() -> None:
    assert holders(ephemeral={}) == {"app", "debug"}


def test_volume_without_an_id_makes_no_holder() -> None:
    assert holders(sidecar={"volumeMounts": [{"name": "labels", "mountPath": "/etc"}]}) == {"app"}


def test_sidecars_and_ephemeral_containers_are_asked_too() -> None:
    given = {"args": ["web-0.1a2b3c4d"]}
    assert holders(init=given | {"restartPolicy": "Always"}, ephemeral=given) == {"app", "init", "debug"}


@pytest.mark.parametrize("count", [SEARCHED_IDS_MAX + 1, CARRIED_IDS_MAX + 1])
def test_every_container_of_a_pod_with_many_ids_may_hold_one(count: int) -> None:
    many = {f"staticgroup.io/instance-id-{n}": f"id-{n}" for n in range(count)}
    assert holders(sidecar={}, annotations=many) == {"app", "proxy"}


def test_no_container_of_a_pod_without_ids_holds_one() -> None:
    (found,) = version(pod(instance_id=None)).required
    assert not found.may_hold_id


# which one ---------------------------------------------------------------------------------------------------------------


def ids_of(raw: Json) -> dict[str, set[str] | None]:
    """By name, the only ids that each container may hold; None: any."""
    return {c.name: set(c.only_ids) or None for c in version(raw).required if c.may_hold_id}


def consumers(*containers: Json) -> Json:
    raw = pod(instance_id=None, annotations={"x": "web-0.1a2b3c4d-x"})
    raw["spec"]["containers"] = [{"name": f"c{n}"} | container for n, container in enumerate(containers)]
    raw["spec"]["volumes"] = VOLUMES
    return raw


A = {"env": [{"name": "INSTANCE_ID", "value": "web-0.1a2b3c4d-a"}]}
B = {"env": [POD_NAME, {"name": "OTHER_INSTANCE_ID", "value": "$(NAME).1a2b3c4d-b"}]}


def test_each_of_two_consumers_in_a_pod_may_hold_its_own_id_only() -> None:
    assert ids_of(consumers(A, B)) == {"c0": {"web-0.1a2b3c4d-a"}, "c1": {"web-0.1a2b3c4d-b"}}


def test_container_with_two_ids_may_hold_both() -> None:
    assert ids_of(consumers({"env": [*A["env"], *B["env"]]}, {})) == {"c0": {"web-0.1a2b3c4d-a", "web-0.1a2b3c4d-b"}}


def test_container_that_can_make_the_id_of_its_neighbour_may_hold_it_too() -> None:
    given = {"env": A["env"], "args": ["sh", "-c", "consume --instance-id=$(hostname).1a2b3c4d-b"]}
    assert ids_of(consumers(given, B))["c0"] == {"web-0.1a2b3c4d-a", "web-0.1a2b3c4d-b"}
    bare = {"env": [{"name": "INSTANCE_ID", "value": "web-0"}]}
    assert ids_of(consumers(bare, B)) == {"c0": {"web-0"}, "c1": {"web-0", "web-0.1a2b3c4d-b"}}


@pytest.mark.parametrize(
    "more",
    [
        {"envFrom": [{"secretRef": {"name": "s"}}]},
        {"env": [*A["env"], {"name": "X_INSTANCE_ID", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
        {"env": [*A["env"], {"name": "Y_INSTANCE_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['x']"}}}]},
        {"volumeMounts": [{"name": "id", "mountPath": "/etc"}]},
        {"env": [*A["env"], POD_NAME], "args": [f"--instance-id=$(NAME).1a2b3c4d {'-X' * 200}"]},
    ],
    ids=["envFrom", "of a Secret", "of an annotation", "file of the id", "too long to follow"],
)
def test_container_of_which_not_all_is_seen_or_fixed_may_hold_any_id(more: Json) -> None:
    assert ids_of(consumers(A | more, B))["c0"] is None
