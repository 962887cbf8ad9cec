"""`status`: StaticGroups in one table, and below it what is not as it should be, as their statuses put it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from .api_server import Json

ASK_DOCTOR = "kubectl staticgroup doctor"
ISSUES_SHOWN_MAX = 20
_COLUMNS = ("NAMESPACE", "NAME", "GROUP", "MODE", "EXPECTED", "JOINED", "DEPARTED", "TIMEOUT", "READY", "REASON", "AGE")


def is_stale(body: Json) -> bool:
    """Return whether the spec was edited after the operator last read it."""
    observed = (body.get("status") or {}).get("observedGeneration")
    return observed is not None and observed != body["metadata"].get("generation")


def summary_of(body: Json) -> Json:
    """Return one StaticGroup as `-o json` prints it; its keys are an interface."""
    spec, status = body.get("spec") or {}, body.get("status") or {}
    conditions = status.get("conditions") or ()
    message = f"no operator has written a status; run: {ASK_DOCTOR}"
    no_status: Json = {"status": "Unknown", "reason": "NoStatus", "message": message}
    ready: Json = next((each for each in conditions if each.get("type") == "Ready"), no_status)
    # Ready does not wait for these, such as a session timeout that is too short.
    not_so = [each for each in conditions if each.get("status") == "False" and each.get("type") != "Ready"]
    return {
        "namespace": body["metadata"]["namespace"],
        "name": body["metadata"]["name"],
        "groupId": spec.get("groupId"),
        "mode": spec.get("mode", "Manage"),
        "ready": ready.get("status"),
        "reason": ready.get("reason"),
        "message": ready.get("message"),
        "specSeen": not is_stale(body),
        "members": status.get("members") or {},
        "timeout": (status.get("sessionTimeout") or {}).get("summary"),
        "issues": status.get("issues") or [],
        "notSo": [{key: each.get(key) for key in ("type", "reason", "message")} for each in not_so],
    }


def age(since: str, now: datetime) -> str:
    """Return how long ago something was, in one unit: 45s, 12m, 5h, 3d."""
    try:
        seconds = int((now - datetime.fromisoformat(since)).total_seconds())
    except (ValueError, TypeError):
        return "-"
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{max(0, seconds)}s"


def lines_of(bodies: Iterable[Json], now: datetime) -> Iterator[str]:
    """Yield a table as kubectl prints one, then a paragraph on each StaticGroup that is not Ready or has issues."""
    summaries = [(summary_of(body), body["metadata"].get("creationTimestamp")) for body in bodies]
    summaries.sort(key=lambda each: (each[0]["namespace"], each[0]["name"]))
    rows: list[tuple[str, ...]] = [_COLUMNS]
    for row, created in summaries:
        counts = (str(row["members"].get(key, "-")) for key in ("expected", "joined", "departed"))
        rows.append((
            row["namespace"], row["name"], str(row["groupId"]), row["mode"], *counts, str(row["timeout"] or "-"),
            str(row["ready"]), str(row["reason"]), age(str(created), now),
        ))  # fmt: skip
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for cells in rows:
        yield "   ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
    for row, _ in summaries:
        issues = row["issues"]
        if row["ready"] == "True" and not issues and row["specSeen"] and not row["notSo"]:
            continue
        yield ""
        yield f"{row['namespace']}/{row['name']}: {row['reason']}: {row['message']}"
        if not row["specSeen"]:
            yield "  the spec was edited since; the operator has not read it yet"
        yield from (f"  {each['type']}: False ({each['reason']}). {each['message']}" for each in row["notSo"])
        yield from (f"  {line}" for line in issue_lines(issues, ISSUES_SHOWN_MAX))


def issue_lines(issues: Sequence[Json], most: int) -> Iterator[str]:
    """Yield a line for each issue, at most `most`, then how many more there are."""
    for each in issues[:most]:
        about = each.get("instanceId") or each.get("podName") or "the group"
        yield f"{each.get('kind')}: {about} ({each.get('reason')}): {each.get('message')}"
    if len(issues) > most:
        yield f"... and {len(issues) - most} more"
