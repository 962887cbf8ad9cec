"""Whether two schemes can make the same id: by their ids, not by the texts of their templates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.schedules.drawing import SCOPED, UNSCOPED
from staticgroup.api.identifiers import IdScheme, resolve_template
from staticgroup.core.ids.overlap import share_an_id, shared_by_two_ordinals


def scheme(
    template: str, workload_name: str = "web", env: tuple[str, ...] = ("",), client: tuple[str, ...] = ("",)
) -> IdScheme:
    return IdScheme(template=template, workload_name=workload_name, env_suffixes=env, suffixes=client)


@pytest.mark.parametrize(
    ("mine", "other", "expected"),
    [
        (scheme("app-{ordinal}"), scheme("app-{ordinal}", "pay"), True),
        (scheme("{podName}"), scheme("web-{ordinal}", "pay"), True),
        (scheme("{podName}"), scheme("{podName}", "pay"), False),
        (scheme("{podName}.3fa9c1d2"), scheme("{podName}.3fa9c1d3"), False),
        (scheme("{podName}.3fa9c1d2"), scheme("{podName}", "web"), False),
        (scheme("web-{ordinal}"), scheme("web-1{ordinal}"), True),
        (scheme("a{ordinal}b"), scheme("a{ordinal}c"), False),
        (scheme("{ordinal}-1"), scheme("{ordinal}", client=("-1", "-2")), True),
        (scheme("{ordinal}", env=("-a",)), scheme("{ordinal}", env=("-b",)), False),
        (scheme("{podName}-{ordinal}"), scheme("web-{ordinal}-{ordinal}"), True),
        (scheme("x.{ordinal}"), scheme("x.7", "pay"), True),
    ],
)
def test_schemes_overlap_when_they_make_an_id_in_common(mine: IdScheme, other: IdScheme, expected: bool) -> None:
    assert share_an_id([mine], [other]) is expected
    assert share_an_id([other], [mine]) is expected


def test_any_scheme_that_was_ever_used_counts() -> None:
    earlier = scheme("app-{ordinal}", "pay")
    assert share_an_id([scheme("{podName}"), earlier], [scheme("other-{ordinal}"), scheme("app-{ordinal}")])


_TEXTS = st.lists(st.sampled_from(["{ordinal}", "{podName}", "a", "1", "-", "web-"]), min_size=1, max_size=4).map(
    lambda parts: "".join(parts) if any("{" in p for p in parts) else "".join(parts) + "{ordinal}"
)
_SUFFIXES = st.sampled_from([("",), ("-0", "-1"), (".1",)])


@given(_TEXTS, _TEXTS, _SUFFIXES, _SUFFIXES, st.sampled_from(["web", "we", "a"]))
def test_ids_that_two_schemes_really_share_are_never_missed(
    mine: str, other: str, mine_added: tuple[str, ...], other_added: tuple[str, ...], name: str
) -> None:
    a, b = scheme(mine, client=mine_added), scheme(other, name, client=other_added)
    made = {str(i) for i in a.expected_ids(0, 25)} & {str(i) for i in b.expected_ids(0, 25)}
    assert share_an_id([a], [b]) or not made


@pytest.mark.parametrize(
    ("mine", "earlier", "example"),
    [
        (scheme("{podName}.s"), scheme("{podName}1.s"), "web-11.s of web-1, which would be web-11's"),
        (scheme("{podName}1.s"), scheme("{podName}.s"), "web-11.s of web-11, which would be web-1's"),
        (scheme("{podName}-b.s"), scheme("{podName}1.s"), None),
        (scheme("{podName}.s"), scheme("{podName}"), None),
        (scheme("{podName}"), scheme("web-{ordinal}"), None),
        (scheme("{podName}", client=("-0", "-1")), scheme("{podName}-0", client=("-0", "-1")), None),
        (scheme("{ordinal}-{ordinal}"), scheme("{ordinal}-1"), None),
        (scheme("{ordinal}-7"), scheme("5-{ordinal}"), "5-7 of web-7, which would be web-5's"),
        (
            scheme("s-2-{ordinal}"), scheme("s-{ordinal}"),
            "s-2-0 of web-2, whose client may have appended -0, which would be web-0's",
        ),
        (
            scheme("s-{ordinal}"), scheme("s-2-{ordinal}"),
            "s-2-0 of web-0, which would be web-2's once its client appends -0",
        ),
        (
            scheme("s-2-{ordinal}"), scheme("s-{ordinal}", client=("-1",)),
            "s-2-0 of web-2, whose client may have appended -0, which would be web-0's",
        ),
        (scheme("s-2-{ordinal}"), scheme("s-{ordinal}", client=("-0", "-1")), "s-2-0 of web-2, which would be web-0's"),
        (scheme("s-2-{ordinal}", env=(".a",)), scheme("s-{ordinal}", env=(".a",)), ""),
        (scheme("s-{ordinal}", env=("-a",)), scheme("s-{ordinal}", env=("-b",)), None),
        (
            scheme("s-2{ordinal}"), scheme("s-{ordinal}-b"),
            "s-20-b of web-20, which would be web-0's once its client appends -b",
        ),
        (scheme("s-2{ordinal}.a"), scheme("s-{ordinal}.b"), None),
        (scheme("{ordinal}"), scheme("{ordinal}" + "1" * 4), "11111 of web-1, which would be web-11111's"),
    ],
)
def test_two_templates_of_one_staticgroup_may_share_ids_of_one_ordinal_only(
    mine: IdScheme, earlier: IdScheme, example: str | None
) -> None:
    assert shared_by_two_ordinals(mine, earlier) == example


_APPENDED = st.sampled_from([("",), ("-0", "-1"), (".1",), ("-1-1", "-1.a", "-1a"), ("-web-1", "_11-1")])


@given(_TEXTS, _TEXTS, _APPENDED, _APPENDED, st.sampled_from([(("",), ("",)), (("-a", "-1"), ("",)), (("",), ("-1",))]))
def test_ids_that_clients_make_of_two_templates_for_two_ordinals_are_never_missed(
    mine: str,
    earlier: str,
    mine_added: tuple[str, ...],
    earlier_added: tuple[str, ...],
    env: tuple[tuple[str, ...], tuple[str, ...]],
) -> None:
    """Neither what the clients of one append nor the entries that the earlier one was issued for is known to the
    caller."""
    now, before = env
    made = scheme(mine, env=now, client=mine_added).expected_ids(0, 130)
    others = scheme(earlier, env=before, client=earlier_added).expected_ids(0, 130)
    is_shared = any(made.get(i, ordinal) != ordinal for i, ordinal in others.items())
    assert shared_by_two_ordinals(scheme(mine, env=now), scheme(earlier, env=now)) is not None or not is_shared


_EVERYDAY = (
    *SCOPED, *UNSCOPED, "{podName}-b.{scope}", "{ordinal}", "{ordinal}.{scope}", "{podName}.{ordinal}",
    "orders.v2-{ordinal}.{scope}",
)


@pytest.mark.parametrize("client", [("",), ("-0", "-1", "-2"), ("-1", "-2")], ids=["None", "Spring", "Streams"])
@pytest.mark.parametrize("workload_name", ["web", "orders-v2", "k8s-app"])
def test_everyday_templates_may_follow_upon_each_other(workload_name: str, client: tuple[str, ...]) -> None:
    resolved = [
        resolve_template(t, namespace="shop", workload_name=workload_name, group_name="orders", scope="3fa9c1d2")
        for t in _EVERYDAY
    ]
    for env in (("",), ("", "-payments")):
        schemes = [scheme(t, workload_name, env, client) for t in resolved]
        refused = [
            (a.template, b.template) for a in schemes for b in schemes if shared_by_two_ordinals(a, b) is not None
        ]
        assert refused == []
