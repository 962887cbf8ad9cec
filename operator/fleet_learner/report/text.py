"""Text for HTML: escaped, with numbers and units kept together, and long names that break at their dots."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

_UNIT = re.compile(r"(?<=[\d>.]) (?=(?:%|ms|s|min|h|d|M|G|partition-[a-z]+)(?![\w-]))")
_LONG_NAME = re.compile(r"[\w.-]{24,}")
_JOINT = re.compile(r"(?<=\w)([.-])(?=\w)")
_CODE_JOINT = re.compile(r"([=,:/{.])(?=\w|&#?\w)")
_COUNTED = re.compile(r"(?<=[<>]) (?=\d)")


def words(text: str) -> Markup:
    """Return a text for HTML, with no-break spaces between numbers and units, and break points in long names."""
    whole = str(escape(_COUNTED.sub("\u00a0", _UNIT.sub("\u00a0", text))))
    return Markup(_LONG_NAME.sub(lambda name: _JOINT.sub(r"\1<wbr>", name[0]), whole))


def code(text: str) -> Markup:
    """Return a command for HTML, with break points for narrow screens that a copy does not contain."""
    return Markup(_CODE_JOINT.sub(r"\1<wbr>", str(escape(text))))


def quantity(text: str) -> Markup:
    """Return `402 partition-h` for HTML with its unit in small letters."""
    number, _, unit = text.partition(" partition-")
    return Markup("{} <small>partition-{}</small>").format(words(number), unit) if unit else words(text)
