"""One process of the real operator: its wires, its clocks, and since when it must stop or only report."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from journal.sinks import MemorySink
from staticgroup.runtime.assembly import Sources
from staticgroup.runtime.operator import Operator
from staticgroup.runtime.process.informers import STATIC_GROUPS
from staticgroup.runtime.process.settings import Settings

from ..engine.loop import Process, SimulationLoop
from ..kafka.cluster import ModelKafkaCluster
from ..kubernetes.api_server import ApiServer
from ..kubernetes.objects import EPOCH_S, Json, id_template
from .gateway import ModelKafkaGateway
from .transport import ModelTransport


@dataclass(slots=True)
class RunningOperator:
    """One operator process, and what connects it to the world.

    Attributes
    ----------
    main: its main task, which ends after SIGTERM; None before it is started.
    """

    name: str
    process: Process
    operator: Operator
    transport: ModelTransport
    gateway: ModelKafkaGateway
    main: asyncio.Task[None] | None = None
    stop_since_s: dict[tuple[str, str, str], float | None] = field(default_factory=dict)
    report_since_s: dict[tuple[str, str, str], float | None] = field(default_factory=dict)

    @property
    def is_alive(self) -> bool:
        """True until it was killed or ended."""
        return not self.process.is_dead


def make_operator(
    settings: Settings,
    *,
    server: ApiServer,
    kafka: ModelKafkaCluster,
    loop: SimulationLoop,
    rng: Callable[[str], Random],
    sinks: tuple[MemorySink, ...] | None,
) -> RunningOperator:
    """Make one operator process, which does not run yet; `settings.identity` is its name.

    Parameters
    ----------
    rng: makes a source of randomness of a name.
    sinks: where the journal goes; None: nowhere.
    """
    name = settings.identity
    process = loop.process(name)
    transport = ModelTransport(server, loop, user="operator", rng=rng(f"{name}/wire"), process=process)
    gateway = ModelKafkaGateway(kafka, name=name, rng=rng(f"{name}/kafka"))
    sources = Sources(now_s=lambda: EPOCH_S + loop.time(), monotonic_s=loop.time, rng=rng(f"{name}/operator"))
    operator = process.call(lambda: Operator(settings, transport, sources=sources, kafka=gateway, journal_sinks=sinks))
    process.on_death.append(gateway.kill)
    return RunningOperator(name, process, operator, transport, gateway)


def says_stop(spec: Json) -> bool:
    """Whether a StaticGroup forbids every removal, by whatever field."""
    return _may_share_ids_or_rests(spec) or spec.get("removal") == "Never"


def says_report(spec: Json) -> bool:
    """Whether a StaticGroup says that no crashed member may be released."""
    return _may_share_ids_or_rests(spec) or spec.get("removal") != "DepartedAndCrashed"


def _may_share_ids_or_rests(spec: Json) -> bool:
    may_share_ids = "{scope}" not in id_template(spec) and not spec.get("assumeExclusive")
    return spec.get("mode", "Manage") != "Manage" or may_share_ids


def note_orders(running: RunningOperator, loop: SimulationLoop) -> None:
    """Note since when an operator has known that it may not write to a group."""
    operator = running.operator
    take = operator.listener.static_group_changed

    def static_group_changed(raw: Json, *, is_deleted: bool) -> None:
        namespace, name = raw["metadata"]["namespace"], raw["metadata"]["name"]
        known = operator.stores.groups.get((namespace, name))
        group_id = (
            known.spec.group_id if is_deleted and known is not None else (raw.get("spec") or {}).get("groupId", "")
        )
        key = (group_id, namespace, name)
        is_over = is_deleted or operator.settings.force_observe
        for since_s, says in ((running.stop_since_s, says_stop), (running.report_since_s, says_report)):
            if not (is_over or says(raw["spec"])):
                since_s[key] = None
            elif since_s.get(key) is None:
                since_s[key] = loop.time()
        take(raw, is_deleted=is_deleted)

    for informer in operator.informers.all:
        if informer.resource == STATIC_GROUPS:
            informer.on_object = static_group_changed
