"""The error table is complete, and says what to grant or to wait for."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from staticgroup.core.group import KafkaProblemKind, LeaveOutcome, ReleaseOutcome
from staticgroup.kafka.errors import (
    ACTED_MAYBE,
    BY_API,
    COMMON,
    LEAVE_OUTCOMES,
    RELEASE_OUTCOMES,
    STREAMS_LEAVE_OUTCOMES,
    Recovery,
    problem_of,
    verdict_of,
)
from staticgroup.kafka.wire import Api

DOCUMENTED = {
    Api.METADATA: (),
    Api.FIND_COORDINATOR: (-1, 15, 24, 30, 35, 42),
    Api.LIST_GROUPS: (-1, 14, 15, 35),
    Api.DESCRIBE_GROUPS: (-1, 14, 15, 16, 24, 30, 35, 69),
    Api.CONSUMER_GROUP_DESCRIBE: (-1, 14, 15, 16, 24, 29, 30, 35, 42, 69),
    Api.STREAMS_GROUP_DESCRIBE: (-1, 14, 15, 16, 24, 29, 30, 35, 42, 69),
    Api.JOIN_GROUP: (-1, 14, 15, 16, 23, 24, 26, 30, 35, 42, 81),
    Api.LEAVE_GROUP: (-1, 14, 15, 16, 24, 30, 35, 42),
    Api.CONSUMER_GROUP_HEARTBEAT: (-1, 14, 15, 16, 24, 30, 35, 42),
    Api.STREAMS_GROUP_HEARTBEAT: (-1, 14, 15, 16, 24, 30, 35, 42),
    Api.HEARTBEAT: (-1, 14, 15, 16, 24, 30, 35),
    Api.DESCRIBE_CONFIGS: (-1, 7, 30, 31, 35, 40, 42),
    Api.INCREMENTAL_ALTER_CONFIGS: (-1, 7, 30, 31, 35, 40, 42, 44),
}
"""Top-level or per-group codes by the message definitions and GroupCoordinatorService of Kafka 4.4."""


@pytest.mark.parametrize(("api", "code"), [(api, code) for api, codes in DOCUMENTED.items() for code in codes])
def test_every_documented_code_has_a_meaning_of_its_own(api: Api, code: int) -> None:
    assert code in COMMON or code in BY_API.get(api, {})
    problem = problem_of(api, code, group_id="orders")
    assert "unknown" not in problem.message
    assert "{" not in problem.message + problem.missing_acl


def test_table_holds_no_calls_or_codes_that_are_not_used() -> None:
    assert set(BY_API) <= set(DOCUMENTED)
    for api, verdicts in BY_API.items():
        assert set(verdicts) <= set(DOCUMENTED[api])


@pytest.mark.parametrize("api", list(DOCUMENTED))
def test_undocumented_code_is_an_unexpected_answer_and_never_retried(api: Api) -> None:
    verdict = verdict_of(api, 120)
    assert (verdict.kind, verdict.recovery) == (KafkaProblemKind.UNEXPECTED_ANSWER, Recovery.NONE)
    assert "120" in problem_of(api, 120).message


@pytest.mark.parametrize(
    ("code", "recovery"), [(14, Recovery.BACK_OFF), (15, Recovery.FIND_COORDINATOR), (16, Recovery.FIND_COORDINATOR)]
)
def test_coordinator_on_the_move_is_asked_again(code: int, recovery: Recovery) -> None:
    verdict = verdict_of(Api.DESCRIBE_GROUPS, code)
    assert (verdict.kind, verdict.recovery) == (KafkaProblemKind.COORDINATOR_UNAVAILABLE, recovery)


@pytest.mark.parametrize(
    ("api", "code", "acl"),
    [
        (Api.FIND_COORDINATOR, 30, "DESCRIBE on Group 'orders' for User:op"),
        (Api.DESCRIBE_GROUPS, 30, "DESCRIBE on Group 'orders' for User:op"),
        (Api.LEAVE_GROUP, 30, "READ on Group 'orders' for User:op"),
        (Api.JOIN_GROUP, 30, "READ on Group 'orders' for User:op"),
        (Api.HEARTBEAT, 30, "READ on Group 'orders' for User:op"),
        (Api.CONSUMER_GROUP_DESCRIBE, 29, "DESCRIBE on the Topics that group 'orders' subscribes to for User:op"),
        (Api.DESCRIBE_CONFIGS, 30, "DESCRIBE_CONFIGS on Group 'orders' for User:op"),
        (Api.INCREMENTAL_ALTER_CONFIGS, 30, "ALTER_CONFIGS on Group 'orders' for User:op"),
        (Api.DESCRIBE_CONFIGS, 31, "DESCRIBE_CONFIGS on Cluster 'kafka-cluster' for User:op"),
    ],
)
def test_missing_right_is_named_in_kafkas_words(api: Api, code: int, acl: str) -> None:
    problem = problem_of(api, code, group_id="orders", principal="User:op")
    assert (problem.kind, problem.missing_acl) == (KafkaProblemKind.NOT_AUTHORIZED, acl)
    assert problem.message.startswith("User:op lacks")
    unknown_principal = problem_of(api, code, group_id="orders")
    assert unknown_principal.missing_acl == acl.removesuffix(" for User:op")


@pytest.mark.parametrize("api", list(BY_API))
def test_remedy_for_a_missing_right_names_no_tool_that_a_vendor_may_not_have(api: Api) -> None:
    denied = [v for v in (*BY_API[api].values(), *COMMON.values()) if v.kind is KafkaProblemKind.NOT_AUTHORIZED]
    assert denied
    assert [v.text for v in denied if not v.text.endswith("; grant it with an ACL")] == []


def test_broker_that_takes_no_instance_id_in_a_streams_group_is_too_old_for_it() -> None:
    problem = problem_of(Api.STREAMS_GROUP_HEARTBEAT, 42, group_id="orders")
    assert problem.kind is KafkaProblemKind.BROKER_TOO_OLD
    assert "upgrade the brokers" in problem.message
    assert "Kafka 4.4" in problem.message
    assert "report" not in problem.message
    assert "please report this" in problem_of(Api.LEAVE_GROUP, 42, group_id="orders").message


def test_group_id_with_braces_is_shown_as_it_is() -> None:
    assert "'{group}{x}'" in problem_of(Api.LEAVE_GROUP, 30, group_id="{group}{x}").missing_acl


@pytest.mark.parametrize("api", [Api.LEAVE_GROUP, Api.CONSUMER_GROUP_HEARTBEAT, Api.STREAMS_GROUP_HEARTBEAT])
def test_leave_is_repeated_only_after_codes_by_which_the_broker_did_nothing(api: Api) -> None:
    """COORDINATOR_LOAD_IN_PROGRESS and NOT_COORDINATOR; after those of ACTED_MAYBE nothing is known, and nobody asks again."""
    repeated = {code for code in range(-1, 200) if verdict_of(api, code).recovery is not Recovery.NONE}
    assert repeated - ACTED_MAYBE == {14, 16}


@pytest.mark.parametrize("meanings", [LEAVE_OUTCOMES, STREAMS_LEAVE_OUTCOMES, RELEASE_OUTCOMES])
def test_only_zero_means_done(meanings: Mapping[int, LeaveOutcome | ReleaseOutcome]) -> None:
    done = (LeaveOutcome.REMOVED, ReleaseOutcome.RELEASED)
    assert [code for code, outcome in meanings.items() if outcome in done] == [0]
    assert {outcome.value for outcome in meanings.values()} & {"Retry"} == set()
