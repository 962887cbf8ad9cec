"""The ids of one StaticGroup, of the present scheme and of earlier templates: from a pod to its ids, and back.

An earlier template still matters while a member holds an id of it, or a process may come to hold one: once a template
is forgotten its ids count as foreign, and nobody removes their members. So a template stays while any of its ids may be
in use unseen.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final

from ...api.identifiers import (
    INSTANCE_ID_LENGTH_MAX,
    SEPARATORS,
    IdScheme,
    InvalidInstanceIdError,
    Ordinal,
    identity_scope,
    may_become,
)
from ...api.injection import client_suffixes, env_suffixes
from ...api.resources.client import ClientType
from ...api.resources.staticgroup import StaticGroupSpec
from ...api.schema import INT32_MAX
from ..evidence.chain import KnownPod, PodState
from ..group import GroupView
from ..members.carriers import Suspect
from ..snapshot import History, Snapshot

ORDINAL_DIGITS_MAX = 10
REMEMBERED_MAX = 1024
"""Results that are kept for the rest of a round, of as many StaticGroups as may be worked on at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """Every id one StaticGroup may issue or has issued.

    Parameters
    ----------
    schemes: the present one first, then those of earlier templates.
    scope: what {scope} stands for in all of them; ids that contain it are ours, whatever their template. "" before the
        first injection.
    is_brought: the application brings its ids (`client.type: Own`), so a pod may show none of them.
    """

    schemes: tuple[IdScheme, ...]
    scope: str = ""
    is_brought: bool = False

    def ordinal_of(self, instance_id: str) -> Ordinal | None:
        """Return the ordinal an id was made for by the newest scheme that makes it; None when the id is not ours."""
        return next((o for s in self.schemes if (o := s.ordinal_of(instance_id)) is not None), None)

    def ordinals_of(self, instance_id: str) -> tuple[Ordinal, ...]:
        """Return every ordinal whose pod may hold an id, `ordinal_of` first; () when no pod of ours may.

        Two templates may make one id for two ordinals: with `{podName}1` and `{podName}`, web-21 is of web-2 and of
        web-21. And what a client appends may turn an id of one scheme into one of another.
        """
        made = (s.ordinal_of(instance_id) for s in self.schemes)
        parts = (s.appended_to(instance_id) for s in self.schemes)
        begun = (found[0] for found in parts if found is not None and found[0] <= INT32_MAX)
        return tuple(dict.fromkeys((*(o for o in made if o is not None), *begun)))

    @property
    def issues_scoped(self) -> bool:
        """True when no other cluster, namespace or StaticGroup makes an id of the present template."""
        return bool(self.scope and self.schemes) and self.scope in self.schemes[0].template

    def is_scoped(self, instance_id: str) -> bool:
        """True when only this StaticGroup makes an id: every template that makes it has the scope."""
        made_by = [s for s in self.schemes if s.ordinal_of(instance_id) is not None]
        return bool(self.scope and made_by) and all(self.scope in s.template for s in made_by)

    @property
    def unscoped(self) -> tuple[str, ...]:
        """A text for each template that makes ids without the scope, with what is appended to them."""
        bare = (s for s in self.schemes if not self.scope or self.scope not in s.template)
        return tuple(",".join((s.template, *s.env_suffixes, "", *s.suffixes)) for s in bare)

    def expand(self, pod: KnownPod) -> KnownPod:
        """Add the ids that the client makes by suffixing the ids the pod carries (Streams `-1`, Spring `-0`).

        A pod that shows none although its application brings them, as one that takes its host name, has those of the
        template.
        """
        made: set[str] = set()
        if self.is_brought and not pod.instance_ids and self.schemes:
            pod = replace(pod, instance_ids=self._given_to(self.schemes[0], pod) or frozenset())
        for scheme in self.schemes:
            for base in (self._given_to(scheme, pod) or frozenset()) & pod.instance_ids:
                made.update(base + added for added in scheme.suffixes)
        return replace(pod, instance_ids=pod.instance_ids | made) if made - pod.instance_ids else pod

    def gives(self, pod: KnownPod) -> bool:
        """True when a pod carries the ids that the present scheme gives to its name, whatever else it carries."""
        given = self._given_to(self.schemes[0], pod) if self.schemes else None
        return given is not None and given <= pod.instance_ids

    def _given_to(self, scheme: IdScheme, pod: KnownPod) -> frozenset[str] | None:
        """Return the ids that a scheme gives to a pod's name or slot; None to a name without an ordinal."""
        ordinal = ordinal_of_pod(scheme.workload_name, seat_name(pod, self.scope))
        return _bases(scheme, ordinal) if ordinal is not None else None

    def own_ids(self, pod: KnownPod) -> frozenset[str]:
        """Return which ids of a pod, whatever its name, are or may become ours, see `is_own`."""
        return frozenset(i for i in pod.instance_ids if self.is_own(i))

    def has_scope(self, pod: KnownPod) -> bool:
        """True for a pod that carries an id with our scope: nobody else issues such ones."""
        return bool(self.scope) and any(self.scope in i for i in pod.instance_ids)

    @property
    def is_recognized_by_scope(self) -> bool:
        """True when each template holds the scope: whatever is without it is none of ours."""
        return bool(self.scope) and all(self.scope in s.template for s in self.schemes)

    def is_own(self, instance_id: str) -> bool:
        """True for an id that begins with one that the StaticGroup issues or has issued, or that contains its scope."""
        if len(instance_id) > INSTANCE_ID_LENGTH_MAX:  # KIP-848 groups take them, no pod of ours has one
            return False
        if self.scope and self.scope in instance_id:
            return True
        return not self.is_recognized_by_scope and bool(self.ordinals_of(instance_id))

    def carried_as(self, instance_id: str) -> frozenset[str]:
        """Return the ids that the pod of a process with `instance_id` may carry: itself, or what was extended to it."""
        carried = {instance_id}
        for scheme in self.schemes:
            ordinal = scheme.ordinal_of(instance_id)
            if ordinal is not None:
                carried |= _bases(scheme, ordinal)
            found = scheme.appended_to(instance_id)
            if found is not None:
                base = len(instance_id) - len(found[1])
                ends = (n for n in range(base, len(instance_id)) if instance_id[n] in SEPARATORS)
                carried.update(instance_id[:n] for n in (*ends, len(instance_id)))
        return frozenset(carried)

    def pod_names_of(self, instance_id: str) -> tuple[str, ...]:
        """Return the names of the pods of `ordinals_of`, in that order."""
        return tuple(f"{self.schemes[0].workload_name}-{ordinal}" for ordinal in self.ordinals_of(instance_id))


def drawn_scope(snapshot: Snapshot) -> str:
    """Return the scope that is drawn for a StaticGroup, which no other one has."""
    s = snapshot
    return identity_scope(cluster_uid=s.cluster_uid, namespace=s.namespace, name=s.name, uid=s.uid)


def is_scope_refused(scope: str, snapshot: Snapshot) -> bool:
    """True for a scope that a status was given by hand, where the word of the user does not count."""
    return snapshot.is_word_refused and scope != drawn_scope(snapshot)


def naming_of(spec: StaticGroupSpec, history: History) -> Naming:
    """Return every id scheme this StaticGroup issues or has issued.

    Parameters
    ----------
    history: `injected` names the resolved template in force; before the first injection there is no scheme, so
        nothing counts as ours.

    Raises
    ------
    InvalidInstanceIdError, AmbiguousIdentityError: the spec makes ids that the broker refuses.
    """
    injected = history.injected
    if injected is None:
        return Naming(schemes=())
    templates = [injected.id_template, *(t for t in history.templates if t != injected.id_template)]
    schemes = tuple(scheme_of(spec, t) for t in templates)
    return Naming(schemes=schemes, scope=injected.scope, is_brought=spec.client.type is ClientType.OWN)


def naming_or_none(spec: StaticGroupSpec, history: History) -> Naming | None:
    """Return the same; None before the first injection, and where the spec makes ids that the broker refuses."""
    try:
        naming = naming_of(spec, history)
    except (InvalidInstanceIdError, ValueError):
        return None
    return naming if naming.schemes else None


def scheme_of(spec: StaticGroupSpec, template: str) -> IdScheme:
    """Return the ids that a spec makes of one resolved template.

    Parameters
    ----------
    template: with only `{podName}` and `{ordinal}` left, see `resolve_template`.

    Raises
    ------
    AmbiguousIdentityError: two members of a pod would carry the same id.
    """
    client = spec.client
    return _scheme(template, spec.workload_ref.name, env_suffixes(client), client_suffixes(client))


@lru_cache(maxsize=REMEMBERED_MAX)
def _scheme(template: str, workload_name: str, env_suffixes: tuple[str, ...], suffixes: tuple[str, ...]) -> IdScheme:
    """Make a scheme with its patterns; a round asks for the same one ten times."""
    return IdScheme(template=template, workload_name=workload_name, env_suffixes=env_suffixes, suffixes=suffixes)


@lru_cache(maxsize=REMEMBERED_MAX)
def _bases(scheme: IdScheme, ordinal: Ordinal) -> frozenset[str]:
    """Return the ids that the pod of an ordinal carries, before the client appends anything."""
    bases: set[str] = set()
    for env_suffix in scheme.env_suffixes:
        with suppress(InvalidInstanceIdError):  # the broker refuses it, so no member has it
            bases.add(scheme.base_id(ordinal, env_suffix))
    return frozenset(bases)


def seat_name(pod: KnownPod, scope: str) -> str:
    """Return the name that a pod's ids are made of: of its slot by the StaticGroup of a scope, else its own."""
    slot = pod.slot_of(scope) if pod.slots else None
    return slot.given if slot is not None and slot.given else pod.pod_name


@lru_cache(maxsize=REMEMBERED_MAX)
def ordinal_of_pod(workload_name: str, pod_name: str) -> Ordinal | None:
    """Return the ordinal in a StatefulSet pod's name; None when the name is not `<workload_name>-<ordinal>`."""
    text = pod_name.removeprefix(f"{workload_name}-")
    if text == pod_name or len(text) > ORDINAL_DIGITS_MAX or not (text.isascii() and text.isdigit()):
        return None
    ordinal = int(text)
    return Ordinal(ordinal) if text == str(ordinal) and ordinal <= INT32_MAX else None  # no StatefulSet writes 02


@dataclass(frozen=True)
class HeldSeat:
    """One id of a StaticGroup in `namespace`; its pods may be of any namespace where they carry it."""

    instance_id: str
    naming: Naming
    namespace: str

    @cached_property
    def carried_as(self) -> frozenset[str]:
        """Every id that a pod may carry whose process holds this one: clients append to what they are given."""
        return self.naming.carried_as(self.instance_id)

    @cached_property
    def pod_names(self) -> tuple[str, ...]:
        """Names of the pods that the id is made for."""
        return self.naming.pod_names_of(self.instance_id)

    def may_be_held_by(self, pod: KnownPod | Suspect) -> bool:
        """True unless it is known that no process of a pod can hold the id.

        A pod of the name may have it whatever ids it shows: applications take their host name, too.
        """
        if not self.carried_as.isdisjoint(pod.instance_ids):
            return True
        name = seat_name(pod, self.naming.scope) if isinstance(pod, KnownPod) else pod.pod_name
        return pod.namespace == self.namespace and name in self.pod_names

    def shows_another(self, pod: KnownPod) -> bool:
        """True for a pod that nobody can give the id any more, and that shows another one of ours.

        Containers read annotations, which can be edited, when they start. Clients may append more than the spec says.
        """
        ids = pod.instance_ids
        if not self.carried_as.isdisjoint(ids) or any(may_become(i, self.instance_id) for i in ids):
            return False
        return pod.ids_are_fixed and any(map(self.naming.is_own, ids))


RETIRED_AFTER_S: Final = 60.0
"""A coordinator that has just taken a group over may show it without its members, and an API server may apply the
earlier template for a moment."""


def without_retired(history: History, naming: Naming, snapshot: Snapshot, group: GroupView, now_s: float) -> History:
    """Return a history without the earlier templates of which nothing has been left for `RETIRED_AFTER_S`."""
    idle: dict[str, float] = {}
    if _is_all_in_sight(history, naming, snapshot, group):
        held = {m.instance_id for m in group.members if m.instance_id is not None}
        held |= {r.instance_id for r in history.removals if r.settled_at_s is None}
        living = [p for p in (*snapshot.known, *snapshot.others) if p.state is not PodState.DEAD]
        carried = {i for p in living for i in p.instance_ids}
        # Where it came from an annotation, a copy of the pod keeps it, also where the present template makes the same.
        copied = {i for p in living if not p.ids_are_fixed for i in p.instance_ids}
        idle = {
            s.template: history.templates_idle_since_s.get(s.template, now_s)
            for s in naming.schemes[1:]
            if not any(_is_only_of(s, naming.schemes[0], i) for i in held | carried)
            and all(s.appended_to(i) is None for i in copied)
        }
    kept = tuple(t for t in history.templates if now_s - idle.get(t, now_s) < RETIRED_AFTER_S)
    return replace(history, templates=kept, templates_idle_since_s=idle)


def _is_all_in_sight(history: History, naming: Naming, snapshot: Snapshot, group: GroupView) -> bool:
    """True when nothing came and went unseen, and every process that may live has ids of the present template."""
    return (
        group.is_settled
        and bool(snapshot.watch)
        and history.members.watch == snapshot.watch
        and not history.members.suspects
        and all(naming.gives(p) for p in snapshot.known if p.state is not PodState.DEAD)
    )


def _is_only_of(earlier: IdScheme, present: IdScheme, instance_id: str) -> bool:
    """True for an id that begins with one of an earlier template and that the present one does not give its pod."""
    begun, explained = earlier.appended_to(instance_id), present.appended_to(instance_id)
    if begun is None:
        return False
    return explained is None or explained[0] != begun[0] or len(explained[1]) > len(begun[1])
