"""Give the API models their common ground, and the small vocabulary that the CRD generator reads.

The one idea: a field is described once, in the model; bounds, description, default, list type and CEL rule stand next
to each other, and `crd.py` only translates. Sources: apiextensions structural schemas; KEP-2876 (CEL in CRDs).
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, PlainSerializer, StringConstraints
from pydantic.alias_generators import to_camel

from . import ordinals
from .reasons import ConditionStatus, ConditionType, Reason

VALIDATIONS: Final = "x-kubernetes-validations"
LIST_TYPE: Final = "x-kubernetes-list-type"
LIST_MAP_KEYS: Final = "x-kubernetes-list-map-keys"

INT32_MAX: Final = ordinals.INT32_MAX
# Bounds of a schema are floating-point numbers, which hold no whole number beyond this one exactly.
INT64_MAX: Final = 2**53
# LongMax of the broker's session timeouts is 30 min; a day leaves room for a fleet with other bounds.
TIMEOUT_MS_MAX: Final = 86_400_000
# `ConsumerConfig.HEARTBEAT_INTERVAL_MS_DOC`: no higher than 1/3 of the session timeout.
HEARTBEATS_PER_TIMEOUT_MIN: Final = 3
FIELD_NAMES_MAX: Final = 4096
"""Combinations of given fields that are remembered; all kinds of models together have some hundreds in use."""
_FIELD_NAMES: Final[dict[frozenset[str], set[str]]] = {}


class ApiModel(BaseModel):
    """Be the base of every part of a resource: camelCase outside, snake_case inside, frozen, unknown fields ignored.

    Unknown fields are ignored because a newer operator may have written them; the API server prunes what no version
    of the schema knows.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        frozen=True,
        extra="ignore",
    )

    @classmethod
    def from_wire(cls, body: dict[str, Any]) -> Self:
        """Parse decoded JSON or YAML as the API server or a file gives it, and fill in every default.

        Raises
        ------
        pydantic.ValidationError: When a field is missing or out of bounds.
        """
        read = cls.model_validate(body)
        _share_field_names(read)
        return read

    def to_wire(self) -> dict[str, Any]:
        """Write the object as the API server expects it: JSON types, camelCase, without the fields that are None."""
        return self.model_dump(mode="json", exclude_none=True)


def _share_field_names(model: BaseModel) -> None:
    """Let models in which the same fields were given keep one set of their names: half of what a parsed status weighs.

    pydantic makes a set for each model, 700 bytes for more than four fields. Frozen models can share one.
    """
    given = model.__pydantic_fields_set__
    if len(_FIELD_NAMES) >= FIELD_NAMES_MAX:
        _FIELD_NAMES.clear()
    object.__setattr__(model, "__pydantic_fields_set__", _FIELD_NAMES.setdefault(frozenset(given), given))
    for value in model.__dict__.values():
        kind = type(value)
        if kind is list:
            for each in value:
                if isinstance(each, BaseModel):
                    _share_field_names(each)
        elif kind is not str and isinstance(value, BaseModel):
            _share_field_names(value)


@lru_cache(maxsize=1024)
def _rfc3339(moment: datetime) -> str:
    """Write an aware time; a status tells the same moments in each of its versions."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


Timestamp = Annotated[AwareDatetime, PlainSerializer(_rfc3339, return_type=str, when_used="json")]
"""An aware time; RFC 3339 in UTC on the wire, as metav1.Time and metav1.MicroTime."""

DnsLabel = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
DnsSubdomain = Annotated[
    str,
    StringConstraints(
        min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
    ),
]
SecretKey = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
EnvName = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")]
InstanceIdText = Annotated[str, StringConstraints(min_length=1, max_length=249)]
# Written by a broker or a client: `<client.id>-<uuid>`, so its length is the client's choice.
MemberIdText = Annotated[str, StringConstraints(min_length=1, max_length=300)]
Count = Annotated[int, Field(ge=0, le=INT32_MAX)]
Generation = Annotated[int, Field(ge=0, le=INT64_MAX)]
TimeoutMs = Annotated[int, Field(ge=0, le=TIMEOUT_MS_MAX)]
Seconds = Annotated[int, Field(ge=0, le=INT32_MAX)]

NULLABLE: Final[dict[str, Any]] = {"nullable": True}
SET: Final[dict[str, Any]] = {LIST_TYPE: "set"}
ATOMIC: Final[dict[str, Any]] = {LIST_TYPE: "atomic"}


def list_map(*keys: str) -> dict[str, Any]:
    """Say, as `json_schema_extra`, that a list is a map by these keys, so that appliers merge it entry by entry.

    Parameters
    ----------
    keys: Required fields of the entries, or fields with a default.
    """
    return {LIST_TYPE: "map", LIST_MAP_KEYS: list(keys)}


# FieldValueDuplicate is left out: the API server answers it without the rule's message.
CelReason = Literal["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired"]


def rule(
    expression: str, message: str, *, field_path: str | None = None, reason: CelReason = "FieldValueInvalid"
) -> dict[str, str]:
    """Write one CEL rule of a CRD, an entry of `x-kubernetes-validations`, for API servers from 1.29 on.

    Parameters
    ----------
    expression: CEL over `self` (and `oldSelf`, then it is checked on updates only).
    message: The field's full path, what is wrong and what to do instead.
    field_path: `.child` of the node the rule stands on, when that is what the user must change.
    reason: The machine-readable cause in the API server's answer.
    """
    entry = {"rule": expression, "message": message, "reason": reason}
    return entry if field_path is None else {**entry, "fieldPath": field_path}


def rules(*entries: dict[str, str]) -> dict[str, Any]:
    """Attach CEL rules, results of `rule`, to a field by its `json_schema_extra`."""
    return {VALIDATIONS: list(entries)}


def ruled(*entries: dict[str, str]) -> ConfigDict:
    """Attach CEL rules to a model by its `model_config`."""
    return ConfigDict(json_schema_extra=rules(*entries))


def immutable(path: str, remedy: str) -> dict[str, str]:
    """Write the rule that forbids a field's change after creation, and says what to do instead."""
    return rule("self == oldSelf", f"{path} is immutable: {remedy}", reason="FieldValueForbidden")


MESSAGE_LENGTH_MAX: Final = 1024
CONDITIONS_MAX: Final = 16


class ObjectMeta(ApiModel):
    """Hold the part of metadata that the project uses; not part of the generated schema."""

    name: str
    namespace: str
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: Timestamp | None = None


class ClusterObjectMeta(ObjectMeta):
    """Hold the same of an object that belongs to no namespace."""

    namespace: str = ""


class Condition(ApiModel):
    """One aspect of the observed state, in the form that every Kubernetes tool understands."""

    type: Annotated[str, Field(min_length=1, max_length=63, pattern="^[A-Z][A-Za-z]*$")] = Field(
        description="Which aspect this is about, such as Ready or MembershipComplete. True is always the good answer."
    )
    status: ConditionStatus = Field(description="True, False, or Unknown while it has not been observed.")
    reason: Annotated[str, Field(min_length=1, max_length=63, pattern="^[A-Z][A-Za-z0-9]*$")] = Field(
        description="One CamelCase word for the cause; stable, so that alerts can match on it."
    )
    message: Annotated[str, Field(max_length=MESSAGE_LENGTH_MAX)] = Field(
        description="What is so, why, and what to do about it, for people."
    )
    last_transition_time: Timestamp = Field(description="When status last changed; not when the message did.")
    observed_generation: Generation = Field(description="metadata.generation of the spec that this condition is about.")


def with_conditions(
    before: Sequence[Condition],
    found: Iterable[tuple[ConditionType, ConditionStatus, Reason, str]],
    *,
    observed_generation: int,
    now: datetime,
    docs_url: str = "",
) -> tuple[Condition, ...]:
    """Return the conditions with what was found now, moving lastTransitionTime only where a status flips.

    Parameters
    ----------
    before: The conditions as they are, at most one of each type.
    found: Status, reason and message of each type; messages are cut to 1024 characters.
    observed_generation: metadata.generation of the spec in force, from 0.
    now: Aware time of this round; kept to the second, as metav1.Time does.
    docs_url: Where the site of docs/ is read, whose page on its reason a message then names; "" for nowhere.

    Returns
    -------
    The conditions in their old order, new types at the end. Equal to the old ones when nothing but time has passed.

    Notes
    -----
    Same rule as `meta.SetStatusCondition` of apimachinery (KEP-1623).
    """
    conditions = {condition.type: condition for condition in before}
    for kind, status, reason, message in found:
        old = conditions.get(kind)
        is_explained = docs_url and status is not ConditionStatus.TRUE
        page = f" ({docs_url}/guide/troubleshooting.html#{reason.lower()})" if is_explained else ""
        since = old.last_transition_time if old is not None and old.status is status else None
        conditions[kind] = Condition(
            type=kind,
            status=status,
            reason=reason,
            message=_cut(message, MESSAGE_LENGTH_MAX - len(page)) + page,
            last_transition_time=since or now.replace(microsecond=0),
            observed_generation=observed_generation,
        )
    return tuple(conditions.values())


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
