"""Everything that can go wrong, by name: each fault begins at a moment and is healed at another.

A fault is a function of the world that returns how to undo it; None: it is over at once. Its name is its kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from coordinator_model.errors import ErrorCode
from coordinator_model.messages import JoinGroupRequest, Protocol

from .api_server import ApiError
from .consumer_protocol import encode_subscription
from .kafka_network import KafkaLink
from .kubelet import Kubelet
from .objects import LEASES, NODES, PODS, STATEFULSETS, STATIC_GROUPS, uid_of
from .world import GROUP, NAMESPACE, SYSTEM, TOPIC, WORKLOAD, RunningOperator, World

Heal = Callable[[], None]
Begin = Callable[[World, Random], Heal | None]
USUAL_LATENCY_S: Final = 0.002
OPERATOR_PRINCIPAL: Final = "User:operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One kind of fault.

    Parameters
    ----------
    weight: how often it is drawn, relative to the others.
    lasts_s: (least, most) seconds until it is healed.
    """

    kind: str
    begin: Begin
    weight: float
    lasts_s: tuple[float, float]


FAULTS: dict[str, Fault] = {}


def fault(*, weight: float = 1.0, lasts_s: tuple[float, float] = (5.0, 60.0)) -> Callable[[Begin], Begin]:
    """Register a function as the fault of its name."""

    def register(begin: Begin) -> Begin:
        kind = begin.__name__
        FAULTS[kind] = Fault(kind=kind, begin=begin, weight=weight, lasts_s=lasts_s)
        return begin

    return register


def _pod(world: World, rng: Random) -> str | None:
    """Draw one of the workload's pods; None when there is none."""
    names = [p["metadata"]["name"] for p in world.server.list(PODS, NAMESPACE)]
    return rng.choice(names) if names else None


def draw_node(world: World, rng: Random) -> Kubelet:
    """Draw a machine, rather one that runs a pod."""
    pod = _pod(world, rng)
    found = world.kubernetes.node_of(NAMESPACE, pod) if pod is not None else None
    return found or world.kubernetes.nodes[rng.choice(sorted(world.kubernetes.nodes))]


def draw_operator(world: World, rng: Random) -> RunningOperator | None:
    return rng.choice(world.living) if world.living else None


def attempt(action: Callable[[], object]) -> None:
    """Do what a user does, who is told when the object is not there."""
    try:
        action()
    except ApiError:
        pass


# nodes and pods ---------------------------------------------------------------------------------------------------


@fault(weight=1.5, lasts_s=(10, 120))
def node_freezes(world: World, rng: Random) -> Heal:
    """The machine stands still; its processes are silent and alive."""
    node = draw_node(world, rng)
    node.freeze()
    return node.thaw


@fault(lasts_s=(10, 120))
def kubelet_freezes(world: World, rng: Random) -> Heal:
    """The kubelet stands still; the processes run on."""
    node = draw_node(world, rng)
    node.freeze_kubelet()
    return node.thaw_kubelet


@fault(weight=1.5, lasts_s=(20, 200))
def node_is_cut_off(world: World, rng: Random) -> Heal:
    """The node does not reach the API server; the processes reach Kafka."""
    node = draw_node(world, rng)
    node.cut()
    return node.heal


@fault(weight=4.0, lasts_s=(90, 240))
def zombie_of_a_lost_node(world: World, rng: Random) -> Heal:
    """A node is cut off, its pods are force-deleted and no longer wanted: their processes live on."""
    ordinals = world.truth.desired(WORKLOAD)
    node = world.kubernetes.node_of(NAMESPACE, f"{WORKLOAD}-{ordinals[-1]}") if len(ordinals) > 1 else None
    node = node or draw_node(world, rng)
    node.cut()
    if len(ordinals) > 1:
        attempt(lambda: world.users.scale(NAMESPACE, WORKLOAD, len(ordinals) - 1))
    for pod in world.server.list(PODS, NAMESPACE):
        if pod["spec"].get("nodeName") == node.name:
            name = pod["metadata"]["name"]
            attempt(lambda name=name: world.users.delete_pod(NAMESPACE, name, grace_s=0))  # type: ignore[misc]
    return node.heal


@fault(lasts_s=(0, 0))
def node_reboots(world: World, rng: Random) -> None:
    """The machine restarts: processes end and nobody writes it down."""
    draw_node(world, rng).reboot(rng.uniform(5, 60))


@fault(lasts_s=(30, 150))
def node_is_out_of_service(world: World, rng: Random) -> Heal:
    """The machine has no power, and an administrator says so."""
    node = draw_node(world, rng)
    node.power_off()
    attempt(lambda: world.users.taint_out_of_service(node.name))

    def heal() -> None:
        attempt(lambda: world.users.untaint_out_of_service(node.name))
        node.power_on()

    return heal


@fault(lasts_s=(30, 150))
def node_object_is_deleted(world: World, rng: Random) -> Heal:
    """Somebody deletes the Node object of a machine that is cut off and goes on."""
    node = draw_node(world, rng)
    node.cut()
    attempt(lambda: world.users.delete_node(node.name))

    def heal() -> None:
        node.heal()
        if world.server.get(NODES, "", node.name) is None:
            node.restart_kubelet()

    return heal


@fault(lasts_s=(0, 0))
def kubelet_restarts(world: World, rng: Random) -> None:
    """The kubelet's process is replaced; pods do not notice."""
    draw_node(world, rng).restart_kubelet(rng.uniform(0.5, 10))


@fault(weight=1.5, lasts_s=(10, 40))
def kubelet_rejects_running_pods(world: World, rng: Random) -> Heal:
    """A restarted kubelet finds no room for pods that run and fails them; one of them is no longer wanted."""
    node, ordinals = draw_node(world, rng), world.truth.desired(WORKLOAD)
    if len(ordinals) > 1:
        node = world.kubernetes.node_of(NAMESPACE, f"{WORKLOAD}-{ordinals[-1]}") or node
        attempt(lambda: world.users.scale(NAMESPACE, WORKLOAD, len(ordinals) - 1))
    node.rejections = rng.randint(1, 2)
    node.restart_kubelet(rng.uniform(0.1, 2))

    def heal() -> None:
        node.rejections = 0

    return heal


@fault(weight=1.5, lasts_s=(0, 0))
def pod_is_force_deleted(world: World, rng: Random) -> None:
    """kubectl delete --force: the object is gone before the process."""
    pod = _pod(world, rng)
    if pod is not None:
        attempt(lambda: world.users.delete_pod(NAMESPACE, pod, grace_s=0))


@fault(lasts_s=(5, 60))
def pod_leaves_the_selector(world: World, rng: Random) -> Heal | None:
    """Somebody takes the label off a running pod, and puts it back later."""
    pod = _pod(world, rng)
    if pod is None:
        return None
    attempt(lambda: world.users.label_pod(NAMESPACE, pod, {"app": None}))
    return lambda: attempt(lambda: world.users.label_pod(NAMESPACE, pod, {"app": WORKLOAD}))


@fault(weight=1.5, lasts_s=(0, 0))
def container_crashes(world: World, rng: Random) -> None:
    """The process ends at once and is restarted in the same pod."""
    pod = _pod(world, rng)
    found = world.server.get(PODS, NAMESPACE, pod) if pod is not None else None
    if found is not None:
        world.processes.signal(uid_of(found), "app", "KILL")


@fault(lasts_s=(0, 0))
def pod_is_evicted(world: World, rng: Random) -> None:
    """kubectl drain evicts a pod."""
    pod = _pod(world, rng)
    if pod is not None:
        attempt(lambda: world.users.drain_pod(NAMESPACE, pod))


# API server ---------------------------------------------------------------------------------------------------------


@fault(weight=1.5, lasts_s=(0, 0))
def watches_break(world: World, rng: Random) -> None:
    """Every watch of an operator is cut."""
    operator = draw_operator(world, rng)
    if operator is not None:
        operator.transport.link.break_watches()


@fault(weight=0.7, lasts_s=(0, 0))
def watch_position_is_too_old(world: World, rng: Random) -> None:
    """The watches end and etcd has compacted what they would go on from: 410."""
    world.server.compact(PODS)
    watches_break(world, rng)


@fault(weight=1.5, lasts_s=(5, 60))
def watch_lags(world: World, rng: Random) -> Heal | None:
    """The API server's cache is behind: events come late, cached reads are old."""
    operator = draw_operator(world, rng)
    if operator is None:
        return None
    faults = operator.transport.link.faults
    faults.watch_delay_s = faults.stale_s = rng.uniform(1, 30)

    def heal() -> None:
        faults.watch_delay_s = faults.stale_s = 0.0

    return heal


@fault(lasts_s=(5, 60))
def api_server_is_slow(world: World, rng: Random) -> Heal | None:
    """Every request takes up to some seconds."""
    operator = draw_operator(world, rng)
    if operator is None:
        return None
    faults = operator.transport.link.faults
    faults.latency_s = (0.1, rng.uniform(0.5, 6))

    def heal() -> None:
        faults.latency_s = (0.001, 0.005)

    return heal


@fault(weight=1.5, lasts_s=(5, 90))
def operator_is_cut_off(world: World, rng: Random) -> Heal | None:
    """The operator does not reach the API server."""
    operator = draw_operator(world, rng)
    if operator is None:
        return None
    operator.transport.link.faults.is_cut = True
    return operator.transport.link.heal


@fault(lasts_s=(2, 40))
def api_server_fails(world: World, rng: Random) -> Heal | None:
    """Every request is answered 503, or refused."""
    operator = draw_operator(world, rng)
    if operator is None:
        return None
    link = operator.transport.link
    link.faults.is_refusing = rng.random() < 0.5
    link.faults.failing_status = 0 if link.faults.is_refusing else rng.choice((429, 500, 503))

    def heal() -> None:
        link.faults.failing_status = 0
        link.heal()

    return heal


@fault(lasts_s=(0, 0))
def answers_of_the_api_server_get_lost(world: World, rng: Random) -> None:
    """Writes are carried out and nobody hears of it; others find that somebody was faster."""
    operator = draw_operator(world, rng)
    if operator is not None:
        operator.transport.link.faults.lost_answers = rng.randint(1, 3)
        operator.transport.link.faults.conflicts = rng.randint(0, 3)


@fault(lasts_s=(5, 60))
def rights_are_lost(world: World, rng: Random) -> Heal:
    """A role loses a rule."""
    resource, verbs = rng.choice(
        (
            (PODS, ("list", "watch", "get")),
            (STATEFULSETS, ("get", "list", "watch")),
            (f"{STATIC_GROUPS.partition('.')[0]}.{STATIC_GROUPS.partition('.')[2]}/status", ("patch",)),
            (STATIC_GROUPS, ("get", "list", "watch")),
            (LEASES, ("get", "update")),
        )
    )
    world.server.deny("operator", verbs, resource)
    return lambda: world.server.allow("operator", verbs, resource)


@fault(weight=0.5, lasts_s=(1, 20))
def etcd_is_restored(world: World, rng: Random) -> Heal:
    """etcd is set back to a snapshot that was taken a moment before."""
    backup = world.server.backup()

    def heal() -> None:
        world.kubernetes.restore_etcd(backup)
        world.truth.resync(world.server)
        world.statuses.restored()

    return heal


# operators ------------------------------------------------------------------------------------------------------------


@fault(weight=2.0, lasts_s=(1, 30))
def operator_crashes(world: World, rng: Random) -> Heal | None:
    """An operator is killed and starts again."""
    operator = draw_operator(world, rng)
    if operator is None:
        return None
    world.crash_operator(operator)
    return lambda: world.restart_operator(operator.name)


@fault(lasts_s=(3, 45))
def operator_freezes(world: World, rng: Random) -> Heal | None:
    """An operator stands still, perhaps beyond its Lease, and goes on as if nothing had been."""
    operator = draw_operator(world, rng)
    if operator is None:
        return None
    operator.process.freeze()
    return operator.process.thaw


@fault(lasts_s=(0, 0))
def second_operator_starts(world: World, rng: Random) -> None:
    """A standby is added."""
    if not any(o.name == "operator-b" for o in world.living):
        world.restart_operator("operator-b")


@fault(weight=0.7, lasts_s=(0, 0))
def lease_is_deleted(world: World, rng: Random) -> None:
    """Somebody deletes the Lease, and with it the stored position of the watch."""
    attempt(lambda: world.server.delete(LEASES, SYSTEM, "staticgroup-operator"))


# Kafka ----------------------------------------------------------------------------------------------------------------


@fault(weight=2.0, lasts_s=(0, 0))
def coordinator_fails_over(world: World, rng: Random) -> None:
    """Another broker coordinates the group, knowing what was persisted."""
    world.coordinator_epoch += 1
    world.kafka.fail_over(
        GROUP, is_clean=rng.random() < 0.5, outage_s=rng.uniform(0.2, 8), loading_s=rng.choice((0.0, 0.0, 3.0))
    )


@fault(weight=0.7, lasts_s=(5, 60))
def all_brokers_are_down(world: World, rng: Random) -> Heal:
    """Kafka is gone for a while."""
    world.coordinator_epoch += 1
    for node_id in world.kafka.brokers:
        world.kafka.kill_broker(node_id)

    def heal() -> None:
        world.coordinator_epoch += 1
        for node_id in world.kafka.brokers:
            world.kafka.start_broker(node_id)

    return heal


@fault(weight=1.5, lasts_s=(5, 40))
def answers_of_kafka_get_lost(world: World, rng: Random) -> Heal | None:
    """The coordinator acts, and the operator does not hear of it."""
    operator = draw_operator(world, rng)
    if operator is None:
        return None
    link = operator.gateway.link
    link.answers_to_lose = rng.randint(1, 4)

    def heal() -> None:
        link.answers_to_lose = 0

    return heal


@fault(lasts_s=(5, 60))
def kafka_is_slow(world: World, rng: Random) -> Heal | None:
    """Every request of the operator takes up to seconds."""
    operator = draw_operator(world, rng)
    if operator is None:
        return None
    link = operator.gateway.link
    link.latency_s = rng.uniform(0.2, 4)

    def heal() -> None:
        link.latency_s = USUAL_LATENCY_S

    return heal


@fault(lasts_s=(0, 0))
def describe_is_stale(world: World, rng: Random) -> None:
    """The group is shown as it was, as by a former coordinator."""
    world.kafka.read_stale(GROUP, behind_s=rng.uniform(1, 30), for_s=rng.uniform(1, 20))


@fault(lasts_s=(0, 0))
def coordinator_is_loading(world: World, rng: Random) -> None:
    """The coordinator answers an error for a while."""
    code = rng.choice((ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE))
    world.kafka.refuse(GROUP, code, for_s=rng.uniform(2, 30))


@fault(weight=0.7, lasts_s=(5, 40))
def log_refuses_appends(world: World, rng: Random) -> Heal:
    """`__consumer_offsets` has too few replicas in sync."""
    world.kafka.refuse_writes(GROUP, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return lambda: world.kafka.refuse_writes(GROUP, None)


@fault(lasts_s=(5, 60))
def access_is_lost(world: World, rng: Random) -> Heal:
    """An ACL of the operator's principal is gone."""
    operation = rng.choice(("READ", "DESCRIBE"))
    world.kafka.deny(OPERATOR_PRINCIPAL, operation)
    return lambda: world.kafka.grant(OPERATOR_PRINCIPAL, operation)


@fault(lasts_s=(0, 0))
def stranger_joins(world: World, rng: Random) -> None:
    """A process of somebody else joins the group under an id of its own."""
    link = KafkaLink(name=f"stranger-{world.loop.time():.3f}")
    join = JoinGroupRequest(
        group_id=GROUP,
        group_instance_id=f"{TOPIC}-stranger-{rng.randint(0, 9)}",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=10_000,
        protocols=(Protocol("range", encode_subscription((TOPIC,))),),
    )
    world.loop.spawn(world.ask_once(link, join), name="stranger")


# users ----------------------------------------------------------------------------------------------------------------


@fault(lasts_s=(10, 90))
def group_is_suspended(world: World, rng: Random) -> Heal:
    """The user says stop, and go on later."""
    attempt(lambda: world.users.edit_group(NAMESPACE, GROUP, {"suspend": True}))
    return lambda: attempt(lambda: world.users.edit_group(NAMESPACE, GROUP, {"suspend": False}))


@fault(weight=0.7, lasts_s=(10, 90))
def mode_is_observe(world: World, rng: Random) -> Heal:
    """The user wants to look first."""
    attempt(lambda: world.users.edit_group(NAMESPACE, GROUP, {"mode": "Observe"}))
    return lambda: attempt(lambda: world.users.edit_group(NAMESPACE, GROUP, {"mode": "Manage"}))


@fault(weight=0.5, lasts_s=(1, 40))
def group_is_created_anew(world: World, rng: Random) -> Heal:
    """The StaticGroup is deleted and created again under the same name."""
    attempt(lambda: world.users.delete_group(NAMESPACE, GROUP))
    return lambda: attempt(world.create_group)
