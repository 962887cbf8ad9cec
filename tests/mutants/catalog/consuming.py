"""What members consume: topics that nobody reads, the one rebalance for them, and members that leave on closing."""

from __future__ import annotations

from .mutant import mutant
from .suites import CLOSES, TOPICS

UNREAD = tuple(
    mutant(name, "core/consuming.py", TOPICS, *changes)
    for name, *changes in (
        ("topics of a rebalancing group compared", ("or group.topics is None or", "or")),
        ("since when nobody reads a topic forgotten in a rebalance", ("unread=replace(before, rest_since_s=None)", "unread=None")),
        ("rest before a rebalance counted", ("replace(before, rest_since_s=None)", "before")),
        ("topics of a KIP-848 group remembered", ("if before is None or group.group_type is not GroupType.CLASSIC:", "if before is None:")),
        ("rebalance counted for other topics", ("        unread = replace(unread, topics=topics, since_s=now_s)\n", "        unread = UnreadTopics(topics=topics, since_s=now_s)\n")),
        ("group rebalanced in a roll", ("or workload.is_rolling or", "or")),
        ("group rebalanced before every pod is Ready", (" or workload.ready_replicas < workload.replicas:", ":")),
        ("group rebalanced beside members of others", ("(*table.foreign, *table.dynamic, *table.departed)", "(*table.departed,)")),
        ("group rebalanced beside a departed member", ("(*table.foreign, *table.dynamic, *table.departed)", "(*table.foreign, *table.dynamic)")),
        ("group rebalanced before every member joined", (" and all(s.standing is Standing.JOINED for s in table.wanted)", "")),
        ("group rebalanced at once", (" or now_s - unread.rest_since_s < SETTLED_S or", " or")),
        ("group rebalanced in mode Observe", ("spec.mode is not Mode.MANAGE or", "")),
        ("group rebalanced against the user's word", (" or spec.on_topic_change is not OnTopicChange.REBALANCE:", ":")),
        ("Kafka Streams rebalanced from outside", ("if group.assignor == STREAMS_ASSIGNOR:", "if False:")),
        ("group rebalanced again for the same topics", ("if set(unread.topics) <= set(unread.rebalanced_for):", "if False:")),
        ("group rebalanced again for some of the same topics", ("set(unread.topics) <= set(unread.rebalanced_for)", "set(unread.topics) == set(unread.rebalanced_for)")),
        ("rebalances without a pause", ("if unread.rebalanced_at_s is not None and now_s", "if False and now_s")),
        ("group without an assignor rebalanced", (" or not group.assignor:", ":")),
        ("rebalance not remembered", ("replace(unread, rebalanced_for=unread.topics, rebalanced_at_s=now_s)", "unread")),
        ("topic that cannot be described taken for an unread one", ("partitions.get(t, 0) > count", "partitions.get(t, 99) > count")),
        ("topic of which some partitions are read taken for a read one", ("partitions.get(t, 0) > count", "not count and partitions.get(t, 0)")),
        ("settled group taken for one that rebalances", ("if group.is_settled or not group.members:", "if not group.members:")),
        ("empty group taken for one that rebalances", ("if group.is_settled or not group.members:", "if group.is_settled:")),
        ("each round takes the rebalance for a new one", ("return now_s if before_s is None else before_s", "return now_s")),
    )
)

CLOSED = tuple(
    mutant(name, "core/consuming.py", CLOSES, *changes)
    for name, *changes in (
        ("member that was removed taken for one that left", (" or instance_id in removed or", " or")),
        ("member whose session ended taken for one that left", (" or not _is_early(pod, _session_s(pod, snapshot, group), now_s):", ":")),
        ("member replaced by its successor taken for one that left", ("        if now is not None:  # its", "        if False:  # its")),
        ("member that several pods may carry taken for one that left", ("if len(was.carriers) == 1 else None", "if was.carriers else None")),
        ("member of a pod that runs on taken for one that left", ("return pod.is_deleting and pod.runs", "return True")),
        ("member whose stopped pod was replaced before its end taken for one that left", ("return pod.is_deleting and pod.runs", "return pod.is_deleting")),
        ("member that stayed overlooked", ("found = None if has_stayed else found", "pass")),
        ("member of a running pod taken for one that stayed", ("bool(was.carriers) and not now.carriers", "True")),
        ("leaves on closing counted once", ("found.count + 1 if found is not None else 1", "1")),
        ("longest of several sessions believed", ("min(pod.session_timeouts_ms, default=0)", "max(pod.session_timeouts_ms, default=0)")),
        ("session of a KIP-848 group not known to be", ("(snapshot.bounds.of(group.group_type).group_ms or 0) / 1000", "0.0")),
        ("no margin before the end of a session", ("session_s - MARGIN_S", "session_s")),
    )
)
