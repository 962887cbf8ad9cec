"""`staticgroup confirm`: it says exactly what was typed, as the caller, and only where the word will count."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from staticgroup import cli
from staticgroup.runtime.commands import confirm as confirm_command
from support.fake_apiserver import FakeApiServer
from unit.kube.raw_objects import pod

from ..operator_world import static_group
from .word import GROUPS, SUSPECTS, api_server, refused, said

UID, STATEMENT = "5a7e0000-0000-0000-0000-000000000002", "node-3 was wiped and scrapped"
SINCE = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)


def entry(**changes: Any) -> dict[str, Any]:
    values = {
        "podName": "web-2", "uid": UID, "instanceIds": ["web-2.3fa9c1d2"], "nodeName": "node-3", "state": "Suspect",
        "since": SINCE.isoformat(), "evidence": "its object vanished uncertified",
    }  # fmt: skip
    return values | changes


def ledger(*entries: dict[str, Any]) -> dict[str, Any]:
    return static_group() | {"status": {"ledger": {"incarnations": list(entries)}}}


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeApiServer]:
    async with api_server(monkeypatch) as made:
        made.put(ledger(entry(), entry(podName="web-1", uid="dead", state="Dead", certificate="E1")), GROUPS)
        yield made


async def say(uid: str = UID, pod_name: str = "web-2", by: str = "", statement: str = STATEMENT) -> int:
    return await confirm_command.confirm("shop", pod_name, uid, statement, by)


async def test_exactly_what_was_typed_is_created_in_the_callers_name(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await say() == 0
    (word,) = said(server, SUSPECTS)
    assert word["spec"] == {"podName": "web-2", "podUid": UID, "statement": STATEMENT, "by": "alice"}
    assert (word["kind"], word["metadata"]["namespace"], word["metadata"]["name"]) == ("PodEndConfirmation", "shop", UID)
    told = capsys.readouterr().out
    for part in ("alice has said", f"pod web-2 uid {UID} on node node-3", STATEMENT, "SuspectConfirmed", "orders"):
        assert part in told


async def refusal(capsys: pytest.CaptureFixture[str], server: FakeApiServer, **changes: Any) -> str:
    return await refused(say(**changes), server, SUSPECTS, capsys)


async def test_a_pod_that_exists_is_not_confirmed(server: FakeApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.put(pod("web-2", uid=UID))
    assert f"with uid {UID} still exists" in await refusal(capsys, server)


async def test_a_successor_of_the_lost_pod_is_no_obstacle(server: FakeApiServer) -> None:
    server.put(pod("web-2", uid="successor"))
    assert await say() == 0


async def test_suspect_of_another_namespace_is_not_confirmed_here_where_the_word_would_not_count(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.put(ledger(entry(), entry(podName="canary-0", namespace="bill", uid="stray")), GROUPS)
    assert "canary-0 uid" not in await refusal(capsys, server, uid="stray", pod_name="canary-0")


@pytest.mark.parametrize("changes", [{"uid": "other"}, {"pod_name": "web-9"}, {"uid": "dead", "pod_name": "web-1"}])
async def test_what_is_no_suspect_is_refused_and_the_suspects_are_named(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str], changes: dict[str, str]
) -> None:
    told = await refusal(capsys, server, **changes)
    assert "as a suspect in its ledger" in told
    assert f"pod web-2 uid {UID} on node node-3, a suspect since {SINCE.isoformat().replace('+00:00', 'Z')}" in told


@pytest.mark.parametrize("closed", [{"confirmedBy": "alice"}, {"nodeCertificate": "E3"}], ids=str)
async def test_a_suspect_that_somebody_or_its_node_has_closed_is_none_any_more(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str], closed: dict[str, str]
) -> None:
    server.put(ledger(entry(**closed)), GROUPS)
    assert "There are: none" in await refusal(capsys, server)


@pytest.mark.parametrize(
    ("verb", "resource", "says"),
    [
        ("create", SUSPECTS, f"you may not create {SUSPECTS} in namespace shop; who may is decided"),
        ("list", GROUPS, f"you may not list {GROUPS} in namespace shop"),
        ("list", "pods", "you may not list pods in namespace shop"),
    ],
)
async def test_a_missing_right_is_named(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str], verb: str, resource: str, says: str
) -> None:
    server.denied.add((verb, resource))
    assert says in await refusal(capsys, server)


@pytest.mark.parametrize("changes", [{"statement": "x" * 501}, {"statement": " "}, {"uid": "a b"}, {"by": "b" * 257}])
async def test_what_the_api_server_would_refuse_is_refused_before(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str], changes: dict[str, str]
) -> None:
    assert "this cannot be said: spec." in await refusal(capsys, server, **changes)


async def test_a_word_that_was_given_before_is_not_given_twice(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await say() == 0
    assert await say() == 1
    assert f"kubectl -n shop get podendconfirmations {UID}" in capsys.readouterr().err
    assert len(said(server, SUSPECTS)) == 1


async def test_a_word_that_the_operators_clock_makes_too_early_is_told_so(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.created_at = (SINCE - timedelta(seconds=5)).isoformat
    assert await say() == 1
    assert "the word does not count" in capsys.readouterr().err


async def test_the_list_has_every_suspect_once_with_the_command_to_type(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    other = ledger(entry(), entry(podName="web-7", uid="u7", since=(SINCE - timedelta(hours=1)).isoformat()))
    server.put(other | {"metadata": other["metadata"] | {"name": "payments", "uid": "sg-2"}}, GROUPS)
    assert await confirm_command.list_suspects("shop") == 0
    lines = capsys.readouterr().out.splitlines()
    commands = [line.strip() for line in lines if line.startswith("    ")]
    assert commands == [
        f"staticgroup -n shop confirm {name} --uid {uid} --statement 'why this is sure'"
        for name, uid in (("web-7", "u7"), ("web-2", UID))
    ]


async def test_a_namespace_without_suspects_says_so(server: FakeApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert await confirm_command.list_suspects("market") == 0
    assert "no StaticGroup of namespace market has a suspect" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["confirm", "web-2", "--uid", UID, "--statement", "x"],
        ["-n", "shop", "confirm"],
        ["-n", "shop", "confirm", "web-2", "--statement", "x"],
        ["-n", "shop", "confirm", "web-2", "--uid", UID],
    ],
)
def test_an_incomplete_command_is_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == cli.EXIT_USAGE
    assert capsys.readouterr().err.startswith("staticgroup: name ")


@pytest.mark.parametrize(
    "arguments", [["-n", "shop", "confirm", "--list"], ["confirm", "-n", "shop", "--list"]]
)
def test_the_namespace_may_stand_before_or_after_the_command(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def listed(namespace: str) -> int:
        asked.append(namespace)
        return 0

    monkeypatch.setattr(confirm_command, "list_suspects", listed)
    assert cli.main(arguments) == 0
    assert asked == ["shop"]
