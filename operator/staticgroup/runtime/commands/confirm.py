"""`confirm`: a person says that the process of a lost pod has ended.

It runs as the person, never as the operator: it creates one PodEndConfirmation with the rights of whoever calls it. What
is said, refused and told is in `suspects.py`, which the kubectl plugin shares.
"""

from __future__ import annotations

from ...api import names
from ...api.resources.confirmation import PodEndConfirmation
from ...kube.gateway import AioKubeGateway
from ...kube.problem import KubeProblem
from ...kube.transport import Resource, Transport
from . import suspects
from .as_person import caller, gateway, said, with_transport
from .person import Json


async def list_suspects(namespace: str) -> int:
    """Print the suspects of a namespace, each with the command to type.

    Returns
    -------
    0; or 1 when they cannot be read.
    """
    return await with_transport(lambda transport: suspects.list_suspects(_Caller(transport), namespace))


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
        lambda transport: suspects.say_ended(_Caller(transport), namespace, pod_name, uid, statement, by)
    )


class _Caller:
    """Whoever calls this process, at the API server that its kubeconfig or service account names."""

    program = "staticgroup"

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._kube: AioKubeGateway = gateway(transport)

    async def user(self) -> str:
        return await caller(self._transport)

    async def static_groups(self, namespace: str) -> list[Json] | KubeProblem:
        return await self._kube.list_objects(names.STATIC_GROUP_PLURAL, namespace)

    async def pod_uid(self, namespace: str, name: str) -> str | KubeProblem | None:
        read = await self._kube.read_pod(namespace, name)
        if isinstance(read, KubeProblem):
            return read
        return read.version.uid if read.version is not None else None

    def refuse_out_of_bounds(self, body: Json) -> None:
        said(PodEndConfirmation, body)

    async def say(self, plural: str, namespace: str, body: Json) -> Json | KubeProblem:
        resource = Resource(group=names.GROUP, version=names.VERSION, plural=plural)
        return await self._transport.call("create", resource, namespace=namespace, body=body)
