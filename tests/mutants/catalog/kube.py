"""What a watch of pods keeps its name for, what the Lease says of it, and what an API server shows that went back in time."""

from __future__ import annotations

from .mutant import Mutant, mutant
from .suites import BARRIER, BOOK, GAPS, HANDOVER, LEASE, NAMESPACES, NODES, POSITION, RECORDS, RESTORES, STORE

_BOOK, _STORE, _STREAM, _POSITION = "book.py", "store.py", "watch/stream.py", "position.py"
_WATCHED: tuple[tuple[str, str, tuple[str, ...], tuple[str, str]], ...] = (
    # the name of the watch
    ("name kept over a gap", _STREAM, GAPS, ("        self.watch = new_watch(self._now_s(), self._rng)\n", "        self.watch = self.watch or new_watch(self._now_s(), self._rng)\n")),
    ("watch whole while a gap is reported", _STORE, GAPS, ("stream is None or not stream.is_anchored or stream.has_reported_gap:", "stream is None or not stream.is_anchored:")),
    ("watch older than its LIST", _POSITION, POSITION, ("int(now_s)) + 1}-", "int(now_s))}-")),
    ("two watches of one name", _POSITION, POSITION, ("{rng.getrandbits(32):08x}", "00000000")),
    ("comparison with a LIST finds nothing", _STREAM, GAPS, ("        if contradiction:\n", "        if False:\n")),
    ("pod that cannot be read passed over", _STREAM, GAPS, ("            return Gap(reason=f\"the pod watch sent a pod whose", "            return None and Gap(reason=f\"the pod watch sent a pod whose")),
    ("history that is gone asked for again", _STREAM, GAPS, ("return _expired(position) if stream.kind is KubeProblemKind.GONE else None", "return None")),
    ("what never ran known over a gap", _STORE, GAPS, ("        self._book.is_resumed = False\n        self._book.watch_no", "        self._book.watch_no")),
    # what a LIST does not show
    ("pod that a LIST does not show left alive", _STREAM, GAPS, ("        self.position = listing.resource_version\n        self._store.take_absent(self.scope, listing)\n", "        self.position = listing.resource_version\n")),
    ("LIST ends what was seen after it", _BOOK, BOOK, ("pod.object_present and pod.resource_version <= resource_version and", "pod.object_present and")),
    ("LIST of one namespace ends the pods of others", _BOOK, BOOK, ("pod for pod in self.index.in_scope(scope)\n", "pod for pod in self.index.in_scope(\"\")\n")),
    ("pods that exist forgotten", _BOOK, RECORDS, ("        if after.object_present:\n            self._gone.pop", "        if False:\n            self._gone.pop")),
    ("suspects forgotten before the ended", _BOOK, RECORDS, ("for state in (PodState.DEAD, PodState.SUSPECT):", "for state in (PodState.SUSPECT, PodState.DEAD):")),
    ("pods that are gone kept without bound", _BOOK, RECORDS, ("if len(self._gone) <= self._gone_max:", "if True:")),
    ("pod of which a run is lost not doubted while it is there", _BOOK, BOOK, ("        self._lost.update((after.uid,) if after.has_lost_run else ())", "        pass")),
    ("end that a LIST shows counted as one of the watch", _BOOK, BOOK, ("        if in_order and change.is_end and", "        if change.is_end and")),
    ("runs of before known at a first start", _BOOK, BOOK, ("return self.is_resumed and shows", "return shows")),
    # the Lease
    ("position of now stored", _STORE, HANDOVER, ("        limit_s = now_s - REPLAYED_S if", "        limit_s = now_s if")),
    ("position passes what no status tells yet", _STORE, HANDOVER, (" if unstored_since_s is None else min(now_s, unstored_since_s) - REPLAYED_S\n", "\n")),
    ("position held back no minute before what is not written", _STORE, HANDOVER, ("min(now_s, unstored_since_s) - REPLAYED_S\n", "min(now_s, unstored_since_s)\n")),
    ("position held by what is to come", _STORE, HANDOVER, ("else min(now_s, unstored_since_s) -", "else unstored_since_s -")),
    ("position taken at each renewal", _STORE, HANDOVER, ("now_s - self._samples[-1][0] >= SAMPLES_APART_S", "True")),
    ("positions kept without bound", _STORE, HANDOVER, ("                del self._samples[-2]\n", "                pass\n")),
    ("position of a reported gap stored", _STORE, HANDOVER, ("for s, p in kept if not self._streams[s].has_reported_gap})", "for s, p in kept})")),
    ("position of before a gap kept in the Lease", _STORE, HANDOVER, ("return WatchPosition({}) if self.gap_count else None", "return None")),
    ("position of before a gap stored after it", _STORE, HANDOVER, ("for s, p in sample.scopes.items() if s != scope})", "for s, p in sample.scopes.items()})")),
    ("what is stored overwritten before anything is known", _STORE, HANDOVER, ("return WatchPosition({}) if self.gap_count else None", "return WatchPosition({})")),
    ("standby adopts what it did not overlap", _STORE, HANDOVER, (" or stream.anchored_at <= position.resource_version:", " or True:")),
    ("standby keeps its own name", _STORE, HANDOVER, ("                stream.watch = position.watch\n", "")),
    ("holder goes on from now although it began from what is stored", _STORE, HANDOVER, ("            if stream.watch == position.watch or stream", "            if stream")),
    ("standby goes on from where it began", _STORE, HANDOVER, ("        self._samples = deque([(float(\"-inf\"), WatchPosition(adopted))] if adopted else ())\n", "")),
    ("replayed events taken for stored", _STORE, HANDOVER, ("        if resume is not None and self._book.is_resumed:\n", "        if False:\n")),
    ("name that nobody drew believed", _POSITION, POSITION, (" and WATCH_NAME.fullmatch(p.watch) for", " for")),
    ("position of nothing believed", _POSITION, POSITION, ("p.resource_version > 0 and", "True and")),
    ("position of no scope believed", _POSITION, POSITION, ("if scopes and is_whole else None", "if is_whole else None")),
    ("namespace does not go on from the position of all", _POSITION, POSITION, ("self.scopes.get(scope) or self.scopes.get(\"\")", "self.scopes.get(scope)")),
    # back in time
    ("certificate survives a pod that lives again", _BOOK, RESTORES, ("state=PodState.LIVE, certificate=None, resource_version=-1,", "resource_version=-1,")),
    ("what never ran known of a pod that lives again", _BOOK, ("tests/unit/kube/pods/test_everyday_ends.py",), ("from_birth=False, runs_known=False, alive_under", "alive_under")),
    ("deletion in the version that was seen before overlooked", _BOOK, BOOK, (" and version.resource_version == before.resource_version and after.object_present:", " and False:")),
    ("binding that was taken back believed", _BOOK, BOOK, ("            before = replace(before, has_lost_run=True)\n", "            pass\n")),
    ("pod that lives again begins no new watch", _STORE, RESTORES, ("        if change.is_back:\n", "        if False:\n")),
    ("object of before the restore taken for an old version", _BOOK, RESTORES, ("return is_older and before.resource_version <= listed_at", "return False")),
    ("LIST that a replay has overtaken taken for a restore", _BOOK, RESTORES, ("return is_older and before.resource_version <= listed_at", "return is_older and listed_at > 0")),
    ("comparison overlooks an object of before the restore", _BOOK, RESTORES, ("if listed_version < pod.resource_version <= resource_version:", "if False:")),
    ("versions of before a restore kept", _STORE, RESTORES, ("            self._book.forget_versions(scope)\n", "            pass\n")),
    ("versions of all namespaces forgotten", _BOOK, RESTORES, ("        for pod in tuple(self.index.in_scope(scope)):", "        for pod in tuple(self.index.in_scope(\"\")):")),
    ("restore overlooked when a watch comes back", _STREAM, RESTORES, ("            if current < known:\n", "            if False:\n")),
    ("restore overlooked that only the LIST after a gap shows", _STREAM, RESTORES, ("        if listing.resource_version < self.position:\n", "        if False:\n")),
    ("restore overlooked by a process that goes on", _STREAM, RESTORES, ("        if listing.resource_version < resume_from:\n", "        if False:\n")),
    ("restore overlooked by the comparison", _STREAM, RESTORES, ("        if listing.resource_version < before:\n", "        if False:\n")),
    ("restore overlooked by a barrier", _STORE, BARRIER, ("        if resource_version < not_below:\n", "        if False:\n")),
    ("restore that is reported while another gap begins lost", _STREAM, RESTORES, ("            gap = self._reported_gap  # reported while another gap began\n", "            pass\n")),
    ("read compared with a position that was reached after it", _STREAM, RESTORES, ("            if current < known:\n", "            if current < self.position:\n")),
    # the barrier
    ("barrier passes over a gap", _STORE, (*BARRIER, *STORE), (" and self.watch(namespace) == name\n", "\n")),
    ("barrier without a bookmark passes", _STORE, BARRIER, ("        has_passed = all(p for s, p in", "        has_passed = all(True for s, p in")),
    ("barrier in the StaticGroup's own namespace only", _STORE, BARRIER, ("for s in self._streams.values() if s is stream or not s.is_refused]", "for s in self._streams.values() if s is stream]")),
    ("barrier waits for a namespace that may not be followed", _STORE, BARRIER, ("for s in self._streams.values() if s is stream or not s.is_refused]\n        passed = await asyncio.gather(*(self._reaches(s, resource_version) for s in followed))\n        has_passed = all(p for s, p in zip(followed, passed, strict=True) if s is stream or not s.is_refused)", "for s in self._streams.values()]\n        passed = await asyncio.gather(*(self._reaches(s, resource_version) for s in followed))\n        has_passed = all(passed)")),
    ("barrier passes over a namespace that is only not answered for", _STREAM, BARRIER, ("self.problem is not None and self.problem.kind in", "self.problem is not None or None in")),
    ("namespace that may not be followed ends the process", _STORE, BARRIER, ("for s in self._streams.values() if not s.is_refused), default=now_s)", "for s in self._streams.values()), default=now_s)")),
    ("present reached without a read", _STORE, BARRIER, ("        return current is not None and await self.barrier(namespace, current, not_below=position)", "        return await self.barrier(namespace, current or position, not_below=position)")),
)  # fmt: skip

WATCHES: tuple[Mutant, ...] = (
    *(mutant(name, f"kube/pods/{path}", tests, change) for name, path, tests, change in _WATCHED),
    mutant("position in the Lease that is never read", "kube/lease.py", LEASE, ("            annotations[POSITION_ANNOTATION] = position.to_json()\n", "            pass\n")),
    mutant("no answer taken for a Lease that does not exist", "kube/lease.py", LEASE, ("        while isinstance(raw := await self._read(), KubeProblem):", "        while isinstance(raw := await self._read(), KubeProblem) and False:")),
    *(
        mutant(name, "kube/nodes/store.py", NODES, change)
        for name, change in (
            ("end of a Node is no news", ("        self._vanished[name] = self._nodes.pop(name)\n        self._on_change(name)\n", "        self._vanished[name] = self._nodes.pop(name)\n")),
            ("Node that a LIST does not show kept", ("        if is_deleted:\n            self._remember_vanished(", "        if is_deleted:\n            str(")),
            ("Node that cannot be read taken for gone", ("        if is_deleted:\n", "        if is_deleted or not isinstance(view, NodeView):\n")),
            ("machine that a Node stood for before forgotten", ("other_until_s=self._now_s() + CLOCKS_APART_S if is_other else before.other_until_s", "other_until_s=before.other_until_s")),
            ("machine that a Node stood for before its object was made anew forgotten", ("        known, before = self._nodes.get(view.name), self._nodes.get(view.name) or self._vanished.get(view.name)\n", "        known = before = self._nodes.get(view.name)\n")),
        )
    ),
    *(
        mutant(name, "runtime/process/namespaces.py", NAMESPACES, change)
        for name, change in (
            ("namespace that may not be read waited for", ("    if any(isinstance(each, KubeProblem) and each.kind in _REFUSED for each in answers):\n        return False\n", "")),
            ("namespace that is gone waited for", ("    if isinstance(answer, KubeProblem) and answer.kind is KubeProblemKind.NOT_FOUND:\n        return False\n", "")),
            ("API server that is busy taken for a refusal", (" and each.kind in _REFUSED for each", " for each")),
            ("namespace served again that nobody says is there", ("each, KubeProblem) for each in (answer, *answers))", "each, KubeProblem) for each in answers)")),
            ("process ends again and again where nothing could be served", ("            counts.clear()", "            pass")),
        )
    ),
)  # fmt: skip
