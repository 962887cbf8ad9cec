"""What other StaticGroups ask for beside one: the same ids or pods, or the setting of the same Kafka group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..api.identifiers import IdScheme
from ..api.injection import env_suffixes
from ..api.protocols import ProtocolChoice
from ..api.resources.client import ClientType
from ..api.resources.injected import InjectedMethod
from ..api.resources.staticgroup import Mode, StaticGroup
from ..core.findings import Obstacle
from ..core.ids.collisions import claim, collision
from ..core.ids.naming import Naming
from ..core.ids.overlap import share_an_id
from ..core.ids.schemes import resolved_template, schemes_from, schemes_of, wanted_scheme
from ..core.protocols import protocol_asked_for
from ..kube.pods.store import PodStore
from .connections.connections import may_use
from .stores import Stores, connection_of, workload_key
from .work_queue import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Rivals:
    """What concerns one StaticGroup of what the others ask for; StaticGroups are named namespace/name.

    Parameters
    ----------
    overlaps: those that may issue the same ids: a template of theirs, also an earlier one, makes an id of ours.
    prior_claims: of each that keeps an id which the next pods would get, why, as a sentence without a full stop.
    collisions: what others of the same workload, of whatever Kafka group, would write into its pods too.
    asked_by_others_ms: the longest session timeout that others of the namespace want for the group's setting; 0: none.
    unheard: those of them that have not said yet what they want, or whose object cannot be read.
    """

    overlaps: tuple[str, ...] = ()
    prior_claims: tuple[str, ...] = ()
    collisions: tuple[Obstacle, ...] = ()
    asked_by_others_ms: int = 0
    unheard: tuple[str, ...] = ()


def rivals_of(stores: Stores, pods: PodStore | None, key: Key) -> Rivals:
    """Compare a StaticGroup with the others as the watches show them now.

    Parameters
    ----------
    pods: asked who carries ids that would be issued for the first time; None: nobody is.

    Notes
    -----
    A StaticGroup that injects ids keeps them. One that would begin yields to those that issue theirs, by hand or not;
    between equals the older one keeps. So no tenant silences another by writing a template: statuses and creation times
    decide, which both see alike. For the group's setting every StaticGroup counts that exists: one that may not set it,
    or is suspended, has members in the group all the same. Those of other namespaces do not: what a tenant writes
    changes nothing under the credentials of another.
    """
    mine = stores.groups.get(key)
    if mine is None:
        return Rivals()
    collisions = _collisions(stores, key, mine)
    unread = [k for k, i in stores.group_id_of_invalid.items() if k[0] == key[0] and i == mine.spec.group_id]
    others = {k: stores.groups[k] for k in stores.by_group_id.get(mine.spec.group_id, set()) - {key}}
    if not others:
        return Rivals(collisions=collisions, unheard=_named(unread))
    rivals = {k: other for k, other in others.items() if _is_rival(stores, mine, other)}
    schemes, wanted, rank = schemes_of(mine), wanted_scheme(mine), _rank(mine, ())
    theirs = {k: schemes_of(other) for k, other in others.items()}
    carrying = rivals | _carriers(stores, pods, mine, others, wanted)
    claims = {k: other for k, other in carrying.items() if share_an_id(wanted, theirs[k])}
    near = {k: o for k, o in rivals.items() if k[0] == key[0]}
    own_ms = {k: _own_ms(o) for k, o in near.items() if protocol_asked_for(o.spec) is not ProtocolChoice.CLASSIC}
    return Rivals(
        overlaps=_named(k for k in rivals if share_an_id(schemes, theirs[k])),
        prior_claims=tuple(
            claim(claims[k].spec, other="/".join(k), has_issued=place[0] == 0)
            for k in sorted(claims, key="/".join)
            if (place := _rank(claims[k], wanted)) < rank
        ),
        collisions=collisions,
        asked_by_others_ms=max((ms for ms in own_ms.values() if ms is not None), default=0),
        unheard=_named((*(k for k, ms in own_ms.items() if ms is None), *unread)),
    )


def has_rivals(stores: Stores, key: Key) -> bool:
    """Return True when another StaticGroup, readable or not, names a Kafka group of this name in any namespace."""
    mine = stores.groups.get(key)
    if mine is None:
        return False
    group_id = mine.spec.group_id
    return len(stores.by_group_id.get(group_id, ())) > 1 or group_id in stores.group_id_of_invalid.values()


def may_share_group(stores: Stores, mine: StaticGroup, namespace: str, workload_name: str) -> bool:
    """Return True unless pods of a workload cannot be members of the Kafka group of a StaticGroup.

    Returns
    -------
    False when StaticGroups point at the workload, can all be read, and are about another group or Kafka cluster.
    """
    others = [stores.groups.get(k) for k in stores.groups_of_workload(namespace, workload_name)]
    return not others or any(
        o is None or (o.spec.group_id == mine.spec.group_id and _may_share_a_cluster(stores, mine, o)) for o in others
    )


def _is_rival(stores: Stores, mine: StaticGroup, other: StaticGroup) -> bool:
    """Return True if another StaticGroup may be of the same Kafka group; across namespaces its brokers must prove it.

    A tenant may write anything into a StaticGroup, so across namespaces only what the brokers tell counts. Pods that
    carry an id are seen in all namespaces and hold the removal of its member, whatever a StaticGroup says.
    """
    if other.metadata.namespace == mine.metadata.namespace:
        return _may_share_a_cluster(stores, mine, other)
    own, key = (connection_of(g.spec, g.metadata.namespace) for g in (mine, other))
    answered = stores.kafka_cluster_id(key, is_answered=True)
    if answered is None or not may_use(stores, other):
        return False
    return own == key or (bool(answered) and stores.kafka_cluster_id(own) in (answered, None))


def _may_share_a_cluster(stores: Stores, a: StaticGroup, b: StaticGroup) -> bool:
    """Return True unless the brokers of both have reported their cluster, and it is not the same."""
    ids = [stores.kafka_cluster_id_of(g.spec, g.metadata.namespace) for g in (a, b)]
    return not all(ids) or ids[0] == ids[1]


def _carriers(
    stores: Stores, pods: PodStore | None, mine: StaticGroup, others: Mapping[Key, StaticGroup],
    schemes: tuple[IdScheme, ...],
) -> dict[Key, StaticGroup]:
    """Return the StaticGroups of other namespaces, maybe of the same Kafka group, whose pods carry an id of schemes."""
    naming = Naming(schemes=schemes)
    return {
        key: other
        for key, other in others.items()
        if pods is not None
        and key[0] != mine.metadata.namespace
        and _may_share_a_cluster(stores, mine, other)
        and any(i.object_present and naming.own_ids(i) for i in pods.of_workload(key[0], other.spec.workload_ref.name))
    }


def _collisions(stores: Stores, key: Key, mine: StaticGroup) -> tuple[Obstacle, ...]:
    """Return what others of the same workload would write into its pods; a workload of another kind shares no pod.

    One id may serve several Kafka groups: where another StaticGroup makes the same ids, both write the same.
    """
    ref = mine.spec.workload_ref
    of_one_name = (k for k in stores.groups_of_workload(key[0], ref.name) if k != key and k in stores.groups)
    others = sorted(k for k in of_one_name if stores.groups[k].spec.workload_ref.kind == ref.kind)
    if not others:
        return ()
    workload = stores.workloads.get(workload_key(key[0], ref.kind, ref.name))
    containers = workload.containers if workload is not None else ()
    by_slot = mine.spec.workload_ref.known_kind.has_slots
    found = (
        collision(
            mine.spec.client, stores.groups[k].spec.client, other="/".join(k), containers=containers, has_slots=by_slot
        )
        for k in others
        if not _makes_the_same_ids(mine, stores.groups[k])
    )
    return tuple(c for c in found if c is not None)


def _makes_the_same_ids(mine: StaticGroup, other: StaticGroup) -> bool:
    """Return True when every pod gets one id from both, by whatever its clients append in each group."""
    if mine.spec.workload_ref.known_kind.has_slots:  # each gives a pod a slot of its own
        return False
    template = resolved_template(mine)
    is_unscoped = "{scope}" not in mine.spec.template  # a scope is of one StaticGroup, once it is drawn
    is_one = is_unscoped and template is not None and template == resolved_template(other)
    return is_one and env_suffixes(mine.spec.client) == env_suffixes(other.spec.client)


def _own_ms(group: StaticGroup) -> int | None:
    """Return what a StaticGroup wants by itself for the setting of its group; None: it has not said."""
    timeout = group.status.memory.timeout if group.status is not None else None
    return timeout.own_ms if timeout is not None else None


def _named(keys: Iterable[Key]) -> tuple[str, ...]:
    return tuple(sorted(map("/".join, keys)))


def _rank(group: StaticGroup, wanted: Iterable[IdScheme]) -> tuple[int, float, str]:
    """Return the place of a StaticGroup among those that make the same id; the lowest keeps it.

    One that injects what another would issue, as `wanted` says, keeps it, also if it wants other ids by now.
    """
    spec, created = group.spec, group.metadata.creation_timestamp
    injected = group.status.injected if group.status is not None else None
    ids = (injected.id_template, {i.suffix for i in injected.ids}) if injected is not None else None
    is_as_asked = ids == (resolved_template(group), set(env_suffixes(spec.client)))
    in_force = injected.id_template if injected is not None and injected.method is not InjectedMethod.NONE else None
    if in_force is not None and (is_as_asked or share_an_id(wanted, schemes_from(group, (in_force,)))):
        place = 0
    elif not is_as_asked:
        place = 2
    else:
        place = 1 if spec.client.type is ClientType.OWN or spec.mode is Mode.OBSERVE else 2
    return place, created.timestamp() if created is not None else 0.0, group.metadata.uid
