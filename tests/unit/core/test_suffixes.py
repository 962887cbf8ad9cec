"""What clients append to their ids: known by the client's type, or listed; and whose member nearly matches."""

from __future__ import annotations

from typing import Any

import pytest

from staticgroup.api.resources.staticgroup import StaticGroupSpec
from staticgroup.api.resources.status import StaticGroupStatus
from staticgroup.core.seats import Standing
from staticgroup.core.snapshot import History
from staticgroup.core.status.memory import history_from

from .appended import SPRING, STREAMS, decide, ids, said, seen, status_after
from .builders import NOW_S, SCOPE, history, injected, known_pod, spec, workload
from .plans import present


def born(wish: StaticGroupSpec) -> tuple[str, StaticGroupStatus]:
    """A StaticGroup that the operator sees for the first time, and what it gives to web-0."""
    status = status_after(wish, seen(), History())
    assert status.injected is not None
    return status.injected.id_template.replace("{podName}", "web-0"), status


def expected(wish: StaticGroupSpec, memory: History, replicas: int = 1) -> list[str]:
    table = present(decide(wish, seen(workload=workload(replicas)), memory).table)
    return [seat.key for seat in table.wanted]


# a new StaticGroup ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "appended"),
    [
        ({}, [""]),
        (SPRING, ["-0"]),
        (SPRING | {"concurrency": 3}, ["-0", "-1", "-2"]),
        (STREAMS, ["-1"]),
        (STREAMS | {"concurrency": 2}, ["-1", "-2"]),
        ({"type": "Quarkus"}, [""]),
        ({"type": "Own"}, [""]),
        ({"type": "Custom", "env": [{"suffix": "-a"}, {"suffix": "-b", "instanceIdName": "B"}]}, ["-a", "-b"]),
        (SPRING | {"suffixes": [""]}, [""]),
        (SPRING | {"suffixes": ["-1"]}, ["-1"]),
        ({"suffixes": ["-in", "-out"]}, ["-in", "-out"]),
    ],
)
def test_type_says_what_its_client_appends_and_listed_suffixes_win(
    client: dict[str, Any], appended: list[str]
) -> None:
    wish = spec(client=client)
    base, status = born(wish)
    assert expected(wish, history_from(status, "shop")) == [base + text for text in appended]


@pytest.mark.parametrize(("client", "text"), [(SPRING, "-0"), (STREAMS, "-1")])
def test_departed_member_of_a_type_alone_is_known_as_departed_and_not_as_foreign(
    client: dict[str, Any], text: str
) -> None:
    wish = spec(client=client)
    base, status = born(wish)
    held = [base.replace("web-0", f"web-{ordinal}") + text for ordinal in range(3)]
    table = present(decide(wish, seen(*held), history_from(status, "shop")).table)
    assert [seat.key for seat in table.of(Standing.JOINED)] == held[:2]
    assert [seat.key for seat in table.departed] == held[2:]
    assert (table.foreign, table.of(Standing.MISSING)) == ((), ())


# an edited one --------------------------------------------------------------------------------------------------------


def remembered(wish: StaticGroupSpec, memory: History) -> History:
    """Go through a status as the API server keeps it."""
    status = status_after(wish, seen(), memory)
    return history_from(StaticGroupStatus.model_validate(status.to_wire()), "shop")


@pytest.mark.parametrize(
    ("client", "appended"), [(SPRING, "-0"), (STREAMS, "-1"), ({"suffixes": ["-in"]}, "-in")]
)
def test_edited_client_of_a_live_group_changes_what_is_appended_at_once_and_back(
    client: dict[str, Any], appended: str
) -> None:
    generic, edited = spec(), spec(client=client)
    base, status = born(generic)
    memory = history_from(status, "shop")
    assert expected(generic, memory) == [base]
    assert expected(edited, memory) == [base + appended]
    assert expected(generic, remembered(generic, remembered(edited, memory))) == [base]


@pytest.mark.parametrize("suffixes", [[], ["-0"], [""]])
def test_memory_that_is_lost_beside_a_pod_that_carries_an_id_is_no_innocence_whatever_the_client_appends(
    suffixes: list[str],
) -> None:
    """A pod carries the id before its client appends to it, also where ids have no scope."""
    wish = spec(idTemplate="{podName}", assumeExclusive=True, client=SPRING | {"suffixes": suffixes})
    carrier = known_pod(0, "u0", instance_ids=frozenset({"web-0"}))
    after = decide(wish, seen(known=(carrier,)), History())
    assert after.history.injected is not None
    assert after.history.members.watch == ""


# conditions ---------------------------------------------------------------------------------------------------


def test_client_that_is_set_to_append_nothing_is_expected_to() -> None:
    """Spring with alwaysClientIdSuffix false: the members show it."""
    conditions = said(spec(client=SPRING | {"suffixes": [""]}), seen(*ids("")))
    assert {kind: state for kind, (state, _, _) in conditions.items() if state != "True"} == {}
    assert "suffix" not in conditions["Injected"][2]


def test_departed_pod_that_nearly_matches_is_named_though_every_seat_is_filled() -> None:
    """No member would be reported missing: the client runs two and concurrency is 1, and the third pod has ended."""
    held = (*ids("-0"), f"web-2.{SCOPE}-0", f"web-2.{SCOPE}-1")
    _, reason, message = said(spec(client=SPRING), seen(*held))["MembershipComplete"]
    assert reason == "SuffixMismatch"
    assert f"1 members nearly match, such as web-2.{SCOPE}-1 for pod web-2" in message


@pytest.mark.parametrize(
    "text",
    [
        f"web-0.{SCOPE}x",
        f"other-0.{SCOPE}-0",
        "web-0.00000000-0",
        f"web-00.{SCOPE}-0",
        f"xweb-0.{SCOPE}-0",
        "web-0",
        f"web-{2**31}.{SCOPE}-0",
    ],
)
def test_member_of_somebody_else_is_no_near_match(text: str) -> None:
    conditions = said(spec(), seen(*ids(""), text))
    assert conditions["MembershipComplete"][0] == "True"
    assert decide(spec(), seen(*ids(""), text)).suffix is None


@pytest.mark.parametrize(
    ("held", "ready_s", "is_near"), [(("web-0", "web-1"), 500, False), (("web-0",), 500, True), (("web-0",), 5, False)]
)
def test_without_a_scope_only_a_seat_that_is_missing_can_be_nearly_matched(
    held: tuple[str, ...], ready_s: int, is_near: bool
) -> None:
    """web-1-0 may be the first pod of a StatefulSet web-1, and web-1 be about to join."""
    wish = spec(idTemplate="{podName}", assumeExclusive=True)
    memory = history(injected=injected(id_template="{podName}"))
    pods = tuple(
        known_pod(n, f"u{n}", instance_ids=frozenset({f"web-{n}"}), ready_since_s=NOW_S - ready_s) for n in range(2)
    )
    reason = said(wish, seen(*held, "web-1-0", pods=pods), memory)["MembershipComplete"][1]
    assert (reason == "SuffixMismatch") is is_near


def test_debug_copy_of_a_pod_is_no_near_match_where_the_pods_name_ends_the_id() -> None:
    wish = spec(idTemplate="{scope}-{podName}")
    memory = history(injected=injected(id_template=f"{SCOPE}-{{podName}}"))
    pods = tuple(known_pod(n, f"u{n}", instance_ids=frozenset({f"{SCOPE}-web-{n}"})) for n in range(2))
    held = (f"{SCOPE}-web-0", f"{SCOPE}-web-1", f"{SCOPE}-web-1-debug")
    assert said(wish, seen(*held, pods=pods), memory)["MembershipComplete"][0] == "True"
    assert said(wish, seen(*held[::2], pods=pods), memory)["MembershipComplete"][1] == "SuffixMismatch"


def test_id_of_an_earlier_template_is_nearly_matched_too() -> None:
    memory = history(templates=(f"{{ordinal}}.{SCOPE}",))
    found = present(decide(spec(), seen(*ids(""), f"1.{SCOPE}-0"), memory).suffix)
    assert [(n.pod_name, n.appended) for n in found.nearly] == [("web-1", "-0")]
