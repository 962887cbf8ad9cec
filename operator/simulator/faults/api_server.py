"""What lies between an operator and the API server."""

from __future__ import annotations

from random import Random

from ..kubernetes.objects import LEASES, PODS, STATEFULSETS, STATIC_GROUPS
from ..world.world import RunningOperator, World
from .registry import Heal, fault, operator_fault, restore_etcd, setting


@operator_fault(weight=1.5, lasts_s=(0, 0))
def watches_break(world: World, rng: Random, operator: RunningOperator) -> None:
    """Every watch of an operator is cut."""
    operator.transport.link.break_watches()


@fault(weight=0.7, lasts_s=(0, 0))
def watch_position_is_too_old(world: World, rng: Random) -> None:
    """The watches end and etcd has compacted what they would go on from: 410."""
    world.server.compact(PODS)
    watches_break(world, rng)


@operator_fault(weight=1.5, lasts_s=(5, 60))
def watch_lags(world: World, rng: Random, operator: RunningOperator) -> Heal:
    """The API server's cache is behind: events come late, cached reads are old."""
    faults = operator.transport.link.faults
    faults.watch_delay_s = faults.stale_s = rng.uniform(1, 30)

    return setting(faults, watch_delay_s=0.0, stale_s=0.0)


@operator_fault(lasts_s=(5, 60))
def api_server_is_slow(world: World, rng: Random, operator: RunningOperator) -> Heal:
    """Every request takes up to some seconds."""
    faults = operator.transport.link.faults
    faults.latency_s = (0.1, rng.uniform(0.5, 6))

    return setting(faults, latency_s=(0.001, 0.005))


@operator_fault(weight=1.5, lasts_s=(5, 90))
def operator_is_cut_off(world: World, rng: Random, operator: RunningOperator) -> Heal:
    """The operator does not reach the API server."""
    operator.transport.link.faults.is_cut = True
    return operator.transport.link.heal


@operator_fault(lasts_s=(2, 40))
def api_server_fails(world: World, rng: Random, operator: RunningOperator) -> Heal:
    """Every request is answered 503, or refused."""
    link = operator.transport.link
    link.faults.is_refusing = rng.random() < 0.5
    link.faults.failing_status = 0 if link.faults.is_refusing else rng.choice((429, 500, 503))

    def heal() -> None:
        link.faults.failing_status = 0
        link.heal()

    return heal


@operator_fault(lasts_s=(0, 0))
def answers_of_the_api_server_get_lost(world: World, rng: Random, operator: RunningOperator) -> None:
    """Some writes are carried out and their answers lost; others conflict with a faster write."""
    operator.transport.link.faults.lost_answers = rng.randint(1, 3)
    operator.transport.link.faults.conflicts = rng.randint(0, 3)


@fault(lasts_s=(5, 60))
def rights_are_lost(world: World, rng: Random) -> Heal:
    """A role loses a rule."""
    resource, verbs = rng.choice(
        (
            (PODS, ("list", "watch", "get")),
            (STATEFULSETS, ("get", "list", "watch")),
            (f"{STATIC_GROUPS.partition('.')[0]}.{STATIC_GROUPS.partition('.')[2]}/status", ("patch",)),
            (STATIC_GROUPS, ("get", "list", "watch")),
            (LEASES, ("get", "update")),
        )
    )
    world.server.deny("operator", verbs, resource)
    return lambda: world.server.allow("operator", verbs, resource)


@fault(weight=0.5, lasts_s=(1, 20))
def etcd_is_restored(world: World, rng: Random) -> Heal:
    """An etcd is set back to a snapshot that was taken a moment before."""
    backup = world.server.backup()

    return lambda: restore_etcd(world, backup)
