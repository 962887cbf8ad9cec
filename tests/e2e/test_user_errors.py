"""What users get wrong: each mistake is named within a minute, harms no other group, and is over once it is corrected.

The one idea: a mistake is made, its reason awaited, the mistake corrected, and its end seen in the brokers' log or in
the condition, all with one operator process that is never restarted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.devcluster.kafka_broker import Brokers
from support.devcluster.kafka_log_lines import GroupEventKind
from support.scene.figures import record
from support.scene.play import Play
from support.scene.secure import LOGIN_SECRET, apply_secure_connection, denials, login
from support.scene.stage import Stage
from support.waiting import holds, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

NOTICED_S = 60.0
LONG_SESSION = {"sessionTimeout": {"seconds": 120}}
TWO = {"podManagementPolicy": "Parallel"}


@pytest.fixture
def never_restarted(installed: Stage) -> Iterator[None]:
    """The operator's processes are the same before and after."""
    before = installed.operator_restarts()
    yield
    assert installed.operator_restarts() == before


def conditions(play: Play, name: str) -> dict[str, dict[str, Any]]:
    """Return the conditions of a StaticGroup of the play's namespace by type."""
    found = play.stage.get("ksg", name, play.name) or {}
    return {c["type"]: c for c in found.get("status", {}).get("conditions", [])}


def await_reason(
    play: Play, kind: str, reason: str, *, name: str = "", deadline_s: float = NOTICED_S
) -> tuple[str, float]:
    """Wait for a reason; return the condition's message and the seconds it took."""
    began_s = time.monotonic()

    def said() -> dict[str, Any] | None:
        found = conditions(play, name or play.name).get(kind, {})
        return found if found.get("reason") == reason else None

    found = until(said, deadline_s=deadline_s, what=f"{kind} {reason} of {name or play.name}", poll_s=0.2)
    return found["message"], round(time.monotonic() - began_s, 1)


def await_true(play: Play, kind: str, *, name: str) -> None:
    """Wait until a condition is True once its cause was corrected; else say what all of them were."""
    try:
        until(
            lambda: conditions(play, name).get(kind, {}).get("status") == "True", deadline_s=90,
            what=f"{kind} of {name} is True once corrected",
        )  # fmt: skip
    except AssertionError as late:
        raise AssertionError(f"{late}\n{json.dumps(conditions(play, name))}\n{play.stage.operator_logs()}") from None


def await_removal(play: Play, count: int, deadline_s: float = NOTICED_S) -> float:
    """Wait until the operator has removed so many members in all; return the seconds it took."""
    began_s = time.monotonic()
    until(lambda: len(play.removals()) == count, deadline_s=deadline_s, what=f"{count} removals of {play.name}")
    return round(time.monotonic() - began_s, 1)


@pytest.mark.long
@pytest.mark.usefixtures("never_restarted")
def test_wrong_password_and_missing_acl_are_named_and_harm_no_other_group(
    new_play: Callable[..., Play], secure_brokers: Brokers
) -> None:
    play, other = new_play("secure", other_brokers=secure_brokers), new_play("other")
    for operation in ("DESCRIBE", "READ"):
        play.admin.allow("remover", operation, "group", play.name)
    apply_secure_connection(play, "remover")
    other.stage.apply(other.static_group(**LONG_SESSION))
    play.start(3, static=LONG_SESSION, **TWO)
    other.start(3, static=LONG_SESSION, **TWO)

    play.admin.withdraw("remover")
    play.admin.allow("remover", "DESCRIBE", "group", play.name)
    play.scale(2)
    other.scale(2)
    message, acl_s = await_reason(play, "Authorized", "ReadGroupDenied")
    assert "READ" in message
    assert play.name in message
    other_s = await_removal(other, 1)
    assert denials(secure_brokers, "remover", play.since_ms, "READ")
    assert play.removals() == []
    play.admin.allow("remover", "READ", "group", play.name)
    acl_recovery_s = await_removal(play, 1)
    await_reason(play, "Authorized", "RightsSufficient")

    wrong = "wrong-canary-8846"
    play.stage.apply(login(play, "remover", wrong))
    message, password_s = await_reason(play, "Connected", "AuthenticationFailed")
    play.scale(1)
    other.scale(1)
    other_s = max(other_s, await_removal(other, 2))
    assert len(play.removals()) == 1
    play.stage.apply(login(play, "remover"))
    password_recovery_s = await_removal(play, 2, deadline_s=110)
    await_reason(play, "Connected", "BrokersReachable")

    said = json.dumps(play.stage.items("ksg,kafkaconnection,events", play.name)) + play.stage.operator_logs()
    for password in (wrong, secure_brokers.state.settings.users["remover"]):
        assert password not in said, "a password was shown"
    assert play.events(GroupEventKind.SESSION_EXPIRED) + other.events(GroupEventKind.SESSION_EXPIRED) == []
    record("credentials", missing_acl_named_s=acl_s, missing_acl_recovery_s=acl_recovery_s,
           wrong_password_named_s=password_s,
           wrong_password_recovery_s=password_recovery_s, other_group_removed_s=other_s)  # fmt: skip


@pytest.mark.usefixtures("never_restarted")
def test_two_static_groups_on_one_workload_remove_nothing_until_one_is_gone(new_play: Callable[..., Play]) -> None:
    play = new_play()
    play.start(2, static=LONG_SESSION, **TWO)
    rival = play.static_group()
    rival["metadata"]["name"] = f"{play.name}-rival"
    play.stage.apply(rival)
    for name in (play.name, f"{play.name}-rival"):
        await_reason(play, "Ready", "ConflictingStaticGroups", name=name)
    members = play.member_ids()
    play.scale(1)
    until(lambda: len(play.pods()) == 1, deadline_s=60, what="pod 1 gone")
    holds(lambda: play.member_ids() == members, for_s=8, what="no member is removed while two claim the ids")
    assert play.removals() == []
    play.stage.kubectl("delete", "ksg", f"{play.name}-rival", "-n", play.name)
    recovery_s = await_removal(play, 1)
    await_reason(play, "Ready", "Reconciled")
    record("conflicting StaticGroups", removed_after_resolution_s=recovery_s)


def of_own(play: Play, name: str, *, connection: str = "kafka", **spec: Any) -> None:
    """Apply a StaticGroup of another name, workload and group."""
    one = play.static_group(workloadRef={"name": name}, groupId=name, connectionRef={"name": connection}, **spec)
    one["metadata"]["name"] = name
    play.stage.apply(one)


def named(play: Play, name: str, **spec: Any) -> dict[str, Any]:
    """Return a KafkaConnection of another name."""
    one = play.connection(**spec)
    one["metadata"]["name"] = name
    return one


def stateful_set(play: Play, name: str, replicas: int = 0) -> dict[str, Any]:
    one = play.stateful_set(replicas)
    one["metadata"]["name"] = name
    return one


@pytest.mark.usefixtures("never_restarted")
def test_mistakes_in_the_objects_are_named_and_are_over_when_corrected(
    new_play: Callable[..., Play], secure_brokers: Brokers
) -> None:
    play = new_play(other_brokers=secure_brokers)
    stage, host = play.stage, play.brokers.state.settings.bind
    nobody_listens = f"{host}:9"
    sasl = {"mechanism": "SCRAM-SHA-512", "credentialsSecretRef": {"name": LOGIN_SECRET}}
    tls = {"enabled": True, "caSecretRef": {"name": "kafka-ca"}}
    servers = play.brokers.sasl_bootstrap.split(",")
    stage.apply(
        named(play, "closed", bootstrapServers=[nobody_listens]),
        named(play, "no-secret", bootstrapServers=servers, tls=tls, sasl=sasl),
    )
    long_name = f"{'w' * 50}-x"
    began_s = time.monotonic()
    of_own(play, "no-workload")
    of_own(play, "no-connection", connection="absent")
    of_own(play, "closed-port", connection="closed")
    of_own(play, "no-secret", connection="no-secret")
    of_own(play, long_name, idTemplate="{podName}-" * 5 + "{scope}")
    stage.apply(stateful_set(play, long_name, replicas=1))

    expected = {
        "no-workload": ("WorkloadFound", "WorkloadNotFound", "no-workload"),
        "no-connection": ("Connected", "ConnectionNotFound", "absent"),
        "closed-port": ("Connected", "BrokersUnreachable", nobody_listens),
        "no-secret": ("Connected", "SecretNotFound", "kafka-"),
        long_name: ("Injected", "IdentityInvalid", "249"),
    }
    for name, (kind, reason, detail) in expected.items():
        message, _ = await_reason(play, kind, reason, name=name)
        assert detail in message
        assert conditions(play, name)["Ready"]["status"] == "False"
    named_s = round(time.monotonic() - began_s, 1)
    assert named_s <= NOTICED_S

    corrected_s = time.monotonic()
    stage.apply(stateful_set(play, "no-workload"), named(play, "absent"))
    stage.apply(named(play, "closed", bootstrapServers=play.brokers.bootstrap.split(",")))
    apply_secure_connection(play, "remover")
    of_own(play, long_name)
    await_reason(play, "Injected", "PodsWithoutId", name=long_name)  # its pod is older than the correction
    stage.kubectl("delete", "pod", f"{long_name}-0", "-n", play.name, "--wait=false")
    for name, (kind, *_) in expected.items():
        await_true(play, kind, name=name)
    record("mistakes in objects", mistakes=len(expected), all_named_s=named_s,
           all_corrected_s=round(time.monotonic() - corrected_s, 1))  # fmt: skip


@pytest.mark.long
@pytest.mark.usefixtures("never_restarted")
def test_session_beyond_the_brokers_bounds_is_named_with_the_setting_to_change(new_play: Callable[..., Play]) -> None:
    """Classic: below group.min.session.timeout.ms (6 s). KIP-848: a slow restart outlasts the group's 45 s."""
    classic, modern = new_play("classic"), new_play("modern", protocol="consumer")
    classic.stage.apply(classic.static_group(sessionTimeout={"seconds": 2}), classic.stateful_set(0))
    message, classic_s = await_reason(classic, "TimeoutSufficient", "BrokerBoundTooLow")
    assert "group.min.session.timeout.ms" in message
    modern.stage.apply(modern.static_group(), modern.stateful_set(0, grace_s=300))
    message, modern_s = await_reason(modern, "TimeoutSufficient", "BrokerBoundTooLow")
    assert "group.consumer.max.session.timeout.ms" in message
    injected = until(lambda: (classic.status() or {}).get("injected"), deadline_s=10, what="ids issued")
    assert injected["sessionTimeoutMs"] == 6000, "what is injected is within the bounds all the same"
    classic.stage.apply(classic.stateful_set(1))
    classic.await_joined(1)
    classic.stage.apply(classic.static_group(sessionTimeout={"seconds": 120}))
    # What holds is judged: the pod that runs was started with 6 s.
    await_reason(classic, "TimeoutSufficient", "TimeoutBelowNeed")
    until(
        lambda: "120000 ms" in classic.condition("TimeoutSufficient").get("message", ""),
        deadline_s=60,
        what="120 s to be asked",
    )
    until(
        lambda: (classic.status() or {})["sessionTimeout"].get("summary") == "6s→120s",
        deadline_s=60,
        what="both timeouts to be shown",
    )
    classic.stage.kubectl("delete", "pod", f"{classic.name}-0", "-n", classic.name, "--wait=false")
    await_reason(classic, "TimeoutSufficient", "TimeoutFits")
    until(lambda: (classic.status() or {})["sessionTimeout"].get("summary") == "120s", deadline_s=60, what="120 s in force")
    record("session beyond the brokers' bounds", classic_named_s=classic_s, consumer_named_s=modern_s)
