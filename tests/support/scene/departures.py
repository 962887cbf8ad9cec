"""What a scale-down cost, departure by departure, from three independent accounts.

The one idea: one pod UID is one process, and its own line `assigned` names its member id. So the witness' watch (when
the end was visible to any client), the brokers' log (when the removal was acknowledged) and the survivors' lines (when
the partitions were read again) are joined exactly, without asking the operator.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from support.devcluster.kafka_log_lines import GroupEvent
from support.scene.pod_lines import PodVoice
from support.scene.witnesses import Life, PodSighting


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """One member that left for good, milliseconds since 1970.

    Parameters
    ----------
    joined_at_ms: its process said that it was first given partitions.
    terminal_at_ms: the witness' watch received the pod's terminal phase.
    removed_at_ms: the broker logged the removal of exactly this member.
    assigned_at_ms: a survivor was assigned its last partition; None while not all are.
    consumed_at_ms: survivors reported records of all its partitions; they report once a second, so this is late.
    """

    pod_name: str
    uid: str
    instance_id: str
    member_id: str
    joined_at_ms: int
    partitions: frozenset[int]
    terminal_at_ms: int
    removed_at_ms: int
    assigned_at_ms: int | None
    consumed_at_ms: int | None

    @property
    def acknowledged_s(self) -> float:
        """Seconds from the visible end to the acknowledged removal."""
        return (self.removed_at_ms - self.terminal_at_ms) / 1000

    @property
    def assigned_s(self) -> float | None:
        """Seconds from the visible end until survivors were assigned all its partitions."""
        return None if self.assigned_at_ms is None else (self.assigned_at_ms - self.terminal_at_ms) / 1000

    @property
    def consumed_s(self) -> float | None:
        """Seconds from the visible end until survivors consumed all its partitions; None when they never did."""
        return None if self.consumed_at_ms is None else (self.consumed_at_ms - self.terminal_at_ms) / 1000


def dead_before_ms(departure: Departure, lives: Iterable[Life]) -> int:
    """Return by how many milliseconds the process was gone before its member was removed; negative: it was alive."""
    last_seen_ms = [
        life.last_seen_ms
        for life in lives
        if life.instance_id == departure.instance_id
        and life.started_at_ms <= departure.joined_at_ms <= life.last_seen_ms
    ]
    if not last_seen_ms:
        raise LookupError(f"no process of {departure.instance_id} was seen at {departure.joined_at_ms}")
    return departure.removed_at_ms - max(last_seen_ms)


def member_ids(voice: PodVoice) -> list[str]:
    """Return the member ids that a process had, the latest last."""
    return list(dict.fromkeys(line["member_id"] for line in voice.of_kind("assigned") if line["member_id"]))


def last_partitions(voice: PodVoice) -> frozenset[int]:
    """Return what a process held last before it gave up everything, by its lines (they name what changes)."""
    held: set[int] = set()
    last: frozenset[int] = frozenset()
    for line in list(voice.lines):
        if line["kind"] == "assigned":
            held |= set(line["partitions"])
        elif line["kind"] in ("revoked", "lost"):
            held -= set(line["partitions"])
        last = frozenset(held) or last
    return last


def departures(
    sightings: Iterable[PodSighting], removals: Collection[GroupEvent], voices: Mapping[str, PodVoice],
    survivors: Collection[str],
) -> list[Departure]:  # fmt: skip
    """Join the three accounts; pods whose member has not been removed yet are left out.

    Parameters
    ----------
    sightings: of the pods that were scaled away.
    removals: the brokers' lines about removals by the operator.
    voices: by pod UID.
    survivors: UIDs of the pods that stayed.
    """
    removed_at_ms = {event.member_id: event.at_ms for event in removals}
    found = []
    for sighting in sightings:
        voice = voices[sighting.uid]
        member_id = next((m for m in reversed(member_ids(voice)) if m in removed_at_ms), None)
        if member_id is None or sighting.terminal_at_ms is None:
            continue
        partitions = last_partitions(voice)
        heirs = [voices[uid] for uid in survivors]
        found.append(
            Departure(
                pod_name=sighting.name, uid=sighting.uid, instance_id=voice.instance_id() or "", member_id=member_id,
                joined_at_ms=voice.of_kind("assigned")[0]["at_ms"], partitions=partitions,
                terminal_at_ms=sighting.terminal_at_ms, removed_at_ms=removed_at_ms[member_id],
                assigned_at_ms=_covered_at_ms(heirs, "assigned", partitions, removed_at_ms[member_id]),
                consumed_at_ms=_covered_at_ms(heirs, "consumed", partitions, removed_at_ms[member_id]),
            )
        )  # fmt: skip
    return found


def _covered_at_ms(heirs: Iterable[PodVoice], kind: str, partitions: frozenset[int], since_ms: int) -> int | None:
    """Return when the last of the partitions was first named by an heir; None while one is missing."""
    first: dict[int, int] = {}
    for heir in heirs:
        for line in heir.of_kind(kind):
            if line["at_ms"] < since_ms:
                continue
            for partition in map(int, line["partitions"]):
                first[partition] = min(first.get(partition, line["at_ms"]), line["at_ms"])
    if not partitions or not partitions <= first.keys():
        return None
    return max(first[p] for p in partitions)
