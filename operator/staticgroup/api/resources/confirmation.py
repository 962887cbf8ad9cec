"""Describe a person's word that the process of one lost pod has ended.

The one idea: creating the resource is the right to say it, so who may say it is a matter of RBAC, and what was said
cannot be changed afterwards. It is read by the operator and never written by it, so it has no status.
"""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from ..schema import ApiModel, DnsSubdomain, immutable, ruled
from .staticgroup import ObjectMeta

BY_MAX = 256
STATEMENT_MAX = 500

Uid = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern="^[-a-zA-Z0-9]+$")]
Statement = Annotated[str, StringConstraints(min_length=1, max_length=STATEMENT_MAX, pattern=r"\S")]
Author = Annotated[str, StringConstraints(min_length=1, max_length=BY_MAX, pattern=r"\S")]

REMEDY = "what was said stays said; delete the object and create another one to say it again"
BY_TEXT = (
    "Who says so: the user name by which the API server knows the creator, 1 to 256 characters. On Kubernetes 1.30 and later "
    "an admission policy of the chart holds it to that; else it is the creator's claim."
)


class PodEndConfirmationSpec(ApiModel):
    """Say which pod's process has ended, why that is sure, and who says so."""

    model_config = ruled(immutable("spec", REMEDY))

    pod_name: DnsSubdomain = Field(description="Name of the pod, in the namespace of this object.")
    pod_uid: Uid = Field(
        description="UID of the pod: of that one incarnation and no other, as status.ledger shows it.",
    )
    statement: Statement = Field(
        description="Why it is sure that no process of this pod runs and none will start again, 1 to 500 characters. "
        "It is written to status, Events and the audit log.",
    )
    by: Author = Field(description=BY_TEXT)


class PodEndConfirmation(ApiModel):
    """A PodEndConfirmation is a person's word that no process of one lost pod runs any more, or will again."""

    api_version: Literal["staticgroup.io/v1alpha1"] = "staticgroup.io/v1alpha1"
    kind: Literal["PodEndConfirmation"] = "PodEndConfirmation"
    metadata: ObjectMeta
    spec: PodEndConfirmationSpec = Field(description="What is said.")
