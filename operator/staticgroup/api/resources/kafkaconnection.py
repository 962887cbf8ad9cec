"""Describe the KafkaConnection: how a Kafka cluster is reached and as whom.

The one idea: only typed fields, nothing passes through to a client library, and whatever would put a password on the
wire in the clear is refused by the API server. Secrets are named, in the same namespace, and never copied.
Sources: KIP-43 and KIP-84 (SASL mechanisms), KIP-768 (OAUTHBEARER with OIDC), KIP-342 and RFC 7628 (extensions), RFC 7523
(client assertion).
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from ..schema import (
    NULLABLE,
    SET,
    ApiModel,
    Count,
    DnsLabel,
    DnsSubdomain,
    Generation,
    SecretKey,
    list_map,
    rule,
    ruled,
    rules,
)
from .conditions import CONDITIONS_MAX, Condition
from .staticgroup import ObjectMeta

_HOST = (
    r"([a-zA-Z0-9]([a-zA-Z0-9_-]*[a-zA-Z0-9])?([.][a-zA-Z0-9]([a-zA-Z0-9_-]*[a-zA-Z0-9])?)*[.]?|\\[[0-9a-fA-F:.]+\\])"
)
_PORT = r"([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_LOCAL_HOST = (
    r"^(localhost|[^:]*[.]localhost|127[.][0-9.]+|169[.]254[.][0-9.]+|0[.]0[.]0[.]0|\\[::1?\\]|\\[fe80:.*):[0-9]+$"
)
CLUSTER_ID_MAX: Final = 253
"""Characters; a recommendation names its cluster within the same bound."""
ClusterId = Annotated[
    str, StringConstraints(min_length=1, max_length=CLUSTER_ID_MAX, pattern=r"^[!-~]([ -~]*[!-~])?$")
]
"""Whatever brokers call their cluster: Kafka and most vendors 22 characters of base64url, Confluent Cloud `lkc-…`, Redpanda
`redpanda.<uuid>` or any text of its property cluster_id. Blanks at the ends are an accident of copying."""
_CLUSTER_ID: Final = TypeAdapter(ClusterId)


def is_cluster_id(reported: str) -> bool:
    """Tell whether a cluster id that brokers report can stand in a spec, and so in a status or message too."""
    try:
        _CLUSTER_ID.validate_python(reported)
    except ValidationError:
        return False
    return True


class SaslMechanism(StrEnum):
    """Name the SASL mechanisms that are spoken."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


class CaSecretRef(ApiModel):
    """Name the Secret that holds the certificate authority."""

    name: DnsSubdomain = Field(description="Name of the Secret, in the namespace of this KafkaConnection.")
    key: SecretKey = Field("ca.crt", description="Key that holds the PEM certificates. Default ca.crt.")


class ClientCertificateSecretRef(ApiModel):
    """Name the Secret that holds the client certificate."""

    name: DnsSubdomain = Field(
        description="Name of the Secret, in the namespace of this KafkaConnection; type kubernetes.io/tls fits."
    )
    cert_key: SecretKey = Field("tls.crt", description="Key that holds the PEM certificate chain. Default tls.crt.")
    key_key: SecretKey = Field("tls.key", description="Key that holds the PEM private key. Default tls.key.")


USERNAME_KEY: Final = "username"


class CredentialsSecretRef(ApiModel):
    """Name the Secret that holds a user name and password."""

    name: DnsSubdomain = Field(description="Name of the Secret, in the namespace of this KafkaConnection.")
    username_key: SecretKey = Field(USERNAME_KEY, description="Key that holds the user name. Default username.")
    password_key: SecretKey = Field("password", description="Key that holds the password. Default password.")


class ClientSecretRef(ApiModel):
    """Name the Secret that holds an OAuth client."""

    name: DnsSubdomain = Field(description="Name of the Secret, in the namespace of this KafkaConnection.")
    client_id_key: SecretKey = Field("clientId", description="Key that holds the client id. Default clientId.")
    client_secret_key: SecretKey = Field(
        "clientSecret", description="Key that holds the client secret. Default clientSecret."
    )


class Tls(ApiModel):
    """Say whether and how the connection is encrypted."""

    model_config = ruled(
        rule(
            "self.enabled || !has(self.caSecretRef)",
            "spec.tls.caSecretRef is used only with TLS: set spec.tls.enabled to true or remove it",
            field_path=".caSecretRef",
            reason="FieldValueForbidden",
        ),
        rule(
            "self.enabled || !has(self.clientCertificateSecretRef)",
            "spec.tls.clientCertificateSecretRef is used only with TLS: set spec.tls.enabled to true or remove it",
            field_path=".clientCertificateSecretRef",
            reason="FieldValueForbidden",
        ),
    )

    enabled: bool = Field(
        False,
        description="True encrypts the connection and verifies the broker's certificate and host name; there is no way "
        "to skip that. Default false.",
    )
    ca_secret_ref: CaSecretRef | None = Field(
        None,
        description="Certificate authority of the brokers. Default: the authorities of the operator's image. Name it "
        "when the brokers' certificates are signed by your own authority.",
    )
    client_certificate_secret_ref: ClientCertificateSecretRef | None = Field(
        None, description="Certificate with which the operator identifies itself, for brokers that ask for one."
    )


class SaslExtension(ApiModel):
    """Tell the broker one thing beside the token."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z]+$")] = Field(
        description="Name, letters only, such as logicalCluster.",
        json_schema_extra=rules(
            rule(
                "self != 'auth'",
                "spec.sasl.oauth.extensions[].name must not be auth, which is the token's own name: remove it",
            )
        ),
    )
    value: Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=r"^[\t\r\n -~]+$")] = Field(
        description="Value, printable ASCII, such as lkc-1abc2d."
    )


class OAuth(ApiModel):
    """Say where tokens come from."""

    model_config = ruled(
        rule(
            "has(self.clientSecretRef) != has(self.tokenFile)",
            "spec.sasl.oauth needs either clientSecretRef or tokenFile: give one of them, and not both",
        ),
        rule(
            "has(self.tokenEndpoint) || !has(self.clientSecretRef)",
            "spec.sasl.oauth.tokenEndpoint is required with clientSecretRef: give the identity provider's URL",
            field_path=".tokenEndpoint",
            reason="FieldValueRequired",
        ),
        rule(
            "has(self.tokenEndpoint) || !has(self.scope)",
            "spec.sasl.oauth.scope is used only with tokenEndpoint: give that or remove the scope",
            field_path=".scope",
            reason="FieldValueForbidden",
        ),
        rule(
            "!has(self.clientId) || (has(self.tokenEndpoint) && has(self.tokenFile))",
            "spec.sasl.oauth.clientId is used only with tokenEndpoint and tokenFile: with clientSecretRef it is read "
            "from the Secret",
            field_path=".clientId",
            reason="FieldValueForbidden",
        ),
    )

    token_endpoint: Annotated[str, StringConstraints(min_length=9, max_length=2048)] | None = Field(
        None,
        description="Token endpoint of the identity provider, an https URL. Left out with tokenFile, the token in the "
        "file itself is shown to the brokers.",
        json_schema_extra=rules(
            rule(
                "self.matches('^https://[^/?#@ ]+([/?][^# ]*)?$')",
                "spec.sasl.oauth.tokenEndpoint must be an https URL without user or fragment, because the client "
                "secret is sent to it: use https://...",
            )
        ),
    )
    client_secret_ref: ClientSecretRef | None = Field(
        None, description="The OAuth client that the operator is, with a secret."
    )
    token_file: DnsLabel | None = Field(
        None,
        description="Name of a token that whoever installed the operator lends to this namespace (chart value "
        "operator.tokens), in place of a client secret. With tokenEndpoint it is the client assertion (RFC 7523).",
    )
    client_id: Annotated[str, StringConstraints(min_length=1, max_length=256, pattern=r"^[!-~]([ -~]*[!-~])?$")] | None = (
        Field(None, description="Client id that the identity provider knows the bearer of tokenFile by. Default: none.")
    )
    scope: Annotated[str, StringConstraints(min_length=1, max_length=1024)] | None = Field(
        None, description="Scope to ask for, space-separated. Default: none."
    )
    extensions: Annotated[list[SaslExtension], Field(max_length=16)] = Field(
        [],
        description="SASL extensions (KIP-342), such as logicalCluster and identityPoolId of Confluent Cloud. Default: none.",
        json_schema_extra=list_map("name"),
    )


class AwsMskIam(ApiModel):
    """Say as which AWS identity the operator signs its log-in at Amazon MSK."""

    region: Annotated[
        str, StringConstraints(min_length=6, max_length=32, pattern=r"^[a-z]{2}(-[a-z]{2,12}){1,3}-[0-9]{1,2}$")
    ] = Field(description="AWS region of the cluster, such as eu-central-1.")
    role_arn: (
        Annotated[
            str,
            StringConstraints(
                min_length=20,
                max_length=2048,
                pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=.@/-]+$",
            ),
        ]
        | None
    ) = Field(
        None,
        description="IAM role to assume. Default: the operator's own identity. Either must be lent to this namespace by "
        "whoever installed the operator (chart value operator.awsMskIam).",
    )


class Sasl(ApiModel):
    """Say as whom the operator logs in."""

    model_config = ruled(
        rule(
            "self.mechanism != 'OAUTHBEARER' || has(self.oauth) != has(self.awsMskIam)",
            "spec.sasl.oauth is required with mechanism OAUTHBEARER, or in its place spec.sasl.awsMskIam: give one of "
            "them, and not both",
            field_path=".oauth",
            reason="FieldValueRequired",
        ),
        rule(
            "self.mechanism == 'OAUTHBEARER' || !has(self.oauth)",
            "spec.sasl.oauth is used only with mechanism OAUTHBEARER: set spec.sasl.mechanism to it or remove "
            "oauth",
            field_path=".oauth",
            reason="FieldValueForbidden",
        ),
        rule(
            "self.mechanism == 'OAUTHBEARER' || !has(self.awsMskIam)",
            "spec.sasl.awsMskIam is used only with mechanism OAUTHBEARER: set spec.sasl.mechanism to it or remove "
            "awsMskIam",
            field_path=".awsMskIam",
            reason="FieldValueForbidden",
        ),
        rule(
            "self.mechanism == 'OAUTHBEARER' || has(self.credentialsSecretRef)",
            "spec.sasl.credentialsSecretRef is required with this mechanism: name the Secret that holds username "
            "and password",
            field_path=".credentialsSecretRef",
            reason="FieldValueRequired",
        ),
        rule(
            "self.mechanism != 'OAUTHBEARER' || !has(self.credentialsSecretRef)",
            "spec.sasl.credentialsSecretRef is not used with OAUTHBEARER: name the Secret in "
            "spec.sasl.oauth.clientSecretRef instead",
            field_path=".credentialsSecretRef",
            reason="FieldValueForbidden",
        ),
        rule(
            "!has(self.username) || self.mechanism != 'OAUTHBEARER'",
            "spec.sasl.username is not used with OAUTHBEARER: remove it",
            field_path=".username",
            reason="FieldValueForbidden",
        ),
        rule(
            f"!has(self.username) || !has(self.credentialsSecretRef) || self.credentialsSecretRef.usernameKey == '{USERNAME_KEY}'",
            "spec.sasl.username and spec.sasl.credentialsSecretRef.usernameKey both name the user: remove one of them",
            field_path=".username",
            reason="FieldValueForbidden",
        ),
    )

    mechanism: SaslMechanism = Field(
        description="SASL mechanism: PLAIN and OAUTHBEARER (both only with TLS), SCRAM-SHA-256 or SCRAM-SHA-512."
    )
    username: Annotated[str, StringConstraints(min_length=1, max_length=256, pattern=r"^[!-~]([ -~]*[!-~])?$")] | None = (
        Field(
            None,
            description="User name, for a Secret that holds only the password, such as those of Strimzi's KafkaUsers. "
            "Default: read from the Secret. A Secret that names another user is refused.",
        )
    )
    credentials_secret_ref: CredentialsSecretRef | None = Field(
        None, description="User name and password, for PLAIN and SCRAM. A changed Secret is used at the next login."
    )
    oauth: OAuth | None = Field(None, description="Where tokens come from, for OAUTHBEARER.")
    aws_msk_iam: AwsMskIam | None = Field(
        None,
        description="IAM access control of Amazon MSK, with mechanism OAUTHBEARER in place of oauth. Needs an image "
        "that is built with EXTRA=msk.",
    )


class KafkaConnectionSpec(ApiModel):
    """Say how a Kafka cluster is reached."""

    model_config = ruled(
        rule(
            "!has(self.sasl) || self.sasl.mechanism != 'PLAIN' || self.tls.enabled",
            "spec.tls.enabled must be true with SASL mechanism PLAIN, or the password would cross the network in "
            "the clear: enable TLS or use SCRAM-SHA-512",
            field_path=".tls.enabled",
        ),
        rule(
            "!has(self.sasl) || self.sasl.mechanism != 'OAUTHBEARER' || self.tls.enabled",
            "spec.tls.enabled must be true with SASL mechanism OAUTHBEARER, or the token would cross the network "
            "in the clear: enable TLS",
            field_path=".tls.enabled",
        ),
        rule(
            "!has(self.sasl) || !has(self.sasl.awsMskIam) || !has(self.tls.caSecretRef)",
            "spec.tls.caSecretRef must not be set with spec.sasl.awsMskIam: only brokers with a certificate of a public "
            "authority get what is signed with the operator's AWS identity; remove it",
            field_path=".tls.caSecretRef",
            reason="FieldValueForbidden",
        ),
        rule(
            f"self.allowLoopback || self.bootstrapServers.all(s, !s.lowerAscii().matches('{_LOCAL_HOST}'))",
            "spec.bootstrapServers must not name a loopback or link-local address, which would be the operator's "
            "own machine: name the brokers, or set spec.allowLoopback to true for a test cluster "
            "(and the operator's own setting)",
            field_path=".bootstrapServers",
        ),
    )

    bootstrap_servers: Annotated[
        list[Annotated[str, StringConstraints(min_length=3, max_length=261)]], Field(min_length=1, max_length=20)
    ] = Field(
        description="Brokers to ask first, each as host:port or [IPv6 address]:port, 1 to 20. The others are learned "
        "from them; name two or three.",
        json_schema_extra=SET
        | rules(
            rule(
                f"self.all(s, s.matches('^{_HOST}:{_PORT}$'))",
                "spec.bootstrapServers entries must be host:port without scheme or path, port 1 to 65535: write "
                "kafka-0.example.com:9092",
            )
        ),
    )
    cluster_id: ClusterId | None = Field(
        None,
        description="Cluster id the brokers must report, such as MkU3OEVBNTcwNTJENDM2Qk, lkc-1abc2d or redpanda. and a "
        "UUID. Default: not checked. Set it, so that a wrong address can never act on another cluster.",
    )
    tls: Tls = Field(Tls(), description="Encryption. Default: none.")
    sasl: Sasl | None = Field(None, description="Login. Default: none.")
    request_timeout_seconds: Annotated[int, Field(ge=1, le=60)] = Field(
        10,
        description="Time for one request to a broker, connecting included, in seconds, 1 to 60. Default 10. Raise it "
        "for brokers that are far away.",
    )
    allow_loopback: bool = Field(
        False,
        description="Deprecated: it is the operator's to decide. True asks for broker addresses that are loopback or "
        "link-local, bootstrap or advertised, and has no effect unless the operator's setting "
        "STATICGROUP_ALLOW_LOOPBACK (chart value operator.allowLoopback) is true as well. Default false. For test "
        "clusters only: such an address is the operator's own machine.",
    )


class KafkaConnectionStatus(ApiModel):
    """Report what the operator sees of the cluster."""

    observed_generation: Generation | None = Field(
        None, description="metadata.generation of the spec that this status is about."
    )
    conditions: Annotated[list[Condition], Field(max_length=CONDITIONS_MAX)] = Field(
        [],
        description="Ready sums up; Connected says whether the brokers answer. True is always the good answer.",
        json_schema_extra=list_map("type"),
    )
    cluster_id: Annotated[str, StringConstraints(max_length=CLUSTER_ID_MAX)] | None = Field(
        None, description="Cluster id that the brokers report.", json_schema_extra=NULLABLE
    )
    brokers: Count | None = Field(None, description="Brokers that are alive.", json_schema_extra=NULLABLE)


class KafkaConnection(ApiModel):
    """A KafkaConnection says how a Kafka cluster is reached and as whom."""

    api_version: Literal["staticgroup.io/v1alpha1"] = "staticgroup.io/v1alpha1"
    kind: Literal["KafkaConnection"] = "KafkaConnection"
    metadata: ObjectMeta
    spec: KafkaConnectionSpec = Field(description="How the cluster is reached.")
    status: KafkaConnectionStatus | None = Field(None, description="What the operator sees of the cluster.")

    def is_about_these_brokers(self, status: KafkaConnectionStatus) -> bool:
        """Tell whether the cluster that a status names is that of the present spec.

        Returns
        -------
        False for what was seen of another generation, whose brokers may have been others, unless spec.clusterId asks for
        the same cluster.
        """
        is_pinned = status.cluster_id is not None and status.cluster_id == self.spec.cluster_id
        return is_pinned or status.observed_generation == self.metadata.generation
