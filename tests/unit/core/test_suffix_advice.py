"""What to write into spec.client where a client appends something else than expected."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from staticgroup.api.crd import definition
from staticgroup.api.injection import env_entries
from staticgroup.cli.operator.plan_in_words import explained
from staticgroup.core.snapshot import Snapshot

from .appended import SPRING, STREAMS, decide, ids, said, seen, status_after
from .builders import NOW_S, SCOPE, history, spec, workload
from .plans import present

IF_SAME = "if the client appends the same at every start; if not, let it use the id as it is."
FEWER = "or, if the pods run fewer members by now, wait for the sessions of the others to end."
ROLL = (
    "or roll the StatefulSet if spec.client was changed since its pods started (what they leave behind ends with its "
    "session)."
)
STREAMS_ENV = (
    "[{instanceIdName: KAFKA_STREAMS_GROUP_INSTANCE_ID, sessionTimeoutName: KAFKA_STREAMS_SESSION_TIMEOUT_MS}]"
)
IN_APP = STREAMS_ENV.replace("{", "{container: app, ")
SHARED = (
    "if two clients of each pod share its id and one of them appends nothing; if not, what an earlier client left "
    "behind ends with its session."
)
BOTH = {"type": "Custom", "env": [{"suffix": "-a"}, {"suffix": "", "instanceIdName": "B"}]}

MISMATCHES: list[tuple[str, dict[str, Any], tuple[str, ...], str]] = [
    ("Spring by variables of one's own", {}, ids("-0"), f'Set spec.client.suffixes to ["-0"] {IF_SAME}'),
    (
        "concurrency 3 by variables of one's own", {}, ids("-0", "-1", "-2"),
        f'Set spec.client.suffixes to ["-0", "-1", "-2"] {IF_SAME}',
    ),
    (
        "twelve threads by variables of one's own", {}, ids(*(f"-{n}" for n in range(1, 13))),
        f'Set spec.client.suffixes to ["-1", "-2", …, "-12"] {IF_SAME}',
    ),
    (
        "Spring that appends after all", SPRING | {"suffixes": [""]}, ids("-0"),
        f'Set spec.client.suffixes to ["-0"] {IF_SAME}',
    ),
    ("more concurrency", SPRING, ids("-0", "-1", "-2"), f"Set spec.client.concurrency to 3, {FEWER}"),
    ("more threads", STREAMS, ids("-1", "-2"), f"Set spec.client.concurrency to 2, {FEWER}"),
    (
        "a fourth thread while the others are away", SPRING | {"concurrency": 3}, ids("-3"),
        f"Set spec.client.concurrency to 4, {FEWER}",
    ),
    (
        "numbers from 0 for Kafka Streams", STREAMS | {"concurrency": 2}, ids("-0"),
        f"Set spec.client.type to Custom, spec.client.env to {STREAMS_ENV}, spec.client.concurrency to 1 and "
        f'spec.client.suffixes to ["-0"] {IF_SAME}',
    ),
    (
        "nothing for Kafka Streams", STREAMS, ids(""),
        f"Set spec.client.type to Custom, spec.client.env to {STREAMS_ENV} and "
        f'spec.client.suffixes to [""], {ROLL}',
    ),
    (
        "nothing for Kafka Streams of another container", STREAMS | {"container": "app"}, ids(""),
        f"Set spec.client.type to Custom, spec.client.env, in place of spec.client.container, to {IN_APP} and "
        f'spec.client.suffixes to [""], {ROLL}',
    ),
    (
        "nothing for Kafka Streams with variables of its own", STREAMS | {"env": [{}]}, ids(""),
        f'Set spec.client.type to Custom and spec.client.suffixes to [""], {ROLL}',
    ),
    ("numbers from 1 for Spring", SPRING, ids("-1"), f'Set spec.client.suffixes to ["-1"] {IF_SAME}'),
    ("nothing is appended", SPRING, ids(""), f'Set spec.client.suffixes to [""], {ROLL}'),
    (
        "one consumer for several", SPRING | {"concurrency": 2}, ids(""),
        f'Set spec.client.concurrency to 1 and spec.client.suffixes to [""], {ROLL}',
    ),
    ("words", {}, ids("-in", "-out"), f'Set spec.client.suffixes to ["-in", "-out"] {IF_SAME}'),
    (
        "more words than are expected", {"suffixes": ["-in"]}, ids("-in", "-out"),
        f'Set spec.client.suffixes to ["-in", "-out"] {IF_SAME}',
    ),
    (
        "many words", {}, ids(*(f"-{text}" for text in "abcde")),
        f'Set spec.client.suffixes to a list of the 5 texts that the client appends, such as "-a", {IF_SAME}',
    ),
    (
        "words for Spring", SPRING | {"concurrency": 2}, ids("-in"),
        f'Set spec.client.concurrency to 1 and spec.client.suffixes to ["-in"] {IF_SAME}',
    ),
    (
        "two clients of a pod of which one appends", SPRING, ids("", "-0"),
        f'Set spec.client.suffixes to ["", "-0"] {SHARED}',
    ),
    (
        "two clients of a pod of which one appends words", {}, ids("", "-in"),
        f'Set spec.client.suffixes to ["", "-in"] {SHARED}',
    ),
    ("a number that no client counts to", {}, ids("-65"), f'Set spec.client.suffixes to ["-65"] {IF_SAME}'),
    ("an id that is longer than all", {}, ids("-" + "x" * 200), "Set the client to use the id as it is"),
    ("one of two consumers", BOTH, ids("", "-a-0"), "Set the clients of a pod to append the same"),
    ("both of two consumers", BOTH, ids("-0", "-a-0"), f'Set spec.client.suffixes to ["-0"] {IF_SAME}'),
    ("a worker", {"type": "Connect"}, ids("-0"), "Set the workers to use the id as it is, because a Connect worker"),
]


def world_of(client: dict[str, Any], held: tuple[str, ...]) -> Snapshot:
    """Let a group of the client's type have these members."""
    snapshot = seen(*held)
    is_worker = client.get("type") == "Connect"
    return replace(snapshot, group=replace(snapshot.group, protocol_type="connect")) if is_worker else snapshot


@pytest.mark.parametrize(("client", "held", "remedy"), [m[1:] for m in MISMATCHES], ids=[m[0] for m in MISMATCHES])
def test_seat_that_a_member_nearly_matches_is_named_with_the_field_to_set(
    client: dict[str, Any], held: tuple[str, ...], remedy: str
) -> None:
    conditions = said(spec(client=client), world_of(client, held))
    state, reason, message = conditions["MembershipComplete"]
    assert (state, reason) == ("False", "SuffixMismatch")
    assert remedy in message
    assert "for pod web-0" in message
    assert not message.endswith("…")
    assert conditions["Ready"][:2] == ("False", "SuffixMismatch")
    assert remedy in conditions["Ready"][2]


def done(client: dict[str, Any], remedy: str) -> dict[str, Any]:
    """Return a client once the fields that a remedy names are set as it writes them."""
    remedy = remedy.removeprefix("Set ")
    is_moved = ", in place of spec.client.container," in remedy
    kept = {key: value for key, value in client.items() if key != "container" or not is_moved}
    remedy = remedy.replace(", in place of spec.client.container,", "")
    found = re.findall(r"spec\.client\.(\w+) to (\[.*?\]|\w+)", remedy)
    return kept | {field: yaml.safe_load(text) for field, text in found}


def refusals(client: dict[str, Any]) -> list[str]:
    """Return the messages of the rules about a client's type that it breaks; these are logic that Python reads too."""
    (version,) = definition("StaticGroup")["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["client"]
    rules = [r for r in schema["x-kubernetes-validations"] if not re.search(r"has\(|\.(all|exists)", r["rule"])]
    assert len(rules) >= 5
    broken = []
    for rule in rules:
        logic = re.sub(r"!(?!=)", " not ", rule["rule"].replace("||", " or ").replace("&&", " and "))
        wire = SimpleNamespace(**spec(client=client).to_wire()["client"])
        if not eval(logic, {"__builtins__": {}}, {"self": wire, "size": len}):
            broken.append(rule["message"])
    return broken


@pytest.mark.parametrize(
    ("name", "client", "held", "remedy"),
    [m for m in MISMATCHES if m[3].startswith("Set spec.") and "…" not in m[3] and "such as" not in m[3]],
)
def test_remedy_of_a_near_match_is_enough_and_is_not_refused(
    name: str, client: dict[str, Any], held: tuple[str, ...], remedy: str
) -> None:
    """Doing what the condition says ends it."""
    mended = done(client, remedy)
    assert refusals(client) == refusals(mended) == []
    assert mended.get("env") or mended.get("type") != "Custom"
    state, reason, _ = said(spec(client=mended), seen(*held))["MembershipComplete"]
    assert reason == "MembersMissing" if "away" in name else state == "True"


def test_kafka_streams_that_becomes_custom_keeps_its_variables() -> None:
    """A pod whose variables were renamed would run without an id."""
    for container in ({}, {"container": "app"}):
        streams = spec(client=STREAMS | container)
        (remedy,) = (m[3] for m in MISMATCHES if m[1] == STREAMS | container and m[2] == ids(""))
        assert env_entries(spec(client=done(STREAMS | container, remedy)).client) == env_entries(streams.client)


def test_exceptions_of_a_near_match_name_pod_and_field_and_ask_for_no_restart() -> None:
    status = status_after(spec(client=SPRING), seen(*ids("-0", "-1")), history())
    rows = {(e.kind.value, e.instance_id): e for e in status.issues}
    assert set(rows) == {("Foreign", i) for i in ids("-1")}
    status = status_after(spec(client=SPRING | {"suffixes": [""]}), seen(*ids("-0")), history())
    rows = {(e.kind.value, e.instance_id): e for e in status.issues}
    assert set(rows) == {(kind, i) for kind, text in (("Missing", ""), ("Foreign", "-0")) for i in ids(text)}
    assert {e.reason for e in status.issues} == {"UnknownSuffix"}
    assert {e.pod_name for e in status.issues} == {"web-0", "web-1"}
    assert all(f'; set spec.client.suffixes to ["-0"] {IF_SAME.rstrip(".")}' in e.message for e in status.issues)
    assert rows["Missing", ids("")[0]].message.startswith(f"a member of its pod holds {ids('-0')[0]}; set ")
    assert not any("delete pod" in e.message for e in status.issues)


@pytest.mark.parametrize(("client", "held"), [m[1:3] for m in MISMATCHES], ids=[m[0] for m in MISMATCHES])
def test_what_to_set_is_not_cut_off_in_a_row(client: dict[str, Any], held: tuple[str, ...]) -> None:
    wish, snapshot = spec(client=client), world_of(client, held)
    suffix = present(decide(wish, snapshot).suffix)
    rows = [e for e in status_after(wish, snapshot, history()).issues if e.reason == "UnknownSuffix"]
    assert rows
    assert [e.message for e in rows if not e.message.endswith(suffix.in_a_row)] == []
    assert suffix.remedy in suffix.in_a_row or "the condition MembershipComplete says" in suffix.in_a_row


def test_explanation_of_a_near_match_names_the_field() -> None:
    wish, snapshot = spec(client=SPRING | {"suffixes": [""]}), seen(*ids("-0"))
    text = explained(wish, snapshot, decide(wish, snapshot), NOW_S)
    assert (
        f"Missing: web-0.{SCOPE} (UnknownSuffix): a member of its pod holds web-0.{SCOPE}-0; "
        'set spec.client.suffixes to ["-0"] if the client appends' in text
    )
    assert "MembershipComplete: False (SuffixMismatch). 2 members nearly match" in text
    assert f'Set spec.client.suffixes to ["-0"] {IF_SAME}' in text
    assert "restart the pod" not in text


def test_near_match_is_never_removed() -> None:
    """A finding says what to set; what is foreign stays untouched."""
    for _, client, held, _ in MISMATCHES:
        assert decide(spec(client=client), replace(world_of(client, held), workload=workload(0))).actions == ()
