"""The mutants: each breaks one rule of the evidence chain, of the removal order, or of what keeps clients starting.

A mutant is a name, one file, exact texts with their replacements, and the tests that must notice. Every hole that the
certificates, the chain and the order were found to have is here (design of the evidence chain), so that no later edit
can open it again unseen.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class MutantNotApplicable(Exception):
    """A mutant's text is not in the source exactly once; the mutant must follow the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One deliberate fault.

    Parameters
    ----------
    path: file below `operator/staticgroup`.
    changes: (old text, new text) pairs; each old text occurs exactly once.
    tests: pytest arguments; at least one of these tests must fail.
    """

    name: str
    path: str
    changes: tuple[tuple[str, str], ...]
    tests: tuple[str, ...]

    def apply(self, operator: Path) -> None:
        """Change the copy.

        Raises
        ------
        MutantNotApplicable: the source has moved on.
        """
        file = operator / "staticgroup" / self.path
        text = file.read_text(encoding="utf-8")
        for old, new in self.changes:
            if text.count(old) != 1:
                raise MutantNotApplicable(f"{self.path} holds {text.count(old)} times: {old.strip()!r}")
            text = text.replace(old, new)
        file.write_text(text, encoding="utf-8")


_CERTIFICATE = ("tests/unit/core/test_certificate.py",)
_CHAIN = ("tests/unit/core/test_chain.py",)
_WORDS = ("tests/unit/core/test_words.py",)
_PLAN = ("tests/unit/core/test_plan.py",)
_MEMORY = ("tests/unit/core/test_memory.py",)
_HISTORIES = (
    "tests/unit/core/test_continuity.py",
    "tests/unit/runtime/test_gaps.py",
    "tests/unit/kube/pods/test_names.py",
    "tests/unit/kube/pods/test_book.py",
)
_TIMEOUTS = ("tests/unit/core/test_timeouts.py",)
_ROUNDS = ("tests/unit/runtime/test_reconciler.py", "tests/unit/runtime/test_reconciler_memory.py")
_QUEUE = ("tests/unit/runtime/test_work_queue.py",)
_FAIRNESS = ("tests/unit/runtime/test_fairness.py",)
_CUT = ("tests/unit/runtime/test_round_cut.py",)
_SILENCE = ("tests/unit/kafka/test_silence.py",)
_LOGS = ("tests/unit/runtime/process/test_logs.py",)
_STATEMENTS = ("tests/unit/core/test_statements.py",)
_KUBE = ("tests/unit/kube/test_gateway.py",)
_BOOK = ("tests/unit/kube/pods/test_book.py", "tests/unit/kube/pods/test_everyday_ends.py")
_OTHER_NAMES = ("tests/unit/runtime/test_other_names.py",)
_ODD = (
    "tests/unit/runtime/test_odd_events.py",
    "tests/unit/runtime/test_put_back.py",
    "tests/unit/runtime/test_other_names.py",
    "tests/unit/kube/pods/test_restores.py",
    "tests/unit/kube/pods/test_odd_watches.py",
)
_FULL = ("tests/unit/runtime/test_full_ledger.py",)
_STORE = ("tests/unit/kube/pods/test_store.py",)
_BEHIND = ("tests/unit/kube/pods/test_behind.py",)
_WIRE = ("tests/unit/kafka/test_wire.py",)
_TRANSLATE = ("tests/unit/kube/test_translate.py",)
_NODES = ("tests/unit/kube/test_node_store.py",)
_OBJECTS = ("tests/unit/kube/test_object_stream.py",)
_PROCESS = ("tests/unit/runtime/test_operator.py",)
_PULLER = ("tests/unit/runtime/test_recommendations.py",)
_GATEWAY = ("tests/unit/kafka/test_gateway.py",)


def _mutant(name: str, path: str, tests: tuple[str, ...], *changes: tuple[str, str]) -> Mutant:
    return Mutant(name=name, path=path, changes=changes, tests=tests)


def _without_guard(guard: str) -> Mutant:
    return _mutant(f"guard {guard} dropped", "core/guards.py", _PLAN, (f"    {guard},\n", ""))


_CERTIFICATES = tuple(
    _mutant(name, "core/certificate.py", _CERTIFICATE, *changes)
    for name, *changes in (
        ("E1 without the phase rule", ("    if not version.is_terminal:\n", "    if False:\n")),
        ("phase written by PodGC accepted", ('if version.disruption_reason == "DeletionByPodGC":', "if False:")),
        (
            "phase written by the controller manager accepted",
            ("    if version.phase_manager in PHASE_MANAGERS_REFUSED:\n", "    if False:\n"),
        ),
        (
            "phase written by the PodGC of 1.26 accepted",
            ('frozenset({"kube-controller-manager", "PodGC"})', 'frozenset({"kube-controller-manager"})'),
        ),
        (
            "only a writer called kubelet believed",
            (
                "    if version.phase_manager in PHASE_MANAGERS_REFUSED:\n",
                '    if version.phase_manager != "kubelet":\n',
            ),
        ),
        (
            "phase of a third party accepted",
            ("    if not version.phase_has_statuses:\n", "    if False:\n"),
        ),
        ("node out of service accepted", ("    if node.is_out_of_service:\n", "    if False:\n")),
        ("hostPID pod accepted", ("    if version.host_pid:\n", "    if False:\n")),
        ("virtual-kubelet node accepted", ("    if node.is_virtual:\n", "    if False:\n")),
        ("old kubelet accepted", ("node.kubelet_minor < KUBELET_MINOR_MIN:", "node.kubelet_minor < 1:")),
        (
            "kubelet of unknown version accepted",
            (
                "if node.kubelet_minor is None or node.kubelet_minor <",
                "if node.kubelet_minor is not None and node.kubelet_minor <",
            ),
        ),
        ("container rule dropped", ("        or _container_refusal(version, ever if runs_known else None)\n", "")),
        (
            "empty status list accepted, all([])",
            (
                "    for container in version.required + (version.inits if is_any_unstarted else ()):\n",
                "    for container in (c for c in version.required if c.phase is not ContainerPhase.ABSENT):\n",
            ),
        ),
        (
            "only the first container asked",
            (
                "    for container in version.required + (version.inits if is_any_unstarted else ()):\n",
                "    for container in version.required[:1]:\n",
            ),
        ),
        ("ContainerStatusUnknown accepted", ("    if container.reason == STATUS_UNKNOWN:\n", "    if False:\n")),
        (
            "containerID not required",
            ("if not container.container_id or not container.finished_at:", "if not container.finished_at:"),
        ),
        (
            "finishedAt not required",
            ("if not container.container_id or not container.finished_at:", "if not container.container_id:"),
        ),
        ("never started without seen-from-birth", ("ever if runs_known else None", "ever")),
        (
            "never started after a run was shown",
            ("    if started is None or container.name in started:\n", "    if started is None:\n"),
        ),
        ("run that the last version shows forgotten", ("ever = started | version.started_containers", "ever = started")),
        ("init containers not asked", (" + (version.inits if is_any_unstarted else ())", "")),
        (
            "absent entry counts as never started",
            (
                "    return container.phase is ContainerPhase.WAITING or",
                "    return container.phase in (ContainerPhase.WAITING, ContainerPhase.ABSENT) or",
            ),
        ),
        ("end of a lost container counts as never started", ("(is_unknown and not container.finished_at)", "is_unknown")),
        ("pod whose init container ran never ran", ("    if not ever:\n", "    if not {c.name for c in version.required} & ever:\n")),
        (
            "pod that was bound certified as unbound",
            ("    if ever_bound or version.node_name:\n", "    if version.node_name:\n"),
        ),
    )
)

_FACTS = (
    _mutant(
        "any owner of the status counts as the writer of the phase",
        "kube/translate/pods.py",
        _TRANSLATE,
        ('        if "f:phase" not in owned or ', "        if not owned or "),
    ),
    _mutant(
        "oldest owner of the phase believed",
        "kube/translate/pods.py",
        _TRANSLATE,
        ("at >= written_at:", "at <= (written_at or at):"),
    ),
    _mutant(
        "restart count is no trace of a run",
        "kube/translate/pods.py",
        _TRANSLATE,
        (' or whole_of(entry, "restartCount", "status"):', ":"),
    ),
    _mutant(
        "last state is no trace of a run",
        "kube/translate/pods.py",
        _TRANSLATE,
        ('    return object_of(entry, "lastState", "status").get("terminated") is not None\n', "    return False\n"),
    ),
    _mutant(
        "lost container's last state without an id is no trace of a run",
        "kube/translate/pods.py",
        _TRANSLATE,
        (
            '"lastState", "status").get("terminated") is not None',
            '"lastState", "status").get("terminated", {}).get("containerID") is not None',
        ),
    ),
    _mutant(
        "running state is no trace of a run",
        "kube/translate/pods.py",
        _TRANSLATE,
        ('if state.get("running") is not None or text_of(', "if text_of("),
    ),
    _mutant(
        "out-of-service taint not read",
        "kube/translate/nodes.py",
        _TRANSLATE,
        ('any(taint.get("key") == OUT_OF_SERVICE_TAINT for taint in taints)', "False"),
    ),
    _mutant(
        "facts of a node that is gone forgotten",
        "kube/node_store.py",
        _NODES,
        ("return self._nodes.get(name) or self._vanished.get(name)", "return self._nodes.get(name)"),
    ),
    _mutant(
        "facts of a node asked once count for ever",
        "kube/node_store.py",
        _NODES,
        (
            "if self._asks_by_name and self._clock_s() - self._answered_s.get(name, -ASK_AGAIN_S) >= ASK_AGAIN_S:",
            "if self._asks_by_name and name not in self._answered_s:",
        ),
    ),
)

_FIXED_IDS = tuple(
    _mutant(name, "kube/translate/carried_ids.py", _TRANSLATE, *changes)
    for name, *changes in (
        (
            "id of an annotation taken for fixed",
            ('reference.get("fieldPath") in _FIXED_FIELDS', 'reference.get("fieldPath", "").startswith("metadata.")'),
        ),
        (
            "id of a ConfigMap taken for fixed",
            ('is_fixed = reference.get("fieldPath") in', 'is_fixed = not reference or reference.get("fieldPath") in'),
        ),
        (
            "id composed of what can be edited taken for fixed",
            (
                'is_fixed = "$(" not in text or all(reference in fixed for reference in _references(text))',
                "is_fixed = True",
            ),
        ),
        (
            "reference to a Service's variable taken for fixed",
            ("all(reference in fixed for", "all(reference in fixed or reference not in known for"),
        ),
        ("variable that is defined again keeps what it was", ("        fixed.discard(name)\n", "")),
        (
            "envFrom brings no id",
            ('            if objects_of(container, "envFrom", f"spec.{kind}[]"):\n', "            if False:\n"),
        ),
        (
            "variable of another name that reads the id's annotation overlooked",
            (' or "INSTANCE_ID" in name.upper() or value in annotated:', ' or "INSTANCE_ID" in name.upper():'),
        ),
        ("pod without an id in its environment has fixed ones", ("shows_id and are_fixed", "are_fixed")),
        (
            "ids beyond those that are looked at taken for fixed",
            ("            return frozenset(legal), False\n", "            break\n"),
        ),
        ("one fixed id makes all fixed", ("are_fixed = are_fixed and is_fixed", "are_fixed = is_fixed")),
    )
)

_CHAINS = (
    *(
        _mutant(name, "core/chain.py", _CHAIN, *changes)
        for name, *changes in (
            (
                "evidence of the newest incarnation only",
                (
                    "    chain = tuple(sorted(incarnations, key=lambda i: i.resource_version))\n",
                    "    chain = tuple(sorted(incarnations, key=lambda i: i.resource_version))[-1:]\n",
                ),
            ),
            (
                "incarnations of the pod name ignored",
                (
                    "    chain = tuple(sorted(incarnations, key=lambda i: i.resource_version))\n",
                    "    chain = tuple(i for i in incarnations if instance_id in i.instance_ids)\n",
                ),
            ),
            (
                "living incarnation accepted",
                ("        if i.state is not IncarnationState.DEAD and i not in namesakes:\n", "        if False:\n"),
            ),
            (
                "living pod with another id taken for one that cannot hold this one",
                ("    if namesakes:\n", "    if False:\n"),
            ),
            (
                "empty chain accepted",
                ("    if not namesakes and not is_carried:\n", "    if False:\n"),
            ),
            (
                "pod whose beginning was not seen taken for one that can never hold the id",
                ("instance_id) and i.from_birth and i.ids_are_fixed", "instance_id) and i.ids_are_fixed"),
            ),
            (
                "pod whose ids can be edited taken for one that can never hold the id",
                ("instance_id) and i.from_birth and i.ids_are_fixed", "instance_id) and i.from_birth"),
            ),
            (
                "carrier with fixed ids ruled out",
                (
                    "return _is_namesake(i, instance_id) and i.from_birth",
                    "return i.state is IncarnationState.LIVE and i.from_birth",
                ),
            ),
            (
                "chain without a carrier proven by a pod that is ruled out",
                ("if is_carried and _is_ruled_out(", "if _is_ruled_out("),
                ("    if not namesakes and not is_carried:\n", "    if not chain and not ruled_out:\n"),
            ),
            (
                "one pod that is ruled out excuses every pod of the name",
                (
                    "    chain = tuple(i for i in chain if i not in ruled_out)\n",
                    "    chain = tuple(i for i in chain if not ruled_out or i.state is not IncarnationState.LIVE)\n",
                ),
            ),
            (
                "newest version alone says whether ids are fixed",
                ("base.ids_are_fixed and version.ids_are_fixed", "version.ids_are_fixed"),
            ),
            (
                "first version alone says whether ids are fixed",
                ("base.ids_are_fixed and version.ids_are_fixed", "base.ids_are_fixed"),
            ),
            ("gap ignored", ("    if not continuous:\n", "    if False:\n")),
            (
                "DELETED with running containers counts as dead",
                (
                    "gone = replace(known, state=IncarnationState.SUSPECT, object_present=False,",
                    "gone = replace(known, state=IncarnationState.DEAD, object_present=False,",
                ),
            ),
            (
                "edited annotation hides an incarnation",
                ("instance_ids=base.instance_ids | version.instance_ids,", "instance_ids=version.instance_ids,"),
            ),
            (
                "another container's run forgotten",
                ("base.started_containers | version.started_containers", "version.started_containers"),
            ),
            (
                "certificate taken back by a later version",
                ("    if seen.certificate is not None and not seen.certificate.is_word:\n        return seen\n", ""),
            ),
        )
    ),
    _mutant(
        "blind seat taken for an unbroken one",
        "core/plan.py",
        _PLAN,
        ("    return known.is_unbroken(ordinal)\n", "    return True\n"),
    ),
    _mutant(
        "checkpoint of another epoch believed",
        "core/plan.py",
        _PLAN,
        ("known is None or known.epoch != snapshot.watch_epoch:", "known is None:"),
    ),
    _mutant(
        "new epoch written after a gap",
        "core/injection.py",
        _PLAN,
        (
            "watch_epoch=before.watch_epoch if before is not None else _first_epoch(",
            "watch_epoch=snapshot.watch_epoch if before is not None else _first_epoch(",
        ),
    ),
    _mutant(
        "lost memory beside carriers taken for a beginning",
        "core/injection.py",
        _PLAN,
        ("return EPOCH_UNKNOWN if _is_carried(spec, snapshot, scope, template) else", "return"),
    ),
    _mutant(
        "ids issued before the watch is anchored",
        "core/injection.py",
        _PLAN,
        (
            "if before is None and not (snapshot.watch_epoch and snapshot.cluster_uid):",
            "if before is None and not snapshot.cluster_uid:",
        ),
    ),
)

_GUARDS = (
    _mutant("no evidence", "core/guards.py", _PLAN, ("    chain_not_proven,\n", "")),
    *(
        _without_guard(guard)
        for guard in (
            "policy_never",
            "conflict",
            "unscoped",
            "duplicate",
            "pods_unseen",
            "not_read_afresh",
            "expected_again",
            "pod_present",
            "no_barrier",
            "two_incarnations",
            "zombie",
            "hold_window",
            "unsupported_group",
        )
    ),
    _mutant(
        "budget dropped",
        "core/plan.py",
        _PLAN,
        (
            "    allowed = max(1, len(group.members) * spec.removal.max_percent_of_group // 100)\n",
            "    allowed = len(removals)\n",
        ),
    ),
    _mutant(
        "missing workload waits no longer than a scale-down",
        "core/guards.py",
        _PLAN,
        ("        hold_s = max(hold_s, WORKLOAD_MISSING_HOLD_S)\n", "        pass\n"),
    ),
    _mutant(
        "leave entry without member id allowed",
        "core/group.py",
        _PLAN,
        ("if not self.member_id or not self.instance_id:", "if not self.instance_id:"),
    ),
)

_VERIFICATION = (
    _mutant(
        "verification skipped",
        "core/plan.py",
        _PLAN,
        ("    if not group.is_settled and not is_expired:\n        return record\n", ""),
    ),
    _mutant(
        "one reading of an absent group believed",
        "core/plan.py",
        _PLAN,
        (
            "    if is_expired and record.absent_since_s is None:\n        return replace(record, absent_since_s=now_s)\n",
            "",
        ),
    ),
    _mutant(
        "settled at the acknowledgement",
        "core/outcomes.py",
        _ROUNDS,
        (
            "            attempts=removal.attempt,\n",
            "            attempts=removal.attempt,\n            settled_at_s=now_s,\n",
        ),
    ),
    _mutant(
        "resurrected member not removed again",
        "core/guards.py",
        _PLAN,
        ("    if record is None or record.member_id == c.member.member_id:\n", "    if record is None:\n"),
    ),
    _mutant(
        "resurrected member stays settled",
        "core/plan.py",
        _PLAN,
        ("        return replace(record, absent_since_s=None, settled_at_s=None)\n", "        return record\n"),
    ),
    _mutant(
        "coordinator change ignored",
        "core/plan.py",
        _PLAN,
        ("    if record.coordinator != group.coordinator:\n", "    if False:\n"),
    ),
    _mutant(
        "one reading after a fail-over believed",
        "core/plan.py",
        _PLAN,
        ("COORDINATOR_CHANGE_SETTLE_S = 2.0\n", "COORDINATOR_CHANGE_SETTLE_S = 0.0\n"),
    ),
    _mutant(
        "unsure outcome counts as removed",
        "core/outcomes.py",
        _PLAN,
        ("        if outcome is not LeaveOutcome.REMOVED:\n            continue\n", ""),
    ),
)

_DURABLE = (
    _mutant(
        "suspects forgotten at a restart",
        "core/memory.py",
        _MEMORY,
        ("        kept.extend(i for i in versions if i.state is IncarnationState.SUSPECT)\n", ""),
    ),
    _mutant(
        "suspect of another name holds no position",
        "kube/pods/unwritten.py",
        _OTHER_NAMES,
        ("return sorted((record.namespace, name) for name, is_unwritten in self._counts(record).items() if is_unwritten)", "return []"),
    ),
    _mutant(
        "who has read nothing counts on nothing",
        "runtime/ledgers.py",
        _OTHER_NAMES,
        ("is_counted = is_issued and (identity is None or bool(identity.own_ids(suspect)))", "is_counted = False"),
    ),
    _mutant(
        "suspect of a later writer not believed",
        "kube/pods/book.py",
        _OTHER_NAMES,
        ("            if has_left and entry.resource_version >= known.resource_version:\n", "            if False:\n"),
    ),
    _mutant(
        "who cannot be read counts on nothing",
        "runtime/ledgers.py",
        _OTHER_NAMES,
        ("        if group is None or memory is None", "        if group is None:\n            return None\n        if memory is None"),
    ),
    _mutant(
        "suspect that nobody counted on is nobody's for ever",
        "runtime/ledgers.py",
        _OTHER_NAMES,
        ("-math.inf) < OF_NOBODY_S:", "-math.inf) < math.inf:"),
    ),
    _mutant(
        "word of a status about the Lease believed",
        "runtime/memories.py",
        _ODD,
        ("        if await self.still_holds():\n", "        if False:\n"),
    ),
    _mutant(
        "Lease not asked when a status names a later holding",
        "runtime/memories.py",
        ("tests/unit/runtime/test_premises.py",),
        ("        if await self.still_holds():\n", "        if True:\n"),
    ),
    _mutant(
        "holding confirmed whoever has the Lease",
        "kube/lease.py",
        ("tests/unit/kube/test_lease.py",),
        ("        if self._holding is None or self._holding_in(raw) != self._holding:\n            self._lose()\n            return False\n        return True", "        return True"),
    ),
    _mutant(
        "suspects of before the ids take room",
        "runtime/ledgers.py",
        _FULL,
        ("return to_remember(i for i in known if i.uid not in memory.predating)", "return to_remember(known)"),
    ),
    _mutant(
        "suspects of before the ids are waited for",
        "runtime/ledgers.py",
        _FULL,
        ("left = (i for i in known if memory is None or i.uid not in memory.predating)", "left = known"),
    ),
    _mutant(
        "suspects of other names purged",
        "kube/pods/unwritten.py",
        _ODD,
        (" or bool(self._counts(record))", ""),
    ),
    _mutant(
        "suspects durable when no session can be left",
        "core/memory.py",
        _ODD,
        ("        if i.state is IncarnationState.SUSPECT or now_s", "        if now_s"),
    ),
    _mutant(
        "death of another timeline believed",
        "core/memory.py",
        _ODD,
        ("    if (uid and not is_sealed(status, uid)) or is_other_timeline:\n", "    if uid and not is_sealed(status, uid):\n"),
    ),
    _mutant(
        "suspects of a status that was put over ours forgotten",
        "runtime/ledgers.py",
        _ODD,
        ("for s in (memory.status, memory.shown) if", "for s in (memory.status,) if"),
    ),
    _mutant(
        "ids that follow an annotation stay under their names",
        "runtime/histories.py",
        _ODD,
        ("return not (is_injected and is_composed) and", "return not is_injected and"),
    ),
    _mutant(
        "carrier of another name forgotten over a gap",
        "runtime/histories.py",
        _ODD,
        ("        if elsewhere or (elsewhere is None and", "        if (elsewhere is None and"),
    ),
    _mutant(
        "replay from below taken for a sight after the gap",
        "runtime/histories.py",
        _ODD,
        ("(pod.object_present or not is_behind) and ", ""),
    ),
    _mutant(
        "position goes back for a StaticGroup that is new",
        "kube/pods/handover.py",
        _ODD,
        ("= max(position, self._passed.get(scope, 0))", "= position"),
    ),
    _mutant(
        "each replica has its own timeline after a restore that was told",
        "kube/pods/epochs.py",
        _ODD,
        ("        if not self._is_rewinding:\n            # The same", "        if False:\n            # The same"),
    ),
    _mutant(
        "who shares the digest has put it back",
        "runtime/memories.py",
        _ODD,
        ("    return bool(owners) and names.FIELD_MANAGER not in owners\n", "    return bool(owners - {names.FIELD_MANAGER})\n"),
    ),
    _mutant(
        "older Lease than the one that was gone on from overlooked",
        "kube/lease.py",
        ("tests/unit/kube/test_lease.py",),
        ("        self._note_version(raw)\n        text =", "        text ="),
    ),
    _mutant(
        "seats not blind for suspects without room",
        "core/continuity.py",
        _FULL,
        ("    if known is None or not ended:\n", "    if True:\n"),
    ),
    _mutant(
        "dead without a certificate believed",
        "core/memory.py",
        _MEMORY,
        (
            "    is_dead = certificate is not None\n",
            "    is_dead = certificate is not None or entry.state is api.IncarnationState.DEAD\n",
        ),
    ),
    _mutant(
        "the dead displace suspects in a full ledger",
        "core/memory.py",
        _MEMORY,
        (
            "key=lambda i: (i.state is not IncarnationState.SUSPECT, i.uid not in needed, i.since_s, i.uid)",
            "key=lambda i: (i.state is IncarnationState.SUSPECT, i.uid not in needed, i.since_s, i.uid)",
        ),
    ),
    _mutant(
        "what the ledger does not hold counts as durable",
        "runtime/ledgers.py",
        _ROUNDS,
        ("if incarnation.uid not in waiting and", "if"),
    ),
)

_TIMEOUT = (
    _mutant(
        "session timeout injected for Consumer",
        "core/timeouts.py",
        _TIMEOUTS,
        ("        inject_ms=None,\n", "        inject_ms=need_ms,\n"),
    ),
    _mutant(
        "session timeout injected while the protocol is unknown",
        "core/timeouts.py",
        _TIMEOUTS,
        (
            "        inject_ms=chosen_ms if group_type is GroupType.CLASSIC else None,\n",
            "        inject_ms=chosen_ms,\n",
        ),
    ),
    _mutant(
        "bounds not clamped",
        "core/timeouts.py",
        _TIMEOUTS,
        ("    return max(lower_ms, min(stepped, upper_ms))\n", "    return stepped\n"),
    ),
    _mutant(
        "fixed timeout not clamped",
        "core/timeouts.py",
        _TIMEOUTS,
        ("        chosen_ms = max(broker_min_ms, min(wanted_ms, broker_max_ms))\n", "        chosen_ms = wanted_ms\n"),
    ),
    _mutant(
        "timeout not quantised",
        "core/timeouts.py",
        _TIMEOUTS,
        ("    stepped = -(-value_ms // STEP_MS) * STEP_MS\n", "    stepped = value_ms\n"),
    ),
)

_RECOMMENDATIONS = tuple(
    _mutant(name, path, tests, *changes)
    for path, tests, name, *changes in (
        (
            "core/advice.py",
            _TIMEOUTS,
            "recommended timeout not clamped",
            ("bounds.clamped_ms(quantised(record.recommended_ms))", "quantised(record.recommended_ms)"),
        ),
        (
            "core/advice.py",
            _TIMEOUTS,
            "recommended timeout not quantised",
            ("bounds.clamped_ms(quantised(record.recommended_ms))", "bounds.clamped_ms(record.recommended_ms)"),
        ),
        (
            "core/advice.py",
            _TIMEOUTS,
            "kept timeout not clamped",
            ("present_ms = bounds.clamped_ms(kept_ms) if", "present_ms = kept_ms if"),
        ),
        (
            "core/advice.py",
            _TIMEOUTS,
            "recommendation taken though the bounds leave no room",
            ("    if not bounds.is_feasible:\n", "    if False:\n"),
        ),
        (
            "core/advice.py",
            _TIMEOUTS,
            "recommendation for another setting taken",
            ("    if record.setting is not setting:\n", "    if False:\n"),
        ),
        (
            "core/advice.py",
            _TIMEOUTS,
            "recommendation taken before its canary wave",
            ("    if not record.released:\n", "    if False:\n"),
        ),
        (
            "core/timeouts.py",
            _TIMEOUTS,
            "three heartbeats do not bind a recommendation",
            ("heartbeat_interval_ms=heartbeat_interval_s * 1000", "heartbeat_interval_ms=0"),
        ),
        (
            "core/timeouts.py",
            _TIMEOUTS,
            "the brokers' maximum does not bind a recommendation",
            ("        broker_maximum_ms=broker_max_ms,\n", ""),
        ),
        (
            "core/plan.py",
            _PLAN,
            "recommendation changes the budget of removals",
            ("    allowed = max(1, len(", "    allowed = 1 if snapshot.advice else max(1, len("),
        ),
        (
            "core/memory.py",
            _PULLER,
            "recommended value forgotten at a restart",
            ("        fleet_timeout_ms=_fleet_timeout_ms(status),\n", ""),
        ),
        (
            "runtime/recommendations.py",
            _PULLER,
            "expired snapshot used",
            (" and now_ms < good.manifest.expires_ms:", ":"),
        ),
        (
            "runtime/recommendations.py",
            _PULLER,
            "expired record used",
            ("if not record.is_valid_at(now_ms):", "if False:"),
        ),
        (
            "runtime/recommendations.py",
            _PULLER,
            "unneeded shard not verified",
            ("        if digest != shard.sha256:\n", "        if False:\n"),
        ),
        (
            "runtime/recommendations.py",
            _PULLER,
            "unknown model used",
            ('if manifest.model_version.partition(".")[0] != MODEL_MAJOR:', "if False:"),
        ),
        (
            "runtime/recommendations.py",
            _PULLER,
            "redirect followed",
            ("allow_redirects=False", "allow_redirects=True"),
        ),
        (
            "api/recommendation.py",
            _PULLER,
            "shard not verified",
            ("    if hashlib.sha256(payload).hexdigest() != shard.sha256:\n", "    if False:\n"),
        ),
        (
            "api/recommendation.py",
            _PULLER,
            "manifest not verified",
            ("    if not is_whole:\n", "    if False:\n"),
        ),
    )
)

_SEATS = tuple(
    _mutant(name, path, _HISTORIES, *changes)
    for path, name, *changes in (
        (
            "core/continuity.py",
            "name kept because it has an object, whatever its uid",
            ("if s.uid in view.seen)", "if s.ordinal in {n.ordinal for n in view.seats})"),
        ),
        (
            "core/continuity.py",
            "uids compared over a restore",
            ("before.timeline != view.timeline or before.workload_name", "before.workload_name"),
        ),
        (
            "core/continuity.py",
            "seats inside of the range kept by the generation rule",
            ("        runs.append(inside)\n", ""),
        ),
        (
            "core/continuity.py",
            "generation not compared",
            ("before.is_complete and before.workload == view.read else", "before.is_complete else"),
        ),
        (
            "core/continuity.py",
            "observedGeneration not compared",
            (" or view.observed_generation != view.metadata_generation:", ":"),
        ),
        (
            "core/continuity.py",
            "object at an end of the gap taken for absent",
            ("return frozenset(unexplained | {s.ordinal for s in view.seats})", "return frozenset()"),
        ),
        (
            "core/continuity.py",
            "incomplete list of seats taken for all of them",
            ("before.workload if before.is_complete and", "before.workload if"),
        ),
        (
            "core/continuity.py",
            "swapped ids of a container that was started again forgotten",
            ("    if _may_have_swapped(before, view):\n", "    if False:\n"),
        ),
        (
            "core/continuity.py",
            "ids by hand kept clear by a name",
            ("    if view.are_ids_by_hand or before", "    if before"),
        ),
        (
            "core/continuity.py",
            "blind spans forgotten at the next gap",
            ("        blind = (*blind, span) if lost else blind\n", "        blind = (span,) if lost else ()\n"),
        ),
        (
            "core/continuity.py",
            "word closes a longer span",
            ("int(self.since_s) <= int(span.since_s) and ", ""),
        ),
        (
            "core/continuity.py",
            "word said before the span was over",
            ("min(self.until_s, self.said_at_s)", "self.until_s"),
        ),
        (
            "runtime/histories.py",
            "facts of the StatefulSet without a barrier behind them",
            ("if is_passed and self.pods.epoch == epoch else None", "if self.pods.epoch == epoch else None"),
        ),
        (
            "runtime/histories.py",
            "history that the status does not tell taken for innocence",
            ("return first if history.injected is None else self._forgotten(group, first)", "return first"),
        ),
        (
            "runtime/histories.py",
            "objects seen before the gap taken for seen",
            (" and self.pods.seen_under(pod.uid) in unbroken[o]", ""),
        ),
        (
            "core/memory.py",
            "object of a seat that is gone is no suspect",
            ("return (*remembered, *(i for i in seated(namespace, status) if i.uid not in known))", "return remembered"),
        ),
        (
            "kube/pods/book.py",
            "old version of a pod counts as seen now",
            ("changes = [self._take(version", "changes = [self.take(version"),
        ),
        (
            "kube/pods/names.py",
            "object that went with editable ids forgotten",
            ("if n not in same or listed[n].restarts != was.restarts", "if n in same and listed[n].restarts != was.restarts"),
        ),
    )
)

_ORDER = tuple(
    _mutant(name, "runtime/reconciler.py", _ROUNDS, *changes)
    for name, *changes in (
        (
            "no barrier",
            (
                "passed = bool(versions) and await self._barrier(namespace, versions, position)",
                "passed = bool(versions)",
            ),
        ),
        (
            "barrier before describe",
            (
                "        settings = await self.connections.settings(connection_key)\n        described",
                "        settings = await self.connections.settings(connection_key)\n        await self.pods.barrier(namespace, self.pods.position(namespace))\n        described",
            ),
            (
                "passed = bool(versions) and await self._barrier(namespace, versions, position)",
                "passed = bool(versions)",
            ),
        ),
        (
            "describe last",
            (
                "            chains = {i: self._chain(identity, group, i) for i in departed}  # step 4: only now\n",
                "            chains = {i: self._chain(identity, group, i) for i in departed}\n"
                "            described = await self.kafka.describe(settings, spec.group_id)\n",
            ),
        ),
        (
            "chains taken before the barrier",
            (
                "            chains = {i: self._chain(identity, group, i) for i in departed}  # step 4: only now\n",
                "",
            ),
        ),
        (
            "intent read dropped",
            (
                "        workload = await self.kube.read_workload(namespace, workload_name)\n        if",
                "        workload = cached\n        if",
            ),
        ),
        (
            "etcd restore not noticed",
            (
                "        position, epoch = self.pods.position(namespace), self.pods.epoch\n",
                "        position, epoch = 0, self.pods.epoch\n",
            ),
        ),
        (
            "observe ignored",
            ("        if spec.mode is Mode.OBSERVE:\n            return Executed(observe_only=True), decided\n", ""),
        ),
        (
            "forced observe ignored",
            ('return spec.model_copy(update={"mode": Mode.OBSERVE}) if self.force_observe else spec', "return spec"),
        ),
        ("suspend ignored", ("        if group.spec.suspend:\n", "        if False:\n")),
        (
            "lease not checked before the leave",
            (
                "        if not self.may_write():\n            return Executed(\n",
                "        if False:\n            return Executed(\n",
            ),
        ),
        (
            "deleted StaticGroup not noticed before the leave",
            ("        if not self._is_current(group):\n            return Executed(), decided\n", ""),
        ),
        (
            "lease not checked before a round is reported",
            (
                "        if not self.may_write():\n            return False\n        self.ledgers.forget_settled",
                "        self.ledgers.forget_settled",
            ),
        ),
        (
            "end durable before the status was written",
            (
                "counts as durable only when the write succeeded.\"\"\"\n",
                "counts as durable only when the write succeeded.\"\"\"\n        self.ledgers.mark_durable(key, known, status)\n",
            ),
        ),
        ("status written although nothing changed", ("        if status == memory.status and not memory.is_unsure:\n", "        if False:\n")),
    )
)

_REMEMBERED = tuple(
    _mutant(name, "runtime/memories.py", _ROUNDS + _CUT, *changes)
    for name, *changes in (
        (
            "lease not checked before the status",
            (
                "            if not self.may_write():\n                return False\n            was_unsure",
                "            was_unsure",
            ),
        ),
        (
            "unreadable StaticGroup starts with an empty memory",
            (
                "        if isinstance(body, KubeProblem) or body[",
                "        if isinstance(body, KubeProblem):\n            body = group.to_wire()\n        if body[",
            ),
        ),
        (
            "memory of a deleted StaticGroup kept for the next of its name",
            (
                "is_known = memory is not None and memory.uid == group.metadata.uid\n",
                "is_known = memory is not None\n",
            ),
        ),
        (
            "status write whose answer was lost believed not to have happened",
            ("            memory.is_unsure = True\n            answer", "            answer"),
        ),
    )
)

_EDGES = (
    _mutant(
        "older version overwrites newer",
        "kube/pods/book.py",
        _BOOK,
        ("if before is not None and version.resource_version <= before.resource_version:", "if False:"),
    ),
    _mutant(
        "skipped versions keep a pod known from birth",
        "kube/pods/book.py",
        _BOOK,
        (
            "        if before is not None and not in_order:\n            before = replace(before, from_birth=False, runs_known=False)\n",
            "",
        ),
    ),
    _mutant(
        "runs known from the last word alone",
        "core/pod.py",
        _BOOK,
        (" and not self.is_terminal and all(", " and all("),
    ),
    _mutant(
        "runs known where a container has no entry",
        "core/pod.py",
        _BOOK,
        (" and all(c.phase is not ContainerPhase.ABSENT for c in entries)", ""),
    ),
    _mutant(
        "runs of before known after a gap",
        "kube/pods/book.py",
        _BOOK,
        ("self.is_resumed and not self.era_of(version.namespace) and", "self.is_resumed and"),
    ),
    _mutant(
        "runs of before known at a first start",
        "kube/pods/book.py",
        _BOOK,
        ("return self.is_resumed and not", "return not"),
    ),
    _mutant(
        "older version whose ids can be edited overlooked",
        "kube/pods/book.py",
        _BOOK,
        (", ids_are_fixed=folded.ids_are_fixed,", ","),
    ),
    _mutant(
        "record forgets that ids can be edited",
        "kube/pods/records.py",
        _BOOK,
        ("ids_are_fixed=bool(flags & _FIXED)", "ids_are_fixed=True"),
    ),
    _mutant(
        "live pod that is not ruled out overlooked in the read",
        "core/guards.py",
        _PLAN,
        ("if uid not in certified | {", "if not c.chain.ruled_out and uid not in certified | {"),
    ),
    _mutant(
        "run that an older version shows forgotten",
        "kube/pods/book.py",
        _BOOK,
        ("started_containers=folded.started_containers, ", ""),
    ),
    _mutant(
        "state that moved on counts as durable",
        "kube/pods/unwritten.py",
        _BOOK,
        ("        if record is not None and record.state is not written.state:\n            return False\n", ""),
    ),
    _mutant(
        "workload whose history is gone goes on like the others",
        "kube/pods/behind.py",
        _BEHIND,
        ("        if not self.blind:\n            return epoch\n", "        if True:\n            return epoch\n"),
    ),
    _mutant(
        "full list lets the position pass those that have no room",
        "kube/pods/behind.py",
        _BOOK,
        ("*fresh.values(), *(p for _, p in homeless)", "*fresh.values()"),
    ),
    _mutant(
        "standby continues what it has not seen",
        "kube/pods/behind.py",
        _BEHIND,
        ("            if p < begun\n", "            if False\n"),
    ),
    _mutant(
        "workload without a position resumed from anywhere",
        "kube/pods/behind.py",
        _BEHIND,
        ("*(own for own in behind.values() if own > 0)", "*behind.values()"),
    ),
    _mutant(
        "earlier release told a position that a workload has not reached",
        "kube/pods/continuity.py",
        ("tests/unit/kube/pods/test_continuity.py",),
        ("{scope: self.floor(scope, position) for scope, position in positions.items()}", "dict(positions)"),
    ),
    _mutant(
        "restored etcd compared with the position of a workload",
        "kube/pods/stream.py",
        _BEHIND,
        ("self._complete_resume(max(resume_from, stored))", "self._complete_resume(resume_from)"),
    ),
    _mutant(
        "ids set by hand trusted beside a blind workload",
        "runtime/histories.py",
        ("tests/unit/runtime/test_gaps.py",),
        ('workload="" if by_hand else name', "workload=name"),
    ),
    _mutant(
        "status that somebody waits for waits for its turn",
        "runtime/memories.py",
        ("tests/unit/runtime/test_pace.py", *_ROUNDS),
        ("if memory.is_unsure or not can_wait(memory.status, status):", "if memory.is_unsure:"),
    ),
    _mutant(
        "status that waits counts as written",
        "runtime/memories.py",
        ("tests/unit/runtime/test_pace.py",),
        ("        if self._is_held_up(key, memory, status):\n            return False\n", "        if self._is_held_up(key, memory, status):\n            return True\n"),
    ),
    _mutant(
        "refused status asked for again at once",
        "runtime/memories.py",
        ("tests/unit/runtime/test_refusals.py",),
        ("            return memory.refusal.is_waiting(now_s)\n", "            return False\n"),
    ),
    _mutant(
        "barrier passes over a gap",
        "kube/pods/store.py",
        _STORE,
        ("        return passed and self.epoch == epoch\n", "        return passed\n"),
    ),
    _mutant(
        "barrier without a bookmark passes",
        "kube/pods/store.py",
        _STORE,
        ("        return passed and self.epoch == epoch\n", "        return self.epoch == epoch\n"),
    ),
    _mutant(
        "instance-only leave encoded",
        "kafka/wire.py",
        _WIRE,
        ("        if not entry.member_id or not entry.instance_id:\n", "        if not entry.instance_id:\n"),
    ),
    _mutant("empty batch encoded", "kafka/wire.py", _WIRE, ("    if not entries:\n", "    if False:\n")),
    _mutant(
        "error 29 read as an empty group",
        "kafka/describe.py",
        _GATEWAY,
        (
            "        if found.error_code != Code.NONE:\n            return self._refuse",
            "        if found.error_code not in (Code.NONE, Code.TOPIC_AUTHORIZATION_FAILED):\n            return self._refuse",
        ),
    ),
    _mutant(
        "group type not asked",
        "kafka/describe.py",
        _GATEWAY,
        (
            "(consumer if listing.group_type is GroupType.CONSUMER else classic).append(group_id)",
            "classic.append(group_id)",
        ),
    ),
    _mutant(
        "lost answer of a leave tried again blindly",
        "kafka/gateway.py",
        _GATEWAY,
        ("                if refusal.sent:\n                    return unknown\n", ""),
    ),
    _mutant(
        "answers matched to other entries",
        "kafka/gateway.py",
        _GATEWAY,
        (
            "    if echoed != [entry.instance_id for entry in entries]:\n        return (LeaveOutcome.RETRY,) * len(entries)\n",
            "",
        ),
    ),
)

_SHELL = (
    _mutant(
        "suspects of ids that nobody wants forgotten",
        "runtime/ledgers.py",
        _ROUNDS,
        (
            "            if not pod.object_present and pod.state is IncarnationState.DEAD\n",
            "            if not pod.object_present\n",
        ),
    ),
    _mutant(
        "evidence forgotten that another StaticGroup of the workload needs",
        "runtime/ledgers.py",
        ("tests/unit/runtime/test_shared_workload.py",),
        (".intersection(*(self._needless_to(other) for other in others))", ""),
    ),
    _mutant(
        "evidence forgotten before the removal is settled",
        "runtime/ledgers.py",
        _ROUNDS,
        ("        needed |= {r.instance_id for r in decided.history.removals if r.settled_at_s is None}\n", ""),
    ),
    _mutant(
        "key worked on twice at once",
        "runtime/work_queue.py",
        _QUEUE,
        (
            "            entry.running, entry.dirty = True, False\n",
            "            entry.running, entry.dirty = False, False\n",
        ),
    ),
    _mutant(
        "add during a round lost",
        "runtime/work_queue.py",
        _QUEUE,
        (
            "        if entry.running:\n            entry.dirty = True\n            return\n        self._cancel_timer",
            "        if entry.running:\n            return\n        self._cancel_timer",
        ),
    ),
    _mutant(
        "later delay wins over an earlier one",
        "runtime/work_queue.py",
        _QUEUE,
        (" or (entry.timer is not None and entry.due_at <= due_at)", ""),
    ),
    _mutant(
        "round without an end",
        "runtime/work_queue.py",
        _FAIRNESS,
        ("asyncio.timeout(self.deadline_s)", "asyncio.timeout(None)"),
    ),
    _mutant(
        "long round keeps its place",
        "runtime/turns.py",
        _FAIRNESS,
        ("        if self.late >= self.limits.late or ", "        if True or self.late >= self.limits.late or "),
    ),
    _mutant(
        "tenants take no turns",
        "runtime/turns.py",
        _FAIRNESS,
        ("                    self._tenants[name] = self._tenants.pop(name)  # to the end of the round\n", ""),
    ),
    _mutant(
        "silent lanes take every place of their tenant",
        "runtime/turns.py",
        _FAIRNESS,
        ("        if answers is False and tenant.doubted >= self.limits.doubted_of_tenant:\n", "        if False:\n"),
    ),
    _mutant(
        "each group waits for the same silent broker",
        "kafka/pool.py",
        _SILENCE,
        ("                slot.refuse_if_left_alone()\n", ""),
    ),
    _mutant(
        "acknowledged removal forgotten when the round is cut",
        "runtime/reconciler.py",
        _CUT,
        ("        memory.history = with_outcomes(", "        history = with_outcomes("),
        ("return executed, replace(decided, history=memory.history)", "return executed, replace(decided, history=history)"),
    ),
    _mutant(
        "rotated Secret not picked up",
        "runtime/connections/connections.py",
        _ROUNDS,
        ("and self.monotonic_s() - known.read_at_s < self.max_age_s\n", "and True\n"),
    ),
    _mutant(
        "refused login keeps the old Secret",
        "runtime/connections/connections.py",
        _ROUNDS,
        ("            self._secrets.pop((key[0], name), None)\n", "            pass\n"),
    ),
    _mutant(
        "secret in an extra field logged",
        "runtime/process/logs.py",
        _LOGS,
        ("            for name in vars(record).keys() - _STANDARD:\n", "            for name in ():\n"),
    ),
    _mutant(
        "secret in an exception logged",
        "runtime/process/logs.py",
        _LOGS,
        ("                record.exc_text = mask(record.exc_text, known)\n", "                pass\n"),
    ),
    _mutant(
        "kopf logs every event",
        "runtime/process/logs.py",
        _LOGS,
        ('    "kopf.objects": logging.WARNING,\n', '    "kopf.objects": logging.INFO,\n'),
    ),
    _mutant(
        "rolling restart alarms",
        "core/statements.py",
        _STATEMENTS,
        (
            "_TRANSIENT = frozenset({Reason.MEMBERS_AWAY, Reason.REMOVAL_IN_PROGRESS})\n",
            "_TRANSIENT = frozenset({Reason.REMOVAL_IN_PROGRESS})\n",
        ),
    ),
    _mutant(
        "ending pod told as a death that is not proven",
        "core/guards.py",
        _STATEMENTS,
        ("    ChainClause.LIVE: Guard.POD_ENDING,\n", ""),
    ),
    _mutant(
        "suspect hidden behind an ending pod",
        "core/statements.py",
        _STATEMENTS,
        (
            "    lasting = [h for h in plan.held if h.guard not in TRANSIENT_GUARDS]\n",
            "    lasting = [h for h in plan.held[:1] if h.guard not in TRANSIENT_GUARDS]\n",
        ),
    ),
    _mutant(
        "status of another uid overwritten",
        "kube/gateway.py",
        _KUBE,
        ('            if present["metadata"].get("uid") != uid:\n', "            if False:\n"),
    ),
    _mutant(
        "object that a LIST does not show kept",
        "kube/object_stream.py",
        _OBJECTS,
        ("            self._take_gone(uid)\n", "            pass\n"),
    ),
    _mutant(
        "LIST that began before it was asked for taken as fresh",
        "kube/object_stream.py",
        _OBJECTS,
        ("number = self._begun + 1\n        self.hurry()", "number = self._begun\n        self.hurry()"),
    ),
    _mutant(
        "StaticGroup dropped by its name",
        "runtime/stores.py",
        _PROCESS,
        ("        if self.group_uids.get(key, uid) != uid:\n            return False\n", ""),
    ),
    _mutant(
        "rounds of a lost Lease go on",
        "runtime/operator.py",
        _PROCESS,
        ("                await self.queue.stop()\n", ""),
    ),
    _mutant(
        "memory of an earlier term kept",
        "runtime/operator.py",
        _PROCESS,
        ("        self.reconciler.forget_all()\n", ""),
    ),
    _mutant(
        "Lease overwritten before its continuity was read",
        "runtime/operator.py",
        _PROCESS,
        ("        self.is_active = self._has_merged = False\n", "        self.is_active = False\n"),
    ),
)

_WORD = (*_WORDS, "tests/unit/kube/pods/test_words.py")
_RESTORED = ("tests/unit/runtime/commands/test_restored.py",)
_WORDS_OF_PEOPLE = (
    *(
        _mutant(name, "core/words.py", _WORD, change)
        for name, change in (
            (
                "a live incarnation confirmed dead",
                (
                    "        known.state is IncarnationState.SUSPECT\n        and not known.object_present\n        and (word",
                    "        known.certificate is None\n        and (word",
                ),
            ),
            ("word about an object that exists", ("        and not known.object_present\n", "")),
            (
                "word of another uid counts",
                (
                    "(word.namespace, word.pod_name, word.pod_uid) == (known.namespace, known.pod_name, known.uid)",
                    "(word.namespace, word.pod_name) == (known.namespace, known.pod_name)",
                ),
            ),
            (
                "word about another namespace counts",
                (
                    "(word.namespace, word.pod_name, word.pod_uid) == (known.namespace, known.pod_name, known.uid)",
                    "(word.pod_name, word.pod_uid) == (known.pod_name, known.uid)",
                ),
            ),
            ("word counts for a later suspicion", ("        and word.said_at_s >= int(known.since_s)\n", "")),
            (
                "outdated ledger brings a void word back",
                (" and entry.since_s >= int(known.since_s)\n", "\n"),
            ),
            (
                "ledger's word closes a life",
                (
                    "    return known.state is IncarnationState.SUSPECT and entry.since_s >=",
                    "    return entry.since_s >=",
                ),
            ),
        )
    ),
    _mutant(
        "word about a gap counts although nobody knows when it was said",
        "core/words.py",
        _WORD,
        (
            'until_s=spec.until.timestamp(),\n        said_at_s=created.timestamp() if created is not None else float("-inf")',
            'until_s=spec.until.timestamp(),\n        said_at_s=created.timestamp() if created is not None else float("inf")',
        ),
    ),
    _mutant(
        "the same word about a restore twice",
        "runtime/commands/restored.py",
        _RESTORED,
        ("-{secrets.token_hex(4)}", "-00000000"),
    ),
    _mutant(
        "word about a restore written over a version that nobody read",
        "runtime/commands/restored.py",
        _RESTORED,
        ('"metadata": metadata |', '"metadata": metadata | {"resourceVersion": None} |'),
    ),
    _mutant(
        "word survives the object's return",
        "core/chain.py",
        _WORD,
        (" and not seen.certificate.is_word:\n", ":\n"),
    ),
    _mutant(
        "word survives a LIST of the object",
        "kube/pods/book.py",
        _WORD,
        ("known = before if in_order or version.is_terminal else taken_back(before, now_s=self._now_s())", "known = before"),
    ),
    _mutant(
        "word not asked when a suspect is merged",
        "kube/pods/book.py",
        _WORD,
        ("            self._drop_superseded(record)\n        self._apply_words(record)\n", "            self._drop_superseded(record)\n"),
    ),
    _mutant(
        "word lets a removal pass an object that is there",
        "core/guards.py",
        _WORD,
        (" if i.certificate is not None and not i.certificate.is_word}", " if i.certificate is not None}"),
    ),
    _mutant(
        "confirmed end written as a certificate that an older operator refuses",
        "core/memory.py",
        _MEMORY,
        (
            "state=api.IncarnationState.SUSPECT if is_word else api.IncarnationState(i.state.value),",
            "state=api.IncarnationState(i.state.value),",
        ),
    ),
)

MUTANTS: tuple[Mutant, ...] = (
    *_CERTIFICATES,
    *_FACTS,
    *_FIXED_IDS,
    *_CHAINS,
    *_GUARDS,
    *_VERIFICATION,
    *_DURABLE,
    *_TIMEOUT,
    *_RECOMMENDATIONS,
    *_SEATS,
    *_ORDER,
    *_REMEMBERED,
    *_EDGES,
    *_SHELL,
    *_WORDS_OF_PEOPLE,
)
