"""What the operator keeps outside itself, the status and the Lease, is lost, set back or cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from ..kubernetes.objects import LEASES, STATIC_GROUPS, Json
from ..world.world import GROUP, NAMESPACE, RunningOperator, World
from .registry import Heal, attempt, draw_operator, fault

WRITES_A_STATUS = (("patch", f"{STATIC_GROUPS}/status"), ("get", STATIC_GROUPS))
"""A status is written by one apply, bound to the version that its writer knows; one that does not know it reads
first."""
READS_THE_LEASE = ("get", LEASES)
REFUSALS = (503, 429, 500, 0)
MANY = 1000
"""More requests than any fault lasts for."""
STANDBY_READY_S = 10.0
RESTORED_UNTIL, CLEARED_FROM = 0.35, 0.7
"""Shares of the statuses that are restored with their owners, and over an object whose owners were cleared."""
ARRIVES_BEFORE_S = 0.05


def write_status(world: World, status: Json) -> None:
    """Let a user with the right write another status into the StaticGroup."""
    found = world.server.get(STATIC_GROUPS, NAMESPACE, GROUP)
    if found is not None:
        body = {**found, "status": status}
        world.statuses.edited(body)
        world.server.update(STATIC_GROUPS, body, subresource="status")


def clear_owners(world: World, group: Json) -> None:
    """Let a user clear metadata.managedFields as Kubernetes documents it: the next writer is not recorded."""
    metadata = {key: value for key, value in group["metadata"].items() if key != "managedFields"}
    world.server.update(STATIC_GROUPS, {**group, "metadata": metadata})


def put_owners_back(world: World, older: Json) -> None:
    """Let a tool restore managedFields too, which then name the operator as the writer of an older status."""
    present = world.server.get(STATIC_GROUPS, NAMESPACE, GROUP)
    if present is not None:
        owners = {"managedFields": older["metadata"].get("managedFields", [])}
        world.server.update(STATIC_GROUPS, {**present, "metadata": present["metadata"] | owners})


@fault(weight=0.7, lasts_s=(0, 0))
def status_is_emptied(world: World, rng: Random) -> None:
    """A user, or a tool that restores objects without their status, empties the status."""
    write_status(world, {})


@fault(weight=0.7, lasts_s=(20, 150))
def status_is_set_back(world: World, rng: Random) -> Heal:
    """A user applies an older status from a backup, and is recorded as its writer or not."""
    found = world.server.get(STATIC_GROUPS, NAMESPACE, GROUP) or {}
    uid, old = (found.get("metadata") or {}).get("uid"), found.get("status") or {}
    chance = rng.random()

    def heal() -> None:
        present = world.server.get(STATIC_GROUPS, NAMESPACE, GROUP)
        if present is not None and present["metadata"]["uid"] == uid:
            if chance > CLEARED_FROM:
                clear_owners(world, present)
            write_status(world, old)
            if chance < RESTORED_UNTIL:
                put_owners_back(world, found)

    return heal


def _refusing(name: str, statuses: list[int]) -> Callable[[RunningOperator], None]:
    """Return what lets an operator of this name meet these answers to its next reads of the Lease."""

    def refuse(running: RunningOperator) -> None:
        if running.name == name:
            running.transport.link.faults.refusals[READS_THE_LEASE] = list(statuses)

    return refuse


@fault(weight=0.7, lasts_s=(5, 40))
def lease_cannot_be_read(world: World, rng: Random) -> Heal | None:
    """Reads of the Lease, and of nothing else, are refused for a while."""
    operator, status = draw_operator(world, rng), rng.choice(REFUSALS)
    if operator is None:
        return None

    refuse = _refusing(operator.name, [status] * MANY)
    refuse(operator)
    world.on_start.append(refuse)

    def heal() -> None:
        world.on_start.remove(refuse)
        for running in world.living:
            running.transport.link.faults.refusals.pop(READS_THE_LEASE, None)

    return heal


@fault(weight=0.7, lasts_s=(1, 20))
def first_read_of_the_lease_is_refused(world: World, rng: Random) -> Heal | None:
    """An operator starts again, and the one read that says where to go on from is refused."""
    operator, status = draw_operator(world, rng), rng.choice(REFUSALS)
    if operator is None:
        return None

    refuse = _refusing(operator.name, [status])
    world.on_start.append(refuse)
    world.crash_operator(operator)

    def heal() -> None:
        world.restart_operator(operator.name)
        world.on_start.remove(refuse)

    return heal


@fault(weight=1.0, lasts_s=(70, 160))
def operator_freezes_in_a_status_write(world: World, rng: Random) -> Heal:
    """The active operator freezes inside a write of a status, longer than its Lease lasts; the write comes late."""
    frozen_s = rng.uniform(20, 55)
    armed: list[RunningOperator] = []

    def hook(verb: str, label: str) -> None:
        if (verb, label) in WRITES_A_STATUS:
            process = armed[0].process
            # It arrives when the standby has long taken over and written, and is answered right before its sender goes
            # on.
            armed[0].transport.link.faults.held_s = frozen_s - ARRIVES_BEFORE_S
            heal()
            world.trace.add(world.loop.time(), "fault", "operator frozen in a status write", operator=process.name)
            process.freeze()
            world.loop.world_call_later(frozen_s, process.thaw)

    def arm() -> None:
        leader = world.leader()
        if leader is not None and not armed:
            armed.append(leader)
            leader.transport.link.on_request.append(hook)
            # Something to write: the status says which generation it is about.
            attempt(lambda: world.users.edit_without_effect(NAMESPACE, GROUP))

    def heal() -> None:
        for operator in armed:
            if hook in operator.transport.link.on_request:
                operator.transport.link.on_request.remove(hook)

    if len(world.living) < 2:
        attempt(lambda: world.restart_operator("operator-b"))
    world.loop.world_call_later(STANDBY_READY_S, arm)
    return heal
