"""What the commands that speak for a person have in common: whose rights, who that is, and refusals in plain words.

They run as the person, never as the operator: what they write is written with the rights of whoever calls them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pydantic import ValidationError

from ...api import names
from ...api.resources.confirmation import PodEndConfirmation
from ...api.resources.gapconfirmation import WatchGapConfirmation
from ...api.schema import ApiModel
from ...kube.gateway import AioKubeGateway
from ...kube.problem import KubeProblem, KubeProblemKind
from ...kube.transport import SELF_REVIEWS, Resource, Transport
from ..process import kube_client
from ..stores import violations
from .person import Json, Refused

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


_MODELS: dict[str, type[ApiModel]] = {
    names.CONFIRMATION_KIND: PodEndConfirmation,
    names.GAP_CONFIRMATION_KIND: WatchGapConfirmation,
}


class Caller:
    """Whoever calls this process, at the API server that its kubeconfig or service account names."""

    program = "staticgroup"

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._kube = AioKubeGateway(transport, instance="staticgroup", now_s=time.time)

    async def user(self) -> str:
        """Ask by which user name the API server knows the caller."""
        return await caller(self._transport)

    async def static_groups(self, namespace: str) -> list[Json] | KubeProblem:
        """List StaticGroups; "" for all namespaces."""
        return await self._kube.list_objects(names.STATIC_GROUP_PLURAL, namespace)

    async def pod_uid(self, namespace: str, name: str) -> str | KubeProblem | None:
        """Read the uid of a pod; None when there is none."""
        read = await self._kube.read_pod(namespace, name)
        if isinstance(read, KubeProblem):
            return read
        return read.version.uid if read.version is not None else None

    async def gap_words(self) -> list[Json] | KubeProblem:
        """List the words about gaps."""
        return await self._kube.list_objects(names.GAP_CONFIRMATION_PLURAL, "")

    def refuse_out_of_bounds(self, body: Json) -> None:
        """Parse a word as its kind; raises Refused when it is not within the bounds."""
        said(_MODELS[body["kind"]], body)

    async def say(self, plural: str, namespace: str, body: Json) -> Json | KubeProblem:
        """Create a word."""
        resource = Resource(group=names.GROUP, version=names.VERSION, plural=plural)
        return await self._transport.call("create", resource, namespace=namespace, body=body)
