"""The kubelet and the container runtime of a node.

The kubelet starts and stops processes, writes what it knows to the API server, and is the only one whose word about
the end of a container counts. It can be frozen, restarted or cut off from the API server while processes run on; the
machine can be frozen, rebooted or powered off.

Sources: kubelet pod_workers.go, status_manager.go, kubelet_pods.go HandlePodCleanups (a running pod that the API
server does not know is killed with a grace of one second), nodelease; seen on 1.36.3: the end of a pod is a PATCH of
its status, and then, apart from it, the DELETE of the object.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from ...engine.loop import SimulationLoop
from ..api_server import ApiServer
from ..objects import NODES, PODS, Json, is_terminating, name_of, namespace_of, uid_of
from ..storage import ApiError
from ..watch_log import Event, Selector
from .addresses import Addresses
from .container_status import ContainerRecord, environment
from .kills import Kills
from .machine import Machine
from .pod_worker import PodWorker, Stage
from .processes import Processes
from .runtime import Runtime
from .slot_waiter import Waiters

ORPHAN_GRACE_S: Final = 1.0


class Kubelet(Machine):
    """One node with its pods; it runs from the moment it is made.

    Parameters
    ----------
    parts: see `Machine`.

    Attributes
    ----------
    rejections: so many next pods are refused admission, without any container status.
    missing_images: images that cannot be pulled; containers that need them wait for the rest of their pod's life.
    kills: the containers that its runtime is asked to end.
    waiters: of its pods, which wait for slots of their Deployments.
    """

    def __init__(self, server: ApiServer, loop: SimulationLoop, processes: Processes, **parts: Any) -> None:
        super().__init__(server, loop, processes, **parts)
        self.rejections = 0
        self.kills = Kills(processes, self.host, self._note)
        self.addresses = Addresses(self.name, self.host)
        self.missing_images: set[str] = set()
        self._workers: dict[str, PodWorker] = {}
        self._runtime = Runtime(processes, self.host)
        self.waiters = Waiters(loop, self._rng, later=self._later, note=self._note)
        self._selector = Selector(fields=f"spec.nodeName={self.name}")
        server.observers.append(self._observe)
        self._launch()

    def _lose_processes(self) -> None:
        self.kills.let_through()
        self._runtime.lose_processes(self._clock_s())
        self.waiters.lose()

    def _forget_all(self) -> None:
        self._workers.clear()

    # -- what it receives

    def _observe(self, resource: str, event: Event) -> None:
        if resource != PODS:
            return
        obj = event.current if event.current is not None else event.previous
        assert obj is not None
        if self._selector.matches(obj) and self.is_connected:
            uid, place = uid_of(obj), (namespace_of(obj), name_of(obj))
            worker = self._workers.get(uid)
            if worker is not None and event.current is not None and not is_terminating(obj):
                self._take(worker, obj)  # labels, our own status, notes for waiters: nothing else to do
                return
            self._later(self._draw(self.timings.reaction_s), self._hear, uid, place)

    def _take(self, worker: PodWorker, pod: Json) -> None:
        worker.pod = pod
        if worker.is_misreported:  # pkg/kubelet/status/status_manager.go: needsReconcile
            self._later(self._draw(self.timings.reaction_s), self._post, worker)
        self.waiters.take(worker, pod, partial(self._waited, worker))

    def _resync(self) -> None:
        """Compare everything with the API server, as after a new LIST."""
        if not self.is_connected:
            return
        present = {uid_of(pod): pod for pod in self._server.list(PODS, selector=self._selector)}
        for uid in [*present, *(uid for uid in [*self._workers, *self._runtime.known()] if uid not in present)]:
            pod = present.get(uid)
            self._look_at(uid, pod)
        for worker in list(self._workers.values()):
            self._relist(worker)
            if worker.is_dirty or worker.stage is Stage.RUNNING:
                self._post(worker)
        if self._server.get(NODES, "", self.name) is not None:
            self._post_node()

    def resync_soon(self) -> None:
        """List again, as after a broken watch."""
        self._later(self._draw(self.timings.reaction_s), self._resync)

    def _hear(self, uid: str, place: tuple[str, str]) -> None:
        if not self.is_connected:
            return
        pod = self._server.get(PODS, *place)
        self._look_at(uid, pod if pod is not None and uid_of(pod) == uid else None)

    def _look_at(self, uid: str, pod: Json | None) -> None:
        worker = self._workers.get(uid)
        if pod is None:
            if worker is None:
                self._reap(uid)
            elif worker.stage is Stage.ENDED:
                self._workers.pop(uid)
                self._reap(uid)
            else:
                worker.is_orphan, grace_s = True, worker.pod["spec"].get("terminationGracePeriodSeconds", 30)
                self._terminate(worker, float(grace_s), "object gone")
            return
        if worker is None:
            self._admit(pod)
            return
        self._take(worker, pod)
        if is_terminating(pod):
            if worker.stage is Stage.ENDED:
                self._later(self._draw(self.timings.cleanup_s), self._delete_object, worker)
            else:
                self._terminate(worker, float(pod["metadata"].get("deletionGracePeriodSeconds", 30)), "deleted")

    def _reap(self, uid: str) -> None:
        """Kill what runs without an object: this kubelet process knows it only from the runtime."""
        if not (names := self._runtime.running(uid)):
            self._forget(uid)
            return
        self._note("orphan found", uid=uid[:8])
        for name in names:
            self.kills.send(uid, name, "TERM")
        self._later(ORPHAN_GRACE_S, self._kill, uid)

    def _kill(self, uid: str) -> None:
        for name in self._runtime.running(uid):
            self._note("container killed", uid=uid[:8], container=name)
            self.kills.send(uid, name, "KILL")

    def let_kills_through(self) -> None:
        """Carry out the kills that hang."""
        for uid in self.kills.let_through():
            self._later(self._draw(self.timings.reaction_s), self._kill, uid)

    def _forget(self, uid: str) -> None:
        worker = self._workers.pop(uid, None)
        if worker is not None and worker.kill_timer is not None:
            worker.kill_timer.cancel()
        if self._runtime.running(uid):
            return  # the runtime still knows what it runs
        self.addresses.give_back(uid)
        self._runtime.forget(uid)
        self.waiters.forget(uid)

    # -- start

    def _admit(self, pod: Json) -> None:
        uid = uid_of(pod)
        worker = PodWorker(pod=pod, records=self._runtime.records(pod))
        self._workers[uid] = worker
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            worker.stage = Stage.ENDED
            if is_terminating(pod):
                self._later(self._draw(self.timings.cleanup_s), self._delete_object, worker)
            if self._runtime.running(uid):
                self._later(self.timings.housekeeping_s, self._reap, uid)
        elif self.rejections > 0:
            self.rejections -= 1
            worker.stage, worker.is_rejected = Stage.ENDED, True
            self._note("pod rejected", pod=worker.name, uid=uid[:8])
            self._post(worker)
            self._later(self.timings.housekeeping_s, self._reap_rejected, worker)
        elif is_terminating(pod):
            self._terminate(worker, float(pod["metadata"].get("deletionGracePeriodSeconds", 30)), "deleted")
        else:
            self._take_up(worker)

    def _take_up(self, worker: PodWorker) -> None:
        """Start a pod, or go on where an earlier kubelet process has left it."""
        waiting = [i for i, r in enumerate(worker.records) if r.is_due or self.waiters.is_due(worker.uid, r)]
        if waiting:
            self._post(worker)
            self._later(self._draw(self.timings.start_s), self._start, worker, waiting[0])
        else:
            worker.stage = Stage.RUNNING
            self._relist(worker)
            self._post(worker)

    def _reap_rejected(self, worker: PodWorker) -> None:
        self.waiters.stop(worker.uid)
        if self._runtime.running(worker.uid):
            self._reap(worker.uid)

    def _start(self, worker: PodWorker, index: int) -> None:
        """Start the containers in order; one that ends by itself holds up those after it."""
        if worker.stage is not Stage.STARTING or self._workers.get(worker.uid) is not worker:
            return
        now_s = self._clock_s()
        for position in range(index, len(worker.records)):
            record = worker.records[position]
            if record.run and position != index:
                continue  # it runs, and an earlier kubelet process has left one before it waiting
            record.is_unpulled = record.image in self.missing_images
            if record.is_unpulled and record.kind == "initContainerStatuses":
                self._post(worker)
                return
            if record.is_unpulled:
                continue
            if not (record.is_waiter and record.is_running):
                record.begin(now_s)
            if record.is_oneshot:
                self._post(worker)
                if record.is_waiter:
                    self.waiters.run(worker, record.name, partial(self._waited, worker, record.name))
                else:
                    self._later(self._draw(self.timings.init_s), self._init_done, worker, position)
                return
            self._run(worker, record)
        worker.stage = Stage.RUNNING
        self._post(worker)

    def _init_done(self, worker: PodWorker, position: int) -> None:
        record = worker.records[position]
        if record.is_running:
            record.end(self._clock_s(), 0)
            self._start(worker, position + 1)

    def _waited(self, worker: PodWorker, container: str) -> None:
        """Go on after a waiter; after a boot, others than the first container behind it have to be started again."""
        self._init_done(worker, worker.records.index(worker.record(container)))
        if worker.stage is Stage.RUNNING:
            self._restart_ended(worker)

    def _run(self, worker: PodWorker, record: ContainerRecord) -> None:
        self._runtime.started(worker.uid, record.name)
        self._note("container started", pod=worker.name, uid=worker.uid[:8], container=record.name, run=record.run)
        self._processes.start(
            node=self.host, namespace=worker.namespace, pod_name=worker.name, pod_uid=worker.uid, container=record.name,
            environment=environment(worker.pod, record.name, self.waiters.files.get(worker.uid, {})),
            address=self.addresses.of(worker.uid),
        )  # fmt: skip
        if self.timings.ready_s is not None:
            self._later(self._draw(self.timings.ready_s), self._set_ready, worker, record.name, record.run)

    def container_ready(self, pod_uid: str, container: str) -> None:
        """Take from a process that it has started up; a readiness probe finds out a little later."""
        worker = self._workers.get(pod_uid)
        if worker is not None and self._runtime.has_container(pod_uid, container):
            run = worker.record(container).run
            self._later(self._draw(self.timings.probe_s), self._set_ready, worker, container, run)

    def _set_ready(self, worker: PodWorker, container: str, run: int) -> None:
        record = worker.record(container)
        if worker.stage is Stage.RUNNING and record.run == run and record.is_running and not record.is_ready:
            record.is_ready = True
            self._post(worker)

    # -- end of a container

    def owns(self, pod_uid: str) -> bool:
        """True when this node's runtime knows the pod."""
        return self._runtime.owns(pod_uid)

    def container_exited(self, pod_uid: str, container: str, exit_code: int) -> None:
        """Take from the runtime that a process ended; the kubelet notices a little later."""
        self._runtime.exited(pod_uid, container, self._clock_s(), exit_code)
        worker = self._workers.get(pod_uid)
        if worker is not None:
            self._later(self._draw(self.timings.notice_s), self._relist, worker)

    def _relist(self, worker: PodWorker) -> None:
        """Compare the runtime with what the kubelet believes of one pod."""
        has_changed = False
        for record, at_s, code in self._runtime.ended(worker.uid, worker.records):
            record.end(at_s, code)
            has_changed = True
            self._note("container terminated", pod=worker.name, uid=worker.uid[:8], container=record.name, exit=code)
        if worker.stage is Stage.TERMINATING:
            self._go_on_ending(worker)
        elif worker.stage is Stage.RUNNING:
            if has_changed:
                self._post(worker)
            self._restart_ended(worker)

    def _restart_ended(self, worker: PodWorker) -> None:
        if worker.pod["spec"].get("restartPolicy", "Always") != "Always":
            return
        for record in worker.records:
            if record.finished_s is None or record.is_oneshot or record.is_backing_off:
                continue
            wait_s = worker.backoff_s(record)
            record.is_backing_off = True
            if wait_s:
                self._post(worker)
            self._later(wait_s + self._draw(self.timings.restart_s), self._restart, worker, record)

    def _restart(self, worker: PodWorker, record: ContainerRecord) -> None:
        if worker.stage is Stage.RUNNING and not record.is_running:
            record.begin(self._clock_s())
            self._run(worker, record)
            self._post(worker)

    # -- end of a pod

    def evict(
        self, pod_uid: str, *, reason: str = "Evicted", message: str = "The node was low on resource: memory."
    ) -> None:
        """End a pod for the node's sake; its object stays, in phase Failed."""
        worker = self._workers.get(pod_uid)
        if worker is not None and not worker.is_ending and self.is_working:
            worker.eviction = (reason, message)
            self._terminate(worker, 0.0, "evicted")

    def _terminate(self, worker: PodWorker, grace_s: float, why: str) -> None:
        now_s = self._loop.time()
        kill_at_s = now_s + max(grace_s, ORPHAN_GRACE_S)
        if worker.stage is Stage.ENDED:
            return
        if worker.kill_timer is None or kill_at_s < worker.kill_at_s:
            if worker.kill_timer is not None:
                worker.kill_timer.cancel()
            worker.kill_at_s = kill_at_s
            worker.kill_timer = self._later(kill_at_s - now_s, self._kill, worker.uid)
        if worker.stage is Stage.TERMINATING:
            return
        worker.stage = Stage.TERMINATING
        self.waiters.stop(worker.uid)
        self._note("pod terminates", pod=worker.name, uid=worker.uid[:8], why=why, grace=grace_s)
        self._post(worker)
        for record in worker.records:
            if record.is_oneshot and record.is_running:
                record.end(self._clock_s(), *((0, "") if record.is_waiter else (143, "Error")))
            elif record.kind == "containerStatuses":
                self.kills.send(worker.uid, record.name, "TERM")
        self._later(self._draw(self.timings.notice_s), self._relist, worker)

    def _go_on_ending(self, worker: PodWorker) -> None:
        if any(r.is_running for r in worker.records if r.kind == "containerStatuses"):
            return
        if not worker.is_stopped:
            # Sidecars get their signal only when the others have ended.
            for record in worker.records:
                if record.is_running:
                    self.kills.send(worker.uid, record.name, "TERM")
            return
        worker.stage = Stage.ENDED
        if worker.kill_timer is not None:
            worker.kill_timer.cancel()
        self._later(self._draw(self.timings.status_s), self._write_end, worker)

    def _write_end(self, worker: PodWorker) -> None:
        """Write the terminal phase with the end of every container, and delete the object in a request of its own."""
        self._post(worker)
        if worker.is_orphan:
            self._forget(worker.uid)
        elif is_terminating(worker.pod):
            self._later(self._draw(self.timings.cleanup_s), self._delete_object, worker)

    def _delete_object(self, worker: PodWorker) -> None:
        if not self.is_connected or worker.is_dirty or self._workers.get(worker.uid) is not worker:
            return  # `_resync` comes back to it, or another writer was faster
        try:
            self._server.delete(PODS, worker.namespace, worker.name, grace_s=0, uid=worker.uid)
            self._note("pod object deleted", pod=worker.name, uid=worker.uid[:8])
        except ApiError as error:
            if error.status not in (404, 409):  # another client deleted it, and maybe another one has its name
                raise
        self._forget(worker.uid)

    # -- status

    def _post(self, worker: PodWorker) -> None:
        """Write a pod's status, or remember that it is due."""
        worker.is_dirty = True
        if not self.is_connected or worker.is_orphan:
            return
        present = self._server.get(PODS, worker.namespace, worker.name)
        if present is None or uid_of(present) != worker.uid:
            return
        worker.is_dirty = False
        old_phase = (present.get("status") or {}).get("phase")
        status = worker.status(present, self._loop.time()) | self.addresses.shown(worker)
        if old_phase in ("Succeeded", "Failed") and status["phase"] not in ("Succeeded", "Failed"):
            return  # a terminal phase is never taken back
        worker.pod = self._server.patch_status(PODS, present, status, manager="kubelet")
        if status["phase"] != old_phase:
            self._note("status written", pod=worker.name, uid=worker.uid[:8], phase=status["phase"])
