"""Never remove a live member: random histories of pods, processes, brokers and operators, with the truth as the oracle.

The machine knows what the operator cannot: which process lives, and which one joined as which member. Whatever the
order of force deletes, silent deaths, zombie rejoins, watch lag, gaps, fail-overs and restarts, every member that is
removed must belong to a process that is dead (S1). The rules are those of the exhaustive model of one ordinal, on the
real reconciler, plan, chain and memory.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from staticgroup.core.group import LeaveOutcome

from .operator_world import OperatorWorld

ORDINALS = 3
ends = st.sampled_from(["graceful", "graceful", "forced", "not yet"])


@dataclass
class Process:
    """One container process, alive or not, whatever became of its pod object."""

    uid: str
    ordinal: int
    is_alive: bool = True


class Evictions(RuleBasedStateMachine):
    """One StaticGroup; what happens to it and to the operator is drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.world = OperatorWorld()
        self.processes: list[Process] = []
        self.of_member: dict[str, Process] = {}
        self.judged = 0
        self.born = 0

    @initialize()
    def ids_are_issued(self) -> None:
        asyncio.run(self.world.round())
        for ordinal in range(2):
            self.pod_starts(ordinal)
            self.process_joins(ordinal)

    # users and controllers

    @rule(is_seen=st.booleans(), joins=st.booleans())
    def user_scales_up(self, is_seen: bool, joins: bool) -> None:
        self.world.scale(ORDINALS, in_store=is_seen)
        for ordinal in range(ORDINALS):
            self.pod_starts(ordinal)
        for place, process in enumerate(self.processes):
            if joins and self.world.id_of(process.ordinal) not in self.world.kafka.members:
                self.process_joins(place)

    @rule(replicas=st.integers(0, ORDINALS - 1), ends=st.lists(ends, min_size=ORDINALS, max_size=ORDINALS))
    def user_scales_down(self, replicas: int, ends: list[str]) -> None:
        """Each departing pod ends in its own way, as StatefulSet controller, kubelets and people have it."""
        self.world.scale(replicas)
        for ordinal in range(replicas, ORDINALS):
            if ends[ordinal] == "graceful":
                self.pod_ends_gracefully(ordinal)
            if ends[ordinal] != "not yet":
                self.object_is_deleted(ordinal)

    @rule(ordinal=st.integers(0, ORDINALS - 1))
    def pod_starts(self, ordinal: int) -> None:
        workload = self.world.kube.workloads["shop", "web"]
        if ("shop", f"web-{ordinal}") in self.world.kube.pods or not workload.wants(ordinal):
            return
        self.born += 1
        process = Process(f"uid-{self.born}", ordinal)
        self.processes.append(process)
        self.world.start(ordinal, process.uid, joins=False)

    @rule(ordinal=st.integers(0, ORDINALS - 1))
    def pod_ends_gracefully(self, ordinal: int) -> None:
        present = self.world.kube.pods.get(("shop", f"web-{ordinal}"))
        for process in self.processes:
            if present is not None and process.uid == present.uid and present.phase not in ("Succeeded", "Failed"):
                process.is_alive = False
                self.world.end(ordinal, process.uid, gone=False)

    @rule(ordinal=st.integers(0, ORDINALS - 1))
    def object_is_deleted(self, ordinal: int) -> None:
        """The end of a graceful deletion; or a force delete, and the process lives on."""
        if ("shop", f"web-{ordinal}") in self.world.kube.pods:
            self.world.remove_object(ordinal)

    @rule(place=st.integers(0, 30))
    def process_dies_unseen(self, place: int) -> None:
        if place < len(self.processes):
            self.processes[place].is_alive = False

    # members

    @rule(place=st.integers(0, 30))
    def process_joins(self, place: int) -> None:
        """Any living process may join again at any time, also one whose pod object is long gone."""
        if place < len(self.processes) and self.processes[place].is_alive:
            process = self.processes[place]
            member_id = self.world.kafka.join(self.world.id_of(process.ordinal))
            self.of_member[member_id] = process

    @rule()
    def sessions_of_the_dead_expire(self) -> None:
        members = self.world.kafka.members
        for instance_id, member_id in list(members.items()):
            if not self.of_member[member_id].is_alive:
                del members[instance_id]
        self.world.kafka.store()

    @rule(number=st.integers(1, 3))
    def coordinator_fails_over(self, number: int) -> None:
        self.world.kafka.fail_over(f"{number}@10.0.0.{number}:9092")

    @rule()
    def generation_is_stored(self) -> None:
        self.world.kafka.store()

    # the operator

    @rule(is_lagging=st.booleans())
    def watch_lags_or_not(self, is_lagging: bool) -> None:
        self.world.pods.is_lagging = is_lagging
        if not is_lagging:
            self.world.pods.deliver()

    @precondition(lambda self: self.born > 6)
    @rule()
    def watch_has_a_gap(self) -> None:
        self.born += 1
        kube = self.world.kube
        self.world.pods.lose(kube.pods.values(), kube.resource_version, f"epoch-{self.born}")

    @rule()
    def operator_restarts(self) -> None:
        self.world.restart()

    @rule(seconds=st.sampled_from([1, 3, 70]))
    def time_passes(self, seconds: int) -> None:
        self.world.now_s += seconds

    @rule(rejoining=st.integers(0, 30), at=st.sampled_from(["leave", "read_pod", "barrier"]))
    def operator_looks_while_a_process_joins(self, rejoining: int, at: str) -> None:
        fake = {"leave": self.world.kafka, "read_pod": self.world.kube, "barrier": self.world.pods}[at]
        fake.before[at] = lambda: self.process_joins(rejoining)
        self.operator_looks()
        fake.before.clear()

    @rule()
    def operator_looks(self) -> None:
        asyncio.run(self.world.round())

    @rule(replicas=st.integers(0, ORDINALS - 1))
    def departure_is_seen_to_its_end(self, replicas: int) -> None:
        """The ordinary course, so that what comes later meets operators that have acted before."""
        self.user_scales_down(replicas, ["graceful"] * ORDINALS)
        self.operator_looks()
        self.operator_looks()

    @rule()
    def pod_is_replaced_unseen_and_forced_away_while_the_operator_looks(self) -> None:
        """The attack on the order: a new pod comes and goes between two events of a watch that lags."""
        self.world.pods.is_lagging = False
        self.world.pods.deliver()
        self.user_scales_down(0, ["graceful"] * ORDINALS)
        self.world.pods.is_lagging = True
        self.user_scales_up(is_seen=True, joins=False)
        for place in range(len(self.processes)):
            self.process_joins(place)
        self.user_scales_down(0, ["forced"] * ORDINALS)
        self.operator_looks()

    @invariant()
    def no_live_member_was_removed(self) -> None:
        leaves = self.world.kafka.leaves
        for entry, outcome in leaves[self.judged :]:
            assert entry.member_id
            assert entry.instance_id
            if outcome is LeaveOutcome.REMOVED:
                process = self.of_member[entry.member_id]
                assert not process.is_alive, f"{entry} was removed, but process {process.uid} lives"
        self.judged = len(leaves)


TestEvictions = Evictions.TestCase
TestEvictions.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
