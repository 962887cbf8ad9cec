"""The journal's tables of one published run, as all that is learned from them takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Silver:
    """The journal's tables of one published run, cut to a window.

    Parameters
    ----------
    start_ms, as_of_ms: the half-open window, Unix milliseconds; rows outside it are left out, except beats.
    """

    start_ms: int
    as_of_ms: int
    member_events: DataFrame
    group_events: DataFrame
    outages: DataFrame
    beats: DataFrame
    blind_windows: DataFrame
