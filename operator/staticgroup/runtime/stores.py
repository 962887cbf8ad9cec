"""What the watches have told: StaticGroups, KafkaConnections and workloads, parsed once at the edge.

The watches put objects in; the reconciler reads them. An object is dropped by its uid, so that the end of one never
takes another one of the same name with it. Nothing here decides, and nothing destructive is decided from here:
departures are confirmed by consistent reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from ..api.identifiers import AmbiguousIdentityError, IdScheme, InvalidInstanceIdError, resolve_template
from ..api.injection import env_suffixes, identity_of
from ..api.protocols import ProtocolChoice
from ..api.reasons import Reason
from ..api.resources.clusterkafkaconnection import ClusterKafkaConnection
from ..api.resources.durable import InjectedMethod
from ..api.resources.identity import InjectionMethod
from ..api.resources.kafkaconnection import Connection, KafkaConnection
from ..api.resources.staticgroup import ConnectionKind, Mode, StaticGroup
from ..api.workloads import STATEFUL_SET
from ..core.ids.collisions import Collision, claim, collision
from ..core.ids.naming import Naming, scheme_of
from ..core.ids.overlap import share_an_id
from ..core.roles import protocol_asked_for
from ..core.workload import WorkloadView
from ..kube.namespaces import Namespaces
from .work_queue import Key

Name = TypeVar("Name")


def violations(error: ValidationError) -> str:
    """Say in one line which fields of an object are wrong, without repeating their values."""
    parts = [
        f"{'.'.join(str(p) for p in e['loc'])}: {e['msg']}"
        for e in error.errors(include_input=False, include_url=False)
    ]
    return "; ".join(parts)[:500]


def uid_of(body: dict[str, Any]) -> str:
    """Return the uid of a raw object."""
    return str((body.get("metadata") or {}).get("uid", ""))


@dataclass(slots=True)
class Stores:
    """Objects by (namespace, name), each the newest version its watch delivered.

    Attributes
    ----------
    connections: KafkaConnections, and with an empty namespace ClusterKafkaConnections.
    cluster_connections_problem: why ClusterKafkaConnections cannot be read; empty while they can.
    """

    groups: dict[Key, StaticGroup] = field(default_factory=dict)
    invalid_groups: dict[Key, str] = field(default_factory=dict)
    group_uids: dict[Key, str] = field(default_factory=dict)
    connections: dict[Key, Connection] = field(default_factory=dict)
    invalid_connections: dict[Key, str] = field(default_factory=dict)
    connection_uids: dict[Key, str] = field(default_factory=dict)
    cluster_connections_problem: str = ""
    namespaces: Namespaces = field(default_factory=Namespaces)
    workloads: dict[Key, WorkloadView] = field(default_factory=dict)
    by_workload: dict[Key, set[Key]] = field(default_factory=dict)
    by_connection: dict[Key, set[Key]] = field(default_factory=dict)
    _by_namespace: dict[str, set[Key]] = field(default_factory=dict)
    _workload_of_invalid: dict[Key, Key] = field(default_factory=dict)
    _group_id_of_invalid: dict[Key, str] = field(default_factory=dict)
    by_group_id: dict[str, set[Key]] = field(default_factory=dict)
    _namings: dict[Key, tuple[StaticGroup | None, Naming]] = field(default_factory=dict)

    def put_group(self, key: Key, body: dict[str, Any]) -> bool:
        """Store a StaticGroup.

        Returns
        -------
        True when a round is due: it is new, its spec changed, or another uid took its name. A change of status alone,
        which is mostly our own write, is stored and asks for nothing.
        """
        before = self.groups.get(key)
        try:
            group = StaticGroup.from_wire(body)
        except ValidationError as error:
            self._drop_group(key)
            self.invalid_groups[key] = violations(error)
            self.group_uids[key] = uid_of(body)
            # Its pods may carry ids all the same, and whoever can read it again goes on from its status.
            spec = body.get("spec") or {}
            if isinstance(spec.get("groupId"), str):
                self._group_id_of_invalid[key] = spec["groupId"]
            name = (spec.get("workloadRef") or {}).get("name")
            if isinstance(name, str):
                self._workload_of_invalid[key] = (key[0], name)
                self.by_workload.setdefault((key[0], name), set()).add(key)
                self._by_namespace.setdefault(key[0], set()).add(key)
            return True
        self._unlink_invalid(key)
        self.group_uids[key] = uid_of(body)
        was_invalid = self.invalid_groups.pop(key, None) is not None
        if before is not None:
            self._unlink(key, before)
        self.groups[key] = group
        self.by_workload.setdefault((key[0], group.spec.workload_ref.name), set()).add(key)
        self.by_connection.setdefault(group.spec.connection_ref.key(key[0]), set()).add(key)
        self.by_group_id.setdefault(group.spec.group_id, set()).add(key)
        self._by_namespace.setdefault(key[0], set()).add(key)
        if before is None or was_invalid:
            return True
        return before.metadata.uid != group.metadata.uid or before.metadata.generation != group.metadata.generation

    def drop_group(self, key: Key, uid: str) -> bool:
        """Forget a StaticGroup; False, and nothing is forgotten, when another one has its name by now."""
        if self.group_uids.get(key, uid) != uid:
            return False
        self._drop_group(key)
        return True

    def _drop_group(self, key: Key) -> None:
        self.group_uids.pop(key, None)
        self.invalid_groups.pop(key, None)
        self._namings.pop(key, None)
        self._unlink_invalid(key)
        _discard(self._by_namespace, key[0], key)
        group = self.groups.pop(key, None)
        if group is not None:
            self._unlink(key, group)

    def _unlink_invalid(self, key: Key) -> None:
        self._group_id_of_invalid.pop(key, None)
        workload = self._workload_of_invalid.pop(key, None)
        if workload is not None:
            _discard(self.by_workload, workload, key)

    def _unlink(self, key: Key, group: StaticGroup) -> None:
        _discard(self.by_workload, (key[0], group.spec.workload_ref.name), key)
        _discard(self.by_connection, group.spec.connection_ref.key(key[0]), key)
        _discard(self.by_group_id, group.spec.group_id, key)

    def put_connection(self, key: Key, body: dict[str, Any]) -> bool:
        """Store a KafkaConnection, or a ClusterKafkaConnection where no namespace is given; True when its spec is new or changed."""
        before = self.connections.get(key)
        self.connection_uids[key] = uid_of(body)
        try:
            connection = (KafkaConnection if key[0] else ClusterKafkaConnection).from_wire(body)
        except ValidationError as error:
            self.connections.pop(key, None)
            self.invalid_connections[key] = violations(error)
            return True
        self.invalid_connections.pop(key, None)
        self.connections[key] = connection
        return before is None or before.spec != connection.spec or before.metadata.uid != connection.metadata.uid

    def drop_connection(self, key: Key, uid: str) -> bool:
        """Forget a connection; False, and nothing is forgotten, when another one has its name by now."""
        if self.connection_uids.get(key, uid) != uid:
            return False
        self.connection_uids.pop(key, None)
        self.connections.pop(key, None)
        self.invalid_connections.pop(key, None)
        return True

    def put_workload(self, view: WorkloadView) -> bool:
        """Store a workload; returns True when anything about it is new."""
        key = workload_key(view.namespace, view.kind.kind, view.name)
        before, self.workloads[key] = self.workloads.get(key), view
        return before != view

    def drop_workload(self, key: Key, uid: str) -> bool:
        """Forget a workload; False, and nothing is forgotten, when it is unknown or another one has its name by now."""
        known = self.workloads.get(key)
        if known is None or known.uid != uid:
            return False
        del self.workloads[key]
        return True

    def kafka_cluster_id(self, connection_key: Key) -> str | None:
        """Return what the brokers of a connection call their cluster.

        Returns
        -------
        None while they were never reached since the spec was edited, or are of another cluster than it asks for; "" when
        they were and do not tell.
        """
        connection = self.connections.get(connection_key)
        if connection is None:
            return None
        status = connection.status
        if status is not None and not connection.is_about_these_brokers(status):
            status = None
        if status is not None and any(c.reason == Reason.CLUSTER_ID_MISMATCH for c in status.conditions):
            return None
        if status is not None and status.cluster_id is None and status.brokers:
            return ""
        return (status.cluster_id if status is not None else None) or connection.spec.cluster_id

    def groups_of_workload(self, namespace: str, workload_name: str) -> frozenset[Key]:
        """Return the StaticGroups that point at a workload."""
        return frozenset(self.by_workload.get((namespace, workload_name), ()))

    def workloads_in(self, namespace: str) -> Iterator[tuple[Key, str]]:
        """Yield every StaticGroup of a namespace, also those that cannot be read, with the name of its workload."""
        for key in self._by_namespace.get(namespace, ()):
            group = self.groups.get(key)
            yield key, group.spec.workload_ref.name if group is not None else self._workload_of_invalid[key][1]

    def lane_of(self, key: Key) -> Key:
        """Return in which lane the rounds of a StaticGroup wait: its namespace, and its connection as that namespace sees it.

        Notes
        -----
        A connection of the whole cluster is one lane in each namespace that uses it, so that the namespaces take turns there too.
        """
        group = self.groups.get(key)
        if group is None:
            return key[0], ""
        ref = group.spec.connection_ref
        is_own = ref.kind is ConnectionKind.KAFKA_CONNECTION
        return key[0], ref.name if is_own else f"{ref.kind}/{ref.name}"

    def users_of_cluster_connections(self, namespace: str = "") -> frozenset[Key]:
        """Return the StaticGroups that name a ClusterKafkaConnection, of a namespace or of all."""
        users = (k for connection, keys in self.by_connection.items() if not connection[0] for k in keys)
        return frozenset(k for k in users if not namespace or k[0] == namespace)

    def groups_of_connection(self, key: Key) -> frozenset[Key]:
        """Return the StaticGroups that use a connection."""
        return frozenset(self.by_connection.get(key, ()))

    def overlaps(self, key: Key) -> tuple[str, ...]:
        """Return the other StaticGroups that may issue the same ids.

        Any two of the same group on what may be the same Kafka cluster overlap when a template of one, the present or an earlier
        one, makes an id that one of the other makes too, in whatever namespaces they are.
        """
        mine = self.groups.get(key)
        if mine is None:
            return ()
        schemes = _schemes(mine)
        return _named(k for k in self._rivals(key, mine) if share_an_id(schemes, _schemes(self.groups[k])))

    def same_scope(self, key: Key) -> tuple[str, ...]:
        """Return the other StaticGroups of what may be the same Kafka group whose ids have the same scope, in whatever namespaces.

        Notes
        -----
        Whatever contains a scope counts as an id of its StaticGroup, also of templates to come; so the ids need not meet now.
        """
        mine = self.groups.get(key)
        scope = _scope(mine) if mine is not None else None
        if mine is None or scope is None:
            return ()
        return _named(k for k in self._rivals(key, mine) if _scope(self.groups[k]) == scope)

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
        mine = self.groups.get(key)
        unread = (k for k, i in self._group_id_of_invalid.items() if mine is not None and k[0] == key[0] and i == mine.spec.group_id)
        return _named((*(k for k, own_ms in self._own_ms_of_others(key).items() if own_ms is None), *unread))

    def _own_ms_of_others(self, key: Key) -> dict[Key, int | None]:
        """Return what each other one of the namespace wants, by itself, for the setting of the same group; None: it has not said."""
        mine = self.groups.get(key)
        others = {k: self.groups[k] for k in self._rivals(key, mine) if k[0] == key[0]} if mine is not None else {}
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
        mine = self.groups.get(key)
        if mine is None:
            return ()
        schemes, rank = _wanted(mine), _rank(mine, ())
        return _named(
            k
            for k in self._rivals(key, mine)
            if _rank(self.groups[k], schemes) < rank and share_an_id(schemes, _schemes(self.groups[k]))
        )

    def claims(self, key: Key) -> tuple[str, ...]:
        """Say of each of `prior_claims` why it keeps the ids, as a sentence without a full stop."""
        found: list[str] = []
        for other in self.prior_claims(key):
            namespace, _, name = other.partition("/")
            theirs = self.groups[namespace, name]
            found.append(claim(theirs.spec, other=other, has_issued=_rank(theirs, _wanted(self.groups[key]))[0] == 0))
        return tuple(found)

    def _rivals(self, key: Key, mine: StaticGroup) -> set[Key]:
        """Return the other StaticGroups of what may be the same Kafka group."""
        found = self.by_group_id.get(mine.spec.group_id, set()) - {key}
        return {k for k in found if k in self.groups and self._may_share_a_cluster(mine, self.groups[k])}

    def collisions(self, key: Key) -> tuple[Collision, ...]:
        """Return what other StaticGroups of the same workload, of whatever Kafka group, would write into its pods too.

        Notes
        -----
        Workloads of two kinds may have one name and share no pod: who controls a pod tells whose ids it gets.
        """
        mine = self.groups.get(key)
        if mine is None:
            return ()
        workload = self.workloads.get(workload_key(key[0], mine.spec.workload_ref.kind, mine.spec.workload_ref.name))
        first = workload.containers[0].name if workload is not None and workload.containers else ""
        of_one_name = (k for k in self.groups_of_workload(key[0], mine.spec.workload_ref.name) if k != key and k in self.groups)
        others = sorted(k for k in of_one_name if self.groups[k].spec.workload_ref.kind == mine.spec.workload_ref.kind)
        found = (
            collision(
                identity_of(mine.spec), identity_of(self.groups[k].spec), other=f"{k[0]}/{k[1]}", first_container=first
            )
            for k in others
        )
        return tuple(c for c in found if c is not None)

    def naming_of(self, key: Key) -> Naming:
        """Return every id that a StaticGroup issues or has issued, by its object alone; one without schemes where it cannot be read."""
        group = self.groups.get(key)
        known = self._namings.get(key)
        if known is None or known[0] is not group:
            known = self._namings[key] = (group, Naming(schemes=_schemes(group) if group is not None else ()))
        return known[1]

    def may_be_of(self, namespace: str, workload_name: str, mine: StaticGroup) -> bool:
        """Tell whether pods of a workload may be members of the same Kafka group as those of a StaticGroup.

        Returns
        -------
        False when StaticGroups point at the workload and all of them can be read and are about another group or Kafka cluster.
        """
        others = [self.groups.get(k) for k in self.groups_of_workload(namespace, workload_name)]
        return not others or any(
            o is None or (o.spec.group_id == mine.spec.group_id and self._may_share_a_cluster(mine, o)) for o in others
        )

    def _may_share_a_cluster(self, a: StaticGroup, b: StaticGroup) -> bool:
        """True unless the brokers of both have told which cluster they are, and it is not the same."""
        ids = [self.kafka_cluster_id(g.spec.connection_ref.key(g.metadata.namespace)) for g in (a, b)]
        return not all(ids) or ids[0] == ids[1]


def workload_key(namespace: str, kind: str, name: str) -> Key:
    """Return under which key a workload is stored: workloads of two kinds may have one name."""
    return namespace, name if kind == STATEFUL_SET.kind else f"{kind}/{name}"


def _discard(index: dict[Name, set[Key]], name: Name, key: Key) -> None:
    """Take a key out of an index that holds no empty entries."""
    keys = index.get(name)
    if keys is not None:
        keys.discard(key)
        if not keys:
            del index[name]


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
    is_as_asked = ids == (_template(group), set(env_suffixes(identity_of(spec))))
    in_force = injected.id_template if injected is not None and injected.method is not InjectedMethod.NONE else None
    if in_force is not None and (is_as_asked or share_an_id(wanted, _made_of(group, (in_force,)))):
        place = 0
    elif not is_as_asked:
        place = 2
    else:
        place = 1 if spec.identity.method is InjectionMethod.NONE or spec.mode is Mode.OBSERVE else 2
    return place, created.timestamp() if created is not None else 0.0, group.metadata.uid


def _wanted(group: StaticGroup) -> tuple[IdScheme, ...]:
    """Return the scheme by which the next pods of a StaticGroup would get ids; none while it makes no id that a broker takes."""
    template = _template(group)
    return _made_of(group, (template,)) if template is not None else ()


def _scope(group: StaticGroup) -> str | None:
    """Return what stands for {scope} in the ids of a StaticGroup; None while it was neither drawn nor written."""
    injected = group.status.injected if group.status is not None else None
    return injected.scope if injected is not None else group.spec.identity.scope


def _template(group: StaticGroup) -> str | None:
    """Return the resolved template of a spec; None while it makes no id that a broker takes."""
    with suppress(InvalidInstanceIdError):
        return resolve_template(
            group.spec.identity.template,
            namespace=group.metadata.namespace,
            workload_name=group.spec.workload_ref.name,
            group_name=group.metadata.name,
            # A scope that was not drawn yet is nobody else's: no id holds a blank.
            scope=_scope(group) or " ",
        )
    return None


def _schemes(group: StaticGroup) -> tuple[IdScheme, ...]:
    """Return every scheme that a StaticGroup issues ids by, or did; none while it makes no id that a broker takes."""
    status = group.status
    injected = status.injected if status is not None else None
    templates = [*(status.issued.templates if status is not None and status.issued is not None else ())]
    if injected is not None:
        templates.append(injected.id_template)
    present = _template(group)
    return _made_of(group, (*templates, present) if present is not None else templates)


def _made_of(group: StaticGroup, templates: Iterable[str]) -> tuple[IdScheme, ...]:
    """Return the schemes of resolved templates; none where two members of a pod would carry the same id."""
    injected = group.status.injected if group.status is not None else None
    try:
        follows = bool(injected.suffix_follows_preset) if injected is not None else None
        return tuple(scheme_of(group.spec, t, follows) for t in dict.fromkeys(templates))
    except AmbiguousIdentityError:
        return ()
