"""The Lease by the rules of client-go's leader election, on a clock that the test moves."""

import asyncio
from typing import Any

import pytest

from staticgroup.kube.lease import ActiveLease, LeaseSettings
from staticgroup.kube.problem import problem_of
from staticgroup.kube.transport import Transport
from staticgroup.runtime.process.settings import Settings
from support.clock import Clock
from unit.kube.leases import LEASE, Leases, noting, transitions
from unit.kube.raw_objects import eventually


async def test_free_lease_is_acquired_and_a_held_one_is_not(leases: Leases) -> None:
    first, second = leases.make("a"), leases.make("b")
    assert await first.attempt()
    assert not await second.attempt()
    assert leases.server.objects[LEASE]["spec"]["holderIdentity"] == "a"


async def test_candidate_takes_over_only_after_it_saw_no_change_for_the_whole_duration(leases: Leases) -> None:
    """The times in the Lease do not count: clocks of two machines differ."""
    first, second = leases.make("a"), leases.make("b")
    await first.attempt()
    leases.server.objects[LEASE]["spec"]["renewTime"] = "1999-01-01T00:00:00.000000Z"
    assert not await second.attempt()
    leases.clock.now_s += 14.9
    assert not await second.attempt()
    leases.clock.now_s += 0.2
    assert not first.holds()
    assert await second.attempt()
    assert leases.server.objects[LEASE]["spec"]["leaseTransitions"] == 1
    assert not await first.attempt()


async def test_renewal_restarts_the_candidates_wait(leases: Leases) -> None:
    first, second = leases.make("a"), leases.make("b")
    await first.attempt()
    await second.attempt()
    leases.clock.now_s += 9
    assert await first.attempt()
    leases.clock.now_s += 9
    assert not await second.attempt()
    assert first.holds()


async def test_holder_stops_by_its_own_clock_when_no_reply_comes(leases: Leases) -> None:
    lease = leases.make("a")
    await lease.attempt()
    leases.server.failing_status = 503
    leases.clock.now_s += 9.9
    assert await lease.attempt()
    leases.clock.now_s += 0.2
    assert not lease.holds()
    leases.server.failing_status = 0
    assert await lease.attempt()


async def test_deadline_runs_from_before_the_request(leases: Leases) -> None:
    lease = leases.make("a")
    moved = leases.transport.call

    async def slow_call(*args: Any, **rest: Any) -> Any:
        leases.clock.now_s += 3
        return await moved(*args, **rest)

    leases.transport.call = slow_call  # type: ignore[method-assign]
    assert await lease.attempt()
    leases.clock.now_s += 4.1
    assert not lease.holds()


async def test_lost_race_is_a_conflict_and_not_held(leases: Leases) -> None:
    lease = leases.make("a")
    await lease.attempt()
    moved = leases.transport.call

    async def overtaken(verb: str, *args: Any, **rest: Any) -> Any:
        if verb == "update":
            stolen = leases.server.objects[LEASE] | {"spec": {"holderIdentity": "b", "leaseDurationSeconds": 15}}
            leases.server.put(stolen, LEASE[0])
        return await moved(verb, *args, **rest)

    leases.transport.call = overtaken  # type: ignore[method-assign]
    assert not await lease.attempt()
    assert leases.server.objects[LEASE]["spec"]["holderIdentity"] == "b"


async def test_released_lease_is_free_at_once(leases: Leases) -> None:
    first, second = leases.make("a"), leases.make("b")
    await first.attempt()
    assert await first.release()
    assert not first.holds()
    assert await second.attempt()
    assert not await first.release()


async def test_cancelled_loop_releases(leases: Leases) -> None:
    lease = leases.make("a")
    calls: list[str] = []
    task = asyncio.create_task(lease.run(on_acquired=lambda: calls.append("on"), on_lost=lambda: calls.append("off")))
    await eventually(lambda: calls)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await eventually(lambda: leases.server.objects[LEASE]["spec"]["holderIdentity"] == "")
    assert calls == ["on"]


async def taken_and_released(other: ActiveLease, clock: Clock) -> None:
    """Let another replica take an expired Lease, and let it go again."""
    assert not await other.attempt()
    clock.now_s += 15.1
    assert await other.attempt()
    assert await other.release()


async def test_holder_that_slept_through_anothers_holding_loses_the_lease_before_it_acquires_it_again(
    leases: Leases
) -> None:
    """Frozen for 15 s it does not see a holder that came and went; what that one wrote must be read."""
    async with leases.turning("a") as frozen:
        assert transitions(frozen.lease) == 0
        await taken_and_released(leases.make("b"), leases.clock)
        frozen.turn()
        await eventually(lambda: frozen.calls[1:] == [("lost", False)])
        assert not frozen.lease.holds()
        assert transitions(frozen.lease) is None
        frozen.turn()
        await eventually(lambda: frozen.calls[2:] == [("acquired", True)])
        assert transitions(frozen.lease) == 2


async def test_lease_that_another_process_of_the_same_name_took_is_lost(leases: Leases) -> None:
    """The holder's name alone proves nothing: a pod keeps its name when its container starts again."""
    first, second = leases.make("a"), leases.make("a")
    assert await first.attempt()
    assert await second.attempt()
    assert (transitions(first), transitions(second)) == (0, 1)
    assert not await first.attempt()
    assert transitions(first) is None
    assert await second.attempt()
    assert transitions(second) == 1


async def test_lease_that_was_deleted_is_lost_and_its_successor_counts_on(leases: Leases) -> None:
    """The maker of the next Lease may have held it meanwhile; a counter that began again would make two holdings look the same."""
    lease = leases.make("a")
    await lease.attempt()
    leases.server.remove("ops", "staticgroup-operator", LEASE[0])
    assert not await lease.attempt()
    assert await lease.attempt()
    assert transitions(lease) == 1
    leases.server.remove("ops", "staticgroup-operator", LEASE[0])
    other = leases.make("b")
    assert await other.attempt()
    assert transitions(other) == 0
    assert await other.release()
    assert not await lease.attempt()
    assert await lease.attempt()
    assert transitions(lease) == 2


async def test_lease_made_again_in_the_own_name_and_with_the_same_number_is_lost_too(leases: Leases) -> None:
    lease = leases.make("a")
    await lease.attempt()
    leases.server.remove("ops", "staticgroup-operator", LEASE[0])
    assert await leases.make("a").attempt()
    assert not await lease.attempt()


async def test_lapse_that_nobody_used_is_no_loss(leases: Leases) -> None:
    lease = leases.make("a")
    await lease.attempt()
    leases.clock.now_s += 100
    assert not lease.holds()
    assert await lease.attempt()
    assert transitions(lease) == 0


async def test_transitions_are_those_of_the_own_holding_only(leases: Leases) -> None:
    first, second = leases.make("a"), leases.make("b")
    assert transitions(first) is None
    await first.attempt()
    await second.attempt()
    assert (transitions(first), transitions(second)) == (0, None)
    await first.release()
    await second.attempt()
    assert (transitions(first), transitions(second)) == (None, 1)


async def test_acquisition_whose_answer_was_lost_is_made_again_as_another_one(leases: Leases) -> None:
    lease = leases.make("a")
    sent = leases.transport.call

    async def without_answer(verb: str, *args: Any, **rest: Any) -> Any:
        answer = await sent(verb, *args, **rest)
        return problem_of(0, verb=verb, resource="leases") if verb in ("create", "update") else answer

    leases.transport.call = without_answer  # type: ignore[method-assign]
    assert not await lease.attempt()
    leases.transport.call = sent  # type: ignore[method-assign]
    assert await lease.attempt()
    assert transitions(lease) == 1


async def test_renewal_whose_answer_was_lost_keeps_the_holding(leases: Leases) -> None:
    lease = leases.make("a")
    await lease.attempt()
    sent = leases.transport.call

    async def without_answer(verb: str, *args: Any, **rest: Any) -> Any:
        answer = await sent(verb, *args, **rest)
        return problem_of(0, verb=verb, resource="leases") if verb == "update" else answer

    leases.transport.call = without_answer  # type: ignore[method-assign]
    leases.clock.now_s += 5
    assert await lease.attempt()
    leases.transport.call = sent  # type: ignore[method-assign]
    leases.clock.now_s += 6
    assert not lease.holds()
    assert await lease.attempt()
    assert transitions(lease) == 0


async def test_holding_is_confirmed_by_the_lease_alone(leases: Leases) -> None:
    first, second = leases.make("a"), leases.make("b")
    assert await first.attempt()
    assert await first.confirm()
    leases.server.failing["get", LEASE[0]] = [503]
    assert (await first.confirm(), first.holds()) == (False, True), "no answer says nothing"
    await second.attempt()
    leases.clock.now_s += 20
    assert await second.attempt()
    leases.clock.now_s -= 20  # the first one's machine was suspended, and its clock stood still
    assert first.holds()
    assert (await first.confirm(), first.holds()) == (False, False)
    assert await second.confirm()


async def test_holding_of_a_lease_that_is_gone_is_not_confirmed(leases: Leases) -> None:
    lease = leases.make("a")
    assert await lease.attempt()
    del leases.server.objects[LEASE]
    assert (await lease.confirm(), lease.holds()) == (False, False)


async def test_holder_renews_twice_per_deadline_and_others_try_once_per_retry(leases: Leases) -> None:
    """A renewal that failed is tried again as soon as others try."""
    paused_s: list[float] = []

    async def sleep(seconds: float) -> None:
        paused_s.append(seconds)
        leases.clock.now_s += seconds
        leases.server.failing_status = 503 if len(paused_s) == 2 else 0
        await asyncio.sleep(0)

    holder = asyncio.create_task(leases.make("a", sleep=sleep).run(on_acquired=lambda: None, on_lost=lambda: None))
    await eventually(lambda: len(paused_s) >= 4)
    other_s: list[float] = []
    other = asyncio.create_task(
        leases.make("b", sleep=noting(other_s)).run(on_acquired=lambda: None, on_lost=lambda: None)
    )
    await eventually(lambda: len(other_s) >= 2)
    for task in (holder, other):
        task.cancel()
    await asyncio.gather(holder, other, return_exceptions=True)
    assert paused_s[:4] == [5, 5, 2, 5]
    assert set(other_s) == {2}


async def test_renewal_is_one_request_and_reads_only_what_somebody_else_wrote(leases: Leases) -> None:
    """Each replica asks once per retry period, so that short times are cheap; what people write on the Lease stays."""
    lease = leases.make("a")
    await lease.attempt()
    for _ in range(3):
        leases.clock.now_s += 2
        before = len(leases.server.requests)
        assert await lease.attempt()
        assert [method for method, _ in leases.server.requests[before:]] == ["PUT"]
    shown = leases.server.objects[LEASE]
    leases.server.put(shown | {"metadata": shown["metadata"] | {"annotations": {"team": "shop"}}}, LEASE[0])
    leases.clock.now_s += 2
    before = len(leases.server.requests)
    assert await lease.attempt()
    assert [method for method, _ in leases.server.requests[before:]] == ["PUT", "GET", "PUT"]
    assert leases.server.objects[LEASE]["metadata"]["annotations"]["team"] == "shop"
    assert transitions(lease) == 0


def test_killed_holder_is_replaced_in_time_by_default() -> None:
    """Seen last one retry before it ends, and asked for once per retry: 4 to 7 s, so that 8 s are kept with the work of a take-over."""
    times = LeaseSettings(namespace="ops")
    assert times.lease_duration_s + 2 * times.retry_period_s <= 7
    assert times.lease_duration_s - times.renew_deadline_s >= 1, "no two act at once while an answer is on its way"
    settings = Settings()
    assert (settings.lease_duration_s, settings.lease_renew_deadline_s, settings.lease_retry_s) == (
        times.lease_duration_s, times.renew_deadline_s, times.retry_period_s,
    )  # fmt: skip


async def test_holding_that_a_round_finds_lost_is_reported_as_lost_before_the_lease_is_acquired_again(
    leases: Leases
) -> None:
    """What the other one wrote must be read, also when a round has asked the Lease before the next renewal is due."""
    async with leases.turning("a") as replica:
        await taken_and_released(leases.make("b"), leases.clock)
        assert not await replica.lease.confirm()
        replica.turn()
        await eventually(lambda: transitions(replica.lease) == 2 or replica.calls[1:])
        await asyncio.sleep(0.1)
        assert replica.names[:2] == ["acquired", "lost"]


class Slow:
    """A transport whose next renewal is on its way until it is let go."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.is_holding = False
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def call(self, verb: str, *rest: Any, **named: Any) -> Any:
        if verb == "update" and self.is_holding:
            self.is_holding = False
            self.begun.set()
            await self.go.wait()
        return await self._transport.call(verb, *rest, **named)


@pytest.mark.parametrize("is_asked", [False, True])
async def test_holding_that_a_round_finds_lost_during_a_renewal_is_reported_as_lost_too(
    leases: Leases, is_asked: bool
) -> None:
    """The one who had it meanwhile has given it up by the time the renewal is refused, so the Lease is free."""
    slow, other = Slow(leases.transport), leases.make("b")
    slowed = Leases(leases.server, slow, leases.clock)  # type: ignore[arg-type]
    async with slowed.turning("a") as replica:
        assert not await other.attempt()
        leases.clock.now_s += 15.1
        assert await other.attempt()
        slow.is_holding = True
        replica.turn()
        await slow.begun.wait()
        if is_asked:
            assert not await replica.lease.confirm()
        assert await other.release()
        slow.go.set()
        replica.turn(3)
        await eventually(lambda: transitions(replica.lease) == 2)
        await eventually(lambda: len(replica.calls) >= 3)
        assert replica.names[:3] == ["acquired", "lost", "acquired"]
