"""The durable form of what is remembered of members, to and from the StaticGroup's status."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ...api.resources import members as api
from ...api.resources.status import StaticGroupStatus
from ..members.carriers import UNATTRIBUTED, Attribution
from ..members.memory import Members
from ..members.suspects import Suspect
from .times import wire_time

SEAT_LENGTH: Final = 100
CARRIER_LENGTH: Final = 45
SUSPECT_LENGTH: Final = 900
"""Characters of an entry as it is stored, without its ids; of a suspect with the longest names."""


def members_from(namespace: str, status: StaticGroupStatus | None) -> Members:
    """Read what an earlier process remembered; nothing when there is no status.

    Notes
    -----
    Where somebody has edited any of it, or it had no room, the suspects alone are believed: they only hold back.
    """
    if status is None:
        return Members()
    suspects = tuple(_suspect_from(namespace, s) for s in status.suspects)
    if status.seal != seal_of(status.watch, status.seats, status.suspects):
        return Members(suspects=suspects)
    attributions = {
        s.id: Attribution(member=s.member, first_seen_s=s.first_seen.timestamp(), carriers=frozenset(s.carriers)) for s in status.seats
    }
    return Members(attributions=attributions, suspects=suspects, watch=status.watch or "")


def wire_members(namespace: str, members: Members) -> dict[str, Any]:
    """Write what is remembered, as fields of the status.

    Notes
    -----
    Where the status has no room for all of it, neither watch nor seal is written, and the next process begins as if it remembered nothing:
    whoever joins may be of a pod that nobody saw. Seats that are plain need no room: it attributes their members to the same pods by itself.
    """
    fitting, lost = _seats(members), _suspects(members.suspects)
    left_out = members.attributions.keys() - fitting.keys()
    has_room = len(lost) == len(members.suspects) and all(_is_plain(members.attributions[i]) for i in left_out)
    watch = members.watch or None if has_room else None
    seats, suspects = [seat for _, seat in sorted(fitting.items())], [_suspect(namespace, s) for s in lost]
    seal = seal_of(watch, seats, suspects) if has_room and (watch or seats or suspects) else None
    return {"watch": watch, "seats": seats, "suspects": suspects, "seal": seal}


def remembers_the_same(one: StaticGroupStatus, other: StaticGroupStatus) -> bool:
    """Return True when two statuses hold the same members, suspects and watch."""
    return all(getattr(one, field) == getattr(other, field) for field in ("watch", "seats", "suspects", "seal"))


def seal_of(watch: str | None, seats: Sequence[api.SeatMember], suspects: Sequence[api.Suspect]) -> str:
    """Return the digest by which an edit of what is remembered shows, 16 hex digits."""
    lines = (watch or "", *(entry.model_dump_json() for entry in (*seats, *suspects)))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _suspect(namespace: str, s: Suspect) -> api.Suspect:
    return api.Suspect(
        uid=s.uid,
        pod=s.pod_name,
        namespace="" if s.namespace == namespace else s.namespace,
        ids=sorted(s.instance_ids),
        since=wire_time(s.since_s),
        node=s.node_name,
        provider=s.provider,
        placed=wire_time(s.placed_at_s) if s.placed_at_s else None,
        lost_boot=s.lost_boot,
        addresses=sorted(s.addresses),
    )


def _suspects(suspects: Iterable[Suspect]) -> list[Suspect]:
    """Return as many suspects as there is room for."""
    found: list[Suspect] = []
    room = api.SUSPECTS_LENGTH_MAX
    for suspect in suspects:
        length = SUSPECT_LENGTH + sum(len(text) for text in (*suspect.instance_ids, *suspect.addresses))
        is_whole = len(suspect.instance_ids) <= api.SUSPECT_IDS_MAX and len(suspect.addresses) <= api.ADDRESSES_MAX
        if is_whole and length <= room and len(found) < api.SUSPECTS_MAX:
            found.append(suspect)
            room -= length
    return found


def _seats(members: Members) -> dict[str, api.SeatMember]:
    """Return as many members as there is room for, those first that are not plain."""
    found: dict[str, api.SeatMember] = {}
    room = api.SEATS_LENGTH_MAX
    for instance_id, a in sorted(members.attributions.items(), key=lambda item: (_is_plain(item[1]), item[0])):
        room -= SEAT_LENGTH + len(instance_id) + CARRIER_LENGTH * len(a.carriers)
        if room < 0 or len(found) == api.SEATS_MAX:
            break
        found[instance_id] = _seat(instance_id, a)
    return found


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
