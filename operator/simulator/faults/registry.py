"""What a fault is, and the register of all of them: each begins at a moment and is healed at another.

A fault is a function of the world that returns how to undo it; None: it is over at once. Its name is its kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from random import Random
from typing import Any, Final

from ..kubernetes.node.kubelet import Kubelet
from ..kubernetes.objects import NODES, PODS, STATIC_GROUPS
from ..kubernetes.storage import ApiError, Backup
from ..world.world import NAMESPACE, RunningOperator, World

Heal = Callable[[], None]
Begin = Callable[[World, Random], Heal | None]
BeginOfOne = Callable[[World, Random, RunningOperator], Heal | None]
USUAL_LATENCY_S: Final = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One kind of fault.

    Parameters
    ----------
    weight: how often it is drawn, relative to the others.
    lasts_s: (least, most) seconds until it is healed.
    is_beside: it is drawn beside the others, from a source of its own, so that what else a seed draws does not depend
        on it.
    """

    kind: str
    begin: Begin
    weight: float
    lasts_s: tuple[float, float]
    is_beside: bool = False


FAULTS: dict[str, Fault] = {}


def fault(
    *, weight: float = 1.0, lasts_s: tuple[float, float] = (5.0, 60.0), is_beside: bool = False
) -> Callable[[Begin], Begin]:
    """Register a function as the fault of its name."""

    def register(begin: Begin) -> Begin:
        kind = begin.__name__
        FAULTS[kind] = Fault(kind=kind, begin=begin, weight=weight, lasts_s=lasts_s, is_beside=is_beside)
        return begin

    return register


def operator_fault(
    *, weight: float = 1.0, lasts_s: tuple[float, float] = (5.0, 60.0), is_beside: bool = False
) -> Callable[[BeginOfOne], Begin]:
    """Register a function of one drawn operator as the fault of its name; nothing happens while none lives."""

    def register(begin: BeginOfOne) -> Begin:
        @wraps(begin)
        def begin_if_any(world: World, rng: Random) -> Heal | None:
            operator = draw_operator(world, rng)
            return None if operator is None else begin(world, rng, operator)

        return fault(weight=weight, lasts_s=lasts_s, is_beside=is_beside)(begin_if_any)

    return register


def setting(target: object, **values: Any) -> Heal:
    """Return what sets these attributes, as a fault is healed that was nothing else."""

    def heal() -> None:
        for name, value in values.items():
            setattr(target, name, value)

    return heal


def each(act: Callable[[Kubelet], object], nodes: Iterable[Kubelet]) -> Heal:
    """Return what does something to every one of the nodes that are there by then."""

    def heal() -> None:
        for node in nodes:
            act(node)

    return heal


async def carry_out(world: World, rng: Random, chosen: Fault, *, lasts_s: float | None = None) -> None:
    """Begin a fault, let it last and heal it.

    Parameters
    ----------
    lasts_s: virtual seconds; None draws it.
    """
    lasts_s = rng.uniform(*chosen.lasts_s) if lasts_s is None else lasts_s
    title = chosen.kind.replace("_", " ")
    world.trace.add(world.loop.time(), "fault", title, lasts_s=lasts_s or None)
    world.faults[chosen.kind] += 1
    heal = chosen.begin(world, rng)
    await asyncio.sleep(lasts_s)
    if heal is not None:
        world.trace.add(world.loop.time(), "fault", f"{title}: over")
        heal()


async def wait_for(world: World, condition: Callable[[], object], within_s: float) -> None:
    """Wait until something is true, and no longer than so many virtual seconds."""
    try:
        await world.until(condition, within_s, "")
    except AssertionError:
        pass  # a fault goes on all the same


def draw_pod(world: World, rng: Random) -> str | None:
    """Draw one of the workload's pods; None when there is none."""
    names = [p["metadata"]["name"] for p in world.server.list(PODS, NAMESPACE)]
    return rng.choice(names) if names else None


def draw_node(world: World, rng: Random) -> Kubelet:
    """Draw a machine, rather one that runs a pod."""
    pod = draw_pod(world, rng)
    found = world.kubernetes.node_of(NAMESPACE, pod) if pod is not None else None
    return found or world.kubernetes.nodes[rng.choice(sorted(world.kubernetes.nodes))]


def node_comes_back(world: World, node: Kubelet) -> Heal:
    """Return what ends the loss of a machine whose Node object was deleted: it is on, reached, and registered again."""

    def heal() -> None:
        if not node.is_on:
            node.power_on()
        node.heal()
        if world.server.get(NODES, "", node.name) is None:
            node.restart_kubelet()

    return heal


def draw_operator(world: World, rng: Random) -> RunningOperator | None:
    """Return an operator that lives; None when none does."""
    return rng.choice(world.living) if world.living else None


def restore_etcd(world: World, backup: Backup, *, bump: int = 0) -> None:
    """Set etcd back to a snapshot; whether an operator sees it is noted.

    Parameters
    ----------
    bump: see `Storage.restore`; old positions are gone then, so no watch resumes from one.
    """
    if not bump and not any(o.process.is_running and not o.transport.link.faults.is_cut for o in world.living):
        world.truth.assumptions.unseen_s.append(world.loop.time())
    world.kubernetes.restore_etcd(backup, bump=bump)
    world.truth.resync(world.server)
    world.statuses.restored(world.server.list(STATIC_GROUPS))


def attempt(action: Callable[[], object]) -> None:
    """Do what a user does; an error of the API server does not end the fault."""
    try:
        action()
    except ApiError:
        pass  # whatever the API server refuses, as a user who comes too late or too early; the fault goes on
