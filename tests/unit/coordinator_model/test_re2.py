"""RE2's dialect: what it refuses, and what it matches.

Every expectation is what re2j 1.8 said to the same question, but for the depth of groups, which is bounded lower here.
"""

from __future__ import annotations

import pytest

from coordinator_model.consumer.re2 import MAX_DEPTH, NotInRe2, compile_re2

NAMES = ("a", "b", "ab", "foo", "foo-1", "foo_bar", "a.b", "A", "Foo", "0", "a0", "_", "-", "aaa")


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        *((f"a{operator}", "possessive") for operator in ("*+", "++", "?+", "{2}+", "**", "{2}{3}", "*??")),
        *((text, "neither look-around nor atomic") for text in ("(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b", "(?>a)")),
        *((text, "neither look-around nor atomic") for text in ("(?P=n)", "(?#c)", "(?'n'a)", "(?i", "(?")),
        *((text, "flags are i, m, s and U") for text in ("(?x)a", "(?a)b", "(?ix:a)")),
        *(
            (f"(a){text}", "invalid escape sequence")
            for text in ("\\1", "\\8", "\\Z", "\\G", "\\K", "\\C", "\\e", "\\E")
        ),
        *(
            (text, "invalid escape sequence")
            for text in ("\\R", "\\h", "\\N", "\\u0041", "\\cA", "\\x{110000}", "\\xg")
        ),
        *((text, "invalid escape sequence") for text in ("[\\b]", "[\\A]", "[\\Qa\\E]", "[\\1]", "[a-\\d]")),
        *(
            (text, "character class range")
            for text in ("\\p{Foo}", "\\p", "\\p{", "\\p{Cn}", "\\p{Alpha}", "\\p{IsLatin}")
        ),
        *((text, "character class range") for text in ("[[:foo:]]", "[b-a]")),
        ("\\p{Klingon}", "a script unknown here"),
        *((text, "missing closing ]") for text in ("[a", "[", "[[:alpha:]", "[]")),
        *((text, "missing argument") for text in ("*", "+a", "a|*", "(*)", "(?i)*")),
        *((text, "invalid repeat count") for text in ("a{5,2}", "a{1001}", "a{2,1001}")),
        ("(?P<a>a)(?<a>b)", "duplicate"),
        ("a)", "unexpected )"),
        ("(a", "missing closing )"),
        ("a\\", "trailing backslash"),
        ("{*", "nested repetition"),
        ("(" * (MAX_DEPTH + 1) + ")" * (MAX_DEPTH + 1), "nests too deeply"),
    ],
)
def test_what_re2_refuses_is_refused_with_what_is_wrong(expression: str, said: str) -> None:
    with pytest.raises(NotInRe2) as refused:
        compile_re2(expression)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("expression", "matched"),
    [
        ("foo.*", "foo foo-1 foo_bar"),
        ("\\p{L}+", "a b ab foo A Foo aaa"),
        ("\\pL", "a b A"),
        ("\\p{Lu}\\p{Ll}+", "Foo"),
        ("\\p{^L}", "0 _ -"),
        ("\\PL", "0 _ -"),
        ("\\p{Latin}\\p{Nd}", "a0"),
        ("\\p{Greek}|b", "b"),
        ("\\p{Any}{3}", "foo a.b Foo aaa"),
        ("\\Afoo\\z", "foo"),
        ("^foo$", "foo"),
        ("\\Qa.b\\E", "a.b"),
        ("\\Qa.b", "a.b"),
        ("\\Qa\\E+", "a aaa"),
        ("[[:alpha:]]+[[:digit:]]", "a0"),
        ("[[:^alpha:]]", "0 _ -"),
        ("[[:word:]-]+", "a b ab foo foo-1 foo_bar A Foo 0 a0 _ - aaa"),
        ("[^\\W\\d]", "a b A _"),
        ("[]a]", "a"),
        ("[a-]", "a -"),
        ("[\\pN_]", "0 _"),
        ("[[:alpha:]\\x30]{2}", "ab a0"),
        ("\\x61\\x{62}", "ab"),
        ("\\141", "a"),
        ("a{,5}", ""),
        ("a{1,2}|a{3,}", "a aaa"),
        ("a*?", "a aaa"),
        ("(?i)FOO", "foo Foo"),
        ("a(?i)B|foO", "ab foo Foo"),
        ("(?i:f)oo", "foo Foo"),
        ("(?is-i:F)oo", "Foo"),
        ("(?U)a+", "a aaa"),
        ("(?P<first>a)(?<second>b)", "ab"),
        ("(a)(?:b)", "ab"),
        ("a*(?i)*", "a aaa"),
        ("\\b{2}foo\\b", "foo"),
        ("foo\\b.+", "foo-1"),
        ("foo\\B.+", "foo_bar"),
        ("^*a$+", "a"),
        ("\\-|\\_", "_ -"),
        ("[^\\x00-\\x{10FFFF}]|b", "b"),
    ],
)
def test_what_re2_takes_matches_the_same_names(expression: str, matched: str) -> None:
    pattern = compile_re2(expression)
    assert [name for name in NAMES if pattern.fullmatch(name)] == matched.split()
