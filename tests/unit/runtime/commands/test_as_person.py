"""What every command that gives a word does in the same way: it speaks as its caller, and names what it lacks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from support.fake_apiserver import FakeApiServer

from . import test_confirm, test_confirm_gap
from .word import GAPS, GROUPS, SUSPECTS, api_server, refused, said

Say = Callable[..., Awaitable[int]]

words = pytest.mark.parametrize(
    ("resource", "say"), [(SUSPECTS, test_confirm.say), (GAPS, test_confirm_gap.say)], ids=["confirm", "confirm-gap"]
)


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeApiServer]:
    """An API server with a suspect and a gap to say something about."""
    async with api_server(monkeypatch) as made:
        body = test_confirm.ledger(test_confirm.entry())
        gap = {"watchEpoch": "e2", "at": test_confirm_gap.at(60), "workloadName": "web", "blind": [test_confirm_gap.span(0, 5)]}
        made.put(body | {"status": body["status"] | {"continuity": gap}}, GROUPS)
        yield made


@words
async def test_a_word_is_given_once_in_the_callers_name(server: FakeApiServer, resource: str, say: Say) -> None:
    """Without which the refusals below would show nothing."""
    assert await say() == 0
    assert [word["spec"]["by"] for word in said(server, resource)] == ["alice"]


@words
async def test_a_name_that_is_given_is_used_and_nobody_is_asked(server: FakeApiServer, resource: str, say: Say) -> None:
    server.denied.add(("create", "selfsubjectreviews.authentication.k8s.io"))
    assert await say(by="bob") == 0
    assert said(server, resource)[0]["spec"]["by"] == "bob"


@words
async def test_a_caller_whom_the_api_server_does_not_name_is_asked_for_by(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str], resource: str, say: Say
) -> None:
    server.failing["create", "selfsubjectreviews.authentication.k8s.io"] = [404]
    assert "--by" in await refused(say(), server, resource, capsys)


@words
async def test_a_refused_foreign_name_is_named_as_a_possible_cause(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str], resource: str, say: Say
) -> None:
    server.denied.add(("create", resource))
    assert "--by is not your own user name" in await refused(say(by="bob"), server, resource, capsys)


@words
async def test_a_kind_that_is_not_installed_is_named(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str], resource: str, say: Say
) -> None:
    server.failing["create", resource] = [404]
    assert "kubectl apply -f crds/" in await refused(say(), server, resource, capsys)


@words
async def test_the_text_that_stands_for_the_statement_is_no_statement(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str], resource: str, say: Say
) -> None:
    assert "stands for your own words" in await refused(say(statement="why this is sure"), server, resource, capsys)
