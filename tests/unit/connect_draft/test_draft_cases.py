"""The three case studies of the Connect draft, as golden traces.

Written again with `python tests/unit/connect_draft/test_draft_cases.py --write`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.answers import answered, expect
from connect_draft.errors import DraftErrorCode
from connect_draft.messages import (
    ConnectGroupDescribeRequest,
    ConnectGroupDescribeResponse,
    ConnectGroupHeartbeatRequest,
)
from connect_draft.metadata import encode_worker_metadata
from connect_draft.records import (
    Assignor,
    ConnectorsTasksMetadata,
    CurrentMemberAssignment,
    DraftRecord,
    DraftRecordType,
    GroupMetadata,
    MemberMetadata,
    TargetAssignment,
    TargetMember,
)
from connect_draft.workers.assignors import ConnectAssignor, DeclarativeAssignor, TodaysAssignor
from connect_draft.workers.cluster import DraftCluster
from connect_draft.workers.worker import DraftWorker
from coordinator_model.connect.incremental import IncrementalCooperativeAssignor
from coordinator_model.connect.work import ClusterConfig, ConnectorsAndTasks, ConnectorTaskId

GOLDEN = Path(__file__).parents[2] / "conformance" / "golden"
GROUP = "connect-cluster"
CONFIG = ClusterConfig(1, {"A": 2, "B": 1})
"""AC0, AT1, AT2, BC0 and BT1: connectors are numbered 0 and tasks from 1 in the draft's pictures."""
DELAY_MS = 300_000


def labels(work: ConnectorsAndTasks) -> str:
    """Write work as the draft does."""
    items = sorted([*((c, 0) for c in work.connectors), *((t.connector, t.task + 1) for t in work.tasks)])
    return "[" + ", ".join(f"{name}{'T' if number else 'C'}{number}" for name, number in items) + "]"


def work_of(*names: str) -> ConnectorsAndTasks:
    """Read work as the draft writes it."""
    return ConnectorsAndTasks.of(
        (name[0] for name in names if name[1] == "C"),
        (ConnectorTaskId(name[0], int(name[2:]) - 1) for name in names if name[1] == "T"),
    )


class Story:
    """Drives a cluster and records each step with the group's state after it."""

    def __init__(self, title: str) -> None:
        self.cluster = DraftCluster()
        self.lines = [title, ""]

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def at(self) -> str:
        return f"{self.cluster.now_ms / 1000:7.1f} s  "

    def says(self, line: str) -> None:
        self.lines.append(self.at() + line)

    def start(self, member_id: str, assignor: ConnectAssignor | None = None) -> DraftWorker:
        assignor = assignor or DeclarativeAssignor(max_delay_ms=DELAY_MS)
        return self.cluster.start(DraftWorker(member_id, assignor, CONFIG))

    def heartbeat(self, member_id: str) -> None:
        worker = self.cluster.workers[member_id]
        before = len(worker.listener)
        sent_epoch = worker.epoch
        response = answered(self.cluster.heartbeat(member_id))
        reason = ", reason: delay over" if worker.ask_again_at_ms is None and self._gave_reason(member_id) else ""
        line = f"{member_id} heartbeat(epoch={sent_epoch}{reason}) -> "
        if response.error_code:
            line += response.error_code.name
        else:
            line += f"epoch={response.member_epoch}"
            if response.assignment is not None:
                line += f", assignment={labels(response.assignment.work)}"
        self.says(line)
        for call, work in worker.listener[before:]:
            self.says(f"{member_id} on{call.capitalize()}({labels(work)})")
        if worker.stopping:
            stopping = worker.stopping
            worker.stopped()
            self.says(f"{member_id} onRevoked({labels(stopping)})")

    def _gave_reason(self, member_id: str) -> bool:
        member = self.cluster.coordinator.groups[GROUP].members.get(member_id)
        return member is not None and member.assignors[0].reason != 0

    def compute(self, member_id: str) -> None:
        worker = self.cluster.workers[member_id]
        installed = answered(self.cluster.compute(member_id))
        assert not installed.error_code
        target = self.cluster.coordinator.groups[GROUP].target
        given = ", ".join(f"{m.member_id}={labels(m.work)}" for m in target.members)
        self.says(f"{member_id} prepare, install(epoch={target.assignment_epoch}): {given}")
        if worker.ask_again_at_ms is not None:
            self.says(f"{member_id} will ask again at {worker.ask_again_at_ms / 1000:.1f} s")

    def kill(self, member_id: str) -> None:
        self.cluster.kill(member_id)
        self.says(f"{member_id} becomes unresponsive")

    def advance(self, duration_ms: int, *heartbeating: str) -> None:
        """Let time pass, with quiet heartbeats of the named workers every 5 s."""
        end_ms = self.cluster.now_ms + duration_ms
        while self.cluster.now_ms < end_ms:
            self.cluster.advance(min(5_000, end_ms - self.cluster.now_ms))
            if self.cluster.now_ms < end_ms:
                for member_id in heartbeating:
                    response = answered(self.cluster.heartbeat(member_id))
                    assert not response.error_code

    def picture(self, title: str) -> None:
        described = expect(ConnectGroupDescribeResponse, self.cluster.send(ConnectGroupDescribeRequest(group_id=GROUP)))
        self.lines += ["", f"{title} ({described.group_state or 'no group'})"]
        if described.error_code:
            self.lines += ["  Group (epoch=0): empty", ""]
            return
        members = " ".join(m.member_id for m in described.members)
        self.lines.append(f"  Group (epoch={described.group_epoch}): {members}")
        self.lines.append(f"  Target Assignment (epoch={described.assignment_epoch})")
        for target in self.cluster.coordinator.groups[GROUP].target.members:
            gone = "" if any(m.member_id == target.member_id for m in described.members) else "  (has left)"
            self.lines.append(f"    {target.member_id} {labels(target.work)}{gone}")
        if described.held_back:
            self.lines.append(f"    held back {labels(described.held_back)}")
        self.lines.append("  Member Assignment")
        for member in described.members:
            stop = f", must stop {labels(member.revoking)}" if member.revoking else ""
            self.lines.append(f"    {member.member_id} epoch={member.member_epoch}, {labels(member.assigned)}{stop}")
        self.lines.append("")


def at_epoch_35(story: Story, assignor: Callable[[], ConnectAssignor]) -> None:
    """The draft's starting point of the second and third study: three workers at epoch 35, W3 assigned last."""
    owned = {"W1": work_of("AC0", "AT1"), "W2": work_of("BC0", "BT1"), "W3": work_of("AT2")}
    records = [
        DraftRecord(
            DraftRecordType.CONNECTORS_TASKS_METADATA, (GROUP,), ConnectorsTasksMetadata(35, CONFIG.configured(), 1)
        )
    ]
    for member_id, work in owned.items():
        metadata = encode_worker_metadata(f"http://{member_id}:8083/", CONFIG)
        offered = (Assignor("cooperative", 1, 2, 0, 2, metadata),)
        member = MemberMetadata(35, None, member_id, "/127.0.0.1", 60_000, offered)
        current = CurrentMemberAssignment(35, 34, 0, work)
        records += [
            DraftRecord(DraftRecordType.MEMBER_METADATA, (GROUP, member_id), member),
            DraftRecord(DraftRecordType.CURRENT_MEMBER_ASSIGNMENT, (GROUP, member_id), current),
        ]
    members = tuple(TargetMember(member_id, 0, work) for member_id, work in owned.items())
    records += [
        DraftRecord(DraftRecordType.TARGET_ASSIGNMENT, (GROUP,), TargetAssignment(35, 0, members)),
        DraftRecord(DraftRecordType.GROUP_METADATA, (GROUP,), GroupMetadata(35, "W3")),
    ]
    story.cluster.log += records
    story.cluster.fail_over()
    for member_id, work in owned.items():
        worker = story.start(member_id, assignor())
        worker.epoch, worker.owned = 35, work


def w2_is_kicked_out(story: Story) -> None:
    """Both later studies begin alike: W2 silent, its session over, W3 installs the same assignment again."""
    story.picture("Initial state")
    story.kill("W2")
    story.advance(45_000, "W1", "W3")
    story.picture("W2 is kicked out after the session timeout")
    story.heartbeat("W3")
    story.compute("W3")
    story.picture("W3 changes nothing, to give W2 a chance to come back")
    story.heartbeat("W1")
    story.heartbeat("W3")
    story.picture("W1 and W3 are at epoch 36 with what they had")


def first_worker_then_second() -> str:
    """Item 86."""
    story = Story("Case study 1: W1 joins an empty group, then W2")
    story.picture("Empty group")
    story.start("W1")
    story.heartbeat("W1")
    story.picture("W1 joined")
    story.heartbeat("W1")
    story.compute("W1")
    story.picture("W1 computed and installed")
    story.heartbeat("W1")
    story.picture("W1 moved to its target")
    story.start("W2")
    story.heartbeat("W2")
    story.picture("W2 joined")
    story.heartbeat("W1")
    story.compute("W1")
    story.heartbeat("W2")
    story.picture("W2 can't have BC0 and BT1 before W1 lets them go")
    story.heartbeat("W1")
    story.heartbeat("W2")
    story.picture("W1 stops them and has not said so yet")
    story.heartbeat("W1")
    story.picture("W1 acknowledged")
    story.heartbeat("W2")
    story.picture("W2 has its work")
    return story.text()


def worker_leaves() -> str:
    """Item 87."""
    story = Story("Case study 2: W2 leaves for good")
    at_epoch_35(story, lambda: DeclarativeAssignor(max_delay_ms=DELAY_MS))
    w2_is_kicked_out(story)
    story.advance(DELAY_MS, "W1", "W3")
    story.heartbeat("W3")
    story.compute("W3")
    story.picture("The delay is over, W3 gave a reason, computed and installed")
    story.heartbeat("W1")
    story.heartbeat("W3")
    story.picture("All runs again")
    return story.text()


def _bounce(story: Story) -> None:
    story.advance(60_000, "W1", "W3")
    back = story.start("W2", story.cluster.workers["W3"].assignor.__class__())
    back.epoch = 35
    response = story.cluster.send(ConnectGroupHeartbeatRequest(group_id=GROUP, member_id="W2", member_epoch=35))
    story.says(f"W2 heartbeat(epoch=35) -> {response.error_code.name}")
    back.epoch = 0
    story.heartbeat("W2")
    story.picture("W2 is back, as a new member: a removed one can't go on at epoch 35")
    story.heartbeat("W3")
    story.compute("W3")
    for member_id in ("W1", "W2", "W3"):
        story.heartbeat(member_id)


def worker_bounces_as_drafted() -> str:
    """Item 88, as the draft tells it."""
    story = Story("Case study 3: W2 bounces; as drafted it gets its work back at once")
    at_epoch_35(story, lambda: DeclarativeAssignor(max_delay_ms=DELAY_MS))
    w2_is_kicked_out(story)
    _bounce(story)
    story.picture("Epoch 37 with the original owners, before the delay is over")
    return story.text()


def worker_bounces_as_today() -> str:
    """Item 88, with today's assignor."""
    story = Story("Case study 3: W2 bounces; with today's assignor its work waits for the end of the delay")
    at_epoch_35(story, lambda: TodaysAssignor(inner=IncrementalCooperativeAssignor(DELAY_MS)))
    w2_is_kicked_out(story)
    _bounce(story)
    story.picture("Epoch 37: W2 is there and has nothing")
    story.advance(DELAY_MS - 60_000, "W1", "W2", "W3")
    story.heartbeat("W3")
    story.compute("W3")
    for member_id in ("W1", "W2", "W3"):
        story.heartbeat(member_id)
    story.picture("The delay is over: the empty W2 is the candidate for what was lost")
    return story.text()


STORIES = {
    "connect_join": first_worker_then_second, "connect_leave": worker_leaves,
    "connect_bounce_draft": worker_bounces_as_drafted, "connect_bounce_today": worker_bounces_as_today,
}


@pytest.mark.parametrize("name", STORIES)
def test_case_study(name: str) -> None:
    """Items 86, 87, 88: the trace is exactly the one written down."""
    assert STORIES[name]() == (GOLDEN / f"{name}.txt").read_text()


def final(story: str) -> str:
    """The last picture of a trace."""
    return story[story.rindex("Member Assignment") :]


def test_case_studies_end_as_the_draft_says() -> None:
    """The draft's own final pictures, independent of the files (its BC1 in the second is BT1)."""
    join, leave, bounce = (STORIES[n]() for n in ("connect_join", "connect_leave", "connect_bounce_draft"))
    assert "W1 epoch=2, [AC0, AT1, AT2]" in final(join)
    assert "W2 epoch=2, [BC0, BT1]" in final(join)
    assert "W1 epoch=37, [AC0, AT1, BC0]" in final(leave)
    assert "W3 epoch=37, [AT2, BT1]" in final(leave)
    assert "W2 epoch=37, [BC0, BT1]" in final(bounce)
    assert "W1 epoch=37, [AC0, AT1]" in final(bounce)
    assert "W3 epoch=37, [AT2]" in final(bounce)
    assert DraftErrorCode.COMPUTE_ASSIGNMENT.name in join


def test_todays_assignor_would_end_the_case_studies_otherwise() -> None:
    """Items 86, 87: connectors and tasks balanced apart, the first of a list moved, as the real assignor does."""
    cluster = DraftCluster()
    for member_id in ("W1", "W2"):
        cluster.start(DraftWorker(member_id, TodaysAssignor(), CONFIG))
        cluster.settle()
    assert {m: labels(w) for m, w in cluster.running().items()} == {"W1": "[AT2, BC0, BT1]", "W2": "[AC0, AT1]"}
    story = Story("")
    at_epoch_35(story, lambda: TodaysAssignor(inner=IncrementalCooperativeAssignor(0)))
    story.kill("W2")
    story.advance(45_000, "W1", "W3")
    story.cluster.settle()
    running = {m: labels(w) for m, w in story.cluster.running().items()}
    assert running == {"W1": "[AC0, AT1, BT1]", "W3": "[AT2, BC0]"}


def test_bounce_with_todays_assignor_waits() -> None:
    """Item 88, the other mode: the same end, but one epoch and the rest of the delay later (row K06)."""
    today = worker_bounces_as_today()
    assert "W2 epoch=37, []" in today
    assert "W2 epoch=38, [BC0, BT1]" in final(today)


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    for name, story in STORIES.items():
        (GOLDEN / f"{name}.txt").write_text(story())
