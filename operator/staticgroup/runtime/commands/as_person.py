"""What the commands that speak for a person have in common: whose rights, who that is, and refusals in plain words.

They run as the person, never as the operator: what they write is written with the rights of whoever calls them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from pydantic import ValidationError

from ...api import names
from ...api.resources.staticgroup import StaticGroup
from ...api.schema import ApiModel
from ...kube.gateway import AioKubeGateway
from ...kube.problem import KubeProblem, KubeProblemKind
from ...kube.transport import SELF_REVIEWS, Transport
from ..process import kube_client
from ..stores import violations
from .person import Refused, plain

Said = TypeVar("Said", bound=ApiModel)


async def with_transport(work: Callable[[Transport], Awaitable[None]]) -> int:
    """Do something at the API server as the caller.

    Returns
    -------
    0; or 1 when it was refused, and then the reason is on the standard error output.

    Raises
    ------
    SettingsError: there is no cluster to talk to.
    """
    transport = await kube_client.connected()
    try:
        await work(transport)
    except Refused as refusal:
        print(f"staticgroup: {refusal}", file=sys.stderr)
        return 1
    finally:
        await transport.close()
    return 0


async def caller(transport: Transport) -> str:
    """Ask the API server by which user name it knows the caller.

    Raises
    ------
    Refused: When it does not tell.
    """
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await transport.call("create", SELF_REVIEWS, body=body)
    if isinstance(answer, KubeProblem) and answer.kind is KubeProblemKind.UNAVAILABLE:
        raise Refused(f"the API server cannot be reached: {answer.message}")
    if isinstance(answer, KubeProblem):
        raise Refused(f"the API server does not tell who you are ({answer.message}); say it with --by")
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username", ""))


def gateway(transport: Transport) -> AioKubeGateway:
    """Return what asks the API server as the caller."""
    return AioKubeGateway(transport, instance="staticgroup", now_s=time.time)


def said(model: type[Said], body: dict[str, Any]) -> Said:
    """Parse a word that is to be written.

    Raises
    ------
    Refused: When it is not within the bounds of its kind.
    """
    try:
        return model.from_wire(body)
    except ValidationError as error:
        raise Refused(f"this cannot be said: {violations(error)}") from error


async def static_groups(kube: AioKubeGateway, namespace: str, *, what: str) -> list[StaticGroup]:
    """Read the StaticGroups of a namespace; those stored under another schema are left out, the operator reports them.

    Parameters
    ----------
    namespace: "" for all. what: is looked for in their statuses, in plural.

    Raises
    ------
    Refused: When they cannot be listed.
    """
    bodies = await kube.list_objects(names.STATIC_GROUP_PLURAL, namespace)
    if isinstance(bodies, KubeProblem):
        raise Refused(f"{what} cannot be read: {plain(bodies)}")
    found: list[StaticGroup] = []
    for body in bodies:
        with suppress(ValidationError):
            found.append(StaticGroup.from_wire(body))
    return found
