"""Canary secrets: a value for each kind of credential, searched for in every form in which it could appear."""

from __future__ import annotations

import base64
import json
import logging
import os
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote


def forms_of(secret: str) -> frozenset[str]:
    """Return the forms of a secret: plain, quoted for a URL or JSON, hexadecimal, and base64 at each offset."""
    raw = secret.encode()
    # In base64 three bytes become four characters; the form depends on where the secret begins within them.
    shifted = (base64.b64encode(bytes(shift) + raw).decode()[4 if shift else 0 : -4] for shift in range(3))
    return frozenset({secret, quote(secret, safe=""), json.dumps(secret)[1:-1], raw.hex(), *shifted})


_TESTS = f"{Path(__file__).parents[1]}{os.sep}"


@dataclass(slots=True)
class Canaries:
    """All secrets of one test."""

    _secrets: dict[str, str] = field(default_factory=dict)

    def new(self, kind: str, *, is_token: bool = False) -> str:
        """Return a secret for one kind of credential, with characters to quote where tokens allow them (RFC 6750)."""
        self._secrets[kind] = f"canary-{kind}-7f3e/+" + ("==" if is_token else '&="s')
        return self._secrets[kind]

    def add(self, kind: str, secret: str) -> None:
        """Take a secret that was made elsewhere, such as a line of a private key."""
        self._secrets[kind] = secret

    def hits(self, shown: Iterable[tuple[str, str]]) -> list[str]:
        """Return which secret was found where, for texts with their names."""
        found = []
        for where, text in shown:
            found += [
                f"{kind} in {where}"
                for kind, secret in self._secrets.items()
                if any(f in text for f in forms_of(secret))
            ]
        return found


class ErrorDump(logging.Handler):
    """Keep what an error reporter would send: each record, its exception with causes, and the locals of all frames."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one record."""
        self.texts.append(f"{record.getMessage()} {vars(record)!r}")
        if record.exc_info and record.exc_info[1] is not None:
            self.texts.append(dump_of(record.exc_info[1]))


def dump_of(error: BaseException) -> str:
    """Return an exception as an error reporter sends it, but for the frames of tests, which know every secret."""
    place = error.__traceback__
    while place is not None and _TESTS in place.tb_frame.f_code.co_filename:
        place = place.tb_next
    return "".join(traceback.TracebackException(type(error), error, place, capture_locals=True).format())
