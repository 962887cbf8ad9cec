"""What must be true of a world in which nothing has happened for a while: its members, and that no secret is shown."""

from __future__ import annotations

from collections import Counter

import prometheus_client

from coordinator_model.consumer.group import ConsumerGroup

from ..kubernetes.objects import EVENTS
from ..oracles.promises import Rest, Violation, judge_rest, secrets_shown
from .teams import GROUP
from .world import CANARY, World


def violations_at_rest(world: World, *, since_leaves: int) -> list[Violation]:
    """Judge liveness now.

    Parameters
    ----------
    since_leaves: how many LeaveGroups had been sent when the rest began.
    """
    running = Counter(i for p in world.processes.running() for i in world.ids_of(p))
    given_up = {i for p in world.processes.running() if world.programs.has_given_up(p) for i in world.ids_of(p)}
    desired = world.truth.desired_ids(GROUP)
    rest = Rest(
        at_s=world.loop.time(),
        members=world.members(),
        desired=desired,
        running=frozenset(i for i, n in running.items() if n == 1 and i in desired and i not in given_up),
        zombies=frozenset(i for i in running if i not in desired),
        leaves_at_rest=world.leaves_sent - since_leaves,
        endless=_endless(world),
    )
    found = judge_rest(rest, lambda i: world.truth.owner_of(GROUP, i) is not None)
    return found + [Violation("S13", world.loop.time(), place) for place in secrets_shown(CANARY, _shown(world))]


def _endless(world: World) -> frozenset[str]:
    """Return ids of KIP-848 members that have no session timer and are held by an operator that says so.

    Notes
    -----
    Kafka cancels a member's timers when it makes the records of its removal (GroupMetadataManager.cancelTimers). When
    the log then refuses the records, the member is back without them, and stays until it sends a heartbeat again or is
    removed, or the coordinator changes. A restored StaticGroup may meanwhile have lost the proof for its removal.
    """
    coordinator, members = world.kafka.coordinator(GROUP), world.members()
    if not isinstance(coordinator.groups.get(GROUP), ConsumerGroup):
        return frozenset()
    reported = {e.get("instanceId") for t in world.teams for e in world.status_of(t).get("issues") or []}
    timers = coordinator.timers
    return frozenset(
        i for i, m in members.items() if i in reported and timers.deadline_ms(("consumer-session", GROUP, m)) is None
    )


def _shown(world: World) -> dict[str, str]:
    """Return all texts that people and other programs see, by their place."""
    return {
        "trace": world.trace.text(),
        "status": str([world.status_of(team) for team in world.teams]),
        "events": str(world.server.list(EVENTS)),
        "logs": "\n".join(world.log_lines),
    } | {
        f"metrics of {o.name}": prometheus_client.generate_latest(o.operator.metrics.registry).decode()
        for o in world.living
    }
