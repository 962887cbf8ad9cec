"""The agent of Connect workers: whether it comes into the next pods, which field keeps it out, and what the status says
of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.api.resources.staticgroup import StaticGroupSpec
from staticgroup.core.findings.issues import findings_of_seats
from staticgroup.core.injection import hindrance
from staticgroup.core.outcomes import Executed
from staticgroup.core.plan import plan
from staticgroup.core.snapshot import Snapshot
from staticgroup.core.status.projection import project
from staticgroup.core.workload import ContainerBudget, JavaOptions, WorkloadView
from staticgroup.kube.translate import workload_view

from .builders import NOW_S, history, spec, workload
from .plans import NOW, conditions_of
from .workers import stock, worker, world

TEXT: dict[str, Any] = {"java_options": JavaOptions.TEXT}


def wish(**client: Any) -> StaticGroupSpec:
    values = {"type": "Connect", "injectAgent": True} | client
    return spec(groupProtocol="Auto", groupId="connect-cluster", client=values)


def seen(
    *members: Any, containers: tuple[ContainerBudget, ...] = (), names: tuple[str, ...] = (), **container: Any
) -> Snapshot:
    of_pod = containers or (ContainerBudget(name="app", startup_budget_s=20, **container),)
    return replace(world(*members), workload=workload(2, containers=of_pod, agent_names=names))


def said(snapshot: Snapshot, type_: str = "Injected", wished: StaticGroupSpec | None = None) -> tuple[str, str]:
    """Return reason and message of a condition."""
    condition = conditions_of(snapshot, wish=wished or wish())[type_]
    return condition.reason, condition.message


WELL = (worker(0), worker(1))


def test_options_as_text_take_the_agent() -> None:
    assert said(seen(*WELL, **TEXT))[0] == "IdsInjected"


@pytest.mark.parametrize(
    ("options", "cause", "remedy"),
    [
        (
            JavaOptions.ABSENT, "sets no KAFKA_OPTS, and to set it would replace",
            'add KAFKA_OPTS to its env with the value that the image has ("" if it has none)',
        ),
        (JavaOptions.PERHAPS_FROM_ELSEWHERE, "has envFrom", "add KAFKA_OPTS to its env with the value that comes from there"),
        (JavaOptions.REFERENCE, "takes KAFKA_OPTS by valueFrom", "write it as text in its env"),
        (JavaOptions.TWICE, "sets KAFKA_OPTS twice", "set it once in its env"),
        (JavaOptions.WITH_AGENT, "must not run two", "or set spec.client.injectAgent to false"),
    ],
)
def test_options_that_cannot_be_extended_name_the_field_to_change(
    options: JavaOptions, cause: str, remedy: str
) -> None:
    reason, message = said(seen(*WELL, java_options=options))
    assert reason == "AgentNotInjected"
    assert message.startswith(
        "New pods get no Connect agent, without which workers drop their ids: container app of StatefulSet web "
    )
    assert cause in message
    assert remedy in message
    assert "roll the StatefulSet" in message


@pytest.mark.parametrize(
    ("options", "is_refused"),
    [(JavaOptions.ABSENT, False), (JavaOptions.PERHAPS_FROM_ELSEWHERE, True), (JavaOptions.REFERENCE, True)],
)
def test_debeziums_image_sets_no_options_that_could_be_replaced(options: JavaOptions, is_refused: bool) -> None:
    reason, _ = said(seen(*WELL, java_options=options), wished=wish(type="Debezium"))
    assert (reason == "AgentNotInjected") is is_refused


def test_a_place_that_is_taken_is_refused() -> None:
    _, message = said(seen(*WELL, **TEXT, has_agent_mount=True))
    assert "container app of StatefulSet web mounts something at or above /opt/staticgroup-connect-agent" in message
    _, message = said(seen(*WELL, **TEXT, names=("spec.template.spec.volumes",)))
    assert "spec.template.spec.volumes of StatefulSet web has a staticgroup-connect-agent of its own" in message


def test_the_workers_container_is_asked_and_no_other() -> None:
    other, worker_ = ContainerBudget(name="side"), ContainerBudget(name="connect", java_options=JavaOptions.TEXT)
    assert said(seen(*WELL, containers=(other, worker_)))[0] == "AgentNotInjected"
    assert said(seen(*WELL, containers=(other, worker_)), wished=wish(container="connect"))[0] == "IdsInjected"


@pytest.mark.parametrize(
    ("wished", "view"),
    [(wish(injectAgent=False), workload(2)), (wish(), None), (wish(container="elsewhere"), workload(2))],
    ids=["provided", "no StatefulSet", "no such container"],
)
def test_no_field_keeps_out_an_agent_that_is_not_to_be_injected(
    wished: StaticGroupSpec, view: WorkloadView | None
) -> None:
    assert hindrance(wished, view) is None


def test_nothing_is_said_of_the_agent_while_nothing_is_injected() -> None:
    observing = wish().model_copy(update={"mode": spec(mode="Observe").mode})
    assert said(seen(*WELL), wished=observing)[0] == "InjectionOff"


def rows(snapshot: Snapshot) -> dict[str, str]:
    decided = plan(wish(), snapshot, history(), NOW_S)
    return {str(f.kind): f.remedy for f in findings_of_seats(wish(), decided, snapshot)}


def test_workers_without_an_agent_that_is_injected_come_to_it_by_a_roll_or_say_why_not() -> None:
    snapshot = seen(stock(0), stock(1), **TEXT)
    reason, message = said(snapshot, "MembershipComplete")
    assert reason == "WorkersWithoutAgent"
    command = "kubectl -n shop rollout restart statefulset/web"
    remedy = f"its line in the worker's log says why; if there is none: {command}"
    assert message.endswith(remedy)
    assert rows(snapshot) == {"Missing": remedy, "Dynamic": remedy}


def test_workers_without_an_agent_that_cannot_be_injected_refer_to_the_condition_with_the_field() -> None:
    snapshot = seen(stock(0), stock(1), java_options=JavaOptions.REFERENCE)
    remedy = "the condition Injected says what keeps the agent out of new pods"
    assert said(snapshot, "MembershipComplete")[1].endswith(remedy)
    assert set(rows(snapshot).values()) == {remedy}


@pytest.mark.parametrize("options", [JavaOptions.TEXT, JavaOptions.REFERENCE])
def test_what_is_refused_of_a_worker_without_its_agent_fits_into_its_row(options: JavaOptions) -> None:
    """`issues_of` cuts what is so, to keep what to do."""
    long_id = "connect-192.168.100.100:8083-a0a0a0a0-b1b1-c2c2-d3d3-e4e4e4e4e4e4"
    snapshot = seen(stock(0), replace(stock(1), member_id=long_id), java_options=options)
    decided = plan(wish(), snapshot, history(), NOW_S)
    assert max(len(f.text) for f in findings_of_seats(wish(), decided, snapshot)) <= 300


def test_the_init_container_counts_in_the_time_that_a_restart_takes() -> None:
    def need_ms(wished: StaticGroupSpec, **container: Any) -> int:
        decided = plan(wished, seen(*WELL, **container), history(), NOW_S)
        assert decided.timeout is not None
        return decided.timeout.desired.need_ms

    provided = need_ms(wish(injectAgent=False), **TEXT)
    assert need_ms(wish(), **TEXT) > provided
    assert need_ms(wish()) == provided


def test_the_status_asks_the_policy_for_the_agent() -> None:
    def injected(wished: StaticGroupSpec) -> Any:
        snapshot = seen(*WELL, **TEXT)
        status = project(wished, snapshot, plan(wished, snapshot, history(), NOW_S), Executed(), None, NOW)
        assert status.injected is not None
        return status.injected.to_wire().get("worker")

    asked = {"container": "app", "agent": True, "optionsMayBeAbsent": False, "hostVariable": ""}
    assert injected(wish()) == asked
    assert injected(wish(injectAgent=False)) is None
    debezium = {"optionsMayBeAbsent": True, "hostVariable": "ADVERTISED_HOST_NAME"}
    assert injected(wish(type="Debezium", container="connect")) == asked | debezium | {"container": "connect"}
    assert injected(wish(type="Debezium", injectAgent=False)) == asked | debezium | {"agent": False}


# the pod template -----------------------------------------------------------------------------------------------------


def template(container: dict[str, Any], **pod: Any) -> WorkloadView:
    raw = {
        "metadata": {"namespace": "shop", "name": "web", "uid": "w1"},
        "spec": {"template": {"spec": {"containers": [{"name": "app"} | container]} | pod}},
    }
    view = workload_view(raw)
    assert isinstance(view, WorkloadView)
    return view


OPTS = "KAFKA_OPTS"
FROM = {"name": OPTS, "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}


@pytest.mark.parametrize(
    ("container", "options"),
    [
        ({}, JavaOptions.ABSENT),
        ({"env": [{"name": "KAFKA_HEAP_OPTS", "value": "-Xmx1g"}]}, JavaOptions.ABSENT),
        ({"envFrom": [{"secretRef": {"name": "s"}}]}, JavaOptions.PERHAPS_FROM_ELSEWHERE),
        ({"env": [{"name": OPTS}]}, JavaOptions.TEXT),
        (
            {"env": [{"name": OPTS, "value": "-Dpassword=x"}], "envFrom": [{"secretRef": {"name": "s"}}]},
            JavaOptions.TEXT,
        ),
        ({"env": [FROM]}, JavaOptions.REFERENCE),
        ({"env": [FROM, {"name": OPTS, "value": "-Xint"}]}, JavaOptions.TWICE),
        (
            {"env": [{"name": OPTS, "value": "-javaagent:/a/staticgroup-connect-agent.jar=refusal=exit"}]},
            JavaOptions.WITH_AGENT,
        ),
    ],
)
def test_what_a_template_says_of_the_options_is_refused_without_their_text(
    container: dict[str, Any], options: JavaOptions
) -> None:
    view = template(container)
    assert view.containers[0].java_options is options
    assert "password" not in repr(view)


def test_names_and_places_of_the_agent_are_found_in_a_template() -> None:
    named = [{"name": "staticgroup-connect-agent"}]
    free = template({"volumeMounts": [{"name": "d", "mountPath": "/opt/data"}]}, volumes=[{"name": "d"}])
    assert (free.agent_names, free.containers[0].has_agent_mount) == ((), False)
    taken = template(
        {"volumeMounts": [{"name": "d", "mountPath": "/opt/staticgroup-connect-agent/"}]},
        volumes=named,
        initContainers=named,
    )
    assert taken.agent_names == ("spec.template.spec.volumes", "spec.template.spec.initContainers")
    assert taken.containers[0].has_agent_mount


@pytest.mark.parametrize("path", ["/opt", "/opt/", "/"])
def test_mount_above_the_agents_place_takes_it_too(path: str) -> None:
    """Where it is read-only (a ConfigMap, an image), no directory for the agent can be made in it, and no container
    starts."""
    view = template({"volumeMounts": [{"name": "d", "mountPath": path}]}, volumes=[{"name": "d"}])
    assert view.containers[0].has_agent_mount


@pytest.mark.parametrize("path", ["/op", "/opt/staticgroup", "/data/opt"])
def test_mount_beside_the_agents_place_leaves_it_free(path: str) -> None:
    view = template({"volumeMounts": [{"name": "d", "mountPath": path}]}, volumes=[{"name": "d"}])
    assert not view.containers[0].has_agent_mount
