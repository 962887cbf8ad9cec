"""What Kubernetes does: users, the StatefulSet controller, the scheduler, kubelets, nodes and the pod garbage collector.

Every certificate that the product sees comes from one of these writes. Sources: the StatefulSet controller (one object
per name, condemned and failed pods are deleted); the kubelet since 1.27 withholds a terminal phase while containers may
run (status_manager mergePodStatus); Kubelet.rejectPod writes a status without containers; PodGCController writes Failed
under the controllers' name and deletes with grace 0, with DeletionByPodGC only for orphans (gcOrphaned), without any
reason for pods on nodes tainted out-of-service (gcTerminating).
"""

from __future__ import annotations

from collections.abc import Iterator

from .move import Actors, Move
from .objects import (
    ABSENT,
    FAILED,
    LOST,
    LOST_COUNT,
    LOST_END,
    NEVER_RAN,
    PENDING,
    RUNNING,
    RUNS,
    TERMINATED,
    WAITING,
    Pod,
)
from .state import (
    ALIVE,
    CRASH,
    CRASHED,
    ENDED,
    FORCE,
    LOSS,
    NEVER,
    NEW,
    NODE_DELETION,
    OUTAGE,
    PARTITION,
    REBOOT,
    REJECTION,
    RESTORE,
    REWOUND,
    TOGGLE,
    Process,
    State,
)


class Kubernetes(Actors):
    """Moves of everything but Kafka and the operator."""

    def moves(self, state: State) -> Iterator[Move]:
        """Yield every move of Kubernetes and its users."""
        yield from self._users(state)
        yield from self._controllers(state)
        for uid, process in enumerate(state.processes, start=1):
            if process.life in (ENDED, NEVER) and (state.pod is None or state.pod.uid != uid):
                continue
            yield from self._kubelet(state, uid, process)
            yield from self._machine(state, uid, process)
        if self.variant.restores:
            yield from self._etcd(state)

    # users ----------------------------------------------------------------------------------------------------------

    def _users(self, state: State) -> Iterator[Move]:
        v, spent, pod = self.variant, state.spent, state.pod
        if spent[TOGGLE] < v.toggles:
            replicas = state.replicas
            if v.intent and state.wanted:
                replicas = tuple(r._replace(round=r.round._replace(unwanted=True)) if r.step else r for r in replicas)
            after = state._replace(wanted=not state.wanted, spent=self.spend(state, TOGGLE), replicas=replicas)
            yield Move(f"user scales {'down' if state.wanted else 'up'}", after)
        if pod is None:
            return
        if spent[FORCE] < v.forces:
            yield Move(f"user force-deletes pod {pod.uid}", self.delete(state)._replace(spent=self.spend(state, FORCE)))

    # controllers ----------------------------------------------------------------------------------------------------

    def _controllers(self, state: State) -> Iterator[Move]:
        pod = state.pod
        if pod is None:
            if state.wanted and len(state.processes) < self.variant.pods:
                uid = len(state.processes) + 1
                new = Pod(uid=uid, statuses=(ABSENT,) * self.variant.containers)
                process = Process(members=(0,) * self.variant.members)
                yield Move(f"StatefulSet creates pod {uid}", self.create(state, new, process))
            return
        process = state.processes[pod.uid - 1]
        if not pod.deleting and (not state.wanted or pod.phase == FAILED):
            # A pod that no node has is removed at once: there is no kubelet to wait for.
            after = self.write(state, deleting=True) if pod.bound else self.delete(state)
            yield Move(f"StatefulSet deletes pod {pod.uid}", after, is_fair=True)
        if not pod.bound and not pod.deleting:
            yield Move(f"scheduler binds pod {pod.uid}", self.write(state, bound=True))
        if not pod.deleting and pod.bound and not process.linked:
            yield Move(f"node controller evicts pod {pod.uid} of the lost node", self.write(state, deleting=True))
        if pod.bound and not process.has_node:
            if pod.phase != FAILED:
                after = self.write(state, phase=FAILED, reason="DeletionByPodGC", by_gc=True)
                yield Move(f"PodGC writes Failed on orphaned pod {pod.uid}", after)
            else:
                yield Move(f"PodGC deletes orphaned pod {pod.uid}", self.delete(state))
        elif state.spent[OUTAGE] and pod.deleting and not process.linked:
            if pod.phase != FAILED:
                after = self.write(state, phase=FAILED, by_gc=True)
                yield Move(f"PodGC writes Failed on pod {pod.uid} of the out-of-service node", after)
            else:
                yield Move(f"PodGC deletes pod {pod.uid} of the out-of-service node", self.delete(state))

    # the kubelet ----------------------------------------------------------------------------------------------------

    def _kubelet(self, state: State, uid: int, process: Process) -> Iterator[Move]:
        pod = state.pod if state.pod is not None and state.pod.uid == uid else None
        must_end = process.linked and (pod is None or pod.deleting or pod.phase == FAILED)
        if process.life == CRASHED and not must_end:
            yield Move(f"kubelet runs the container of pod {uid} again", self._started(state, uid))
        if not process.linked:
            return
        if must_end:
            yield from self._kills(state, uid, process)
        if pod is not None and pod.bound:
            yield from self._posts(state, uid, process, pod)

    def _started(self, state: State, uid: int) -> State:
        has_sidecar = self.variant.containers > 1 and not self.variant.first_is_init
        return self.with_process(state, uid, life=ALIVE, sidecar=has_sidecar, first_ran=self.variant.containers > 1)

    def _kills(self, state: State, uid: int, process: Process) -> Iterator[Move]:
        if process.sidecar:
            yield Move(
                f"kubelet ends the sidecar of pod {uid}", self.with_process(state, uid, sidecar=False), is_fair=True
            )
        if process.life in (ALIVE, CRASHED) and not self.variant.host_pid:
            after = self.with_process(state, uid, life=ENDED, members=(0,) * len(process.members))
            yield Move(f"kubelet ends pod {uid}", after, is_fair=True)
            if process.life == ALIVE and self.variant.consumer and any(process.members):
                seats = tuple(s._replace(away=s.away or s.holder in process.members) for s in state.seats)
                yield Move(f"kubelet ends pod {uid}, its client leaves with epoch -2", after._replace(seats=seats))
        if process.life == NEW:
            yield Move(f"kubelet never starts pod {uid}", self.with_process(state, uid, life=NEVER), is_fair=True)

    def _posts(self, state: State, uid: int, process: Process, pod: Pod) -> Iterator[Move]:
        """Write what the kubelet has seen; a terminal phase only once nothing of the pod can run (1.27 and later)."""
        v = self.variant
        if pod.phase == FAILED:
            is_over = process.life in (ENDED, NEVER) or v.host_pid
            if pod.deleting and is_over and not process.sidecar:
                yield Move(f"kubelet lets the object of pod {uid} go", self.delete(state), is_fair=True)
            if v.losses and pod.deleting and set(pod.statuses) == {ABSENT}:
                yield from self._after_rejection(state, uid, process)
            return
        if process.life == NEW and not pod.deleting:
            yield from self._starts(state, uid, process)
            if state.spent[REJECTION] < v.rejections:
                after = self.with_process(self.write(state, phase=FAILED), uid, life=NEVER)
                yield Move(
                    f"kubelet rejects pod {uid} at admission", after._replace(spent=self.spend(state, REJECTION))
                )
        runs = self._as_it_is(process, pod)
        if v.unpulled and process.life == NEW and not pod.deleting and runs != pod.statuses:
            yield Move(f"kubelet posts what pod {uid} waits for", self.write(state, statuses=runs), is_fair=True)
        if process.life == ALIVE and (runs != pod.statuses or pod.phase == PENDING):
            yield Move(
                f"kubelet posts pod {uid} as running", self.write(state, phase=RUNS, statuses=runs), is_fair=True
            )
        if process.crash_seen:
            shown = (*runs[:-1], TERMINATED)
            after = self.with_process(self.write(state, phase=RUNS, statuses=shown), uid, crash_seen=False)
            yield Move(f"kubelet posts that the container of pod {uid} terminated, phase Running", after)
        was_posted = pod.statuses[-1] not in (ABSENT, WAITING)
        if (
            process.life in (ALIVE, CRASHED)
            and state.spent[REJECTION] < v.rejections
            and (was_posted or v.rejects_unposted)
        ):
            after = self.write(state, phase=FAILED, statuses=(ABSENT,) * v.containers)
            says = f"kubelet restarts and rejects running pod {uid}: Failed, no container statuses"
            yield Move(says, after._replace(spent=self.spend(state, REJECTION)))
        yield from self._final(state, uid, process, pod)

    def _starts(self, state: State, uid: int, process: Process) -> Iterator[Move]:
        """Start all containers, or only one of two because the image of the other is not there."""
        v = self.variant
        if not v.first_is_init or (process.first_ran and not process.sidecar):
            yield Move(f"kubelet starts pod {uid}", self._started(state, uid))
        if process.sidecar and v.first_is_init:
            yield Move(f"the init container of pod {uid} ends", self.with_process(state, uid, sidecar=False))
        if v.unpulled and v.containers > 1 and not process.first_ran:
            first = self.with_process(state, uid, sidecar=True, first_ran=True)
            yield Move(f"kubelet starts the first container of pod {uid}, the client's image is not there", first)
            if not v.first_is_init:
                last = self.with_process(state, uid, life=ALIVE)
                yield Move(f"kubelet starts the client of pod {uid}, the sidecar's image is not there", last)

    def _after_rejection(self, state: State, uid: int, process: Process) -> Iterator[Move]:
        """Write the entries that a rejection had left out, by what the runtime lists; it may have lost what runs."""
        count = self.variant.containers
        if process.life == ENDED:
            after = self.write(state, statuses=(TERMINATED,) * count)
            yield Move(f"kubelet posts the entries of rejected pod {uid}, which ended", after)
        elif process.life == ALIVE and state.spent[LOSS] < self.variant.losses:
            after = self.write(state, statuses=(NEVER_RAN,) * count)
            says = f"kubelet lost the running container of rejected pod {uid}: ContainerStatusUnknown without a trace"
            yield Move(says, after._replace(spent=self.spend(state, LOSS)))

    def _as_it_is(self, process: Process, pod: Pod) -> tuple[str, ...]:
        ended = TERMINATED if process.first_ran or not self.variant.unpulled else WAITING
        sidecar = RUNNING if process.sidecar else ended
        client = RUNNING if process.life == ALIVE else pod.statuses[-1]
        if self.variant.unpulled and process.life == NEW:
            client = WAITING
        return (sidecar, client)[-self.variant.containers :]

    def _final(self, state: State, uid: int, process: Process, pod: Pod) -> Iterator[Move]:
        """Write the terminal phase; kubelets before 1.27 and virtual ones may do so with a container running."""
        if not pod.deleting or process.sidecar:
            return
        count = self.variant.containers
        first = (TERMINATED if process.first_ran else NEVER_RAN,) * (count - 1)
        if process.life == ENDED:
            yield Move(
                f"kubelet posts the end of pod {uid}",
                self.write(state, phase=FAILED, statuses=(*first, TERMINATED)),
                is_fair=True,
            )
        elif process.life == NEVER:
            # After an init container that did not end well the others stay as they were.
            for shown in (NEVER_RAN, WAITING) if self.variant.first_is_init else (NEVER_RAN,):
                after = self.write(state, phase=FAILED, statuses=(*first, shown))
                says = "never started its client" if process.first_ran else "never ran"
                yield Move(f"kubelet posts that pod {uid} {says} ({shown})", after, is_fair=True)
        elif process.life == ALIVE and state.spent[LOSS] < self.variant.losses:
            for shown in self._losses(pod):
                after = self.write(state, phase=FAILED, statuses=(*first, shown))
                says = f"kubelet lost the running container of pod {uid}: Failed, ContainerStatusUnknown ({shown})"
                yield Move(says, after._replace(spent=self.spend(state, LOSS)))
        elif self.variant.host_pid and process.life == ALIVE:
            after = self.write(state, phase=FAILED, statuses=(TERMINATED,) * count)
            yield Move(f"kubelet posts the end of pod {uid}, a process outlives its container", after)
        elif self._is_sloppy() and process.life in (ALIVE, CRASHED) and pod.statuses[-1] == TERMINATED:
            says = f"old kubelet posts a terminal phase for pod {uid} from an end it saw before"
            yield Move(says, self.write(state, phase=FAILED))

    def _losses(self, pod: Pod) -> tuple[str, ...]:
        """Return what a kubelet may write of a running container that it cannot find.

        Of one that it posted it may even forget that there was one; of one whose start it never posted it keeps a trace.
        """
        if not self.variant.unpulled:
            return (LOST,)
        return (LOST_END, LOST_COUNT, *((LOST, NEVER_RAN) if pod.statuses[-1] == RUNNING else ()))

    def _is_sloppy(self) -> bool:
        version = self.variant.kubelet
        return "vk" in version or not version or int(version.split(".")[1]) < 27

    # machines -------------------------------------------------------------------------------------------------------

    def _machine(self, state: State, uid: int, process: Process) -> Iterator[Move]:
        v, spent = self.variant, state.spent
        gone = (0,) * len(process.members)
        if process.life == ALIVE and spent[CRASH] < v.crashes:
            after = self.with_process(state, uid, life=CRASHED, crash_seen=True, members=gone)
            yield Move(f"the container of pod {uid} crashes", after._replace(spent=self.spend(state, CRASH)))
        if process.life == ALIVE and spent[REBOOT] < v.reboots:
            after = self.with_process(state, uid, life=CRASHED, members=gone, linked=True, has_node=True, sidecar=False)
            yield Move(f"the node of pod {uid} reboots", after._replace(spent=self.spend(state, REBOOT)))
        pod = state.pod if state.pod is not None and state.pod.uid == uid else None
        if process.linked and spent[PARTITION] < v.partitions and (pod is None or pod.bound):
            after = self.with_process(state, uid, linked=False)
            yield Move(
                f"the node of pod {uid} loses the API server", after._replace(spent=self.spend(state, PARTITION))
            )
        if not process.linked:
            if not spent[OUTAGE]:
                after = self.with_process(state, uid, linked=True, has_node=True)
                yield Move(f"the node of pod {uid} is back", after)
            if process.has_node and spent[NODE_DELETION] < v.node_deletions:
                after = self.with_process(state, uid, has_node=False)
                yield Move(
                    f"somebody deletes the Node of pod {uid}", after._replace(spent=self.spend(state, NODE_DELETION))
                )
            if spent[OUTAGE] < v.outages:
                tainted = pod and pod._replace(tainted=not v.taint_unseen)
                yield Move(
                    f"somebody taints the node of pod {uid} out-of-service while it still runs",
                    state._replace(spent=self.spend(state, OUTAGE), pod=tainted or state.pod),
                )

    # etcd -----------------------------------------------------------------------------------------------------------

    def _etcd(self, state: State) -> Iterator[Move]:
        if state.backup is None:
            yield Move("somebody backs etcd up", state._replace(backup=(state.wanted, state.pod)))
        elif state.spent[RESTORE] < self.variant.restores:
            wanted, pod = state.backup
            processes = tuple(
                p._replace(life=CRASHED)
                if pod is not None and pod.uid == uid and p.life == ENDED and not pod.deleting and pod.phase != FAILED
                else p
                for uid, p in enumerate(state.processes, start=1)
            )
            # What each watch has delivered by now is open; what it has not is lost with the old time line.
            for count in range(max(len(r.log) for r in state.replicas) + 1):
                replicas = tuple(
                    self.delivered(r, count)._replace(watch=REWOUND, log=()) if not r.watch else r
                    for r in state.replicas
                )
                after = state._replace(
                    wanted=wanted, pod=pod, processes=processes, replicas=replicas, spent=self.spend(state, RESTORE)
                )
                yield Move(f"etcd is restored from the backup; the watch had shown {count} more events", after)
