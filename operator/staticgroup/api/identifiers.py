"""Turn a workload's ordinals into the `group.instance.id`s its pods carry, and an id back into its ordinal.

The one idea: an id is *template + env suffix + client suffix*, and every part is known beforehand, so the set of
expected ids is computed and never guessed from what happens to be in the group. Suffixes begin with a separator; that
alone makes the way back unambiguous, whatever the template (shown by a property test).
Sources: KIP-345 (static membership); `Topic.validate` (length and alphabet); KEP-3335 (`spec.ordinals.start`).
"""

import hashlib
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NewType

InstanceId = NewType("InstanceId", str)
Ordinal = NewType("Ordinal", int)

# Topic.MAX_NAME_LENGTH and Topic.LEGAL_CHARS of the broker, which JoinGroupRequest.validateGroupInstanceId applies.
INSTANCE_ID_LENGTH_MAX = 249
EXPECTED_IDS_MAX = 10_000
"""Most ids of one StaticGroup: each round renders and compares all of them, and spec.replicas may be two billion."""
_LEGAL_INSTANCE_ID = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_ORDINAL = re.compile(r"0|[1-9][0-9]*")
_REST = re.compile(r"(?:[._-][a-zA-Z0-9._-]*)?")
_OF_POD = re.compile(r"(\{podName\}|\{ordinal\})")
PATTERNS_MAX = 1024
"""Patterns that are kept for the rest of a round, of as many StaticGroups as may be worked on at once."""
PLACEHOLDERS = frozenset({"podName", "ordinal", "namespace", "workloadName", "groupName", "scope"})
SEPARATORS = "._-"


def may_become(carried: str, instance_id: str) -> bool:
    """Tell whether a client with this id may hold another one: the same, or with a separator and anything appended."""
    return instance_id == carried or any(instance_id.startswith(carried + separator) for separator in SEPARATORS)


def first_that_may_become(carried: str, instance_ids: Sequence[str]) -> int | None:
    """Return the index of the first of sorted ids that a client with an id may hold; None when there is none."""
    for start in (carried, *(carried + separator for separator in SEPARATORS)):
        at = bisect_left(instance_ids, start)
        if at < len(instance_ids) and may_become(carried, instance_ids[at]):
            return at
    return None


class InvalidInstanceIdError(ValueError):
    """Say that the broker would refuse this id, and why."""


class TooManyIdsError(ValueError):
    """Say that a workload calls for more ids than a StaticGroup serves."""


class AmbiguousIdentityError(ValueError):
    """Say that two consumers of one pod would carry the same id and fence each other."""


def validate_instance_id(text: str) -> InstanceId:
    """Accept exactly the ids that the broker accepts: 1..249 characters of `[a-zA-Z0-9._-]`, not `.` or `..`.

    Raises
    ------
    InvalidInstanceIdError: With the rule that was broken.
    """
    if not text:
        raise InvalidInstanceIdError("a group.instance.id must not be empty")
    if len(text) > INSTANCE_ID_LENGTH_MAX:
        raise InvalidInstanceIdError(f"a group.instance.id has at most 249 characters, this one has {len(text)}")
    if text in {".", ".."}:
        raise InvalidInstanceIdError("a group.instance.id must not be '.' or '..'")
    if not _LEGAL_INSTANCE_ID.fullmatch(text):
        raise InvalidInstanceIdError("a group.instance.id holds only ASCII letters, digits, '.', '_' and '-'")
    return InstanceId(text)


def identity_scope(*, cluster_uid: str, namespace: str, name: str, uid: str) -> str:
    """Compute the scope that keeps ids of different clusters, namespaces and StaticGroups apart.

    Parameters
    ----------
    cluster_uid: UID of the `kube-system` namespace, the accepted identity of a cluster.
    namespace, name, uid: Of the StaticGroup. With the uid, a StaticGroup that is deleted and created again issues new
        ids: nothing can have carried one before, which is what the evidence chain builds on.

    Returns
    -------
    8 lower-case hex digits of SHA-256, constant for the life of the StaticGroup.
    """
    return hashlib.sha256(f"{cluster_uid}/{namespace}/{name}/{uid}".encode()).hexdigest()[:8]


def placeholders_of(template: str) -> frozenset[str]:
    """Name the placeholders of a template such as `{podName}.{scope}`, known or not, without braces."""
    return frozenset(_PLACEHOLDER.findall(template))


def resolve_template(template: str, *, namespace: str, workload_name: str, group_name: str, scope: str) -> str:
    """Fill in everything that is the same for all pods of the workload.

    Parameters
    ----------
    namespace, workload_name: Of the StatefulSet.
    group_name: `metadata.name` of the StaticGroup (not the group.id, whose alphabet is wider than that of an id).

    Returns
    -------
    The template with only `{podName}` and `{ordinal}` left: what `status.injected.idTemplate` holds.

    Raises
    ------
    InvalidInstanceIdError: When a placeholder is unknown, or none is left that tells one pod from another.
    """
    unknown = placeholders_of(template) - PLACEHOLDERS
    if unknown:
        raise InvalidInstanceIdError(f"unknown placeholder {{{min(unknown)}}} in the id template")
    constants = {"namespace": namespace, "workloadName": workload_name, "groupName": group_name, "scope": scope}
    resolved = _PLACEHOLDER.sub(lambda found: constants.get(found[1], found[0]), template)
    if not placeholders_of(resolved):
        raise InvalidInstanceIdError("an id template must contain {podName} or {ordinal}")
    return resolved


@dataclass(frozen=True, slots=True, kw_only=True)
class IdScheme:
    """Know every id that one StaticGroup may issue.

    Parameters
    ----------
    template: As `resolve_template` gives it: only `{podName}` and `{ordinal}` left.
    workload_name: The StatefulSet, whose pods are called `<workload_name>-<ordinal>`.
    env_suffixes: One for each injected consumer of a pod; `""` for the usual single one.
    suffixes: What the client appends, see `injection.client_suffixes`.

    Raises
    ------
    AmbiguousIdentityError: When two combinations of suffixes are the same text, or a suffix does not begin with a
        separator.
    """

    template: str
    workload_name: str
    env_suffixes: tuple[str, ...] = ("",)
    suffixes: tuple[str, ...] = ("",)
    _combined: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _ends: tuple[str, str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        combined = tuple(own + added for own in self.env_suffixes for added in self.suffixes)
        if not combined or len(set(combined)) != len(combined):
            raise AmbiguousIdentityError(f"the suffixes give two members of a pod the same id: {sorted(combined)}")
        bare = [text for text in combined if text and text[0] not in SEPARATORS]
        if bare:
            raise AmbiguousIdentityError(f"suffix {bare[0]!r} must begin with one of '.', '_', '-'")
        object.__setattr__(self, "_combined", combined)
        object.__setattr__(self, "_ends", _ends_of(self.template, self.workload_name))

    def base_id(self, ordinal: Ordinal, env_suffix: str = "") -> InstanceId:
        """Render the id that is injected, as the pod's annotation must say it, before the client appends anything.

        Raises
        ------
        InvalidInstanceIdError: When the broker would refuse it.
        """
        pod_name = f"{self.workload_name}-{ordinal}"
        rendered = self.template.replace("{podName}", pod_name).replace("{ordinal}", str(ordinal))
        return validate_instance_id(rendered + env_suffix)

    def ids_of(self, ordinal: Ordinal) -> tuple[InstanceId, ...]:
        """Render every id that the members of this pod use; never empty, without repetition.

        Raises
        ------
        InvalidInstanceIdError: When the broker would refuse one of them.
        """
        return tuple(self.base_id(ordinal, suffix) for suffix in self._combined)

    def expected_ids(self, start: int, replicas: int) -> dict[InstanceId, Ordinal]:
        """List the ids that the workload's intent calls for.

        Parameters
        ----------
        start: `spec.ordinals.start`, 0 when absent.
        replicas: `spec.replicas`, from 0.

        Returns
        -------
        Ids of the ordinals `[start, start + replicas)` in ascending order, each with its ordinal.

        Raises
        ------
        TooManyIdsError: When there are more than EXPECTED_IDS_MAX.
        InvalidInstanceIdError: When the broker would refuse one of them.
        """
        self.check_count(replicas)
        ordinals = (Ordinal(number) for number in range(start, start + replicas))
        return {instance_id: ordinal for ordinal in ordinals for instance_id in self.ids_of(ordinal)}

    def check_count(self, replicas: int) -> None:
        """Refuse more pods than a StaticGroup serves.

        Raises
        ------
        TooManyIdsError: When they have more than EXPECTED_IDS_MAX ids.
        """
        if replicas * len(self._combined) > EXPECTED_IDS_MAX:
            each = f"{len(self._combined)} {'id' if len(self._combined) == 1 else 'ids'} for each"
            limit = f"a StaticGroup serves {EXPECTED_IDS_MAX} ids at most"
            raise TooManyIdsError(f"{self.workload_name} wants {replicas} pods, {each}; {limit}")

    def ordinal_of(self, instance_id: str) -> Ordinal | None:
        """Find the ordinal whose pod would carry this id; None when this scheme never issues it: it is foreign."""
        if self._ends is not None:
            split = _split(instance_id, *self._ends)
            return split[0] if split is not None and split[1] in self._combined else None
        found = _inverse(self.template, self.workload_name, _any_of(self._combined)).fullmatch(instance_id)
        return Ordinal(int(found["ordinal"])) if found else None

    def appended_to(self, instance_id: str) -> tuple[Ordinal, str] | None:
        """Split an id into the one that a pod is given and whatever a client appended, expected or not.

        Returns
        -------
        The ordinal of the pod, and what was appended: empty, or a separator and more. None when no pod is given an id
        that this one begins with.
        """
        # The longest first: of "" and "-orders" the second explains web-0-orders-0 better.
        own = sorted(self.env_suffixes, key=len, reverse=True)
        if self._ends is not None:
            split = _split(instance_id, *self._ends)
            if split is None:
                return None
            ordinal, suffixes = split
            rests = (suffixes[len(suffix) :] for suffix in own if suffixes.startswith(suffix))
            return next(((ordinal, rest) for rest in rests if _REST.fullmatch(rest)), None)
        ending = f"{_any_of(own)}(?P<rest>{_REST.pattern})"
        found = _inverse(self.template, self.workload_name, ending).fullmatch(instance_id)
        return (Ordinal(int(found["ordinal"])), found["rest"]) if found else None


def _any_of(texts: Iterable[str]) -> str:
    """Write the pattern that one of the texts fits."""
    return f"(?:{'|'.join(re.escape(text) for text in texts)})"


def _ends_of(template: str, workload_name: str) -> tuple[str, str] | None:
    """Return what surrounds the ordinal in an id; None for a template that names it twice, or has a digit after it.

    All other ids are read without a pattern: two for each StaticGroup are 3 KiB and took 5 % of the first round.
    """
    before, *rest = _OF_POD.split(template)
    if len(rest) != 2 or rest[1][:1].isdigit():
        return None
    placeholder, after = rest
    return (f"{before}{workload_name}-" if placeholder == "{podName}" else before), after


def _split(instance_id: str, before: str, after: str) -> tuple[Ordinal, str] | None:
    """Return the ordinal of an id and what follows its template; None when that did not make it."""
    if not instance_id.startswith(before):
        return None
    found = _ORDINAL.match(instance_id, len(before))
    if found is None or not instance_id.startswith(after, found.end()):
        return None
    return Ordinal(int(found[0])), instance_id[found.end() + len(after) :]


@lru_cache(maxsize=PATTERNS_MAX)
def _inverse(template: str, workload_name: str, suffix_pattern: str) -> re.Pattern[str]:
    """Compile the template into the pattern of its ids; a repeated placeholder must repeat the same ordinal."""
    parts: list[str] = []
    ordinal = f"(?P<ordinal>{_ORDINAL.pattern})"
    for text in _OF_POD.split(template):
        if text not in {"{podName}", "{ordinal}"}:
            parts.append(re.escape(text))
            continue
        parts.append((f"{re.escape(workload_name)}-" if text == "{podName}" else "") + ordinal)
        ordinal = "(?P=ordinal)"
    return re.compile("".join(parts) + suffix_pattern)
