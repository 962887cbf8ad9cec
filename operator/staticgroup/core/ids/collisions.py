"""Why ids are another StaticGroup's, and what two of one StatefulSet would both write into its pods.

The latter make no id in common, so another template changes nothing: the field to change is one of `spec.client.env`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...api.injection import env_entries, env_suffixes, instance_id_annotation
from ...api.reasons import Reason
from ...api.resources.client import TAKES_ENV, Client, ClientType
from ...api.resources.staticgroup import Mode, StaticGroupSpec
from ..findings import Obstacle
from ..workload import ContainerBudget, consumer_container


def collision(
    mine: Client, theirs: Client, *, other: str, containers: Sequence[ContainerBudget], has_slots: bool
) -> Obstacle | None:
    """Tell what two StaticGroups of one workload would both write, and each field to change; None for nothing.

    Parameters
    ----------
    other: namespace/name of the other one. containers: of the pod template. has_slots: pods have no ids in annotations.

    Notes
    -----
    Where the application brings its ids, its pods are assumed to have the annotation; their variables are unknown.
    """
    shared = [] if has_slots else sorted(set(env_suffixes(mine)) & set(env_suffixes(theirs)))
    are_written = ClientType.OWN not in (mine.type, theirs.type)
    both = sorted(_variables(mine, containers) & _variables(theirs, containers)) if are_written else []
    if not shared and not both:
        return None
    if shared:
        annotation = instance_id_annotation(shared[0])
        uses = f"uses the same pod annotation {annotation} of these pods"
        sentence = f"StaticGroup {other} {uses}, which show the ids of only one"
    else:
        container, variable = both[0]
        where = f"container {container}" if container else "the first container"
        sets = f"sets the same variable {variable} of {where}"
        sentence = f"StaticGroup {other} {sets}, whose client gets the id of only one"
    fields = [*(["a suffix"] if shared else []), *(["an instanceIdName"] if both else [])]
    first, which, read = "", "one of them", ", and let its client read that variable" if both else ""
    if {mine.type, theirs.type}.isdisjoint(TAKES_ENV):
        first, which = "set spec.client.type of one of them to Custom, and ", "that one"
    remedy = f"{first}give the entries of spec.client.env of {which} {' and '.join(fields)} of their own{read}"
    return Obstacle(reason=Reason.CONFLICTING_STATIC_GROUPS, sentence=sentence, remedy=remedy)


def claim(theirs: StaticGroupSpec, *, other: str, has_issued: bool) -> str:
    """Say why the ids that two StaticGroups make are those of the other one, without a full stop.

    Parameters
    ----------
    other: its namespace/name. has_issued: its status says that pods get the ids of its spec.
    """
    if has_issued:
        return f"StaticGroup {other} issued the same ids first"
    if theirs.client.type is ClientType.OWN:
        return f"the pods of StaticGroup {other} bring the same ids themselves (its client.type is Own)"
    if theirs.mode is Mode.OBSERVE:
        return f"StaticGroup {other} watches pods that may have the same ids (its mode is Observe)"
    when = " once its mode is Manage" if theirs.mode is Mode.SUSPENDED else ""
    return f"StaticGroup {other} is the older one and issues the same ids{when}"


def _variables(client: Client, containers: Sequence[ContainerBudget]) -> set[tuple[str, str]]:
    """Return container and name of each variable that is given an id."""
    chosen = consumer_container(client, containers)
    return {(e.container or chosen, e.instance_id_name) for e in env_entries(client)}
