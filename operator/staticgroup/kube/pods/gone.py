"""Bound what is kept of pods that are gone.

Of one pod name, a newer dead incarnation makes older ones needless. Over all names, vanished incarnations that belong to
no StaticGroup are kept up to a number, and the oldest go first. What a decision may rest on is never dropped.
"""

from collections.abc import Callable, Iterable
from typing import Final

from ...core.evidence.chain import IncarnationState
from .records import PodRecord, PodRecords

GONE_MAX: Final = 20_000
"""Most vanished incarnations kept that belong to no StaticGroup."""
DEAD_PER_NAME_MAX: Final = 4
"""Most vanished dead incarnations kept of one pod name: the newest, and those that carried other ids than the newer."""


def superseded(of_one_name: Iterable[PodRecord]) -> list[PodRecord]:
    """Return the vanished dead incarnations of a name that a newer dead one makes needless, and note in that one up to where.

    Notes
    -----
    A chain needs that every carrier is dead and that one was seen with the id: of several dead ones the newest
    says it all. An older one stays while it alone carried an id, as the last pod of an earlier template did.
    Names are unique, so every version of a dropped incarnation, and of those before it, is older than the last
    one that was folded of it: what is delivered again up to there is not news (`PodRecord.dropped_until`).
    """
    newest_first = sorted(
        (r for r in of_one_name if r.state is IncarnationState.DEAD),
        key=lambda r: (r.resource_version, r.uid), reverse=True,
    )
    shown: set[str] = set()
    kept = 0
    needless = []
    for record in newest_first:
        is_witness = not kept or (kept < DEAD_PER_NAME_MAX and not shown.issuperset(record.instance_ids))
        is_of_gone = record.certificate is not None and record.certificate.is_of_gone  # a removal that rests on it names it
        if is_witness or record.object_present or is_of_gone:
            shown.update(record.instance_ids)
            kept += 1
            continue
        newest = newest_first[0]
        newest.dropped_until = max(newest.dropped_until, record.dropped_until, record.resource_version)
        needless.append(record)
    return needless


class Gone:
    """The vanished incarnations, the oldest first.

    Attributes
    ----------
    forgotten_suspects: how many suspects were ever dropped.

    Parameters
    ----------
    gone_max: most that are kept of those that belong to no StaticGroup.
    """

    def __init__(self, gone_max: int) -> None:
        self._gone_max = gone_max
        self._gone_limit = gone_max
        self._uids: dict[str, None] = {}
        self.forgotten_suspects = 0

    def __len__(self) -> int:
        return len(self._uids)

    def uids(self) -> tuple[str, ...]:
        """Return who has vanished, the oldest first."""
        return tuple(self._uids)

    def note(self, uid: str, *, is_gone: bool) -> None:
        """Count an incarnation in once its object is gone, and out when the object is there or it is forgotten."""
        if is_gone:
            self._uids[uid] = None
        else:
            self._uids.pop(uid, None)

    def purge(
        self, records: PodRecords, *, is_needed: Callable[[PodRecord], bool], drop: Callable[[PodRecord], None]
    ) -> None:
        """Bound the vanished incarnations that belong to no StaticGroup, the oldest first, the dead before suspects.

        Parameters
        ----------
        is_needed: a StaticGroup counts on it, so it stays.
        drop: forgets a record, and counts it out here.

        Notes
        -----
        A suspect of nobody may be forgotten. A StaticGroup that is made later issues ids with a scope that was never
        carried, or its user swears that no process from before holds one of its ids (`identity.exclusive`), or all its seats are
        blind (`runtime/memory/estates.py`).
        """
        if len(self._uids) <= self._gone_limit:
            return
        target = self._gone_max * 9 // 10
        for state in (IncarnationState.DEAD, IncarnationState.SUSPECT):
            for uid in list(self._uids):
                if len(self._uids) <= target:
                    break
                record = records.get(uid)
                if record is not None and record.state is state and not is_needed(record):
                    drop(record)
                    self.forgotten_suspects += state is IncarnationState.SUSPECT
        # Managed ones are never dropped; do not scan them again at each event.
        self._gone_limit = max(self._gone_max, len(self._uids) * 11 // 10)
