"""What a StaticGroup and others ask for at once: the same ids, the same scope, the setting of one Kafka group, the same pods."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..api.identifiers import IdScheme
from ..api.injection import env_suffixes, identity_of
from ..api.protocols import ProtocolChoice
from ..api.resources.durable import InjectedMethod
from ..api.resources.identity import InjectionMethod
from ..api.resources.staticgroup import Mode, StaticGroup
from ..core.ids.collisions import Collision, claim, collision
from ..core.ids.naming import Naming
from ..core.ids.overlap import share_an_id
from ..core.ids.schemes import resolved_template, schemes_from, schemes_of, scope_of, wanted_scheme
from ..core.roles import protocol_asked_for
from ..kube.pods.store import PodStore
from .connections.allowed import may_use
from .stores import Stores, workload_key
from .work_queue import Key


@dataclass(frozen=True, slots=True)
class Rivals:
    """Compare StaticGroups as the watches have told of them; nothing is remembered.

    Parameters
    ----------
    pods: asked who carries ids that would be issued for the first time; None: nobody is.
    """

    stores: Stores
    pods: PodStore | None = None

    def any_of(self, key: Key) -> bool:
        """Say whether there is another StaticGroup of a Kafka group of this name, wherever, or one that cannot be read."""
        mine = self.stores.groups.get(key)
        if mine is None:
            return False
        is_shared = len(self.stores.by_group_id.get(mine.spec.group_id, ())) > 1
        return is_shared or mine.spec.group_id in self.stores.group_id_of_invalid.values()

    def overlaps(self, key: Key) -> tuple[str, ...]:
        """Return the other StaticGroups that may issue the same ids.

        Any two of the same group that are rivals overlap when a template of one, the present or an earlier one, makes an id that
        one of the other makes too.
        """
        mine = self.stores.groups.get(key)
        if mine is None:
            return ()
        schemes = schemes_of(mine)
        return _named(k for k in self._rivals(key, mine) if share_an_id(schemes, schemes_of(self.stores.groups[k])))

    def same_scope(self, key: Key) -> tuple[str, ...]:
        """Return the rivals whose ids have the same scope.

        Notes
        -----
        Whatever contains a scope counts as an id of its StaticGroup, also of templates to come; so the ids need not meet now.
        """
        mine = self.stores.groups.get(key)
        scope = scope_of(mine) if mine is not None else None
        if mine is None or scope is None:
            return ()
        return _named(k for k in self._rivals(key, mine) if scope_of(self.stores.groups[k]) == scope)

    def asked_by_others_ms(self, key: Key) -> int:
        """Return the longest session timeout that others of its namespace want by themselves for the same group's one setting; 0: none.

        Notes
        -----
        Everybody counts who is there: whoever may not set it, or rests, has members in the group all the same. Those of other
        namespaces are not listened to: a tenant's word changes nothing with another one's credentials.
        """
        return max((own_ms for own_ms in self._own_ms_of_others(key).values() if own_ms is not None), default=0)

    def unheard(self, key: Key) -> tuple[str, ...]:
        """Return those others that have not said yet what they want, or whose object cannot be read."""
        mine = self.stores.groups.get(key)
        unread = (k for k, i in self.stores.group_id_of_invalid.items() if mine is not None and k[0] == key[0] and i == mine.spec.group_id)
        return _named((*(k for k, own_ms in self._own_ms_of_others(key).items() if own_ms is None), *unread))

    def _own_ms_of_others(self, key: Key) -> dict[Key, int | None]:
        """Return what each other one of the namespace wants, by itself, for the setting of the same group; None: it has not said."""
        mine = self.stores.groups.get(key)
        others = {k: self.stores.groups[k] for k in self._rivals(key, mine) if k[0] == key[0]} if mine is not None else {}
        return {
            k: o.status.timeout.own_ms if o.status is not None and o.status.timeout is not None else None
            for k, o in others.items()
            if protocol_asked_for(o.spec) is not ProtocolChoice.CLASSIC
        }

    def prior_claims(self, key: Key) -> tuple[str, ...]:
        """Return the other StaticGroups that make an id which the next pods of this one would get, and that keep it.

        Notes
        -----
        Whoever injects ids keeps them, whoever would begin yields to those that issue theirs, by hand or not; of equals the
        older one keeps. So no tenant silences another by writing his template, and of any two the statuses and creation
        times, which whoever looks sees alike, tell who yields.
        """
        mine = self.stores.groups.get(key)
        if mine is None:
            return ()
        schemes, rank = wanted_scheme(mine), _rank(mine, ())
        return _named(
            k
            for k in self._rivals(key, mine) | self._carriers(key, mine, schemes)
            if _rank(self.stores.groups[k], schemes) < rank and share_an_id(schemes, schemes_of(self.stores.groups[k]))
        )

    def claims(self, key: Key) -> tuple[str, ...]:
        """Say of each of `prior_claims` why it keeps the ids, as a sentence without a full stop."""
        found: list[str] = []
        for other in self.prior_claims(key):
            namespace, _, name = other.partition("/")
            theirs = self.stores.groups[namespace, name]
            found.append(claim(theirs.spec, other=other, has_issued=_rank(theirs, wanted_scheme(self.stores.groups[key]))[0] == 0))
        return tuple(found)

    def _rivals(self, key: Key, mine: StaticGroup) -> set[Key]:
        """Return the other StaticGroups of what may be the same Kafka group, and of other namespaces only those that prove it.

        Notes
        -----
        A tenant writes into his StaticGroup what he likes, so of another namespace only what his brokers tell counts. The pods that
        carry an id are seen in all namespaces, and hold the removal of the member that has it, whatever a StaticGroup says.
        """
        others = {k: self.stores.groups[k] for k in self.stores.by_group_id.get(mine.spec.group_id, set()) - {key}}
        is_rival = {True: self._may_share_a_cluster, False: self._shares_a_cluster}
        return {k for k, other in others.items() if is_rival[k[0] == key[0]](mine, other)}

    def _carriers(self, key: Key, mine: StaticGroup, schemes: tuple[IdScheme, ...]) -> set[Key]:
        """Return the StaticGroups of other namespaces and of what may be the same Kafka group whose pods carry an id of some schemes."""
        naming, found = Naming(schemes=schemes), set[Key]()
        for other in self.stores.by_group_id.get(mine.spec.group_id, ()):
            theirs = self.stores.groups[other]
            pods = self.pods.of_workload(other[0], theirs.spec.workload_ref.name) if self.pods is not None else ()
            is_carried = any(pod.object_present and naming.own_ids(pod) for pod in pods)
            if is_carried and other[0] != key[0] and self._may_share_a_cluster(mine, theirs):
                found.add(other)
        return found

    def collisions(self, key: Key) -> tuple[Collision, ...]:
        """Return what other StaticGroups of the same workload, of whatever Kafka group, would write into its pods too.

        Notes
        -----
        Workloads of two kinds may have one name and share no pod: who controls a pod tells whose ids it gets.
        """
        mine = self.stores.groups.get(key)
        if mine is None:
            return ()
        workload = self.stores.workloads.get(workload_key(key[0], mine.spec.workload_ref.kind, mine.spec.workload_ref.name))
        first = workload.containers[0].name if workload is not None and workload.containers else ""
        of_one_name = (k for k in self.stores.groups_of_workload(key[0], mine.spec.workload_ref.name) if k != key and k in self.stores.groups)
        others = sorted(k for k in of_one_name if self.stores.groups[k].spec.workload_ref.kind == mine.spec.workload_ref.kind)
        found = (
            collision(
                identity_of(mine.spec), identity_of(self.stores.groups[k].spec), other=f"{k[0]}/{k[1]}", first_container=first
            )
            for k in others
        )
        return tuple(c for c in found if c is not None)

    def may_be_of(self, namespace: str, workload_name: str, mine: StaticGroup) -> bool:
        """Tell whether pods of a workload may be members of the same Kafka group as those of a StaticGroup.

        Returns
        -------
        False when StaticGroups point at the workload and all of them can be read and are about another group or Kafka cluster.
        """
        others = [self.stores.groups.get(k) for k in self.stores.groups_of_workload(namespace, workload_name)]
        return not others or any(
            o is None or (o.spec.group_id == mine.spec.group_id and self._may_share_a_cluster(mine, o)) for o in others
        )

    def _shares_a_cluster(self, mine: StaticGroup, other: StaticGroup) -> bool:
        """True if the brokers of the other one have answered, and are those of ours or tell the same cluster, as far as ours have told."""
        own, key = (g.spec.connection_ref.key(g.metadata.namespace) for g in (mine, other))
        told = self.stores.kafka_cluster_id(key, is_answered=True)
        if told is None or not may_use(self.stores, other):
            return False
        return own == key or (bool(told) and self.stores.kafka_cluster_id(own) in (told, None))

    def _may_share_a_cluster(self, a: StaticGroup, b: StaticGroup) -> bool:
        """True unless the brokers of both have told which cluster they are, and it is not the same."""
        ids = [self.stores.kafka_cluster_id(g.spec.connection_ref.key(g.metadata.namespace)) for g in (a, b)]
        return not all(ids) or ids[0] == ids[1]


def _named(keys: Iterable[Key]) -> tuple[str, ...]:
    return tuple(sorted(f"{namespace}/{name}" for namespace, name in keys))


def _rank(group: StaticGroup, wanted: Iterable[IdScheme]) -> tuple[int, float, str]:
    """Return the place of a StaticGroup among those that make the same id; the lowest keeps it.

    Parameters
    ----------
    wanted: what another one would issue; whoever injects such ids keeps them, also when its spec asks for others by now.
    """
    spec, created = group.spec, group.metadata.creation_timestamp
    injected = group.status.injected if group.status is not None else None
    ids = (injected.id_template, {i.suffix for i in injected.ids}) if injected is not None else None
    is_as_asked = ids == (resolved_template(group), set(env_suffixes(identity_of(spec))))
    in_force = injected.id_template if injected is not None and injected.method is not InjectedMethod.NONE else None
    if in_force is not None and (is_as_asked or share_an_id(wanted, schemes_from(group, (in_force,)))):
        place = 0
    elif not is_as_asked:
        place = 2
    else:
        place = 1 if spec.identity.method is InjectionMethod.NONE or spec.mode is Mode.OBSERVE else 2
    return place, created.timestamp() if created is not None else 0.0, group.metadata.uid
