"""What clients append to their ids: implied by the preset, kept where ids were issued before, and named where it is
wrong."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from staticgroup.api.resources.staticgroup import StaticGroupSpec
from staticgroup.api.resources.status import StaticGroupStatus
from staticgroup.cli.operator.plan_in_words import explained
from staticgroup.core.group import MemberView
from staticgroup.core.outcomes import Executed
from staticgroup.core.plan import Plan, plan
from staticgroup.core.seats import Standing
from staticgroup.core.snapshot import History, Snapshot
from staticgroup.core.status.durable import history_from
from staticgroup.core.status.projection import project
from unit.core.plans import present

from .builders import NOW_S, SCOPE, departure, group, history, id_of, injected, known_pod, spec, workload

NOW = datetime.fromtimestamp(NOW_S, tz=UTC)
SPRING = {"preset": "SpringBoot"}
STREAMS = {"preset": "KafkaStreams"}


def members(*texts: str) -> tuple[MemberView, ...]:
    return tuple(MemberView(member_id=f"m-{text}", instance_id=text) for text in texts)


def seen(*texts: str, **changes: Any) -> Snapshot:
    """Two pods that have been Ready for long with the ids of two consumers, and these members."""
    pods = tuple(known_pod(n, f"u{n}", instance_ids=frozenset({id_of(n), f"{id_of(n)}-a"})) for n in range(2))
    changes = {"pods": pods} | changes
    return departure(group=group(*members(*texts)), chains={}, fresh={}, **changes)


def ids(*appended: str) -> tuple[str, ...]:
    return tuple(f"web-{ordinal}.{SCOPE}{text}" for ordinal in range(2) for text in appended)


def decide(wish: StaticGroupSpec, snapshot: Snapshot, memory: History | None = None) -> Plan:
    """Plan one round; pods hold what their clients are expected to make of their ids, as a round has them."""
    known = memory or history()
    naming = present(plan(wish, snapshot, known, NOW_S).naming)
    return plan(wish, replace(snapshot, pods=tuple(naming.expand(p) for p in snapshot.pods)), known, NOW_S)


def status_after(wish: StaticGroupSpec, snapshot: Snapshot, memory: History) -> StaticGroupStatus:
    """Return the status after one round."""
    return project(wish, snapshot, decide(wish, snapshot, memory), Executed(), None, NOW)


def said(wish: StaticGroupSpec, snapshot: Snapshot, memory: History | None = None) -> dict[str, tuple[str, str, str]]:
    status = status_after(wish, snapshot, memory or history())
    return {c.type: (c.status.value, c.reason, c.message) for c in status.conditions}


def born(wish: StaticGroupSpec) -> tuple[str, StaticGroupStatus]:
    """A StaticGroup that today's operator sees for the first time, and what it gives to web-0."""
    status = status_after(wish, seen(), History())
    assert status.injected is not None
    return status.injected.id_template.replace("{podName}", "web-0"), status


def expected(wish: StaticGroupSpec, memory: History, replicas: int = 1) -> list[str]:
    table = present(decide(wish, seen(workload=workload(replicas)), memory).table)
    return [seat.key for seat in table.wanted]


# a new StaticGroup ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("identity", "appended"),
    [
        ({}, [""]),
        (SPRING, ["-0"]),
        (SPRING | {"suffix": "Auto", "membersPerPod": 3}, ["-0", "-1", "-2"]),
        (STREAMS, ["-1"]),
        (STREAMS | {"membersPerPod": 2}, ["-1", "-2"]),
        ({"preset": "Librdkafka"}, [""]),
        ({"preset": "Quarkus"}, [""]),
        ({"preset": "Custom", "env": [{"suffix": "-a"}, {"suffix": "-b", "instanceIdName": "B"}]}, ["-a", "-b"]),
        (SPRING | {"suffix": "None"}, [""]),
        (SPRING | {"suffix": "Streams"}, ["-1"]),
        ({"suffix": "Spring", "membersPerPod": 2}, ["-0", "-1"]),
    ],
)
def test_preset_implies_what_its_client_appends_and_an_explicit_suffix_wins(
    identity: dict[str, Any], appended: list[str]
) -> None:
    wish = spec(identity=identity)
    base, status = born(wish)
    assert expected(wish, history_from(status, "shop")) == [base + text for text in appended]


@pytest.mark.parametrize(("identity", "text"), [(SPRING, "-0"), (STREAMS, "-1")])
def test_departed_member_of_a_preset_alone_is_known_as_departed_and_not_as_foreign(
    identity: dict[str, Any], text: str
) -> None:
    wish = spec(identity=identity)
    base, status = born(wish)
    held = [base.replace("web-0", f"web-{ordinal}") + text for ordinal in range(3)]
    table = present(decide(wish, seen(*held), history_from(status, "shop")).table)
    assert [seat.key for seat in table.of(Standing.JOINED)] == held[:2]
    assert [seat.key for seat in table.departed] == held[2:]
    assert (table.foreign, table.of(Standing.MISSING)) == ((), ())


# a StaticGroup that issued ids before Auto was known ------------------------------------------------------------------


def remembered(wish: StaticGroupSpec, memory: History) -> History:
    """Go through a status as the API server keeps it."""
    status = status_after(wish, seen(), memory)
    return history_from(StaticGroupStatus.model_validate(status.to_wire()), "shop")


@pytest.mark.parametrize("suffix", ["None", "Auto"])
def test_ids_that_were_issued_with_the_default_of_before_stay_over_an_upgrade(suffix: str) -> None:
    """None was stored when the object was created; a replaced manifest, or one that is taken over by server-side apply,
    gets today's default instead."""
    before = history()
    stored, replaced = spec(identity=SPRING | {"suffix": "None"}), spec(identity=SPRING | {"suffix": suffix})
    assert expected(stored, before) == [f"web-0.{SCOPE}"]
    after = remembered(replaced, remembered(replaced, before))
    assert expected(replaced, before) == expected(replaced, after) == [f"web-0.{SCOPE}"]
    assert expected(replaced, remembered(replaced, remembered(stored, before))) == [f"web-0.{SCOPE}"]


def test_status_of_before_is_written_again_without_a_difference() -> None:
    """Absent means the same as false."""
    wish = spec(identity=SPRING | {"suffix": "None"})
    written = status_after(wish, seen(), history()).to_wire()["injected"]
    assert "suffixFollowsPreset" not in written


@pytest.mark.parametrize("suffix", ["Spring", "Streams"])
def test_suffix_that_was_explicit_before_may_be_left_out_from_now_on(suffix: str) -> None:
    preset = {"Spring": SPRING, "Streams": STREAMS}[suffix]
    explicit, left_out = spec(identity=preset | {"suffix": suffix}), spec(identity=preset)
    assert expected(left_out, remembered(explicit, history())) == expected(explicit, history())


def test_what_was_kept_is_given_up_for_good_by_naming_a_suffix_once() -> None:
    kept, named = spec(identity=SPRING), spec(identity=SPRING | {"suffix": "Spring"})
    memory = remembered(named, remembered(kept, history()))
    assert expected(kept, memory) == [f"web-0.{SCOPE}-0"]


def test_several_members_of_a_pod_were_never_issued_one_id() -> None:
    """Before, membersPerPod could only be 2 with a suffix; so what is left out is not None."""
    wish = spec(identity=SPRING | {"membersPerPod": 2})
    assert expected(wish, history()) == [f"web-0.{SCOPE}-0", f"web-0.{SCOPE}-1"]
    one_again = spec(identity=SPRING)
    assert expected(one_again, remembered(wish, history())) == [f"web-0.{SCOPE}-0"]


def test_none_of_a_new_staticgroup_that_followed_its_preset_gives_way_to_it_again() -> None:
    follows, none = spec(identity=SPRING), spec(identity=SPRING | {"suffix": "None"})
    base, status = born(follows)
    memory = remembered(none, history_from(status, "shop"))
    assert expected(none, memory) == [base]
    assert expected(follows, remembered(follows, memory)) == [f"{base}-0"]


def test_changed_preset_of_a_live_group_brings_its_suffix() -> None:
    generic, spring = spec(identity={}), spec(identity=SPRING)
    base, status = born(generic)
    memory = history_from(status, "shop")
    assert expected(generic, memory) == [base]
    assert expected(spring, memory) == [f"{base}-0"]
    assert expected(generic, remembered(generic, remembered(spring, memory))) == [base]


@pytest.mark.parametrize("suffix", ["Auto", "Spring", "None"])
def test_memory_that_is_lost_beside_a_pod_that_carries_an_id_is_no_innocence_whatever_the_client_appends(
    suffix: str,
) -> None:
    """A pod carries the id before its client appends to it, also where ids have no scope."""
    wish = spec(identity=SPRING | {"suffix": suffix, "template": "{podName}", "exclusive": True})
    carrier = known_pod(0, "u0", instance_ids=frozenset({"web-0"}))
    after = decide(wish, seen(known=(carrier,), created_at_s=NOW_S - 9000), History())
    assert after.history.injected is not None
    assert after.history.members.watch == ""


# conditions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("identity", "says", "remedy"),
    [
        (SPRING | {"suffix": "None"}, "spec.identity.suffix is None", "set spec.identity.suffix to Spring"),
        (SPRING, "these ids were issued with None", "set spec.identity.suffix to Spring"),
        (STREAMS | {"suffix": "None"}, "appends -1", "set spec.identity.suffix to Streams"),
    ],
)
@pytest.mark.parametrize("method", ["Auto", "None"])
def test_none_against_the_preset_is_reported_before_a_member_joins(
    identity: dict[str, Any], says: str, remedy: str, method: str
) -> None:
    state, _, message = said(spec(identity=identity | {"method": method}), seen())["Injected"]
    assert state == "True"
    assert says in message
    assert remedy in message


@pytest.mark.parametrize("identity", [{}, {"suffix": "None"}, SPRING | {"suffix": "Spring"}, {"preset": "Quarkus"}])
def test_nothing_is_said_of_suffixes_where_preset_and_spec_agree(identity: dict[str, Any]) -> None:
    assert "suffix" not in said(spec(identity=identity), seen())["Injected"][2]


def test_client_that_is_set_to_append_nothing_is_expected_to() -> None:
    """Spring with alwaysClientIdSuffix false: the members show it."""
    conditions = said(spec(identity=SPRING | {"suffix": "None"}), seen(*ids("")))
    assert {kind: state for kind, (state, _, _) in conditions.items() if state != "True"} == {}
    assert "suffix" not in conditions["Injected"][2]


MISMATCHES: list[tuple[str, dict[str, Any], tuple[str, ...], str]] = [
    ("Spring", SPRING | {"suffix": "None"}, ids("-0"), "Set spec.identity.suffix to Spring."),
    ("Spring, kept None", SPRING, ids("-0"), "Set spec.identity.suffix to Spring."),
    ("Spring by variables of one's own", {}, ids("-0"), "Set spec.identity.suffix to Spring."),
    (
        "concurrency 3", {}, ids("-0", "-1", "-2"),
        "Set spec.identity.suffix to Spring and spec.identity.membersPerPod to 3.",
    ),
    ("Streams", STREAMS | {"suffix": "None"}, ids("-1"), "Set spec.identity.suffix to Streams."),
    (
        "four Streams threads", {}, ids("-1", "-2", "-3", "-4"),
        "Set spec.identity.suffix to Streams and spec.identity.membersPerPod to 4.",
    ),
    ("more concurrency", {"suffix": "Spring"}, ids("-0", "-1", "-2"), "Set spec.identity.membersPerPod to 3, or wait"),
    ("more threads", {"suffix": "Streams"}, ids("-1", "-2"), "Set spec.identity.membersPerPod to 2, or wait"),
    ("Spring for Streams", {"suffix": "Streams"}, ids("-0"), "Set spec.identity.suffix to Spring."),
    ("Streams for Spring", {"suffix": "Spring"}, ids("-1"), "Set spec.identity.suffix to Streams."),
    ("nothing is appended", {"suffix": "Spring"}, ids(""), "Set spec.identity.suffix to None, or roll"),
    (
        "one consumer for several", {"suffix": "Spring", "membersPerPod": 2}, ids(""),
        "Set spec.identity.suffix to None and spec.identity.membersPerPod to 1, or roll",
    ),
    (
        "words",
        {},
        ids("-in", "-out"),
        "Set spec.identity.suffix to Custom and spec.identity.customSuffixes to [-in, -out] and "
        "spec.identity.membersPerPod to 2 if",
    ),
    (
        "more words than are expected", {"suffix": "Custom", "customSuffixes": ["-in"]}, ids("-in", "-out"),
        "[-in, -out]",
    ),
    (
        "a fourth thread while the others are away", SPRING | {"membersPerPod": 3}, ids("-3"),
        "Set spec.identity.membersPerPod to 4, or wait",
    ),
    (
        "two clients of a pod of which one appends", {"suffix": "Spring"}, ids("", "-0"),
        "Set the clients of a pod to append the same",
    ),
    ("a number that no client counts to", {}, ids("-65"), "Set spec.identity.suffix to Custom"),
    ("an id that is longer than all", {}, ids("-" + "x" * 200), "Set the client to use the id as it is"),
    (
        "one of two consumers", {"preset": "Custom", "env": [{"suffix": "-a"}, {"suffix": "", "instanceIdName": "B"}]},
        ids("", "-a-0"), "Set spec.identity.suffix to Spring.",
    ),
]


@pytest.mark.parametrize(("identity", "held", "remedy"), [m[1:] for m in MISMATCHES], ids=[m[0] for m in MISMATCHES])
def test_seat_that_a_member_nearly_matches_is_named_with_the_field_to_set(
    identity: dict[str, Any], held: tuple[str, ...], remedy: str
) -> None:
    wish = spec(identity=identity)
    conditions = said(wish, seen(*held))
    state, reason, message = conditions["MembershipComplete"]
    assert (state, reason) == ("False", "SuffixMismatch")
    assert remedy in message
    assert "for pod web-0" in message
    assert not message.endswith("…")
    assert conditions["Ready"][:2] == ("False", "Degraded")
    assert remedy in conditions["Ready"][2]


def test_remedy_of_a_near_match_is_enough() -> None:
    """Doing what the condition says ends it."""
    for name, identity, held, remedy in MISMATCHES:
        if "ustom" in remedy or "env" in identity or not remedy.startswith("Set spec."):
            continue
        fields = dict(part.split(" to ") for part in remedy.rstrip(".").split(", or")[0][4:].split(" and "))
        changes = {key.removeprefix("spec.identity."): value for key, value in fields.items()}
        typed = {key: int(value) if key == "membersPerPod" else value for key, value in changes.items()}
        state, reason, _ = said(spec(identity=identity | typed), seen(*held))["MembershipComplete"]
        assert reason == "MembersMissing" if "away" in name else state == "True", name


def test_exceptions_of_a_near_match_name_pod_and_field_and_ask_for_no_restart() -> None:
    status = status_after(spec(identity=SPRING | {"suffix": "None"}), seen(*ids("-0")), history())
    rows = {(e.kind.value, e.instance_id): e for e in status.exceptions}
    assert set(rows) == {(kind, i) for kind, text in (("Missing", ""), ("Foreign", "-0")) for i in ids(text)}
    assert {e.reason for e in status.exceptions} == {"UnknownSuffix"}
    assert {e.pod_name for e in status.exceptions} == {"web-0", "web-1"}
    assert all("set spec.identity.suffix to Spring;" in e.message for e in status.exceptions)
    assert not any("delete pod" in e.message for e in status.exceptions)


def test_explanation_of_a_near_match_names_the_field() -> None:
    wish, snapshot = spec(identity=SPRING | {"suffix": "None"}), seen(*ids("-0"))
    text = explained(wish, snapshot, decide(wish, snapshot), NOW_S)
    assert (
        f"Missing: web-0.{SCOPE} (UnknownSuffix): set spec.identity.suffix to Spring; "
        f"a member of its pod holds web-0.{SCOPE}-0." in text
    )
    assert "MembershipComplete: False (SuffixMismatch). 2 members nearly match" in text
    assert "Set spec.identity.suffix to Spring." in text
    assert "restart the pod" not in text


def test_departed_pod_that_nearly_matches_is_named_though_every_seat_is_filled() -> None:
    """No member would be reported missing: concurrency was 2 and membersPerPod 1, and the third pod has ended."""
    held = (*ids("-0"), f"web-2.{SCOPE}-0", f"web-2.{SCOPE}-1")
    _, reason, message = said(spec(identity={"suffix": "Spring"}), seen(*held))["MembershipComplete"]
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
    wish = spec(identity={"template": "{podName}", "exclusive": True})
    memory = history(injected=injected(id_template="{podName}"))
    pods = tuple(
        known_pod(n, f"u{n}", instance_ids=frozenset({f"web-{n}"}), ready_since_s=NOW_S - ready_s) for n in range(2)
    )
    reason = said(wish, seen(*held, "web-1-0", pods=pods), memory)["MembershipComplete"][1]
    assert (reason == "SuffixMismatch") is is_near


def test_debug_copy_of_a_pod_is_no_near_match_where_the_pods_name_ends_the_id() -> None:
    wish = spec(identity={"template": "{scope}-{podName}"})
    memory = history(injected=injected(id_template=f"{SCOPE}-{{podName}}"))
    pods = tuple(known_pod(n, f"u{n}", instance_ids=frozenset({f"{SCOPE}-web-{n}"})) for n in range(2))
    held = (f"{SCOPE}-web-0", f"{SCOPE}-web-1", f"{SCOPE}-web-1-debug")
    assert said(wish, seen(*held, pods=pods), memory)["MembershipComplete"][0] == "True"
    assert said(wish, seen(*held[::2], pods=pods), memory)["MembershipComplete"][1] == "SuffixMismatch"


def test_id_of_an_earlier_template_is_nearly_matched_too() -> None:
    memory = history(templates=(f"{{ordinal}}.{SCOPE}",))
    found = present(decide(spec(), seen(*ids(""), f"1.{SCOPE}-0"), memory).suffix)
    assert [(n.pod_name, n.appended) for n in found.nearly] == [("web-1", "-0")]


def test_near_match_is_never_removed() -> None:
    """A finding says what to set; what is foreign stays untouched."""
    for _, identity, held, _ in MISMATCHES:
        assert decide(spec(identity=identity), replace(seen(*held), workload=workload(0))).actions == ()
