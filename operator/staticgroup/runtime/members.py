"""Gather what the pod store shows of the pods that may hold the members of one group; see `core.members`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from ..api.resources.memory import SUSPECT_IDS_MAX
from ..core.evidence.chain import KnownPod, PodState
from ..core.evidence.pod import CLOCKS_APART_S, NodeView
from ..core.group import GroupView, KafkaProblem, MemberView
from ..core.ids.naming import HeldSeat, Naming, ordinal_of_pod, seat_name
from ..core.members.carriers import UNATTRIBUTED, UNSEEN, Suspect, pod_of
from ..core.members.memory import Members, Sight, began_s, watch_under, without_ended
from ..core.members.node_gone import NodeLifecycle, machine_of, may_be_gone
from ..core.seats import holders_of
from ..kube.nodes.store import NodeStore
from ..kube.pods.store import PodStore
from ..kube.problem import KubeProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class SightGatherer:
    """Whatever is asked of pods.

    Parameters
    ----------
    lifecycle: what the deletion of a Node says of its machine.
    may_be_of: whether a pod of another namespace may be a member of the StaticGroup's Kafka group.
    read_node: reads a Node consistently; None where there is none.
    clock_ahead_s: how far the API server's clock is ahead of the operator's.
    """

    pods: PodStore
    nodes: NodeStore
    lifecycle: NodeLifecycle
    may_be_of: Callable[[KnownPod], bool]
    read_node: Callable[[str], Awaitable[NodeView | KubeProblem | None]]
    clock_ahead_s: Callable[[], float]

    async def gather(
        self, namespace: str, naming: Naming, group: GroupView | KafkaProblem, members: Members,
        *, described_at_s: float, dated_at_s: float, brokers: str, took_s: float = 0.0, ids_since_s: float = 0.0,
    ) -> Sight:
        """Return what is known after one describe, once the pod watch has passed a consistent read behind it.

        Parameters
        ----------
        described_at_s, dated_at_s: when the group was asked for, monotonic seconds and seconds since the Unix epoch.
        took_s: how long the answer took, seconds.
        brokers: another text where the group was asked for elsewhere: what is not described there is not silent.
        ids_since_s: since when anybody can know an id of the StaticGroup, Unix seconds; 0.0: for ever.

        Notes
        -----
        The read is made only where a member is described for the first time.
        """
        new = _newcomers(naming, group, members)
        has_passed = bool(new) and await self.pods.reach_present(namespace)
        doubtful = tuple(self._suspects_of(namespace, naming, members, ids_since_s))
        watch = self.pods.watch(namespace)
        absent = await self._without_node(members, doubtful, began_s(watch))
        if absent and not (await self.pods.reach_present(namespace) and self.pods.watch(namespace) == watch):
            absent = ()  # the Node may have been forgotten by an etcd that was set back before it was read
        # No await from here on: all of it is one moment of the watch.
        watch = self.pods.watch(namespace)
        doubtful = tuple(self._suspects_of(namespace, naming, members, ids_since_s))
        # Nothing has ended while the watch is not whole: a replay may still show that a run was lost before that end.
        gone = frozenset(s.uid for s in absent if self._may_be_gone(s))  # it may have been taken over meanwhile
        ended = gone | frozenset(self._ended(members, doubtful))
        sight = Sight(
            watch=watch_under(watch, brokers, naming.unscoped),
            described_at_s=described_at_s, took_s=took_s, ends=self.pods.ends,
            dated_at_s=dated_at_s + took_s + max(0.0, self.clock_ahead_s()),
            ended=ended if watch else frozenset(), back=frozenset(self._back(members)) if watch else frozenset(),
            present=frozenset(self._present(members, doubtful)), suspects=doubtful, has_passed=has_passed,
        )
        if not has_passed:
            return sight
        suspects = without_ended(members, sight).suspects
        carrying, addressed, last_end = {}, {}, {}
        for instance_id, member in new.items():
            seat = HeldSeat(instance_id, naming, namespace)
            pods = tuple(self._pods_of(seat))
            live = [pod for pod in pods if pod.state is PodState.LIVE]
            own = [s for s in suspects if seat.may_be_held_by(s)]
            carrying[instance_id] = frozenset((*(pod.uid for pod in live), *(s.uid for s in own)))
            last_end[instance_id] = max((pod.ended_no for pod in pods), default=0)
            uid = pod_of(member, live, own, described_at_s=dated_at_s)
            if uid is not None:
                addressed[instance_id] = uid
        return replace(sight, carrying=carrying, addressed=addressed, last_end=last_end)

    async def _without_node(
        self, members: Members, doubtful: Iterable[Suspect], since_s: float
    ) -> tuple[Suspect, ...]:  # fmt: skip
        """Return the suspects whose machines may be gone, each by a consistent read of its Node.

        A pod that was gone before the watch began, at `since_s` in seconds since the Unix epoch, may have been
        forgotten, together with its Node, by a restored etcd. The store only says where a read is worth it: its watch
        may be behind that of pods.
        """
        absent = []
        new = (s for s in doubtful if s.case not in members.taken_in)  # the pod store never forgets an unseen end
        for suspect in {s.uid: s for s in (*members.suspects, *new)}.values():
            is_forgotten = suspect.since_s < since_s + CLOCKS_APART_S
            is_worth_it = not is_forgotten and self._may_be_gone(suspect)
            if is_worth_it and await self.read_node(suspect.node_name) is None:
                absent.append(suspect)
        return tuple(absent)

    def _may_be_gone(self, suspect: Suspect) -> bool:
        """True while the Node of a suspect is gone, as far as the watch shows, and stood for its machine to the end."""
        if self.nodes.is_present(suspect.node_name):
            return False
        return may_be_gone(suspect, self.nodes.node_of(suspect.node_name), self.lifecycle)

    def _pods_of(self, seat: HeldSeat) -> Iterator[KnownPod]:
        """Yield every known pod that may hold an id."""
        near = self.pods.chain(seat.namespace, pod_names=seat.pod_names, instance_ids=seat.carried_as)
        far = (i for i in self.pods.carriers(seat.carried_as) if i.namespace != seat.namespace and self.may_be_of(i))
        return (pod for pod in (*near, *far) if seat.may_be_held_by(pod))

    def _suspects_of(self, namespace: str, naming: Naming, members: Members, ids_since_s: float) -> Iterator[Suspect]:
        """Yield the suspects that may hold an id of ours, and the carriers of a member that nothing is known of."""
        workload = naming.schemes[0].workload_name if naming.schemes else None
        for pod in self.pods.doubtful():
            own, is_near = naming.own_ids(pod), pod.namespace == namespace
            name = seat_name(pod, naming.scope)
            is_seat = is_near and workload is not None and ordinal_of_pod(workload, name) is not None
            newest_s = max(pod.created_at_s, pod.since_s + CLOCKS_APART_S)
            if not own and not pod.object_present and newest_s < ids_since_s:
                continue  # a container reads its environment from the object, which was gone before the ids were made
            if is_seat or (own and (is_near or self.may_be_of(pod))):
                yield _suspect(pod, naming, self.nodes.node_of(pod.node_name))
        lost: dict[str, set[str]] = {}
        for instance_id, attribution in members.attributions.items():
            for uid in attribution.carriers - {UNSEEN, UNATTRIBUTED}:
                if self.pods.watch(namespace) and self.pods.get(uid) is None:
                    lost.setdefault(uid, set()).add(instance_id)
        known = {s.uid: s for s in members.suspects}
        for uid, ids in lost.items():
            name = next(iter(naming.pod_names_of(min(ids))), "")
            since_s = max(members.attributions[i].first_seen_s for i in ids)  # always the same, to be taken in once
            found = Suspect(uid=uid, namespace=namespace, pod_name=name, instance_ids=frozenset(ids), since_s=since_s)
            if uid not in known:
                yield found
            elif known[uid].case == found.case:
                yield known[uid]  # which may tell more of it

    def _ended(self, members: Members, doubtful: Iterable[Suspect]) -> Iterator[str]:
        """Yield the carriers and suspects that have a certificate; a lost run has none."""
        suspects = (*doubtful, *members.suspects)
        lost = {s.uid for s in suspects if s.has_lost_run}
        attributions = (*members.attributions.values(), *members.former.values())
        for uid in {uid for a in attributions for uid in a.carriers} | {s.uid for s in suspects}:
            pod = self.pods.get(uid)
            if pod is not None and pod.state is PodState.DEAD and uid not in lost:
                yield uid

    def _back(self, members: Members) -> Iterator[str]:
        """Yield the suspects whose objects are there after all."""
        for suspect in members.suspects:
            pod = self.pods.get(suspect.uid)
            if pod is not None and pod.state is PodState.LIVE and not suspect.has_lost_run:
                yield suspect.uid

    def _present(self, members: Members, doubtful: Iterable[Suspect]) -> Iterator[str]:
        """Yield the suspects whose objects exist."""
        for suspect in (*doubtful, *members.suspects):
            pod = self.pods.get(suspect.uid)
            if pod is not None and pod.object_present:
                yield suspect.uid


def _newcomers(naming: Naming, group: GroupView | KafkaProblem, members: Members) -> dict[str, MemberView]:
    """Return our members that were not described before, by id; none for an id that several members have."""
    if isinstance(group, KafkaProblem):
        return {}
    held = ((i, found) for i, found in holders_of(group).items() if naming.is_own(i))
    alone = ((i, found[0]) for i, found in held if len(found) == 1)
    return {i: m for i, m in alone if members.attribution(i, m.member_id) is None}


def _suspect(pod: KnownPod, naming: Naming, node: NodeView | None) -> Suspect:
    """Return what is remembered of a suspect; of more ids than a status has room for, only those of our ordinals."""
    are_few = len(pod.instance_ids) <= SUSPECT_IDS_MAX
    return Suspect(
        uid=pod.uid,
        namespace=pod.namespace,
        pod_name=pod.pod_name,
        instance_ids=pod.instance_ids if are_few else frozenset(i for i in pod.instance_ids if naming.ordinals_of(i)),
        since_s=pod.since_s,
        node_name=pod.node_name,
        machine=machine_of(pod, node),
        provider=node.provider if node is not None else "",
        has_lost_run=pod.has_lost_run,
        addresses=frozenset(pod.addresses),
    )
