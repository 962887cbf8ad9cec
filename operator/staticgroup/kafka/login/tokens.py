"""Bearer tokens: how long a login with one lasts, and tokens out of files that are mounted into the operator's pod.

Why: a projected service account token is renewed in place by the kubelet, so it is read again at each use, and never
kept. One idea: the file is the operator's own; anything that makes it useful beyond the brokers (an audience of the API
server, a link out of the folder) has it refused unread or unsent.
Source: RFC 6750 §2.1 (form of a token), RFC 7519 (claims), RFC 7628 and KIP-342 (extensions), KEP-1205 (projection).
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from aiokafka.abc import AbstractTokenProvider

from ...core.group import KafkaProblemKind
from ..errors import Refusal, refusal
from .shared_credentials import TokenFile

TOKEN_MAX_BYTES = 64 * 1024
API_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount/token"
"""The token with which the operator itself speaks to the API server."""
_B64TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*")


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerToken:
    """A token and the end of its life.

    Parameters
    ----------
    until_s: monotonic seconds; infinite when it does not say.
    """

    text: str = field(repr=False)
    until_s: float = float("inf")


class TokenProvider(Protocol):
    """Anything that can be asked for a bearer token."""

    async def token(self) -> BearerToken:
        """Return a valid token; raises Refusal."""


class RenewedToken(ABC):
    """Fetch a token, and keep it until `early_s` before its end, or for half of its life if that is longer."""

    early_s = float("inf")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._token = BearerToken(text="")
        self._renew_at_s = float("-inf")
        self._lock = asyncio.Lock()

    async def token(self) -> BearerToken:
        """Return a token that is valid for a while; raises the Refusal of the fetch."""
        async with self._lock:
            if self._clock() >= self._renew_at_s:
                text, lifetime_s = await self._fetch()
                self._token = BearerToken(text=text, until_s=self._clock() + lifetime_s)
                self._renew_at_s = self._clock() + max(lifetime_s - self.early_s, lifetime_s / 2)
            return self._token

    @abstractmethod
    async def _fetch(self) -> tuple[str, float]:
        """Return a new token and its lifetime in seconds."""


class AiokafkaToken(AbstractTokenProvider):
    """Offer a TokenProvider, with the extensions of a login, in the form that aiokafka wants; one for each login."""

    def __init__(self, provider: TokenProvider, extensions: Sequence[tuple[str, str]] = ()) -> None:
        self._provider = provider
        self._extensions = dict(extensions)
        self.until_s = float("inf")
        """The end of the token that was given, in monotonic seconds."""

    async def token(self) -> str:
        """Return a valid token."""
        token = await self._provider.token()
        self.until_s = token.until_s
        return token.text

    def extensions(self) -> dict[str, str]:
        """Return what is sent beside the token (KIP-342)."""
        return self._extensions


class MountedToken:
    """Read a mounted token at each use.

    Parameters
    ----------
    now_s: wall clock, in which `exp` is.
    clock: monotonic seconds.
    api_token_path: the operator's own token, whose audiences no shared token may have.
    """

    def __init__(
        self, file: TokenFile, *, now_s: Callable[[], float], clock: Callable[[], float],
        api_token_path: str = API_TOKEN_PATH,
    ) -> None:  # fmt: skip
        self._file = file
        self._now_s = now_s
        self._clock = clock
        self._api_token_path = api_token_path

    async def token(self) -> BearerToken:
        """Return the token as it is in the file now; Refusal when it is missing, invalid, expired or the operator's."""
        content = await asyncio.to_thread(self._read)
        claims = _claims(content)
        try:
            of_operator = await asyncio.to_thread(_read_file, Path(self._api_token_path))
        except OSError:  # outside of a cluster
            of_operator = b""
        if _audiences(claims) & _audiences(_claims(of_operator.strip())):
            text = "has an audience of the API server, where it would be the operator; project it with another audience"
            raise self._refuse(KafkaProblemKind.CONNECTION_INVALID, text)
        end_s = claims.get("exp")
        if not isinstance(end_s, int | float):
            return BearerToken(text=content.decode())
        left_s = end_s - self._now_s()
        if left_s <= 0:
            text = "has expired; check that the volume is a projected one, and the clocks"
            raise self._refuse(KafkaProblemKind.AUTHENTICATION_FAILED, text)
        return BearerToken(text=content.decode(), until_s=self._clock() + left_s)

    def _read(self) -> bytes:
        try:
            root, path = Path(self._file.root).resolve(strict=True), Path(self._file.path).resolve(strict=True)
            # The folder of a namespace may be a link, as the kubelet makes it; what is in it is not another one's.
            folder = Path(self._file.path).parent.resolve(strict=True)
            if not (folder.is_relative_to(root) and folder != root and path.is_relative_to(folder)):
                raise self._refuse(KafkaProblemKind.SECRET_INVALID, "is a link out of the folder of its tokens")
            content = _read_file(path)
        except OSError:
            text = "is not mounted or cannot be read; add it to the chart's operator.tokens"
            raise self._refuse(KafkaProblemKind.SECRET_MISSING, text) from None
        content = content.strip()
        if len(content) > TOKEN_MAX_BYTES or not _B64TOKEN.fullmatch(content):
            raise self._refuse(KafkaProblemKind.SECRET_INVALID, "holds no bearer token")
        return content

    def _refuse(self, kind: KafkaProblemKind, text: str) -> Refusal:
        return refusal(kind, f"token {self._file.name!r} of namespace {self._file.namespace} {text}")


def _read_file(path: Path) -> bytes:
    """Read a regular file, and a little more of it than a token may be long."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("no regular file")
        return file.read(TOKEN_MAX_BYTES + 2)


def _claims(token: bytes) -> Mapping[str, Any]:
    """Read what a token says of itself, unverified; nothing when it is opaque."""
    parts = token.split(b".")
    if len(parts) != 3:
        return {}
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + b"=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, Mapping) else {}


def _audiences(claims: Mapping[str, Any]) -> set[str]:
    named = claims.get("aud", [])
    each_named = named if isinstance(named, list) else [named]
    return {audience for audience in each_named if isinstance(audience, str)}
