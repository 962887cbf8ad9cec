"""Carriers of members in whole rounds: what is read, remembered, and written for the next process."""

from __future__ import annotations

from .mutant import mutant

GATHERER = "runtime/members.py"
SIGHT = ("tests/unit/runtime/test_members.py", "tests/unit/runtime/test_members_over_gaps.py")
MACHINES = ("tests/unit/runtime/test_node_gone.py",)
LOST = ("tests/unit/runtime/test_lost_runs.py",)
TAKE_OVERS = ("tests/unit/runtime/test_machines.py", "tests/unit/runtime/test_machines_of_processes.py")
FLOODS = ("tests/unit/runtime/test_many_suspects.py",)
EARLIER = ("tests/unit/runtime/test_earlier_templates.py",)
FORGOTTEN = ("tests/unit/runtime/test_members_forgotten.py",)
RESTING = ("tests/unit/runtime/test_plan_cache.py",)
ORDERED = ("tests/unit/runtime/test_reconciler.py",)
PREMISES = ("tests/unit/runtime/test_premises.py",)
SLOW = ("tests/unit/runtime/test_slow_answers.py",)
CRASHES = ("tests/unit/runtime/test_crash_release.py",)

SIGHTS = (
    mutant(
        "member attributed without a read behind its description", GATHERER, SIGHT,
        ("bool(new) and await self.pods.reach_present(namespace)", "bool(new)"),
    ),
    mutant(
        "read behind a description of members that are known", GATHERER, SIGHT,
        ("bool(new) and await self.pods.reach_present(namespace)", "await self.pods.reach_present(namespace)"),
    ),
    mutant(
        "pods taken as they were before the last read", GATHERER, ORDERED,
        (
            "        watch = self.pods.watch(namespace)\n        doubtful = tuple(self._suspects_of(namespace, naming, members, ids_since_s))\n",
            "        watch = self.pods.watch(namespace)\n",
        ),
        ("        has_passed = bool(new)", "        doubtful = tuple(self._suspects_of(namespace, naming, members, ids_since_s))\n        has_passed = bool(new)"),
        (
            "reach_present(namespace)\n        doubtful = tuple(self._suspects_of(namespace, naming, members, ids_since_s))\n",
            "reach_present(namespace)\n",
        ),
    ),
    mutant("member before the present one forgotten", "core/members/memory.py", SIGHT, ("former={**members.former, **replaced}", "former={}")),
    mutant("watch goes on where other brokers are asked", GATHERER, SIGHT, ("watch=watch_under(watch, brokers, naming.unscoped),", "watch=watch,")),
    mutant("clock of the API server not looked at", GATHERER, CRASHES, ("dated_at_s + took_s + max(0.0, self.clock_ahead_s())", "dated_at_s + took_s")),
    mutant("pods that have ended stay carriers", GATHERER, SIGHT, ("gone | frozenset(self._ended(members, doubtful))", "gone")),
    mutant("machines that are gone end nothing", GATHERER, MACHINES, ("ended = gone | frozenset(", "ended = frozenset(")),
    mutant("suspect whose object is there again stays one", GATHERER, SIGHT, ("back=frozenset(self._back(members))", "back=frozenset()")),
    mutant(
        "lost run forgotten while its pod is there", GATHERER, LOST,
        ("present=frozenset(self._present(members, doubtful))", "present=frozenset()"),
    ),
    mutant("suspects are no carriers", GATHERER, SIGHT, ("frozenset((*(pod.uid for pod in live), *(s.uid for s in own)))", "frozenset(pod.uid for pod in live)")),
    mutant("living pods are no carriers", GATHERER, SIGHT, ("frozenset((*(pod.uid for pod in live), *(s.uid for s in own)))", "frozenset(s.uid for s in own)")),
    mutant("suspects of this very round are no carriers", GATHERER, SIGHT, ("suspects = without_ended(members, sight).suspects", "suspects = members.suspects")),
    mutant("end since the last description not counted", GATHERER, SIGHT, ("max((pod.ended_no for pod in pods), default=0)", "0")),
    mutant("address of a member not asked", GATHERER, SIGHT, ("            if uid is not None:\n                addressed", "            if False:\n                addressed")),
    mutant("what an answer shows dated to its question", GATHERER, SLOW, ("dated_at_s + took_s + max", "dated_at_s + max")),
    mutant("addresses of suspects forgotten", GATHERER, SIGHT, ("addresses=frozenset(pod.addresses)", "addresses=frozenset()")),
    mutant("deletion of any Node believed", GATHERER, MACHINES, ("return may_be_gone(suspect, self.nodes.node_of(suspect.node_name), self.lifecycle)", "return True")),
    mutant("watch of Nodes believed", GATHERER, MACHINES, ("is_worth_it and await self.read_node(suspect.node_name) is None:", "is_worth_it:")),
    mutant("end that a LIST shows before the replay counts", GATHERER, TAKE_OVERS, ("ended=ended if watch else frozenset()", "ended=ended")),
    mutant("Node that a restored etcd forgot believed gone within the clocks", GATHERER, TAKE_OVERS, ("suspect.since_s < since_s + CLOCKS_APART_S", "suspect.since_s < since_s")),
    mutant("stored position read before what a LIST shows", "runtime/operator.py", TAKE_OVERS, ("        await asyncio.gather(*(i.refresh() for i in self.informers.of_our_kinds))\n        stored = await self.lease.read_position()", "        stored = await self.lease.read_position()\n        await asyncio.gather(*(i.refresh() for i in self.informers.of_our_kinds))")),
    mutant("Node read for nothing", GATHERER, MACHINES, ("        if self.nodes.is_present(suspect.node_name):\n", "        if False:\n")),
    mutant("Node that is gone asked for again and again", GATHERER, MACHINES, ("new = (s for s in doubtful if s.case not in members.taken_in)", "new = (s for s in doubtful)")),
    mutant("suspects of before the ids are inherited", GATHERER, PREMISES, ("            if not own and not pod.object_present and newest_s < ids_since_s:", "            if False:")),
    mutant("clocks that agree to the second", GATHERER, PREMISES, ("pod.since_s + CLOCKS_APART_S", "pod.since_s")),
    mutant("carrier that is not shown any more forgotten", GATHERER, SIGHT, ("            if uid not in known:\n                yield found", "            if uid not in known:\n                continue")),
    mutant("carriers missed before the pods are listed", GATHERER, SIGHT, ("if self.pods.watch(namespace) and self.pods", "if self.pods")),
    mutant("Node that an etcd of before has forgotten believed gone", "runtime/members.py", MACHINES, ("        if absent and not (await", "        if False and not (await")),
    mutant("Node that was taken over while others were read believed", GATHERER, MACHINES, ("s.uid for s in absent if self._may_be_gone(s))", "s.uid for s in absent)")),
    mutant("what is remembered of a suspect lost over a restart", GATHERER, SIGHT, ("yield known[uid]", "yield found")),
    mutant("certificate of a pod of which a run is lost believed", GATHERER, LOST, (" and uid not in lost:", ":")),
    mutant(
        "pod of which a run is lost is no suspect because its object is there", GATHERER, LOST,
        ("PodState.LIVE and not suspect.has_lost_run", "PodState.LIVE"),
    ),
    mutant("round rests though a pod became a suspect", "runtime/gather.py", RESTING, (" or memory.stored.suspect_count != self.pods.suspect_count", "")),
    mutant("status set back by a restore not read again", "runtime/memory/memory.py", ("tests/unit/runtime/test_restored_status.py",), (" and memory.watch == (watch or memory.watch)", "")),
    mutant(
        "stored position passes a suspect that no look has found", "runtime/memory/memory.py", RESTING,
        ("if (i.suspect_count, i.change_count) != (suspects, count)]", "if i.change_count != count]"),
    ),
    mutant(
        "suspects not remembered while suspended", "runtime/reconciler.py", SIGHT,
        ("replace(memory.history, members=without_ended(memory.history.members, sight))", "memory.history"),
    ),
    mutant(
        "pod lost while the ids have no rule overlooked", "core/plan.py", FORGOTTEN,
        ("if sight is not None else replace(members, watch=\"\")", "if sight is not None else members"),
    ),
    mutant("the same while suspended", "runtime/reconciler.py", FORGOTTEN, ("        else:\n            memory.distrust_watch()\n", "")),
    mutant(
        "brokers of one StaticGroup hold the position of all", "runtime/reconciler.py", FORGOTTEN,
        ("        if memory.is_unfinished:", "        if False:"),
    ),
    mutant("junk of a tenant's pod kept in place of an id of ours", GATHERER, FLOODS, ("instance_ids=pod.instance_ids if are_few else frozenset(i for i in pod.instance_ids if naming.ordinals_of(i))", "instance_ids=pod.instance_ids")),
    mutant(
        "ids of our scope asked of the rivals of another namespace", "runtime/gather.py", EARLIER, ("lambda i: naming.has_scope(i)\n", "lambda i: naming.is_recognized_by_scope\n"),
    ),
    mutant(
        "round counted before its status is written", "runtime/reconciler.py", FORGOTTEN,
        ("        revision, last = self._revision(memory), memory.cached_until(started_s)\n",
         "        revision, last = self._revision(memory), memory.cached_until(started_s)\n        memory.stored = revision\n"),
    ),
    mutant(
        "round counted though its status was not written", "runtime/memory/memory.py", ("tests/unit/runtime/test_reconciler_memory.py",),
        ("        if before is not None and not memory.must_write and remembers_the_same(before.memory, status.memory):\n", "        if True:\n"),
    ),
    mutant(
        "stored position passes changes since the last stored round", "runtime/memory/memory.py", ("tests/unit/runtime/test_reconciler_memory.py",),
        ("if (i.suspect_count, i.change_count) != (suspects, count)]", "if i.suspect_count != suspects]"),
    ),
    mutant(
        "unreadable StaticGroup holds no position", "runtime/memory/memory.py", FORGOTTEN,
        ("if self.stores.group_uids.keys() - ", "if self.stores.groups.keys() - "),
    ),
    mutant(
        "suspended StaticGroup not looked at again", "runtime/reconciler.py", RESTING,
        ("return Result(requeue_after_s=self.group_poll_s) if is_written else", "return Result() if is_written else"),
    ),
    mutant("suspects that came into sight at rest are no news", "runtime/memory/pace.py", RESTING, (", repr(sight)))", "))")),
)
