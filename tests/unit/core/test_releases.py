"""What a crashed member may be released for: each clause of the rule, and what is reported when one does not hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.api.reasons import Reason
from staticgroup.api.resources.status import IssueKind
from staticgroup.core.evidence.chain import ContainerEnd, KnownPod
from staticgroup.core.findings import Obstacle
from staticgroup.core.findings.issues import findings_of_seats
from staticgroup.core.group import BrokerBounds, GroupType, MemberView, SessionBounds
from staticgroup.core.guards import Guard
from staticgroup.core.members.carriers import UNATTRIBUTED, UNSEEN
from staticgroup.core.plan import plan
from staticgroup.core.releases import MARGIN_S, ReleaseGuard
from staticgroup.core.seats import Standing
from staticgroup.core.snapshot import History, Snapshot
from unit.core.builders import (
    NOW_S,
    SCOPE,
    attributed,
    evidence,
    group,
    history,
    id_of,
    injected,
    known_pod,
    member,
    members,
    sight,
    spec,
)
from unit.core.plans import present, read_keys

from .crashed_members import (
    DEAD,
    ENDED_S,
    GHOST,
    SUSPECT,
    consumers,
    crash,
    crashed_pod,
    end,
    is_silent,
    only_guard,
    planned,
    read,
    record,
    released,
    remembered,
    run,
)

# what is released -----------------------------------------------------------------------------------------------------


def test_member_of_a_process_that_is_over_is_released_by_both_of_its_ids() -> None:
    decided = planned()
    assert released(decided) == [GHOST]
    assert decided.actions == ()
    (release,) = decided.releases
    assert (release.ordinal, release.pod.uid) == (0, "u0")
    assert "containerd://app-a ended at 2027-01-15T07:59:57Z" in release.evidence


def test_nothing_is_released_by_default_and_the_pod_is_named_with_its_remedy() -> None:
    snapshot = crash()
    decided = plan(spec(groupProtocol="Auto"), snapshot, remembered(), NOW_S)
    assert only_guard(decided) == ReleaseGuard.REPORT_ONLY
    (finding,) = findings_of_seats(spec(), decided, snapshot)
    assert (finding.kind, finding.subject.pod_name, finding.subject.instance_id) == (
        IssueKind.MISSING, "web-0", id_of(0),
    )
    assert "2027-01-15T07:59:57Z" in finding.text
    assert "spec.removal" in finding.text
    assert finding.text.endswith("kubectl -n shop delete pod web-0")
    assert len(finding.text) <= 300
    assert decided.table is not None
    assert [seat.key for seat in decided.table.of(Standing.LOCKED_OUT)] == [id_of(0)]


def test_group_is_described_again_soon_after_a_release() -> None:
    assert planned().requeue_after_s <= 1


# each clause: the letters are those of the sections below -------------------------------------------------------------

NEVER_SEEN = history(members=members(attributions={}))
"""As after a restart of the operator."""
SLOW = end(doubt="the clock of node n1 is ahead")
COLLISION = Obstacle(reason=Reason.CONFLICTING_STATIC_GROUPS, sentence="both write INSTANCE_ID", remedy="change one")
TWICE = group(
    member(0, member_epoch=5), member(0, "m0x", member_epoch=5), member(1, member_epoch=5),
    group_type=GroupType.CONSUMER, group_epoch=5, assignment_epoch=5,
)  # fmt: skip


def behind_the_read(pod: KnownPod) -> Snapshot:
    """What becomes of a pod between the description and the barrier is known only then."""
    return crash(evidence=evidence({id_of(0): (pod,)}, {id_of(0): read()}))


def crashed(*runs: ContainerEnd, **changes: Any) -> dict[str, Any]:
    return {"snapshot": crash(crashed_pod(*runs, **changes))}


def among(*ghost: MemberView, **changes: Any) -> dict[str, Any]:
    return {"snapshot": crash(group=consumers(*ghost, **changes))}


HOLDS: dict[str, tuple[dict[str, Any], str]] = {
    "Observe": ({"mode": "Observe"}, ReleaseGuard.REPORT_ONLY),
    "Departed": ({"removal": "Departed"}, ReleaseGuard.REPORT_ONLY),
    "Never": ({"removal": "Never"}, ReleaseGuard.REPORT_ONLY),
    "suspended": ({"mode": "Suspended"}, Guard.SUSPENDED),
    **{
        f"a. carriers {uids}": ({"memory": remembered(carriers=uids)}, ReleaseGuard.OTHER_PROCESS)
        for uids in (("u0", "z"), ("z",), (UNSEEN, "u0"), (UNATTRIBUTED,), ())
    },
    # Its kubelet or runtime has started another run in place of one that may live.
    "a. a run was lost": (crashed(has_lost_run=True), ReleaseGuard.OTHER_PROCESS),
    "a. two are described": ({"snapshot": crash(group=TWICE)}, Guard.DUPLICATE),
    "a. another makes the id": ({"snapshot": crash(overlaps=("shop/other",))}, Guard.CONFLICT),
    "a. another writes the variable": ({"snapshot": crash(collisions=(COLLISION,))}, Guard.CONFLICT),
    "a. a pod is out of sight": ({"snapshot": crash(pods=(crashed_pod(),))}, Guard.PODS_UNSEEN),
    "b. one end of two is doubted": (crashed(run(), run("second", end=SLOW)), ReleaseGuard.END_DOUBTED),
    "e. not read": ({"snapshot": crash(evidence=evidence({id_of(0): (crashed_pod(),)}, {}))}, Guard.NOT_READ_AFRESH),
    **{
        f"e. read {objects}": ({"snapshot": crash(reads=read(objects=objects))}, ReleaseGuard.POD_REPLACED)
        for objects in ((), (("web-0", "u7"),), (("web-0", "u0"), ("web-00", "u7")))
    },
    "e. not wanted any more": ({"snapshot": crash(reads=read(is_expected=False))}, ReleaseGuard.NOT_WANTED),
    "e. watch behind the read": ({"snapshot": crash(reads=read(barrier_passed=False))}, Guard.NO_BARRIER),
    "e. a run was lost behind the read": (
        {"snapshot": behind_the_read(crashed_pod(has_lost_run=True))}, ReleaseGuard.OTHER_PROCESS,
    ),
    "f. released before": ({"memory": remembered(release=record())}, ReleaseGuard.RELEASED_BEFORE),
}  # fmt: skip


@pytest.mark.parametrize(("asked", "guard"), HOLDS.values(), ids=HOLDS.keys())
def test_each_doubt_holds_the_release_under_its_own_name(asked: dict[str, Any], guard: str) -> None:
    assert only_guard(planned(**asked)) == guard


SILENT: dict[str, dict[str, Any]] = {
    **{f"a. {kind.value} group": among(group_type=kind) for kind in GroupType if kind is not GroupType.CONSUMER},
    "a. has left for a while": among(member(0, member_epoch=-2)),
    "a. dynamic": among(MemberView(member_id="m0", instance_id=None, member_epoch=5)),
    "a. another id": among(member(0, instance_id="web-0.somebody", member_epoch=5)),
    "a. the pod carries another id": crashed(instance_ids=frozenset({"web-0.somebody"})),
    "c. no run was seen": {"snapshot": crash(known_pod(0, "u0"))},
    # A pod that is gone or proven dead is a matter of certificates.
    "c. proven dead": crashed(state=DEAD),
    "c. suspect": crashed(state=SUSPECT),
    "d. never described before": {"memory": NEVER_SEEN},
    "d. never described, no barrier": {
        "snapshot": crash(sight=sight(ended=frozenset(), has_passed=False)), "memory": NEVER_SEEN,
    },
    # It is not older because its predecessor was.
    "d. another member": among(member(0, "newcomer", member_epoch=5)),
    "e. proven dead behind the read": {"snapshot": behind_the_read(crashed_pod(state=DEAD, object_present=True))},
}  # fmt: skip


@pytest.mark.parametrize("asked", SILENT.values(), ids=SILENT.keys())
def test_what_is_no_ghost_of_a_crash_is_left_alone(asked: dict[str, Any]) -> None:
    assert is_silent(planned(**asked))


# a. the seat is one of this StaticGroup -------------------------------------------------------------------------------


def test_carrier_that_has_ended_since_does_not_hold() -> None:
    snapshot = crash(sight=sight(ended=frozenset({"u-1"})))
    assert released(planned(snapshot, remembered(carriers=("u0", "u-1")))) == [GHOST]


def unscoped() -> tuple[Snapshot, History]:
    """The member has the pod's name for its id."""
    pod = crashed_pod(instance_ids=frozenset({"web-0"}))
    snapshot = crash(
        pod,
        evidence=evidence({"web-0": (pod,)}, {"web-0": read()}),
        group=consumers(member(0, instance_id="web-0", member_epoch=5)),
    )
    return snapshot, replace(remembered(key="web-0"), injected=injected(id_template="{podName}"))


def test_id_that_another_cluster_may_issue_is_held_unless_it_is_exclusive() -> None:
    assert only_guard(planned(*unscoped(), idTemplate="{podName}")) == Guard.UNSCOPED
    assert released(planned(*unscoped(), idTemplate="{podName}", assumeExclusive=True)) == [("m0", "web-0")]


def test_crash_beside_an_id_that_the_application_brings_may_be_that_of_a_sidecar() -> None:
    """The application may take its host name in a container that shows nothing; no advice says that it is dead."""
    decided = planned(*unscoped(), idTemplate="{podName}", assumeExclusive=True, client={"type": "Own"})
    assert released(decided) == []
    (found,) = decided.locked_out
    assert (found.reason, "DepartedAndCrashed" in found.text) == ("ProcessMayLive", False)
    assert found.sentence.startswith("its process may have ended at")


def test_crash_of_a_container_that_is_not_to_have_the_id_may_be_that_of_a_sidecar() -> None:
    """Until the pods are restarted, an application that brought its ids may hold one in a container that shows none."""
    decided = planned(crash(crashed_pod(run("telemetry"))))
    assert only_guard(decided) == ReleaseGuard.PROCESS_MAY_LIVE
    assert "container app should have this id" in decided.locked_out[0].text


# b. the end was reported by the kubelet -------------------------------------------------------------------------------


def test_end_that_is_doubted_is_held_with_the_reason() -> None:
    decided = planned(crash(crashed_pod(run(end=end(doubt="the pod uses hostPID")))))
    assert only_guard(decided) == ReleaseGuard.END_DOUBTED
    assert "hostPID" in decided.locked_out[0].text


# c. every container that can hold the id ---------------------------------------------------------------------------


def test_container_that_goes_on_may_be_the_members_and_is_named() -> None:
    decided = planned(crash(crashed_pod(run(), run("second", end=None))))
    assert only_guard(decided) == ReleaseGuard.PROCESS_MAY_LIVE
    (finding,) = findings_of_seats(spec(), decided, crash())
    assert "container second can hold this id too" in finding.text
    assert finding.text.endswith("kubectl -n shop delete pod web-0")


def test_container_that_can_only_hold_another_id_says_nothing_of_this_one() -> None:
    """Two consumers in two containers, each with an id of its own: the one crashes, the other goes on."""
    pod = crashed_pod(
        run(only_ids=frozenset({id_of(0)})), run("second", end=None, only_ids=frozenset({f"web-0b.{SCOPE}"}))
    )
    assert released(planned(crash(pod))) == [GHOST]


def test_a_doubt_is_reported_only_until_the_session_would_be_over() -> None:
    """After that a member that is there proves itself that it lives, as when only a sidecar was restarted."""
    pod = crashed_pod(run(), run("second", end=None))
    for ended_s, is_reported in ((NOW_S - 54, True), (NOW_S - 56, False)):
        early = replace(pod, ends=(run(end=end(finished_at_s=ended_s)), run("second", end=None)))
        sessions = {GroupType.CONSUMER: SessionBounds(min_ms=45_000, max_ms=60_000, group_ms=45_000)}
        decided = planned(crash(early, bounds=BrokerBounds(sessions=sessions)), remembered(NOW_S - 900))
        assert (decided.locked_out != ()) is is_reported
        assert decided.releases == ()


# d. the member is older than the end -------------------------------------------------------------------------------


def test_member_that_was_described_less_than_the_margin_before_the_end_is_only_named() -> None:
    decided = planned(memory=remembered(ENDED_S - MARGIN_S))
    assert only_guard(decided) == ReleaseGuard.PROCESS_MAY_LIVE
    assert "less than 10 s before that" in decided.locked_out[0].text
    assert is_silent(planned(memory=remembered(ENDED_S + 1)))


def test_every_end_is_later_than_the_member() -> None:
    """A container that ended before may have started the member again since."""
    early = run("second", end=end(finished_at_s=ENDED_S - 60))
    assert only_guard(planned(crash(crashed_pod(run(), early)))) == ReleaseGuard.PROCESS_MAY_LIVE
    assert released(planned(crash(crashed_pod(run(), early)), remembered(ENDED_S - 60 - MARGIN_S - 1))) == [GHOST]


def test_member_is_remembered_since_it_was_described_first() -> None:
    before = crash(
        known_pod(0, "u0"),
        sight=sight(ended=frozenset(), dated_at_s=NOW_S - 50, carrying={id_of(0): frozenset({"u0"})}),
    )
    first = plan(spec(groupProtocol="Auto"), before, NEVER_SEEN, NOW_S - 50).history
    assert first.members.first_seen_s(id_of(0), "m0") == NOW_S - 50
    second = plan(spec(groupProtocol="Auto"), crash(), first, NOW_S).history
    assert second.members.first_seen_s(id_of(0), "m0") == NOW_S - 50
    other = crash(
        group=consumers(member(0, "m7", member_epoch=5)), sight=sight(ended=frozenset(), dated_at_s=NOW_S + 5)
    )
    third = plan(spec(groupProtocol="Auto"), other, second, NOW_S + 5).history
    since = {member_id: third.members.first_seen_s(id_of(0), member_id) for member_id in ("m0", "m7")}
    assert since == {"m0": NOW_S - 50, "m7": NOW_S + 5}, "each its own"


def test_crash_is_dated_by_the_end_that_locked_the_seat_not_by_each_start_that_was_refused_since() -> None:
    first = planned(removal="Departed")
    refused = crash(
        crashed_pod(run(end=end(container_id="containerd://app-b", finished_at_s=NOW_S + 20, received_at_s=NOW_S + 20)))
    )
    later = plan(spec(groupProtocol="Auto"), refused, first.history, NOW_S + 21)
    assert only_guard(later) == ReleaseGuard.REPORT_ONLY
    assert later.locked_out[0].text == first.locked_out[0].text
    # Of the next ghost of the seat it is another one.
    other = replace(refused, group=consumers(member(0, "m9", member_epoch=5)))
    memory = replace(
        first.history, members=members(attributions={id_of(0): attributed("m9", "u0", first_seen_s=NOW_S)})
    )
    again = plan(spec(groupProtocol="Auto"), other, memory, NOW_S + 21)
    assert "2027-01-15T08:00:20Z" in again.locked_out[0].text


def test_crash_that_is_proven_after_it_was_doubted_is_dated_anew() -> None:
    """The first end was of the one container, and the member may have been of the other, which ended later."""
    doubted = plan(spec(groupProtocol="Auto"), crash(crashed_pod(run(), run("second", end=None))), remembered(), NOW_S)
    later = run("second", end=end(finished_at_s=NOW_S + 20, received_at_s=NOW_S + 20))
    proven = plan(spec(groupProtocol="Auto"), crash(crashed_pod(run(), later)), doubted.history, NOW_S + 21)
    assert only_guard(proven) == ReleaseGuard.REPORT_ONLY
    assert "2027-01-15T08:00:20Z" in proven.locked_out[0].text


# e. the order ------------------------------------------------------------------------------------------------------


def test_seat_is_read_afresh_only_when_nothing_else_stands_against_a_release() -> None:
    def needed(snapshot: Snapshot, **changes: Any) -> list[str]:
        wanted = spec(**({"groupProtocol": "Auto", "removal": "DepartedAndCrashed"} | changes))
        return read_keys(wanted, snapshot, remembered())

    assert needed(crash()) == [id_of(0)]
    for pod in (crashed_pod(run(end=end(doubt="late"))), crashed_pod(state=DEAD, object_present=True)):
        assert needed(crash(pod)) == []
    for changes in ({"removal": "Never"}, {"removal": "Departed"}, {"mode": "Observe"}):
        assert needed(crash(), **changes) == []


def test_advice_to_release_is_only_given_where_the_operator_may_act() -> None:
    for changes, is_advised in (({"removal": "Departed"}, True), ({"mode": "Observe"}, False)):
        (finding,) = planned(**changes).locked_out
        assert ("set spec.removal to DepartedAndCrashed" in finding.text) is is_advised
        assert finding.text.endswith("kubectl -n shop delete pod web-0")


# f. once -----------------------------------------------------------------------------------------------------------


def test_next_member_of_a_seat_that_was_released_once_is_released() -> None:
    assert released(planned(memory=remembered(release=record("m-before")))) == [GHOST]


def test_release_is_verified_when_the_member_has_left_or_another_one_holds_the_seat() -> None:
    def settled(ghost: MemberView) -> bool:
        decided = planned(crash(group=consumers(ghost)), remembered(release=record()))
        return present(decided.history.seats[id_of(0)].release).settled_at_s is not None

    assert not settled(member(0, member_epoch=5))
    assert settled(member(0, member_epoch=-2))
    assert settled(member(0, "m7", member_epoch=5))


def test_pod_that_stays_ready_after_its_release_and_does_not_join_is_named_with_its_remedy() -> None:
    """What librdkafka does when its process was refused before the release."""
    snapshot = crash(group=consumers(member(0, member_epoch=-2)))
    decided = planned(snapshot, remembered(release=record()))
    (finding,) = findings_of_seats(spec(), decided, snapshot)
    assert finding.reason == "ReadyButNotJoined"
    assert finding.text.endswith("kubectl -n shop delete pod web-0")
    unready = crash(crashed_pod(ready_since_s=None), group=consumers(member(0, member_epoch=-2)))
    assert list(findings_of_seats(spec(), planned(unready, remembered(release=record())), unready)) == []
