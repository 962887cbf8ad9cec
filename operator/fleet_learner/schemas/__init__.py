"""The tables of the pipeline: every column with its type and its null rule, written once (table.py says how)."""

from __future__ import annotations

from .journal import BEATS, BLIND_WINDOWS, EVENTS, GROUP_EVENTS, MEMBER_EVENTS, OUTAGES, QUARANTINE
from .learned import BUSY_DAY, CANARY, GROUP_DAY, GROUP_STATE, REBALANCES, RECOMMENDATION, REPLAYED_DAY
from .offsets import ASSIGNMENT_INTERVALS, GROUP_CHANGES, KAFKA, OFFSETS_MEMBERS
from .table import Column, QuarantineReason, Table, columns

__all__ = [
    "ASSIGNMENT_INTERVALS",
    "BEATS",
    "BLIND_WINDOWS",
    "BUSY_DAY",
    "CANARY",
    "EVENTS",
    "GROUP_CHANGES",
    "GROUP_DAY",
    "GROUP_EVENTS",
    "GROUP_STATE",
    "KAFKA",
    "MEMBER_EVENTS",
    "OFFSETS_MEMBERS",
    "OUTAGES",
    "QUARANTINE",
    "REBALANCES",
    "RECOMMENDATION",
    "REPLAYED_DAY",
    "TABLES",
    "Column",
    "QuarantineReason",
    "Table",
    "columns",
]

TABLES: tuple[Table, ...] = (
    EVENTS,
    QUARANTINE,
    MEMBER_EVENTS,
    GROUP_EVENTS,
    BEATS,
    BLIND_WINDOWS,
    OUTAGES,
    REBALANCES,
    ASSIGNMENT_INTERVALS,
    OFFSETS_MEMBERS,
    GROUP_CHANGES,
    BUSY_DAY,
    REPLAYED_DAY,
    GROUP_STATE,
    GROUP_DAY,
    RECOMMENDATION,
    CANARY,
)
