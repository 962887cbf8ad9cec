"""The product's own functions, asked with small numbers and answered with small numbers, each question once.

Time is not counted: the caller says whether a silence, or the youth of a watch, has lasted for `settle`.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from staticgroup.api.ordinals import Ordinals
from staticgroup.api.resources.memory import StatusMemory
from staticgroup.api.resources.staticgroup import StaticGroupSpec
from staticgroup.core.evidence.chain import KnownPod
from staticgroup.core.evidence.pod import NodeView
from staticgroup.core.group import GroupType, GroupView, MemberView
from staticgroup.core.ids.naming import naming_of
from staticgroup.core.members.carriers import Attribution, digest_of
from staticgroup.core.members.memory import Members, Sight, watch_under
from staticgroup.core.members.node_gone import NodeLifecycle
from staticgroup.core.plan import members_after, plan
from staticgroup.core.snapshot import Evidence, FreshRead, History, Injected, RemovalRecord, SeatMemory, Snapshot
from staticgroup.core.status import memory as status_memory
from staticgroup.core.workload import WorkloadView
from staticgroup.runtime.members import SightGatherer

from .pods import ID, NAMESPACE, POD, SCOPE, FakeStore, Seen, address_of, book_of, node, node_of, uid_of

NOW_S: Final = 1_800_000_000.0
SETTLE_S: Final = 600.0
SPEC: Final = StaticGroupSpec.model_validate(
    {
        "workloadRef": {"name": "web"},
        "connectionRef": {"name": "kafka"},
        "groupId": "orders",
    }
)
KNOWN, FORMER, NEW = "known", "former", "new"
"""In place of member ids: the one that is remembered, the one before it that is remembered too, and any other one."""
NOBODY, SAME, OTHER, AGAIN = 0, 1, 2, 3
"""What a description shows: the seat empty, the member that is remembered, one that is not, the former one."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What a round sees, without its memory.

    Parameters
    ----------
    seen: what the watch has brought. watch: its number; 0 while it is not whole.
    shown: NOBODY, SAME, OTHER or AGAIN. address_of_pod: number of the pod whose address the member has; 0 where it is
        not current.
    passed: the watch has passed a read behind the description.
    settled: which silences have lasted for `settle`: bits by the place of each suspect. is_old: the youth of the watch
        likewise.
    is_late: more than a poll interval after the description before.
    ended_since: a pod has got its certificate since the description before.
    off: bits of the pods whose Node objects are gone.
    """

    seen: Seen
    watch: int
    shown: int
    address_of_pod: int = 0
    passed: bool = True
    settled: int = 0
    is_old: bool = False
    is_late: bool = False
    ended_since: bool = False
    off: int = 0


class Product:
    """The product's decisions about one seat.

    Parameters
    ----------
    is_consumer: a KIP-848 group. is_host_current: the address of a member is current. are_reused: pods get addresses of
        others.
    """

    def __init__(self, *, is_consumer: bool = False, are_reused: bool = False) -> None:
        self.group_type = GroupType.CONSUMER if is_consumer else GroupType.CLASSIC
        self.are_reused = are_reused
        self._members: list[Members] = []
        self._numbers: dict[object, int] = {}
        self._described: dict[tuple[int, Observation], int] = {}
        self._decided: dict[object, bool] = {}
        self._written: dict[int, int] = {}
        injected = Injected(scope=SCOPE, method="Policy", id_template=f"{{podName}}.{SCOPE}", session_timeout_ms=None)
        self._history = History(injected=injected, issued_ordinals=Ordinals.of(range(1)))
        self._naming = naming_of(SPEC, self._history)
        self.nothing = self._number(Members())

    @property
    def questions(self) -> int:
        """How many different ones the product was asked."""
        return len(self._described) + len(self._decided)

    # -- memories by number

    def _number(self, members: Members) -> int:
        attribution = members.attributions.get(ID)
        former = members.former.get(ID)
        suspects = tuple((s.case, s.silent_since_s is not None, s.instance_ids, s.addresses) for s in members.suspects)
        key = (
            attribution and (attribution.member, attribution.carriers),
            former and (former.member, former.carriers),
            suspects,
            members.watch,
            members.watch_described,
            members.taken_in,
            members.described_at_s is not None,
            members.young_since_s is not None,
        )
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._members)
            self._members.append(members)
        return number

    def members(self, number: int) -> Members:
        """Return a memory by its number."""
        return self._members[number]

    def remembered(self, *, carriers: Iterable[int], watch: int) -> int:
        """Return the memory of one member with its carriers, or of none, under a watch that is whole."""
        uids = frozenset(uid_of(n) for n in carriers)
        known = {ID: Attribution(member=digest_of(KNOWN), first_seen_s=NOW_S, carriers=uids)} if uids else {}
        return self._number(Members(attributions=known, watch=_watch(watch), watch_described=_watch(watch)))

    def carriers(self, number: int) -> frozenset[str] | None:
        """Return the carriers of the member that is remembered; None where none is."""
        attribution = self._members[number].attributions.get(ID)
        return attribution.carriers if attribution is not None else None

    def has_former(self, number: int) -> bool:
        """Whether the member before is remembered, too."""
        return ID in self._members[number].former

    def suspects(self, number: int) -> tuple[str, ...]:
        """Return the uids of the suspects for members to come."""
        return tuple(s.uid for s in self._members[number].suspects)

    def is_whole_since(self, number: int, watch: int) -> bool:
        """True when a member that joins now cannot be of an unseen pod."""
        return self._members[number].watch == _watch(watch)

    # -- one round

    def describe(self, number: int, observation: Observation) -> int:
        """Return the memory after one description, with the member that it shows as the one that is known."""
        key = (number, observation)
        found = self._described.get(key)
        if found is None:
            found = self._described[key] = self._describe(self._timed(self._members[number], observation), observation)
        return found

    def _timed(self, members: Members, observation: Observation) -> Members:
        """Say in seconds what has lasted long enough."""
        ends = book_of(observation.seen, self.are_reused).ends
        suspects = tuple(
            s
            if s.silent_since_s is None
            else replace(s, silent_since_s=NOW_S - (SETTLE_S + 1 if observation.settled >> at & 1 else 2))
            for at, s in enumerate(members.suspects)
        )
        before_s = None if members.described_at_s is None else NOW_S - (SETTLE_S if observation.is_late else 1)
        young_s = None if members.young_since_s is None else NOW_S - (SETTLE_S + 1 if observation.is_old else 1)
        return replace(
            members,
            suspects=suspects,
            described_at_s=before_s,
            young_since_s=young_s,
            ends_seen=ends - 1 if observation.ended_since else ends,
        )

    def _describe(self, members: Members, observation: Observation) -> int:
        sight = self._sight(members, observation)
        snapshot = self._snapshot(observation, wanted=True, sight=sight)
        after = members_after(snapshot, replace(self._history, members=members), self._naming)
        attributions = {
            i: replace(a, member=digest_of(KNOWN), first_seen_s=NOW_S) for i, a in after.attributions.items()
        }
        former = {i: replace(a, member=digest_of(FORMER), first_seen_s=NOW_S) for i, a in after.former.items()}
        silent = tuple(s if s.silent_since_s is None else replace(s, silent_since_s=0.0) for s in after.suspects)
        at_s = None if after.described_at_s is None else 0.0
        young_s = None if after.young_since_s is None else 0.0
        return self._number(
            replace(
                after,
                attributions=attributions,
                former=former,
                suspects=silent,
                described_at_s=at_s,
                young_since_s=young_s,
                ends_seen=0,
            )
        )

    def _sight(self, members: Members, observation: Observation) -> Sight:
        store = FakeStore(
            observation.seen, watch=f"w{observation.watch}" if observation.watch else "", passed=observation.passed,
            are_reused=self.are_reused,
        )
        gone = {node_of(n) for n in range(1, 9) if observation.off >> n & 1}
        gatherer = SightGatherer(
            pods=store,  # type: ignore[arg-type]
            nodes=_Nodes(gone),  # type: ignore[arg-type]
            lifecycle=NodeLifecycle.FIXED if observation.off else NodeLifecycle.UNTRUSTED,
            may_be_of=lambda _pod: False,
            read_node=_Nodes(gone).read,
            clock_ahead_s=lambda: 0.0,
        )
        return _answer_of(
            gatherer.gather(
                NAMESPACE,
                self._naming,
                self._group(observation),
                members,
                described_at_s=NOW_S,
                dated_at_s=NOW_S,
                brokers="b",
            )
        )

    def _group(self, observation: Observation) -> GroupView:
        members: tuple[MemberView, ...] = ()
        if observation.shown:
            host = (
                f"/{address_of(observation.address_of_pod, are_reused=self.are_reused)}"
                if observation.address_of_pod
                else ""
            )
            member_id = {SAME: KNOWN, AGAIN: FORMER, OTHER: NEW}[observation.shown]
            members = (MemberView(member_id=member_id, instance_id=ID, client_host=host, is_host_current=bool(host)),)
        return GroupView(
            group_id="orders", group_type=self.group_type, state="Stable" if members else "Empty", coordinator="1@b:1",
            protocol_type="consumer", members=members,
        )

    def _snapshot(
        self, observation: Observation, *, wanted: bool, sight: Sight | None, fresh: FreshRead | None = None
    ) -> Snapshot:
        workload = WorkloadView(
            namespace=NAMESPACE,
            name="web",
            uid="w1",
            metadata_generation=1,
            observed_generation=1,
            replicas=int(wanted),
            status_replicas=0,
        )
        book = book_of(observation.seen, self.are_reused)
        chain: tuple[KnownPod, ...] = book.index.chain(NAMESPACE, (POD,), (ID,))
        evidence = {} if fresh is None else {ID: Evidence(chain=chain, fresh=fresh)}
        return Snapshot(
            namespace=NAMESPACE, name="orders", uid="sg", metadata_generation=1, workload=workload,
            pods=tuple(p for p in chain if p.object_present),
            known=chain, group=self._group(observation), evidence=evidence, described_at_s=NOW_S, sight=sight,
            cluster_uid="c", settle_least_s=SETTLE_S,
        )  # fmt: skip

    def removes(self, number: int, seen: Seen, *, wanted: bool, objects: tuple[int, ...], was_removed: bool) -> bool:
        """Say whether the plan removes the member that is remembered and was described, after the consistent reads.

        Parameters
        ----------
        seen: with every event up to those reads. objects: pods whose objects exist. was_removed: its removal was
            acknowledged before.
        """
        key = (number, seen, wanted, objects, was_removed)
        found = self._decided.get(key)
        if found is None:
            fresh = FreshRead(
                is_expected=wanted,
                objects=tuple((POD, uid_of(n)) for n in objects),
                resource_version=1,
                barrier_passed=True,
            )
            observation = Observation(seen, 1, SAME)
            record = RemovalRecord(instance_id=ID, member_id=KNOWN, coordinator="1@b:1", acknowledged_at_s=NOW_S)
            seats = {ID: SeatMemory(departed_since_s=NOW_S - 100, removal=record if was_removed else None)}
            history = replace(self._history, members=self._members[number], seats=seats)
            decided = plan(SPEC, self._snapshot(observation, wanted=wanted, sight=None, fresh=fresh), history, NOW_S)
            found = self._decided[key] = bool(decided.actions)
        return found

    def written(self, number: int) -> int:
        """Return what the next process reads of a memory in the status."""
        found = self._written.get(number)
        if found is None:
            members = self._members[number]
            status = StatusMemory(**status_memory.wire_members(NAMESPACE, members))
            found = self._written[number] = self._number(status_memory.members_from(NAMESPACE, status))
        return found


class _Nodes:
    """The nodes of the pods; those of some are gone."""

    def __init__(self, gone: set[str]) -> None:
        self._gone = gone

    def node_of(self, name: str) -> NodeView | None:
        """Return the facts of a node."""
        return node(name)

    def is_present(self, name: str) -> bool:
        """Say whether there is such a Node."""
        return name not in self._gone

    async def read(self, name: str) -> NodeView | None:
        """Read a Node."""
        return None if name in self._gone else node(name)


def _watch(number: int) -> str:
    return watch_under(f"w{number}", "b") if number else ""


def _answer_of(waiting: Coroutine[Any, Any, Sight]) -> Sight:
    """Run what waits for nothing."""
    try:
        waiting.send(None)
    except StopIteration as done:
        found: Sight = done.value
        return found
    raise RuntimeError("it waits for something")
