"""Which known name a mistyped one is likely to mean."""

import difflib
from collections.abc import Iterable


def hint(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean …?`, to follow a refusal, or nothing where no known name is near."""
    found = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {found[0]}?" if found else ""
