"""What is so with the workers of a Kafka Connect cluster: whether they are static, what waits, and under which address they are.

Facts with figures are of real brokers and stock Connect (docs/guide/kafka-connect.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final

from ...api import remedies
from ...api.names import REBALANCE_DELAY_VARIABLE
from ...api.reasons import ConditionType, Reason
from ...api.resources.status import ExceptionKind
from ..next_pods.agent import AgentHindrance
from ..plan import Plan
from ..roles import CONNECT
from ..seats import SeatTable, Standing
from ..snapshot import Snapshot
from ..timeouts.in_force import seconds
from . import Finding, Subject

_DELAY_VARIABLES: Final = (REBALANCE_DELAY_VARIABLE, "CONNECT_SCHEDULED_REBALANCE_MAX_DELAY_MS")
"""By which a pod template may set the delay, the one that wins first; the second one of images that make properties of CONNECT_*."""
_DIGITS_MAX: Final = 10


def way_to_agent(snapshot: Snapshot, plan: Plan) -> str:
    """Say how the agent comes into workers that are in the group without it, or what it says itself."""
    injection = plan.injection
    if injection is not None and injection.without_agent is not None:
        return remedies.SEE_WHAT_KEEPS_AGENT_OUT
    if injection is not None and injection.brings_agent and snapshot.workload is not None:
        return remedies.bring_agent(snapshot.namespace, snapshot.workload.name, snapshot.workload.kind)
    return remedies.run_agent()


def without_agent(table: SeatTable, remedy: str) -> Finding | None:
    """Say that workers drop the ids that their pods carry; None where none does, or a worker may only not have joined yet."""
    missing = table.of(Standing.MISSING)
    if table.role is not CONNECT or not table.dynamic or not missing:
        return None
    return Finding(
        kind=ConditionType.MEMBERSHIP_COMPLETE,
        reason=Reason.WORKERS_WITHOUT_AGENT,
        sentence=f"{len(table.dynamic)} Connect workers are in the group without group.instance.id, though {len(missing)} Ready pods "
        f"carry one that no member has, such as {missing[0].pod_name}: Kafka Connect drops it unless the agent runs in the worker",
        remedy=remedy,
    )


def agent_left_out(found: AgentHindrance) -> Finding:
    """Say that the next pods get no agent although the spec asks for it."""
    return Finding(
        kind=ConditionType.INJECTED,
        reason=Reason.AGENT_NOT_INJECTED,
        sentence=f"New pods get no agent, and so their workers do not use the ids: {found.cause}",
        remedy=remedies.make_room_for_agent(found.remedy),
    )


def misaddressed(table: SeatTable) -> Iterator[Finding]:
    """Yield each worker that advertises something else than the name of its pod which is of one life only, or shared."""
    told = [(seat, seat.holders[0].worker.host) for seat in table.wanted if seat.holders and seat.holders[0].worker is not None]
    sharing = Counter(host for _, host in told)
    for seat, host in told if table.role is CONNECT else ():
        if not host or host.partition(".")[0].lower() == seat.pod_name.lower():
            continue
        reason, sentence = "AddressNotThePods", (
            f"its worker advertises {host} instead of its pod's name: a restart may change it, which costs a rebalance, and REST "
            "requests that others forward to it go astray"
        )
        others = sharing[host] - 1
        if not _is_fleeting(host):
            if not others:
                continue
            reason, sentence = "AddressShared", (
                f"its worker advertises {host}, as {others} other{'s do' if others > 1 else ' does'}, so REST requests that are "
                "forwarded to one of them reach any"
            )
        yield Finding(
            kind=ExceptionKind.MISADDRESSED,
            reason=reason,
            sentence=sentence,
            remedy=remedies.name_worker(seat.pod_name),
            subject=Subject(instance_id=seat.key, pod_name=seat.pod_name),
        )


def _is_fleeting(host: str) -> bool:
    """True for an address, which a pod has for one life; a name is its own, or whatever a DNS makes of it."""
    if host.lower() == "localhost":
        return True
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def notes(snapshot: Snapshot, plan: Plan) -> str:
    """Say of a complete cluster what waits for a lost worker, and what its delay costs; "" where neither is so."""
    return f"{_waiting(plan)}{_delay(snapshot, plan)}"


def _waiting(plan: Plan) -> str:
    load = plan.load
    if load is None or not load.waiting:
        return ""
    return f" {load.waiting} connectors and tasks wait for a worker that was lost, until its rebalance delay ends."


def _delay(snapshot: Snapshot, plan: Plan) -> str:
    """Advise against a delay that only dynamic workers need; "" while one may, or where it is not known."""
    load = plan.load
    if load is None or not load.is_whole:
        return ""
    configured_ms = _configured_delay_ms(snapshot)
    if configured_ms == 0 or (configured_ms is None and not load.delay_ms):
        return ""
    known = f"is {seconds(configured_ms)}" if configured_ms is not None else "is not 0"
    return (
        f" scheduled.rebalance.max.delay.ms {known}, and nobody needs it, because every worker is static: a restart keeps its tasks "
        "without it, and those of a worker that is gone for good wait for it (seen: 63 s with 60 s, 3 s with 0). "
        f"Set {REBALANCE_DELAY_VARIABLE} to 0 in the pod template."
    )


def _configured_delay_ms(snapshot: Snapshot) -> int | None:
    """Return the delay that the pod template sets; None when it sets none, or none that a worker takes."""
    containers = snapshot.workload.containers if snapshot.workload is not None else ()
    set_to = {name: value for container in containers for name, value in container.env_values}
    text = next((set_to[name] for name in _DELAY_VARIABLES if name in set_to), "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX else None
