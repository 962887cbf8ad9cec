"""Which pods may hold an id."""

from __future__ import annotations

from typing import Any

import pytest

from staticgroup.core.ids.naming import HeldSeat, Naming, naming_of
from unit.core.builders import SCOPE, history, id_of, injected, known_pod, spec, suspect


def naming(**changes: Any) -> Naming:
    return naming_of(spec(), history(injected=injected(), **changes))


SEAT = HeldSeat(id_of(2), naming(), "shop")
OTHER = frozenset({f"web-2.x.{SCOPE}"})
STRANGE = frozenset({"somebody-else"})


def test_pod_that_was_ever_seen_with_the_id_may_hold_it_whatever_its_name_and_namespace() -> None:
    assert SEAT.may_be_held_by(known_pod())
    assert SEAT.may_be_held_by(known_pod(7, instance_ids=frozenset({"x", id_of(2)})))
    assert SEAT.may_be_held_by(known_pod(7, namespace="bill", pod_name="canary-0", instance_ids=frozenset({id_of(2)})))
    assert SEAT.may_be_held_by(suspect(namespace="bill", pod_name="canary-0"))


def test_pod_that_carries_what_a_client_appends_to_may_hold_the_id() -> None:
    thread = HeldSeat(f"{id_of(2)}-1", naming(), "shop")
    assert thread.may_be_held_by(known_pod(namespace="bill", pod_name="canary-0"))
    assert thread.may_be_held_by(suspect(namespace="bill", pod_name="canary-0"))


def test_pod_of_another_name_or_namespace_that_was_never_seen_with_it_cannot() -> None:
    assert not SEAT.may_be_held_by(known_pod(1))
    assert not SEAT.may_be_held_by(known_pod(namespace="bill", instance_ids=OTHER))
    assert not SEAT.may_be_held_by(suspect(ordinal=1))
    assert not SEAT.may_be_held_by(suspect(namespace="bill", instance_ids=OTHER))


@pytest.mark.parametrize("ids", [frozenset(), STRANGE, OTHER], ids=["none", "strange", "of another template"])
def test_pod_of_the_name_may_take_the_id_from_what_can_be_edited(ids: frozenset[str]) -> None:
    """Annotations can be edited, and are read again when a container starts."""
    assert SEAT.may_be_held_by(known_pod(instance_ids=ids))
    assert SEAT.may_be_held_by(suspect(instance_ids=ids))


def test_pod_of_the_name_that_shows_another_id_of_ours_may_hold_this_one_all_the_same() -> None:
    """Its application may take the host name, and never look at the variable."""
    pod = known_pod(instance_ids=OTHER, ids_are_fixed=True)
    assert SEAT.may_be_held_by(pod)
    assert SEAT.shows_another(pod)


def test_another_id_of_ours_says_nothing_where_it_can_be_edited() -> None:
    assert not SEAT.shows_another(known_pod(instance_ids=OTHER))


@pytest.mark.parametrize("ids", [frozenset(), STRANGE], ids=["none", "strange"])
def test_fixed_ids_that_are_not_ours_say_nothing_of_ours(ids: frozenset[str]) -> None:
    """A client that appends to nothing, or an id that another product of the pod uses."""
    assert SEAT.may_be_held_by(known_pod(instance_ids=ids, ids_are_fixed=True))
    assert not SEAT.shows_another(known_pod(instance_ids=ids, ids_are_fixed=True))


def test_fixed_id_may_become_the_id_by_what_its_client_appends() -> None:
    carried = known_pod(instance_ids=frozenset({id_of(2)}), ids_are_fixed=True)
    seat = HeldSeat(f"{id_of(2)}-unexpected", naming(), "shop")
    assert seat.may_be_held_by(carried)
    assert not seat.shows_another(carried)
    assert not HeldSeat(f"{id_of(2)}9", naming(), "shop").may_be_held_by(known_pod(1, ids_are_fixed=True))


def test_fixed_beginning_of_the_id_may_become_it_whatever_comes_between() -> None:
    """What contains the scope is an id of ours, also where no template makes it."""
    begins = naming_of(
        spec(idTemplate="{scope}-{podName}"), history(injected=injected(id_template=f"{SCOPE}-{{podName}}"))
    )
    seat, pod = HeldSeat(f"{SCOPE}-web-2", begins, "shop"), known_pod(instance_ids=frozenset({SCOPE}), ids_are_fixed=True)
    assert seat.may_be_held_by(pod)
    assert not seat.shows_another(pod)


def test_suspect_of_the_name_is_never_ruled_out_because_it_does_not_remember_what_was_fixed() -> None:
    assert SEAT.may_be_held_by(suspect(instance_ids=OTHER))


def test_ids_of_two_templates_may_be_of_two_pods_and_both_may_hold_them() -> None:
    """With {podName}1 and {podName}, web-21 is of web-2 and of web-21."""
    both = naming_of(
        spec(idTemplate="{podName}", assumeExclusive=True),
        history(injected=injected(id_template="{podName}"), templates=("{podName}1",)),
    )
    seat = HeldSeat("web-21", both, "shop")
    assert set(seat.pod_names) == {"web-2", "web-21"}
    for ordinal in (2, 21):
        assert seat.may_be_held_by(known_pod(ordinal, instance_ids=frozenset()))
