"""The shell: queues, terms of the Lease, connections, logs, and what keeps clients starting."""

from __future__ import annotations

from .mutant import mutant
from .suites import (
    CLUSTER_CONNECTIONS,
    CUT,
    FAIRNESS,
    KOPF,
    KUBE,
    LOGS,
    NAMESPACES,
    OBJECTS,
    PROCESS,
    QUEUE,
    REST,
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
        ("check spec.sasl, and that its user, token or IAM role may log in\"", "{error}\""),
    ),
    mutant(
        "namespace that is not allowed is served all the same",
        "runtime/connections/connections.py",
        CLUSTER_CONNECTIONS,
        ("any(e.has_group(group.spec.group_id) for e in found):", "connection.spec.allowed_namespaces:"),
    ),
    mutant(
        "namespace taken away while Secrets were read is served all the same",
        "runtime/connections/connections.py",
        CLUSTER_CONNECTIONS,
        ("        return refusal(self.stores, group) or settings  #", "        return settings  #"),
    ),
    mutant(
        "namespace taken away in the middle of a round loses the next member too",
        "runtime/executor.py",
        CLUSTER_CONNECTIONS,
        ("        return is_same and may_use(self.stores, group)\n", "        return is_same\n"),
    ),
    mutant(
        "namespace of unknown labels allowed",
        "core/allowance.py",
        CLUSTER_CONNECTIONS,
        (" and labels is not None and _selects(entry.selector, labels)", " and _selects(entry.selector, labels or {})"),
    ),
    mutant(
        "group without an allowed prefix served all the same",
        "api/resources/clusterkafkaconnection.py",
        CLUSTER_CONNECTIONS,
        ("return not self.group_prefixes or group_id.startswith(tuple(self.group_prefixes))", "return True"),
    ),
    mutant(
        "word of a tenant believed over credentials of somebody else",
        "runtime/connections/connections.py",
        CLUSTER_CONNECTIONS,
        ("any(e.allow_exclusive and e.has_group(", "any(e.has_group("),
    ),
    mutant(
        "word that is allowed for another group believed",
        "runtime/connections/connections.py",
        CLUSTER_CONNECTIONS,
        ("e.allow_exclusive and e.has_group(group.spec.group_id) for", "e.allow_exclusive for"),
    ),
    mutant(
        "key worked on twice at once",
        "runtime/work_queue.py",
        QUEUE,
        (
            "            entry.running, entry.again_at = True, None\n",
            "            entry.running, entry.again_at = False, None\n",
        ),
    ),
    mutant(
        "add during a round lost",
        "runtime/work_queue.py",
        QUEUE,
        (
            "        if entry.running:\n            entry.again_at = float(\"-inf\")\n            return\n        self._cancel_timer",
            "        if entry.running:\n            return\n        self._cancel_timer",
        ),
    ),
    mutant(
        "news during a round lost",
        "runtime/work_queue.py",
        QUEUE,
        ("            entry.again_at = at if entry.again_at is None else min(entry.again_at, at)\n", "            pass\n"),
    ),
    mutant(
        "news wait longer than what was asked for earlier",
        "runtime/work_queue.py",
        QUEUE,
        ("            self._add_at(key, entry, again_at)\n        if", "            self._add_at(key, entry, again_at)\n            return\n        if"),
    ),
    mutant(
        "end of a pod waits for other changes",
        "runtime/listener.py",
        ("tests/simulation/test_stories.py",),
        ("            on_end=self._pod_ended,\n", ""),
    ),
    mutant(
        "end of a container waits for other changes",
        "kube/pods/book.py",
        ("tests/unit/kube/pods/test_runs_seen.py",),
        (" or _ends(before) != _ends(after)", ""),
    ),
    mutant(
        "round rests on the first look",
        "runtime/memory/pace.py",
        REST,
        (" if is_same else 0.0", ""),
    ),
    mutant(
        "round rests while a pod grows old enough to be seen beside its member",
        "runtime/memory/pace.py",
        REST,
        (", _noted_ready_after_s(snapshot))", ", REPLAN_S)"),
    ),
    mutant(
        "restart of a pod not worth a look",
        "kube/pods/book.py",
        ("tests/unit/kube/pods/test_book.py",),
        ("i.ids_are_fixed, i.restarts, i.session_timeouts_ms", "i.ids_are_fixed, i.session_timeouts_ms"),
    ),
    mutant(
        "planning skipped while a member may be locked out",
        "runtime/memory/pace.py",
        ("tests/unit/runtime/test_crash_release.py",),
        (" and not decided.locked_out", ""),
    ),
    mutant(
        "round rests for ever",
        "runtime/memory/memory.py",
        REST,
        (" and now_s < self.cached.until_s", ""),
    ),
    mutant(
        "planning skipped after a change",
        "runtime/memory/memory.py",
        REST,
        ("            memory.change_count += 1\n", "            pass\n"),
    ),
    mutant(
        "bounds are not read again at rest",
        "runtime/gather.py",
        REST,
        ("        return is_recent and ", "        return "),
    ),
    mutant(
        "round rests while something grows old",
        "runtime/reconciler.py",
        REST,
        (" or memory.has_expiring_records", ""),
    ),
    mutant(
        "own status taken for one that somebody put over it",
        "runtime/memory/memory.py",
        REST,
        ("(self.expected is not None and status == self.expected)", "False"),
    ),
    mutant(
        "later delay wins over an earlier one",
        "runtime/work_queue.py",
        QUEUE,
        (" or (entry.timer is not None and entry.timer.when() <= due_at)", ""),
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
        "runtime/executor.py",
        CUT,
        ("        memory.history = with_outcomes(", "        history = with_outcomes("),
        ("return executed, replace(decided, history=memory.history)", "return executed, replace(decided, history=history)"),
    ),
    mutant(
        "rotated Secret not picked up",
        "runtime/connections/connections.py",
        ROUNDS,
        (" and self.monotonic_s() - read_at_s < self.max_age_s:\n", ":\n"),
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
        "core/findings/members.py",
        STATEMENTS,
        (
            "            is_transient=True,\n",
            "            is_transient=False,\n",
        ),
    ),
    mutant(
        "suspect hidden behind an ending pod",
        "core/findings/members.py",
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
        "kube/informer.py",
        OBJECTS,
        ("if k not in found]:\n            self._drop(key)\n", "if k not in found]:\n            pass\n"),
    ),
    mutant(
        "change reported that is older than a LIST",
        "kube/informer.py",
        OBJECTS,
        ("if not self._listed_version < version <= self._newest_version:", "if version > self._newest_version:"),
    ),
    mutant(
        "change of before a restore passed on",
        "kube/informer.py",
        OBJECTS,
        ("if not self._listed_version < version <= self._newest_version:", "if version <= self._listed_version:"),
    ),
    mutant(
        "change reported of what was under a name before",
        "kube/informer.py",
        OBJECTS,
        ("        if key in self._known and version <= self._known[key][1]:\n            return\n", ""),
    ),
    mutant(
        "end of a predecessor not reported",
        "kube/informer.py",
        OBJECTS,
        ("self._known[key][0] != uid:\n", "self._known[key][0] != uid and False:\n"),
    ),
    mutant(
        "kopf goes on from where a watch ended",
        "runtime/process/session.py",
        KOPF,
        ("        yield LIST_AGAIN\n", ""),
    ),
    mutant(
        "LIST that began before it was asked for taken as fresh",
        "kube/informer.py",
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
        "memory of an earlier term kept",
        "runtime/operator.py",
        PROCESS,
        ("        self.reconciler.forget_all()\n", ""),
    ),
    *(
        mutant(name, "runtime/process/namespaces.py", NAMESPACES, change)
        for name, change in (
            ("no namespace taken for all", (" or tuple(wanted)", "")),
            ("one answer that a namespace is gone believed", ("CHECKS: Final = 2", "CHECKS: Final = 1")),
            ("namespace served again of which only pods may be read", ("for resource in FOLLOWED)", "for resource in (PODS,))")),
        )
    ),
)
