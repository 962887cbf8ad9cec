"""Who is in the group, who should be, and which pods belong to whom.

Every described member falls into exactly one class: expected (its ordinal is wanted), departed (issued by this
StaticGroup, ordinal no longer wanted), foreign (static, but not of our shape) or dynamic (no instance id).
Expected ids without a healthy member are away (pod restarting, which is what sessions are for) or missing (the
pod is Ready for a while and nobody holds its id, as with a client that was fenced and never says so).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ..api.identifiers import IdScheme, InvalidInstanceIdError, Ordinal
from ..api.schema import INT32_MAX
from .chain import Incarnation, IncarnationState
from .group import GroupView, MemberView

MISSING_AFTER_READY_S = 30.0
"""A Ready pod gets this long to join before its member counts as missing: librdkafka joins within 1-3 s, and a
KIP-848 join may wait one heartbeat of every other member."""


ORDINAL_DIGITS_MAX = 10
OVERDUE_AFTER_S = 300.0
"""A pod that is this old and still not Ready is no restart any more: unschedulable, no image, or crash-looping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Every id one StaticGroup may issue or has issued: the present scheme first, then earlier ones."""

    schemes: tuple[IdScheme, ...]
    is_scoped: bool

    def ordinal_of(self, instance_id: str) -> Ordinal | None:
        """Return the ordinal an id was made for by any scheme; None when the id is not ours."""
        for scheme in self.schemes:
            ordinal = scheme.ordinal_of(instance_id)
            if ordinal is not None:
                return ordinal
        return None

    def is_current(self, instance_id: str) -> bool:
        """True when the present scheme makes this id."""
        return bool(self.schemes) and self.schemes[0].ordinal_of(instance_id) is not None

    def expand(self, pod: Incarnation) -> Incarnation:
        """Add the ids that the client makes by suffixing the ids the pod carries (Streams `-1`, Spring `-0`)."""
        made: set[str] = set()
        for scheme in self.schemes:
            ordinal = ordinal_of_pod(scheme.workload_name, pod.pod_name)
            if ordinal is None:
                continue
            for base in _bases(scheme, ordinal) & pod.instance_ids:
                made.update(base + added for added in scheme.suffixes)
        return replace(pod, instance_ids=pod.instance_ids | made) if made - pod.instance_ids else pod

    def gives(self, pod: Incarnation) -> bool:
        """True when a pod carries the ids that the present scheme gives to its name, whatever else it carries."""
        scheme = self.schemes[0] if self.schemes else None
        ordinal = ordinal_of_pod(scheme.workload_name, pod.pod_name) if scheme is not None else None
        return scheme is not None and ordinal is not None and _bases(scheme, ordinal) <= pod.instance_ids

    def own_ids(self, pod: Incarnation) -> frozenset[str]:
        """Return which ids of a pod, whatever its name, a StaticGroup issues or has issued, also before its client suffixes them."""
        suffixes = {"", *(added for scheme in self.schemes for added in scheme.suffixes)}
        return frozenset(i for i in pod.instance_ids if any(self.ordinal_of(i + added) is not None for added in suffixes))

    def carried_as(self, instance_id: str) -> frozenset[str]:
        """Return every id a pod may carry whose process holds `instance_id`: itself, and what the client suffixes."""
        carried = {instance_id}
        for scheme in self.schemes:
            ordinal = scheme.ordinal_of(instance_id)
            if ordinal is not None:
                carried |= _bases(scheme, ordinal)
        return frozenset(carried)

    def pod_name_of(self, instance_id: str) -> str | None:
        """Return the name of the pod that would carry an id; None when the id is not ours."""
        for scheme in self.schemes:
            ordinal = scheme.ordinal_of(instance_id)
            if ordinal is not None:
                return f"{scheme.workload_name}-{ordinal}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """One classification of a completely read group.

    Parameters
    ----------
    expected: ids wanted now, each with its ordinal.
    overdue: those of `away` whose pod has existed for so long that no restart explains it.
    unissued: expected ids whose pod runs without them, so that nobody can hold them yet.
    departed: members of ours whose ordinal is not wanted, or whose id an earlier template made.
    duplicates: ids that more than one described member holds; a reading nothing is decided on.
    """

    expected: Mapping[str, int] = field(default_factory=dict)
    joined: tuple[str, ...] = ()
    away: tuple[str, ...] = ()
    overdue: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unissued: tuple[str, ...] = ()
    departed: tuple[MemberView, ...] = ()
    foreign: tuple[MemberView, ...] = ()
    dynamic: tuple[MemberView, ...] = ()
    duplicates: frozenset[str] = frozenset()


def _bases(scheme: IdScheme, ordinal: Ordinal) -> frozenset[str]:
    """Return the ids that the pod of an ordinal carries, before the client appends anything."""
    bases: set[str] = set()
    for env_suffix in scheme.env_suffixes:
        with suppress(InvalidInstanceIdError):  # the broker refuses it, so no member has it
            bases.add(scheme.base_id(ordinal, env_suffix))
    return frozenset(bases)


def ordinal_of_pod(workload_name: str, pod_name: str) -> Ordinal | None:
    """Return the ordinal in a StatefulSet pod's name; None when the name is not `<workload_name>-<ordinal>`."""
    text = pod_name.removeprefix(f"{workload_name}-")
    if text == pod_name or len(text) > ORDINAL_DIGITS_MAX or not (text.isascii() and text.isdigit()):
        return None
    ordinal = int(text)
    return Ordinal(ordinal) if text == str(ordinal) and ordinal <= INT32_MAX else None  # no StatefulSet writes 02


def classify(
    identity: Identity, expected: Mapping[str, int], group: GroupView, pods: Sequence[Incarnation], *, now_s: float
) -> Membership:
    """Classify the members of a group against the ids that are wanted.

    Parameters
    ----------
    expected: ids of the ordinals the workload wants, each with its ordinal.
    pods: present pods of the workload.
    now_s: seconds since the Unix epoch.
    """
    held: dict[str, list[MemberView]] = {}
    for member in group.members:
        if member.instance_id is not None:
            held.setdefault(member.instance_id, []).append(member)
    bare = {p.pod_name for p in pods_without_id(identity, expected, pods)}
    by_id = {i: pod for pod in pods for i in pod.instance_ids if pod.state is IncarnationState.LIVE}
    joined = tuple(i for i in expected if i in held and held[i][0].member_epoch != -2)
    absent = [i for i in expected if i not in held]
    away_on_purpose = [i for i in expected if i in held and held[i][0].member_epoch == -2]
    missing = tuple(i for i in absent if _ready_for_s(by_id.get(i), now_s) >= MISSING_AFTER_READY_S)
    unissued = tuple(i for i in absent if identity.pod_name_of(i) in bare)
    statics = sorted(
        (m for members in held.values() for m in members), key=lambda m: (m.instance_id or "", m.member_id)
    )
    away = tuple(i for i in absent if i not in missing and i not in unissued)
    return Membership(
        expected=dict(expected),
        joined=joined,
        away=away + tuple(away_on_purpose),
        overdue=tuple(i for i in away if i in by_id and now_s - by_id[i].created_at_s >= OVERDUE_AFTER_S),
        missing=missing,
        unissued=unissued,
        departed=departed_members(identity, expected, group),
        foreign=tuple(
            m for m in statics if m.instance_id not in expected and identity.ordinal_of(m.instance_id or "") is None
        ),
        dynamic=tuple(sorted((m for m in group.members if m.instance_id is None), key=lambda m: m.member_id)),
        duplicates=frozenset(i for i, members in held.items() if len(members) > 1),
    )


def is_departed(identity: Identity, expected: Mapping[str, int], instance_id: str) -> bool:
    """True for an id that this StaticGroup may have issued and that the workload does not call for (any more)."""
    return instance_id not in expected and identity.ordinal_of(instance_id) is not None


def departed_members(identity: Identity, expected: Mapping[str, int], group: GroupView) -> tuple[MemberView, ...]:
    """Return the described members whose id is departed, by id and then by member id; of a group of whatever type."""
    found = (m for m in group.members if is_departed(identity, expected, m.instance_id or ""))
    return tuple(sorted(found, key=lambda m: (m.instance_id or "", m.member_id)))


def pods_without_id(
    identity: Identity, expected: Mapping[str, int], pods: Sequence[Incarnation]
) -> tuple[Incarnation, ...]:
    """Return the live pods of wanted ordinals that carry no id the present scheme makes."""
    wanted_names = {identity.pod_name_of(i) for i in expected}
    return tuple(p for p in pods if p.pod_name in wanted_names and _lacks_id(identity, p))


def _ready_for_s(pod: Incarnation | None, now_s: float) -> float:
    """Return how long a pod has been Ready without being deleted; a negative number when it is not."""
    if pod is None or pod.ready_since_s is None or pod.is_deleting:
        return -1.0
    return now_s - pod.ready_since_s


def _lacks_id(identity: Identity, pod: Incarnation) -> bool:
    """True for a live pod that carries no id the present scheme makes."""
    if pod.state is not IncarnationState.LIVE or pod.is_deleting:
        return False
    return not any(identity.is_current(i) for i in pod.instance_ids)
