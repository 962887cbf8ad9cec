"""The pod of a member by its address, only where the address is unambiguous."""

from __future__ import annotations

from typing import Any

import pytest

from staticgroup.core.evidence.chain import KnownPod
from staticgroup.core.members.carriers import Suspect, pod_of
from unit.core.builders import NOW_S, known_pod, member, suspect

ADDRESS = "10.0.0.7"


def pod(uid: str = "u2", address: str = ADDRESS, shown_at_s: float = NOW_S - 60) -> KnownPod:
    return known_pod(uid=uid, addresses=(address,), shown_at_s=shown_at_s)


def spoken(*live: KnownPod, suspects: tuple[Suspect, ...] = (), **changes: Any) -> str | None:
    values: dict[str, Any] = {"client_host": f"/{ADDRESS}", "is_host_current": True}
    return pod_of(member(2, **(values | changes)), live, suspects, described_at_s=NOW_S)


def test_address_of_a_member_names_the_one_live_pod_that_has_it() -> None:
    assert spoken(pod(), pod("u9", "10.0.0.9")) == "u2"
    assert spoken(pod(), client_host=ADDRESS) == "u2", "Kafka writes it with a slash, others may not"


def test_static_member_of_a_classic_group_shows_the_address_of_the_first_that_joined_with_its_id() -> None:
    assert spoken(pod(), is_host_current=False) is None


@pytest.mark.parametrize("host", ["", "/", "/10.0.0.8"])
def test_unknown_address_names_no_pod(host: str) -> None:
    assert spoken(pod(), client_host=host) is None


def test_pod_in_its_nodes_network_has_no_address_of_its_own() -> None:
    assert spoken(known_pod(addresses=(), shown_at_s=NOW_S - 60)) is None


def test_address_of_two_pods_names_neither() -> None:
    """As behind a network that gives it again before the first one's end is seen."""
    assert spoken(pod(), pod("u9")) is None


def test_address_that_a_suspect_had_may_be_its_own_still() -> None:
    assert spoken(pod(), suspects=(suspect(addresses=frozenset({ADDRESS})),)) is None
    assert spoken(pod(), suspects=(suspect(addresses=frozenset({"10.0.0.9"})),)) == "u2"


def test_suspect_that_has_shown_no_address_may_have_had_any() -> None:
    assert spoken(pod(), suspects=(suspect(addresses=frozenset()),)) is None


@pytest.mark.parametrize("shown_at_s", [NOW_S, NOW_S + 1])
def test_pod_that_had_not_shown_its_address_when_the_group_was_asked_for_is_not_the_members(shown_at_s: float) -> None:
    """The member may have joined from it when another pod had it."""
    assert spoken(pod(shown_at_s=shown_at_s)) is None


def test_address_of_several_families_is_one_of_them() -> None:
    both = known_pod(addresses=("fd00::7", ADDRESS), shown_at_s=NOW_S - 60)
    assert spoken(both) == "u2"
    assert spoken(both, client_host="/fd00::7") == "u2"
