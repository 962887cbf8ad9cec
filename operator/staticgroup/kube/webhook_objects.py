"""The two objects of the webhook: the Secret with its certificates, and the configuration by which API servers call it.

A Secret is written over the version that was read: if two replicas renew at once, one wins and the other reads again.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..api.names import FIELD_MANAGER
from .problem import KubeProblem, KubeProblemKind
from .transport import APPLY_PATCH, MERGE_PATCH, MUTATING_WEBHOOKS, SECRETS, Json, Transport

_MANAGER: Final = f"{FIELD_MANAGER}-webhook"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEntries:
    """A version of the Secret.

    Parameters
    ----------
    entries: decoded; without those that are not base64.
    """

    entries: Mapping[str, bytes]
    resource_version: str


Bundles = Mapping[str, bytes]
"""`clientConfig.caBundle` of each webhook by its name, decoded; b"" where there is none."""


class WebhookObjects:
    """Read and write the two objects; only the Secret is in a namespace."""

    def __init__(self, transport: Transport, *, namespace: str, secret_name: str, configuration_name: str) -> None:
        self._transport = transport
        self._namespace = namespace
        self._secret_name = secret_name
        self._configuration_name = configuration_name

    async def read_entries(self) -> StoredEntries | KubeProblem | None:
        """Read the Secret; None when it does not exist."""
        raw = await self._transport.call("get", SECRETS, namespace=self._namespace, name=self._secret_name)
        if isinstance(raw, KubeProblem):
            return None if raw.kind is KubeProblemKind.NOT_FOUND else raw
        entries = {key: _decoded(value) for key, value in (raw.get("data") or {}).items()}
        return StoredEntries(
            entries={k: v for k, v in entries.items() if v}, resource_version=str(raw["metadata"]["resourceVersion"])
        )

    async def write_entries(self, entries: Mapping[str, bytes], over: StoredEntries) -> KubeProblem | None:
        """Write entries over the version that was read; CONFLICT when it is another one by now."""
        data = {key: base64.b64encode(value).decode() for key, value in entries.items()}
        body: Json = {"metadata": {"resourceVersion": over.resource_version}, "data": data}
        answer = await self._transport.call(
            "patch", SECRETS, namespace=self._namespace, name=self._secret_name, body=body, content_type=MERGE_PATCH
        )
        return answer if isinstance(answer, KubeProblem) else None

    async def read_bundles(self) -> Bundles | KubeProblem | None:
        """Read which authorities API servers trust for the webhook; None when there is no configuration."""
        raw = await self._transport.call("get", MUTATING_WEBHOOKS, name=self._configuration_name)
        if isinstance(raw, KubeProblem):
            return None if raw.kind is KubeProblemKind.NOT_FOUND else raw
        webhooks = [w for w in raw.get("webhooks") or () if isinstance(w, dict)]
        return {str(w.get("name")): _decoded((w.get("clientConfig") or {}).get("caBundle")) for w in webhooks}

    async def write_bundle(self, bundle: bytes, names: Iterable[str]) -> KubeProblem | None:
        """Have API servers trust a bundle, by server-side apply of nothing but that."""
        text = base64.b64encode(bundle).decode()
        body: Json = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": self._configuration_name},
            "webhooks": [{"name": name, "clientConfig": {"caBundle": text}} for name in sorted(names)],
        }
        answer = await self._transport.call(
            "patch", MUTATING_WEBHOOKS, name=self._configuration_name, body=body,
            query={"fieldManager": _MANAGER, "force": "true"}, content_type=APPLY_PATCH,
        )
        return answer if isinstance(answer, KubeProblem) else None


def _decoded(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True) if value else b""
    except (binascii.Error, TypeError, ValueError):
        return b""
