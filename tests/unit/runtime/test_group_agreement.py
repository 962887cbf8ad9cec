"""StaticGroups of one Kafka group agree on one session timeout and keep it, in whatever order their rounds run.

Each is planned by the real plan, and read by the others from its real status through the real stores; between them
stands one setting at the brokers. What they must come to is computed apart: the longest that any of them would set if
it were alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from staticgroup.core import protocols
from staticgroup.core.group import BrokerBounds, GroupType
from staticgroup.core.outcomes import Executed
from staticgroup.core.plan import plan
from staticgroup.core.snapshot import History
from staticgroup.core.status.memory import history_from
from staticgroup.core.status.projection import project
from staticgroup.core.timeouts.desired import LOWER_AFTER_S, Advice
from staticgroup.runtime.rivals import rivals_of
from staticgroup.runtime.stores import Stores
from support.bounds import altered, broker_bounds
from support.recommendations import advice, advices
from unit.core.builders import NOW_S, departure, group, history, member, workload
from unit.core.test_timeouts import bounds_ms, session_timeouts
from unit.core.timeouts import rollouts, timeout_of

from .operator_world import static_group

SETTING = "consumer.session.timeout.ms"
ROUND_S = 30.0
NAMES = ("alpha", "beta", "gamma", "delta")


@dataclass(frozen=True)
class Party:
    """One StaticGroup: the timeout that it wants, and whether it may set it, is suspended, or was never observed."""

    session: dict[str, Any]
    mode: str = "Manage"
    is_new: bool = False
    grace_s: int = 30
    lengths_ms: tuple[int, ...] = ()
    advice: Advice | None = None

    @property
    def rests(self) -> bool:
        return self.mode == "Suspended"

    @property
    def writes(self) -> bool:
        return self.mode == "Manage" and bool(self.session.get("writeGroupConfig"))


def at_work(party: Party) -> Party:
    return replace(party, mode="Manage" if party.rests else party.mode, is_new=False)


def of_consumers(advised: Advice) -> Advice:
    assert advised.record is not None
    return replace(advised, record=replace(advised.record, setting="consumer.session.timeout.ms"))


parties = st.builds(
    Party,
    session=st.builds(
        lambda asked, writes: asked.to_wire() | {"writeGroupConfig": writes}, session_timeouts,
        st.sampled_from([True, True, False]),
    ),
    mode=st.sampled_from(["Manage", "Manage", "Observe", "Suspended", "Suspended"]),
    is_new=st.sampled_from([False, False, False, True]), grace_s=st.integers(0, 900),
    lengths_ms=st.lists(st.integers(0, 400_000), max_size=8).map(tuple), advice=st.none() | advices.map(of_consumers),
)  # fmt: skip


@dataclass
class World:
    """One namespace, one group, and the brokers' setting of it."""

    parties: tuple[Party, ...]
    bounds: BrokerBounds
    now_s: float = NOW_S
    stores: Stores = field(default_factory=Stores)
    histories: dict[int, History] = field(default_factory=dict)
    values_ms: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        for n in range(len(self.parties)):
            self.stores.put_group(("shop", NAMES[n]), self.body(n, None))

    def body(self, n: int, status: dict[str, Any] | None) -> dict[str, Any]:
        party = self.parties[n]
        found = static_group(
            uid=f"sg-{n}", groupProtocol="Consumer", mode=party.mode, sessionTimeout=party.session
        )
        found["metadata"] |= {"name": NAMES[n]}
        found["spec"]["workloadRef"] = {"name": f"w{n}"}
        return found | ({"status": status} if status is not None else {})

    def edit(self, n: int) -> None:
        """Apply what the party is like now; its status stays."""
        before = self.stores.groups["shop", NAMES[n]].status
        self.stores.put_group(("shop", NAMES[n]), self.body(n, before.to_wire() if before is not None else None))

    @property
    def value_ms(self) -> int:
        value_ms = self.bounds.of(GroupType.CONSUMER).group_ms
        assert value_ms is not None
        return value_ms

    def round(self, n: int) -> None:
        """Let one StaticGroup read, set and report, as a reconciler does."""
        key, party = ("shop", NAMES[n]), self.parties[n]
        spec, rivals = self.stores.groups[key].spec, rivals_of(self.stores, None, key)
        before = self.histories.get(n) or history(injected=None, absences=rollouts(*party.lengths_ms))
        snapshot = departure(
            name=NAMES[n], uid=f"sg-{n}", workload=workload(2, termination_grace_s=party.grace_s), bounds=self.bounds,
            advice=party.advice,
            group=group(member(0), group_type=GroupType.CONSUMER, group_epoch=5, assignment_epoch=5), chains={},
            fresh={}, asked_by_others_ms=rivals.asked_by_others_ms, unheard=rivals.unheard, described_at_s=self.now_s,
        )  # fmt: skip
        decided = plan(spec, snapshot, before, self.now_s)
        after = decided.history
        if decided.group_config is not None:
            assert party.writes
            self.bounds = altered(self.bounds, decided.group_config.values)
            after = replace(after, group_config=after.group_config.sent(decided.group_config, None, self.now_s))
        self.histories[n] = after
        assert not (decided.timeout and decided.timeout.group_config.is_elsewhere)
        status = project(
            spec, snapshot, decided, Executed(), self.stores.groups[key].status,
            datetime.fromtimestamp(self.now_s, tz=UTC),
        )  # fmt: skip
        self.stores.put_group(key, self.body(n, status.to_wire()))
        self.values_ms.append(self.value_ms)
        self.now_s += ROUND_S

    def rounds(self, *numbers: int) -> None:
        for n in numbers:
            self.round(n)

    def restart(self) -> None:
        """Replace the operator: only statuses are left."""
        for n, known in self.histories.items():
            read = history_from(self.stores.groups["shop", NAMES[n]].status, f"sg-{n}")
            self.histories[n] = replace(read, injected=None, absences=known.absences)

    def wanted_ms(self, among: tuple[int, ...]) -> int:
        """Return the longest that any of them would set if it were alone."""
        return max(self._alone_ms(self.parties[n]) for n in among)

    def _alone_ms(self, party: Party) -> int:
        wish = self.stores.groups["shop", NAMES[self.parties.index(party)]].spec.session_timeout
        return timeout_of(
            wish, workload(2, termination_grace_s=party.grace_s), protocols.CONSUMER, self.bounds,
            absences=rollouts(*party.lengths_ms), advice=party.advice, writes=True,
        ).chosen_ms  # fmt: skip

    def active(self) -> tuple[int, ...]:
        return tuple(n for n, party in enumerate(self.parties) if not party.rests and not party.is_new)


def bounded(low_ms: int, high_ms: int, holds_ms: int) -> BrokerBounds:
    holds_ms = max(low_ms, min(holds_ms, high_ms))
    return broker_bounds(
        consumer_min_ms=low_ms, consumer_max_ms=high_ms, consumer_session_ms=holds_ms, consumer_heartbeat_ms=5_000,
        stored={SETTING: holds_ms}, limits={SETTING: (low_ms, high_ms)},
    )  # fmt: skip


@settings(deadline=None, max_examples=120)
@given(
    who=st.lists(parties, min_size=2, max_size=4, unique_by=id).map(tuple), within=bounds_ms,
    holds_ms=st.integers(1, 1_800_000), data=st.data(),
)  # fmt: skip
def test_they_come_to_the_longest_that_any_wants_and_leave_it_alone(
    who: tuple[Party, ...], within, holds_ms, data
) -> None:
    world = World(who, bounded(*within, holds_ms))
    active = world.active()
    world.rounds(*data.draw(st.permutations(active * 3)))
    world.rounds(*data.draw(st.permutations(active)))  # in which what all of them want is heard
    if not any(who[n].writes for n in active):
        assert set(world.values_ms) <= {world.value_ms}
        return
    expected_ms = max(world.wanted_ms(active), bounded(*within, holds_ms).of(GroupType.CONSUMER).group_ms or 0)
    assert world.value_ms == expected_ms
    settled = len(world.values_ms)
    for n in data.draw(st.lists(st.sampled_from(active), max_size=8)):
        world.round(n)
        if data.draw(st.booleans()):
            world.restart()
    assert set(world.values_ms[settled:]) <= {expected_ms}
    assert all(later >= sooner for sooner, later in pairwise(world.values_ms))


@settings(deadline=None, max_examples=60)
@given(
    who=st.lists(parties, min_size=2, max_size=4, unique_by=id).map(tuple), other=parties, within=bounds_ms,
    data=st.data(),
)  # fmt: skip
def test_what_they_have_set_follows_what_they_want(who: tuple[Party, ...], other: Party, within, data) -> None:
    who = tuple(map(at_work, who))
    other = replace(at_work(other), lengths_ms=who[0].lengths_ms)  # an edit of the spec forgets no measured absence
    world = World(who, bounded(*within, 1))
    for parties_now in (who, (other, *who[1:])):
        world.parties = parties_now
        for n in world.active():
            world.edit(n)
        for _ in range(5):  # a measured need is lowered after a day
            world.rounds(*data.draw(st.permutations(world.active())))
            world.now_s += LOWER_AFTER_S / 2
            if data.draw(st.booleans()):
                world.restart()
        if not any(party.writes for party in who):
            return
        if any(party.writes for party in parties_now):
            assert world.value_ms == world.wanted_ms(world.active())
    settled = len(world.values_ms)
    world.rounds(*world.active())
    assert len(set(world.values_ms[settled - 1 :])) == 1


def test_number_that_each_contributes_is_capped_by_its_own_bounds_only() -> None:
    """A wants 115 s; B wants 670 and caps itself at 120: both come to 120, where one wrote 670 and the other one 120
    for ever."""
    short = Party(session={"writeGroupConfig": True})
    capped = Party(session={"writeGroupConfig": True, "maxSeconds": 120}, grace_s=400)
    world = World((short, capped), bounded(45_000, 1_800_000, 45_000))
    world.rounds(*(0, 1) * 6)
    assert world.values_ms[2:] == [120_000] * 10


def test_number_of_the_spec_is_contributed_whatever_the_fleet_recommends() -> None:
    """B asks for 600 s and a record says 60 s; A listened to the record, and each undid what the other one had
    set."""
    advised = of_consumers(advice())
    fixed = Party(session={"writeGroupConfig": True, "seconds": 600}, advice=advised)
    world = World((Party(session={"writeGroupConfig": True}), fixed), bounded(45_000, 1_800_000, 45_000))
    world.rounds(*(0, 1) * 6)
    assert world.values_ms[2:] == [600_000] * 10


def test_suspended_and_observing_ones_count_while_they_exist() -> None:
    """Their members still run: a setting that is lowered fences them with their next restart."""
    quick, slow = Party(session={"writeGroupConfig": True}), Party(session={"writeGroupConfig": True}, grace_s=400)
    world = World((quick, slow), bounded(45_000, 1_800_000, 45_000))
    world.rounds(0, 1, 0, 1)
    needed_ms = world.value_ms
    for change in ({"mode": "Suspended"}, {"mode": "Observe"}, {"session": {}}):
        world.parties = (quick, replace(slow, **change))
        world.edit(1)
        for _ in range(4):
            world.now_s += LOWER_AFTER_S
            world.round(0)
        assert world.value_ms == needed_ms
    assert world.stores.drop_group(("shop", "beta"), "sg-1")
    world.round(0)
    assert world.value_ms == 115_000


def test_one_that_cannot_be_read_keeps_the_setting_from_being_lowered() -> None:
    world = World((Party(session={"writeGroupConfig": True}, grace_s=400),), bounded(45_000, 1_800_000, 45_000))
    world.rounds(0, 0)
    needed_ms = world.value_ms
    unread = world.body(0, None)
    unread["metadata"] |= {"name": "unread", "uid": "sg-9"}
    unread["spec"] |= {"mode": "Perhaps"}
    world.stores.put_group(("shop", "unread"), unread)
    assert rivals_of(world.stores, None, ("shop", "alpha")).unheard == ("shop/unread",)
    world.parties = (Party(session={"writeGroupConfig": True}),)
    for _ in range(4):
        world.round(0)
        world.now_s += LOWER_AFTER_S
    assert world.value_ms == needed_ms
    world.stores.drop_group(("shop", "unread"), "sg-9")
    world.round(0)
    assert world.value_ms == 115_000


def test_one_that_cannot_be_read_is_waited_for_beside_others_that_can() -> None:
    asks = Party(session={"writeGroupConfig": True})
    world = World((asks, asks), bounded(45_000, 1_800_000, 45_000))
    for n in (0, 1, 0, 1):
        world.round(n)
    assert rivals_of(world.stores, None, ("shop", "alpha")).unheard == ()
    unread = world.body(0, None)
    unread["metadata"] |= {"name": "unread", "uid": "sg-9"}
    unread["spec"] |= {"mode": "Perhaps"}
    world.stores.put_group(("shop", "unread"), unread)
    assert rivals_of(world.stores, None, ("shop", "alpha")).unheard == ("shop/unread",)


def test_classic_members_bring_their_own_and_are_not_waited_for() -> None:
    world = World((Party(session={"writeGroupConfig": True}),), bounded(45_000, 1_800_000, 600_000))
    classic = world.body(0, None)
    classic["metadata"] |= {"name": "classic", "uid": "sg-9"}
    classic["spec"] |= {"groupProtocol": "Classic"}
    world.stores.put_group(("shop", "classic"), classic)
    assert rivals_of(world.stores, None, ("shop", "alpha")).unheard == ()
