"""Worlds for tests of the core: short to write, whole when read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from staticgroup.api.ordinals import Ordinals
from staticgroup.api.resources.staticgroup import StaticGroupSpec
from staticgroup.core.evidence.certificate import Certificate, CertificateKind
from staticgroup.core.evidence.chain import KnownPod, PodState
from staticgroup.core.evidence.pod import ContainerPhase, ContainerView, NodeView, PodVersion
from staticgroup.core.group import GroupType, GroupView, MemberView
from staticgroup.core.members.carriers import Attribution, Suspect, digest_of
from staticgroup.core.members.memory import Members, Sight
from staticgroup.core.snapshot import (
    NOTHING_REMEMBERED,
    Evidence,
    FreshRead,
    History,
    Injected,
    RemovalRecord,
    SeatMemory,
    Snapshot,
)
from staticgroup.core.workload import ContainerBudget, WorkloadView
from support.bounds import broker_bounds

NOW_S = 1_800_000_000.0
SCOPE = "3fa9c1d2"
WATCH = "1799990000-a1b2c3d4"
SESSION_TIMEOUT_MS = 110_000
"""What is injected for `workload`: 30 + 20 + 20 + 3 s and headroom, rounded up to 5 s."""
COORDINATOR = "1@10.0.0.1:9092"
NODE = NodeView(name="n1", uid="node-1", kubelet_version="v1.36.3", kubelet_minor=36, machine="m1")


def id_of(ordinal: int) -> str:
    return f"web-{ordinal}.{SCOPE}"


def spec(**changes: Any) -> StaticGroupSpec:
    body: dict[str, Any] = {
        "workloadRef": {"name": "web"}, "connectionRef": {"name": "kafka"}, "groupId": "orders", "protocol": "Classic",
    }
    body.update(changes)
    return StaticGroupSpec.model_validate(body)


def terminated(name: str = "app", **changes: Any) -> ContainerView:
    values: dict[str, Any] = {
        "phase": ContainerPhase.TERMINATED, "container_id": f"containerd://{name}",
        "finished_at": "2026-11-21T10:00:00Z", "reason": "Completed",
    }
    return ContainerView(name=name, **(values | changes))


def running(name: str = "app") -> ContainerView:
    return ContainerView(name=name, phase=ContainerPhase.RUNNING, container_id=f"containerd://{name}")


def pod_version(ordinal: int = 2, uid: str = "u2", resource_version: int = 100, **changes: Any) -> PodVersion:
    values: dict[str, Any] = {
        "namespace": "shop", "name": f"web-{ordinal}", "uid": uid, "resource_version": resource_version,
        "node_name": "n1", "phase": "Running", "phase_manager": "kubelet", "phase_has_statuses": True,
        "created_at_s": NOW_S - 600, "required": (running(),), "started_containers": frozenset({"app"}),
        "instance_ids": frozenset({id_of(ordinal)}), "session_timeouts_ms": (SESSION_TIMEOUT_MS,),
    }
    return PodVersion(**(values | changes))


def ended(ordinal: int = 2, uid: str = "u2", resource_version: int = 110, **changes: Any) -> PodVersion:
    return pod_version(
        ordinal,
        uid,
        resource_version,
        **({"phase": "Succeeded", "required": (terminated(),), "is_deleting": True} | changes),
    )


def known_pod(ordinal: int = 2, uid: str = "u2", state: PodState = PodState.LIVE, **changes: Any) -> KnownPod:
    values: dict[str, Any] = {
        "namespace": "shop",
        "pod_name": f"web-{ordinal}",
        "uid": uid,
        "instance_ids": frozenset({id_of(ordinal)}),
        "node_name": "n1",
        "state": state,
        "since_s": NOW_S - 5,
        "resource_version": 100 + ordinal,
        "started_containers": frozenset({"app"}),
        "session_timeouts_ms": (SESSION_TIMEOUT_MS,),
        "runs": state is PodState.LIVE,
        "ready_since_s": NOW_S - 500 if state is PodState.LIVE else None,
        "created_at_s": NOW_S - 600,
    }
    if state is PodState.DEAD:
        values["certificate"] = Certificate(
            kind=CertificateKind.ENDED, resource_version=110, statement="phase Succeeded"
        )
    if state is not PodState.LIVE:
        values["object_present"] = False
    return KnownPod(**(values | changes))


def workload(replicas: int = 2, **changes: Any) -> WorkloadView:
    values: dict[str, Any] = {
        "namespace": "shop",
        "name": "web",
        "uid": "w1",
        "metadata_generation": 3,
        "observed_generation": 3,
        "replicas": replicas,
        "status_replicas": replicas,
        "ready_replicas": replicas,
        "updated_replicas": replicas,
        "current_revision": "r1",
        "update_revision": "r1",
        "containers": (ContainerBudget(name="app", startup_budget_s=20),),
    }
    return WorkloadView(**(values | changes))


def member(ordinal: int, member_id: str | None = None, **changes: Any) -> MemberView:
    return replace(MemberView(member_id=member_id or f"m{ordinal}", instance_id=id_of(ordinal)), **changes)


def group(*members: MemberView, **changes: Any) -> GroupView:
    values: dict[str, Any] = {
        "group_id": "orders", "group_type": GroupType.CLASSIC, "state": "Stable", "coordinator": COORDINATOR,
        "protocol_type": "consumer",
    }
    return GroupView(members=members, **(values | changes))


def injected(**changes: Any) -> Injected:
    values: dict[str, Any] = {
        "scope": SCOPE, "method": "Policy", "id_template": f"{{podName}}.{SCOPE}",
        "session_timeout_ms": SESSION_TIMEOUT_MS,
    }
    return Injected(**(values | changes))


def history(
    *,
    departed_since_s: Mapping[str, float] | None = None,
    sightings: Mapping[str, tuple[tuple[str, str, float], ...]] | None = None,
    removals: Sequence[RemovalRecord] = (),
    **changes: Any,
) -> History:
    """What was remembered, said of each seat in turn."""
    seats: dict[str, SeatMemory] = {}
    for key, since_s in (departed_since_s or {}).items():
        seats[key] = SeatMemory(departed_since_s=since_s)
    for key, seen in (sightings or {}).items():
        seats[key] = replace(seats.get(key, NOTHING_REMEMBERED), sightings=seen)
    for record in removals:
        seats[record.instance_id] = replace(seats.get(record.instance_id, NOTHING_REMEMBERED), removal=record)
    return History(
        **(
            {"injected": injected(), "issued_ordinals": Ordinals.of(range(3)), "seats": seats, "members": members()}
            | changes
        )
    )


def fresh(**changes: Any) -> FreshRead:
    """The ordinal is not wanted, no pod has the name, and the watch has passed the read."""
    values: dict[str, Any] = {"is_expected": False, "objects": (), "resource_version": 120, "barrier_passed": True}
    return FreshRead(**(values | changes))


def attributed(member_id: str = "m2", *carriers: str, first_seen_s: float = NOW_S - 300) -> Attribution:
    """A member that was described long ago, with those of its carriers that have not ended."""
    return Attribution(member=digest_of(member_id), first_seen_s=first_seen_s, carriers=frozenset(carriers))


def suspect(uid: str = "z", ordinal: int = 2, **changes: Any) -> Suspect:
    """A pod that was deleted without an end a minute ago."""
    values: dict[str, Any] = {
        "namespace": "shop", "pod_name": f"web-{ordinal}", "instance_ids": frozenset({id_of(ordinal)}),
        "since_s": NOW_S - 60,
    }
    return Suspect(uid=uid, **(values | changes))


def members(carriers: Mapping[int, Sequence[str]] | None = None, **changes: Any) -> Members:
    """What is remembered of m0 to m2, whose pods are u0 to u2, under a watch that saw all of them.

    Parameters
    ----------
    carriers: by ordinal, in place of the pod of the member.
    """
    held = {n: [f"u{n}"] for n in range(3)} | {n: list(uids) for n, uids in (carriers or {}).items()}
    values: dict[str, Any] = {
        "attributions": {id_of(n): attributed(f"m{n}", *uids) for n, uids in held.items()},
        "watch": WATCH,
        "watch_described": WATCH,
    }
    return Members(**(values | changes))


def sight(**changes: Any) -> Sight:
    """What the pod store shows: web-2 has ended, and the watch is whole."""
    values: dict[str, Any] = {
        "watch": WATCH, "described_at_s": 10_000.0, "dated_at_s": NOW_S, "ended": frozenset({"u2"}),
        "has_passed": True,
    }
    return Sight(**(values | changes))


def evidence(
    chains: Mapping[str, tuple[KnownPod, ...]], reads: Mapping[str, FreshRead] | None = None
) -> dict[str, Evidence]:
    """What was gathered of departed seats; everything was read afresh unless it is said what."""
    return {
        key: Evidence(chain=chain, fresh=fresh() if reads is None else reads.get(key)) for key, chain in chains.items()
    }


def departure(
    *,
    chains: Mapping[str, tuple[KnownPod, ...]] | None = None,
    fresh: Mapping[str, FreshRead] | None = None,
    **changes: Any,
) -> Snapshot:
    """Web was scaled from 3 to 2; web-2 ended with a certificate and its member is still in the group."""
    if chains is None:
        chains = {id_of(2): (known_pod(state=PodState.DEAD),)}
    values: dict[str, Any] = {
        "namespace": "shop",
        "name": "orders",
        "uid": "sg-1",
        "metadata_generation": 1,
        "workload": workload(2),
        "pods": (known_pod(0, "u0"), known_pod(1, "u1")),
        "group": group(member(0), member(1), member(2)),
        "bounds": broker_bounds(classic_min_ms=6_000, classic_max_ms=1_800_000),
        "evidence": evidence(chains, fresh),
        "watch": WATCH,
        "sight": sight(),
        "cluster_uid": "cluster-1",
    }
    return Snapshot(**(values | changes))
