"""Random histories of one consumer group, with members of both protocols, bounces, crashes, removals and fail-overs."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from conformance.answers import expect
from conformance.consumer_bench import GROUP, ConsumerBench, protocols
from coordinator_model.assignors.subscription import decode_assignment, to_pairs, to_topic_partitions
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import TopicPartitions
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.consumer.group import ConsumerGroup
from coordinator_model.consumer.member import Partition

INSTANCES = [None, "x", "y", "z"]
ACTIONS = ["join", "beat", "beat", "beat", "leave", "away", "crash", "classic", "remove", "tick", "fail over", "topics"]
HISTORIES = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 5)), min_size=5, max_size=45)


@dataclass
class Consumer:
    """A client that follows its assignments: it takes what they add and gives up what they remove."""

    member_id: str
    instance_id: str | None
    epoch: int = 0
    classic: bool = False
    owns: set[Partition] = field(default_factory=set)

    @property
    def owned(self) -> TopicPartitions:
        return to_topic_partitions(self.owns)


class Player:
    """Carries a history out and checks the promises after every step."""

    def __init__(self) -> None:
        self.bench = ConsumerBench(BrokerSettings(group_initial_rebalance_delay_ms=0))
        self.live: list[Consumer] = []
        self.serial = 0
        self.downgraded = False
        self.checks = 0

    def play(self, action: str, which: int) -> None:
        consumer = self.live[which % len(self.live)] if self.live else None
        group = self.bench.coordinator.groups.get(GROUP)
        if action == "join":
            self.join(INSTANCES[which % 4])
        elif action == "classic" and isinstance(group, ConsumerGroup) and group.members:
            self.join_classic(INSTANCES[1 + which % 3])
        elif action == "tick":
            self.bench.advance(which * 4_000)
        elif action == "fail over":
            self.bench.fail_over()
        elif action == "topics":
            self.bench.coordinator.image = self.bench.image.with_topic("foo", 1 + which)
        elif consumer is not None and action == "beat":
            self.beat(consumer)
        elif consumer is not None:
            self.depart(action, consumer)
        self.check()

    def join(self, instance_id: str | None) -> None:
        self.serial += 1
        consumer = Consumer(f"m{self.serial}", instance_id)
        answer = self.bench.join(consumer.member_id, instance_id)
        if answer.error_code is ErrorCode.NONE:
            self.live = [c for c in self.live if instance_id is None or c.instance_id != instance_id]
            consumer.epoch = answer.member_epoch
            consumer.owns = set(to_pairs(answer.assignment or ()))
            self.live.append(consumer)

    def join_classic(self, instance_id: str | None) -> None:
        answer = self.bench.join_classic("", instance_id, rebalance_timeout_ms=60_000)
        if answer is None or answer.error_code is not ErrorCode.NONE:
            return
        self.live = [c for c in self.live if c.instance_id != instance_id]
        consumer = Consumer(answer.member_id, instance_id, answer.generation_id, classic=True)
        self.live.append(consumer)
        self.sync(consumer)

    def sync(self, consumer: Consumer) -> None:
        answer = self.bench.sync_classic(consumer.member_id, consumer.epoch, consumer.instance_id)
        if answer is not None and answer.error_code is ErrorCode.NONE:
            consumer.owns = set(to_pairs(decode_assignment(answer.assignment).partitions))

    def beat(self, consumer: Consumer) -> None:
        if consumer.classic:
            error = self.bench.beat_classic(consumer.member_id, consumer.epoch, consumer.instance_id)
            if error is ErrorCode.REBALANCE_IN_PROGRESS:
                offers = protocols("foo", "bar", owned=consumer.owned)
                joined = self.bench.join_classic(
                    consumer.member_id, consumer.instance_id, offers=offers, rebalance_timeout_ms=60_000
                )
                if joined is not None and joined.error_code is ErrorCode.NONE:
                    consumer.epoch = joined.generation_id
                    self.sync(consumer)
            elif error is not ErrorCode.NONE:
                self.live.remove(consumer)
            return
        answer = self.bench.beat(consumer.member_id, consumer.epoch, consumer.instance_id, consumer.owned)
        if answer.error_code is not ErrorCode.NONE:
            self.live.remove(consumer)
            return
        consumer.epoch = answer.member_epoch
        if answer.assignment is not None:
            consumer.owns = set(to_pairs(answer.assignment))

    def depart(self, action: str, consumer: Consumer) -> None:
        self.live.remove(consumer)
        if action == "remove" or consumer.classic:
            if action != "crash":
                self.bench.leave((consumer.member_id, consumer.instance_id))
        elif action == "leave":
            self.bench.beat(consumer.member_id, -1, consumer.instance_id)
        elif action == "away" and consumer.instance_id is not None:
            self.bench.beat(consumer.member_id, -2, consumer.instance_id)

    def check(self) -> None:
        group = self.bench.coordinator.groups.get(GROUP)
        if not isinstance(group, ConsumerGroup):
            self.downgraded = self.downgraded or group is not None
            return
        self.checks += 1
        self.no_partition_is_shared(group)
        assert group.assignment_epoch <= group.group_epoch
        assert set(group.targets) <= set(group.members)
        statics = {m.instance_id: m.member_id for m in group.members.values() if m.instance_id is not None}
        assert group.static_members == statics
        assert self.persisted(self.bench) == self.persisted(self.reloaded())

    def no_partition_is_shared(self, group: ConsumerGroup) -> None:
        held = [p for m in group.members.values() for p in (*m.current.assigned, *m.current.pending_revocation)]
        assert len(held) == len(set(held)), "held twice"
        assert group.owner_epochs.keys() == set(held)
        if self.downgraded:
            return  # A member may then use more than the group knows: see test_migration, "to and fro".
        used = [p for c in self.live if c.member_id in group.members for p in c.owns]
        assert len(used) == len(set(used)), "used twice"

    def reloaded(self) -> ConsumerBench:
        other = ConsumerBench(self.bench.settings, self.bench.coordinator.image)
        other.coordinator.replay(self.bench.log, self.bench.now_ms)
        return other

    @staticmethod
    def persisted(bench: ConsumerBench) -> object:
        group = expect(ConsumerGroup, bench.coordinator.groups[GROUP])
        counts = (group.name_counts, group.regex_counts, group.assignor_counts, group.classic_protocol_counts)
        epochs = (group.group_epoch, group.assignment_epoch, group.assignment_timestamp_ms, group.metadata_hash)
        return group.members, group.static_members, group.targets, group.owner_epochs, counts, epochs, group.state


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(HISTORIES)
def test_no_partition_twice_and_the_log_is_the_state(history: list[tuple[str, int]]) -> None:
    """KIP-848: at no step does a partition belong to two members, nor, before a downgrade, do two clients use it.

    A coordinator loaded from the log at any step has the same group.
    """
    player = Player()
    for action, which in history:
        player.play(action, which)
    assume(player.checks)  # a history without a join shows nothing; too many of them are an error


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(HISTORIES)
def test_live_members_become_stable_with_everything_assigned(history: list[tuple[str, int]]) -> None:
    """KIP-848: without joins and leaves, heartbeats alone lead to a stable group that has all partitions."""
    player = Player()
    for action, which in history:
        player.play(action, which)
    # A dynamic member of the consumer protocol is never refused, and its heartbeats refresh the topics; those of
    # classic members do not, and a crashed static member keeps its id until its session expires.
    player.join(None)
    for _ in range(14):
        for consumer in list(player.live):
            player.beat(consumer)
        player.bench.advance(4_000)
    for _ in range(4):
        for consumer in list(player.live):
            player.beat(consumer)
    group = player.bench.coordinator.groups[GROUP]
    assume(isinstance(group, ConsumerGroup))  # a downgraded group has no partitions of its own
    assert player.live
    assert group.state == "Stable"
    topics = player.bench.coordinator.image.partitions
    assert group.owner_epochs.keys() == {(t, p) for t in ("foo", "bar") for p in range(topics[t])}
    assert set(group.members) == {c.member_id for c in player.live}
