"""Choose which waiting key begins its round next, so that no tenant waits for another tenant's broker.

A *lane* is a KafkaConnection, a *tenant* its namespace. Tenants take turns, and so do the lanes of one tenant. A round
that lasts long, mostly because a broker is silent, gives its place to others and goes on as *late*; late rounds have
limits of their own. A lane gets one place until it has answered and after it was silent, and several once it answers.
Nothing here knows the time: the queue decides when a round has become late.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Key = tuple[str, str]
"""(namespace, name): of a StaticGroup where a key is meant, of a KafkaConnection where a lane is."""

LANES_REMEMBERED_MAX = 10_000
"""Lanes of which it is known whether they answer; the least recently used is forgotten, which costs it little."""


class Limits:
    """How many rounds may be under way at once, all derived from the places of a process.

    Attributes
    ----------
    places: rounds that are not late, of all tenants; 1 or more.
    places_of_tenant: of one tenant: half, so that one busy tenant leaves room for another.
    of_lane: rounds of a lane that answers, late ones included.
    doubted_of_tenant: rounds of one tenant in lanes that were silent last, so that its other lanes keep places.
    late, late_of_tenant: rounds that gave up their place: each is little more than a wait for a socket.
    """

    def __init__(self, places: int) -> None:
        self.places = places
        self.places_of_tenant = max(2, places // 2)
        self.of_lane = self.doubted_of_tenant = max(1, places // 4)
        self.late, self.late_of_tenant = 16 * places, 2 * places


@dataclass(slots=True)
class _Lane:
    waiting: dict[Key, None] = field(default_factory=dict)
    running: int = 0


@dataclass(slots=True)
class _Tenant:
    lanes: dict[Key, _Lane] = field(default_factory=dict)
    waiting: int = 0
    in_place: int = 0
    late: int = 0
    doubted: int = 0
    is_stuck: bool = False


@dataclass(slots=True)
class _Round:
    lane: Key
    is_doubted: bool
    is_late: bool = False
    has_place: bool = True


@dataclass(slots=True)
class Turns:
    """Record which keys wait and run, and choose the next one."""

    limits: Limits
    _tenants: dict[str, _Tenant] = field(default_factory=dict)
    _lane_of_waiting: dict[Key, Key] = field(default_factory=dict)
    _rounds: dict[Key, _Round] = field(default_factory=dict)
    _answers: dict[Key, bool] = field(default_factory=dict)
    _in_place: int = 0

    def __len__(self) -> int:
        """Return the number of keys that wait or run."""
        return len(self._lane_of_waiting) + len(self._rounds)

    def __contains__(self, key: Key) -> bool:
        """Say whether a key waits."""
        return key in self._lane_of_waiting

    @property
    def late(self) -> int:
        """Rounds under way that gave up their place."""
        return len(self._rounds) - self._in_place

    def wait(self, key: Key, lane_key: Key) -> None:
        """Append a key to a lane; a key that waits already stays where it is."""
        if key in self._lane_of_waiting:
            return
        self._lane_of_waiting[key] = lane_key
        tenant = self._tenants.setdefault(lane_key[0], _Tenant())
        tenant.waiting += 1
        tenant.is_stuck = False
        tenant.lanes.setdefault(lane_key, _Lane()).waiting[key] = None

    def withdraw(self, key: Key) -> None:
        """Remove a key that waits."""
        lane_key = self._lane_of_waiting.get(key)
        if lane_key is not None:
            self._take(key, lane_key)
            self._drop_if_idle(lane_key)

    def next(self, places: int | None = None) -> Key | None:
        """Choose the key whose turn it is and count its round as begun; None when none may begin now.

        Parameters
        ----------
        places: how many may be under way and not late for now, at most as many as the limits say; None: as many.
        """
        if self._in_place >= (self.limits.places if places is None else places):
            return None
        for name, tenant in self._tenants.items():
            if not tenant.waiting or tenant.is_stuck or tenant.in_place >= self.limits.places_of_tenant:
                continue
            for lane_key, lane in tenant.lanes.items():
                if lane.waiting and self._may_begin(tenant, lane_key, lane):
                    self._tenants[name] = self._tenants.pop(name)  # to the end of the round
                    tenant.lanes[lane_key] = tenant.lanes.pop(lane_key)
                    return self._begin(tenant, lane_key, lane)
            tenant.is_stuck = True  # until something changes, so that its lanes are not searched again for nothing
        return None

    def _may_begin(self, tenant: _Tenant, lane_key: Key, lane: _Lane) -> bool:
        answers = self._answers.get(lane_key)
        if answers:
            return lane.running < self.limits.of_lane
        if answers is False and tenant.doubted >= self.limits.doubted_of_tenant:
            return False
        return lane.running == 0

    def _begin(self, tenant: _Tenant, lane_key: Key, lane: _Lane) -> Key:
        key = next(iter(lane.waiting))
        self._take(key, lane_key)
        is_doubted = self._answers.get(lane_key) is False
        self._rounds[key] = _Round(lane=lane_key, is_doubted=is_doubted)
        self._in_place += 1
        tenant.in_place += 1
        tenant.doubted += is_doubted
        lane.running += 1
        return key

    def grow_late(self, key: Key) -> bool:
        """Let a long round go on without its place; False when it has to keep it."""
        running = self._rounds[key]
        running.is_late = True
        tenant = self._tenants[running.lane[0]]
        if self.late >= self.limits.late or tenant.late >= self.limits.late_of_tenant:
            return False
        running.has_place = False
        self._in_place -= 1
        tenant.in_place -= 1
        tenant.late += 1
        return True

    def end(self, key: Key, *, failed: bool) -> None:
        """Take the end of a round; only a late failure counts against its lane."""
        running = self._rounds.pop(key)
        tenant = self._tenants[running.lane[0]]
        if running.has_place:
            self._in_place -= 1
            tenant.in_place -= 1
        else:
            tenant.late -= 1
        tenant.doubted -= running.is_doubted
        tenant.is_stuck = False
        tenant.lanes[running.lane].running -= 1
        if not failed or running.is_late:
            self._remember(running.lane, answers=not failed)
        self._drop_if_idle(running.lane)

    def _remember(self, lane_key: Key, *, answers: bool) -> None:
        self._answers.pop(lane_key, None)
        self._answers[lane_key] = answers
        if len(self._answers) > LANES_REMEMBERED_MAX:
            del self._answers[next(iter(self._answers))]

    def _take(self, key: Key, lane_key: Key) -> None:
        del self._lane_of_waiting[key]
        tenant = self._tenants[lane_key[0]]
        tenant.waiting -= 1
        del tenant.lanes[lane_key].waiting[key]

    def _drop_if_idle(self, lane_key: Key) -> None:
        tenant = self._tenants[lane_key[0]]
        lane = tenant.lanes[lane_key]
        if not lane.waiting and not lane.running:
            del tenant.lanes[lane_key]
        if not tenant.lanes:
            del self._tenants[lane_key[0]]
