"""One run: a fleet is made, an operator serves it, and what that costs and how long it takes is measured from outside.

The order is that of a life: the fleet grows under the operator, which is then started again, left alone, and given
edits, scale-downs and a rolling restart. A part that takes longer than its limit is ended and reported as such.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from support.devcluster.progress import say

from .api import MERGE, ApiServer, StatusWatch
from .budgets import percentile
from .exposition import Requests, requests_of, without_leases, writes_between
from .ground import Coordinator, OperatorProcess, machine_cpu_s
from .members import MemberConnection, form, join
from .population import Fleet, Group, at_once, edit, injected_without_operator, pods_of

QUIET_S = 25.0
"""Statuses that tell only how far things are wait up to 20 s for their turn."""
QUIET_DEADLINE_S = 240.0
POLL_S = 0.5
FORMING_LANES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What is measured, and for how long.

    Parameters
    ----------
    scale_downs: StatefulSets that lose a pod at once, at most one for each.
    part_limit_s: a part that takes longer is ended.
    roll_limit_s: no further StatefulSet is rolled after so long.
    """

    groups: int
    pods_per_group: int
    scale_downs: int = 1_000
    idle_s: float = 60.0
    edits_s: float = 20.0
    part_limit_s: float = 600.0
    roll_limit_s: float = 240.0


@dataclass(slots=True)
class Run:
    """One operator at one size.

    Attributes
    ----------
    figures: by name; None: not measured. details: what else was seen, for the report.
    """

    size: Size
    api: ApiServer
    operator: OperatorProcess
    coordinator: Coordinator
    statuses: StatusWatch
    groups: list[Group]
    fleet: Fleet
    figures: dict[str, float | None] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    _watching: asyncio.Task[None] | None = None

    async def play(self) -> None:
        """Do everything; figures stay as they are when a part fails."""
        self._watching = watching = asyncio.create_task(self.statuses.run())
        sampling = asyncio.create_task(self._sample_memory())
        try:
            await self._part("populate", self.populate, limit_s=6 * self.size.part_limit_s)
            parts: list[tuple[str, Callable[[], Awaitable[None]]]] = [
                ("cold start", self.cold_start),
                ("idle", self.idle),
                ("edits at 20/s", lambda: self.edits(20)),
                ("edits at 50/s", lambda: self.edits(50)),
                ("scale-downs", self.scale_downs),
                ("rolling restart", self.roll),
            ]
            for name, work in parts:
                await self._part(name, work, limit_s=self.size.part_limit_s)
        finally:
            for task in (watching, sampling):
                task.cancel()
            await asyncio.gather(watching, sampling, return_exceptions=True)
            self.details["asked_again"] = dict(self.api.asked_again)
            self.operator.stop()

    async def _part(self, name: str, work: Callable[[], Awaitable[None]], *, limit_s: float) -> None:
        began_s, load = time.monotonic(), os.getloadavg()[0]
        if "ended" in self.details:
            return
        say(f" • {self.operator.subject.name}, {self.size.groups} groups: {name} (load {load:.1f})")
        try:
            async with asyncio.timeout(limit_s):
                await work()
        except TimeoutError:
            self.details["ended"] = f"{name} took more than {limit_s:.0f} s"
            say(f" ✗ {self.details['ended']}")
        except (RuntimeError, OSError, ExceptionGroup) as error:
            self.details["ended"] = f"{name} failed: {error!r}"[:600]
            say(f" ✗ {self.details['ended']}")
        lasted_s = time.monotonic() - began_s
        self.details.setdefault("parts", {})[name] = {"seconds": round(lasted_s, 1), "load": round(load, 1)}
        say(f" ✓ {name}: {lasted_s:.1f} s")
        self.operator.end_part()

    async def _sample_memory(self) -> None:
        while True:
            await asyncio.sleep(1)
            try:
                found = self.operator.memory()
            except (RuntimeError, OSError, ProcessLookupError):
                continue  # between two lives
            for name, key in (("rss_max_mib", "rss_max_mib"), ("pss_mib", "pss_max_mib")):
                self.figures[key] = max(self.figures.get(key) or 0, found[name])

    # the fleet ------------------------------------------------------------------------------------------------

    async def populate(self) -> None:
        """Let the fleet grow under the operator."""
        size = self.size
        await self.fleet.make(self.coordinator.port, pods_per_group=size.pods_per_group)
        self.operator.start()
        await self._issue_ids()
        say(f"   … {size.groups} StaticGroups are there")
        await self._run_pods()  # before their members: one that joins without a pod is of no pod, and never removed
        await self._join()
        await self._all_joined()
        self.details["first_life"] = self.operator.memory() | {"cpu_s": self.operator.cpu_s()}

    async def _join(self) -> None:
        await self._form(self.groups)
        say(f"   … {self.size.groups * self.size.pods_per_group} members have joined")

    async def _run_pods(self) -> None:
        await at_once(pods_of(self.groups), lambda p: self.fleet.begin_pod(*p))
        await at_once(self.groups, self.fleet.tell_workload)
        say(f"   … {self.size.groups * self.size.pods_per_group} pods run")

    async def _issue_ids(self) -> None:
        """Take the ids from the statuses, as the admission policy does."""
        if not self.operator.subject.injects:
            system = await self.api.call("GET", "/api/v1/namespaces/kube-system")
            for group in self.groups:
                group.injected = injected_without_operator(group, system["metadata"]["uid"])
            return
        await self._until(lambda: all((s := self.statuses.seen.get(g.key)) and s.injected for g in self.groups))
        for group in self.groups:
            group.injected = self.statuses.seen[group.key].injected

    async def _form(self, groups: Sequence[Group]) -> None:
        members = [(g.name, [g.instance_id(o) for o in range(g.replicas)]) for g in groups]
        await form(self.coordinator.port, members, lanes=FORMING_LANES)

    async def _all_joined(self) -> None:
        await self._until(lambda: all(self.statuses.seen[g.key].joined == g.replicas for g in self.groups))
        await self._settle()

    async def _settle(self) -> None:
        if not await self.statuses.quiet(QUIET_S, deadline_s=QUIET_DEADLINE_S):
            self.details.setdefault("not_quiet", []).append(
                f"statuses changed all the time for {QUIET_DEADLINE_S:.0f} s"
            )

    async def _until(self, holds: Callable[[], bool], poll_s: float = POLL_S) -> None:
        while not holds():
            self.operator.must_live()
            if self._watching is not None and self._watching.done():
                self._watching.result()  # why it ended
            await asyncio.sleep(poll_s)

    # parts ----------------------------------------------------------------------------------------------------

    async def cold_start(self) -> None:
        """Change every spec while no operator runs, then start the operator."""
        self.operator.stop()
        wanted: dict[tuple[str, str], int] = {}

        async def change(group: Group) -> None:
            made = await self.api.call("PATCH", group.path, edit(group), content=MERGE, manager="kubectl")
            wanted[group.key] = made["metadata"]["generation"]

        await at_once(self.groups, change)
        began_s, machine_before_s = time.monotonic(), machine_cpu_s()
        self.operator.start()
        await self._until(lambda: all(item in self.statuses.observed_s for item in wanted.items()), poll_s=0.1)
        self.figures["cold_start_s"] = max(self.statuses.observed_s[item] for item in wanted.items()) - began_s
        self.figures["cold_start_first_s"] = min(self.statuses.observed_s[item] for item in wanted.items()) - began_s
        self.figures["cold_start_cpu_s"] = self.operator.cpu_s()
        self.figures["cold_start_machine_cpu_s"] = machine_cpu_s() - machine_before_s
        self.details["after_cold_start"] = self.operator.memory()
        await self._settle()

    async def idle(self) -> None:
        """Leave everything alone."""
        before, calls_before, cpu_before_s = await self._requests(), self._calls(), self.operator.cpu_s()
        began_s = time.monotonic()
        await asyncio.sleep(self.size.idle_s)
        lasted_s = time.monotonic() - began_s
        cpu_s = self.operator.cpu_s() - cpu_before_s
        writes, calls = writes_between(before, await self._requests()), self._calls()
        grown = {name: count - calls_before.get(name, 0) for name, count in calls.items()}
        self.figures["idle_api_writes"] = without_leases(writes)
        self.figures["idle_kafka_calls_per_s"] = sum(grown.values()) / lasted_s
        self.figures["idle_cpu_share"] = cpu_s / lasted_s
        self.details["idle"] = {"writes": dict(writes), "kafka": {n: c for n, c in grown.items() if c}}
        self.details["idle"] |= self.operator.memory()

    async def _requests(self) -> Requests:
        return requests_of(await self.api.text("/metrics"))

    def _calls(self) -> dict[str, int]:
        found: dict[str, int] = self.coordinator.figures()["calls"]
        return found

    async def edits(self, per_s: int) -> None:
        """Change specs at a rate, StaticGroups in turn; a change waits for the answer to the last one of its object."""
        answered: dict[tuple[tuple[str, str], int], float] = {}
        turns = [asyncio.Lock() for _ in self.groups]
        cpu_before_s, machine_before_s = self.operator.cpu_s(), machine_cpu_s()

        async def change(number: int) -> None:
            group = self.groups[number % len(self.groups)]
            async with turns[number % len(self.groups)]:
                made = await self.api.call("PATCH", group.path, edit(group), content=MERGE, manager="kubectl")
            answered.setdefault((group.key, made["metadata"]["generation"]), time.monotonic())

        began_s = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for number in range(int(per_s * self.size.edits_s)):
                await asyncio.sleep(max(0.0, began_s + number / per_s - time.monotonic()))
                tasks.create_task(change(number))
        rate = len(answered) / (time.monotonic() - began_s)
        await self._until(lambda: answered.keys() <= self.statuses.observed_s.keys(), poll_s=0.1)
        waits = [max(0.0, self.statuses.observed_s[item] - at_s) for item, at_s in answered.items()]
        for share in (50, 99):
            self.figures[f"edits_{per_s}_p{share}_s"] = percentile(waits, share / 100)
        self.figures[f"edits_{per_s}_cpu_ms"] = (self.operator.cpu_s() - cpu_before_s) / len(answered) * 1000
        self.figures[f"edits_{per_s}_processors"] = (machine_cpu_s() - machine_before_s) / (time.monotonic() - began_s)
        self.details[f"edits_{per_s}"] = {"edits": len(answered), "per_s": round(rate, 1), "max_s": max(waits)}

    async def scale_downs(self) -> None:
        """End one pod of many StatefulSets at once, and wait until the members are gone."""
        await self._settle()
        chosen = self.groups[: self.size.scale_downs]
        ended_s: dict[tuple[str, str], float] = {}
        for group in chosen:
            ended_s[group.name, group.instance_id(group.replicas - 1)] = float("inf")

        async def lower(group: Group) -> None:
            await self.fleet.scale(group, group.replicas - 1)
            await self.fleet.delete_pod(group, group.replicas)

        async def end(group: Group) -> None:
            await self.fleet.end_pod(group, group.replicas)
            ended_s[group.name, group.instance_id(group.replicas)] = time.monotonic()

        async def remove(group: Group) -> None:
            await self.fleet.remove_pod(group, group.replicas)
            await self.fleet.tell_workload(group)

        await at_once(chosen, lower)
        began_s, machine_before_s = time.monotonic(), machine_cpu_s()
        await at_once(chosen, end)
        self.details["scale_downs"] = {"members": len(chosen), "ended_within_s": time.monotonic() - began_s}
        await at_once(chosen, remove)
        gone = await self._gone(ended_s.keys())
        self.figures["scale_down_processors"] = (machine_cpu_s() - machine_before_s) / (time.monotonic() - began_s)
        waits = [gone[item] - at_s for item, at_s in ended_s.items() if item in gone]
        self.figures["scale_down_lost"] = len(ended_s) - len(waits)
        for share in (50, 99):
            self.figures[f"scale_down_p{share}_s"] = percentile(waits, share / 100)
        await self._form(chosen)  # the others learn of the rebalance, and come back

    async def _gone(self, wanted: Any) -> dict[tuple[str, str], float]:
        """Return when each member was removed, of those that were within a quarter of the limit."""
        ends_s = time.monotonic() + self.size.part_limit_s / 4
        while True:
            gone = {(group, i): at_s for at_s, group, i in self.coordinator.figures()["leaves"]}
            if wanted <= gone.keys() or time.monotonic() > ends_s:
                return gone
            self.operator.must_live()
            await asyncio.sleep(1)

    async def roll(self) -> None:
        """Replace every pod, one after the other in its StatefulSet, and let the members come back."""
        await self._settle()
        before, ends_s = self.coordinator.figures()["leave_requests"], time.monotonic() + self.size.roll_limit_s
        rolled = 0

        async def one(group: Group) -> None:
            nonlocal rolled
            if time.monotonic() > ends_s:
                return
            await self._begin_revision(group)
            connection = MemberConnection(self.coordinator.port)
            for ordinal in reversed(range(group.replicas)):
                await self.fleet.delete_pod(group, ordinal)
                await self.fleet.end_pod(group, ordinal)
                await self.fleet.remove_pod(group, ordinal)
                await self.fleet.begin_pod(group, ordinal)
                await join(connection, group.name, group.instance_id(ordinal))
                rolled += 1
            connection.close()
            await self.fleet.tell_workload(group)

        began_s = time.monotonic()
        await at_once(self.groups, one)
        lasted_s = time.monotonic() - began_s
        await self._settle()
        self.figures["roll_leaves"] = self.coordinator.figures()["leave_requests"] - before
        self.details["roll"] = {
            "pods": rolled, "of": len(pods_of(self.groups)), "seconds": round(lasted_s, 1),
        } | self.operator.memory()  # fmt: skip

    async def _begin_revision(self, group: Group) -> None:
        group.revision += 1
        change = {"spec": {"template": {"metadata": {"annotations": {"rolled": str(group.revision)}}}}}
        group.workload = await self.api.call("PATCH", group.workload_path, change, content=MERGE, manager="kubectl")
        group.injected = self.statuses.seen[group.key].injected or group.injected
