"""Which namespaces may log in with credentials of the operator: tokens mounted into its pod, and its AWS identity.

Why: a KafkaConnection that names such a login has it sent to brokers of its author's choice. One idea: it never names a
path. It names a token, and only a token in the folder of its own namespace is found; an AWS identity is used only where
the installer has listed the namespace.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...core.group import KafkaProblemKind
from ..errors import refusal

ANY_NAMESPACE = "*"
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFile:
    """A mounted token: `<root>/<namespace>/<name>`, each of the last two a DNS label."""

    root: str
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """Where it is."""
        return f"{self.root}/{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCredentials:
    """What the operator shares, and with which namespaces.

    Parameters
    ----------
    tokens_path: directory of the tokens, each at `<namespace>/<name>` below it; empty: there are none.
    aws_msk_iam: who may log in at Amazon MSK with the operator's AWS identity, each `<namespace>` or
        `<namespace>=<role ARN>`; the namespace `*` is any.
    """

    tokens_path: str = ""
    aws_msk_iam: tuple[str, ...] = ()

    def token_file(self, namespace: str, name: str) -> TokenFile:
        """Find the token that a KafkaConnection names, mounted or not; Refusal (CONNECTION_INVALID) if it may not."""
        text = ""
        if not self.tokens_path:
            text = "spec.sasl.oauth.tokenFile: this operator shares no tokens; set the chart's operator.tokens"
        elif not (_LABEL.fullmatch(namespace) and _LABEL.fullmatch(name)):
            text = "spec.sasl.oauth.tokenFile must be the name of a token, a DNS label, and no path"
        if text:
            raise refusal(KafkaProblemKind.CONNECTION_INVALID, text)
        return TokenFile(root=self.tokens_path.rstrip("/"), namespace=namespace, name=name)

    def check_aws(self, namespace: str, role_arn: str | None) -> None:
        """Raise Refusal (CONNECTION_INVALID) unless a namespace may use an AWS identity."""
        identity = f"={role_arn}" if role_arn else ""
        if not {f"{namespace}{identity}", f"{ANY_NAMESPACE}{identity}"} & set(self.aws_msk_iam):
            what = f"the role {role_arn}" if role_arn else "the operator's own AWS identity"
            why = f"{what} is not shared with namespace {namespace}; the installation of the operator lists it in the "
            raise refusal(KafkaProblemKind.CONNECTION_INVALID, f"spec.sasl.awsMskIam: {why}chart's operator.awsMskIam")
