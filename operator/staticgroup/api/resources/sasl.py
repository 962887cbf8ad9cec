"""Describe as whom the operator logs in at the brokers: the part `spec.sasl` of both kinds of connection.

The one idea: a login is named, never written out: its Secret, a token that the installer lends, or an AWS identity.
Sources: KIP-43 and KIP-84 (SASL mechanisms), KIP-768 (OAUTHBEARER with OIDC), KIP-342 and RFC 7628 (extensions), RFC
7523 (client assertion).
"""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from ..schema import ApiModel, DnsLabel, DnsSubdomain, SecretKey, list_map, rule, ruled, rules


class SaslMechanism(StrEnum):
    """Name the SASL mechanisms that are spoken."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


USERNAME_KEY: Final = "username"
_Login = Annotated[str, StringConstraints(min_length=1, max_length=256, pattern=r"^[!-~]([ -~]*[!-~])?$")]
IN_OUR_NAMESPACE: Final = (
    "Name of the Secret, in the namespace of this KafkaConnection, or in the secretNamespace of a "
    "ClusterKafkaConnection."
)


class CredentialsSecretRef(ApiModel):
    """Name the Secret that holds a user name and password."""

    name: DnsSubdomain = Field(description=IN_OUR_NAMESPACE)
    username_key: SecretKey = Field(USERNAME_KEY, description="Key that holds the user name. Default username.")
    password_key: SecretKey = Field("password", description="Key that holds the password. Default password.")


class ClientSecretRef(ApiModel):
    """Name the Secret that holds an OAuth client."""

    name: DnsSubdomain = Field(description=IN_OUR_NAMESPACE)
    client_id_key: SecretKey = Field("clientId", description="Key that holds the client id. Default clientId.")
    client_secret_key: SecretKey = Field(
        "clientSecret", description="Key that holds the client secret. Default clientSecret."
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
        description="Name of a token that the operator's installation shares with this namespace (chart value "
        "operator.tokens), in place of a client secret. With tokenEndpoint it is the client assertion (RFC 7523).",
    )
    client_id: _Login | None = Field(
        None, description="Client id that the identity provider knows the bearer of tokenFile by. Default: none."
    )
    scope: Annotated[str, StringConstraints(min_length=1, max_length=1024)] | None = Field(
        None, description="Scope to ask for, space-separated. Default: none."
    )
    extensions: Annotated[list[SaslExtension], Field(max_length=16)] = Field(
        [],
        description="SASL extensions (KIP-342), such as logicalCluster and identityPoolId of Confluent Cloud. Default: "
        "none.",
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
                min_length=20, max_length=2048, pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=.@/-]+$"
            ),
        ]
        | None
    ) = Field(
        None,
        description="IAM role to assume. Default: the operator's own identity. Either must be shared with this "
        "namespace by the operator's installation (chart value operator.awsMskIam).",
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
            "!has(self.username) || !has(self.credentialsSecretRef) || self.credentialsSecretRef.usernameKey == "
            f"'{USERNAME_KEY}'",
            "spec.sasl.username and spec.sasl.credentialsSecretRef.usernameKey both name the user: remove one of them",
            field_path=".username",
            reason="FieldValueForbidden",
        ),
    )

    mechanism: SaslMechanism = Field(
        description="SASL mechanism: PLAIN and OAUTHBEARER (both only with TLS), SCRAM-SHA-256 or SCRAM-SHA-512."
    )
    username: _Login | None = Field(
        None,
        description="User name, for a Secret that holds only the password, such as those of Strimzi's KafkaUsers. "
        "Default: read from the Secret. A Secret that names another user is refused.",
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
