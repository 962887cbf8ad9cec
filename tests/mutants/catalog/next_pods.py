"""What the next pods receive: session timeouts, and recommendations of which nothing is trusted."""

from __future__ import annotations

from .mutant import mutant
from .suites import PLAN, PULLER, TIMEOUTS

TIMEOUT = (
    mutant(
        "session timeout injected for Consumer",
        "core/timeouts.py",
        TIMEOUTS,
        ("        inject_ms=None,\n", "        inject_ms=need_ms,\n"),
    ),
    mutant(
        "session timeout injected while the protocol is unknown",
        "core/timeouts.py",
        TIMEOUTS,
        (
            "        inject_ms=chosen_ms if group_type is GroupType.CLASSIC else None,\n",
            "        inject_ms=chosen_ms,\n",
        ),
    ),
    mutant(
        "bounds not clamped",
        "core/timeouts.py",
        TIMEOUTS,
        ("    return max(lower_ms, min(stepped, upper_ms))\n", "    return stepped\n"),
    ),
    mutant(
        "fixed timeout not clamped",
        "core/timeouts.py",
        TIMEOUTS,
        ("        chosen_ms = max(broker_min_ms, min(wanted_ms, broker_max_ms))\n", "        chosen_ms = wanted_ms\n"),
    ),
    mutant(
        "timeout not quantised",
        "core/timeouts.py",
        TIMEOUTS,
        ("    stepped = -(-value_ms // STEP_MS) * STEP_MS\n", "    stepped = value_ms\n"),
    ),
)

RECOMMENDATIONS = tuple(
    mutant(name, path, tests, *changes)
    for path, tests, name, *changes in (
        (
            "core/advice.py",
            TIMEOUTS,
            "recommended timeout not clamped",
            ("bounds.clamped_ms(quantised(record.recommended_ms))", "quantised(record.recommended_ms)"),
        ),
        (
            "core/advice.py",
            TIMEOUTS,
            "recommended timeout not quantised",
            ("bounds.clamped_ms(quantised(record.recommended_ms))", "bounds.clamped_ms(record.recommended_ms)"),
        ),
        (
            "core/advice.py",
            TIMEOUTS,
            "kept timeout not clamped",
            ("present_ms = bounds.clamped_ms(kept_ms) if", "present_ms = kept_ms if"),
        ),
        (
            "core/advice.py",
            TIMEOUTS,
            "recommendation taken though the bounds leave no room",
            ("    if not bounds.is_feasible:\n", "    if False:\n"),
        ),
        (
            "core/advice.py",
            TIMEOUTS,
            "recommendation for another setting taken",
            ("    if record.setting is not setting:\n", "    if False:\n"),
        ),
        (
            "core/advice.py",
            TIMEOUTS,
            "recommendation taken before its canary wave",
            ("    if not record.released:\n", "    if False:\n"),
        ),
        (
            "core/timeouts.py",
            TIMEOUTS,
            "three heartbeats do not bind a recommendation",
            ("heartbeat_interval_ms=heartbeat_interval_s * 1000", "heartbeat_interval_ms=0"),
        ),
        (
            "core/timeouts.py",
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
            "core/memory.py",
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
            "api/recommendation.py",
            PULLER,
            "shard not verified",
            ("    if hashlib.sha256(payload).hexdigest() != shard.sha256:\n", "    if False:\n"),
        ),
        (
            "api/recommendation.py",
            PULLER,
            "manifest not verified",
            ("    if not is_whole:\n", "    if False:\n"),
        ),
    )
)
