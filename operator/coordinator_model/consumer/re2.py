"""Translate RE2's regular expressions over topic names to Python's.

The broker compiles subscriptions with re2j. One idea: walk an expression as re2j's parser does, refuse what it refuses,
and write everything else for Python's `re` with non-capturing groups and spelled-out classes. Only what decides whether
a whole name matches is kept: greediness and captures are not. Topic names are ASCII and not empty, so a Unicode class
stands for its ASCII letters. Anchors such as ^ are written as look-ahead, which Python allows to repeat.
Source: com.google.re2j.Parser 1.8 (Kafka 4.4); github.com/google/re2/wiki/Syntax.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable, Mapping
from itertools import pairwise

Range = tuple[int, int]
"""(first, last) code point, both included."""

MAX_RUNE = 0x10FFFF
MAX_REPEAT = 1_000
MAX_DEPTH = 100
"""Groups within groups; re2j goes to 1000, Python's compiler not that far."""
_ASCII = 0x7F
_FLAGS = frozenset("imsU")
_NEVER = "[^\\x00-\\U0010ffff]"
_NAME = re.compile(r"\(\?P?<(?P<name>[A-Za-z0-9_]+)>")
_FLAG_GROUP = re.compile(r"\(\?(?P<on>[a-zA-Z]*)(?:-(?P<off>[a-zA-Z]+))?(?P<end>[:)])")
_REPEAT = re.compile(r"\{(?P<low>\d+)(?P<comma>,(?P<high>\d*))?\}")
_CONTROLS = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_SCRIPTS = {
    "Latin": string.ascii_letters,
    "Common": "".join(c for c in map(chr, range(128)) if c not in string.ascii_letters),
}
_FOREIGN_SCRIPTS = frozenset(
    {"Arabic", "Armenian", "Bengali", "Cyrillic", "Devanagari", "Ethiopic", "Georgian", "Greek", "Han", "Hangul"}
    | {"Hebrew", "Hiragana", "Inherited", "Katakana", "Khmer", "Mongolian", "Myanmar", "Tamil", "Thai", "Tibetan"}
)
_CATEGORIES = frozenset(
    {"C", "Cc", "Cf", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No"}
    | {"P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs"}
)


class NotInRe2(ValueError):
    """An expression that RE2 refuses, or one with a Unicode class that this module does not know."""


def compile_re2(expression: str) -> re.Pattern[str]:
    r"""Return a pattern of which `fullmatch` says of an ASCII text what RE2's `matches` says.

    Raises
    ------
    NotInRe2: possessive and nested repetition, look-around, atomic groups, back-references, `\\Z`, and all else that
        is no expression of RE2.
    """
    return re.compile(_Walk(expression).translated(), re.ASCII)


class _Walk:
    """One walk along an expression.

    Parameters
    ----------
    at: the place in the expression.
    out: what has been written for Python.
    flags: i, m and s, of those that hold here.
    groups: of each open group the flags outside and where it begins in what has been written.
    element: where the element that a repetition would repeat begins in what has been written; None: there is none.
    """

    def __init__(self, expression: str) -> None:
        self._text = expression
        self._at = 0
        self._out: list[str] = []
        self._flags: frozenset[str] = frozenset()
        self._groups: list[tuple[frozenset[str], int]] = []
        self._names: set[str] = set()
        self._element: int | None = None
        self._is_repeated = False
        self._just_repeated = False

    def translated(self) -> str:
        """Return the expression for Python."""
        while self._at < len(self._text):
            self._step(self._text[self._at])
        if self._groups:
            raise NotInRe2("missing closing )")
        return "".join(self._out)

    def _step(self, letter: str) -> None:
        match letter:
            case "(":
                self._open()
            case ")":
                self._close()
            case "|":
                self._at += 1
                self._out.append("|")
                self._begins(None)
            case "*" | "+" | "?":
                self._repeat(letter)
            case "{" if (counts := _REPEAT.match(self._text, self._at)) is not None:
                self._repeat_counted(counts)
            case "{":  # a letter, which re2j all the same takes for a repetition when another follows
                self._at += 1
                self._emit("\\{")
                self._just_repeated = True
            case "[":
                self._emit(self._class())
            case "\\":
                self._escape()
            case "^" | "$":
                self._at += 1
                self._emit(f"(?={letter})")
            case ".":
                self._at += 1
                self._emit(letter)
            case _:
                self._at += 1
                self._emit(re.escape(letter))

    def _emit(self, element: str) -> None:
        """Write one element under the flags that hold here."""
        flags = "".join(sorted(self._flags))
        self._begins(len(self._out))
        self._out.append(f"(?{flags}:{element})" if flags else element)

    def _begins(self, element: int | None) -> None:
        self._element = element
        self._is_repeated = self._just_repeated = False

    # groups

    def _open(self) -> None:
        rest = self._text[self._at : self._at + 40]
        if not rest.startswith("(?"):
            self._begin(1, self._flags)
        elif (named := _NAME.match(self._text, self._at)) is not None:
            if named["name"] in self._names:
                raise NotInRe2(f"duplicate capture group name: `{named['name']}`")
            self._names.add(named["name"])
            self._begin(len(named[0]), self._flags)
        elif (flags := _FLAG_GROUP.match(self._text, self._at)) is not None:
            self._flagged(flags)
        else:
            raise NotInRe2(
                f"invalid or unsupported Perl syntax: `{rest[:4]}`; RE2 has neither look-around nor atomic groups"
            )

    def _flagged(self, flags: re.Match[str]) -> None:
        on, off = frozenset(flags["on"]), frozenset(flags["off"] or "")
        if not on | off <= _FLAGS:
            raise NotInRe2(f"invalid or unsupported Perl syntax: `{flags[0]}`; flags are i, m, s and U")
        now = (self._flags | on) - off - {"U"}  # greedy or not, the same names match
        if flags["end"] == ":":
            self._begin(len(flags[0]), now)
        else:
            self._at += len(flags[0])
            self._flags = now
            self._just_repeated = False

    def _begin(self, width: int, flags: frozenset[str]) -> None:
        if len(self._groups) == MAX_DEPTH:
            raise NotInRe2(f"expression nests too deeply: at most {MAX_DEPTH} groups, here")
        self._at += width
        self._groups.append((self._flags, len(self._out)))
        self._flags = flags
        self._out.append("(?:")
        self._begins(None)

    def _close(self) -> None:
        if not self._groups:
            raise NotInRe2("unexpected )")
        self._at += 1
        self._flags, begin = self._groups.pop()
        self._out.append(")")
        self._begins(begin)

    # repetition

    def _repeat(self, operator: str) -> None:
        self._require_argument(operator)
        self._at += 1
        self._after_repeat(operator)

    def _repeat_counted(self, counts: re.Match[str]) -> None:
        self._require_argument(counts[0])
        low = int(counts["low"])
        high = low if counts["comma"] is None else int(counts["high"]) if counts["high"] else None
        if max(low, high or 0) > MAX_REPEAT or (high is not None and low > high):
            raise NotInRe2(f"invalid repeat count: `{counts[0]}`; at most {MAX_REPEAT}")
        self._at += len(counts[0])
        self._after_repeat(counts[0])

    def _require_argument(self, operator: str) -> None:
        if self._element is None:
            raise NotInRe2(f"missing argument to repetition operator: `{operator}`")
        if self._just_repeated:
            raise NotInRe2(f"invalid nested repetition operator: `{operator}`; RE2 has no possessive repetition")

    def _after_repeat(self, written: str) -> None:
        if self._text.startswith("?", self._at):  # lazy: the same names match
            self._at += 1
        if self._is_repeated:  # by one before a group of flags, which is no element
            self._out[self._element : self._element] = ["(?:"]
            self._out.append(")")
        self._out.append(written)
        self._is_repeated = self._just_repeated = True

    # escapes

    def _escape(self) -> None:
        letter = self._text[self._at + 1 : self._at + 2]
        if letter == "Q":
            self._quoted()
        elif letter in ("A", "b", "B"):
            self._at += 2
            self._emit(f"(?=\\{letter})")
        elif letter == "z":
            self._at += 2
            self._emit("(?=\\Z)")
        else:
            ranges = self._escaped_class()
            self._emit(_written(ranges if ranges is not None else [(code := self._escaped_letter(), code)]))

    def _quoted(self) -> None:
        end = self._text.find("\\E", self._at + 2)
        quoted = self._text[self._at + 2 : end if end >= 0 else len(self._text)]
        self._at = end + 2 if end >= 0 else len(self._text)
        for letter in quoted:
            self._emit(re.escape(letter))

    def _escaped_class(self) -> list[Range] | None:
        r"""Read one of \d \s \w \p, negated if capital; None when something else stands here."""
        letter = self._text[self._at + 1 : self._at + 2]
        if letter in ("p", "P"):
            return self._unicode_class(is_negated=letter == "P")
        known = _PERL.get(letter.lower()) if letter.isalpha() else None
        if known is None:
            return None
        self._at += 2
        return _negated(known) if letter.isupper() else known

    def _unicode_class(self, *, is_negated: bool) -> list[Range]:
        found = re.compile(r"\\[pP](?:\{(?P<long>[^}]*)\}|(?P<short>[^{]))").match(self._text, self._at)
        if found is None:
            raise NotInRe2(f"invalid character class range: `{self._text[self._at : self._at + 3]}`")
        self._at += len(found[0])
        name = found["long"] if found["short"] is None else found["short"]
        if name.startswith("^"):
            name, is_negated = name[1:], not is_negated
        if name == "Any":
            ranges = [(0, MAX_RUNE)]
        elif name in _CATEGORIES:
            ranges = _ranges(code for code in range(_ASCII + 1) if unicodedata.category(chr(code)).startswith(name))
        elif name in _SCRIPTS or name in _FOREIGN_SCRIPTS:
            ranges = _ranges(map(ord, _SCRIPTS.get(name, "")))
        else:
            raise NotInRe2(f"invalid character class range: `{found[0]}`; not a class of RE2, or a script unknown here")
        return _negated(ranges) if is_negated else ranges

    def _escaped_letter(self) -> int:
        r"""Read an escaped letter and return its code point; a single digit would be a back-reference, \Z is none."""
        text, at = self._text, self._at + 1
        letter = text[at : at + 1]
        if not letter:
            raise NotInRe2("trailing backslash at end of expression")
        width, code = 1, -1
        if letter in _CONTROLS:
            code = _CONTROLS[letter]
        elif (octal := re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}").match(text, at)) is not None:
            width, code = len(octal[0]), int(octal[0], 8)
        elif (hexadecimal := re.compile(r"x(?:([0-9a-fA-F]{2})|\{([0-9a-fA-F]+)\})").match(text, at)) is not None:
            width, code = len(hexadecimal[0]), int(hexadecimal[1] or hexadecimal[2], 16)
        elif letter.isascii() and not letter.isalnum():
            code = ord(letter)
        if not 0 <= code <= MAX_RUNE:
            raise NotInRe2(f"invalid escape sequence: `\\{letter}`")
        self._at = at + width
        return code

    # classes

    def _class(self) -> str:
        """Read a class in brackets; a ] is a letter where it stands first."""
        begin = self._at
        self._at += 1
        is_negated = self._text.startswith("^", self._at)
        self._at += is_negated
        ranges: list[Range] = []
        is_first = True
        while is_first or not self._text.startswith("]", self._at):
            if self._at >= len(self._text):
                raise NotInRe2(f"missing closing ]: `{self._text[begin:]}`")
            ranges += self._class_item()
            is_first = False
        self._at += 1
        return _written(ranges, is_negated=is_negated)

    def _class_item(self) -> list[Range]:
        posix = re.compile(r"\[:(\^?)([^]:]*):\]").match(self._text, self._at)
        if posix is not None:
            if posix[2] not in _POSIX:
                raise NotInRe2(f"invalid character class range: `{posix[0]}`")
            self._at += len(posix[0])
            return _negated(_POSIX[posix[2]]) if posix[1] else _POSIX[posix[2]]
        if self._text.startswith("\\", self._at) and (ranges := self._escaped_class()) is not None:
            return ranges
        low = high = self._class_letter()
        text = self._text
        if text.startswith("-", self._at) and not text.startswith("-]", self._at) and self._at + 1 < len(text):
            self._at += 1
            high = self._class_letter()
        if high < low:
            raise NotInRe2(f"invalid character class range: `{chr(low)}-{chr(high)}`")
        return [(low, high)]

    def _class_letter(self) -> int:
        if self._at >= len(self._text):
            raise NotInRe2("missing closing ]")
        if self._text[self._at] == "\\":
            return self._escaped_letter()
        self._at += 1
        return ord(self._text[self._at - 1])


def _ranges(codes: Iterable[int]) -> list[Range]:
    found: list[Range] = []
    for code in sorted(codes):
        if found and found[-1][1] == code - 1:
            found[-1] = (found[-1][0], code)
        else:
            found.append((code, code))
    return found


def _negated(ranges: Iterable[Range]) -> list[Range]:
    edges = [(-1, -1), *sorted(ranges), (MAX_RUNE + 1, MAX_RUNE + 1)]
    return [(before[1] + 1, after[0] - 1) for before, after in pairwise(edges) if before[1] + 1 <= after[0] - 1]


def _written(ranges: Iterable[Range], *, is_negated: bool = False) -> str:
    """Return a class as Python spells it; one without members matches nothing."""
    items = [_letter(low) if low == high else f"{_letter(low)}-{_letter(high)}" for low, high in ranges]
    if not items:
        return "[\\x00-\\U0010ffff]" if is_negated else _NEVER
    return f"[{'^' if is_negated else ''}{''.join(items)}]"


def _letter(code: int) -> str:
    return f"\\U{code:08x}"


_WORD = _ranges(map(ord, string.ascii_letters + string.digits + "_"))
_PERL: Mapping[str, list[Range]] = {
    "d": _ranges(map(ord, string.digits)),
    "s": _ranges(map(ord, "\t\n\f\r ")),
    "w": _WORD,
}
_POSIX: Mapping[str, list[Range]] = {
    "alnum": _ranges(map(ord, string.ascii_letters + string.digits)),
    "alpha": _ranges(map(ord, string.ascii_letters)),
    "ascii": [(0, _ASCII)],
    "blank": _ranges(map(ord, "\t ")),
    "cntrl": [(0, 31), (127, 127)],
    "digit": _ranges(map(ord, string.digits)),
    "graph": [(33, 126)],
    "lower": _ranges(map(ord, string.ascii_lowercase)),
    "print": [(32, 126)],
    "punct": _ranges(map(ord, string.punctuation)),
    "space": _ranges(map(ord, "\t\n\v\f\r ")),
    "upper": _ranges(map(ord, string.ascii_uppercase)),
    "word": _WORD,
    "xdigit": _ranges(map(ord, string.hexdigits)),
}
