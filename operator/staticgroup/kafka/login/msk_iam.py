"""Log in at Amazon MSK with an AWS identity, by the vendor's signer.

Why: the login is a URL signed for the operator's AWS identity; for a quarter of an hour anybody who has it can show it
to any MSK cluster of the region. One idea: it is shown only to brokers under MSK's own names, whose certificates a
public authority has signed, and the namespace must be allowed to use the identity (`shared_credentials.py`).
Source: aws-msk-iam-sasl-signer-python (MSKAuthTokenProvider); SASL mechanism OAUTHBEARER.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ...core.group import KafkaProblemKind
from ..errors import Refusal, refusal
from .tokens import RenewedToken

LIBRARY = "aws-msk-iam-sasl-signer-python"
STS_SESSION_NAME = "staticgroup-operator"
Signer = Callable[[str, str | None], tuple[str, int]]
"""(region, role ARN) → the token and its end, in wall-clock milliseconds; it may wait for AWS, and raise anything."""
_PARTS = ("auth", "credentials", "endpoint", "parsers", "httpsession", "utils", "hooks")
_LOGGERS = ("boto3", "urllib3", "s3transfer", "botocore", *(f"botocore.{part}" for part in _PARTS))


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsMskIamSettings:
    """The region of the cluster, and the role to assume; without one the operator's own identity signs."""

    region: str
    role_arn: str | None = None

    def check_host(self, host: str) -> None:
        """Raise Refusal (ADDRESS_REFUSED) for a broker that is not under the names of MSK in the region."""
        name = host.lower().rstrip(".")
        domains = [f".{service}.{self.region}.amazonaws.com" for service in ("kafka", "kafka-serverless")]
        if not name.endswith((*domains, *(f"{domain}.cn" for domain in domains))):
            what = "it does not get what is signed with an AWS identity; check spec.sasl.awsMskIam.region"
            text = f"broker {host} is not under *.kafka.{self.region}.amazonaws.com, so {what}"
            raise refusal(KafkaProblemKind.ADDRESS_REFUSED, text)


def vendor_signer() -> Signer:
    """Load the vendor's library; Refusal (CONNECTION_INVALID) when it is not installed."""
    try:
        library = import_module("aws_msk_iam_sasl_signer.MSKAuthTokenProvider")
    except ImportError:
        text = f"spec.sasl.awsMskIam needs the package {LIBRARY}, which this image does not hold; run the image that is"
        text += " built with --build-arg EXTRA=msk"
        raise refusal(KafkaProblemKind.CONNECTION_INVALID, text) from None
    for name in _LOGGERS:  # at DEBUG they show requests with their signatures and session tokens
        logging.getLogger(name).setLevel(logging.WARNING)

    def sign(region: str, role_arn: str | None) -> tuple[str, int]:
        if role_arn is None:
            token, end_ms = library.generate_auth_token(region)
        else:
            token, end_ms = library.generate_auth_token_from_role_arn(region, role_arn, STS_SESSION_NAME)
        return str(token), int(end_ms)

    return sign


class MskIamToken(RenewedToken):
    """Sign a login, and keep it for half of its life.

    Parameters
    ----------
    load: gives the signer; raises Refusal.
    now_s: wall clock, in which the signer gives the end.
    clock: monotonic seconds.
    """

    def __init__(
        self,
        settings: AwsMskIamSettings,
        *,
        now_s: Callable[[], float],
        clock: Callable[[], float],
        timeout_s: float,
        load: Callable[[], Signer] = vendor_signer,
    ) -> None:
        super().__init__(clock)
        self._settings = settings
        self._now_s = now_s
        self._timeout_s = timeout_s
        self._load = load
        self._signing: asyncio.Future[tuple[str, int] | Exception] | None = None

    async def _fetch(self) -> tuple[str, float]:
        """Wait for the signer, in a thread; a try that outlasts its caller is waited for by the next one."""
        if self._signing is None:
            settings, sign = self._settings, await asyncio.to_thread(self._load)
            self._signing = asyncio.ensure_future(asyncio.to_thread(_tried, sign, settings))
        signing = self._signing
        try:
            async with asyncio.timeout(self._timeout_s):
                found = await asyncio.shield(signing)
        except TimeoutError:
            raise _refuse(KafkaProblemKind.UNREACHABLE, "AWS does not answer; check the network policy") from None
        finally:
            if signing.done():
                self._signing = None
        if not isinstance(found, Exception):
            text, end_ms = found
            return text, end_ms / 1000 - self._now_s()
        # The error is named by its type and AWS's code; its text may hold anything.
        response: Any = getattr(found, "response", None)
        code = response.get("Error", {}).get("Code", "") if isinstance(response, dict) else ""
        what = code if isinstance(code, str) and code.isalnum() else type(found).__name__
        check = "check the role of the operator's service account (IRSA or EKS Pod Identity)"
        text = f"no AWS credentials ({what}); {check} and whether it may assume roleArn"
        raise _refuse(KafkaProblemKind.AUTHENTICATION_FAILED, text)


def _tried(sign: Signer, settings: AwsMskIamSettings) -> tuple[str, int] | Exception:
    """Return what the signer raises: an error in a future for which nobody waits would be logged with its text."""
    try:
        return sign(settings.region, settings.role_arn)
    except Exception as error:  # AttributeError where there are no credentials, and all that botocore raises
        return error


def _refuse(kind: KafkaProblemKind, text: str) -> Refusal:
    return refusal(kind, f"no login for Amazon MSK: {text}")
