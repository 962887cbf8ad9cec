"""What clients append to the ids they are given, against what the spec expects of them.

A static member whose id begins like one of ours and ends otherwise is almost always ours under a wrong spec: it counts
as foreign, its seat as missing, and when its pod ends nothing is removed. So the status names it and the field to set.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ...api.identifiers import SuffixStyle, client_suffixes
from ...api.injection import identity_of, implied_preset, suffix_in_force
from ...api.protocols import RoleChoice
from ...api.resources.identity import IMPLIED_SUFFIXES, MEMBERS_PER_POD_MAX, Identity
from ...api.resources.staticgroup import StaticGroupSpec
from ...api.schema import INT32_MAX
from ..seats import SeatTable, Standing
from ..snapshot import Injected
from .naming import Naming

_NUMBER: Final = re.compile(r"-(0|[1-9][0-9]?)")
_NAMED_MAX: Final = 4
"""Suffixes that a sentence lists; a client that makes up more of them is not helped by a longer list."""
_NAMED_LENGTH_MAX: Final = 40
_ONE_WAY: Final = (
    "the clients of a pod to append the same (those of Spring append nothing with alwaysClientIdSuffix false), because "
    "no suffix fits one that appends something and one that does not; what an earlier client left behind ends with its "
    "session"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NearMatch:
    """A foreign member that holds the id of a pod with something else appended than expected; "": nothing at all."""

    instance_id: str
    pod_name: str
    appended: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SuffixMismatch:
    """The members that nearly match.

    Parameters
    ----------
    nearly: never empty; in order of their ids.
    cause: what their client does and what the spec expects, without a full stop.
    remedy: what a sentence that begins with "Set" says next, without a full stop.
    """

    nearly: tuple[NearMatch, ...]
    cause: str
    remedy: str

    def of(self, instance_id: str | None) -> NearMatch | None:
        """Return the match of a member's id; None when it is not one of them."""
        return next((n for n in self.nearly if n.instance_id == instance_id), None)

    def for_pod(self, pod_name: str | None) -> NearMatch | None:
        """Return the first match for a pod; None when there is none."""
        return next((n for n in self.nearly if n.pod_name == pod_name), None)


def suffix_mismatch(
    spec: StaticGroupSpec, injected: Injected | None, naming: Naming, table: SeatTable,
    carried_elsewhere: Collection[str] = (),
) -> SuffixMismatch | None:
    """Find the foreign members that hold an id of ours but for what their client appends; None when there are none.

    Parameters
    ----------
    carried_elsewhere: ids that a pod which is no seat carries as they are, so that nothing was appended to them.

    Notes
    -----
    Only our ids contain the scope. Without it, and where the ordinal ends an id, a pod of another workload or a copy of
    one of ours may have such a name with more behind it (`web-1-0`, `web-1-debug`), so there a member counts only where
    the pod whose seat it would take has been Ready for a while and nobody holds it.
    """
    nearly: list[NearMatch] = []
    missing = {seat.ordinal for seat in table.of(Standing.MISSING)}
    for member in table.foreign:
        if member.instance_id in carried_elsewhere:
            continue
        for scheme in naming.schemes:
            found = scheme.appended_to(member.instance_id or "")
            if found is None or found[0] > INT32_MAX:  # no StatefulSet has such an ordinal
                continue
            is_ours = bool(naming.scope) and naming.scope in scheme.template and not scheme.template.endswith("}")
            if is_ours or found[0] in missing:  # held by nobody though its pod is Ready
                name = f"{scheme.workload_name}-{found[0]}"
                nearly.append(NearMatch(instance_id=member.instance_id or "", pod_name=name, appended=found[1]))
                break
    if not nearly:
        return None
    wish = identity_of(spec)
    style = suffix_in_force(wish, injected.suffix_follows_preset if injected is not None else None)
    expected = client_suffixes(style, wish.members_per_pod, tuple(wish.custom_suffixes or ()))
    near = {n.appended for n in nearly}
    own = table.of(Standing.DEPARTED, Standing.JOINED)
    known = {found[1] for seat in own for scheme in naming.schemes[:1] if (found := scheme.appended_to(seat.key))}
    is_both = bool({n.pod_name for n in nearly if not n.appended} & {seat.pod_name for seat in own})
    return SuffixMismatch(
        nearly=tuple(nearly),
        cause=f"their client appends {_listed(near)} to the id that it is given, and spec.identity expects "
        f"{_listed(expected)}",
        remedy=_ONE_WAY if near == {""} and is_both else _remedy(spec, style, near, known),
    )


def unheeded_suffix(wish: Identity, injected: Injected | None) -> str:
    """Say that the preset's client appends something that the ids are expected without; "" when it is not so."""
    implied = IMPLIED_SUFFIXES.get(wish.preset)
    if implied is None or injected is None:
        return ""
    if suffix_in_force(wish, injected.suffix_follows_preset) is not SuffixStyle.NONE:
        return ""
    why = "is None"
    if wish.suffix is SuffixStyle.AUTO:
        why = "is Auto, and these ids were issued with None, which it keeps"
    unless = ", unless its containers have alwaysClientIdSuffix false" if implied is SuffixStyle.SPRING else ""
    return (
        f"spec.identity.suffix {why}, but the client of preset {wish.preset.value} appends "
        f"{client_suffixes(implied, 1)[0]}: set spec.identity.suffix to {implied.value}{unless}."
    )


def _remedy(spec: StaticGroupSpec, style: SuffixStyle, near: set[str], known: set[str]) -> str:
    """Return which field to set to what.

    Parameters
    ----------
    near: what the members that nearly match have appended. known: what those that match have.
    """
    wish, rests = identity_of(spec), sorted(near - {""})
    if not rests:
        fields = {"suffix": SuffixStyle.NONE.value} | ({"membersPerPod": "1"} if wish.members_per_pod > 1 else {})
        since = "or roll the StatefulSet if spec.identity was changed since its pods started"
        return f"{_fields(fields, spec)}, {since} (what they leave behind ends with its session)"
    seen = near | known
    numbers = [int(found[1]) for rest in seen if (found := _NUMBER.fullmatch(rest))]
    counted = SuffixStyle.SPRING if 0 in numbers else SuffixStyle.STREAMS
    if not known and numbers and min(numbers) >= wish.members_per_pod > 1 and style is SuffixStyle.SPRING:
        counted = style  # one more than are expected, which are away
    count = max(numbers, default=0) + (counted is SuffixStyle.SPRING)
    if all(_NUMBER.fullmatch(rest) for rest in rests) and count <= MEMBERS_PER_POD_MAX:
        if counted is style:
            more = _fields({"membersPerPod": str(count)}, spec)
            return f"{more}, or wait for their sessions to end if the pods run fewer since"
        fields = {"suffix": counted.value} | ({"membersPerPod": str(count)} if count != wish.members_per_pod else {})
        return _fields(fields, spec)
    every = sorted(seen - {""})
    if len(every) > MEMBERS_PER_POD_MAX or any(len(rest) > _NAMED_LENGTH_MAX for rest in every):
        return "the client to use the id as it is: what it appends is more than spec.identity.customSuffixes can list"
    listed = f"[{', '.join(every)}]" if len(every) <= _NAMED_MAX else f"these {len(every)}"
    fields = {"suffix": SuffixStyle.CUSTOM.value, "customSuffixes": listed, "membersPerPod": str(len(every))}
    return f"{_fields(fields, spec)} if it appends the same at every start; if not, let it use the id as it is"


def _fields(fields: Mapping[str, str], spec: StaticGroupSpec) -> str:
    """Say which fields to set; a suffix other than Streams, which role Streams implies, needs another role, too."""
    if spec.role is RoleChoice.STREAMS and "suffix" in fields:
        preset = implied_preset(spec)
        kept = {"preset": preset.value} if preset is not None else {}
        return " and ".join((f"spec.role to {RoleChoice.CONSUMER.value}", *_settings({**kept, **fields})))
    return " and ".join(_settings(fields))


def _settings(fields: Mapping[str, str]) -> list[str]:
    """Write fields of an identity as what to set."""
    return [f"spec.identity.{name} to {value}" for name, value in fields.items()]


def _listed(appended: Iterable[str]) -> str:
    """List suffixes for people, in order and not too many."""
    ordered = sorted(set(appended), key=lambda text: (len(text), text))
    words = [text[:_NAMED_LENGTH_MAX] or "nothing" for text in ordered[:_NAMED_MAX]]
    return ", ".join(words) + (" …" if len(ordered) > _NAMED_MAX else "")
