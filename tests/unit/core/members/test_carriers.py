"""Carriers are the pods that were there when a member joined; later they only become fewer."""

from __future__ import annotations

import hashlib

import pytest

from staticgroup.core.members.carriers import DIGEST_LENGTH, UNATTRIBUTED, UNSEEN, Attribution, attribute, digest_of
from unit.core.builders import NOW_S


def attributed(*carrying: str, young: bool = False, ended: bool = False) -> frozenset[str]:
    """Carriers of a member that is described for the first time."""
    return attribute("m1", carrying=carrying, is_watch_young=young, has_one_ended=ended, now_s=NOW_S).carriers


def test_the_pods_that_carry_the_id_when_a_member_is_described_first_may_hold_it() -> None:
    assert attributed("u1", "z") == {"u1", "z"}
    assert attributed("u1", ended=True) == {"u1"}


def test_while_the_watch_is_young_an_unseen_pod_may_hold_it_too() -> None:
    assert attributed("u1", young=True) == {"u1", UNSEEN}
    assert attributed(young=True) == {UNSEEN}
    assert attributed(young=True, ended=True) == {UNSEEN}


def test_member_that_no_pod_explains_is_unattributed_for_an_empty_set_alone_proves_nothing() -> None:
    assert attributed() == {UNATTRIBUTED}


def test_member_whose_pod_ended_since_the_description_before_is_dead_when_it_is_described() -> None:
    assert attributed(ended=True) == frozenset()


def test_attribution_has_member_and_time() -> None:
    found = attribute("m1", carrying=("u1",), is_watch_young=False, has_one_ended=False, now_s=NOW_S)
    assert (found.member, found.first_seen_s) == (digest_of("m1"), NOW_S)
    assert found.is_of("m1")
    assert not found.is_of("m2")


def known(*carriers: str) -> Attribution:
    return Attribution(member=digest_of("m1"), first_seen_s=NOW_S, carriers=frozenset(carriers))


def test_certificate_takes_its_pod_out_and_nothing_else() -> None:
    assert known("u1", "z").without({"u1", "u9"}).carriers == {"z"}
    assert known("u1").without({"u1"}).carriers == frozenset()
    assert known("u1").without({"u1"}).first_seen_s == NOW_S


@pytest.mark.parametrize("name", [UNSEEN, UNATTRIBUTED])
def test_unseen_pod_never_ends(name: str) -> None:
    assert known(name, "u1").without({"u1", "u2"}).carriers == {name}
    assert known(name).is_guessed
    assert known(name, "u1").is_guessed


def test_attribution_that_loses_no_carrier_is_the_same() -> None:
    it = known("u1")
    assert it.without({"u9"}) is it
    assert it.without(()) is it


def test_member_of_pods_that_were_seen_is_not_guessed() -> None:
    assert not known("u1", "z").is_guessed
    assert not known().is_guessed


def test_digest_is_the_beginning_of_a_sha_256_of_the_member_id() -> None:
    assert digest_of("web-0-3f2b") == hashlib.sha256(b"web-0-3f2b").hexdigest()[:DIGEST_LENGTH]
    assert digest_of("m1") != digest_of("m2")
