"""`confirm-gap`: a person says that whatever ran in a time in which the operator saw no pods has ended.

It runs as the person, never as the operator: it creates one WatchGapConfirmation with the rights of whoever calls it. What
is said, refused and told is in `gaps.py`, which the kubectl plugin shares.
"""

from __future__ import annotations

from . import gaps
from .as_person import Caller, with_transport


async def list_spans(namespace: str) -> int:
    """Print the open spans, those that one word closes together, each with the command to type.

    Parameters
    ----------
    namespace: "" for all.

    Returns
    -------
    0; or 1 when they cannot be read.
    """
    return await with_transport(lambda transport: gaps.list_spans(Caller(transport), namespace))


async def confirm_gap(since: str, until: str, statement: str, by: str) -> int:
    """Say that whatever ran unseen in a time has ended.

    Parameters
    ----------
    since, until: RFC 3339 times with a zone.
    by: who says so; "" asks the API server who the caller is.

    Returns
    -------
    0; or 1 when it was not said, or does not count.
    """
    return await with_transport(lambda transport: gaps.say_gone(Caller(transport), since, until, statement, by))
