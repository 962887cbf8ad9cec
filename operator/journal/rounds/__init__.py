"""What one round shows: facts, from what is remembered of the rounds before, the snapshot, the plan and its outcomes.

Two kinds of facts need different care. A *state* (a member is departed, a removal is held or acknowledged) is
recorded once while it lasts; recorded again after a restart it has the same id, so readers drop the copy. A *change*
(another holder, a rebalance, another size) exists only between two rounds: its bounds are the beginning of the round
that still saw the former state and the end of the one that saw the new. An id is built from what the world numbers
itself: pod UIDs, member ids, group epochs, generations; only where it numbers nothing, from the time of the round.
"""

from __future__ import annotations

from staticgroup.core.group import GroupView

from .pods import record_runs
from .rebalances import record_group
from .recorder import Fact, Recorder, Remembered
from .states import record_releases, record_states
from .workload import record_timeout, record_workload

__all__ = ["Fact", "Recorder", "Remembered", "record_round"]


def record_round(recorder: Recorder) -> None:
    """Record what one round shows."""
    record_runs(recorder)
    group = recorder.snapshot.group
    if isinstance(group, GroupView):
        record_group(recorder, group)
        record_states(recorder, group)
        record_releases(recorder)
    record_workload(recorder)
    record_timeout(recorder)
