"""Ids from ordinals and back: the ground on which 'expected', 'departed' and 'foreign' stand."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from staticgroup.api.identifiers import (
    EXPECTED_IDS_MAX,
    AmbiguousIdentityError,
    IdScheme,
    InvalidInstanceIdError,
    Ordinal,
    TooManyIdsError,
    identity_scope,
    resolve_template,
    validate_instance_id,
)

LEGAL = "abcXYZ0189._-"
workload_names = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
literals = st.text(alphabet=LEGAL, max_size=6)
suffix_texts = st.from_regex(r"[._-][a-zA-Z0-9._-]{0,4}", fullmatch=True) | st.just("")
ordinals = st.integers(min_value=0, max_value=2**31 - 1)


@st.composite
def schemes(draw: st.DrawFn) -> IdScheme:
    pods_own = st.sampled_from(["{podName}", "{ordinal}"])
    before, after = (draw(st.lists(literals | pods_own, max_size=2)) for _ in range(2))
    template = "".join([*before, draw(pods_own), *after])
    env = tuple(draw(st.lists(suffix_texts, min_size=1, max_size=3, unique=True)))
    numbered = st.builds(
        lambda first, count: tuple(f"-{n}" for n in range(first, first + count)), st.integers(0, 1), st.integers(1, 12)
    )
    added = draw(numbered | st.lists(suffix_texts, min_size=1, max_size=3, unique=True).map(tuple))
    assume(len({a + b for a in env for b in added}) == len(env) * len(added))
    name = draw(workload_names)
    return IdScheme(template=template, workload_name=name, env_suffixes=env, suffixes=added)


@given(scheme=schemes(), ordinal=ordinals)
def test_every_issued_id_leads_back_to_its_ordinal_and_to_no_other(scheme: IdScheme, ordinal: int) -> None:
    for instance_id in scheme.ids_of(Ordinal(ordinal)):
        assert scheme.ordinal_of(instance_id) == ordinal


@st.composite
def near_an_id(draw: st.DrawFn, scheme: IdScheme) -> str:
    """Draw an id of a scheme, or what differs from one by little."""
    ordinal = draw(st.sampled_from(["0", "00", "07", "1", "10", "21", "2147483648", "²", ""]))
    pod = scheme.template.replace("{podName}", f"{scheme.workload_name}-{ordinal}").replace("{ordinal}", ordinal)
    text = (
        pod
        + draw(st.sampled_from(scheme.env_suffixes))
        + draw(st.sampled_from(scheme.suffixes) | suffix_texts | literals)
    )
    at = draw(st.integers(0, len(text)))
    return draw(st.sampled_from([text, text[:at], text[at:], text[:at] + draw(literals) + text[at:], text + "\n"]))


@given(scheme=schemes(), data=st.data())
def test_id_is_read_without_a_pattern_as_the_pattern_of_its_template_reads_it(
    scheme: IdScheme, data: st.DataObject
) -> None:
    with_pattern = replace(scheme)
    object.__setattr__(with_pattern, "_ends", None)
    text = data.draw(near_an_id(scheme))
    assert scheme.ordinal_of(text) == with_pattern.ordinal_of(text)
    assert scheme.appended_to(text) == with_pattern.appended_to(text)


@given(scheme=schemes(), start=st.integers(0, 10_000), replicas=st.integers(0, 12))
def test_no_two_ordinals_share_an_expected_id(scheme: IdScheme, start: int, replicas: int) -> None:
    expected = scheme.expected_ids(start, replicas)
    assert len(expected) == replicas * len(scheme.env_suffixes) * len(scheme.suffixes)
    assert list(dict.fromkeys(expected.values())) == list(range(start, start + replicas))


@given(scheme=schemes(), text=st.text(alphabet=LEGAL, max_size=20))
def test_an_id_that_leads_to_an_ordinal_is_one_that_this_ordinal_issues(scheme: IdScheme, text: str) -> None:
    """The way back never claims a foreign id: whatever it accepts, the way forth produces."""
    ordinal = scheme.ordinal_of(text)
    assert ordinal is None or text in scheme.ids_of(ordinal)


@pytest.mark.parametrize("text", ["a", "...", "A.b_c-9", "-", "x" * 249])
def test_an_id_that_the_broker_takes_is_taken(text: str) -> None:
    """TopicTest.shouldAcceptValidTopicNames of Kafka."""
    assert validate_instance_id(text) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        (".", "'.' or '..'"),
        ("..", "'.' or '..'"),
        ("x" * 250, "this one has 250"),
        ("a/b", "only ASCII"),
        ("ä", "only ASCII"),
        ("a b", "only ASCII"),
        ("a\n", "only ASCII"),
        ("٣", "only ASCII"),
    ],
)
def test_an_id_that_the_broker_refuses_is_refused(text: str, why: str) -> None:
    """TopicTest.shouldThrowOnInvalidTopicNames of Kafka; a regular expression's $ would let the newline through."""
    with pytest.raises(InvalidInstanceIdError, match=why):
        validate_instance_id(text)


@given(
    scheme=schemes(),
    ordinal=st.integers(0, 2**31 - 1),
    rest=st.from_regex(r"(?:[._-][a-zA-Z0-9._-]{0,9})?", fullmatch=True),
)
def test_whatever_a_client_appends_the_pod_is_found_by_the_id_that_it_was_given(
    scheme: IdScheme, ordinal: int, rest: str
) -> None:
    for env_suffix in scheme.env_suffixes:
        found = scheme.appended_to(scheme.base_id(Ordinal(ordinal), env_suffix) + rest)
        assert found is not None
        assert found[0] == ordinal
        assert (env_suffix + rest).endswith(found[1])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("web-1.s", (1, "")),
        ("web-1.s-0", (1, "-0")),
        ("web-1.s-a", (1, "")),
        ("web-1.s-a-0", (1, "-0")),
        ("web-1.s-a.b_c", (1, ".b_c")),
        ("web-1.sx", None),
        ("web-01.s-0", None),
        ("xweb-1.s-0", None),
        ("web-1", None),
    ],
)
def test_id_is_split_into_what_the_pod_was_given_and_what_was_appended(
    text: str, found: tuple[int, str] | None
) -> None:
    scheme = IdScheme(template="{podName}.s", workload_name="web", env_suffixes=("", "-a"))
    assert scheme.appended_to(text) == found


def test_expected_ids_cover_the_range_from_start_with_every_suffix() -> None:
    """KEP-3335: ordinals are [start, start + replicas)."""
    scheme = IdScheme(
        template="{podName}.3fa9c1d2", workload_name="web", env_suffixes=("", "-audit"), suffixes=("-1", "-2")
    )
    assert scheme.expected_ids(5, 2) == {
        "web-5.3fa9c1d2-1": 5, "web-5.3fa9c1d2-2": 5, "web-5.3fa9c1d2-audit-1": 5, "web-5.3fa9c1d2-audit-2": 5,
        "web-6.3fa9c1d2-1": 6, "web-6.3fa9c1d2-2": 6, "web-6.3fa9c1d2-audit-1": 6, "web-6.3fa9c1d2-audit-2": 6,
    }
    assert scheme.base_id(Ordinal(5), "-audit") == "web-5.3fa9c1d2-audit"
    assert scheme.expected_ids(5, 0) == {}


def test_more_ids_than_a_staticgroup_serves_are_refused_before_the_first_is_made() -> None:
    """spec.replicas and spec.ordinals.start are int32."""
    scheme = IdScheme(template="{podName}.s", workload_name="web", suffixes=("-1", "-2"))
    assert len(scheme.expected_ids(2**31 - 1, EXPECTED_IDS_MAX // 2)) == EXPECTED_IDS_MAX
    for replicas in (EXPECTED_IDS_MAX // 2 + 1, 2**31 - 1):
        with pytest.raises(TooManyIdsError, match=f"web wants {replicas} pods, 2 ids for each"):
            scheme.expected_ids(0, replicas)


@pytest.mark.parametrize(
    "foreign",
    ["web-01.s", "web-1.t", "web-1.s-3", "web-1.s-1x", "xweb-1.s-1", "web-1.s", "web-.s-1", "web--1.s-1", "web-1xs-1"],
)
def test_an_id_of_another_form_is_foreign(foreign: str) -> None:
    scheme = IdScheme(template="{podName}.s", workload_name="web", suffixes=("-1", "-2"))
    assert scheme.ordinal_of(foreign) is None


def test_thread_one_of_a_pod_is_not_pod_one_of_a_set_named_like_the_pod() -> None:
    """StatefulSet app-1's pod app-1-1 against thread 1 of pod app-1."""
    threads = IdScheme(template="{podName}.aaaaaaaa", workload_name="app", suffixes=("-1",))
    other = IdScheme(template="{podName}.bbbbbbbb", workload_name="app-1")
    assert threads.ordinal_of(other.base_id(Ordinal(1))) is None


def test_a_placeholder_used_twice_must_name_the_same_ordinal_twice() -> None:
    scheme = IdScheme(template="{podName}_{ordinal}", workload_name="web")
    assert (scheme.ordinal_of("web-12_12"), scheme.ordinal_of("web-1_12")) == (12, None)


@pytest.mark.parametrize(
    ("env", "added"),
    [(("", "-1"), ("-1", "-1-1", "")), ((), ("",)), (("",), ()), (("-a", "-a"), ("",)), (("1",), ("",))],
)
def test_suffixes_that_could_give_two_members_one_id_are_refused(env: tuple[str, ...], added: tuple[str, ...]) -> None:
    with pytest.raises(AmbiguousIdentityError):
        IdScheme(template="{podName}", workload_name="web", env_suffixes=env, suffixes=added)


def test_an_id_too_long_for_the_broker_is_refused_when_rendered() -> None:
    scheme = IdScheme(template="{podName}." + "x" * 243, workload_name="web")
    assert len(scheme.base_id(Ordinal(9))) == 249
    with pytest.raises(InvalidInstanceIdError, match="at most 249"):
        scheme.base_id(Ordinal(10))


def test_the_template_keeps_only_what_differs_between_pods() -> None:
    resolved = resolve_template(
        "{podName}.{ordinal}.{namespace}.{workloadName}.{groupName}.{scope}",
        namespace="ns",
        workload_name="web",
        group_name="orders",
        scope="3fa9c1d2",
    )
    assert resolved == "{podName}.{ordinal}.ns.web.orders.3fa9c1d2"


@pytest.mark.parametrize(("template", "why"), [("{podName}.{cluster}", "cluster"), ("{workloadName}", "must contain")])
def test_a_template_that_gives_pods_one_id_is_refused(template: str, why: str) -> None:
    with pytest.raises(InvalidInstanceIdError, match=why):
        resolve_template(template, namespace="ns", workload_name="web", group_name="g", scope="3fa9c1d2")


def test_the_scope_is_the_same_for_ever() -> None:
    """Known value of SHA-256("c/ns/name/u"): a change would make every issued id foreign."""
    assert identity_scope(cluster_uid="c", namespace="ns", name="name", uid="u") == "daf509cf"


def test_another_cluster_namespace_name_or_uid_is_another_scope() -> None:
    """With the uid, a StaticGroup that is deleted and created again cannot inherit ids that it has not watched."""
    parts = [
        ("c", "ns", "name", "u"),
        ("d", "ns", "name", "u"),
        ("c", "n", "name", "u"),
        ("c", "ns", "nam", "u"),
        ("c", "ns", "name", "v"),
    ]
    scopes = {identity_scope(cluster_uid=c, namespace=ns, name=name, uid=uid) for c, ns, name, uid in parts}
    assert len(scopes) == len(parts)
