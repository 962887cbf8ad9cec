"""Whether two StaticGroups, or two templates of one, can issue the same id, judged by the ids and not by the texts.

The compare-and-set of a removal cannot tell whose member it takes away. So where any templates of two StaticGroups of
one Kafka group, present or earlier, can make an id in common, neither removes anything. Two templates of one
StaticGroup may make an id in common of one ordinal, but not of two: the pod of the one would fence the pod of the
other. What a client appends is stated only by the present spec, so of two templates every possible suffix counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Final

from ...api.identifiers import SEPARATORS, IdScheme, InvalidInstanceIdError, Ordinal

_NUMBER: Final = None
"""Stands for the digits of an ordinal in a pattern, where a character stands for itself."""
_ANY: Final = "*"
"""Stands for any character behind the separator of what a client appends; in no id."""

Place = tuple[int, bool, str]
"""(element of the pattern, whether digits of it were read already, what was read of a suffix)."""
_EXAMPLES_SOUGHT: Final = 1000
"""So many ordinals are tried for an example; a sentence without one is true too."""


def share_an_id(mine: Iterable[IdScheme], others: Iterable[IdScheme]) -> bool:
    """Tell whether some id is made by a scheme of both.

    Any two ordinals are assumed possible, and a template that repeats its ordinal to repeat any: so the answer may be
    True for ids that never meet, never False for ids that do.
    """
    theirs = tuple(others)
    return any(_meet(a, b) for a in mine for b in theirs)


@lru_cache(maxsize=1024)
def shared_by_two_ordinals(mine: IdScheme, earlier: IdScheme) -> str | None:
    """Tell whether clients may make some id of what both schemes give to pods, for two ordinals.

    Parameters
    ----------
    mine: of the present spec. earlier: likewise, but what its clients appended and its env suffixes are not known.

    Returns
    -------
    An example for people, "" when none was found among small ordinals; None when there is no such id, which is never
    wrong, as with `share_an_id`.
    """
    if not _have_a_text_in_common(_pattern(mine, mine.env_suffixes), _pattern(earlier, ("",)), of_two_ordinals=True):
        return None
    with suppress(InvalidInstanceIdError):  # the broker refuses it, so no member has it
        for n in range(_EXAMPLES_SOUGHT):
            for instance_id in earlier.ids_of(Ordinal(n)):
                found = mine.appended_to(instance_id)
                if found is not None and found[0] != n:
                    added = f" once its client appends {found[1]}" if found[1] not in mine.suffixes else ""
                    other = f"{mine.workload_name}-{found[0]}"
                    return f"{instance_id} of {earlier.workload_name}-{n}, which would be {other}'s{added}"
            for instance_id in mine.ids_of(Ordinal(n)):
                found = earlier.appended_to(instance_id)
                if found is not None and found[0] != n:
                    added = f", whose client may have appended {found[1]}" if found[1] not in earlier.suffixes else ""
                    other = f"{mine.workload_name}-{n}"
                    return f"{instance_id} of {earlier.workload_name}-{found[0]}{added}, which would be {other}'s"
    return ""


@dataclass(frozen=True, slots=True)
class _Pattern:
    """The ids of a scheme: a text with numbers in it, then one of its suffixes."""

    base: tuple[str | None, ...]
    suffixes: frozenset[str]
    """In full, with `_ANY` where a separator and anything may stand behind each."""
    follows: Mapping[str, frozenset[str]]
    """Which characters may follow the part of a suffix read so far."""


def _pattern(scheme: IdScheme, given: Iterable[str] | None = None) -> _Pattern:
    """Write a scheme as a pattern, of what it expects or of the `given` env suffixes with anything appended."""
    text = scheme.template.replace("{podName}", f"{scheme.workload_name}-{{ordinal}}")
    parts = text.split("{ordinal}")
    base: list[str | None] = list(parts[0])
    for part in parts[1:]:
        base += [_NUMBER, *part]
    expected = (env + client for env, client in product(scheme.env_suffixes, scheme.suffixes))
    suffixes = frozenset(expected if given is None else given)
    follows: dict[str, set[str]] = {}
    for suffix in suffixes:
        for n, character in enumerate(suffix):
            follows.setdefault(suffix[:n], set()).add(character)
    if given is not None:
        suffixes |= {_ANY}
    return _Pattern(tuple(base), suffixes, {read: frozenset(found) for read, found in follows.items()})


@lru_cache(maxsize=4096)
def _meet(mine: IdScheme, others: IdScheme) -> bool:
    return _have_a_text_in_common(_pattern(mine), _pattern(others))


def _have_a_text_in_common(a: _Pattern, b: _Pattern, *, of_two_ordinals: bool = False) -> bool:
    """Walk both patterns at once over every text that fits the two.

    Texts `of_two_ordinals` are those in which no number of one starts and ends where one of the other does.
    """
    due: list[tuple[Place, Place, bool]] = [((0, False, ""), (0, False, ""), False)]
    seen = set(due)
    while due:
        at_a, at_b, began_together = due.pop()
        if _is_end(a, at_a) and _is_end(b, at_b) and not (began_together and of_two_ordinals):
            return True
        for step_a, step_b in product(_steps(a, at_a), _steps(b, at_b)):
            leave_a, leave_b = step_a[1] != at_a, step_b[1] != at_b
            is_same_number = began_together and leave_a and leave_b
            if not _agree(step_a[0], step_b[0]) or (is_same_number and of_two_ordinals):
                continue
            both_begin = leave_a and leave_b and step_a[0] is _NUMBER and step_b[0] is _NUMBER
            together = both_begin or (began_together and not leave_a and not leave_b)
            after = (step_a[1], step_b[1], together)
            if after not in seen:
                seen.add(after)
                due.append(after)
    return False


def _is_end(pattern: _Pattern, place: Place) -> bool:
    index, is_inside, read = place
    return index + is_inside == len(pattern.base) and read in pattern.suffixes


def _steps(pattern: _Pattern, place: Place) -> Sequence[tuple[str | None, Place]]:
    """Return what may be read next, each with the place after it."""
    index, is_inside, read = place
    found: list[tuple[str | None, Place]] = []
    if is_inside:
        found.append((_NUMBER, place))
        index += 1
    if index < len(pattern.base):
        element = pattern.base[index]
        found.append((element, (index, True, "") if element is _NUMBER else (index + 1, False, "")))
    else:
        found += [(character, (index, False, read + character)) for character in pattern.follows.get(read, ())]
        if _ANY in pattern.suffixes and read in pattern.suffixes:
            found += [(character, (index, False, _ANY)) for character in (_ANY if read == _ANY else SEPARATORS)]
    return found


def _agree(a: str | None, b: str | None) -> bool:
    """True when one character fits both elements."""
    if _ANY in (a, b):
        return True
    if a is _NUMBER:
        return b is _NUMBER or (b is not None and b.isdigit())
    return a == b or (b is _NUMBER and a.isdigit())
