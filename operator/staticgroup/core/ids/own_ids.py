"""Members that joined under ids of the application's own, although their pods get others.

Most applications that are static already take the pod's name (metadata.name) for their group.instance.id and never look
at an injected variable. A restart changes nothing about that, so the status says what is so and the two ways out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...api.identifiers import may_become
from ...api.injection import env_entries
from ...api.resources.client import ClientType
from ...api.resources.staticgroup import StaticGroupSpec
from ..evidence.chain import KnownPod, PodState
from ..findings import counted
from ..seats import SeatTable, Standing
from ..snapshot import Snapshot
from .suffixes import SuffixMismatch

FORM: Final = "their form, such as billing-{ordinal}"
UNEXPANDED: Final = "$("
"""Begins a reference to a variable that the container does not have: the kubelet leaves it as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnIds:
    """What was found.

    Parameters
    ----------
    pod_of: the pod of each such id. It is one id, and any of the pods, where all of them share it.
    is_shared: all pods use one id, so that their members fence each other.
    sentence, remedy: what is so, and what to do; without a full stop.
    """

    pod_of: dict[str, str]
    is_shared: bool
    sentence: str
    remedy: str


def own_ids(
    spec: StaticGroupSpec, snapshot: Snapshot, table: SeatTable, suffix: SuffixMismatch | None
) -> OwnIds | None:
    """Find the members that hold ids of the application's own; None where there are none.

    Parameters
    ----------
    suffix: members whose ids are ours but for what their client appends: of none of them is it the application's.

    Notes
    -----
    The evidence: a foreign id is the name of a live pod of the workload, perhaps with something appended, or stands in
    its environment, and nobody holds the id that is this pod's; or there is one foreign id while every pod is Ready and
    without its member. Beside a pod whose member has joined, a pod of another cluster may have the same name.
    """
    if spec.client.type is ClientType.OWN or snapshot.collisions:  # the variable may hold another StaticGroup's id
        return None
    vacant = {seat.pod_name for seat in table.of(Standing.MISSING, Standing.UNISSUED)}
    live = [p for p in snapshot.pods if p.state is PodState.LIVE and p.pod_name in vacant]
    live.sort(key=lambda p: -len(p.pod_name))
    explained = {*snapshot.carried_elsewhere, *(n.instance_id for n in (suffix.nearly if suffix is not None else ()))}
    foreign = sorted(m.instance_id for m in table.foreign if m.instance_id and m.instance_id not in explained)
    pod_of = {i: pod.pod_name for i in foreign if (pod := _pod_of(i, live)) is not None}
    variable = env_entries(spec.client)[0].instance_id_name
    hand_over = f"let the client take group.instance.id from the variable {variable}"
    unexpanded = next((i for i in foreign if UNEXPANDED in i), None)
    if unexpanded is not None:
        sentence = (
            f"a member joined as {unexpanded}: its container has no such variable, so the text itself is the id, and "
            "a second pod without it would fence the first"
        )
        remedy = "restart the pod that lacks the variable (Injected and the issues name it)"
        return OwnIds(pod_of={unexpanded: ""}, is_shared=True, sentence=sentence, remedy=remedy)
    if pod_of:
        example = next(iter(pod_of))
        joined = counted(len(pod_of), "member joined under an id", "members joined under ids")
        sentence = f"{joined} of the application's own, such as {example} of pod {pod_of[example]}"
        keep = _as_own(pod_of, has_template=spec.id_template is not None)
        if FORM in keep:
            hand_over = "name the variable that the client reads in spec.client.env (type Custom), or let it read "
            hand_over += variable
        if any(seat.pod_name in pod_of.values() for seat in table.of(Standing.MISSING)):
            sentence += f": it does not use the id in the variable {variable}"
            remedy = f"{hand_over}; or, to keep these ids, set {keep}, and roll"
        else:
            sentence += "; these pods were given no other yet"
            remedy = f"to keep these ids, set {keep}; to replace them, {hand_over}, and roll in mode Manage"
        return OwnIds(pod_of=pod_of, is_shared=False, sentence=sentence, remedy=remedy)
    missing = table.of(Standing.MISSING)
    if len(foreign) == 1 and len(missing) == len(table.wanted) > 1:
        sentence = (
            f"no member uses the id of its pod, and one id is used that belongs to none, {foreign[0]}: if it is a "
            "constant of the application, all pods share it and fence each other"
        )
        return OwnIds(
            pod_of={foreign[0]: missing[0].pod_name}, is_shared=True, sentence=sentence,
            remedy=f"{hand_over}, without a constant to fall back to",
        )
    return None


def _pod_of(instance_id: str, live: Sequence[KnownPod]) -> KnownPod | None:
    """Return the live pod whose name or environment explains an id; longer names come first."""
    return next((p for p in live if may_become(p.pod_name, instance_id) or instance_id in p.instance_ids), None)


def _as_own(pod_of: dict[str, str], *, has_template: bool) -> str:
    """Say which fields let the ids stay as the application makes them."""
    added = {i.removeprefix(pod_name) if i.startswith(pod_name) else None for i, pod_name in pod_of.items()}
    word = "spec.client.type to Own"
    if added == {""}:
        return f'{word} and spec.idTemplate to "{{podName}}"' if has_template else word
    if None in added:
        return f"{word} and spec.idTemplate to {FORM}"
    listed = sorted(text for text in added if text)
    if len(added) == 1:
        return f'{word} and spec.idTemplate to "{{podName}}{listed[0]}"'
    return f"{word} and spec.client.suffixes to what it appends to the pod's name"
