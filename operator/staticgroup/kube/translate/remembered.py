"""Remember what names tell, as long as they are short.

The same few names of variables come with every pod, so what each tells is found out once. A name has no limit of its own in Kubernetes
but the size of its pod (IsEnvVarName bounds letters, not length), and anybody may make pods that last a moment: what is
remembered of thousands of names of a MiB would be gigabytes.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final

NAMES_MAX: Final = 4096
LENGTH_MAX: Final = 256
"""Characters of a name that is remembered; the longest of a framework has some 60."""


def remembered(tell: Callable[[str], bool]) -> Callable[[str], bool]:
    """Have a function remember what it told of each of the last NAMES_MAX names that are not too long."""
    known = lru_cache(maxsize=NAMES_MAX)(tell)

    @wraps(tell)
    def told(name: str) -> bool:
        return known(name) if len(name) <= LENGTH_MAX else tell(name)

    return told
