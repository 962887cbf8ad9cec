"""Settings are read from the environment once; an error names the variable and what it allows."""

from __future__ import annotations

import pytest

from staticgroup.runtime.process.settings import PREFIX, EnvironmentSettings, Settings, SettingsError
from staticgroup.runtime.webhook.process import WebhookSettings


def test_environment_without_ours_gives_the_defaults() -> None:
    assert Settings.from_environment({"PATH": "/bin", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}) == Settings()


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("STATICGROUP_FORCE_OBSERVE", "true", "force_observe", True),
        ("STATICGROUP_FORCE_OBSERVE", "False", "force_observe", False),
        ("STATICGROUP_LEADER_ELECTION", " false ", "leader_election", False),
        ("STATICGROUP_WATCH_NAMESPACES", "shop, billing,,", "watch_namespaces", ("shop", "billing")),
        ("STATICGROUP_WATCH_NAMESPACES", "", "watch_namespaces", ()),
        ("STATICGROUP_ALLOW_LOOPBACK", "true", "allow_loopback", True),
        ("STATICGROUP_SECRET_LABEL", "staticgroup.io/kafka=yes", "secret_label", "staticgroup.io/kafka=yes"),
        ("STATICGROUP_SECRET_LABEL", "kafka", "secret_label", "kafka"),
        ("STATICGROUP_SECRET_LABEL", "kafka=", "secret_label", "kafka="),
        ("STATICGROUP_CONCURRENCY", "8", "concurrency", 8),
        ("STATICGROUP_GROUP_POLL_S", "12.5", "group_poll_s", 12.5),
        ("STATICGROUP_LOG_FORMAT", "text", "log_format", "text"),
        ("STATICGROUP_JOURNAL_KAFKA_CONNECTION", "ops/kafka", "journal_kafka_connection", "ops/kafka"),
        ("STATICGROUP_JOURNAL_FILES_COUNT", "3", "journal_files_count", 3),
        ("STATICGROUP_RECOMMENDATIONS_SOURCE", "/fleet", "recommendations_source", "/fleet"),
        (
            "STATICGROUP_RECOMMENDATIONS_SOURCE", "https://bucket.example:8443/fleet", "recommendations_source",
            "https://bucket.example:8443/fleet",
        ),
        ("STATICGROUP_RECOMMENDATIONS_POLL_S", "60", "recommendations_poll_s", 60.0),
    ],
)  # fmt: skip
def test_each_type_is_parsed(variable: str, text: str, field: str, value: object) -> None:
    assert getattr(Settings.from_environment({variable: text}), field) == value


@pytest.mark.parametrize(
    ("variable", "text", "allowed"),
    [
        ("STATICGROUP_FORCE_OBSERVE", "maybe", "valid boolean"),
        ("STATICGROUP_CONCURRENCY", "many", "valid integer"),
        ("STATICGROUP_CONCURRENCY", "1.5", "valid integer"),
        ("STATICGROUP_CONCURRENCY", "0", "greater than or equal to 1"),
        ("STATICGROUP_ROUND_DEADLINE_S", "60", "greater than or equal to 75"),
        ("STATICGROUP_GROUP_POLL_S", "4", "greater than or equal to 5"),
        ("STATICGROUP_GROUP_POLL_S", "nan", "finite number"),
        ("STATICGROUP_RELIST_S", "59", "greater than or equal to 60"),
        ("STATICGROUP_BARRIER_PATIENCE_S", "-1", "greater than or equal to 0"),
        ("STATICGROUP_SECRET_MAX_AGE_S", "0", "greater than or equal to 1"),
        ("STATICGROUP_SECRET_LABEL", "kafka,other", "malformed. Meaning: Label"),
        ("STATICGROUP_SECRET_LABEL", "kafka=a=b", "malformed. Meaning: Label"),
        ("STATICGROUP_SECRET_LABEL", "a/b/c", "malformed. Meaning: Label"),
        ("STATICGROUP_SECRET_LABEL", "=yes", "malformed. Meaning: Label"),
        ("STATICGROUP_SECRET_LABEL", "-kafka", "malformed. Meaning: Label"),
        ("STATICGROUP_HEALTH_PORT", "70000", "less than or equal to 65535"),
        ("STATICGROUP_JOURNAL_KAFKA_CONNECTION", "kafka", "malformed. Meaning: `<namespace>/<name>`"),
        ("STATICGROUP_JOURNAL_KAFKA_CONNECTION", "a/b/c", "malformed. Meaning: `<namespace>/<name>`"),
        ("STATICGROUP_JOURNAL_KAFKA_TOPIC", "a b", "malformed. Meaning: Topic"),
        ("STATICGROUP_JOURNAL_KAFKA_TOPIC", "..", "malformed. Meaning: Topic"),
        ("STATICGROUP_JOURNAL_FILES_MAX_MIB", "0", "greater than or equal to 1"),
        ("STATICGROUP_JOURNAL_FILES_COUNT", "1", "greater than or equal to 2"),
        ("STATICGROUP_JOURNAL_QUEUE", "99", "greater than or equal to 100"),
        ("STATICGROUP_RECOMMENDATIONS_SOURCE", "fleet", "absolute path"),
        ("STATICGROUP_RECOMMENDATIONS_SOURCE", "s3://bucket/fleet", "http:// or https://"),
        ("STATICGROUP_RECOMMENDATIONS_SOURCE", "https://", "http:// or https://"),
        ("STATICGROUP_RECOMMENDATIONS_SOURCE", "https://me:s3cr3t@bucket.example/fleet", "without user"),
        ("STATICGROUP_RECOMMENDATIONS_SOURCE", "https://bucket.example/fleet?token=s3cr3t", "without user, query"),
        ("STATICGROUP_RECOMMENDATIONS_SOURCE", "http://[fleet", "http:// or https://"),
        ("STATICGROUP_RECOMMENDATIONS_SOURCE", "http://fleet:port", "http:// or https://"),
        ("STATICGROUP_RECOMMENDATIONS_POLL_S", "9", "greater than or equal to 10"),
        ("STATICGROUP_LOG_LEVEL", "verbose", "'DEBUG', 'INFO', 'WARNING' or 'ERROR'"),
        ("STATICGROUP_LOG_FORMAT", "xml", "'json' or 'text'"),
        ("STATICGROUP_LEASE_DURATION_S", "3", "STATICGROUP_LEASE_RENEW_DEADLINE_S"),
        ("STATICGROUP_LEASE_RETRY_S", "0", "> 0 must hold"),
    ],
)
def test_malformed_value_stops_the_process_naming_variable_and_range(variable: str, text: str, allowed: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_environment({variable: text})
    assert variable in str(caught.value)
    assert allowed in str(caught.value)


def test_unknown_setting_is_refused_because_a_typo_must_not_switch_observe_off() -> None:
    with pytest.raises(SettingsError, match=r"unknown setting STATICGROUP_FORCE_OBSERV .*; did you mean STATICGROUP_FORCE_OBSERVE\?"):
        Settings.from_environment({"STATICGROUP_FORCE_OBSERV": "true"})


def test_what_a_process_finds_out_is_no_setting() -> None:
    with pytest.raises(SettingsError, match="unknown setting STATICGROUP_GONE_NAMESPACES "):
        Settings.from_environment({"STATICGROUP_GONE_NAMESPACES": "team-a"})


def test_a_value_is_never_repeated() -> None:
    """It may be a password that stands in the wrong place."""
    with pytest.raises(SettingsError) as caught:
        Settings.from_environment({f"{PREFIX}{name.upper()}": "s3cr3t!" for name in Settings.model_fields})
    assert "s3cr3t" not in str(caught.value)
    assert str(caught.value).count("Meaning: ") > 20


@pytest.mark.parametrize("of", [Settings, WebhookSettings])
def test_every_field_is_documented(of: type[EnvironmentSettings]) -> None:
    assert [name for name, field in of.model_fields.items() if not field.description] == []
