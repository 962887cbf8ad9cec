"""The durable memory: what a restart reads back from the status is what was written, and losing some is only slower."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from staticgroup.api.ordinals import Ordinals
from staticgroup.api.resources.durable import INCARNATIONS_MAX
from staticgroup.api.resources.status import StaticGroupStatus
from staticgroup.core.evidence.certificate import Certificate, CertificateKind
from staticgroup.core.evidence.chain import Incarnation, IncarnationState, judge
from staticgroup.core.group import LeaveOutcome
from staticgroup.core.outcomes import REMOVALS_MAX, with_outcomes
from staticgroup.core.plan import plan
from staticgroup.core.snapshot import History, RemovalRecord, SeatMemory
from staticgroup.core.status.checkpoints import LISTED, is_sealed, sealed, wire_continuity
from staticgroup.core.status.memory import (
    LONGEST_SESSION_S,
    history_from,
    ledger_from,
    to_remember,
    unwritten,
    wire_injected,
    wire_issued,
    wire_ledger,
    wire_settling,
    without_room,
)

from .builders import COORDINATOR, NOW_S, checkpoint, departure, history, id_of, incarnation, injected, spec

LIVE, DEAD, SUSPECT = IncarnationState.LIVE, IncarnationState.DEAD, IncarnationState.SUSPECT


def through_the_api_server(memory: History, **ledger: object) -> StaticGroupStatus:
    status = StaticGroupStatus(
        injected=wire_injected(spec(), memory.injected),
        issued=wire_issued(memory),
        settling=wire_settling(memory),
        ledger=wire_ledger(ledger.get("incarnations", ())),  # type: ignore[arg-type]
    )
    return StaticGroupStatus.model_validate(status.to_wire())


records = st.builds(
    RemovalRecord,
    instance_id=st.integers(0, 40).map(id_of),
    member_id=st.text("abc-0123456789", min_size=1, max_size=80),
    coordinator=st.sampled_from([COORDINATOR, "2@10.0.0.2:9092"]),
    acknowledged_at_s=st.integers(1_700_000_000, 1_900_000_000).map(float),
    attempts=st.integers(1, 9),
    absent_since_s=st.one_of(st.none(), st.integers(1_700_000_000, 1_900_000_000).map(float)),
    settled_at_s=st.one_of(st.none(), st.integers(1_700_000_000, 1_900_000_000).map(float)),
    pod_uids=st.frozensets(st.sampled_from(["u1", "u2", "u3"])),
)


@settings(deadline=None, max_examples=25)
@given(st.lists(records, max_size=20, unique_by=lambda r: r.instance_id), st.lists(st.integers(0, 300)))
def test_history_comes_back_as_it_was_written(removals: list[RemovalRecord], ordinals: list[int]) -> None:
    memory = History(
        injected=injected(), seats={r.instance_id: SeatMemory(removal=r) for r in removals},
        issued_ordinals=Ordinals.of(*(range(n, n + 1) for n in ordinals)), templates=("{podName}.3fa9c1d2.old",),
    )
    expected = memory if ordinals else replace(memory, issued_ordinals=Ordinals.of(range(1)))
    assert history_from(through_the_api_server(memory), "sg-1") == expected


def test_something_counts_as_issued_from_the_acknowledgement_on() -> None:
    """An earlier operator, to which somebody rolls back, would begin the history of a group again in which nothing was."""
    assert wire_issued(History()) is None
    issued = wire_issued(History(injected=injected()))
    assert issued is not None
    assert issued.ordinals


def test_no_status_is_an_empty_memory() -> None:
    assert history_from(None, "sg-1") == History()
    assert ledger_from("shop", None) == ()


@settings(deadline=None, max_examples=25)
@given(st.lists(st.sampled_from([DEAD, SUSPECT]), max_size=30))
def test_ledger_comes_back_with_every_state_and_certificate_and_counts_objects_as_gone(states) -> None:
    written = [
        incarnation(n, f"u{n}", state, since_s=float(1_800_000_000 + n), refusal="" if state is DEAD else "vanished")
        for n, state in enumerate(states)
    ]
    read = {i.uid: i for i in ledger_from("shop", through_the_api_server(history(), incarnations=written))}
    assert {uid: i.state for uid, i in read.items()} == {i.uid: i.state for i in written}
    for before in written:
        after = read[before.uid]
        assert (after.instance_ids, after.node_name, after.since_s) == (
            before.instance_ids,
            before.node_name,
            before.since_s,
        )
        assert (after.certificate is None) == (before.certificate is None)
        assert not after.object_present
        assert not after.from_birth


def test_entry_that_says_dead_without_a_certificate_is_a_suspect() -> None:
    """Whoever edits the status by hand cannot make evidence."""
    status = through_the_api_server(history(), incarnations=[incarnation(state=DEAD)]).to_wire()
    status["ledger"]["incarnations"][0]["certificate"] = None
    (read,) = ledger_from("shop", StaticGroupStatus.model_validate(status))
    assert read.state is SUSPECT


def test_live_incarnation_of_an_earlier_process_lives_until_a_list_decides_about_it() -> None:
    status = through_the_api_server(history(), incarnations=[incarnation(state=LIVE)])
    (read,) = ledger_from("shop", status)
    assert (read.state, read.object_present, read.resource_version) == (LIVE, True, LISTED)


def test_every_suspect_is_remembered_and_of_the_dead_the_newest_without_a_living_successor() -> None:
    kept = to_remember(
        [
            incarnation(0, "old", SUSPECT, resource_version=1),
            incarnation(0, "now", LIVE, resource_version=9),
            incarnation(1, "first", DEAD, resource_version=2),
            incarnation(1, "second", DEAD, resource_version=5),
            incarnation(2, "replaced", DEAD, resource_version=3),
            incarnation(2, "successor", LIVE, resource_version=8),
        ]
    )
    assert {i.uid for i in kept} == {"old", "second"}


def test_dead_incarnation_that_is_remembered_proves_the_id_after_a_restart() -> None:
    (kept,) = to_remember([incarnation(state=DEAD)])
    read = ledger_from("shop", through_the_api_server(history(), incarnations=[kept]))
    assert judge(id_of(2), read, continuous=True).is_proven


def test_suspects_win_over_the_dead_when_the_ledger_is_full() -> None:
    many = [incarnation(n, f"d{n}", DEAD) for n in range(INCARNATIONS_MAX)]
    ledger = wire_ledger([*many, incarnation(999, "s", SUSPECT)])
    assert ledger is not None
    assert len(ledger.incarnations) == INCARNATIONS_MAX
    assert "s" in {i.uid for i in ledger.incarnations}
    assert not ledger.overflow


def test_dead_whose_members_are_still_there_win_over_other_dead_when_the_ledger_is_full() -> None:
    """The newest departures are those that are not removed yet; the oldest may be kept for nobody."""
    many = [incarnation(n, f"d{n:03}", DEAD, since_s=NOW_S + n) for n in range(INCARNATIONS_MAX + 2)]
    last = frozenset({"d200", "d201"})
    ledger = wire_ledger(many, needed=last)
    assert ledger is not None
    kept = [i.uid for i in ledger.incarnations]
    assert len(kept) == INCARNATIONS_MAX
    assert kept == [f"d{n:03}" for n in range(198)] + ["d200", "d201"]


def test_need_does_not_reorder_a_ledger_that_holds_all() -> None:
    """A status that differed only in the order of its ledger would be a write for nothing."""
    many = [incarnation(n, f"d{n}", DEAD, since_s=NOW_S + n) for n in range(5)]
    assert wire_ledger(many, needed=frozenset({"d4"})) == wire_ledger(many)


def test_what_does_not_fit_into_the_ledger_is_named_until_no_session_can_outlast_it() -> None:
    many = [incarnation(n, f"d{n:03}", DEAD, since_s=NOW_S) for n in range(INCARNATIONS_MAX + 1)]
    live = incarnation(999, "living", LIVE)
    ledger = wire_ledger(many)
    assert unwritten([*many, live], ledger, NOW_S) == {"d200"}
    assert unwritten([*many, live], ledger, NOW_S + LONGEST_SESSION_S - 1) == {"d200"}
    assert unwritten([*many, live], ledger, NOW_S + LONGEST_SESSION_S) == frozenset()
    assert unwritten([live], None, NOW_S) == frozenset()
    assert unwritten(many[:1], None, NOW_S) == {"d000"}


def test_ledger_that_says_that_suspects_were_lost_holds_nothing_back_any_more() -> None:
    """Nothing is removed from now on, and one StaticGroup must not hold the position of the watch for all."""
    many = [incarnation(n, f"s{n}", SUSPECT) for n in range(INCARNATIONS_MAX + 1)]
    assert unwritten(many, wire_ledger(many), NOW_S) == frozenset()


def test_suspects_without_room_are_the_youngest_and_the_ledger_says_that_there_are_some() -> None:
    many = [incarnation(n, f"s{n:03}", SUSPECT, since_s=NOW_S + n) for n in range(INCARNATIONS_MAX + 2)]
    ledger = wire_ledger(many)
    assert ledger is not None
    assert ledger.overflow
    assert [i.uid for i in without_room(reversed(many))] == ["s200", "s201"]
    assert {i.uid for i in ledger.incarnations} == {i.uid for i in many[:-2]}
    fits = wire_ledger([*many[:-2], incarnation(900, "d", DEAD)])
    assert fits is not None
    assert (fits.overflow, without_room(many[:-2])) == (False, ())


def test_removals_are_bounded_and_the_unsettled_ones_are_kept() -> None:
    old = tuple(
        RemovalRecord(
            instance_id=id_of(n + 10),
            member_id=f"m{n}",
            coordinator=COORDINATOR,
            acknowledged_at_s=NOW_S - n,
            settled_at_s=None if n == 99 else NOW_S,
        )
        for n in range(REMOVALS_MAX)
    )
    (action,) = plan(spec(), departure(), history(), NOW_S).actions
    after = with_outcomes(history(removals=old), action.removals, [LeaveOutcome.REMOVED], COORDINATOR, NOW_S)
    assert len(after.removals) == REMOVALS_MAX
    kept = {r.instance_id for r in after.removals}
    assert {id_of(2), id_of(109)} <= kept
    assert id_of(108) not in kept


def test_unreadable_resource_version_in_a_status_is_the_oldest() -> None:
    status = through_the_api_server(history(), incarnations=[incarnation(state=SUSPECT)]).to_wire()
    status["ledger"]["incarnations"][0]["resourceVersion"] = ""
    (read,) = ledger_from("shop", StaticGroupStatus.model_validate(status))
    assert read.resource_version == 0


def test_certificate_kind_survives_so_that_audit_and_status_agree() -> None:
    never_ran = incarnation(
        state=DEAD,
        certificate=Certificate(kind=CertificateKind.NEVER_RAN, resource_version=5, statement="never bound"),
    )
    (read,) = ledger_from("shop", through_the_api_server(history(), incarnations=[never_ran]))
    assert read.certificate is not None
    assert (read.certificate.kind, read.certificate.statement) == (CertificateKind.NEVER_RAN, "never bound")


def confirmed_suspect() -> Incarnation:
    certificate = Certificate(
        kind=CertificateKind.CONFIRMED, resource_version=9, statement="confirmed by alice: scrapped", said_by="alice"
    )
    return incarnation(state=IncarnationState.DEAD, certificate=certificate)


def test_a_confirmed_end_survives_a_restart_as_a_suspect_with_the_name_of_who_said_it() -> None:
    """The values that an operator without words takes: it reads a suspect, and refuses the status for any other."""
    ledger = wire_ledger([confirmed_suspect()])
    assert ledger is not None
    (entry,) = ledger.to_wire()["incarnations"]
    assert entry["state"] in {"Live", "Suspect", "Dead"}
    assert entry.get("certificate") in {None, "E1", "E1Prime"}
    assert (entry["state"], entry["confirmedBy"], entry["evidence"]) == (
        "Suspect", "alice", "confirmed by alice: scrapped",
    )  # fmt: skip
    (read,) = ledger_from("shop", StaticGroupStatus(ledger=ledger))
    assert (read.state, read.certificate and read.certificate.kind) == (IncarnationState.DEAD, CertificateKind.CONFIRMED)
    assert read.certificate is not None
    assert (read.certificate.said_by, read.since_s) == ("alice", int(confirmed_suspect().since_s))


def test_a_ledger_that_an_operator_without_words_wrote_again_has_the_suspect_back() -> None:
    recorded = {
        "podName": "web-2", "uid": "u2", "instanceIds": ["web-2.3fa9c1d2"], "nodeName": "n1", "state": "Suspect",
        "evidence": "confirmed by alice: scrapped", "since": "2027-01-15T08:00:00Z", "resourceVersion": "9",
    }  # fmt: skip
    status = StaticGroupStatus.model_validate({"ledger": {"incarnations": [recorded]}})
    (read,) = ledger_from("shop", status)
    assert (read.state, read.certificate) == (IncarnationState.SUSPECT, None)


def test_a_word_beside_another_state_than_suspect_is_no_proof() -> None:
    recorded = {
        "podName": "web-2", "uid": "u2", "instanceIds": [], "state": "Live", "confirmedBy": "alice",
        "since": "2027-01-15T08:00:00Z",
    }  # fmt: skip
    status = StaticGroupStatus.model_validate({"ledger": {"incarnations": [recorded]}})
    (read,) = ledger_from("shop", status)
    assert (read.state, read.certificate) == (LIVE, None)


def test_status_of_another_staticgroup_says_nothing_of_versions_or_seats_here() -> None:
    """A StaticGroup that was brought from another cluster with its status: its suspects count, its numbers do not."""
    status = through_the_api_server(history(), incarnations=[incarnation(state=IncarnationState.SUSPECT, resource_version=10**9)])
    known = wire_continuity(replace(checkpoint(), group_uid="sg-there"))
    sealed_there = sealed(status.model_copy(update={"continuity": known}))
    assert history_from(sealed_there, "sg-there").continuity == replace(checkpoint(), group_uid="sg-there")
    assert history_from(sealed_there, "sg-here").continuity is None
    (there,), (here,) = ledger_from("shop", sealed_there, "sg-there"), ledger_from("shop", sealed_there, "sg-here")
    assert (there.resource_version, here.resource_version) == (10**9, LISTED)
    assert here.state is IncarnationState.SUSPECT


def test_operator_that_knows_no_namespaces_in_a_ledger_finds_what_the_next_one_wrote_unchanged() -> None:
    """An older CustomResourceDefinition prunes the field, so what proves that a status is whole does not rest on it."""
    elsewhere = incarnation(0, "stray", SUSPECT, namespace="bill", pod_name="canary-0")
    status = StaticGroupStatus(
        injected=wire_injected(spec(), injected()),
        continuity=wire_continuity(replace(checkpoint(), group_uid="sg-1")),
        ledger=wire_ledger([elsewhere], namespace="shop"),
    )
    wire = sealed(status).to_wire()
    (entry,) = wire["ledger"]["incarnations"]
    assert entry.pop("namespace") == "bill"
    pruned = StaticGroupStatus.model_validate(wire)
    assert is_sealed(pruned, "sg-1")
    (read,) = (i for i in ledger_from("shop", pruned, "sg-1") if i.uid == "stray")
    assert (read.namespace, read.state) == ("shop", SUSPECT)


def test_operator_that_knows_no_workers_in_what_is_injected_finds_what_the_next_one_wrote_unchanged() -> None:
    wish = spec(role="Connect", protocol="Auto", identity={"agent": "Inject"})
    continuity = wire_continuity(replace(checkpoint(), group_uid="sg-1"))
    wire = sealed(StaticGroupStatus(injected=wire_injected(wish, injected()), continuity=continuity)).to_wire()
    assert wire["injected"].pop("worker")
    assert is_sealed(StaticGroupStatus.model_validate(wire), "sg-1")


def test_fleets_value_of_a_group_is_what_was_wanted_and_not_what_others_made_of_it() -> None:
    """The group's setting is longer while others want more; kept as the fleet's it would never come down again."""
    told = {"source": "Fleet", "nextMs": 300_000, "ownMs": 60_000}
    status = StaticGroupStatus.model_validate({"protocol": "Consumer", "timeout": told})
    assert history_from(status, "sg-1").fleet_timeout_ms == 60_000
    del told["ownMs"]
    assert history_from(StaticGroupStatus.model_validate({"protocol": "Consumer", "timeout": told}), "sg-1").fleet_timeout_ms == 300_000
