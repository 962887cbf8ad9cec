"""What clients append to the ids they are given, against what the spec expects of them.

A static member whose id begins like one of ours and ends otherwise is almost always ours under a wrong spec: it counts
as foreign, its seat as missing, and when its pod ends nothing is removed. So the status names it and the field to set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ...api.injection import client_suffixes, env_entries
from ...api.resources.client import CONCURRENCY_MAX, NUMBERS_ITS_MEMBERS, WORKER_TYPES, Client, ClientType
from ...api.resources.staticgroup import StaticGroupSpec
from ...api.schema import INT32_MAX
from ..seats import SeatTable, Standing
from .naming import Naming

_NUMBER: Final = re.compile(r"-(0|[1-9][0-9]?)")
_NAMED_MAX: Final = 4
"""Suffixes that a sentence lists; a client that makes up more of them is not helped by a longer list."""
_NAMED_LENGTH_MAX: Final = 40
_ROW_MAX: Final = 200
"""Longest remedy that a row of status.issues has room for."""
_LEFT_BEHIND: Final = "what an earlier client left behind ends with its session"
_ONE_WAY: Final = (
    "the clients of a pod to append the same (those of Spring append nothing with alwaysClientIdSuffix false), because "
    f"spec.client.suffixes is appended to the id of each entry of spec.client.env; {_LEFT_BEHIND}"
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

    @property
    def in_a_row(self) -> str:
        """What a row says of what to do."""
        fits = len(self.remedy) <= _ROW_MAX
        return f"set {self.remedy}" if fits else "the condition MembershipComplete says what to set"

    def of(self, instance_id: str | None) -> NearMatch | None:
        """Return the match of a member's id; None when it is not one of them."""
        return next((n for n in self.nearly if n.instance_id == instance_id), None)

    def for_pod(self, pod_name: str | None) -> NearMatch | None:
        """Return the first match for a pod; None when there is none."""
        return next((n for n in self.nearly if n.pod_name == pod_name), None)


def suffix_mismatch(
    spec: StaticGroupSpec, naming: Naming, table: SeatTable, carried_elsewhere: Collection[str] = (),
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
    expected = client_suffixes(spec.client)
    near = {n.appended for n in nearly}
    own = [
        (seat.pod_name, found[1])
        for seat in table.of(Standing.DEPARTED, Standing.JOINED)
        for scheme in naming.schemes[:1]
        if (found := scheme.appended_to(seat.key))
    ]
    held = {*own, *((n.pod_name, n.appended) for n in nearly)}
    is_both = bool({pod for pod, text in held if text} & {pod for pod, text in held if not text})
    return SuffixMismatch(
        nearly=tuple(nearly),
        cause=f"their client appends {_listed(near)} to the id that it is given, and spec.client expects "
        f"{_listed(expected)}",
        remedy=_remedy(spec.client, near, {text for _, text in own}, is_both=is_both),
    )


def _remedy(client: Client, near: set[str], known: set[str], *, is_both: bool) -> str:
    """Return which field to set to what, where members that nearly match appended `near`, and those that match `known`.

    `is_both`: a pod has a member that appended something and one that appended nothing.
    """
    if client.type in WORKER_TYPES:
        return "the workers to use the id as it is, because a Connect worker appends nothing to it"
    if is_both and len(env_entries(client)) > 1:
        return _ONE_WAY
    seen = near | known
    if not seen - {""} or (near == {""} and not is_both):
        since = "or roll the StatefulSet if spec.client was changed since its pods started"
        return f"{_fields([''], client)}, {since} (what they leave behind ends with its session)"
    count = _concurrency(client, seen, known)
    if count is not None and not is_both:
        fewer = "if the pods run fewer members by now, wait for the sessions of the others to end"
        return f"spec.client.concurrency to {count}, or, {fewer}"
    every = sorted(seen - {""})
    numbers = sorted(int(found[1]) for rest in every if (found := _NUMBER.fullmatch(rest)))
    if len(numbers) == len(every) and numbers[-1] < CONCURRENCY_MAX:  # also those that are away
        every = [f"-{number}" for number in range(min(numbers[0], 1), numbers[-1] + 1)]
    if len(every) > CONCURRENCY_MAX or any(len(rest) > _NAMED_LENGTH_MAX for rest in every):
        return "the client to use the id as it is: what it appends is more than spec.client.suffixes can list"
    if is_both:
        shared = "if two clients of each pod share its id and one of them appends nothing"
        return f"{_fields(['', *every], client)} {shared}; if not, {_LEFT_BEHIND}"
    if_same = "if the client appends the same at every start; if not, let it use the id as it is"
    return f"{_fields(every, client)} {if_same}"


def _concurrency(client: Client, seen: set[str], known: set[str]) -> int | None:
    """Return how many members of a client that numbers them explain what they append; None where it is not that."""
    if client.suffixes or client.type not in NUMBERS_ITS_MEMBERS:
        return None
    numbers = [int(found[1]) for rest in seen if (found := _NUMBER.fullmatch(rest))]
    first = 1 if client.type is ClientType.KAFKA_STREAMS else 0
    if not numbers or len(numbers) != len(seen - {""}) or min(numbers) < first:
        return None
    is_known = bool(known) or min(numbers) == first or min(numbers) >= client.concurrency > 1
    count = max(numbers) + 1 - first
    return count if is_known and count <= CONCURRENCY_MAX else None


def _fields(suffixes: Sequence[str], client: Client) -> str:
    """Say that what the client appends is to be listed, and what else goes with it, as YAML.

    Kafka Streams takes no such list, so a client that does otherwise is Custom, with the variables that it reads now.
    """
    settings = [f"spec.client.suffixes to {_as_yaml(suffixes)}"]
    if client.concurrency > 1:
        settings.insert(0, "spec.client.concurrency to 1")
    if client.type is ClientType.KAFKA_STREAMS:
        settings[:0] = ["spec.client.type to Custom", *([] if client.env else [_env_of(client)])]
    *others, last = settings
    return f"{', '.join(others)} and {last}" if others else last


def _env_of(client: Client) -> str:
    """Write the variables that the type of a client names as `client.env`, which takes in the container, too."""
    (entry,) = env_entries(client)
    names = f"instanceIdName: {entry.instance_id_name}, sessionTimeoutName: {entry.session_timeout_name}"
    if entry.container is None:
        return f"spec.client.env to [{{{names}}}]"
    return f"spec.client.env, in place of spec.client.container, to [{{container: {entry.container}, {names}}}]"


def _as_yaml(suffixes: Sequence[str]) -> str:
    """Write a list, of many numbers only the first and the last, and of other texts an example."""
    quoted = [json.dumps(text) for text in suffixes]
    if len(quoted) <= _NAMED_MAX:
        return f"[{', '.join(quoted)}]"
    if all(_NUMBER.fullmatch(text) for text in suffixes):
        return f"[{quoted[0]}, {quoted[1]}, …, {quoted[-1]}]"
    return f"a list of the {len(quoted)} texts that the client appends, such as {quoted[0]},"


def _listed(appended: Iterable[str]) -> str:
    """List suffixes for people, in order and not too many."""
    ordered = sorted(set(appended), key=lambda text: (len(text), text))
    words = [text[:_NAMED_LENGTH_MAX] or "nothing" for text in ordered[:_NAMED_MAX]]
    return ", ".join(words) + (" …" if len(ordered) > _NAMED_MAX else "")
