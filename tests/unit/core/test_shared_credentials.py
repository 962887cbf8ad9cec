"""Over shared credentials a user cannot declare ids exclusive: only a scope drawn for the StaticGroup counts."""

from __future__ import annotations

from staticgroup.api.identifiers import identity_scope
from staticgroup.core.guards import Guard

from .builders import attributed, departure, fresh, group, history, injected, known_pod, member, members
from .plans import DEAD, only_guard, planned, removed

DRAWN = identity_scope(cluster_uid="cluster-1", namespace="shop", name="orders", uid="sg-1")
OTHER = "0badc0de"


def issued(scope: str, **changes: object):
    """web-2 has ended, and its member holds an id with this scope."""
    held = f"web-2.{scope}"
    snapshot = departure(
        group=group(member(2, instance_id=held)),
        chains={held: (known_pod(state=DEAD, instance_ids=frozenset({held})),)},
        fresh={held: fresh()},
        **changes,
    )
    memory = history(
        injected=injected(scope=scope, id_template=f"{{podName}}.{scope}"),
        members=members(attributions={held: attributed("m2", "u2")}),
    )
    return snapshot, memory


def test_scope_that_was_not_drawn_does_not_count() -> None:
    """As of a status that was edited."""
    decided = planned(*issued(OTHER, is_word_refused=True))
    assert only_guard(decided) is Guard.UNSCOPED
    (held,) = decided.held
    assert held.sentence == f"{OTHER} in the id is not this StaticGroup's own, so another one may issue the same id"
    assert "have the owner of ClusterKafkaConnection kafka set allowExclusive" in held.remedy


def test_scope_that_was_drawn_counts() -> None:
    assert removed(planned(*issued(DRAWN, is_word_refused=True))) == {("m2", f"web-2.{DRAWN}")}


def test_scope_that_was_not_drawn_counts_where_the_word_of_the_user_does() -> None:
    assert removed(planned(*issued(OTHER))) == {("m2", f"web-2.{OTHER}")}


def test_id_without_a_scope_names_the_setting_of_the_connections_owner() -> None:
    held = "web-2"
    snapshot = departure(
        group=group(member(2, instance_id=held)),
        chains={held: (known_pod(state=DEAD, instance_ids=frozenset({held})),)},
        fresh={held: fresh()},
        is_word_refused=True,
    )
    memory = history(
        injected=injected(id_template="{podName}"), members=members(attributions={held: attributed("m2", "u2")})
    )
    decided = planned(snapshot, memory, idTemplate="{podName}")
    assert only_guard(decided) is Guard.UNSCOPED
    assert "have the owner of ClusterKafkaConnection kafka set allowExclusive" in decided.held[0].remedy
