"""Kafka Streams: what its clients append, in which groups its pods may be, and by which call a thread leaves."""

from __future__ import annotations

from .mutant import mutant
from .suites import APPLICATIONS, LEAVES_ALONE, RELEASES, THREADS, VERIFICATION

THREADS_THAT_LEAVE = tuple(
    mutant(name, path, LEAVES_ALONE, *changes)
    for path, name, *changes in (
        ("kafka/calls/leaving.py", "leave of a thread that shuts its application down", ("shutdown_application=False", "shutdown_application=True")),
        (
            "kafka/calls/leaving.py",
            "leave of a thread by its member id alone",
            ("            instance_id=entry.instance_id,\n            endpoint_information_epoch=-1,\n", "            endpoint_information_epoch=-1,\n"),
        ),
        (
            "kafka/calls/leaving.py",
            "thread that is to be removed only leaves for a while",
            ("    return _leaving(Api.STREAMS_GROUP_HEARTBEAT, group_id, entry, LEAVE_EPOCH)\n",
             "    return _leaving(Api.STREAMS_GROUP_HEARTBEAT, group_id, entry, STATIC_MEMBER_AWAY_EPOCH)\n"),
        ),
        (
            "kafka/calls/leaving.py",
            "crashed thread removed instead of released",
            ("    return _leaving(_HEARTBEATS[by], group_id, entry, STATIC_MEMBER_AWAY_EPOCH)\n",
             "    return _leaving(_HEARTBEATS[by], group_id, entry, LEAVE_EPOCH)\n"),
        ),
        ("kafka/calls/leaving.py", "member let leave for a while by a call that removes", ("    if by not in _HEARTBEATS:\n", "    if False:\n")),
        (
            "kafka/leaves.py",
            "leave of a thread whose answer was lost tried again blindly",
            ("            return retry if refusal.sent else refusal\n", "            return refusal\n"),
        ),
        ("kafka/leaves.py", "leave of a thread of unknown fate taken for a refusal", ("        if code in ACTED_MAYBE:\n            return retry\n", "")),
        ("kafka/leaves.py", "threads that have left asked to leave again", ("    if len(refusals) == len(answers):\n", "    if refusals:\n")),
        ("kafka/leaves.py", "answer given to another thread", ("[task.result() for task in asked]", "[task.result() for task in reversed(asked)]")),
        (
            "kafka/leaves.py",
            "thread that another process holds taken for removed",
            ("        meanings, retry = STREAMS_LEAVE_OUTCOMES, ", "        meanings, retry = dict.fromkeys(STREAMS_LEAVE_OUTCOMES, LeaveOutcome.REMOVED), "),
        ),
        ("kafka/leaves.py", "leave of nobody", ("    if not entries:\n", "    if False:\n")),
    )
)

ROLE_OF_STREAMS = (
    *(
        mutant(name, path, THREADS, *changes)
        for path, name, *changes in (
            ("api/injection.py", "threads of Kafka Streams numbered from 0", ("first = 1 if client.type is ClientType.KAFKA_STREAMS else 0\n", "first = 0\n")),
            ("api/resources/client.py", "Kafka Streams expected to append nothing", ("frozenset({ClientType.SPRING_BOOT, ClientType.KAFKA_STREAMS})", "frozenset({ClientType.SPRING_BOOT})")),
            (
                "api/resources/staticgroup.py",
                "Kafka Streams taken for consumers",
                ("speaks_streams = self.client.type is ClientType.KAFKA_STREAMS or ", "speaks_streams = "),
            ),
            ("core/guards.py", "member removed from a group that its role cannot be in", (" or not role_of(c.spec).may_be_in(c.group):", ":")),
            (
                "core/protocols.py",
                "type of a group not asked",
                ("        is_of_type = not group.members or group.group_type in self.group_types\n", "        is_of_type = True\n"),
            ),
            ("core/protocols.py", "session timeout injected for Streams", ('    group_setting="streams.session.timeout.ms",\n', "")),
            (
                "core/protocols.py",
                "threads removed by a call that does not serve their group",
                ("    leaves_by=LeaveCall.STREAMS_HEARTBEAT,\n", "    leaves_by=LeaveCall.LEAVE_GROUP,\n"),
            ),
            ("core/ids/suffixes.py", "remedy that the API server refuses", ("    if client.type is ClientType.KAFKA_STREAMS", "    if False and client.type is ClientType.KAFKA_STREAMS")),
        )
    ),
    mutant(
        "own ids of a streams group taken for those of consumers",
        "api/resources/staticgroup.py",
        VERIFICATION,
        (" or self.group_protocol is ProtocolChoice.STREAMS\n", "\n"),
    ),
    mutant(
        "ghost of a group that its role cannot be in released",
        "core/releases.py",
        RELEASES,
        (" or not role_of(spec).may_be_in(group):\n", ":\n"),
    ),
    mutant("call of a removal not handed on", "runtime/executor.py", APPLICATIONS, ("[r.entry for r in action.removals], action.by)", "[r.entry for r in action.removals])")),
    mutant("call of a release not handed on", "runtime/executor.py", APPLICATIONS, ("release.entry, release.by)", "release.entry)")),
)
