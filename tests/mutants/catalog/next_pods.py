"""What the next pods receive: session timeouts, and recommendations of which nothing is trusted."""

from __future__ import annotations

from .mutant import mutant
from .suites import (
    ABSENCES,
    AGREEMENT,
    BOUNDS,
    GROUP_CONFIG,
    HOLDS,
    MEASURED,
    MEMORY,
    PLAN,
    PULLER,
    RESERVOIR,
    TIMEOUTS,
    WISHES,
)

TIMEOUT = (
    mutant(
        "session timeout injected for Consumer",
        "core/next_pods/group_timeouts.py",
        TIMEOUTS,
        ("        told, bounds, source=", "        told, bounds, inject_ms=need_ms, source="),
    ),
    mutant(
        "session timeout injected while the protocol is unknown",
        "core/next_pods/choice.py",
        TIMEOUTS,
        (
            "        inject_ms=chosen_ms if is_known else None,\n",
            "        inject_ms=chosen_ms,\n",
        ),
    ),
    mutant(
        "bounds not clamped",
        "core/next_pods/wishes.py",
        TIMEOUTS,
        ("bounds.clamped_ms(quantised(wish.target_ms))", "quantised(wish.target_ms)"),
    ),
    mutant(
        "fixed timeout not clamped",
        "core/next_pods/wishes.py",
        TIMEOUTS,
        ("        return max(bounds.broker_min_ms, min(wish.target_ms, bounds.broker_max_ms))\n", "        return wish.target_ms\n"),
    ),
    mutant(
        "timeout not quantised",
        "core/next_pods/wishes.py",
        TIMEOUTS,
        ("clamped_ms(quantised(wish.target_ms))", "clamped_ms(wish.target_ms)"),
    ),
    mutant(
        "session timeout chosen below what clients have by default",
        "core/next_pods/bounds.py",
        BOUNDS,
        ("min_ms or DEFAULT_MS, max_ms\n", "min_ms, max_ms\n"),
    ),
    mutant(
        "session timeout chosen with which librdkafka does not start",
        "core/next_pods/bounds.py",
        BOUNDS,
        ("else assumed_ms or 1000 * SESSION", "else 1000 * SESSION"),
    ),
    mutant(
        "user's maximum before the max.poll.interval.ms that the template shows",
        "core/next_pods/bounds.py",
        BOUNDS,
        ("        (0, shown_ms or TIMEOUT_MS_MAX),\n", ""),
    ),
    mutant(
        "heartbeat interval that the template shows overlooked",
        "core/next_pods/choice.py",
        BOUNDS,
        ("client.heartbeat_ms or 1000 *", "1000 *"),
    ),
    mutant(
        "Java client bound by what librdkafka refuses",
        "core/next_pods/bounds.py",
        BOUNDS,
        ("        return Client(heartbeat_ms=heartbeat_ms, limit_ms=None)\n", "        return Client(heartbeat_ms=heartbeat_ms)\n"),
    ),
)

RECOMMENDATIONS = tuple(
    mutant(name, path, tests, *changes)
    for path, tests, name, *changes in (
        (
            "core/next_pods/advice.py",
            TIMEOUTS,
            "recommended timeout not clamped",
            ("bounds.clamped_ms(quantised(record.recommended_ms))", "quantised(record.recommended_ms)"),
        ),
        (
            "core/next_pods/advice.py",
            TIMEOUTS,
            "recommended timeout not quantised",
            ("bounds.clamped_ms(quantised(record.recommended_ms))", "bounds.clamped_ms(record.recommended_ms)"),
        ),
        (
            "core/next_pods/advice.py",
            TIMEOUTS,
            "kept timeout not clamped",
            ("present_ms = bounds.clamped_ms(kept_ms) if", "present_ms = kept_ms if"),
        ),
        (
            "core/next_pods/advice.py",
            TIMEOUTS,
            "recommendation for another setting taken",
            ("    if record.setting != setting:\n", "    if False:\n"),
        ),
        (
            "core/next_pods/advice.py",
            TIMEOUTS,
            "recommendation taken before its canary wave",
            ("    if not record.is_released:\n", "    if False:\n"),
        ),
        (
            "core/next_pods/bounds.py",
            TIMEOUTS,
            "three heartbeats do not bind a recommendation",
            ("        (HEARTBEATS_PER_TIMEOUT_MIN * heartbeat_ms, TIMEOUT_MS_MAX),\n", ""),
        ),
        (
            "core/next_pods/bounds.py",
            TIMEOUTS,
            "the brokers' maximum does not bind a recommendation",
            ("        (broker_min_ms, broker_max_ms),\n", "        (broker_min_ms, TIMEOUT_MS_MAX),\n"),
        ),
        (
            "core/plan.py",
            PLAN,
            "recommendation changes the budget of removals",
            ("    allowed = max(1, len(", "    allowed = 1 if snapshot.advice else max(1, len("),
        ),
        (
            "core/status/durable.py",
            PULLER,
            "recommended value forgotten at a restart",
            ("        fleet_timeout_ms=_fleet_timeout_ms(status),\n", ""),
        ),
        (
            "../journal/recommendations/reader.py",
            PULLER,
            "expired snapshot used",
            (" and now_ms < good.manifest.expires_ms:", ":"),
        ),
        (
            "../journal/recommendations/reader.py",
            PULLER,
            "expired record used",
            ("if not record.is_valid_at(now_ms):", "if False:"),
        ),
        (
            "../journal/recommendations/reader.py",
            PULLER,
            "unneeded shard not verified",
            ("        if digest != shard.sha256:\n", "        if False:\n"),
        ),
        (
            "../journal/recommendations/reader.py",
            PULLER,
            "unknown model used",
            ('if manifest.model_version.partition(".")[0] != MODEL_MAJOR:', "if False:"),
        ),
        (
            "../journal/recommendations/reader.py",
            PULLER,
            "redirect followed",
            ("allow_redirects=False", "allow_redirects=True"),
        ),
        (
            "../journal/recommendations/manifest.py",
            PULLER,
            "shard not verified",
            ("    if hashlib.sha256(payload).hexdigest() != shard.sha256:\n", "    if False:\n"),
        ),
        (
            "../journal/recommendations/manifest.py",
            PULLER,
            "manifest not verified",
            ("    if not is_whole:\n", "    if False:\n"),
        ),
    )
)

IN_FORCE = tuple(
    mutant(name, path, tests, *changes)
    for path, tests, name, *changes in (
        (
            "core/next_pods/in_force.py",
            HOLDS,
            "session timeout of the next pods told as what holds",
            ("        shortest_ms=min(shown, default=None),\n", "        shortest_ms=timeout.inject_ms,\n"),
        ),
        (
            "core/next_pods/in_force.py",
            HOLDS,
            "pods that show no session timeout taken to have the injected one",
            ("        unknown=len(silent) + unseen,\n", ""),
        ),
        (
            "core/next_pods/in_force.py",
            HOLDS,
            "pods out of sight taken for none",
            ("    unseen = _unseen(snapshot)\n", "    unseen = 0\n"),
        ),
        (
            "core/next_pods/in_force.py",
            HOLDS,
            "pods started with too little not judged",
            ("    if shortest_ms is not None and shortest_ms < t.need_ms:\n", "    if False:\n"),
        ),
        (
            "core/next_pods/in_force.py",
            HOLDS,
            "injected although the method says no",
            ("if injected is not None and _injects(injection) and", "if injected is not None and"),
        ),
        (
            "core/next_pods/in_force.py",
            HOLDS,
            "classic pods left in a consumer group not told",
            ("held = {timeout.group_ms} | (shown if _of_template(spec, snapshot) is None else set())", "held = {timeout.group_ms}"),
        ),
        (
            "core/evidence/chain.py",
            HOLDS,
            "edited annotation taken for what the process started with",
            ("base.session_timeouts_ms if is_under_way else version", "version"),
        ),
        (
            "kube/translate/carried_ids.py",
            ("tests/unit/kube/translate/test_translated_ids.py",),
            "session timeout that no client takes believed",
            ("    return int(text) if 0 < int(text) <= TIMEOUT_MS_MAX else None\n", "    return int(text)\n"),
        ),
        (
            "runtime/memory/status_pace.py",
            ("tests/unit/runtime/test_status_pace.py",),
            "every pod's session timeout written at once",
            (
                '    of_pods = {"effective_ms": None, "effective_max_ms": None, "unknown_pods": 0, "why": None}\n',
                "    of_pods: dict[str, int] = {}\n",
            ),
        ),
    )
)

EXPERIENCE = tuple(
    mutant(name, path, tests, *changes)
    for path, tests, name, *changes in (
        (
            "core/next_pods/measured.py",
            MEASURED,
            "percentile of few absences taken for its bound",
            ("        if reached >= CONFIDENCE - 1e-12:\n", "        if reached >= 0.5:\n"),
        ),
        (
            "core/next_pods/measured.py",
            MEASURED,
            "longest of few absences not stretched",
            ("-(-longest_ms * (number + 1) // number)", "longest_ms"),
        ),
        (
            "core/next_pods/measured.py",
            MEASURED,
            "session timeout lowered at once",
            ("    if before is None or asked_ms >= before.timeout_ms:\n", "    if True:\n"),
        ),
        (
            "core/next_pods/measured.py",
            MEASURED,
            "frequent short crashes hide slow rollouts",
            ("    return max(found, key=lambda need: need.need_ms) if planned", "    return found[-1] if planned"),
        ),
        (
            "core/absences/reservoir.py",
            RESERVOIR,
            "old absences kept as long as new ones",
            (" - self.at_s * math.log(2) / HALF_LIFE_S", ""),
        ),
        (
            "core/absences/reservoir.py",
            RESERVOIR,
            "members of one process counted apart",
            ("        if twin is not None:\n", "        if twin is not None and False:\n"),
        ),
        (
            "core/absences/following.py",
            ABSENCES,
            "session that locks a restart out makes itself longer",
            ("    is_measured = absence.end is EndKind.RETURNED and is_released\n", "    is_measured = absence.end is EndKind.RETURNED\n"),
        ),
        (
            "core/absences/following.py",
            ABSENCES,
            "absence from before the first round measured",
            (" and not (event.kind is EventKind.ENDED and event.at_ms < before.since_ms)", ""),
        ),
        (
            "core/absences/following.py",
            ABSENCES,
            "night without replicas taken for a restart",
            ("for i, rows in before.events.items() if i in wanted}", "for i, rows in before.events.items()}"),
        ),
        (
            "core/absences/following.py",
            ABSENCES,
            "pod without a node taken for a slow restart",
            (" or absence.gap_ms > longest_ms or", " or"),
        ),
        (
            "core/next_pods/wishes.py",
            WISHES,
            "value rounded up beyond twice the longest absence",
            ("return lower_ms if is_by_rounding and lower_ms >= found.need_ms else target_ms", "return target_ms"),
        ),
        (
            "core/next_pods/wishes.py",
            WISHES,
            "value rounded down below what is needed",
            ("if is_by_rounding and lower_ms >= found.need_ms else", "if is_by_rounding else"),
        ),
        (
            "core/next_pods/wishes.py",
            WISHES,
            "fleet outvoted by fewer restarts",
            (" and own.samples >= stops:", ":"),
        ),
        (
            "core/next_pods/group_timeouts.py",
            WISHES,
            "group set although its bounds are not known",
            ("    if bounds.group_ms is None or bounds.min_ms is None or bounds.max_ms is None:\n", "    if bounds.group_ms is None:\n"),
        ),
        (
            "core/next_pods/group_config.py",
            GROUP_CONFIG,
            "stored settings outside new bounds left in the way",
            ("values={**misfits, setting: target_ms}", "values={setting: target_ms}"),
        ),
        (
            "core/next_pods/group_config.py",
            GROUP_CONFIG,
            "raised session timeout told as held before anybody beat",
            ("    is_slow = bool(record.absent) or now_s < record.held_at_s", "    is_slow = bool(record.absent) and now_s < record.held_at_s"),
        ),
        (
            "core/next_pods/group_config.py",
            GROUP_CONFIG,
            "raised session timeout told as that of who is away",
            ("    is_slow = bool(record.absent) or now_s", "    is_slow = now_s"),
        ),
        (
            "core/next_pods/group_config.py",
            GROUP_CONFIG,
            "refused setting asked for in every round",
            ("(RETRY_AFTER_S if record.problem is not None else again_after_s)", "(0.0 if record.problem is not None else again_after_s)"),
        ),
        (
            "core/intent.py",
            GROUP_CONFIG,
            "group set without the opt-in",
            ("    return spec.session_timeout.write_group_config and spec.mode", "    return spec.mode"),
        ),
        (
            "core/intent.py",
            GROUP_CONFIG,
            "group set in mode Observe",
            ("    return spec.session_timeout.write_group_config and spec.mode is Mode.MANAGE\n", "    return spec.session_timeout.write_group_config\n"),
        ),
        (
            "core/next_pods/group_timeouts.py",
            AGREEMENT,
            "StaticGroup deaf to what others want of their one setting",
            ("min(max(own_ms, asked_by_others_ms), bounds.max_ms)", "min(own_ms, bounds.max_ms)"),
        ),
        (
            "core/status/durable.py",
            AGREEMENT,
            "number told to others that the own bounds do not allow",
            ("        return t.own_ms\n", "        return t.target_ms\n"),
        ),
        (
            "core/status/durable.py",
            GROUP_CONFIG,
            "who insists on a setting forgotten at a restart",
            ("shared_setting=shared_setting_from(status.timeout)", "shared_setting=None"),
        ),
        (
            "core/status/durable.py",
            MEMORY,
            "what others want of the group taken for the fleet's value",
            (" if status.timeout.own_ms is None else status.timeout.own_ms", ""),
        ),
        (
            "runtime/rivals.py",
            AGREEMENT,
            "StaticGroup that rests not counted although its members run",
            (" and protocol_asked_for(o.spec) is not", " and not o.spec.suspend and protocol_asked_for(o.spec) is not"),
        ),
        (
            "runtime/rivals.py",
            AGREEMENT,
            "StaticGroup that cannot be read taken for one that wants nothing",
            ("if ms is None), *unread))", "if ms is None),))"),
        ),
        (
            "core/next_pods/shared_setting.py",
            AGREEMENT,
            "group's setting lowered before all have spoken",
            (" if not unheard else _as_long(", " if True else _as_long("),
        ),
        (
            "core/next_pods/shared_setting.py",
            AGREEMENT,
            "group's setting lowered at once",
            ("    found = held(known, least_ms, now_s)\n", "    found = Held(timeout_ms=least_ms)\n"),
        ),
        (
            "core/next_pods/shared_setting.py",
            AGREEMENT,
            "group's setting lowered in one step",
            ("max(found.timeout_ms, holds_ms // LOWER_BY)", "found.timeout_ms"),
        ),
        (
            "core/next_pods/shared_setting.py",
            GROUP_CONFIG,
            "longer setting lowered whoever insists on it",
            (" if self.changes >= CHANGES_MAX else 0", " if False else 0"),
        ),
        (
            "core/next_pods/shared_setting.py",
            GROUP_CONFIG,
            "neighbour that lowers too taken for one that insists",
            ("    if wanted_ms < holds_ms < before.held_ms:", "    if False:"),
        ),
        (
            "core/next_pods/group_config.py",
            GROUP_CONFIG,
            "setting that somebody shortens written again without end",
            ("is not None else again_after_s)", "is not None else 0.0)"),
        ),
        (
            "core/next_pods/group_config.py",
            GROUP_CONFIG,
            "stored setting of another protocol in the way of every change",
            ("    if obstacle(protocol, bounds):\n", "    if False:\n"),
        ),
        (
            "core/next_pods/in_force.py",
            HOLDS,
            "longer timeout told before the first heartbeat with it",
            ("    shown |= _of_before(snapshot)\n", ""),
        ),
    )
)
