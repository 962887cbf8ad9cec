"""`status` and `explain`: what they say of statuses, and what they refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest

from staticgroup.cli.api_server import GROUP_PATH, through_kubectl
from staticgroup.cli.explanation import explanation_of
from staticgroup.cli.status_table import age, lines_of, summary_of
from support.full_status import full_status

from .fake_kubectl import REFUSED, FakeKubectl, Json
from .statuses import GROUPS, NOW, READY, SUSPECT, UID, WAITING, call, condition, group


def test_a_group_that_is_ready_is_one_line() -> None:
    header, row = lines_of([READY], NOW)
    assert header.split() == ["NAMESPACE", "NAME", "GROUP", "MODE", "EXPECTED", "JOINED", "DEPARTED", "TIMEOUT", "READY", "REASON", "AGE"]
    assert row.split() == ["shop", "orders", "orders", "Manage", "3", "3", "0", "45s", "True", "Healthy", "45m"]


def test_below_the_table_stands_what_is_wrong_in_the_words_of_the_status() -> None:
    text = "\n".join(lines_of([WAITING], NOW))
    assert "shop/orders: RemovalHeld: 2 removals wait" in text
    assert "Held: web-4.3fa9 (JoinedBeforeWatch): a pod that nobody saw may hold it" in text
    assert "the spec was edited since" in text


def test_a_condition_that_ready_does_not_wait_for_is_shown_too() -> None:
    short = {"type": "TimeoutSufficient", "status": "False", "reason": "TimeoutBelowNeed", "message": "raise it to 383"}
    body = group(conditions=[condition("True"), short], members={"expected": 3}, observedGeneration=3)
    assert list(lines_of([body], NOW))[2:] == ["", "shop/orders: Healthy: all is well", "  TimeoutSufficient: False (TimeoutBelowNeed). raise it to 383"]
    assert summary_of(body)["notSo"] == [{"type": "TimeoutSufficient", "reason": "TimeoutBelowNeed", "message": "raise it to 383"}]


def test_a_group_that_nobody_looked_at_is_not_shown_as_well() -> None:
    summary = summary_of(group())
    assert (summary["ready"], summary["reason"]) == ("Unknown", "NoStatus")
    assert "kubectl staticgroup doctor" in "\n".join(lines_of([group()], NOW))


def test_every_list_of_a_full_status_is_shown() -> None:
    text = "\n".join(explanation_of(group(**full_status().to_wire()), NOW))
    for part in ("Ready: Unknown (NotObservedYet)", "Members, 2, ", "Suspects, 2 pods", "Last removal:", "Session timeout: 45s"):
        assert part in text, part
    assert ", injected by Policy." in text
    assert "Identity: web-0, not injected." in explanation_of(group(injected={"idTemplate": "web-0", "method": "None"}), NOW)
    assert "Verifying: " not in text  # what settled is not being verified


def seat(number: int, *carriers: str) -> Json:
    return {"id": f"web-{number}.3fa9", "member": "0123456789abcdef", "firstSeen": "2026-11-21T11:15:00Z", "carriers": list(carriers)}


@pytest.mark.parametrize(
    ("carriers", "left"),
    [
        ((), "nobody; every one of them has ended"),
        (("u-9",), "pod uid u-9"),
        ((UID,), f"suspect web-2 (uid {UID})"),
        (("u-9", "unseen"), "pod uid u-9, a pod that nobody saw, because it joined before the pod watch was complete"),
        (("unattributed",), "no pod that explains it"),
    ],
)
def test_each_member_is_shown_with_those_that_may_hold_it(carriers: tuple[str, ...], left: str) -> None:
    lines = list(explanation_of(group(memory={"seats": [seat(4, *carriers)], "suspects": [SUSPECT]}), NOW))
    assert f"  web-4.3fa9: first seen 45m ago; {left}" in lines


@pytest.mark.parametrize(
    ("more", "why"), [({}, "its object is gone"), ({"lostRun": True}, "a container of it was lost by its kubelet or runtime")]
)
def test_each_suspect_is_shown_with_what_makes_it_one(more: Json, why: str) -> None:
    assert f"  pod web-2 uid {UID} on node node-3: for 60m; {why}" in explanation_of(group(memory={"suspects": [SUSPECT | more]}), NOW)


def test_of_many_members_those_are_shown_first_that_would_be_held() -> None:
    seats = [seat(n, f"u-{n}") for n in range(60)] + [seat(60, "unseen"), seat(61, UID)]
    lines = list(explanation_of(group(memory={"seats": seats, "suspects": [SUSPECT]}), NOW))
    shown = [line.split(":")[0].strip() for line in lines if line.startswith("  web-")]
    assert shown == [f"web-{n}.3fa9" for n in (60, 61, *range(48))]
    assert "  ... and 12 more" in lines


@pytest.mark.parametrize(("since", "shown"), [
    ("2026-11-21T11:59:15Z", "45s"), ("2026-11-21T11:15:00Z", "45m"), ("2026-11-21T07:00:00Z", "5h"), ("2026-11-10T12:00:00Z", "11d"), ("None", "-"),
])  # fmt: skip
def test_an_age_has_one_unit(since: str, shown: str) -> None:
    assert age(since, NOW) == shown


def test_the_namespace_is_that_of_the_context_unless_it_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = FakeKubectl({GROUPS: {"items": [READY]}, f"{GROUP_PATH}/staticgroups": {"items": [READY, WAITING]}})
    assert call(monkeypatch, fake, "status", "-o", "json", "--context", "prod") == 0
    assert [item["ready"] for item in json.loads(capsys.readouterr().out)["items"]] == ["True"]
    assert all("--context=prod" in c for c in fake.commands)
    assert call(monkeypatch, fake, "status", "-A", "-o", "json") == 0
    assert [item["ready"] for item in json.loads(capsys.readouterr().out)["items"]] == ["True", "False"]
    assert call(monkeypatch, FakeKubectl({GROUPS.replace("shop", "bill"): {"items": []}}), "-n", "bill", "status") == 0
    assert "no StaticGroup in namespace bill" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (REFUSED.format("staticgroups"), "you may not list staticgroups.staticgroup.io in namespace shop"),
        ("The connection to the server localhost:8080 was refused", "The connection to the server localhost:8080 was refused"),
        ("error: You must be logged in to the server (Unauthorized)", "you may not list staticgroups.staticgroup.io"),
        ("Error from server (NotFound): the server could not find the requested resource", "serves no StaticGroups"),
    ],
)
def test_why_nothing_is_shown_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str, error: str
) -> None:
    assert call(monkeypatch, FakeKubectl({GROUPS: answer}), "status") == 1
    assert error in capsys.readouterr().err


def test_a_name_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answer = 'Error from server (NotFound): staticgroups.staticgroup.io "gone" not found'
    assert call(monkeypatch, FakeKubectl({f"{GROUPS}/gone": answer}), "explain", "gone") == 1
    assert "there is no StaticGroup shop/gone" in capsys.readouterr().err


def test_lists_are_read_to_their_end() -> None:
    pages = [{"items": [1], "metadata": {"continue": "a b"}}, {"items": [2], "metadata": {}}]
    asked: list[str] = []

    def run(words: Any, _: str) -> tuple[int, str, str]:
        asked.append(words[-1])
        return 0, json.dumps(pages[len(asked) - 1]), ""

    assert through_kubectl(run=run).items("/api/v1", "pods") == [1, 2]
    assert asked == ["/api/v1/pods?limit=500", "/api/v1/pods?limit=500&continue=a%20b"]
