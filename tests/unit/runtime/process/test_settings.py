"""Settings are read from the environment once; an error names the variable and what it allows."""

from __future__ import annotations

from dataclasses import fields

import pytest

from staticgroup.runtime.process.settings import Settings, SettingsError, from_environment


def test_empty_environment_gives_the_defaults() -> None:
    assert from_environment({}) == Settings()


def test_other_programs_variables_are_ignored() -> None:
    assert from_environment({"PATH": "/bin", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}) == Settings()


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
            "STATICGROUP_RECOMMENDATIONS_SOURCE",
            "https://bucket.example:8443/fleet",
            "recommendations_source",
            "https://bucket.example:8443/fleet",
        ),
        ("STATICGROUP_RECOMMENDATIONS_POLL_S", "60", "recommendations_poll_s", 60.0),
    ],
)
def test_each_type_is_parsed(variable: str, text: str, field: str, value: object) -> None:
    assert getattr(from_environment({variable: text}), field) == value


@pytest.mark.parametrize(
    ("variable", "text", "allowed"),
    [
        ("STATICGROUP_FORCE_OBSERVE", "yes", "true or false"),
        ("STATICGROUP_CONCURRENCY", "many", "number"),
        ("STATICGROUP_CONCURRENCY", "1.5", "number"),
        ("STATICGROUP_CONCURRENCY", "0", "between 1 and 256"),
        ("STATICGROUP_ROUND_DEADLINE_S", "60", "between 75 and 600"),
        ("STATICGROUP_GROUP_POLL_S", "4", "between 5 and 600"),
        ("STATICGROUP_GROUP_POLL_S", "nan", "between 5 and 600"),
        ("STATICGROUP_RELIST_S", "59", "between 60 and 86400"),
        ("STATICGROUP_BARRIER_PATIENCE_S", "-1", "between 0 and 5"),
        ("STATICGROUP_SECRET_MAX_AGE_S", "0", "between 1 and 600"),
        ("STATICGROUP_SECRET_LABEL", "kafka,other", "<key> or <key>=<value>"),
        ("STATICGROUP_SECRET_LABEL", "kafka=a=b", "<key> or <key>=<value>"),
        ("STATICGROUP_SECRET_LABEL", "a/b/c", "<key> or <key>=<value>"),
        ("STATICGROUP_SECRET_LABEL", "=yes", "<key> or <key>=<value>"),
        ("STATICGROUP_SECRET_LABEL", "-kafka", "<key> or <key>=<value>"),
        ("STATICGROUP_HEALTH_PORT", "70000", "between 1 and 65535"),
        ("STATICGROUP_JOURNAL_KAFKA_CONNECTION", "kafka", "<namespace>/<name>"),
        ("STATICGROUP_JOURNAL_KAFKA_CONNECTION", "a/b/c", "<namespace>/<name>"),
        ("STATICGROUP_JOURNAL_KAFKA_TOPIC", "a b", "1 to 249"),
        ("STATICGROUP_JOURNAL_KAFKA_TOPIC", "..", "1 to 249"),
        ("STATICGROUP_JOURNAL_FILES_MAX_MIB", "0", "between 1 and 1024"),
        ("STATICGROUP_JOURNAL_FILES_COUNT", "1", "between 2 and 1000"),
        ("STATICGROUP_JOURNAL_QUEUE", "99", "between 100 and 1000000"),
        ("STATICGROUP_RECOMMENDATIONS_SOURCE", "fleet", "absolute path"),
        ("STATICGROUP_RECOMMENDATIONS_SOURCE", "s3://bucket/fleet", "http:// or https://"),
        ("STATICGROUP_RECOMMENDATIONS_SOURCE", "https://", "http:// or https://"),
        ("STATICGROUP_RECOMMENDATIONS_SOURCE", "https://me:s3cr3t@bucket.example/fleet", "without user"),
        ("STATICGROUP_RECOMMENDATIONS_SOURCE", "https://bucket.example/fleet?token=s3cr3t", "without user, query"),
        ("STATICGROUP_RECOMMENDATIONS_SOURCE", "http://[fleet", "http:// or https://"),
        ("STATICGROUP_RECOMMENDATIONS_SOURCE", "http://fleet:port", "http:// or https://"),
        ("STATICGROUP_RECOMMENDATIONS_POLL_S", "9", "between 10 and 86400"),
        ("STATICGROUP_LOG_LEVEL", "verbose", "DEBUG, INFO, WARNING or ERROR"),
        ("STATICGROUP_LOG_FORMAT", "xml", "json or text"),
        ("STATICGROUP_LEASE_DURATION_S", "3", "STATICGROUP_LEASE_RENEW_DEADLINE_S"),
        ("STATICGROUP_LEASE_RETRY_S", "0", "> 0 must hold"),
    ],
)
def test_malformed_value_stops_the_process_naming_variable_and_range(variable: str, text: str, allowed: str) -> None:
    with pytest.raises(SettingsError) as caught:
        from_environment({variable: text})
    assert variable in str(caught.value)
    assert allowed in str(caught.value)


def test_unknown_setting_is_refused_because_a_typo_must_not_switch_observe_off() -> None:
    with pytest.raises(SettingsError, match="unknown setting STATICGROUP_FORCE_OBSERV;") as caught:
        from_environment({"STATICGROUP_FORCE_OBSERV": "true"})
    assert "STATICGROUP_FORCE_OBSERVE" in str(caught.value)


def test_what_a_process_finds_out_is_no_setting() -> None:
    with pytest.raises(SettingsError, match="unknown setting STATICGROUP_GONE_NAMESPACES;"):
        from_environment({"STATICGROUP_GONE_NAMESPACES": "team-a"})


def test_every_field_is_documented() -> None:
    documented = Settings.__doc__ or ""
    for field in fields(Settings):
        assert field.name in documented, field.name
