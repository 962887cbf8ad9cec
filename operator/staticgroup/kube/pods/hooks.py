"""What a pod store is given: its times and bounds, and the functions that it calls."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ...core.evidence.pod import PodVersion
from ..pages import PAGE_LIMIT
from .book import GONE_MAX, IsManaged, NodeOf
from .watch.stream import STALL_TIMEOUT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStoreSettings:
    """Times and bounds of the store.

    Parameters
    ----------
    barrier_patience_s: how long a barrier waits for the main stream before it replays. Short, because the main stream
        may still win while the replay runs: measured on 1.36.3 with no pod event after the read, barriers took
        1.0-1.2 s with no patience and 1.1-2.4 s with 0.7 s.
    relist_interval_s: between two comparisons with a complete LIST.
    stall_timeout_s: silence after which a stream is reconnected.
    chunk_size: most pods per LIST page.
    env_names: further environment variables that carry instance ids.
    """

    barrier_patience_s: float = 0.1
    relist_interval_s: float = 600.0
    stall_timeout_s: float = STALL_TIMEOUT_S
    reconnect_delay_s: float = 0.2
    chunk_size: int = PAGE_LIMIT
    gone_max: int = GONE_MAX
    env_names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStoreHooks:
    """The functions that the store calls; all are synchronous and must not block.

    Parameters
    ----------
    node_of: facts of a node by name.
    is_managed: (namespace, pod name) belongs to a StaticGroup.
    on_change: (namespace, owner name, pod name) has changed in a way that decisions can see.
    on_end: likewise, afterwards: a pod or a container of it has ended, or may have.
    on_gap: a watch is not whole any more, with the reason in words.
    on_anchor: the watch of a scope is whole, with its name.
    on_uncertified: a pod that a StaticGroup manages vanished without a certificate, with the kind of what stood against it.
    on_object: a raw pod as a watch or a LIST showed it, and its translation, before it is folded.
    """

    node_of: NodeOf
    is_managed: IsManaged
    on_change: Callable[[str, str, str], None]
    on_gap: Callable[[str], None]
    on_end: Callable[[str, str, str], None] = field(default=lambda namespace, owner_name, pod_name: None)
    on_anchor: Callable[[str], None] = field(default=lambda watch: None)
    on_uncertified: Callable[[str], None] = field(default=lambda reason: None)
    on_object: Callable[[object, PodVersion], None] = field(default=lambda raw, version: None)
