"""The carrier rule: pods that were there when a member joined, pods that may live unseen, and dead members; a mutant per clause."""

from __future__ import annotations

from .mutant import mutant
from .suites import LOST_RUNS, MEMBERS, PLAN, RELEASES, SHARED_CREDENTIALS, VERIFICATION

CARRIERS = tuple(
    mutant(name, "core/members/carriers.py", MEMBERS, change)
    for name, change in (
        ("watch that is young has missed nobody", ("frozenset((*carrying, UNSEEN)) if is_watch_young else frozenset(carrying)", "frozenset(carrying)")),
        ("member that no pod explains is dead", ("    if not carriers and not has_one_ended:", "    if False:")),
        ("member whose pod ended before it was described never dies", ("    if not carriers and not has_one_ended:", "    if not carriers:")),
        ("certificate takes nobody out of the carriers", ("    left = self.carriers.difference(ended)", "    left = self.carriers")),
        ("pod that nobody saw is taken for one that was seen", ("not self.carriers.isdisjoint((UNSEEN, UNATTRIBUTED))", "not self.carriers.isdisjoint((UNSEEN,))")),
        ("member known by another member's attribution", ("return self.member == digest_of(member_id)", "return True")),
    )
)
SUSPECTS = tuple(
    mutant(name, "core/members/carriers.py", MEMBERS, change)
    for name, change in (
        ("suspect dropped at once", ("if asked_at_s - since_s < settle_s:", "if False:")),
        ("suspect never dropped", ("if asked_at_s - since_s < settle_s:", "if True:")),
        ("suspect that holds its seat is silent", ("    return attribution is None or attribution.is_guessed or suspect.uid in attribution.carriers", "    return attribution is None or attribution.is_guessed")),
        ("guessed member silences a suspect", (" or attribution.is_guessed or", " or")),
        ("member of whom nothing is known silences a suspect", ("    return attribution is None or attribution.is_guessed", "    return attribution is not None and (attribution.is_guessed)")),
        ("one silent seat of a suspect is enough", ("suspect.uid in present or any(", "suspect.uid in present or all(")),
        ("seats that a suspect cannot hold are its own", ("any(may_hold(suspect, i) for i in ids)", "any(True for i in ids)")),
        ("suspect whose object exists is silent", ("if suspect.uid in present or any(", "if any(")),
        ("silence begins with the question", ("since_s = answered_at_s if", "since_s = asked_at_s if")),
        ("silence lasts until the answer", ("if asked_at_s - since_s < settle_s:", "if answered_at_s - since_s < settle_s:")),
        ("silence goes on over a pause", ("answered_at_s if is_first or suspect.silent_since_s is None", "answered_at_s if suspect.silent_since_s is None")),
        ("silence begins anew at each look", ("answered_at_s if is_first or suspect.silent_since_s is None else suspect.silent_since_s", "answered_at_s")),
        ("silence outlasts a return", ("kept.append(replace(suspect, silent_since_s=None))", "kept.append(suspect)")),
        ("pod that is lost again is the same case", ('return f"{self.uid}@{self.since_s}@{self.has_lost_run}"', "return self.uid")),
    )
)
OTHER_IDS = ("tests/unit/runtime/test_other_ids.py",)
HOLDING = tuple(
    mutant(name, "core/ids/naming.py", MEMBERS, change)
    for name, change in (
        ("copy of an id under another name cannot hold it", ("            return True\n        name = seat", "            pass\n        name = seat")),
        ("what a client appends to is not carried", ("return self.naming.carried_as(self.instance_id)", "return frozenset((self.instance_id,))")),
        ("namesake of another namespace holds the id", ("return pod.namespace == self.namespace and ", "return ")),
        ("pod of another name holds the id", ("return pod.namespace == self.namespace and name in self.pod_names", "return pod.namespace == self.namespace")),
        ("pod of the name that carries another id cannot hold this one", ("and name in self.pod_names", "and name in self.pod_names and not (isinstance(pod, KnownPod) and self.shows_another(pod))")),
        ("ids that can be edited are fixed", ("pod.ids_are_fixed and ", "")),
        ("fixed id of somebody else tells that a pod holds none of ours", (" and any(map(self.naming.is_own, ids))", "")),
        ("client of a fixed id appends nothing", (" or any(may_become(i, self.instance_id) for i in ids)", "")),
        ("pod with a fixed id of ours may hold any", ("return pod.ids_are_fixed and", "return False and")),
    )
)
ADDRESS = tuple(
    mutant(name, "core/members/carriers.py", MEMBERS, change)
    for name, change in (
        ("address of the first member of a classic seat believed", ("if not member.is_host_current or not address or", "if not address or")),
        ("address that a suspect had is a live pod's alone", (" or any(not s.addresses or address in s.addresses for s in suspects)", " or any(not s.addresses for s in suspects)")),
        ("suspect that has shown no address has another one", ("not s.addresses or ", "")),
        ("one of two pods with an address", ("len(there) == 1 and", "bool(there) and")),
        ("address that was shown after the describe", (" and there[0].shown_at_s < described_at_s", "")),
        ("slash before an address", ('member.client_host.removeprefix("/")', "member.client_host")),
    )
)
NODE_GONE = tuple(
    mutant(name, "core/members/node_gone.py", MEMBERS, change)
    for name, change in (
        ("deletion of any Node tells", ("lifecycle is not NodeLifecycle.AUTO or suspect.provider in CLOUDS", "True")),
        ("deletion of Nodes tells though they are not trusted", ("    if lifecycle is NodeLifecycle.UNTRUSTED:\n", "    if False:\n")),
        ("Node that this process never saw is gone", ("if known is None or not suspect.machine or", "if known is not None and")),
        ("machine that is not known is gone", ("not suspect.machine or suspect.machine != digest_of(known.machine)", "suspect.machine not in ('', digest_of(known.machine))")),
        ("another machine's Node is gone for it", (" or suspect.machine != digest_of(known.machine)", "")),
        ("Node believed as soon as it is seen", ("return digest_of(node.machine) if is_watched and not", "return digest_of(node.machine) if not")),
        ("Node that was taken over while its pod was there believed", (" if is_watched and not was_taken_over else", " if is_watched else")),
        ("machine of a pod with a lost run believed", (" or pod.has_lost_run:", ":")),
        ("user's word about nodes not asked", ("lifecycle is not NodeLifecycle.AUTO or suspect.provider", "suspect.provider")),
    )
)
MEMORY_OF_MEMBERS = tuple(
    mutant(name, "core/members/memory.py", MEMBERS, change)
    for name, change in (
        ("description without a barrier attributes", ("if not sight.watch or (is_new and not sight.has_passed):", "if not sight.watch:")),
        ("description while the watch is not whole counts", ("if not sight.watch or (is_new and not sight.has_passed):", "if is_new and not sight.has_passed:")),
        ("member described again is attributed anew", ("m is not None and i not in known}", "m is not None}")),
        ("guessed member forgotten when its id is described empty", ("(i in held or a.is_guessed)", "(i in held)")),
        ("member that left remembered for ever", (" and (i in held or a.is_guessed)}", "}")),
        ("watch never young", ("    is_young, is_other = not is_covered(members.watch, sight.watch), ", "    is_young, is_other = False, ")),
        ("ids issued before any brokers were known are older somewhere", ("brokers in (\"\", brokers_now)", "brokers == brokers_now")),
        ("watch grown up with its first description", ("is_over = is_young and sight.described_at_s - young_since_s >= settle_s", "is_over = is_young")),
        ("watch grown up before a silence", (" - young_since_s >= settle_s", " - young_since_s > 0")),
        ("watch young for ever", ("watch=members.watch if is_still_young else sight.watch,", "watch=members.watch,")),
        ("pause between descriptions is silence", ("not 0 <= answered_at_s - before_s <= PAUSE_MAX_S", "False")),
        ("clock that went back is no pause", ("not 0 <= answered_at_s - before_s", "not answered_at_s - before_s")),
        ("end of long ago explains a new member", ("sight.last_end.get(instance_id, 0) > members.ends_seen", "sight.last_end.get(instance_id, 0) > 0")),
        ("end that a standby saw long ago explains a new member", ("has_one_ended=bool(members.watch_described) and sight", "has_one_ended=sight")),
        ("address not asked", ("sight.carrying.get(instance_id, frozenset()) if spoken_from is None else (spoken_from,)", "sight.carrying.get(instance_id, frozenset())")),
        ("address tells who was unseen", ("is_watch_young=is_watch_young,  #", "is_watch_young=is_watch_young and spoken_from is None,  #")),
        ("pods of the member before never end", ("attributions=attributions, former=former,", "attributions=attributions,")),
        ("suspect that was dropped taken in again", ("if s.case not in members.taken_in}", "}")),
        ("suspect that has ended stays", ("s.uid not in new and s.uid not in sight.ended and", "s.uid not in new and")),
        ("suspect that is there after all stays", (" and s.uid not in sight.back]", "]")),
        ("ended pod taken in as a suspect", ("(s for s in new.values() if s.uid not in sight.ended)", "new.values()")),
        ("end leaves the carriers as they are", ("{i: a.without(sight.ended) for", "{i: a for")),
        ("silence shorter than two sessions", ("*(2 * ms / 1000 for ms in session_timeouts_ms), ", "")),
        ("silence shorter than a grace period", (", *graces_s))", ",))")),
        ("member that came back after a durable leave is dead", ("unknown = frozenset((UNATTRIBUTED,))\n", "unknown = frozenset()\n")),
        ("next member of a seat taken for one that came back", ("if held.get(i) == m}", "}")),
    )
)
STATUS_OF_MEMBERS = tuple(
    mutant(name, "core/status/memory.py", MEMBERS, change)
    for name, change in (
        ("edited memory believed", ("    if memory.seal != seal_of(memory.watch, memory.seats, memory.suspects):", "    if False:")),
        ("seats not sealed", ("for entry in (*seats, *suspects))", "for entry in suspects)")),
        ("suspects not sealed", ("for entry in (*seats, *suspects))", "for entry in seats)")),
        ("watch not sealed", ("lines = (watch or \"\", *", "lines = (\"\", *")),
        ("member written as seen earlier than it was", ("wire_time(math.ceil(a.first_seen_s))", "wire_time(a.first_seen_s)")),
        ("carriers without room forgotten", ("if len(a.carriers) <= kept.CARRIERS_MAX else [UNATTRIBUTED]", "[: kept.CARRIERS_MAX]")),
        ("dead member is plain", ("return len(a.carriers) == 1 and", "return len(a.carriers) <= 1 and")),
        ("guessed member is plain", (" and not a.is_guessed\n", "\n")),
        ("plain seats first", ("key=lambda item: (_is_plain(item[1]), item[0])", "key=lambda item: (not _is_plain(item[1]), item[0])")),
        ("seats without room count as whole", (" and all(_is_plain(members.attributions[i]) for i in left_out)", "")),
        ("suspects without room count as whole", ("len(lost) == len(members.suspects) and all", "all")),
        ("suspect cut to what has room", ("if is_whole and length <= room and", "if length <= room and")),
        ("room for suspects not counted", ("if is_whole and length <= room and len(found) < kept.SUSPECTS_MAX:", "if is_whole:")),
        ("node of a suspect forgotten at a restart", ("        node_name=s.node,\n", "")),
        ("memory without room sealed", ("if has_room and (watch or", "if (watch or")),
        ("lost run forgotten at a restart", ("        has_lost_run=s.lost_run,\n        addresses=frozenset", "        addresses=frozenset")),
    )
)
RETURNED = (
    mutant("member that came back removed again", "core/guards.py", VERIFICATION, ("    returned,\n    carriers_left,\n", "    carriers_left,\n")),
    mutant("member that came back forgotten with its removal", "core/plan.py", VERIFICATION, ("return with_living(members, held, removed, sight.dated_at_s)", "return members")),
    mutant("classic leave taken for durable", "core/plan.py", VERIFICATION, ("is_durable = group.group_type is not GroupType.CLASSIC", "is_durable = True")),
    mutant("carriers not asked", "core/guards.py", PLAN, ("    returned,\n    carriers_left,\n", "    returned,\n")),
    mutant("member that was never described with a barrier taken for dead", "core/guards.py", PLAN, ("    if c.attribution is None:\n        sentence =", "    if False:\n        sentence =")),
    mutant("pods that have ended not taken out before a plan", "core/plan.py", PLAN, ("members = without_ended(members, sight) if sight is not None else", "members = members if sight is not None else")),
    mutant("first watch beside what is remembered", "core/injection.py", OTHER_IDS, ("    if history.members.watch or history.members.attributions or history.issued_ordinals:\n", "    if False:\n")),
    mutant("other ids without a scope are as old as those before", "core/members/memory.py", MEMBERS, (" and ids_now <= ids\n", "\n")),
    mutant("ids of fewer rules taken for others", "core/members/memory.py", MEMBERS, ("ids_now <= ids\n", "ids_now == ids\n")),
    mutant("members at other brokers are no older", "core/members/memory.py", MEMBERS, (" and brokers in (\"\", brokers_now) and", " and")),
    mutant("members of another watch are no older", "core/members/memory.py", MEMBERS, (" and name == name_now and", " and")),
    mutant("another cluster behind the same address is the same", "runtime/gather.py", OTHER_IDS, ("(connection.spec.bootstrap_servers), memory.kafka_cluster_id))", "(connection.spec.bootstrap_servers),))")),
    mutant("ids of earlier templates are as old as those of now", "core/ids/naming.py", OTHER_IDS, ("(s for s in self.schemes if not self.scope", "(s for s in self.schemes[:1] if not self.scope")),
    mutant("what is appended to ids without a scope makes no others", "core/ids/naming.py", OTHER_IDS, ("(s.template, *s.env_suffixes, \"\", *s.suffixes)", "(s.template, \"\")")),
    mutant("crash of a container that is not to have the id released", "core/releases.py", ("tests/unit/core/test_releases.py",), ("    if given.isdisjoint(run.container for run in c.runs):\n", "    if False:\n")),
    mutant("pod of an application with ids of its own blamed for what it shows", "core/seats.py", OTHER_IDS, ("((name, p) for name, p in lacking if not naming.is_brought or any", "((name, p) for name, p in lacking if True or any")),
    mutant("suspects that were silent under other ids forgotten", "core/members/memory.py", OTHER_IDS, ("taken_in=frozenset() if is_other else members.taken_in", "taken_in=members.taken_in")),
    mutant("crash beside an id of the application's own released", "core/releases.py", ("tests/unit/core/test_releases.py",), ("    if c.spec.client.type is ClientType.OWN:\n", "    if False:\n")),
    mutant("ids without a scope taken for new", "core/injection.py", PLAN, ('    if "{scope}" not in spec.template or ', "    if ")),
    mutant("ids of an old StaticGroup taken for new", "core/injection.py", PLAN, (" or snapshot.age_s >= snapshot.settle_least_s:", ":")),
    mutant("lost memory beside carriers taken for a beginning", "core/injection.py", PLAN, ("    return \"\" if is_carried else snapshot.watch\n", "    return snapshot.watch\n")),
    mutant("ids issued before the pod watch is whole", "core/injection.py", PLAN, ("if before is None and not (snapshot.watch and snapshot.cluster_uid):", "if False:")),
    mutant("scope of another StaticGroup counts over shared credentials", "core/ids/naming.py", SHARED_CREDENTIALS, ("return snapshot.is_word_refused and scope != drawn_scope(snapshot)", "return False")),
    mutant("scope that was drawn refused", "core/ids/naming.py", SHARED_CREDENTIALS, (" and scope != drawn_scope(snapshot)", "")),
    mutant("word refused where it was not", "core/ids/naming.py", SHARED_CREDENTIALS, ("return snapshot.is_word_refused and", "return")),
)
LOST = (
    mutant("lost run forgotten by the next version", "core/evidence/chain.py", LOST_RUNS, ("has_lost_run=base.has_lost_run or shows_lost_run(version),", "has_lost_run=shows_lost_run(version),")),
    mutant("lost run not asked before a certificate", "core/evidence/chain.py", LOST_RUNS, ("runs_known=seen.runs_known, has_lost_run=seen.has_lost_run\n", "runs_known=seen.runs_known\n")),
    *(
        mutant(name, "core/evidence/certificate.py", LOST_RUNS, change)
        for name, change in (
            ("lost run forgotten", ("if has_lost_run else None)\n", "if False else None)\n")),
            ("run that is lost is counted when the next one runs only", ("any(c.was_lost or _ended_unseen(c) for", "any(c.was_lost for")),
            ("run that never began taken for a lost one", (" and bool(end.container_id)\n    return is_over", "\n    return is_over")),
        )
    ),
    mutant("crash of a pod of which a run is lost released", "core/releases.py", RELEASES, ("    has_lost_run = c.pod.has_lost_run or any(", "    has_lost_run = any(")),
    mutant(
        "crash of a pod released of which a run was lost before the operator began", "core/releases.py", ("tests/unit/runtime/test_lost_runs.py",),
        (" or any(s.uid == c.pod.uid for s in c.history.members.suspects)", ""),
    ),
    mutant("crash released beside another carrier", "core/releases.py", RELEASES, ("c.attribution.carriers == {c.pod.uid} and", "c.pod.uid in c.attribution.carriers and")),
)
