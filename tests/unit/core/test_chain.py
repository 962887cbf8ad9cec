"""Incarnations fold from versions; a chain proves an id dead only as a whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticgroup.core.evidence.chain import ChainClause, Incarnation, IncarnationState, fold, judge, predates, vanish

from .builders import NODE, NOW_S, ended, id_of, incarnation, pod_version, terminated

DEAD, LIVE, SUSPECT = IncarnationState.DEAD, IncarnationState.LIVE, IncarnationState.SUSPECT


def folded(*versions: object, birth: bool = True) -> Incarnation:
    known: Incarnation | None = None
    for version in versions:
        known = fold(known, version, NODE, from_birth=birth, now_s=NOW_S)
    assert known is not None
    return known


def test_graceful_end_folds_to_dead_and_stays_dead_when_the_object_goes() -> None:
    life = folded(pod_version(), pod_version(resource_version=105, is_deleting=True), ended())
    assert life.state is DEAD
    gone = vanish(life, now_s=NOW_S + 1)
    assert (gone.state, gone.object_present) == (DEAD, False)
    assert gone.certificate == life.certificate


def test_force_delete_makes_a_suspect_that_names_what_was_last_seen() -> None:
    gone = vanish(folded(pod_version()), now_s=NOW_S)
    assert gone.state is SUSPECT
    assert "phase is Running" in gone.refusal
    assert gone.refusal_reason == "NotTerminal"


def test_run_of_each_container_is_remembered_over_versions() -> None:
    """The statuses of a container that the kubelet lost show none of its runs any more."""
    both = pod_version(started_containers=frozenset({"app", "sidecar"}))
    life = folded(both, pod_version(resource_version=105, started_containers=frozenset({"app"})))
    assert life.started_containers == {"app", "sidecar"}
    lost = terminated("sidecar", container_id="", finished_at="", reason="ContainerStatusUnknown")
    assert fold(life, ended(required=(terminated(), lost)), NODE, from_birth=True, now_s=NOW_S).state is LIVE
    alone = folded(pod_version(), ended(required=(terminated(), lost)))
    assert (alone.state, alone.refusal, alone.refusal_reason) == (DEAD, "", "")


def test_incarnation_whose_end_nobody_saw_says_so() -> None:
    unseen = vanish(incarnation(refusal=""), now_s=NOW_S)
    assert (unseen.refusal_reason, unseen.refusal) == ("EndUnseen", "its object vanished uncertified: its end was not seen")


def test_certificate_is_never_taken_back_by_a_later_version() -> None:
    assert folded(pod_version(), ended(), pod_version(resource_version=120)).state is DEAD


def test_certificate_given_before_a_taint_outlives_it_and_none_is_given_under_it() -> None:
    """What a kubelet has proven stays proven when its node is tainted out-of-service later; a new end proves nothing."""
    taint = replace(NODE, is_out_of_service=True)
    before = fold(folded(pod_version(), ended()), ended(resource_version=120), taint, from_birth=True, now_s=NOW_S)
    under = fold(folded(pod_version()), ended(), taint, from_birth=True, now_s=NOW_S)
    assert (before.state, under.state) == (DEAD, LIVE)
    assert vanish(under, now_s=NOW_S).state is SUSPECT


def test_failed_of_the_out_of_service_path_of_podgc_ends_as_a_suspect() -> None:
    """A crash's stale `terminated`, then PodGC's Failed without a reason, then its deletion with grace 0."""
    crashed = pod_version(required=(terminated(),))
    failed = ended(phase="Failed", phase_manager="kube-controller-manager")
    gone = vanish(folded(pod_version(), crashed, failed), now_s=NOW_S)
    assert gone.state is SUSPECT
    assert "written by kube-controller-manager" in gone.refusal


def test_ids_only_accumulate_so_an_edited_annotation_cannot_hide_an_incarnation() -> None:
    life = folded(pod_version(), pod_version(resource_version=101, instance_ids=frozenset({"other"})))
    assert life.instance_ids == {id_of(2), "other"}


def test_pod_that_is_seen_again_after_its_absence_is_alive() -> None:
    back = fold(
        vanish(folded(pod_version()), now_s=NOW_S),
        pod_version(resource_version=130),
        NODE,
        from_birth=False,
        now_s=NOW_S,
    )
    assert (back.state, back.object_present) == (LIVE, True)


def test_unbound_pod_is_certified_only_when_the_watch_delivered_its_deletion() -> None:
    """Where only the absence is known, it may have been bound and have run unseen."""
    last = pod_version(node_name="", phase="Pending", required=(), started_containers=frozenset())
    assert vanish(folded(last), now_s=NOW_S).state is SUSPECT
    assert vanish(folded(last), last=last, now_s=NOW_S).state is DEAD
    assert vanish(folded(pod_version(), last), last=last, now_s=NOW_S).state is SUSPECT


def judged(*incarnations: Incarnation, continuous: bool = True) -> ChainClause:
    return judge(id_of(2), incarnations, continuous=continuous).clause


def test_chain_of_only_dead_incarnations_is_proven() -> None:
    assert judged(incarnation(state=DEAD), incarnation(uid="u3", state=DEAD)) is ChainClause.PROVEN


def test_empty_chain_proves_nothing() -> None:
    assert judged() is ChainClause.UNSEEN


def test_chain_without_anyone_seen_carrying_exactly_this_id_proves_nothing() -> None:
    assert judged(incarnation(state=DEAD, instance_ids=frozenset({"web-2"}))) is ChainClause.UNSEEN


def test_one_suspect_among_the_dead_holds_the_whole_chain() -> None:
    assert judged(incarnation(state=DEAD), incarnation(uid="zombie", state=SUSPECT)) is ChainClause.SUSPECT


def test_suspect_of_the_same_pod_name_counts_even_without_the_id() -> None:
    assert (
        judged(incarnation(state=DEAD), incarnation(uid="z", state=SUSPECT, instance_ids=frozenset()))
        is ChainClause.SUSPECT
    )


def test_live_incarnation_holds_the_chain() -> None:
    assert judged(incarnation(state=DEAD), incarnation(uid="u3")) is ChainClause.LIVE


NAMESAKE = incarnation(uid="n2", instance_ids=frozenset({"web-2.x.3fa9c1d2"}))


def test_live_pod_of_the_name_that_carries_only_other_ids_holds_the_chain_and_is_named() -> None:
    """Its ids may come from annotations, which can be edited and are read again when a container starts."""
    verdict = judge(id_of(2), [incarnation(state=DEAD), NAMESAKE], continuous=True)
    assert verdict.clause is ChainClause.NAMESAKE
    assert not verdict.is_proven
    assert "pod shop/web-2 (uid n2) carries web-2.x.3fa9c1d2 now" in verdict.sentence
    assert "leaves when its session expires" in verdict.remedy


def test_live_pod_of_the_name_is_named_also_when_the_carrier_is_not_remembered() -> None:
    """After a restart the ledger holds no dead incarnation of a name that lives."""
    assert judged(NAMESAKE) is ChainClause.NAMESAKE


def test_live_carrier_is_named_before_a_pod_with_other_ids() -> None:
    assert judged(NAMESAKE, incarnation(uid="u9", resource_version=999)) is ChainClause.LIVE


def test_live_pod_of_the_name_whose_ids_are_not_known_may_carry_any() -> None:
    assert judged(incarnation(state=DEAD), incarnation(uid="u3", instance_ids=frozenset())) is ChainClause.LIVE


def test_suspect_counts_before_a_live_pod_with_other_ids() -> None:
    assert judged(incarnation(state=DEAD), incarnation(uid="z", state=SUSPECT), NAMESAKE) is ChainClause.SUSPECT


RULED_OUT = replace(NAMESAKE, from_birth=True, ids_are_fixed=True)


def test_live_pod_of_the_name_that_can_never_hold_the_id_leaves_the_verdict_to_the_carriers() -> None:
    """Every version of it was seen, and none could take an id from what can be edited."""
    verdict = judge(id_of(2), [incarnation(state=DEAD), RULED_OUT], continuous=True)
    assert verdict.is_proven
    assert [i.uid for i in verdict.incarnations] == ["u2"]
    assert [i.uid for i in verdict.ruled_out] == ["n2"]
    assert "1 of 1 incarnations proven dead" in verdict.sentence
    assert "pod shop/web-2 (uid n2) cannot hold this id" in verdict.sentence


def test_live_pod_of_the_name_holds_the_chain_unless_it_is_known_from_birth_and_its_ids_are_fixed() -> None:
    for known, fixed in ((False, False), (True, False), (False, True)):
        pod = replace(NAMESAKE, from_birth=known, ids_are_fixed=fixed)
        assert judged(incarnation(state=DEAD), pod) is ChainClause.NAMESAKE


def test_live_pod_that_was_ever_seen_with_the_id_is_never_ruled_out() -> None:
    """As after an edit of its annotation, or with a debug container that was given the id."""
    both = replace(RULED_OUT, instance_ids=RULED_OUT.instance_ids | {id_of(2)})
    assert judged(incarnation(state=DEAD), both) is ChainClause.LIVE


def test_live_pod_without_any_id_is_never_ruled_out() -> None:
    assert judged(incarnation(state=DEAD), replace(RULED_OUT, instance_ids=frozenset())) is ChainClause.LIVE


def test_pod_that_is_ruled_out_proves_nothing_by_itself() -> None:
    """Where no carrier was seen, all of them being dead says nothing."""
    assert judged(RULED_OUT) is ChainClause.NAMESAKE
    former = incarnation(uid="n1", state=DEAD, instance_ids=NAMESAKE.instance_ids)
    assert judged(former, RULED_OUT) is ChainClause.NAMESAKE


def test_one_pod_that_is_ruled_out_excuses_no_other_of_the_name() -> None:
    assert judged(incarnation(state=DEAD), RULED_OUT, NAMESAKE) is ChainClause.NAMESAKE
    assert judged(incarnation(state=DEAD), RULED_OUT, incarnation(uid="u9")) is ChainClause.LIVE
    suspect = incarnation(uid="z", state=SUSPECT, instance_ids=RULED_OUT.instance_ids)
    assert judged(incarnation(state=DEAD), RULED_OUT, suspect) is ChainClause.SUSPECT


def test_pod_that_was_ruled_out_and_vanishes_is_a_suspect_like_any_other() -> None:
    gone = vanish(RULED_OUT, now_s=NOW_S)
    assert judged(incarnation(state=DEAD), gone) is ChainClause.SUSPECT


def test_gap_holds_also_beside_a_pod_that_is_ruled_out() -> None:
    assert judged(incarnation(state=DEAD), RULED_OUT, continuous=False) is ChainClause.GAP


def test_ids_are_fixed_only_while_they_were_so_in_all_versions() -> None:
    fixed = pod_version(ids_are_fixed=True)
    assert folded(fixed, replace(fixed, resource_version=101)).ids_are_fixed
    edited = pod_version(resource_version=101)
    assert not folded(fixed, edited).ids_are_fixed
    assert not folded(edited, replace(fixed, resource_version=102)).ids_are_fixed
    assert not folded(fixed, edited, replace(fixed, resource_version=102)).ids_are_fixed


def test_gap_in_the_watch_outweighs_any_certificate() -> None:
    assert judged(incarnation(state=DEAD), continuous=False) is ChainClause.GAP


states = st.sampled_from([DEAD, LIVE, SUSPECT])


@given(st.lists(states, max_size=6), st.booleans(), st.randoms())
def test_chain_is_proven_exactly_when_continuous_nonempty_and_all_dead_in_any_order(chain, continuous, rng) -> None:
    incarnations = [incarnation(uid=f"u{n}", state=s) for n, s in enumerate(chain)]
    rng.shuffle(incarnations)
    verdict = judge(id_of(2), incarnations, continuous=continuous)
    assert verdict.is_proven == (continuous and bool(chain) and set(chain) == {DEAD})


@pytest.mark.parametrize(
    ("created_at_s", "gone_since_s", "is_nobodys"),
    [(800.0, 900.0, True), (800.0, 950.0, False), (1100.0, 200.0, False), (0.0, 900.0, True)],
    ids=["gone before", "gone about then", "made after it, by an operator's clock that is behind", "of a ledger, which tells no creation"],
)
def test_suspect_predates_ids_only_if_it_was_gone_before_anybody_knew_them(
    created_at_s: float, gone_since_s: float, is_nobodys: bool
) -> None:
    """The StaticGroup was made at 1,000 s by the API server's clock, as the pod was; when it was gone tells the operator's."""
    gone = incarnation(
        state=IncarnationState.SUSPECT, object_present=False, created_at_s=created_at_s, since_s=gone_since_s,
        instance_ids=frozenset({"other"}),
    )
    assert predates(gone, "web-2.3fa9c1d2", issued_since_s=1000.0) is is_nobodys
