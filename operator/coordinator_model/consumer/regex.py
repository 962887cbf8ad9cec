"""Subscriptions by regular expression: the coordinator resolves them, apart from the heartbeat that brought them.

The broker compiles with RE2, whose dialect `re2` translates. It resolves them in a background thread; here that is a
timer that is due at once.
Source: GroupMetadataManager.maybeUpdateRegularExpressions, handleRegularExpressionsResult; TopicRegexResolver.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum, auto

from ..base.epoch_group import write
from ..base.errors import ErrorCode, GroupError
from ..base.image import metadata_hash
from ..base.records import Record
from ..base.result import Step
from ..base.shard import Shard
from ..base.timers import TimerKey
from .group import ConsumerGroup, ResolvedRegex
from .member import Member
from .re2 import NotInRe2, compile_re2
from .records import group_record, regex_record

MIN_REFRESH_INTERVAL_MS = 10_000
"""The expressions of one group are not resolved more often than this (REGEX_BATCH_REFRESH_MIN_INTERVAL_MS)."""


class RegexChange(Enum):
    """What a member's change of its expression means for the group."""

    NONE = auto()
    UPDATED = auto()
    UPDATED_AND_RESOLVED = auto()


def change_regex(
    shard: Shard, step: Step, group: ConsumerGroup, old: Member, new: Member, records: list[Record]
) -> RegexChange:
    """Note a member's new expression, and have the group's expressions resolved where that is due.

    The group's epoch is bumped at once only for an expression that is already resolved, or given up; a new one bumps
    it when it has been resolved. Raises INVALID_REGULAR_EXPRESSION.
    """
    before, after = old.metadata.subscribed_topic_regex, new.metadata.subscribed_topic_regex
    counts = group.regex_counts
    change = RegexChange.NONE
    unresolved = False
    if before != after:
        change = RegexChange.UPDATED
        if before and counts[before] == 1:
            records.append(regex_record(group.group_id, before, None))
        if not after:
            change = RegexChange.UPDATED_AND_RESOLVED
        elif counts[after] == 0:
            compile_regex(after)
            unresolved = True
        elif after in group.regexes:
            change = RegexChange.UPDATED_AND_RESOLVED
    if unresolved or counts:
        _maybe_schedule(shard, step, group, before, after, unresolved)
    return change


def compile_regex(regex: str) -> re.Pattern[str]:
    """Return the compiled expression, or raise INVALID_REGULAR_EXPRESSION."""
    try:
        return compile_re2(regex)
    except NotInRe2 as error:
        message = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}."
        raise GroupError(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from None


def _maybe_schedule(shard: Shard, step: Step, group: ConsumerGroup, before: str, after: str, unresolved: bool) -> None:
    key = ("consumer-regex", group.group_id)
    if step.timers.deadline_ms(key) is not None:
        return
    refreshed_ms = next((resolved.timestamp_ms for resolved in group.regexes.values()), None)
    if refreshed_ms is not None and step.now_ms <= refreshed_ms + MIN_REFRESH_INTERVAL_MS:
        return
    wanted = group.regex_counts.copy()
    wanted[before] -= 1
    wanted[after] += 1
    subscribed = {regex for regex, count in wanted.items() if regex and count > 0}
    seen = group.regex_image.partitions if group.regex_image is not None else None
    due = (
        unresolved
        or len(subscribed) != len(group.regexes)
        or seen is None
        or any(name not in seen for name in shard.image.partitions)
        or (refreshed_ms is not None and step.now_ms > refreshed_ms + step.settings.consumer_regex_refresh_interval_ms)
    )
    if due and subscribed:
        step.arm(key, 0)


def resolve(shard: Shard, step: Step, key: TimerKey) -> None:
    """Resolve all expressions of a group; the group's epoch is bumped if one matches other topics than before."""
    group = shard.groups.get(key[1])
    if not isinstance(group, ConsumerGroup) or not group.regex_counts:
        return
    records: list[Record] = []
    names = {name for name, count in group.name_counts.items() if count > 0}
    changed = False
    for regex in sorted(group.regex_counts):
        matched = _matching(regex, shard.image.partitions)
        before = group.regexes[regex].topics if regex in group.regexes else ()
        changed = changed or matched != before
        names.update(matched)
        records.append(regex_record(group.group_id, regex, ResolvedRegex(matched, step.now_ms)))
    new_hash = metadata_hash(names, shard.image)
    if changed or new_hash != group.metadata_hash:
        records.append(group_record(group.group_id, group.group_epoch + 1, new_hash))
    write(shard, step, records)
    group.regex_image = shard.image


def _matching(regex: str, names: Iterable[str]) -> tuple[str, ...]:
    pattern = compile_regex(regex)
    return tuple(sorted(name for name in names if pattern.fullmatch(name)))
