"""Which ids a StaticGroup issues and has issued, and which of them the workload calls for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..api.identifiers import AmbiguousIdentityError, InvalidInstanceIdError, TooManyIdsError
from ..api.ordinals import Ordinals
from ..api.resources.client import ClientType
from ..api.resources.injected import InjectedMethod
from ..api.resources.staticgroup import StaticGroupSpec
from .ids.naming import Naming, naming_of, naming_or_none
from .injection import InjectionPlan, InjectionVerdict, plan_injection
from .snapshot import History, Snapshot
from .workload import WorkloadView


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuance:
    """The ids of one round.

    Parameters
    ----------
    history: of earlier rounds, with what is issued now.
    injection: how the next pods get their ids; None while the workload cannot be read.
    naming: None where the spec makes ids that a broker refuses, or one id for two consumers.
    expected: ids that the workload calls for, each with its ordinal; None where nothing is decided about members.
    identity_error: why the ids cannot be made; "" when they can. too_large: why there are too many of them; else "".
    """

    history: History
    injection: InjectionPlan | None = None
    naming: Naming | None = None
    expected: Mapping[str, int] | None = None
    identity_error: str = ""
    too_large: str = ""


def issue(spec: StaticGroupSpec, snapshot: Snapshot, history: History) -> Issuance:
    """Decide which ids there are.

    Parameters
    ----------
    snapshot: of the world; what was read of single seats does not matter.
    """
    if snapshot.workload_problem:  # the wanted ids are unknown: decide only whether the next pods go on getting theirs
        history = _silenced(history) if _must_be_silent(spec, snapshot, history) else history
        return Issuance(history=history, naming=naming_or_none(spec, history))
    injection = plan_injection(spec, snapshot, history)
    members = history.members
    if injection.watch:  # the first ids: no member is older than the pod watch
        members = replace(members, watch=injection.watch)
    history = replace(history, injected=injection.injected, templates=injection.templates, members=members)
    naming = None
    try:
        naming = naming_of(spec, history)
        expected = expected_ids(naming, snapshot.workload)
    except AmbiguousIdentityError as error:
        return Issuance(history=_silenced(history), injection=injection, identity_error=str(error))
    except InvalidInstanceIdError as error:
        return Issuance(history=history, injection=injection, naming=naming, identity_error=str(error))
    except TooManyIdsError as error:  # ids are issued all the same, so they are remembered
        history = _without_departures(_with_issued(history, snapshot, injection))
        return Issuance(history=history, injection=injection, naming=naming, too_large=str(error))
    history = _with_issued(history, snapshot, injection)
    return Issuance(history=history, injection=injection, naming=naming, expected=expected)


def expected_ids(naming: Naming, workload: WorkloadView | None) -> Mapping[str, int]:
    """Return the ids that a workload calls for, each with its ordinal.

    Parameters
    ----------
    workload: as cached or as read consistently; None when it does not exist, and then it calls for none.

    Raises
    ------
    InvalidInstanceIdError: a broker would refuse an id. TooManyIdsError: there are too many.
    """
    if workload is None or workload.is_ending or not naming.schemes:
        return {}
    naming.schemes[0].check_count(workload.replicas)
    return {
        str(i): int(o) for run in workload.runs for i, o in naming.schemes[0].expected_ids(run.start, len(run)).items()
    }


def wanted_by(naming: Naming, workload: WorkloadView | None) -> Mapping[str, int] | None:
    """Return the ids that a workload calls for; None where they cannot be made, and so any may be wanted."""
    try:
        return expected_ids(naming, workload)
    except ValueError:  # too many ids, or some that a broker refuses
        return None


def _must_be_silent(spec: StaticGroupSpec, snapshot: Snapshot, history: History) -> bool:
    """True where the next pods must not go on getting the ids of before, whatever the workload wants."""
    try:
        naming_of(spec, history)
    except AmbiguousIdentityError:
        return True
    except InvalidInstanceIdError:  # those of before stay
        pass
    return bool(snapshot.prior_claims) or spec.client.type is ClientType.OWN


def _silenced(history: History) -> History:
    """Remember that the next pods get no ids: two members with the same id would fence each other."""
    if history.injected is None:
        return history
    return replace(history, injected=replace(history.injected, method=InjectedMethod.NONE.value))


def _with_issued(history: History, snapshot: Snapshot, injection: InjectionPlan) -> History:
    """Remember every ordinal that may have been issued: those wanted now while ids can reach pods."""
    may_issue = injection.verdict in (InjectionVerdict.ACTIVE, InjectionVerdict.OFF_BY_USER)
    if injection.injected is None or snapshot.workload is None or not may_issue:
        return history
    return replace(history, issued_ordinals=Ordinals.of(*history.issued_ordinals.runs, *snapshot.workload.reach))


def _without_departures(history: History) -> History:
    """Forget since when seats are departed, while nobody can say which are."""
    seats = {key: replace(memory, departed_since_s=None) for key, memory in history.seats.items()}
    return replace(history, seats=seats)
