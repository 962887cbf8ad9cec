"""Everything needed to reach one cluster as one principal, resolved from a KafkaConnection and its Secrets.

Why: secrets must be held so that no log line, exception or repr can show them, and a rotated Secret must lead to new
connections. One idea: `ConnectionSettings` is complete and immutable; its fingerprint names its content.
Source: KIP-43, KIP-84 (SASL), KIP-768 (OAUTHBEARER); StaticGroup's KafkaConnection resource.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NoReturn

from ...api.resources.kafkaconnection import KafkaConnectionSpec, Tls
from ...api.resources.sasl import OAuth, Sasl, SaslMechanism
from ...core.group import KafkaProblem, KafkaProblemKind
from ..addresses import parse_host_port
from ..errors import Refusal, refusal
from .msk_iam import AwsMskIamSettings
from .shared_credentials import SharedCredentials, TokenFile
from .tls import InvalidTlsMaterial, client_context

SecretContents = Mapping[str, Mapping[str, bytes]]
"""Secret name → key → content; a Secret that does not exist has no entry."""

_FINGERPRINT_KEY = secrets.token_bytes(32)
"""Of this process: a logged fingerprint must not let anybody try passwords offline."""
NOTHING_SHARED = SharedCredentials()
_KAFKA_USERS = frozenset({SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512})
"""Mechanisms whose users the brokers themselves hold, so that the user is the principal."""


class SecretText:
    """A text that shows itself only to `reveal`."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text; never put the result into a message."""
        return self._text

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __format__(self, _specification: str) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretText) and hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash((SecretText, self._text))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled or copied")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """TLS to the brokers; without `ca_pem` the system's authorities are trusted."""

    ca_pem: str | None = None
    certificate_pem: str | None = None
    key_pem: SecretText | None = None

    def context(self) -> ssl.SSLContext:
        """Return a verifying client context; raises InvalidTlsMaterial."""
        return client_context(self.ca_pem, self.certificate_pem, self.key_pem.reveal() if self.key_pem else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthSettings:
    """Client credentials grant (RFC 6749 §4.4), or a mounted token as it is.

    Parameters
    ----------
    token_endpoint: an https URL; None: the token in the file is shown to the brokers.
    client_id: empty where the identity provider knows the bearer of the assertion without it.
    token_file: stands in place of the client secret.
    extensions: (name, value) sent beside the token (KIP-342).
    """

    token_endpoint: str | None
    client_id: str = ""
    client_secret: SecretText = field(default_factory=lambda: SecretText(""))
    token_file: TokenFile | None = None
    scope: str | None = None
    extensions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """The log-in: user and password for PLAIN and SCRAM, `oauth` or `aws_msk_iam` for OAUTHBEARER."""

    mechanism: SaslMechanism
    username: str = ""
    password: SecretText = field(default_factory=lambda: SecretText(""))
    oauth: OAuthSettings | None = None
    aws_msk_iam: AwsMskIamSettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """How to reach one cluster, as whom.

    Parameters
    ----------
    name: "<namespace>/<name>" of the KafkaConnection; not part of the fingerprint. When settings of the same name
        arrive with another fingerprint, the connections of the old one are given up.
    bootstrap_servers: "host:port", at least one.
    cluster_id: the id that the brokers must report; None: not checked.
    request_timeout_s: deadline of one operation, from DNS to the last retry; > 0.
    allow_loopback: loopback and link-local addresses may be dialled: the KafkaConnection asks for it and the operator's
        settings allow it.
    """

    bootstrap_servers: tuple[str, ...]
    name: str = ""
    cluster_id: str | None = None
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None
    request_timeout_s: float = 10.0
    allow_loopback: bool = False
    fingerprint: str = field(init=False, default="", compare=False)

    def __post_init__(self) -> None:
        def plain(value: Any) -> Any:
            if isinstance(value, SecretText):
                return value.reveal()
            return {f.name: getattr(value, f.name) for f in fields(value)}

        content = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("name", "fingerprint")}
        mac = hmac.new(_FINGERPRINT_KEY, json.dumps(content, default=plain).encode(), hashlib.sha256)
        object.__setattr__(self, "fingerprint", mac.hexdigest()[:16])

    @property
    def security_protocol(self) -> str:
        """Kafka's name of the combination of TLS and SASL."""
        if self.sasl:
            return "SASL_SSL" if self.tls else "SASL_PLAINTEXT"
        return "SSL" if self.tls else "PLAINTEXT"

    @property
    def principal(self) -> str:
        """Who we are to the broker as far as known here: SCRAM's user is Kafka's own (DefaultKafkaPrincipalBuilder).

        PLAIN's user may be an API key of a service account or `$ConnectionString`; mutual TLS and tokens are named by
        the broker's own rules.
        """
        if self.sasl and self.sasl.mechanism in _KAFKA_USERS:
            return f"User:{self.sasl.username}"
        return "User:ANONYMOUS" if not self.sasl and not self.tls else "the operator's principal"


def resolve(
    spec: KafkaConnectionSpec,
    contents: SecretContents,
    *,
    namespace: str = "",
    name: str = "",
    allow_loopback: bool = False,
    shared: SharedCredentials = NOTHING_SHARED,
) -> ConnectionSettings | KafkaProblem:
    """Fill a KafkaConnection with its Secrets.

    Parameters
    ----------
    namespace: of the KafkaConnection, which decides what it may use of `shared`.
    name: "<namespace>/<name>" of the KafkaConnection.
    allow_loopback: the operator's setting, without which spec.allowLoopback has no effect.

    Returns
    -------
    KafkaProblem: SECRET_MISSING or SECRET_INVALID naming Secret and key, or CONNECTION_INVALID naming the field.
    """
    for server in spec.bootstrap_servers:
        parsed = parse_host_port(server)
        if isinstance(parsed, KafkaProblem):
            return parsed
    if spec.sasl and not spec.tls.enabled and spec.sasl.mechanism in (SaslMechanism.PLAIN, SaslMechanism.OAUTHBEARER):
        text = f"SASL {spec.sasl.mechanism} without TLS sends the secret in the clear; set spec.tls.enabled"
        return _invalid(text).problem
    if spec.sasl and spec.sasl.aws_msk_iam and spec.tls.ca_secret_ref:
        return _invalid("spec.tls.caSecretRef must not be set with spec.sasl.awsMskIam; remove it").problem
    try:
        return ConnectionSettings(
            name=name,
            bootstrap_servers=tuple(spec.bootstrap_servers),
            cluster_id=spec.cluster_id,
            tls=_tls(spec.tls, contents) if spec.tls.enabled else None,
            sasl=_sasl(spec.sasl, contents, namespace, shared) if spec.sasl else None,
            request_timeout_s=float(spec.request_timeout_seconds),
            allow_loopback=spec.allow_loopback and allow_loopback,
        )
    except Refusal as refused:
        return refused.problem


def _tls(tls: Tls, contents: SecretContents) -> TlsSettings:
    ca, client = tls.ca_secret_ref, tls.client_certificate_secret_ref
    settings = TlsSettings(
        ca_pem=_read(contents, ca.name, ca.key) if ca else None,
        certificate_pem=_read(contents, client.name, client.cert_key) if client else None,
        key_pem=SecretText(_read(contents, client.name, client.key_key)) if client else None,
    )
    try:
        settings.context()
    except InvalidTlsMaterial as error:
        if error.part == "ca" and ca:
            raise _secret_invalid(f"key {ca.key!r} of Secret {ca.name!r} holds no PEM certificates") from None
        keys = f"keys {client.cert_key!r} and {client.key_key!r} of Secret {client.name!r}" if client else ""
        raise _secret_invalid(f"{keys} are not a PEM certificate and its unencrypted private key") from None
    return settings


def _sasl(sasl: Sasl, contents: SecretContents, namespace: str, shared: SharedCredentials) -> SaslSettings:
    if sasl.mechanism is SaslMechanism.OAUTHBEARER:
        if sasl.aws_msk_iam:
            region, role_arn = sasl.aws_msk_iam.region, sasl.aws_msk_iam.role_arn
            shared.check_aws(namespace, role_arn)
            iam = AwsMskIamSettings(region=region, role_arn=role_arn)
            return SaslSettings(mechanism=sasl.mechanism, aws_msk_iam=iam)
        if not sasl.oauth:
            raise _invalid("spec.sasl.oauth is required with mechanism OAUTHBEARER")
        return SaslSettings(mechanism=sasl.mechanism, oauth=_oauth(sasl.oauth, contents, namespace, shared))
    reference = sasl.credentials_secret_ref
    if not reference:
        raise _invalid(f"spec.sasl.credentialsSecretRef is required with mechanism {sasl.mechanism}")
    username = sasl.username
    if username is None or reference.username_key in contents.get(reference.name, {}):
        in_secret = _read(contents, reference.name, reference.username_key)
        if username not in (None, in_secret):  # a doubt, so nobody logs in
            where = f"key {reference.username_key!r} of Secret {reference.name!r}"
            raise _secret_invalid(f"{where} names another user than spec.sasl.username; remove one of them")
        username = in_secret
    password = _read(contents, reference.name, reference.password_key)
    for key, text in ((reference.username_key, username), (reference.password_key, password)):
        if "\0" in text or text != text.strip("\r\n"):
            where = f"key {key!r} of Secret {reference.name!r}"
            raise _secret_invalid(f"{where} begins or ends with a line break or holds a NUL")
    return SaslSettings(mechanism=sasl.mechanism, username=username, password=SecretText(password))


def _oauth(oauth: OAuth, contents: SecretContents, namespace: str, shared: SharedCredentials) -> OAuthSettings:
    if oauth.token_endpoint is not None and not oauth.token_endpoint.startswith("https://"):
        raise _invalid("spec.sasl.oauth.tokenEndpoint must be an https URL")
    reference = oauth.client_secret_ref
    if (reference is None) == (oauth.token_file is None):
        raise _invalid("spec.sasl.oauth needs either clientSecretRef or tokenFile; give one of them")
    extensions = tuple((each.name, each.value) for each in oauth.extensions)
    if len(dict(extensions)) < len(extensions) or "auth" in dict(extensions):
        raise _invalid("spec.sasl.oauth.extensions must have distinct names, none of them auth")
    settings = OAuthSettings(token_endpoint=oauth.token_endpoint, scope=oauth.scope, extensions=extensions)
    if oauth.token_file is not None:
        token_file = shared.token_file(namespace, oauth.token_file)
        return replace(settings, client_id=oauth.client_id or "", token_file=token_file)
    assert reference is not None
    if oauth.token_endpoint is None:
        raise _invalid("spec.sasl.oauth.tokenEndpoint is required with clientSecretRef")
    return replace(
        settings,
        client_id=_read(contents, reference.name, reference.client_id_key),
        client_secret=SecretText(_read(contents, reference.name, reference.client_secret_key)),
    )


def _read(contents: SecretContents, secret_name: str, key: str) -> str:
    """Return one text of one Secret, or refuse, naming both and never the content."""
    if secret_name not in contents:
        where = "the namespace of the KafkaConnection, or in spec.secretNamespace of the ClusterKafkaConnection"
        text = f"Secret {secret_name!r} does not exist; create it in {where}"
        raise refusal(KafkaProblemKind.SECRET_MISSING, text)
    content = contents[secret_name].get(key)
    if content is None:
        raise refusal(KafkaProblemKind.SECRET_MISSING, f"Secret {secret_name!r} has no key {key!r}; add it")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise _secret_invalid(f"key {key!r} of Secret {secret_name!r} is not UTF-8 text") from None
    if not text.strip():
        raise _secret_invalid(f"key {key!r} of Secret {secret_name!r} is empty")
    return text


def _secret_invalid(message: str) -> Refusal:
    return refusal(KafkaProblemKind.SECRET_INVALID, f"{message}; correct the Secret")


def _invalid(message: str) -> Refusal:
    return refusal(KafkaProblemKind.CONNECTION_INVALID, message)
