"""How long things take in the modelled cluster; each pair is least and most seconds, drawn evenly."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTimings:
    """Times of a node.

    Parameters
    ----------
    reaction_s: from a change at the API server to the kubelet's action.
    start_s: sandbox, volumes and image, before the first container starts.
    init_s: one init container.
    ready_s: from a container's start to readiness; None: only `Kubelet.container_ready` makes it ready.
    probe_s: from `container_ready` to the probe that sees it.
    notice_s: from the end of a process to the kubelet's noticing.
    restart_s: the runtime's own time to start a container again.
    status_s: from the end of the last container to the PATCH that says so (seen: 0.3 s).
    cleanup_s: from that PATCH to the DELETE of the object (seen: 0.5 s).
    housekeeping_s: until the runtime's leftovers are cleaned up.
    """

    reaction_s: tuple[float, float] = (0.01, 0.1)
    start_s: tuple[float, float] = (0.5, 2.0)
    init_s: tuple[float, float] = (0.2, 1.0)
    ready_s: tuple[float, float] | None = (1.0, 3.0)
    probe_s: tuple[float, float] = (0.1, 1.0)
    notice_s: tuple[float, float] = (0.05, 1.0)
    restart_s: tuple[float, float] = (0.1, 0.5)
    status_s: tuple[float, float] = (0.05, 0.3)
    cleanup_s: tuple[float, float] = (0.1, 0.6)
    housekeeping_s: float = 2.0
