"""`staticgroup confirm-gap`: what is open and which word closes it; it says exactly what was typed, as the caller."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from staticgroup import cli
from staticgroup.runtime.commands import confirm_gap as confirm_gap_command
from staticgroup.runtime.commands import gaps
from support.fake_apiserver import FakeApiServer

from ..operator_world import static_group
from .word import GAPS, GROUPS, api_server, refused, said

STATEMENT = "every machine that left was terminated, see the console"
NOON = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)
REST = 2**31 - 1


def at(minutes: float) -> str:
    return (NOON + timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")


def span(since: float, until: float, ordinals: str = f"2-{REST}", reason: str = "WatchGap") -> dict[str, Any]:
    return {"ordinals": ordinals, "since": at(since), "until": at(until), "reason": reason}


def entry(n: int, name: str) -> dict[str, Any]:
    """Return a living pod of a ledger; every other one is of namespace bill."""
    where = {"namespace": "bill"} if n % 2 else {}
    return where | {"podName": name, "uid": f"u{n}", "instanceIds": ["web-2"], "nodeName": "n1", "state": "Live", "since": at(0), "resourceVersion": ""}


def put(
    server: FakeApiServer, *spans: dict[str, Any], namespace: str = "shop", name: str = "orders", names: tuple[str, ...] = ()
) -> None:
    body = static_group(uid=f"{namespace}-{name}")
    known = {"watchEpoch": "e2", "at": at(60), "workloadName": "web", "blind": list(spans)}
    metadata = body["metadata"] | {"namespace": namespace, "name": name}
    status = {"continuity": known, "ledger": {"incarnations": [entry(n, each) for n, each in enumerate(names)]}}
    server.put(body | {"metadata": metadata, "status": status}, GROUPS)


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeApiServer]:
    async with api_server(monkeypatch) as made:
        put(made, span(0, 5))
        yield made


async def say(since: str = "", until: str = "", by: str = "", statement: str = STATEMENT) -> int:
    return await confirm_gap_command.confirm_gap(since or at(0), until or at(5), statement, by)


async def listed(capsys: pytest.CaptureFixture[str], namespace: str = "") -> list[str]:
    assert await confirm_gap_command.list_spans(namespace) == 0
    return capsys.readouterr().out.splitlines()


def command(since: float, until: float) -> str:
    return f"    staticgroup confirm-gap --since {at(since)} --until {at(until)} --statement 'why this is sure'"


async def test_spans_that_overlap_are_listed_under_one_command_and_others_under_their_own(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    put(server, span(3, 9, "0,4-7", "Restored"), span(20, 21, f"0-{REST}", "MemoryLost"), namespace="market", name="bids")
    lines = await listed(capsys)
    assert lines[:9] == [
        f"{at(0)} to {at(9)}",
        "  shop/orders: ordinals 2 and above (WatchGap)",
        "  market/bids: ordinals 0, 4-7 (Restored)",
        f"  {gaps.BEYOND_THE_TIMES}",
        command(0, 9),
        f"{at(20)} to {at(21)}",
        "  market/bids: ordinals 0 and above (MemoryLost)",
        f"  {gaps.BEYOND_THE_TIMES}",
        command(20, 21),
    ]
    assert "no machine that left the cluster or was cut off in that time still runs pods" in lines[-1]
    assert "every namespace" in lines[-1]


async def test_ledger_that_is_full_still_has_no_command_but_the_pods_that_fill_it(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    later = 60 * 24 + 60  # minutes after NOON, which was yesterday
    put(server, span(-9, later, f"0-{REST}", "LedgerFull"), names=("canary-0", "canary-1", "canary-2", "canary-3"))
    lines = await listed(capsys)
    assert not [line for line in lines if "--since" in line]
    assert lines[:2] == [f"since {at(-9)}, not over yet", "  shop/orders: ordinals 0 and above (LedgerFull)"]
    assert "it names 4, such as shop/canary-0, bill/canary-1, shop/canary-2 …. Give the ids a {scope}" in lines[2]


async def test_ledger_that_was_full_has_its_own_command_and_meaning(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    put(server, span(-9, 9, f"0-{REST}", "LedgerFull"), namespace="market")
    lines = await listed(capsys)
    assert lines[3:5] == [f"  {gaps.OF_A_FULL_LEDGER}", command(-9, 9)]
    assert command(0, 5) in lines


async def test_what_is_older_than_a_staticgroup_has_its_own_command_and_meaning(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """It began at any time, so it would be put together with every gap there is."""
    put(server, span(-9, 9, f"0-{REST}", "ScopeWritten"), namespace="market")
    lines = await listed(capsys)
    assert {f"  {gaps.OF_A_WRITTEN_SCOPE}", command(-9, 9)} <= set(lines)
    assert command(0, 5) in lines


async def test_list_of_a_namespace_is_of_that_alone(server: FakeApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    put(server, span(20, 21), namespace="market")
    assert command(0, 5) not in await listed(capsys, "market")
    assert await listed(capsys, "elsewhere") == [
        "no StaticGroup of namespace elsewhere has a time without sight in its status"
    ]


async def test_every_command_that_is_listed_closes_what_it_lists(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also for a time that began and ended in one second, and for times that only touch."""
    put(server, span(0, 5), span(5, 7), span(9, 9))
    typed = [line.split() for line in await listed(capsys) if line.startswith("    ")]
    assert len(typed) == 3
    for words in typed:
        assert await say(since=words[3], until=words[5]) == 0
    capsys.readouterr()
    lines = await listed(capsys)
    assert [line.rpartition(": ")[2] for line in lines[:3]] == [
        "confirmed by alice; the operator has not taken that in yet"
    ] * 3
    assert "waits for pods that live and may have taken another id in that time" in lines[3]


async def test_exactly_what_was_typed_is_created_in_the_callers_name_and_in_no_namespace(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    put(server, span(3, 9), namespace="market", name="bids")
    assert await say(since=at(-1), until=at(6)) == 0
    (word,) = said(server, GAPS)
    assert word["spec"] == {"since": at(-1), "until": at(6), "statement": STATEMENT, "by": "alice"}
    assert (word["kind"], word["metadata"]["namespace"]) == ("WatchGapConfirmation", "")
    told = capsys.readouterr().out
    for part in ("alice has said", STATEMENT, "  shop/orders: ordinals 2 and above", "GapConfirmed"):
        assert part in told
    assert f"not closed, because it does not lie wholly within: market/bids: ordinals 2 and above (WatchGap), {at(3)}" in told


async def test_a_time_of_another_zone_means_the_same_and_a_name_that_is_given_is_used(server: FakeApiServer) -> None:
    server.denied.add(("create", "selfsubjectreviews.authentication.k8s.io"))
    since = NOON.astimezone(timezone(timedelta(hours=5, minutes=30))).isoformat()
    assert since.endswith("+05:30")
    assert await say(since=since, by="bob") == 0
    assert said(server, GAPS)[0]["spec"] == {"since": at(0), "until": at(5), "statement": STATEMENT, "by": "bob"}


async def refusal(capsys: pytest.CaptureFixture[str], server: FakeApiServer, **changes: Any) -> str:
    return await refused(say(**changes), server, GAPS, capsys)


async def test_a_word_about_a_time_in_which_nothing_is_open_is_refused(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no StaticGroup has an open time without sight between" in await refusal(capsys, server, since=at(6), until=at(9))


async def test_a_word_that_takes_no_span_in_wholly_is_refused_with_the_least_that_does(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    put(server, span(3, 30), namespace="market")
    told = await refusal(capsys, server, since=at(1), until=at(4))
    assert f"the least that takes one in is --since {at(0)} --until {at(5)} (shop/orders: ordinals 2 and above" in told


async def test_nothing_can_be_said_of_the_future(server: FakeApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    told = await refusal(capsys, server, until=(datetime.now(UTC) + timedelta(minutes=5)).isoformat())
    assert "lies in the future" in told


@pytest.mark.parametrize("text", ["yesterday", "2026-11-21T10:00:00", "2026-11-21"])
async def test_what_is_no_time_with_a_zone_is_refused(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    assert f"--since '{text}' is no time with a zone" in await refusal(capsys, server, since=text)


@pytest.mark.parametrize("changes", [{"statement": "x" * 501}, {"statement": " "}, {"by": "b" * 257}, {"until": at(0)}])
async def test_what_the_api_server_would_refuse_is_refused_before(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str], changes: dict[str, str]
) -> None:
    assert "this cannot be said: spec" in await refusal(capsys, server, **changes)


@pytest.mark.parametrize(
    ("verb", "resource", "says"),
    [
        ("create", GAPS, f"you may not create {GAPS}; who may is decided"),
        ("list", GROUPS, f"you may not list {GROUPS} in all namespaces"),
    ],
)
async def test_a_missing_right_is_named(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str], verb: str, resource: str, says: str
) -> None:
    server.denied.add((verb, resource))
    assert says in await refusal(capsys, server)


async def test_who_may_not_read_earlier_words_may_say_one_all_the_same(server: FakeApiServer) -> None:
    server.denied.add(("list", GAPS))
    assert await say() == 0


async def test_a_word_that_was_given_before_is_not_given_twice(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await say() == 0
    assert await say() == 1
    assert "no StaticGroup has an open time" in capsys.readouterr().err
    server.denied.add(("list", GAPS))
    assert await say() == 1
    assert "it was said before; see who said it: kubectl get watchgapconfirmations gap-" in capsys.readouterr().err
    assert len(said(server, GAPS)) == 1


async def test_a_word_that_the_api_servers_clock_makes_too_early_is_told_so(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.created_at = lambda: at(4.9)
    assert await say() == 1
    assert "the word does not count for them" in capsys.readouterr().err


async def test_a_resource_of_another_schema_is_passed_over(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.put(static_group(uid="odd") | {"metadata": {"namespace": "shop", "name": "odd"}, "spec": {}}, GROUPS)
    server.put({"metadata": {"name": "odd"}, "spec": {}}, GAPS)
    assert command(0, 5) in await listed(capsys)


@pytest.mark.parametrize(
    "arguments",
    [
        ["confirm-gap"],
        ["confirm-gap", "--since", at(0), "--until", at(5)],
        ["confirm-gap", "--since", at(0), "--statement", "x"],
        ["confirm-gap", "--until", at(5), "--statement", "x"],
        ["-n", "shop", "confirm-gap", "--since", at(0), "--until", at(5), "--statement", "x"],
    ],
)
def test_an_incomplete_command_is_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == cli.EXIT_USAGE
    assert capsys.readouterr().err.startswith("staticgroup: ")


@pytest.mark.parametrize(
    ("arguments", "namespace"),
    [
        (["confirm-gap", "--list"], ""),
        (["-n", "shop", "confirm-gap", "--list"], "shop"),
        (["confirm-gap", "-n", "shop", "--list"], "shop"),
    ],
)
def test_the_list_is_of_all_namespaces_or_of_one(
    arguments: list[str], namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def list_spans(asked_for: str) -> int:
        asked.append(asked_for)
        return 0

    monkeypatch.setattr(confirm_gap_command, "list_spans", list_spans)
    assert cli.main(arguments) == 0
    assert asked == [namespace]
