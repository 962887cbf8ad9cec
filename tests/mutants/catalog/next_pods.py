"""What the next pods receive: session timeouts, and recommendations of which nothing is trusted."""

from __future__ import annotations

from .mutant import mutant
from .suites import HOLDS, PLAN, PULLER, TIMEOUTS

TIMEOUT = (
    mutant(
        "session timeout injected for Consumer",
        "core/next_pods/timeouts.py",
        TIMEOUTS,
        ("        inject_ms=None,\n", "        inject_ms=need_ms,\n"),
    ),
    mutant(
        "session timeout injected while the protocol is unknown",
        "core/next_pods/timeouts.py",
        TIMEOUTS,
        (
            "        inject_ms=chosen_ms if is_known else None,\n",
            "        inject_ms=chosen_ms,\n",
        ),
    ),
    mutant(
        "bounds not clamped",
        "core/next_pods/timeouts.py",
        TIMEOUTS,
        ("    return max(lower_ms, min(stepped, upper_ms))\n", "    return stepped\n"),
    ),
    mutant(
        "fixed timeout not clamped",
        "core/next_pods/timeouts.py",
        TIMEOUTS,
        ("        chosen_ms = max(broker_min_ms, min(wanted_ms, broker_max_ms))\n", "        chosen_ms = wanted_ms\n"),
    ),
    mutant(
        "timeout not quantised",
        "core/next_pods/timeouts.py",
        TIMEOUTS,
        ("    stepped = quantised(value_ms)\n", "    stepped = value_ms\n"),
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
            "recommendation taken though the bounds leave no room",
            ("    if not bounds.is_feasible:\n", "    if False:\n"),
        ),
        (
            "core/next_pods/advice.py",
            TIMEOUTS,
            "recommendation for another setting taken",
            ("    if record.setting is not setting:\n", "    if False:\n"),
        ),
        (
            "core/next_pods/advice.py",
            TIMEOUTS,
            "recommendation taken before its canary wave",
            ("    if not record.released:\n", "    if False:\n"),
        ),
        (
            "core/next_pods/timeouts.py",
            TIMEOUTS,
            "three heartbeats do not bind a recommendation",
            ("heartbeat_interval_ms=heartbeat_interval_s * 1000", "heartbeat_interval_ms=0"),
        ),
        (
            "core/next_pods/timeouts.py",
            TIMEOUTS,
            "the brokers' maximum does not bind a recommendation",
            ("        broker_maximum_ms=broker_max_ms,\n", ""),
        ),
        (
            "core/plan.py",
            PLAN,
            "recommendation changes the budget of removals",
            ("    allowed = max(1, len(", "    allowed = 1 if snapshot.advice else max(1, len("),
        ),
        (
            "core/status/memory.py",
            PULLER,
            "recommended value forgotten at a restart",
            ("        fleet_timeout_ms=_fleet_timeout_ms(status),\n", ""),
        ),
        (
            "runtime/recommendations.py",
            PULLER,
            "expired snapshot used",
            (" and now_ms < good.manifest.expires_ms:", ":"),
        ),
        (
            "runtime/recommendations.py",
            PULLER,
            "expired record used",
            ("if not record.is_valid_at(now_ms):", "if False:"),
        ),
        (
            "runtime/recommendations.py",
            PULLER,
            "unneeded shard not verified",
            ("        if digest != shard.sha256:\n", "        if False:\n"),
        ),
        (
            "runtime/recommendations.py",
            PULLER,
            "unknown model used",
            ('if manifest.model_version.partition(".")[0] != MODEL_MAJOR:', "if False:"),
        ),
        (
            "runtime/recommendations.py",
            PULLER,
            "redirect followed",
            ("allow_redirects=False", "allow_redirects=True"),
        ),
        (
            "api/recommendation/manifest.py",
            PULLER,
            "shard not verified",
            ("    if hashlib.sha256(payload).hexdigest() != shard.sha256:\n", "    if False:\n"),
        ),
        (
            "api/recommendation/manifest.py",
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
            "kube/translate/session_timeouts.py",
            ("tests/unit/kube/test_translate.py",),
            "session timeout that no client takes believed",
            ("    return int(text) if 0 < int(text) <= TIMEOUT_MS_MAX else None\n", "    return int(text)\n"),
        ),
        (
            "runtime/pace.py",
            ("tests/unit/runtime/test_pace.py",),
            "every pod's session timeout written at once",
            ('    held = {"effective_ms": None, "effective_max_ms": None, "unknown_pods": 0}\n', "    held: dict[str, int] = {}\n"),
        ),
        (
            "runtime/journal/journal.py",
            ("tests/unit/runtime/journal/test_journal.py",),
            "status of the version before told as another session timeout",
            (
                "before.timeout.next_ms if before.timeout.next_ms is not None else before.timeout.effective_ms",
                "before.timeout.next_ms",
            ),
        ),
    )
)
