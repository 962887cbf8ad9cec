"""Logins at the test brokers: passwords, certificates, tokens and rights, seen with real consumers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.broker_groups import PASSWORDS, TOPIC, Group, ended_groups, make_group, settled, started
from support.devcluster.kafka_admin import BrokerAdmin
from support.devcluster.kafka_broker import Brokers
from support.devcluster.kafka_config import BrokerSettings

pytestmark = [pytest.mark.broker, pytest.mark.long, pytest.mark.timeout(240)]

HERE = hashlib.sha256(str(Path(__file__).resolve()).encode()).hexdigest()[:6]


@pytest.fixture(scope="module")
def secure() -> Iterator[Brokers]:
    name = f"pytest-{HERE}-sasl"
    yield from started(BrokerSettings(name=name, bind="127.0.0.2", profile="fast", security=True, users=PASSWORDS))


@pytest.fixture
def groups() -> Iterator[list[Group]]:
    yield from ended_groups()


def sasl(brokers: Brokers, mechanism: str, user: str, password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL", "ssl.ca.location": str(brokers.ca_path), "sasl.mechanism": mechanism,
        "sasl.username": user, "sasl.password": password,
    }  # fmt: skip


def allow_consuming(brokers: Brokers, user: str, group_id: str) -> None:
    admin = BrokerAdmin(brokers.bootstrap)
    admin.allow(user, "READ", "group", group_id)
    admin.allow(user, "READ", "topic", TOPIC)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"])
def test_a_good_password_is_let_in(secure: Brokers, mechanism: str) -> None:
    admin = BrokerAdmin(secure.sasl_bootstrap, sasl(secure, mechanism, "admin", PASSWORDS["admin"]))
    assert admin.topics() == [TOPIC]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"])
def test_a_bad_password_is_refused(secure: Brokers, groups: list[Group], mechanism: str) -> None:
    security = sasl(secure, mechanism, "app", "wrong")
    member = make_group(groups, secure.sasl_bootstrap, f"bad-{mechanism}", "classic", security).start()
    assert member.wait_for(lambda event: event.error == "_AUTHENTICATION").kind == "error"
    assert member.is_running
    assert "assigned" not in {event.kind for event in member.history()}


def test_a_broker_certificate_of_another_authority_is_refused(
    secure: Brokers, groups: list[Group], tmp_path: Path
) -> None:
    from support.devcluster import kafka_tls

    kafka_tls.make_authority(tmp_path / "tls", "someone else")
    security = sasl(secure, "PLAIN", "app", PASSWORDS["app"]) | {"ssl.ca.location": str(tmp_path / "tls" / "ca.pem")}
    member = make_group(groups, secure.sasl_bootstrap, "wrong-ca", "classic", security).start()
    assert member.wait_for(lambda event: event.error == "_SSL").kind == "error"


def test_a_user_without_rights_on_the_group_is_refused_until_they_are_given(
    secure: Brokers, groups: list[Group]
) -> None:
    security = sasl(secure, "SCRAM-SHA-512", "app", PASSWORDS["app"])
    refused = make_group(groups, secure.sasl_bootstrap, "acl", "classic", security).start("s-0")
    assert refused.wait_for(lambda event: event.error == "GROUP_AUTHORIZATION_FAILED").kind == "error"
    refused.kill()
    allow_consuming(secure, "app", "acl")
    make_group(groups, secure.sasl_bootstrap, "acl", "classic", security).join("s-0")
    assert settled(secure, "acl", members=1) == {"s-0": frozenset(range(6))}
    assert BrokerAdmin(secure.bootstrap).withdraw("app") == 2


def test_a_user_made_at_run_time_is_let_in_until_deleted(secure: Brokers, groups: list[Group]) -> None:
    admin = BrokerAdmin(secure.bootstrap)
    admin.put_user("late", "late-secret")
    allow_consuming(secure, "late", "late")
    security = sasl(secure, "SCRAM-SHA-512", "late", "late-secret")
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


def test_without_a_client_certificate_the_ssl_listener_refuses(secure: Brokers, groups: list[Group]) -> None:
    security = {"security.protocol": "SSL", "ssl.ca.location": str(secure.ca_path)}
    member = make_group(groups, secure.ssl_bootstrap, "no-certificate", "classic", security).start()
    assert member.wait_for(lambda event: event.kind == "error").error in ("_SSL", "_TRANSPORT", "_ALL_BROKERS_DOWN")


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
