"""What one line of a broker's log says about a group.

Why: the coordinator's wording differs between protocols and versions, and all of that is kept here. One idea: a table
of patterns, each of which must match a message from its first to its last character; the first that does, wins.
Source: the log messages of org.apache.kafka.coordinator.group.GroupMetadataManager and classic.ClassicGroup (Kafka 4.x)
and kafka.coordinator.group.GroupCoordinator (Kafka 3.9), in the layout of kafka/log4j2.properties.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum


class GroupEventKind(StrEnum):
    """What a coordinator reported."""

    REBALANCE_PREPARED = "RebalancePrepared"
    """Classic: the group left Stable (or Empty). `group_generation` is the old one, `reason` says why."""
    STABILIZED = "Stabilized"
    """Classic: all members joined the generation `group_generation`."""
    EMPTIED = "Emptied"
    """Classic: the last member went."""
    EPOCH_BUMPED = "EpochBumped"
    """KIP-848, KIP-1071: the group epoch became `group_epoch`."""
    MEMBER_JOINED = "MemberJoined"
    """A member that the group did not have before. Kafka 3.9 logs it of static members only."""
    STATIC_MEMBER_REPLACED = "StaticMemberReplaced"
    """A new process took over the instance id of `other_member_id`."""
    REBALANCE_SPARED = "RebalanceSpared"
    """Classic: the replacement just before was made without a rebalance."""
    TEMPORARILY_LEFT = "TemporarilyLeft"
    """KIP-848: a static member closed (epoch -2) and keeps its partitions."""
    LEFT = "Left"
    """A member closed for good by its own heartbeat (epoch -1)."""
    REMOVED = "Removed"
    """A LeaveGroup request took the member out, its own or an administrator's; `reason` is the client's text."""
    SESSION_EXPIRED = "SessionExpired"
    """No heartbeat within the session timeout."""
    REBALANCE_TIMED_OUT = "RebalanceTimedOut"
    """The member did not rejoin, or give up its partitions, in time. Classic lists several in `member_id`."""
    FENCED = "Fenced"
    """A request named an instance id that `other_member_id` holds. `reason` is the operation, where it is known."""
    JOIN_REFUSED = "JoinRefused"
    """KIP-848: a new process asked for an instance id that `other_member_id` still holds (error 111)."""
    GROUP_LOADED = "GroupLoaded"
    """A coordinator took the group over and read it from its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEvent:
    """One line of a coordinator; None where the line does not tell.

    Parameters
    ----------
    at_ms: the broker's wall clock, milliseconds since 1970.
    group_id: none only for FENCED of classic groups, whose line names no group, when neither member was seen before.
    """

    kind: GroupEventKind
    at_ms: int
    node_id: int
    group_id: str | None = None
    member_id: str | None = None
    other_member_id: str | None = None
    instance_id: str | None = None
    group_generation: int | None = None
    group_epoch: int | None = None
    member_count: int | None = None
    reason: str | None = None


_LINE = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})Z \w+ \[(?P<thread>.*?)\] (?P<logger>\S+) (?P<text>.*)"
)
_PREFIX = re.compile(r"\[GroupCoordinator [^\]]*\]:? ")
_LOGGERS = ("org.apache.kafka.coordinator.group.", "kafka.coordinator.group.")
_SPARED = re.compile(
    r"Static member which joins during Stable stage and doesn't affect .* will not trigger .*rebalance\."
)

# "Modern" messages start with the group; those of streams groups may name the member next (KIP-1071).
_MODERN = r"\[GroupId (?P<group_id>.+?)\](?:\[MemberId .+?\])? "
_KIND_OF_GROUP = r"the (?:consumer|share|streams) group"
_MEMBER = r"(?P<member_id>\S+)"
_INSTANCE = r"(?P<instance_id>\S+)"
_OTHER = r"(?P<other_member_id>\S+?)"
_OFFSETS = r"(?: \(__consumer_offsets-\d+\))?"  # Kafka 3.9 only

_K = GroupEventKind
_MESSAGES: tuple[tuple[GroupEventKind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        (_K.REBALANCE_PREPARED,
         r"Preparing to rebalance group (?P<group_id>.+?) in state \w+ with old generation (?P<group_generation>\d+)"
         + _OFFSETS + r" \(reason: (?P<reason>.*?)\)\.?"),
        (_K.STABILIZED, r"Stabilized group (?P<group_id>.+?) generation (?P<group_generation>\d+)" + _OFFSETS
         + r" with (?P<member_count>\d+) members\.?"),
        (_K.EMPTIED, rf"Group (?P<group_id>.+?) with generation (?P<group_generation>\d+) is now empty{_OFFSETS}\.?"),
        (_K.EPOCH_BUMPED, _MODERN + r"Bumped (?:streams )?group epoch to (?P<group_epoch>\d+)(?: with .*)?\."),
        (_K.STATIC_MEMBER_REPLACED,
         rf"Static member with groupInstanceId={_INSTANCE} and unknown member id joins group (?P<group_id>.+?) in "
         rf"\w+ state\. Replacing previously mapped member {_OTHER} with this groupInstanceId\."),
        (_K.STATIC_MEMBER_REPLACED,
         rf"{_MODERN}Static member with instance id {_INSTANCE} re-joins {_KIND_OF_GROUP} using the \w+ protocol\. "
         rf"Created a new member {_MEMBER} to replace the existing member {_OTHER}\."),
        (_K.MEMBER_JOINED,
         rf"Static member with groupInstanceId={_INSTANCE} and unknown member id joins group (?P<group_id>.+?) in "
         rf"\w+ state\. Created a new member id {_MEMBER} for this member and add(?:ed)? to the group\."),
        (_K.MEMBER_JOINED, rf"Pending dynamic member with id {_MEMBER} joins group (?P<group_id>.+?) in \w+ state\. "
         r"Adding to the group now\."),
        (_K.MEMBER_JOINED,
         rf"{_MODERN}(?:Static member {_MEMBER} with instance id {_INSTANCE}|Member (?P<dynamic_member_id>\S+)) "
         rf"joins {_KIND_OF_GROUP}(?: using the \w+ protocol)?\."),
        (_K.TEMPORARILY_LEFT,
         rf"{_MODERN}Static member {_MEMBER} with instance id {_INSTANCE} temporarily left {_KIND_OF_GROUP}\."),
        (_K.LEFT,
         rf"{_MODERN}(?:Static member {_MEMBER} with instance id {_INSTANCE}|Member (?P<dynamic_member_id>\S+)) "
         rf"left {_KIND_OF_GROUP}\."),
        (_K.REMOVED,
         rf"\[Group (?P<group_id>.+?)\] (?:Pending member|Member) {_MEMBER} has left group through explicit "
         r"`LeaveGroup` request; client reason: (?P<reason>.*)"),
        (_K.REMOVED, rf"\[GroupId (?P<group_id>.+?)\] (?:Static member {_MEMBER} with instance id {_INSTANCE}"
         r"|Dynamic member (?P<dynamic_member_id>\S+)) has left group through explicit `LeaveGroup` request; "
         r"client reason: (?P<reason>.*)"),
        (_K.REMOVED, r"Member MemberMetadata\(memberId=(?P<member_id>.+?), "
         r"groupInstanceId=(?:None|Some\((?P<instance_id>.+?)\)), .*?\) "
         r"has left group (?P<group_id>.+?) through explicit `LeaveGroup`; client reason: (?P<reason>.*)"),
        (_K.SESSION_EXPIRED, rf"Member {_MEMBER} in group (?P<group_id>.+) has failed, removing it from the group\.?"),
        (_K.SESSION_EXPIRED, rf"{_MODERN}(?:Streams member|Member) {_MEMBER} fenced from the group because "
         r"the member session expired\.+"),
        (_K.REBALANCE_TIMED_OUT,
         rf"{_MODERN}(?:Streams member|Member) {_MEMBER} fenced from the group because (?P<reason>.*)\."),
        (_K.REBALANCE_TIMED_OUT,
         rf"{_MODERN}Member {_MEMBER} fenced from the group because it (?P<reason>failed to transition .*)\."),
        (_K.REBALANCE_TIMED_OUT,
         r"Group (?P<group_id>.+) removed (?P<reason>(?:dynamic )?members who haven't .*?): (?P<member_id>.*)"),
        (_K.FENCED,
         r"Request memberId=(?P<member_id>.*?) for static member with groupInstanceId=(?P<instance_id>\S+) "
         r"is fenced by (?:existing|current) memberId=(?P<other_member_id>\S+) during operation (?P<reason>.*)"),
        (_K.FENCED,
         rf"{_MODERN}Static member {_MEMBER} with instance id {_INSTANCE} is fenced by existing member {_OTHER}\."),
        (_K.JOIN_REFUSED,
         rf"{_MODERN}Static member {_MEMBER} with instance id {_INSTANCE} cannot join the group because "
         rf"the instance id is owned by member {_OTHER}\."),
        (_K.GROUP_LOADED,
         r"Loaded (?:classic|consumer|share|streams) group (?P<group_id>.+) with (?P<member_count>\d+) members\."),
        (_K.GROUP_LOADED, r"Loading group metadata for (?P<group_id>.+) with generation (?P<group_generation>\d+)"),
    )
)  # fmt: skip
_TELLING = ("Preparing to rebalance", "Stabilized group", "Bumped", "session expired", "is fenced by", "has left group")
"""Words that only lines of interest hold. One that no pattern reads means that the wording changed in this version,
and a count of zero would be worth nothing."""
_NUMBERS = ("group_generation", "group_epoch", "member_count")


class LogParser:
    """Turn the lines of one broker into records, remembering what later lines refer to.

    Classic lines about fencing name no group, and those about removal no instance id: both are filled in from
    earlier lines about the same member, and stay None when there was none.
    """

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._replaced_on: dict[str, GroupEvent] = {}  # thread -> its latest static replacement
        self._known: dict[str, GroupEvent] = {}  # member id -> an event that names its group

    def parse(self, lines: Iterable[str]) -> Iterator[GroupEvent]:
        """Yield one record per line of interest, in order."""
        for line in lines:
            event = self._parse_line(line.rstrip("\n"))
            if event is not None:
                yield event

    def _parse_line(self, line: str) -> GroupEvent | None:
        parts = _LINE.fullmatch(line)
        if parts is None or not parts["logger"].startswith(_LOGGERS):
            return None
        text = _PREFIX.sub("", parts["text"], count=1)
        at_ms = int(datetime.fromisoformat(parts["at"] + "+00:00").timestamp() * 1000 + 0.5)
        if _SPARED.fullmatch(text):
            before = self._replaced_on.pop(parts["thread"], None)
            return replace(before, kind=_K.REBALANCE_SPARED, at_ms=at_ms) if before else None
        for kind, pattern in _MESSAGES:
            match = pattern.fullmatch(text)
            if match is not None:
                event = self._complete(self._event(kind, at_ms, match.groupdict()))
                self._remember(event, parts["thread"])
                return event
        if any(word in text for word in _TELLING):
            raise ValueError(f"the coordinator's wording is unknown: {text[:200]}")
        return None

    def _event(self, kind: GroupEventKind, at_ms: int, fields: dict[str, str | None]) -> GroupEvent:
        dynamic = fields.pop("dynamic_member_id", None)
        fields["member_id"] = fields.get("member_id") or dynamic
        numbers = {name: int(value) for name in _NUMBERS if (value := fields.pop(name, None)) is not None}
        return GroupEvent(
            kind=kind, at_ms=at_ms, node_id=self._node_id, group_id=fields.get("group_id"),
            member_id=fields["member_id"], other_member_id=fields.get("other_member_id"),
            instance_id=fields.get("instance_id"), reason=fields.get("reason"),
            group_generation=numbers.get("group_generation"), group_epoch=numbers.get("group_epoch"),
            member_count=numbers.get("member_count"),
        )  # fmt: skip

    def _complete(self, event: GroupEvent) -> GroupEvent:
        if event.group_id is None:
            ids = (event.other_member_id, event.member_id)
            groups = {self._known[each].group_id for each in ids if each in self._known}
            return replace(event, group_id=groups.pop()) if len(groups) == 1 else event
        known = self._known.get(event.member_id or "")
        if event.instance_id is None and known is not None:
            return replace(event, instance_id=known.instance_id)
        return event

    def _remember(self, event: GroupEvent, thread: str) -> None:
        if event.kind in (_K.MEMBER_JOINED, _K.STATIC_MEMBER_REPLACED):
            for member_id in (event.member_id, event.other_member_id):
                if member_id:
                    self._known[member_id] = event
        if event.kind is _K.STATIC_MEMBER_REPLACED:
            self._replaced_on[thread] = event
