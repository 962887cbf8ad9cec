"""The ids of one StaticGroup: the present scheme and those of earlier templates, and the way from an id to its pod and back."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from ...api.identifiers import SEPARATORS, IdScheme, InvalidInstanceIdError, Ordinal, client_suffixes, identity_scope
from ...api.injection import env_suffixes, identity_of, suffix_in_force
from ...api.resources.staticgroup import StaticGroupSpec
from ...api.schema import INT32_MAX
from ..evidence.chain import KnownPod
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
    scope: what {scope} stands for in all of them; whatever contains it is an id of ours, also one of a template to come. "" before
        the first injection.
    """

    schemes: tuple[IdScheme, ...]
    scope: str = ""

    def ordinal_of(self, instance_id: str) -> Ordinal | None:
        """Return the ordinal an id was made for by the newest scheme that makes it; None when the id is not ours."""
        return next((o for s in self.schemes if (o := s.ordinal_of(instance_id)) is not None), None)

    def ordinals_of(self, instance_id: str) -> tuple[Ordinal, ...]:
        """Return every ordinal whose pod may hold an id, `ordinal_of` first; () when no pod of ours may.

        Notes
        -----
        Two templates may make one id for two ordinals: with `{podName}1` and `{podName}`, web-21 is of web-2 and of web-21. And
        a client may append what makes the id of one scheme of the base of another.
        """
        made = (s.ordinal_of(instance_id) for s in self.schemes)
        begun = (found[0] for s in self.schemes if (found := s.appended_to(instance_id)) is not None and found[0] <= INT32_MAX)
        return tuple(dict.fromkeys((*(o for o in made if o is not None), *begun)))

    @property
    def issues_scoped(self) -> bool:
        """True when no other cluster, namespace or StaticGroup makes an id of the present template."""
        return bool(self.scope and self.schemes) and self.scope in self.schemes[0].template

    def is_scoped(self, instance_id: str) -> bool:
        """True when no other cluster, namespace or StaticGroup makes an id: every template that makes it has the scope."""
        made_by = [s for s in self.schemes if s.ordinal_of(instance_id) is not None]
        return bool(self.scope and made_by) and all(self.scope in s.template for s in made_by)

    def expand(self, pod: KnownPod) -> KnownPod:
        """Add the ids that the client makes by suffixing the ids the pod carries (Streams `-1`, Spring `-0`)."""
        made: set[str] = set()
        for scheme in self.schemes:
            ordinal = ordinal_of_pod(scheme.workload_name, pod.pod_name)
            if ordinal is None:
                continue
            for base in _bases(scheme, ordinal) & pod.instance_ids:
                made.update(base + added for added in scheme.suffixes)
        return replace(pod, instance_ids=pod.instance_ids | made) if made - pod.instance_ids else pod

    def gives(self, pod: KnownPod) -> bool:
        """True when a pod carries the ids that the present scheme gives to its name, whatever else it carries."""
        scheme = self.schemes[0] if self.schemes else None
        ordinal = ordinal_of_pod(scheme.workload_name, pod.pod_name) if scheme is not None else None
        return scheme is not None and ordinal is not None and _bases(scheme, ordinal) <= pod.instance_ids

    def own_ids(self, pod: KnownPod) -> frozenset[str]:
        """Return which ids of a pod, whatever its name, are or may become ours, see `is_own`."""
        return frozenset(i for i in pod.instance_ids if self.is_own(i))

    def has_scope(self, pod: KnownPod) -> bool:
        """True for a pod that carries an id with our scope: nobody else issues such ones."""
        return bool(self.scope) and any(self.scope in i for i in pod.instance_ids)

    @property
    def is_told_by_scope(self) -> bool:
        """True when each template holds the scope: whatever is without it is none of ours."""
        return bool(self.scope) and all(self.scope in s.template for s in self.schemes)

    def is_own(self, instance_id: str) -> bool:
        """True for an id that begins with one that the StaticGroup issues or has issued, and for one that contains its scope."""
        if self.scope and self.scope in instance_id:
            return True
        return not self.is_told_by_scope and bool(self.ordinals_of(instance_id))

    def carried_as(self, instance_id: str) -> frozenset[str]:
        """Return every id a pod may carry whose process holds `instance_id`: itself, and what a client suffixes, expected or not."""
        carried = {instance_id, *self.nearly_carried_as(instance_id)}
        for scheme in self.schemes:
            ordinal = scheme.ordinal_of(instance_id)
            if ordinal is not None:
                carried |= _bases(scheme, ordinal)
        return frozenset(carried)

    def nearly_carried_as(self, instance_id: str) -> frozenset[str]:
        """Return every id a pod may carry whose process holds `instance_id`, whatever its client appends; empty when not ours."""
        carried: set[str] = set()
        for scheme in self.schemes:
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
    return identity_scope(cluster_uid=snapshot.cluster_uid, namespace=snapshot.namespace, name=snapshot.name, uid=snapshot.uid)


def is_scope_refused(scope: str, snapshot: Snapshot) -> bool:
    """True for a scope that was written although the word of the user does not count."""
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
    schemes = tuple(scheme_of(spec, t, injected.suffix_follows_preset) for t in templates)
    return Naming(schemes=schemes, scope=injected.scope)


def naming_or_none(spec: StaticGroupSpec, history: History) -> Naming | None:
    """Return the same; None before the first injection, and where the spec makes ids that the broker refuses."""
    try:
        naming = naming_of(spec, history)
    except (InvalidInstanceIdError, ValueError):
        return None
    return naming if naming.schemes else None


def scheme_of(spec: StaticGroupSpec, template: str, suffix_follows_preset: bool | None) -> IdScheme:
    """Return the ids that a spec makes of one resolved template.

    Parameters
    ----------
    template: with only `{podName}` and `{ordinal}` left, see `resolve_template`.
    suffix_follows_preset: as remembered; None while no id was issued.

    Raises
    ------
    AmbiguousIdentityError: two members of a pod would carry the same id.
    """
    identity = identity_of(spec)
    suffixes = client_suffixes(
        suffix_in_force(identity, suffix_follows_preset), identity.members_per_pod, tuple(identity.custom_suffixes or ())
    )
    return _scheme(template, spec.workload_ref.name, env_suffixes(identity), suffixes)


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


@lru_cache(maxsize=REMEMBERED_MAX)
def ordinal_of_pod(workload_name: str, pod_name: str) -> Ordinal | None:
    """Return the ordinal in a StatefulSet pod's name; None when the name is not `<workload_name>-<ordinal>`."""
    text = pod_name.removeprefix(f"{workload_name}-")
    if text == pod_name or len(text) > ORDINAL_DIGITS_MAX or not (text.isascii() and text.isdigit()):
        return None
    ordinal = int(text)
    return Ordinal(ordinal) if text == str(ordinal) and ordinal <= INT32_MAX else None  # no StatefulSet writes 02
