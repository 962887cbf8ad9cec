"""The mutants: each breaks one rule of the evidence chain, of the removal order, or of what keeps clients starting.

A mutant is a name, one file, exact texts with their replacements, and the tests that must notice. Every hole that the
certificates, the chain and the order were found to have is here (design of the evidence chain), so that no later edit
can open it again unseen. Each file holds one theme.
"""

from __future__ import annotations

from .chains import CHAINS
from .connect import CONNECT
from .consuming import CLOSED, UNREAD
from .durability import DURABLE, REMEMBERED
from .edges import EDGES
from .evidence import CERTIFICATES, FACTS, FIXED_IDS
from .first_ids import FIRST_IDS
from .injectors import INJECTORS, WEBHOOK
from .kube import WATCHES
from .living import LIVING
from .members import (
    ADDRESS,
    CARRIERS,
    HOLDING,
    LOST,
    MEMORY_OF_MEMBERS,
    NODE_GONE,
    RETURNED,
    STATUS_OF_MEMBERS,
    SUSPECTS,
)
from .mutant import Mutant, MutantNotApplicable
from .names import NAMES
from .next_pods import EXPERIENCE, IN_FORCE, RECOMMENDATIONS, TIMEOUT
from .releases import GHOSTS, ON_ITS_WAY, RUN_ENDS, SHARED_GUARDS
from .removals import DEPARTED, GUARDS, ORDER, VERIFICATION
from .rounds import SIGHTS
from .shell import SHELL
from .slots import SLOTS
from .streams import ROLE_OF_STREAMS, THREADS_THAT_LEAVE
from .templates import TEMPLATES
from .workloads import WORKLOADS

__all__ = ["MUTANTS", "Mutant", "MutantNotApplicable"]

MUTANTS: tuple[Mutant, ...] = (
    *CERTIFICATES,
    *FACTS,
    *FIXED_IDS,
    *CHAINS,
    *CARRIERS,
    *SUSPECTS,
    *HOLDING,
    *ADDRESS,
    *NODE_GONE,
    *MEMORY_OF_MEMBERS,
    *STATUS_OF_MEMBERS,
    *RETURNED,
    *LOST,
    *GUARDS,
    *UNREAD,
    *CLOSED,
    *VERIFICATION,
    *DURABLE,
    *LIVING,
    *TIMEOUT,
    *RECOMMENDATIONS,
    *EXPERIENCE,
    *ORDER,
    *DEPARTED,
    *IN_FORCE,
    *REMEMBERED,
    *EDGES,
    *SHELL,
    *SLOTS,
    *WATCHES,
    *NAMES,
    *TEMPLATES,
    *FIRST_IDS,
    *RUN_ENDS,
    *GHOSTS,
    *SHARED_GUARDS,
    *ON_ITS_WAY,
    *THREADS_THAT_LEAVE,
    *ROLE_OF_STREAMS,
    *CONNECT,
    *INJECTORS,
    *WEBHOOK,
    *WORKLOADS,
    *SIGHTS,
)
