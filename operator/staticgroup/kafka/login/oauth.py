"""Fetch OAUTHBEARER tokens with the client credentials grant.

Why: aiokafka awaits a token at each log-in but brings no provider. One idea: one provider per connection pool, which
keeps a token until shortly before its end and treats the endpoint like any address a user chose: https only, checked
address, no redirect, a bounded answer. The operator proves itself by a client secret or by a mounted token.
Source: RFC 6749 §4.4, RFC 7523 §2.2 (client assertion), KIP-768.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from ...core.group import KafkaProblem, KafkaProblemKind
from ..addresses import HostPort, Resolver, check
from ..errors import Refusal, refusal
from .credentials import OAuthSettings
from .tokens import RenewedToken, TokenProvider

ANSWER_MAX_BYTES = 64 * 1024
LIFETIME_DEFAULT_S = 300.0
"""When the endpoint does not say `expires_in`."""
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class ClientCredentials(RenewedToken):
    """Ask the token endpoint with client id and secret, or with a client assertion.

    Parameters
    ----------
    assertion: gives the token that stands in place of a client secret; None: there is a secret.
    clock: monotonic seconds.
    context: verifies the endpoint's certificate.
    """

    early_s = 60.0

    def __init__(
        self,
        settings: OAuthSettings,
        *,
        clock: Callable[[], float],
        resolver: Resolver,
        context: ssl.SSLContext,
        allow_loopback: bool,
        timeout_s: float,
        assertion: TokenProvider | None = None,
    ) -> None:
        super().__init__(clock)
        self._settings = settings
        self._assertion = assertion
        self._resolver = resolver
        self._context = context
        self._allow_loopback = allow_loopback
        self._timeout_s = timeout_s

    async def _fetch(self) -> tuple[str, float]:
        """Ask for a token; raises Refusal when address, TLS, answer or log-in is not good, or that of the assertion."""
        # Step 1: where to ask, and how the operator shows who it is.
        settings, url = self._settings, self._settings.token_endpoint or ""
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname:
            raise refusal(KafkaProblemKind.CONNECTION_INVALID, "spec.sasl.oauth.tokenEndpoint must be an https URL")
        target, headers = HostPort(host=parts.hostname, port=parts.port or 443), {}
        form = {"grant_type": "client_credentials"} | ({"scope": settings.scope} if settings.scope else {})
        if self._assertion is not None:
            assertion = await self._assertion.token()
            form |= {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion.text}
            form |= {"client_id": settings.client_id} if settings.client_id else {}
        else:  # RFC 6749 §2.3.1: both are form-encoded before they go into the header
            login = f"{quote(settings.client_id, safe='')}:{quote(settings.client_secret.reveal(), safe='')}"
            headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()

        # Step 2: the address, checked like any that a user chose.
        address = await check(target, allow_loopback=self._allow_loopback, resolver=self._resolver)
        if isinstance(address, KafkaProblem):
            raise refusal(address.kind, address.message.replace("broker", "token endpoint", 1))

        # Step 3: ask; the answer is read to its end or to its bound, because one `read` gives only what has arrived.
        connector = aiohttp.TCPConnector(resolver=_Pinned(address), ssl=self._context, use_dns_cache=False)
        body = b""
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                aiohttp.ClientSession(connector=connector, trust_env=False) as session,
                session.post(url, data=form, headers=headers, allow_redirects=False) as response,
            ):
                while len(body) < ANSWER_MAX_BYTES and (
                    piece := await response.content.read(ANSWER_MAX_BYTES - len(body))
                ):
                    body += piece
        except aiohttp.ClientConnectorCertificateError:
            why = "its certificate is not accepted; check its dates, its names and the CA"
            raise _refuse(KafkaProblemKind.TLS_FAILED, target, why) from None
        except (TimeoutError, OSError, aiohttp.ClientError):
            raise _refuse(KafkaProblemKind.UNREACHABLE, target, "it does not answer; check network and URL") from None

        # Step 4: what it says.
        if response.status != 200:
            proof = "the audience of tokenFile" if self._assertion else "client secret"
            text = f"it answered HTTP {response.status}; check client id, {proof} and scope"
            raise _refuse(KafkaProblemKind.AUTHENTICATION_FAILED, target, text)
        try:
            answer: Any = json.loads(body)
            token = answer["access_token"] if isinstance(answer, Mapping) else None
            lifetime_s = float(answer.get("expires_in", LIFETIME_DEFAULT_S))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            token, lifetime_s = None, 0.0
        if not isinstance(token, str) or not token or not token.isascii() or not lifetime_s > 0:
            raise _refuse(KafkaProblemKind.UNEXPECTED_ANSWER, target, "it answered without a usable access_token")
        return token, lifetime_s


class _Pinned(AbstractResolver):
    """Answer every name with the address that was checked."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        family = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        flags = socket.AI_NUMERICHOST
        return [ResolveResult(hostname=host, host=self._address, port=port, family=family, proto=0, flags=flags)]

    async def close(self) -> None:
        """Nothing is held."""


def _refuse(kind: KafkaProblemKind, target: HostPort, text: str) -> Refusal:
    return refusal(kind, f"no token from token endpoint {target}: {text}")
