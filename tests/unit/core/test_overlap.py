"""Whether two schemes can make the same id: by their ids, not by the texts of their templates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticgroup.api.identifiers import IdScheme
from staticgroup.core.ids.overlap import share_an_id, shared_by_two_ordinals


def scheme(template: str, workload_name: str = "web", env: tuple[str, ...] = ("",), client: tuple[str, ...] = ("",)) -> IdScheme:
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
        (scheme("{ordinal}"), scheme("{ordinal}" + "1" * 4), "11111 of web-1, which would be web-11111's"),
    ],
)
def test_two_templates_of_one_staticgroup_may_share_ids_of_one_ordinal_only(
    mine: IdScheme, earlier: IdScheme, example: str | None
) -> None:
    assert shared_by_two_ordinals(mine, earlier) == example


@given(_TEXTS, _TEXTS, _SUFFIXES)
def test_ids_that_two_templates_make_for_two_ordinals_are_never_missed(mine: str, earlier: str, added: tuple[str, ...]) -> None:
    a, b = scheme(mine, client=added), scheme(earlier, client=added)
    made = a.expected_ids(0, 130)
    is_shared = any(made.get(i, ordinal) != ordinal for i, ordinal in b.expected_ids(0, 130).items())
    assert shared_by_two_ordinals(a, b) is not None or not is_shared
