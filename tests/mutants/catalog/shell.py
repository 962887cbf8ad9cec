"""The shell: queues, terms of the Lease, connections, logs, and what keeps clients starting."""

from __future__ import annotations

from .mutant import mutant
from .suites import (
    CLUSTER_CONNECTIONS,
    CUT,
    FAIRNESS,
    KUBE,
    LOGS,
    OBJECTS,
    PROCESS,
    PROCESS_NODES,
    QUEUE,
    ROUNDS,
    SILENCE,
    STATEMENTS,
    TOLD_BACK,
)

SHELL = (
    mutant(
        "words of a broker that refuses a login shown",
        "kafka/connection.py",
        TOLD_BACK,
        ("check mechanism, user and password in the Secret\"", "{error}\""),
    ),
    mutant(
        "namespace that is not allowed is served all the same",
        "runtime/connections/connections.py",
        CLUSTER_CONNECTIONS,
        ("        if is_allowed(allowed, namespace, stores.namespaces.labels_of(namespace)):\n", "        if allowed:\n"),
    ),
    mutant(
        "namespace taken away while Secrets were read is served all the same",
        "runtime/connections/connections.py",
        CLUSTER_CONNECTIONS,
        ("        return self._refusal(namespace, ref) or settings  #", "        return settings  #"),
    ),
    mutant(
        "namespace taken away in the middle of a round loses the next member too",
        "runtime/reconciler.py",
        CLUSTER_CONNECTIONS,
        ("        return is_same and self.connections.may_use(namespace, group.spec.connection_ref)\n", "        return is_same\n"),
    ),
    mutant(
        "namespace of unknown labels allowed",
        "core/allowance.py",
        CLUSTER_CONNECTIONS,
        (" and labels is not None and _selects(allowed.selector, labels)", " and _selects(allowed.selector, labels or {})"),
    ),
    mutant(
        "suspects of ids that nobody wants forgotten",
        "runtime/memory/ledgers.py",
        ROUNDS,
        (
            "            if not pod.object_present and pod.state is IncarnationState.DEAD\n",
            "            if not pod.object_present\n",
        ),
    ),
    mutant(
        "evidence forgotten that another StaticGroup of the workload needs",
        "runtime/memory/ledgers.py",
        ("tests/unit/runtime/test_shared_workload.py",),
        (".intersection(*(self._needless_to(other) for other in others))", ""),
    ),
    mutant(
        "evidence forgotten before the removal is settled",
        "runtime/memory/ledgers.py",
        ROUNDS,
        ("        needed |= {r.instance_id for r in decided.history.removals if r.settled_at_s is None}\n", ""),
    ),
    mutant(
        "key worked on twice at once",
        "runtime/work_queue.py",
        QUEUE,
        (
            "            entry.running, entry.dirty = True, False\n",
            "            entry.running, entry.dirty = False, False\n",
        ),
    ),
    mutant(
        "add during a round lost",
        "runtime/work_queue.py",
        QUEUE,
        (
            "        if entry.running:\n            entry.dirty = True\n            return\n        self._cancel_timer",
            "        if entry.running:\n            return\n        self._cancel_timer",
        ),
    ),
    mutant(
        "later delay wins over an earlier one",
        "runtime/work_queue.py",
        QUEUE,
        (" or (entry.timer is not None and entry.due_at <= due_at)", ""),
    ),
    mutant(
        "round without an end",
        "runtime/work_queue.py",
        FAIRNESS,
        ("asyncio.timeout(self.deadline_s)", "asyncio.timeout(None)"),
    ),
    mutant(
        "long round keeps its place",
        "runtime/turns.py",
        FAIRNESS,
        ("        if self.late >= self.limits.late or ", "        if True or self.late >= self.limits.late or "),
    ),
    mutant(
        "tenants take no turns",
        "runtime/turns.py",
        FAIRNESS,
        ("                    self._tenants[name] = self._tenants.pop(name)  # to the end of the round\n", ""),
    ),
    mutant(
        "silent lanes take every place of their tenant",
        "runtime/turns.py",
        FAIRNESS,
        ("        if answers is False and tenant.doubted >= self.limits.doubted_of_tenant:\n", "        if False:\n"),
    ),
    mutant(
        "each group waits for the same silent broker",
        "kafka/pool.py",
        SILENCE,
        ("                slot.refuse_if_left_alone()\n", ""),
    ),
    mutant(
        "acknowledged removal forgotten when the round is cut",
        "runtime/reconciler.py",
        CUT,
        ("        memory.history = with_outcomes(", "        history = with_outcomes("),
        ("return executed, replace(decided, history=memory.history)", "return executed, replace(decided, history=history)"),
    ),
    mutant(
        "rotated Secret not picked up",
        "runtime/connections/connections.py",
        ROUNDS,
        ("and self.monotonic_s() - known.read_at_s < self.max_age_s\n", "and True\n"),
    ),
    mutant(
        "refused login keeps the old Secret",
        "runtime/connections/connections.py",
        ROUNDS,
        ("            self._secrets.pop((self._secret_namespace(connection), name), None)\n", "            pass\n"),
    ),
    mutant(
        "secret in an extra field logged",
        "runtime/process/logs.py",
        LOGS,
        ("            for name in vars(record).keys() - _STANDARD:\n", "            for name in ():\n"),
    ),
    mutant(
        "secret in an exception logged",
        "runtime/process/logs.py",
        LOGS,
        ("                record.exc_text = mask(record.exc_text, known)\n", "                pass\n"),
    ),
    mutant(
        "kopf logs every event",
        "runtime/process/logs.py",
        LOGS,
        ('    "kopf.objects": logging.WARNING,\n', '    "kopf.objects": logging.INFO,\n'),
    ),
    mutant(
        "rolling restart alarms",
        "core/findings/membership.py",
        STATEMENTS,
        (
            "            is_transient=True,\n",
            "            is_transient=False,\n",
        ),
    ),
    mutant(
        "ending pod told as a death that is not proven",
        "core/guards.py",
        STATEMENTS,
        ("    ChainClause.LIVE: Guard.POD_ENDING,\n", ""),
    ),
    mutant(
        "suspect hidden behind an ending pod",
        "core/findings/removal.py",
        STATEMENTS,
        (
            "    lasting = [finding for finding in plan.held if not finding.is_transient]\n",
            "    lasting = [finding for finding in plan.held[:1] if not finding.is_transient]\n",
        ),
    ),
    mutant(
        "status of another uid overwritten",
        "kube/gateway.py",
        KUBE,
        ('            if present["metadata"].get("uid") != uid:\n', "            if False:\n"),
    ),
    mutant(
        "object that a LIST does not show kept",
        "kube/object_stream.py",
        OBJECTS,
        ("            self._take_gone(uid)\n", "            pass\n"),
    ),
    mutant(
        "LIST that began before it was asked for taken as fresh",
        "kube/object_stream.py",
        OBJECTS,
        ("number = self._begun + 1\n        self.hurry()", "number = self._begun\n        self.hurry()"),
    ),
    mutant(
        "StaticGroup dropped by its name",
        "runtime/stores.py",
        PROCESS,
        ("        if self.group_uids.get(key, uid) != uid:\n            return False\n", ""),
    ),
    mutant(
        "rounds of a lost Lease go on",
        "runtime/operator.py",
        PROCESS,
        ("                await self.queue.stop()\n", ""),
    ),
    mutant(
        "end believed before what is remembered of nodes was read",
        "runtime/operator.py",
        PROCESS_NODES,
        ("                    await self.node_evidence.begin()\n", "                    pass\n"),
    ),
    mutant(
        "what is remembered of nodes asked for once",
        "runtime/nodes/evidence.py",
        PROCESS_NODES,
        ("        while not await self.records.read() and refusals", "        if not await self.records.read() and refusals"),
    ),
    mutant(
        "memory of an earlier term kept",
        "runtime/operator.py",
        PROCESS,
        ("        self.reconciler.forget_all()\n", ""),
    ),
    mutant(
        "Lease overwritten before its continuity was read",
        "runtime/operator.py",
        PROCESS,
        ("        self.is_active = self._has_merged = False\n", "        self.is_active = False\n"),
    ),
)
