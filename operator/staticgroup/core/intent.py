"""What is wanted: the ids that the workload calls for, and so who is departed; what the next pods receive for it.

Decided here once. The plan acts on it, and the reconciler asks before it reads, so that there is a chain for every
seat that the plan finds departed, and none is told to have had no pod because nobody has looked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..api.resources.staticgroup import Mode, StaticGroupSpec
from .ids.naming import Naming, naming_of
from .next_pods.agent import with_init_container
from .next_pods.bounds import client_of
from .next_pods.choice import plan_timeout
from .next_pods.group_config import GroupConfigRecord, GroupConfigWrite, heartbeat_ms, held_over_ms, plan_group_config
from .next_pods.injection import InjectionPlan, plan_injection
from .next_pods.shared_setting import SharedSetting, settled
from .next_pods.timeouts import TimeoutPlan
from .next_pods.wishes import Experience
from .protocols import protocol_in_force
from .roles import protocol_asked_for
from .snapshot import History, Snapshot
from .workload import WorkloadView


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """Which ids are wanted, among all that a StaticGroup may issue or has issued.

    Parameters
    ----------
    expected: ids that the workload calls for, each with its ordinal.
    """

    naming: Naming
    expected: Mapping[str, int]


def intent_of(spec: StaticGroupSpec, snapshot: Snapshot, history: History) -> Intent | None:
    """Return by what `plan` will tell who is departed; the chains and reads of the picture do not matter.

    Parameters
    ----------
    history: as `plan` takes it; ids that are acknowledged only in this round count too, and so does an edited template.

    Returns
    -------
    None where `plan` decides nothing about members: no id may be issued yet, the ids cannot be made, or the workload cannot
    be read.
    """
    if snapshot.workload_problem:
        return None
    _, injection = next_pods(spec, snapshot, history)
    history = replace(history, injected=injection.injected, templates=injection.templates)
    try:
        naming = naming_of(spec, history)
        expected = expected_ids(naming, snapshot.workload)
    except ValueError:  # too many ids, ids that a broker refuses, ids that cannot be told apart
        return None
    return Intent(naming=naming, expected=expected) if naming.schemes else None


def next_pods(spec: StaticGroupSpec, snapshot: Snapshot, history: History) -> tuple[TimeoutPlan, InjectionPlan]:
    """Decide the session timeout, and what the injection writes into the next pods."""
    timeout = plan_timeout(
        spec.session_timeout,
        with_init_container(spec, snapshot.workload),
        protocol_in_force(protocol_asked_for(spec), snapshot.group),
        snapshot.bounds,
        client=client_of(spec, snapshot.workload),
        advice=snapshot.advice,
        kept_ms=history.fleet_timeout_ms,
        experience=Experience(absences=history.absences, in_use=history.measured, now_s=snapshot.described_at_s),
        asked_by_others_ms=snapshot.asked_by_others_ms,
        writes_group=_writes_group(spec),
    )
    return timeout, plan_injection(spec, snapshot, history, timeout)


def group_setting(
    spec: StaticGroupSpec, snapshot: Snapshot, history: History, timeout: TimeoutPlan, now_s: float
) -> tuple[TimeoutPlan, GroupConfigWrite | None, GroupConfigRecord | None, SharedSetting | None]:
    """Decide what becomes of the session timeout that the group has at the brokers.

    Parameters
    ----------
    timeout: as `next_pods` returns it.

    Returns
    -------
    The plan with what is set of what is wanted; the write, None when there is none to do now; and what is remembered of the last
    write and of the setting.
    """
    protocol, bounds, last = protocol_in_force(protocol_asked_for(spec), snapshot.group), snapshot.bounds, history.group_config
    known = history.shared_setting if _writes_group(spec) else None
    timeout, setting = settled(timeout, protocol, bounds, known, last, snapshot.unheard, now_s)
    again_after_s = setting.raise_again_after_s if setting is not None else 0.0
    write, record = plan_group_config(timeout, protocol, bounds, snapshot.group, last, now_s, again_after_s=again_after_s)
    if protocol is not None:
        timeout = replace(timeout, slow_ms=held_over_ms(record, heartbeat_ms(protocol, bounds), now_s))
    return timeout, write, record, setting


def _writes_group(spec: StaticGroupSpec) -> bool:
    return spec.session_timeout.write_group_config and spec.mode is Mode.MANAGE


def expected_ids(naming: Naming, workload: WorkloadView | None) -> Mapping[str, int]:
    """Return the ids that a workload's intent calls for, each with its ordinal.

    Parameters
    ----------
    workload: as cached or as read consistently; None when it does not exist, and then it calls for none.

    Raises
    ------
    InvalidInstanceIdError: an id that the spec makes would be refused by the broker.
    """
    if workload is None or workload.is_ending or not naming.schemes:
        return {}
    naming.schemes[0].check_count(workload.replicas)
    return {
        str(i): int(o)
        for run in workload.runs
        for i, o in naming.schemes[0].expected_ids(run.start, len(run)).items()
    }
