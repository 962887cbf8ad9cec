"""Describe the KafkaConnection: how a Kafka cluster is reached and as whom.

The one idea: only typed fields, nothing passes through to a client library, and whatever would put a password on the
wire in the clear is refused by the API server. Secrets are named and never copied. Login is described in `sasl`.
"""

from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from ..schema import (
    CONDITIONS_MAX,
    NULLABLE,
    SET,
    ApiModel,
    Condition,
    Count,
    DnsSubdomain,
    Generation,
    ObjectMeta,
    SecretKey,
    list_map,
    rule,
    ruled,
    rules,
)
from .sasl import IN_OUR_NAMESPACE, Sasl

_HOST = (
    r"([a-zA-Z0-9]([a-zA-Z0-9_-]*[a-zA-Z0-9])?([.][a-zA-Z0-9]([a-zA-Z0-9_-]*[a-zA-Z0-9])?)*[.]?|\\[[0-9a-fA-F:.]+\\])"
)
_PORT = r"([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_LOCAL_HOST = (
    r"^(localhost|[^:]*[.]localhost|127[.][0-9.]+|169[.]254[.][0-9.]+|0[.]0[.]0[.]0|\\[::1?\\]|\\[fe80:.*):[0-9]+$"
)
CLUSTER_ID_MAX: Final = 253
"""Characters; a recommendation names its cluster within the same bound."""
ClusterId = Annotated[str, StringConstraints(min_length=1, max_length=CLUSTER_ID_MAX, pattern=r"^[!-~]([ -~]*[!-~])?$")]
"""What brokers call their cluster: Kafka and most vendors 22 characters of base64url, Confluent Cloud `lkc-…`, Redpanda
`redpanda.<uuid>` or any text of its property cluster_id. Blanks at the ends are an accident of copying."""
_CLUSTER_ID: Final = TypeAdapter(ClusterId)


def is_cluster_id(reported: str) -> bool:
    """Tell whether a cluster id that brokers report can stand in a spec, and so in a status or message too."""
    try:
        _CLUSTER_ID.validate_python(reported)
    except ValidationError:
        return False
    return True


class CaSecretRef(ApiModel):
    """Name the Secret that holds the certificate authority."""

    name: DnsSubdomain = Field(description=IN_OUR_NAMESPACE)
    key: SecretKey = Field("ca.crt", description="Key that holds the PEM certificates. Default ca.crt.")


class ClientCertificateSecretRef(ApiModel):
    """Name the Secret that holds the client certificate."""

    name: DnsSubdomain = Field(description=f"{IN_OUR_NAMESPACE} Type kubernetes.io/tls fits.")
    cert_key: SecretKey = Field("tls.crt", description="Key that holds the PEM certificate chain. Default tls.crt.")
    key_key: SecretKey = Field("tls.key", description="Key that holds the PEM private key. Default tls.key.")


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
            "spec.tls.caSecretRef must not be set with spec.sasl.awsMskIam: only brokers with a certificate of a "
            "public authority get what is signed with the operator's AWS identity; remove it",
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


class Connection(ApiModel):
    """What both kinds of connection are."""

    api_version: Literal["staticgroup.io/v1alpha1"] = "staticgroup.io/v1alpha1"
    kind: str
    metadata: ObjectMeta
    spec: KafkaConnectionSpec = Field(description="How the cluster is reached.")
    status: KafkaConnectionStatus | None = Field(None, description="What the operator sees of the cluster.")

    def is_about_these_brokers(self, status: KafkaConnectionStatus) -> bool:
        """Tell whether the cluster that a status names is that of the present spec.

        Returns
        -------
        False for what was seen of another generation, whose brokers may have been others, unless spec.clusterId asks
        for the same cluster.
        """
        is_pinned = status.cluster_id is not None and status.cluster_id == self.spec.cluster_id
        return is_pinned or status.observed_generation == self.metadata.generation


class KafkaConnection(Connection):
    """A KafkaConnection says how a Kafka cluster is reached and as whom."""

    kind: Literal["KafkaConnection"] = "KafkaConnection"
