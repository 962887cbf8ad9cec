"""A round's facts about pods: the ends and starts of their processes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from journal.runs import RECENT_MS, RunChange
from staticgroup.core.evidence.pod import ContainerPhase, ContainerView
from staticgroup.core.group import BrokerBounds, GroupType, MemberView, SessionBounds
from staticgroup.core.workload import ContainerBudget
from support.bounds import broker_bounds
from unit.core.builders import id_of, pod_version, spec, workload
from unit.journal.observer import NOW_MS, STEP_MS, UNREACHABLE, Observer, kinds, kip848, running


def change(*instance_ids: str, container: str = "app", is_first: bool = True, **changes: Any) -> RunChange:
    of = ContainerView(name=container, phase=ContainerPhase.RUNNING, image_digest="sha256:a")
    pod = pod_version(
        1, "u1", revision="r1", instance_ids=frozenset(instance_ids or {id_of(1)}), session_timeouts_ms=(45_000,),
        required=(of,) if is_first else (replace(of, name="first"), of),
    )  # fmt: skip
    values: dict[str, Any] = {
        "is_up": False, "restart_count": 3, "reason": "OOMKilled", "source_time_ms": NOW_MS, "lo_ms": None,
        "hi_ms": None, "observed_at_ms": NOW_MS + 500,
    }  # fmt: skip
    return RunChange(pod=pod, container=of, **(values | changes))


def test_end_of_a_process_with_everything_the_pipeline_needs() -> None:
    (fact,) = Observer().look(running(), runs=[change()])
    assert fact.id == f"u1/3/{id_of(1)}/down"
    data = fact.data.model_dump()
    assert data | {"operator_id": "", "kafka_cluster_id": "", "group_id": "", "namespace": "", "static_group": ""} == {
        "operator_id": "", "kafka_cluster_id": "", "group_id": "", "namespace": "", "static_group": "", "seq": 0,
        "observed_at_ms": NOW_MS + 500, "source_time_ms": NOW_MS, "time_lo_ms": None, "time_hi_ms": None,
        "workload": "web", "protocol": "Classic", "instance_id": id_of(1), "pod_name": "web-1", "pod_uid": "u1",
        "restart_count": 3, "node_name": "n1", "image_digest": "sha256:a", "rollout_id": "r1", "reason": "OOMKilled",
        "session_timeout_ms": 45_000, "watch_scope": "",
    }  # fmt: skip


def test_runs_are_recorded_while_the_group_cannot_be_read() -> None:
    assert kinds(Observer().look(running(group=UNREACHABLE), runs=[change()])) == ["member.down"]


def test_every_member_of_a_pod_goes_down_with_its_process() -> None:
    """Kafka Streams and Spring make several consumers of one id."""
    threads = spec(client={"type": "KafkaStreams", "concurrency": 3})
    facts = Observer().look(running(), runs=[change()], spec=threads)
    assert [f.data.model_dump()["instance_id"] for f in facts] == [f"{id_of(1)}-{n}" for n in (1, 2, 3)]
    assert len({f.id for f in facts}) == 3


def test_ids_of_a_container_are_those_of_the_entries_that_name_it() -> None:
    two = spec(client={"type": "Custom", "env": [{"suffix": "-a"}, {"suffix": "-b", "container": "side"}]})
    both = (f"{id_of(1)}-a", f"{id_of(1)}-b")
    for container, is_first, expected in (("app", True, both[:1]), ("side", False, both[1:]), ("proxy", False, ())):
        facts = Observer().look(running(), runs=[change(*both, container=container, is_first=is_first)], spec=two)
        assert tuple(f.data.model_dump()["instance_id"] for f in facts) == expected


def test_process_of_a_sidecar_is_no_member() -> None:
    """Meshes put their proxy first; the container that gets the variables is chosen by name."""
    seen = running(workload=workload(3, containers=(ContainerBudget(name="istio-proxy"), ContainerBudget(name="app"))))
    assert kinds(Observer().look(seen, runs=[change(container="app", is_first=False)])) == ["member.down"]
    assert Observer().look(seen, runs=[change(container="istio-proxy")]) == []


def test_pod_without_our_id_is_not_ours() -> None:
    assert Observer().look(running(), runs=[change("other-id")]) == []


def test_timeout_of_a_kip848_member_is_the_groups() -> None:
    """KIP-848: the group has one value; a pod's own value is not in force."""
    consumer = spec(groupProtocol="Consumer")
    bounds = broker_bounds(consumer_session_ms=50_000)
    (fact,) = Observer().look(running(group=kip848(3), bounds=bounds), runs=[change()], spec=consumer)
    assert fact.data.model_dump()["session_timeout_ms"] == 50_000


def test_thread_of_a_streams_group_has_the_timeout_of_its_group_and_its_protocol() -> None:
    """KIP-1071: as with KIP-848; one record for each thread of the process."""
    wish = spec(groupProtocol="Auto", client={"type": "KafkaStreams", "concurrency": 2})
    threads = tuple(f"{id_of(n)}-{t}" for n in range(3) for t in (1, 2))
    members = tuple(MemberView(member_id=f"m-{i}", instance_id=i, member_epoch=3) for i in threads)
    of_streams = kip848(3, *members, group_type=GroupType.STREAMS, protocol_type="streams")
    bounds = BrokerBounds(sessions={GroupType.STREAMS: SessionBounds(min_ms=45_000, max_ms=60_000, group_ms=55_000)})
    facts = Observer().look(running(group=of_streams, bounds=bounds), runs=[change()], spec=wish)
    downs = [f.data.model_dump() for f in facts if f.data.noun == "member.down"]
    assert [d["instance_id"] for d in downs] == [f"{id_of(1)}-1", f"{id_of(1)}-2"]
    assert {(d["session_timeout_ms"], d["protocol"]) for d in downs} == {(55_000, "Streams")}


def test_timeout_of_a_classic_member_that_shows_none_is_not_known() -> None:
    """What the next pods get is not what this process was started with."""
    silent = replace(change(), pod=replace(change().pod, session_timeouts_ms=()))
    (fact,) = Observer().look(running(), runs=[silent])
    assert fact.data.model_dump()["session_timeout_ms"] is None


def test_runs_that_waited_too_long_are_not_recorded() -> None:
    """A group that could not be planned for an hour has a hole, which the beats show."""
    old = change(observed_at_ms=NOW_MS + STEP_MS + 100 - RECENT_MS - 1)
    assert Observer().look(running(), runs=[old]) == []
