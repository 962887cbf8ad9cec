"""Whether the members consume what they subscribe, and what is done where they do not."""

from __future__ import annotations

from typing import Final

from ...api.reasons import ConditionStatus, ConditionType, Reason
from ...api.resources.staticgroup import StaticGroupSpec
from ..group import GroupType, GroupView
from ..plan import Plan
from ..snapshot import Snapshot
from ..topics import SETTLED_S, RebalanceGuard
from . import Finding, counted
from .workload import why_unknown

_CONSUMING: Final = ConditionType.CONSUMING
NAMED_MAX: Final = 3
_ONCE: Final = "until it is done, members with an eager assignor stand still"
_WHAT_FOLLOWS: Final = {
    None: "The group is rebalanced once now.",
    RebalanceGuard.NOT_AT_REST: (
        f"The group is rebalanced once, as soon as every pod is Ready, every member joined and the group has been at "
        f"rest for {SETTLED_S:.0f} s; {_ONCE}. To prevent it set spec.onTopicChange to Report."
    ),
    RebalanceGuard.NOT_ASKED_FOR: (
        "Restart all pods at once, or set spec.mode to Manage and spec.onTopicChange to Rebalance, and the operator "
        "rebalances the group once."
    ),
    RebalanceGuard.DONE_BEFORE: (
        "The group was rebalanced once for it, and that changed nothing: read what the members log about these topics."
    ),
    RebalanceGuard.DONE_LATELY: (
        "The group was rebalanced for other topics lately; it is rebalanced once more in half an hour."
    ),
    RebalanceGuard.KAFKA_STREAMS: (
        "Restart all instances at once: a running Kafka Streams application cannot be rebalanced from outside."
    ),
}


def consuming(spec: StaticGroupSpec, snapshot: Snapshot, plan: Plan) -> Finding:
    """Say whether every topic that is subscribed has its readers."""
    group, unread = snapshot.group, plan.topics.unread
    if plan.table is None or not isinstance(group, GroupView):
        sentence = why_unknown(snapshot, plan) or "The members cannot be listed: see the conditions above."
        return Finding(
            kind=_CONSUMING, reason=Reason.NOT_OBSERVED_YET, status=ConditionStatus.UNKNOWN, sentence=sentence
        )
    if unread is None:
        sentence = "Every partition of the topics that members subscribe is assigned."
        if group.group_type is GroupType.CLASSIC and (group.topics is None or snapshot.partitions is None):
            sentence = "No topic is known to be unread."
        return Finding(
            kind=_CONSUMING, reason=Reason.ALL_TOPICS_READ, status=ConditionStatus.TRUE, sentence=sentence
        )
    named = ", ".join(unread.topics[:NAMED_MAX]) + (" …" if len(unread.topics) > NAMED_MAX else "")
    held_by = plan.topics.held_by
    return Finding(
        kind=_CONSUMING,
        reason=Reason.TOPICS_UNREAD,
        sentence=f"{counted(len(unread.topics), 'topic has', 'topics have')} partitions that nobody reads: {named}. "
        "Static members that restart with another subscription cause no rebalance.",
        remedy=_WHAT_FOLLOWS[held_by],
        is_transient=held_by in (None, RebalanceGuard.NOT_AT_REST, RebalanceGuard.DONE_LATELY),
    )
