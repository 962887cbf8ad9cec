"""`confirm`: a person says that the process of a lost pod has ended.

It runs as the person, never as the operator: it creates one PodEndConfirmation with the rights of whoever calls it. What
is said, refused and told is in `suspects.py`, which the kubectl plugin shares.
"""

from __future__ import annotations

from . import suspects
from .as_person import Caller, with_transport


async def list_suspects(namespace: str) -> int:
    """Print the suspects of a namespace, each with the command to type.

    Returns
    -------
    0; or 1 when they cannot be read.
    """
    return await with_transport(lambda transport: suspects.list_suspects(Caller(transport), namespace))


async def confirm(namespace: str, pod_name: str, uid: str, statement: str, by: str) -> int:
    """Say that the process of one suspect has ended.

    Parameters
    ----------
    by: who says so; "" asks the API server who the caller is.

    Returns
    -------
    0; or 1 when it was not said.
    """
    return await with_transport(
        lambda transport: suspects.say_ended(Caller(transport), namespace, pod_name, uid, statement, by)
    )
