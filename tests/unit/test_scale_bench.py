"""The benchmark of the operator at scale: what it reads of the API server, and when it says that a budget is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

from bench.scale import __main__ as command
from bench.scale import report
from bench.scale.api import Seen
from bench.scale.budgets import Verdict, budgets, is_kept, percentile
from bench.scale.exposition import requests_of, without_leases, writes_between
from bench.scale.members import assignment, subscription

# As a kube-apiserver 1.36.3 writes it: comment lines, and a metric whose name begins alike.
EXPOSITION = """\
# HELP apiserver_request_total [STABLE] Counter of apiserver requests broken out for each verb, dry run value, group, version
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="namespace",subresource="",verb="LIST",version="v1"} 7
apiserver_request_total{code="200",component="apiserver",dry_run="",group="coordination.k8s.io",resource="leases",scope="resource",subresource="",verb="PUT",version="v1"} 12
apiserver_request_total{code="200",component="apiserver",dry_run="",group="staticgroup.io",resource="staticgroups",scope="resource",subresource="status",verb="APPLY",version="v1alpha1"} 3
apiserver_request_total{code="409",component="apiserver",dry_run="",group="staticgroup.io",resource="staticgroups",scope="resource",subresource="status",verb="APPLY",version="v1alpha1"} 2
# TYPE apiserver_request_duration_seconds histogram
apiserver_request_duration_seconds_count{verb="PUT"} 99
"""
KEPT: dict[str, float | None] = {
    "rss_max_mib": 200, "cold_start_s": 15, "edits_20_p99_s": 1, "edits_50_p99_s": 1, "scale_down_p99_s": 30,
    "scale_down_lost": 0,
    "idle_api_writes": 0, "idle_kafka_calls_per_s": 1000 / 30, "roll_leaves": 0,
}  # fmt: skip


def result(groups: int = 1_000, **changes: float | None) -> dict[str, Any]:
    return {
        "subject": "staticgroup", "groups": groups, "pods_per_group": 10, "load_average": [0.1, 0.2],
        "figures": KEPT | changes, "details": {},
    }  # fmt: skip


def test_requests_are_counted_by_verb_and_resource_over_all_codes() -> None:
    assert requests_of(EXPOSITION) == {("LIST", "pods"): 7, ("PUT", "leases"): 12, ("APPLY", "staticgroups/status"): 5}


def test_a_text_without_requests_is_no_api_server() -> None:
    with pytest.raises(ValueError, match="apiserver_request_total"):
        requests_of("# TYPE up gauge\nup 1\n")


def test_what_grew_and_changes_something_is_a_write() -> None:
    after = (
        EXPOSITION.replace('verb="LIST",version="v1"} 7', 'verb="LIST",version="v1"} 70')
        .replace("} 3", "} 4")
        .replace("} 12", "} 15")
    )
    writes = writes_between(requests_of(EXPOSITION), requests_of(after))
    assert writes == {"APPLY staticgroups/status": 1, "PUT leases": 3}
    assert without_leases(writes) == 1


def test_budgets_are_larger_beyond_a_thousand_groups() -> None:
    bounds = {groups: {b.figure: b.most for b in budgets(groups)} for groups in (1_000, 1_001)}
    assert [bounds[1_000][name] for name in ("rss_max_mib", "cold_start_s")] == [200, 15]
    assert [bounds[1_001][name] for name in ("rss_max_mib", "cold_start_s")] == [512, 60]


def test_a_budget_is_kept_up_to_its_bound() -> None:
    assert is_kept(1_000, KEPT)


@pytest.mark.parametrize("figure", KEPT)
def test_one_figure_that_is_over_or_not_measured_breaks_it(figure: str) -> None:
    assert not is_kept(1_000, KEPT | {figure: (KEPT[figure] or 0) + 0.001})
    assert not is_kept(1_000, KEPT | {figure: None})
    assert [v for *_, v in report.verdicts(result(**{figure: None}))].count(Verdict.NOT_MEASURED) == 1


def test_percentiles_are_nearest_ranks() -> None:
    assert percentile([], 0.99) is None
    assert percentile([3, 1, 2], 0.5) == 2
    assert percentile(range(1, 101), 0.99) == 99
    assert percentile(range(1, 102), 0.99) == 100


def test_the_page_marks_what_is_not_kept_and_says_what_was_ended() -> None:
    ended = result(scale_down_p99_s=30.5, roll_leaves=None) | {
        "subject": "plain",
        "details": {"ended": "scale-downs took more than 600 s"},
    }
    page = report.page([result(), ended])
    assert "| scale-downs at once: ended until removed, p99 | 30 s | 30 s | **30.5 s** |" in page
    assert "| LeaveGroup requests during a rolling restart | 0 | 0 | **-** |" in page
    assert "plain: scale-downs took more than 600 s, so it was ended there." in page


def test_members_use_the_consumer_protocol() -> None:
    assert ConsumerProtocolMemberMetadata.decode(subscription()).subscription == ["orders"]
    assert ConsumerProtocolMemberAssignment.decode(assignment([3, 4])).assignment == [("orders", [3, 4])]


def test_a_status_without_members_says_nothing_of_them() -> None:
    seen = Seen()
    seen.take({"metadata": {"generation": 2}})
    assert (seen.observed_generation, seen.joined, seen.departed) == (0, -1, -1)
    seen.take(
        {"metadata": {"generation": 2}, "status": {"observedGeneration": 2, "members": {"expected": 3, "joined": 3}}}
    )
    assert (seen.observed_generation, seen.expected, seen.joined, seen.departed) == (2, 3, 3, 0)


def test_logs_of_an_earlier_run_are_neither_mixed_with_others_nor_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "staticgroup-1000").mkdir()
    monkeypatch.setattr("sys.argv", ["bench.scale", "--groups", "100", "1000", "--keep", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert f"{tmp_path}/staticgroup-1000 has the logs of an earlier run" in capsys.readouterr().err
