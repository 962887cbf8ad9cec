"""The tables: Delta Lake below one root, written by numbered runs, read as the last published run left them.

`Lake` (lake.py) reads and writes tables, `RunLog` (runs.py) records plans and results of runs, `upkeep` compacts tables
and deletes old files, `jars` finds the jars of the Java side.
"""

from __future__ import annotations

from .lake import Lake, Written
from .locations import local_path, uri_of
from .runs import Plan, Published, RunLog, TableState

__all__ = ["Lake", "Plan", "Published", "RunLog", "TableState", "Written", "local_path", "uri_of"]
