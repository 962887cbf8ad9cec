"""The ids of one StaticGroup: the present scheme and those of earlier templates."""

from __future__ import annotations

from ..api.identifiers import IdScheme, InvalidInstanceIdError, client_suffixes, identity_scope
from ..api.injection import env_suffixes, suffix_in_force
from ..api.staticgroup import StaticGroup, StaticGroupSpec
from .membership import Identity
from .snapshot import History


def identity_of(spec: StaticGroupSpec, history: History) -> Identity:
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
        return Identity(schemes=(), is_scoped=False)
    templates = [injected.id_template, *(t for t in history.templates if t != injected.id_template)]
    schemes = tuple(scheme_of(spec, t, injected.suffix_follows_preset) for t in templates)
    return Identity(schemes=schemes, is_scoped=bool(injected.scope) and all(injected.scope in t for t in templates))


def identity_or_none(spec: StaticGroupSpec, history: History) -> Identity | None:
    """Return the same; None before the first injection, and where the spec makes ids that the broker refuses."""
    try:
        identity = identity_of(spec, history)
    except (InvalidInstanceIdError, ValueError):
        return None
    return identity if identity.schemes else None


def issued_since_s(identity: Identity, group: StaticGroup, *, cluster_uid: str) -> float:
    """Return since when an id of a StaticGroup can be known to anybody, seconds since the Unix epoch.

    Returns
    -------
    0.0 when that may be for ever: an id lacks the scope that comes of the StaticGroup's uid, or its creation is not told.
    """
    created, metadata = group.metadata.creation_timestamp, group.metadata
    own = identity_scope(cluster_uid=cluster_uid, namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)
    is_own = identity.is_scoped and all(own in s.template for s in identity.schemes)
    return created.timestamp() if created is not None and is_own else 0.0


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
    suffixes = client_suffixes(
        suffix_in_force(spec.identity, suffix_follows_preset),
        spec.identity.members_per_pod,
        tuple(spec.identity.custom_suffixes or ()),
    )
    return IdScheme(
        template=template,
        workload_name=spec.workload_ref.name,
        env_suffixes=env_suffixes(spec.identity),
        suffixes=suffixes,
    )
