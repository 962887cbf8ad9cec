"""Members that are not ours, or not for certain ours, stay; and in mode Observe all members stay.

The one idea: real consumers on this machine stand for other teams, other clusters and copied ids. They live on while
the pods of the same group are scaled away, and the witnesses show that they stayed untouched.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest

from staticgroup.core.seats import SAME_MEMBER_READY_S
from support.devcluster.kafka_broker import Brokers
from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.scene.figures import record
from support.scene.play import REMOVED_WITHIN_S, Play
from support.scene.secure import apply_secure_connection, denials
from support.scene.witnesses import ProcessTable
from support.waiting import holds, until
from support.workload.process import Program

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

Start = Callable[..., Program]
OWN_WITH_SCOPE = {"client": {"type": "Own"}, "idTemplate": "{podName}.{scope}"}


@pytest.fixture
def outsider() -> Iterator[Start]:
    """Start consumers on this machine that join a play's group; they end with the test."""
    started: list[Program] = []

    def start(play: Play, instance_id: str = "") -> Program:
        environment = {"BOOTSTRAP": play.brokers.bootstrap, "GROUP": play.name, "TOPIC": play.name}
        identity = {"KAFKA_GROUP_INSTANCE_ID": instance_id, "KAFKA_SESSION_TIMEOUT_MS": "60000"} if instance_id else {}
        started.append(Program("consumer", {**environment, **identity}))
        started[-1].wait_for_kind("assigned", 60)
        return started[-1]

    yield start
    for each in started:
        if each.is_running:
            each.kill()


def member_of(program: Program) -> str:
    return str(program.of_kind("assigned")[-1]["member_id"])


def present(play: Play) -> set[str]:
    """Return the member ids of the group, static and dynamic ones, as another client sees them."""
    return {m.member_id for m in play.admin.describe_group(play.name).members}


def id_of(play: Play, ordinal: int) -> str:
    """Return the id that was issued to an ordinal; by its scope, because a lookalike differs in nothing else."""
    issued = f"{play.name}-{ordinal}.{(play.status() or {})['injected']['scope']}"
    assert issued in play.member_ids()
    return issued


def issues(play: Play, kind: str) -> list[dict[str, Any]]:
    return [e for e in (play.status() or {}).get("issues", []) if e["kind"] == kind]


@pytest.mark.long
def test_foreign_and_dynamic_members_stay_and_are_counted(new_play: Callable[..., Play], outsider: Start) -> None:
    play = new_play()
    play.start(3)
    lookalikes = ("legacy-7", f"{play.name}-1", f"{play.name}-2.deadbeef")
    outsiders = [*(outsider(play, each) for each in lookalikes), outsider(play)]
    until(lambda: (play.admin.describe_group(play.name).state, len(present(play))) == ("Stable", 7), deadline_s=60,
          what="a stable group of seven", poll_s=0.3)  # fmt: skip
    ours = [id_of(play, ordinal) for ordinal in (1, 2)]
    theirs = {member_of(each) for each in outsiders}
    assert theirs < present(play)

    play.scale(1)
    until(
        lambda: play.removed_ids() == sorted(ours), deadline_s=REMOVED_WITHIN_S, what="our two departed members removed"
    )
    until(lambda: {k: (play.status() or {})["members"][k] for k in ("foreign", "dynamic", "departed")}
          == {"foreign": 3, "dynamic": 1, "departed": 0}, deadline_s=60, what="outsiders counted")  # fmt: skip
    assert {e["instanceId"] for e in issues(play, "Foreign")} == set(lookalikes)
    assert len(issues(play, "Dynamic")) == 1
    holds(lambda: theirs < present(play) and all(o.is_running for o in outsiders), for_s=5, what="outsiders stay")
    assert play.removed_ids() == sorted(ours)
    assert [o.of_kind("error") for o in outsiders] == [[], [], [], []]
    record("outsiders in the group", foreign=3, dynamic=1, removed_of_ours=2, removed_of_theirs=0)


def copy_of_pod(play: Play, instance_id: str) -> dict[str, Any]:
    """Return another StatefulSet whose only pod carries a copied id."""
    other = copy.deepcopy(play.stateful_set(1, env={"KAFKA_GROUP_INSTANCE_ID": instance_id}))
    other["metadata"]["name"] = other["spec"]["serviceName"] = f"{play.name}-copy"
    for labels in (other["spec"]["selector"]["matchLabels"], other["spec"]["template"]["metadata"]["labels"]):
        labels["app"] = f"{play.name}-copy"
    return other


def test_live_pod_with_a_copied_id_is_not_removed_with_the_pod_it_was_copied_from(
    new_play: Callable[..., Play], process_table: ProcessTable
) -> None:
    play = new_play()
    # The fenced original polls on instead of ending, or the two would fence each other for ever.
    play.start(3, env={"EXIT_ON_FATAL": "false"})
    twin = id_of(play, 2)
    original = play.member_ids()[twin]
    play.stage.apply(copy_of_pod(play, twin))
    held_by = until(
        lambda: {play.member_ids().get(twin)} - {None, original}, deadline_s=60, what="the copy takes the id over"
    ).pop()

    play.scale(2)
    until(
        lambda: f"{play.name}-2" not in {p["metadata"]["name"] for p in play.pods()}, deadline_s=60, what="pod 2 gone"
    )
    until(lambda: [e for e in (play.status() or {}).get("issues", []) if e.get("instanceId") == twin],
          deadline_s=30, what="the copied id is reported")  # fmt: skip
    holds(
        lambda: play.member_ids().get(twin) == held_by and process_table.is_alive(twin), for_s=10, what="the copy stays"
    )
    assert play.removals() == []

    play.stage.kubectl("delete", "statefulset", f"{play.name}-copy", "-n", play.name)
    until(
        lambda: play.removed_ids() == [twin],
        deadline_s=REMOVED_WITHIN_S,
        what="removed once both pods of the id are proven dead",
    )


@pytest.mark.long
def test_unscoped_id_is_removed_only_with_the_users_word(new_play: Callable[..., Play], outsider: Start) -> None:
    """`assumeExclusive` is about the issuer of such ids, not about a member without a pod whose process runs elsewhere."""
    play = new_play()
    play.start(3, static={"idTemplate": "{podName}"})
    ours, taken = f"{play.name}-2", f"{play.name}-1"

    def held() -> dict[str, str]:
        return {e["instanceId"]: e["reason"] for e in issues(play, "Held")}

    play.scale(1)
    unscoped = {ours: "UnscopedId", taken: "UnscopedId"}
    until(lambda: len(play.pods()) == 1 and held() == unscoped, deadline_s=60, what="both reported as held")
    assert play.condition("RemovalSettled").get("reason") == "UnscopedIds"
    other_cluster = outsider(play, taken)
    stays = member_of(other_cluster)
    holds(lambda: play.member_ids().get(taken) == stays, for_s=8, what="the other cluster's member stays")
    assert (play.removals(), other_cluster.of_kind("error")) == ([], [])

    play.stage.apply(play.static_group(idTemplate="{podName}", assumeExclusive=True))
    # The StaticGroup is young, so a process that nobody saw may hold them; `test_unseen` waits until it is not.
    waiting = {ours: "JoinedBeforeWatch", taken: "JoinedBeforeWatch"}
    until(lambda: held() == waiting, deadline_s=50, what="both held for what may be older than the StaticGroup")
    holds(lambda: play.member_ids().get(taken) == stays, for_s=6, what="the other cluster's member stays")
    assert (play.removed_ids(), other_cluster.of_kind("error")) == ([], [])


def ready_for_s(play: Play, name: str) -> float:
    """Return how long a pod has been Ready, by its condition."""
    pod = play.stage.get("pod", name, play.name) or {}
    (since,) = [c["lastTransitionTime"] for c in pod["status"]["conditions"] if c["type"] == "Ready"]
    return time.time() - datetime.fromisoformat(since).timestamp()


@pytest.mark.long
def test_takeover_of_an_id_by_another_cluster_is_reported_within_a_minute_and_never_removed(
    new_play: Callable[..., Play], outsider: Start
) -> None:
    """The pod's client is fenced, logs it once and is silent; its pod stays Ready, and the group looks complete."""
    play = new_play()
    play.start(2, env={"EXIT_ON_FATAL": "false"}, static={"idTemplate": "{podName}", "assumeExclusive": True})
    taken, settled_s = f"{play.name}-1", SAME_MEMBER_READY_S + 35  # and one round of the operator
    until(
        lambda: ready_for_s(play, taken) > settled_s, deadline_s=settled_s + 30, what="the pod to be Ready for long",
        poll_s=2,
    )  # fmt: skip
    other_cluster, began_s = outsider(play, taken), time.monotonic()

    def conflicts() -> list[dict[str, Any]]:
        return [e for e in issues(play, "Conflicting") if e["reason"] == "MemberReplaced"]

    (said,) = until(conflicts, deadline_s=60, what="the takeover to be reported")
    named_s = round(time.monotonic() - began_s, 1)
    assert (said["instanceId"], said["podName"]) == (taken, taken)
    assert play.member_ids()[taken] == member_of(other_cluster)
    assert play.condition("MembershipComplete").get("status") == "True"
    assert (play.removals(), other_cluster.of_kind("error")) == ([], [])
    record("id taken by a process of another cluster", named_s=named_s)


def managers(play: Play) -> dict[str, set[str]]:
    """Return the field managers of the workload and its pods, by object, from their managedFields."""
    found = play.stage.items("statefulsets,pods", play.name)
    shown = [play.stage.kubectl("get", o["kind"].lower(), o["metadata"]["name"], "-n", play.name,
             "--show-managed-fields", "-o",
             "jsonpath={.metadata.managedFields[*].manager}") for o in found]  # fmt: skip
    return {f"{o['kind']}/{o['metadata']['name']}": set(text.split()) for o, text in zip(found, shown, strict=True)}


def test_observe_writes_nothing_to_kafka_or_the_workload(
    new_play: Callable[..., Play], secure_brokers: Brokers
) -> None:
    """The principal may only DESCRIBE, so that the broker itself notes every attempt to write."""
    play = new_play(other_brokers=secure_brokers)
    play.admin.allow("watcher", "DESCRIBE", "group", play.name)
    apply_secure_connection(play, "watcher")
    play.stage.apply(play.static_group(mode="Observe", **OWN_WITH_SCOPE))
    scope = until(
        lambda: ((play.status() or {}).get("injected") or {}).get("scope"), deadline_s=30, what="the scope of the ids"
    )
    pod_name = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    own_id = {"name": "KAFKA_GROUP_INSTANCE_ID", "value": f"$(POD_NAME).{scope}"}
    workload = play.stateful_set(3, podManagementPolicy="Parallel", env={"KAFKA_SESSION_TIMEOUT_MS": "120000"})
    workload["spec"]["template"]["spec"]["containers"][0]["env"] += [pod_name, own_id]
    play.stage.apply(workload)
    play.await_joined(3)
    play.stage.kubectl("rollout", "status", f"statefulset/{play.name}", "-n", play.name, "--timeout=60s")
    settings, members = play.admin.group_settings(play.name), play.member_ids()

    until(lambda: play.condition("Ready").get("reason") == "Observing", deadline_s=30, what="the group is observed")
    read = play.stage.get("statefulset", play.name, play.name) or {}
    holds(lambda: play.member_ids() == members, for_s=3, what="members stay")
    assert play.stage.get("statefulset", play.name, play.name) == read

    play.scale(2)
    until(
        lambda: play.condition("RemovalSettled").get("reason") == "RemovalOff", deadline_s=60, what="a removal is due"
    )
    holds(lambda: play.member_ids() == members, for_s=6, what="the departed member stays")
    assert play.events(GroupEventKind.REMOVED) == []
    assert (
        denials(secure_brokers, "watcher", play.since_ms, "WRITE", "READ", "ALTER", "ALTER_CONFIGS", "DELETE", "CREATE")
        == []
    )
    assert play.admin.group_settings(play.name) == settings
    writers = set().union(*managers(play).values())
    assert writers
    assert not [w for w in writers if "staticgroup" in w or "python" in w.lower()], writers

    managed_at_ms = now_ms()
    play.stage.apply(play.static_group(mode="Manage", **OWN_WITH_SCOPE))
    until(
        lambda: denials(secure_brokers, "watcher", managed_at_ms, "READ"),
        deadline_s=60,
        what="a noted attempt to write",
    )
    play.admin.allow("watcher", "READ", "group", play.name)
    until(
        lambda: play.removed_ids() == [f"{play.name}-2.{scope}"],
        deadline_s=REMOVED_WITHIN_S,
        what="mode Manage removes what Observe kept",
    )
    record("observe", writes_to_kafka=0, writers_of_the_workload=sorted(writers),
           manage_to_removed_s=(play.removals()[0].at_ms - managed_at_ms) / 1000)  # fmt: skip
