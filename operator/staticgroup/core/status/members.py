"""The durable form of what is remembered of members, to and from the StaticGroup's status."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ...api.resources import members as api
from ...api.resources.status import StaticGroupStatus
from ..members.carriers import UNATTRIBUTED, Attribution
from ..members.memory import Members
from ..members.suspects import Suspect
from .times import wire_time


def members_from(namespace: str, status: StaticGroupStatus | None) -> Members:
    """Read what an earlier process remembered; nothing when there is no status."""
    if status is None:
        return Members()
    return Members(
        attributions={
            s.id: Attribution(member=s.member, first_seen_s=s.first_seen.timestamp(), carriers=frozenset(s.carriers))
            for s in status.seats
        },
        suspects=tuple(_suspect_from(namespace, s) for s in status.suspects),
        watch=status.watch or "",
    )


def wire_watch(members: Members) -> str | None:
    """Write under which pod watch nobody can have joined unseen; none where the status has no room for all that is remembered.

    Notes
    -----
    Then the next process begins as if it remembered nothing: whoever joins may be of a pod that nobody saw.
    """
    odd = sum(not _is_plain(a) for a in members.attributions.values())
    is_whole = odd <= api.SEATS_MAX and len(members.suspects) <= api.SUSPECTS_MAX
    return members.watch or None if is_whole else None


def wire_seats(members: Members) -> list[api.SeatMember]:
    """Write the members and their carriers, those first that are not plain: a plain one has one pod, which the next process sees itself."""
    ranked = sorted(members.attributions.items(), key=lambda item: (_is_plain(item[1]), item[0]))
    return sorted((_seat(i, a) for i, a in ranked[: api.SEATS_MAX]), key=lambda s: s.id)


def wire_suspects(namespace: str, suspects: Iterable[Suspect]) -> list[api.Suspect]:
    """Write the suspects."""
    return [
        api.Suspect(
            uid=s.uid,
            pod=s.pod_name,
            namespace="" if s.namespace == namespace else s.namespace,
            ids=sorted(s.instance_ids)[: api.SUSPECT_IDS_MAX],
            since=wire_time(s.since_s),
            node=s.node_name,
            provider=s.provider,
            placed=wire_time(s.placed_at_s) if s.placed_at_s else None,
            lost_boot=s.lost_boot,
            addresses=sorted(s.addresses)[:8],
        )
        for s in tuple(suspects)[: api.SUSPECTS_MAX]
    ]


def _is_plain(a: Attribution) -> bool:
    return len(a.carriers) == 1 and not a.is_guessed


def _seat(instance_id: str, a: Attribution) -> api.SeatMember:
    carriers = sorted(a.carriers) if len(a.carriers) <= api.CARRIERS_MAX else [UNATTRIBUTED]
    # In whole seconds, and not earlier than it was: an end is compared with it.
    return api.SeatMember(id=instance_id, member=a.member, first_seen=wire_time(math.ceil(a.first_seen_s)), carriers=carriers)


def _suspect_from(namespace: str, s: api.Suspect) -> Suspect:
    return Suspect(
        uid=s.uid,
        namespace=s.namespace or namespace,
        pod_name=s.pod,
        instance_ids=frozenset(s.ids),
        since_s=s.since.timestamp(),
        node_name=s.node,
        placed_at_s=s.placed.timestamp() if s.placed is not None else 0.0,
        provider=s.provider,
        lost_boot=s.lost_boot,
        addresses=frozenset(s.addresses),
    )
