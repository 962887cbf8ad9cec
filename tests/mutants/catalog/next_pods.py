"""What the next pods receive: session timeouts, and recommendations of which nothing is trusted."""

from __future__ import annotations

from .mutant import mutant
from .suites import (
    ABSENCES,
    AGREEMENT,
    BOUNDS,
    DESIRED,
    GROUP_CONFIG,
    HOLDS,
    MEASURED,
    MEMORY,
    PULLER,
    RESERVOIR,
    TIMEOUTS,
)

TIMEOUT = tuple(
    mutant(name, path, tests, *changes)
    for path, tests, rows in (
        ("core/timeouts/in_force.py", TIMEOUTS, (
            ("session timeout injected for Consumer", ("    inject_ms = None if assumed.group_setting else chosen_ms\n", "    inject_ms = chosen_ms\n")),
            ("session timeout injected while the protocol is unknown", ("    if protocol is None or injection.verdict in _GOES_ON:", "    if injection.verdict in _GOES_ON:")),
        )),
        ("core/timeouts/in_force.py", HOLDS, (
            ("session timeout of before lost while later ids are refused", ("    if protocol is None or injection.verdict in _GOES_ON:", "    if protocol is None:")),
        )),
        ("core/timeouts/desired.py", TIMEOUTS, (
            ("bounds not clamped", ("bounds.clamped_ms(quantised(self.target_ms))", "quantised(self.target_ms)")),
            ("fixed timeout not clamped", ("            return max(bounds.broker_min_ms, min(self.target_ms, bounds.broker_max_ms))\n", "            return self.target_ms\n")),
            ("timeout not quantised", ("clamped_ms(quantised(self.target_ms))", "clamped_ms(self.target_ms)")),
        )),
        ("core/timeouts/bounds.py", BOUNDS, (
            ("session timeout chosen below what clients have by default", ("min_ms or DEFAULT_MS, max_ms\n", "min_ms, max_ms\n")),
            ("session timeout chosen with which librdkafka does not start", ("(client.limit_ms if not client.shows_limit else None) or 1000 * SESSION", "1000 * SESSION")),
            ("user's maximum before the max.poll.interval.ms that the template shows", ("        (0, shown_ms or TIMEOUT_MS_MAX),\n", "")),
            ("heartbeat interval that the template shows overlooked", ("client.heartbeat_ms or brokers.heartbeat_ms", "brokers.heartbeat_ms")),
            ("Java client bound by what librdkafka refuses", ("        return ClientLimits(heartbeat_ms=heartbeat_ms, limit_ms=None)\n", "        return Client(heartbeat_ms=heartbeat_ms)\n")),
        )),
    )
    for name, *changes in rows
)  # fmt: skip
RECOMMENDATIONS = tuple(
    mutant(name, path, tests, *changes)
    for path, tests, rows in (
        ("core/timeouts/desired.py", TIMEOUTS, (
            ("recommended timeout not clamped", ("bounds.clamped_ms(quantised(record.recommended_ms))", "quantised(record.recommended_ms)")),
            ("recommended timeout not quantised", ("bounds.clamped_ms(quantised(record.recommended_ms))", "bounds.clamped_ms(record.recommended_ms)")),
            ("kept timeout not clamped", ("present_ms = bounds.clamped_ms(kept_ms) if", "present_ms = kept_ms if")),
            ("recommendation for another setting taken", ("    if record.setting != setting:\n", "    if False:\n")),
            ("recommendation taken before its canary wave", ("    if not record.is_released:\n", "    if False:\n")),
        )),
        ("core/timeouts/bounds.py", TIMEOUTS, (
            ("three heartbeats do not bind a recommendation", ("        (HEARTBEATS_PER_TIMEOUT_MIN * heartbeat_ms, TIMEOUT_MS_MAX),\n", "")),
            ("the brokers' maximum does not bind a recommendation", ("        (broker_min_ms, broker_max_ms),\n", "        (broker_min_ms, TIMEOUT_MS_MAX),\n")),
        )),
        ("core/status/memory.py", PULLER, (
            ("recommended value forgotten at a restart", ("        fleet_timeout_ms=_fleet_timeout_ms(status),\n", "")),
        )),
        ("../journal/recommendations/reader.py", PULLER, (
            ("expired snapshot used", (" and now_ms < good.manifest.expires_ms:", ":")),
            ("expired record used", ("if not record.is_valid_at(now_ms):", "if False:")),
            ("unneeded shard not verified", ("        if digest != shard.sha256:\n", "        if False:\n")),
            ("unknown model used", ('if manifest.model_version.partition(".")[0] != MODEL_MAJOR:', "if False:")),
            ("redirect followed", ("allow_redirects=False", "allow_redirects=True")),
        )),
        ("../journal/recommendations/manifest.py", PULLER, (
            ("shard not verified", ("    if hashlib.sha256(payload).hexdigest() != shard.sha256:\n", "    if False:\n")),
            ("manifest not verified", ("    if not is_whole:\n", "    if False:\n")),
        )),
    )
    for name, *changes in rows
)  # fmt: skip
IN_FORCE = tuple(
    mutant(name, path, tests, *changes)
    for path, tests, rows in (
        ("core/timeouts/in_force.py", HOLDS, (
            ("session timeout of the next pods shown as the one in force", ("        shortest_ms=min(shown, default=None),\n", "        shortest_ms=t.chosen_ms,\n")),
            ("pods that show no session timeout taken to have the injected one", ("        unknown=len(silent) + unseen,\n", "")),
            ("pods out of sight taken for none", ("    unseen = _unseen(snapshot)\n", "    unseen = 0\n")),
            ("pods started with too little not judged", ("    if shortest_ms is not None and shortest_ms < t.desired.need_ms:\n", "    if False:\n")),
            ("injected although the method says no", ("    return t.inject_ms if _injects(injection) and t.inject_ms", "    return t.inject_ms if t.inject_ms")),
            ("classic pods left in a consumer group not reported", ("held = {t.brokers.group_ms} | (shown if _of_template(spec, snapshot) is None else set())", "held = {t.brokers.group_ms}")),
        )),
        ("core/evidence/chain.py", HOLDS, (
            ("edited annotation taken for what the process started with", ("base.session_timeouts_ms if is_under_way else version", "version")),
        )),
        ("kube/translate/carried_ids.py", ("tests/unit/kube/translate/test_translated_ids.py",), (
            ("session timeout that no client takes believed", ("    return int(text) if 0 < int(text) <= TIMEOUT_MS_MAX else None\n", "    return int(text)\n")),
        )),
        ("runtime/memory/pace.py", ("tests/unit/runtime/test_status_pace.py",), (
            ("every pod's session timeout written at once", ('    of_pods = {"summary": None, "seconds": None, "longest_seconds": None, "unknown_pods": 0, "why": None}\n', "    of_pods: dict[str, int] = {}\n")),
        )),
    )
    for name, *changes in rows
)  # fmt: skip
EXPERIENCE = tuple(
    mutant(name, path, tests, *changes)
    for path, tests, rows in (
        ("core/absences/samples.py", MEASURED, (
            ("percentile of few absences taken for its bound", ("        if reached >= CONFIDENCE - 1e-12:\n", "        if reached >= 0.5:\n")),
            ("longest of few absences not stretched", ("-(-longest_ms * (number + 1) // number)", "longest_ms")),
            ("frequent short crashes hide slow rollouts", ("    return max(found, key=lambda need: need.need_ms, default=None)", "    return found[-1] if found else None")),
        )),
        ("core/timeouts/desired.py", MEASURED, (
            ("session timeout lowered at once", ("        if asked_ms >= self.timeout_ms:\n", "        if True:\n")),
        )),
        ("core/absences/samples.py", RESERVOIR, (
            ("old absences kept as long as new ones", (" - self.at_s * math.log(2) / HALF_LIFE_S", "")),
            ("members of one process counted apart", ("        if twin is not None:\n", "        if twin is not None and False:\n")),
        )),
        ("core/absences/measure.py", ABSENCES, (
            ("session that locks a restart out makes itself longer", ("    if not is_seen or not is_released or", "    if not is_seen or")),
            ("absence from before the first round measured", ("            later = (end for end in ends.get(seat.key, ()) if end.at_ms > now.since_ms)\n", "            later = ends.get(seat.key, ())\n")),
            ("night without replicas taken for a restart", ("    after, reservoirs, fresh = {}, dict(kept),", "    after, reservoirs, fresh = dict(before), dict(kept),")),
            ("pod without a node taken for a slow restart", (" or longest_ms > longest_restart_ms(snapshot.workload):", ":")),
        )),
        ("core/timeouts/desired.py", DESIRED, (
            ("value rounded up beyond twice the longest absence", ("        target_ms = lower_ms\n", "        pass\n")),
            ("value rounded down below what is needed", (" < quantised(target_ms) and lower_ms >= need_ms:", " < quantised(target_ms):")),
            ("fleet outvoted by fewer restarts", (" and own.samples >= stops:", ":")),
        )),
        ("core/timeouts/in_force.py", DESIRED, (
            ("group set although its bounds are not known", ("brokers.group_ms is not None and not bounds.is_assumed:", "brokers.group_ms is not None:")),
        )),
        ("core/timeouts/group_config.py", GROUP_CONFIG, (
            ("stored settings outside new bounds left in the way", ("values={**misfits, setting: target_ms}", "values={setting: target_ms}")),
            ("raised session timeout said to hold before anybody beat", ("    is_slow = bool(self.absent) or now_s < self.held_at_s", "    is_slow = bool(self.absent) and now_s < self.held_at_s")),
            ("raised session timeout said to be that of members that are away", ("    is_slow = bool(self.absent) or now_s", "    is_slow = now_s")),
            ("refused setting asked for in every round", ("if record.is_open else RETRY_AFTER_S)", "if record.is_open else 0.0)")),
            ("setting of somebody else overwritten", ("    if stored_ms is not None and record.written_ms is not None and not is_own:\n", "    if False:\n")),
            ("deleted setting not set again", ("    if stored_ms is not None and record.written_ms is not None and not is_own:\n", "    if record.written_ms is not None and not is_own:\n")),
            ("longer setting from before lowered", ("    if not keeps and stored_ms is not None and not is_own:\n", "    if False:\n")),
            ("setting that was just sent taken for somebody else's", ("in (record.written_ms, sent_ms, wanted_ms)", "in (record.written_ms, wanted_ms)")),
            ("stored setting of another protocol in the way of every change", ("    if obstacle := _obstacle(protocol, bounds):\n", "    if (obstacle := _obstacle(protocol, bounds)) and False:\n")),
        )),
        ("core/timeouts/in_force.py", GROUP_CONFIG, (
            ("group set without the opt-in", ("spec.mode is Mode.MANAGE and session.write_group_config", "spec.mode is Mode.MANAGE")),
            ("group set in mode Observe", ("spec.mode is Mode.MANAGE and session.write_group_config", "session.write_group_config")),
            ("group's setting lowered while there is no workload", ('keeps = "" if snapshot.workload is not None else', 'keeps = "" if True else')),
        )),
        ("core/timeouts/in_force.py", AGREEMENT, (
            ("what other StaticGroups want of their one setting ignored", ("min(max(chosen_ms, snapshot.asked_by_others_ms), bounds.broker_max_ms)", "min(chosen_ms, bounds.broker_max_ms)")),
            ("group's setting lowered before all have said what they want", ("        if snapshot.unheard:\n", "        if False:\n")),
        )),
        ("core/status/projection.py", AGREEMENT, (
            ("number shown to others that the own bounds do not allow", ("    own_ms = t.chosen_ms if t.is_of_group", "    own_ms = t.desired.target_ms if t.is_of_group")),
        )),
        ("core/status/memory.py", GROUP_CONFIG, (
            ("what the operator has set on a group forgotten at a restart", ("written_ms=timeout.written_ms if timeout is not None else None", "written_ms=None")),
        )),
        ("core/status/memory.py", MEMORY, (
            ("what others want of the group taken for the fleet's value", ("    return status.memory.timeout.own_ms if", "    return status.memory.timeout.next_ms if")),
        )),
        ("runtime/rivals.py", AGREEMENT, (
            ("StaticGroup that rests not counted although its members run", (" if protocol_asked_for(o.spec) is not", " if o.spec.mode is not Mode.SUSPENDED and protocol_asked_for(o.spec) is not")),
            ("StaticGroup that cannot be read taken for one that wants nothing", ("if ms is None), *unread))", "if ms is None),))")),
        )),
        ("core/timeouts/group_config.py", AGREEMENT, (
            ("setting of a StaticGroup beside it taken for somebody else's", ("in (record.written_ms, sent_ms, wanted_ms)", "in (record.written_ms, sent_ms)")),
        )),
        ("core/timeouts/in_force.py", HOLDS, (
            ("longer timeout shown before the first heartbeat with it", ("    shown |= before\n", "")),
        )),
    )
    for name, *changes in rows
)  # fmt: skip
