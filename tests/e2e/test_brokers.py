"""The test brokers do what the other tests rely on, seen with real consumers and the coordinator's own log.

Which passwords and certificates they let in, and what they do with rights, is in the tests of the real gateway.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.broker_groups import PASSWORDS, TOPIC, Group, ended_groups, make_group, settled, started
from support.devcluster import kafka_broker, kafka_process
from support.devcluster.kafka_admin import BrokerAdmin
from support.devcluster.kafka_broker import Brokers
from support.devcluster.kafka_config import BrokerSettings
from support.devcluster.kafka_jars import ToolMissing, ensure_tools
from support.devcluster.kafka_log import GroupEventKind as K
from support.devcluster.kafka_log import now_ms

pytestmark = [pytest.mark.broker, pytest.mark.long, pytest.mark.timeout(240)]

HERE = hashlib.sha256(str(Path(__file__).resolve()).encode()).hexdigest()[:6]
"""Two checkouts that run these tests at once do not meet."""


@pytest.fixture(scope="module")
def plain() -> Iterator[Brokers]:
    yield from started(BrokerSettings(name=f"pytest-{HERE}-plain", profile="fast"))


@pytest.fixture(scope="module")
def secure() -> Iterator[Brokers]:
    """On another address than the default, so that the certificate is checked for it."""
    name = f"pytest-{HERE}-sasl"
    yield from started(BrokerSettings(name=name, bind="127.0.0.2", profile="fast", security=True, users=PASSWORDS))


@pytest.fixture
def own() -> Iterator[BrokerSettings]:
    """A cluster that the test starts itself; nothing may be left of it."""
    settings = BrokerSettings(name=f"pytest-{HERE}-own", profile="fast")
    kafka_broker.down(settings.name)
    yield settings
    kafka_broker.down(settings.name)
    assert kafka_broker.leftovers(settings.name) == []


@pytest.fixture
def groups() -> Iterator[list[Group]]:
    yield from ended_groups()


# --- processes ------------------------------------------------------------------------------------------------------


def test_starting_again_attaches_to_the_running_broker(plain: Brokers) -> None:
    pid = plain.pid(1)
    again = Brokers.up(plain.state.settings)
    assert (again.pid(1), again.bootstrap) == (pid, plain.bootstrap)
    assert Brokers.attach(plain.state.settings.name).pid(1) == pid


def test_a_cluster_is_not_silently_given_other_settings(plain: Brokers) -> None:
    with pytest.raises(ValueError, match="other settings"):
        Brokers.up(replace(plain.state.settings, profile="stock"))


def in_another_process(settings: BrokerSettings) -> subprocess.Popen[bytes]:
    """Bring a cluster up by a process that ends before its brokers do."""
    program = f"from support.devcluster.kafka_broker import *; Brokers.up({settings!r})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.DEVNULL)


def test_a_broker_outlives_the_process_that_started_it_and_down_leaves_nothing(own: BrokerSettings) -> None:
    with in_another_process(own) as starter:
        assert starter.wait(120) == 0
    brokers = Brokers.attach(own.name)
    assert brokers.is_running(1)
    BrokerAdmin(brokers.bootstrap).create_topic("t", partitions=2)
    assert BrokerAdmin(brokers.bootstrap).topics() == ["t"]
    assert brokers.coordinator("g") == 1
    assert kafka_broker.leftovers(own.name) != []
    brokers.down()
    assert kafka_broker.leftovers(own.name) == []


def test_a_killed_broker_is_started_again_with_its_records(own: BrokerSettings) -> None:
    brokers = Brokers.up(own)
    BrokerAdmin(brokers.bootstrap).create_topic("kept")
    pid = brokers.pid(1)
    stamp = kafka_process.read_stamp(brokers.state.node_dir(1) / "pid.json")
    assert pid is not None
    assert stamp is not None
    os.kill(pid, 9)
    assert kafka_process.wait_until_gone(stamp, timeout_s=10)
    repaired = Brokers.up(own)
    assert repaired.pid(1) not in (None, pid)
    assert BrokerAdmin(repaired.bootstrap).topics() == ["kept"]


def test_a_broker_whose_pid_file_was_never_written_is_found_and_replaced(own: BrokerSettings) -> None:
    brokers = Brokers.up(own)
    orphan = brokers.pid(1)
    (brokers.state.node_dir(1) / "pid.json").unlink()
    assert [f"process {orphan}", f"folder {brokers.state.folder}"] == kafka_broker.leftovers(own.name)
    repaired = Brokers.up(own)
    assert repaired.pid(1) not in (None, orphan)
    assert len(kafka_process.processes_naming(brokers.state.folder)) == 1


def test_an_unrelated_process_with_the_pid_of_a_dead_broker_is_not_killed(own: BrokerSettings) -> None:
    brokers = Brokers.up(own)
    brokers.kill(1)
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    unrelated = subprocess.Popen(["sleep", "600"])
    try:
        stamp = kafka_process.ProcessStamp(pid=unrelated.pid, start_ticks=1, boot_id=boot_id)
        kafka_process.write_stamp(brokers.state.node_dir(1) / "pid.json", stamp)
        assert not brokers.is_running(1)
        brokers.down()
        assert unrelated.poll() is None
    finally:
        unrelated.kill()
        unrelated.wait(10)


def test_stopping_keeps_the_records_for_the_next_start(own: BrokerSettings) -> None:
    brokers = Brokers.up(own)
    BrokerAdmin(brokers.bootstrap).create_topic("kept")
    brokers.stop()
    assert not brokers.is_running(1)
    brokers.restart(1)
    assert BrokerAdmin(brokers.bootstrap).topics() == ["kept"]


def test_a_broker_listens_on_the_bind_address_only(secure: Brokers) -> None:
    for listener, port in secure.state.ports[1].items():
        assert secure.address(1, listener) == ("127.0.0.2", port)
        socket.create_connection(("127.0.0.2", port), timeout=5).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)


@pytest.mark.parametrize("patience_s", [0.3, 0.8, 1.3, 1.8, 2.3, 3.0])
def test_a_start_that_was_killed_half_way_is_repaired_by_the_next(own: BrokerSettings, patience_s: float) -> None:
    """Whatever the kill hits: choosing ports, formatting, the broker without a pid file, the wait for it."""
    with in_another_process(own) as starter:
        with contextlib.suppress(subprocess.TimeoutExpired):
            starter.wait(patience_s)
        starter.kill()
    brokers = Brokers.up(own)
    BrokerAdmin(brokers.bootstrap).create_topic("works")
    assert [stamp.pid for stamp in kafka_process.processes_naming(brokers.state.folder)] == [brokers.pid(1)]


def test_a_missing_program_is_named_in_one_line() -> None:
    with pytest.raises(ToolMissing) as caught:
        ensure_tools(print, {"no-such-java": "openjdk-17-jre-headless"}, is_root=False)
    assert str(caught.value) == "missing on PATH: no-such-java (Debian: apt-get install openjdk-17-jre-headless)"


# --- groups ---------------------------------------------------------------------------------------------------------


def test_a_rolling_restart_of_classic_static_members_makes_no_rebalance(plain: Brokers, groups: list[Group]) -> None:
    """KIP-345; and the counter does count when members are dynamic (next test)."""
    group = make_group(groups, plain.bootstrap, "classic-static", "classic")
    members = {name: group.join(name) for name in ("s-0", "s-1", "s-2")}
    before = settled(plain, group.group_id, members=3)
    began_ms = now_ms()
    for name, member in members.items():
        member.terminate()
        group.join(name)
    log = plain.group_log
    assert log.count_rebalances(group.group_id, began_ms) == 0
    replaced = log.events(group.group_id, since_ms=began_ms, kind=K.STATIC_MEMBER_REPLACED)
    spared = log.events(group.group_id, since_ms=began_ms, kind=K.REBALANCE_SPARED)
    assert [e.instance_id for e in replaced] == [e.instance_id for e in spared] == ["s-0", "s-1", "s-2"]
    assert settled(plain, group.group_id, members=3) == before


def test_the_restart_of_a_classic_dynamic_member_is_counted_as_rebalances(plain: Brokers, groups: list[Group]) -> None:
    group = make_group(groups, plain.bootstrap, "classic-dynamic", "classic")
    leaver = group.join()
    group.join()
    settled(plain, group.group_id, members=2)
    began_ms = now_ms()
    leaver.terminate()
    settled(plain, group.group_id, members=1)
    group.join()
    settled(plain, group.group_id, members=2)
    assert plain.group_log.count_rebalances(group.group_id, began_ms) == 2  # one for the leave, one for the join
    removed = plain.group_log.wait_for_kind(K.REMOVED, group.group_id, since_ms=began_ms)
    assert removed.member_id is not None


def test_a_killed_static_member_that_stays_away_is_logged_as_expired(plain: Brokers, groups: list[Group]) -> None:
    group = make_group(groups, plain.bootstrap, "classic-expiry", "classic")
    group.join("s-0")
    victim = group.join("s-1")
    settled(plain, group.group_id, members=2)
    began_ms = now_ms()
    victim.kill()
    expired = plain.group_log.wait_for_kind(K.SESSION_EXPIRED, group.group_id, since_ms=began_ms)
    assert expired.instance_id == "s-1"
    assert 5000 <= expired.at_ms - began_ms <= 9000  # the session of 6 s counts from the last heartbeat
    settled(plain, group.group_id, members=1)
    assert plain.group_log.count_rebalances(group.group_id, began_ms) == 1


def test_a_rolling_restart_of_static_consumer_members_bumps_no_epoch(plain: Brokers, groups: list[Group]) -> None:
    """KIP-848: closing sends epoch -2 and keeps the seat."""
    group = make_group(groups, plain.bootstrap, "consumer-static", "consumer")
    members = {name: group.join(name) for name in ("s-0", "s-1")}
    before = settled(plain, group.group_id, members=2)
    began_ms = now_ms()
    for name, member in members.items():
        member.terminate()
        group.join(name)
    log = plain.group_log
    assert settled(plain, group.group_id, members=2) == before
    assert log.count_epoch_bumps(group.group_id, began_ms) == 0
    left = log.events(group.group_id, since_ms=began_ms, kind=K.TEMPORARILY_LEFT)
    replaced = log.events(group.group_id, since_ms=began_ms, kind=K.STATIC_MEMBER_REPLACED)
    assert [e.instance_id for e in left] == [e.instance_id for e in replaced] == ["s-0", "s-1"]


def test_the_restart_of_a_dynamic_consumer_member_bumps_the_epoch_twice(plain: Brokers, groups: list[Group]) -> None:
    group = make_group(groups, plain.bootstrap, "consumer-dynamic", "consumer")
    leaver = group.join()
    group.join()
    settled(plain, group.group_id, members=2)
    began_ms = now_ms()
    leaver.terminate()
    settled(plain, group.group_id, members=1)
    group.start()
    settled(plain, group.group_id, members=2)
    assert plain.group_log.count_epoch_bumps(group.group_id, began_ms) == 2
    assert plain.group_log.wait_for_kind(K.LEFT, group.group_id, since_ms=began_ms).member_id is not None


def test_a_duplicate_instance_id_is_logged_as_fenced(plain: Brokers, groups: list[Group]) -> None:
    group = make_group(groups, plain.bootstrap, "classic-duplicate", "classic")
    first = group.join("s-0")
    group.join("s-0")
    fenced = plain.group_log.wait_for_kind(K.FENCED, group.group_id)
    assert (fenced.instance_id, fenced.reason) == ("s-0", "heartbeat")
    error = first.wait_for_kind("error")
    assert (error.error, "fenced" in error.text) == ("_FATAL", True)


# --- logins -------------------------------------------------------------------------------------------------------


def sasl(brokers: Brokers, user: str, password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL", "ssl.ca.location": str(brokers.ca_path), "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user, "sasl.password": password,
    }  # fmt: skip


def allow_consuming(brokers: Brokers, user: str, group_id: str) -> None:
    admin = BrokerAdmin(brokers.bootstrap)
    admin.allow(user, "READ", "group", group_id)
    admin.allow(user, "READ", "topic", TOPIC)


def test_a_user_made_at_run_time_is_let_in_until_deleted(secure: Brokers, groups: list[Group]) -> None:
    admin = BrokerAdmin(secure.bootstrap)
    admin.put_user("late", "late-secret")
    allow_consuming(secure, "late", "late")
    security = sasl(secure, "late", "late-secret")
    make_group(groups, secure.sasl_bootstrap, "late", "classic", security).join()
    admin.delete_user("late")
    member = make_group(groups, secure.sasl_bootstrap, "late", "classic", security).start()
    assert member.wait_for(lambda event: event.error == "_AUTHENTICATION").kind == "error"


def test_a_client_certificate_gives_its_common_name_as_principal(secure: Brokers, groups: list[Group]) -> None:
    files = secure.client_certificate("robot")
    security = {
        "security.protocol": "SSL", "ssl.ca.location": str(files.ca),
        "ssl.certificate.location": str(files.certificate), "ssl.key.location": str(files.key),
    }  # fmt: skip
    refused = make_group(groups, secure.ssl_bootstrap, "mutual", "classic", security).start()
    assert refused.wait_for(lambda event: event.error == "GROUP_AUTHORIZATION_FAILED").kind == "error"
    refused.kill()
    allow_consuming(secure, "robot", "mutual")
    make_group(groups, secure.ssl_bootstrap, "mutual", "classic", security).join()


def test_an_unsecured_token_names_its_principal(secure: Brokers, groups: list[Group]) -> None:
    """OAUTHBEARER with unsecured JWS, for tests only (KIP-255)."""
    security = {
        "security.protocol": "SASL_SSL", "ssl.ca.location": str(secure.ca_path), "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=token-user",
    }  # fmt: skip
    refused = make_group(groups, secure.sasl_bootstrap, "token", "classic", security).start()
    assert refused.wait_for(lambda event: event.error == "GROUP_AUTHORIZATION_FAILED").kind == "error"
    refused.kill()
    allow_consuming(secure, "token-user", "token")
    make_group(groups, secure.sasl_bootstrap, "token", "classic", security).join()


def test_secrets_lie_in_files_that_only_their_owner_can_read_and_not_in_the_log(secure: Brokers) -> None:
    folder = secure.state.folder
    assert folder.stat().st_mode & 0o077 == 0
    log = secure.state.log_path(1).read_text()
    assert "SASL_SSL" in log  # the configuration is in there
    assert [password for password in PASSWORDS.values() if password in log] == []


# --- older brokers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["4.1", "4.0", "3.9"])
def test_an_older_broker_starts_and_its_log_is_understood(
    own: BrokerSettings, groups: list[Group], version: str
) -> None:
    brokers = Brokers.up(replace(own, version=version))
    BrokerAdmin(brokers.bootstrap).create_topic(TOPIC, partitions=6)
    group = make_group(groups, brokers.bootstrap, "old", "classic")
    member = group.join("s-0")
    settled(brokers, "old", members=1)
    began_ms = now_ms()
    member.terminate()
    group.join("s-0")
    assert brokers.group_log.count_rebalances("old", began_ms) == 0
    assert len(brokers.group_log.events("old", since_ms=began_ms, kind=K.STATIC_MEMBER_REPLACED)) == 1
    group.join("s-1")
    settled(brokers, "old", members=2)
    assert brokers.group_log.count_rebalances("old", began_ms) == 1
