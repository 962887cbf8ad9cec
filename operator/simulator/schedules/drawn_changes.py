"""Draw what members become for a while, and copies of their ids."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random

from staticgroup.api.resources.client import ClientType

from ..world.teams import Team


class ChangeKind(StrEnum):
    """What members become for a while, or which other pod has their ids."""

    PROTOCOL = "rolls to clients of the other protocol"
    DYNAMIC = "rolls to clients without ids, or with ids again"
    COPY = "copies a pod's id into a second workload"
    OUTSIDER = "copies a pod's id out of the cluster"


CHANGES = {ChangeKind.PROTOCOL: 2.0, ChangeKind.DYNAMIC: 1.2, ChangeKind.COPY: 1.0, ChangeKind.OUTSIDER: 1.0}
CHANGED_SHARE = 0.3
"""Of the schedules in which something of this kind happens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of this kind.

    Parameters
    ----------
    after_s: from the beginning of the busy time; lasts_s: until it is taken back.
    is_in_spec: the StaticGroup names the new protocol, too; of PROTOCOL only.
    """

    kind: ChangeKind
    after_s: float
    lasts_s: float
    is_in_spec: bool = True


def draw_changes(rng: Random, team: Team, *, has_others: bool) -> tuple[Change, ...]:
    """Draw what changes about the members, from a source of its own: what else a seed draws does not depend on it.

    Workers of Connect and applications of Kafka Streams have no KIP-848 protocol. No operator sees
    what runs outside of the cluster, so its ids must not be declared exclusive.
    """
    source = Random(f"changes/{rng.getstate()[1][:4]}")
    if source.random() >= CHANGED_SHARE:
        return ()
    allowed = dict(CHANGES)
    if team.is_of_workers or team.client.get("type") == ClientType.KAFKA_STREAMS:
        del allowed[ChangeKind.PROTOCOL]
    if has_others:
        del allowed[ChangeKind.OUTSIDER]
    kinds = {source.choices(list(allowed), list(allowed.values()))[0] for _ in range(source.choice((1, 2)))}
    return tuple(
        Change(
            kind=kind,
            after_s=source.uniform(10, 350),
            lasts_s=source.uniform(20, 220),
            is_in_spec=source.random() < 0.7,
        )
        for kind in sorted(kinds)
    )
