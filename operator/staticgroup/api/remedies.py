"""What a person may do about a problem: each remedy is worded once, for all that report the problem.

The one idea: conditions, issues, `explain`, `doctor` and the commands word one problem differently, but its remedy
alike, so that a reader recognizes it. A remedy is a clause that ends in the command to type, if there is one; nothing
follows a command, not even a full stop.
"""

import difflib
from collections.abc import Iterable
from typing import Final

from .workloads import ARGO_ROLLOUT, NAMED_DIGITS_MAX, STATEFUL_SET, STRIMZI_POD_SET, WorkloadKind

GRANT_BY_ACL: Final = "grant it with an ACL"
"""For a right that is missing at the brokers; not every vendor has kafka-acls."""
APPLY_CRDS: Final = "install the CRDs of the operator's version: kubectl staticgroup crds | kubectl apply -f -"
"""For a kind that is not served, or whose CRD is older than the operator."""
SEE_WHAT_KEEPS_AGENT_OUT: Final = "the condition Injected says what keeps the agent out of new pods"
"""For workers without the agent, where none can be injected."""
SEE_INJECTED: Final = "the condition Injected says what to do"
"""For members whose pods get no id, or that of another StaticGroup."""
SEE_WHY_NO_ID: Final = "the condition Injected says why new pods get none"
"""For pods without an id while none is issued."""
MANAGE: Final = "set spec.mode to Manage, and the chart's operator.forceObserve to false"
"""For what is not done while the operator only observes."""
ACT: Final = f"in mode Observe no id is injected: {MANAGE}, then roll the workload"
"""For pods without an id while the operator only observes."""
AWAIT_ROLL: Final = "new pods get theirs; a roll is under way, so wait for its end"
"""For pods without an id during a roll, which would begin anew by another command."""
RUN_AGENT: Final = (
    "start the workers with the agent and read its first line in their log, see docs/guide/kafka-connect.md"
)
"""For Connect workers that are in the group without the ids that their pods carry."""
NAME_WORKER: Final = (
    "set rest.advertised.host.name to <pod name>.<headless service>, see docs/guide/kafka-connect.md"
)
"""For a Connect worker whose address does not outlive its pod; one template serves all pods."""
NAME_CONTAINER: Final = "correct the name of the container in spec.client, and roll the StatefulSet"
"""For a spec that names a container that the pods do not have."""


def restart_pod(namespace: str, pod_name: str) -> str:
    """Say what brings back a member whose pod is Ready but which is not in the group."""
    return (
        f"a standby that does not consume yet needs nothing; else read the log of {pod_name}; a fenced client does not "
        f"come back by itself, restart its pod: {_delete(namespace, pod_name)}"
    )


def take_ids(variable: str, container: str) -> str:
    """Say what to do about pods that carry their ids while members are in the group without any.

    Parameters
    ----------
    variable: which has the id; "" where the application brings it. container: which has the variable; "" for the first.
    """
    others = "members without group.instance.id are in the group"
    if not variable:
        return f"{others}: the application must set it, as client.type is Own"
    given = f"{others}: the client must take it from the variable {variable}"
    where = f"container {container}" if container else "the first container"
    return f"{given}, which {where} has; if it runs in another one, name that in spec.client"


def wait_for_session(namespace: str, pod_name: str) -> str:
    """Say what to do about a pod that is refused because its crashed process's member is still in the group."""
    return f"wait for the session to expire; {_if_it_stays_out(namespace, pod_name)}"


def let_in(namespace: str, pod_name: str) -> str:
    """Say the same where the operator is only asked to report it."""
    return f"set spec.removal to DepartedAndCrashed, or wait; {_if_it_stays_out(namespace, pod_name)}"


def end_pod(namespace: str, pod_name: str) -> str:
    """Say how the member of a live pod that nothing ends comes to leave."""
    return f"nothing ends that pod now; if it is not needed: {_delete(namespace, pod_name)}"


def give_up_id(namespace: str, pod_name: str) -> str:
    """Say how the member of an earlier id comes to leave, whose pod is wanted and runs on with it."""
    return f"the pod runs with an earlier id, and the member leaves once it restarts: {_delete(namespace, pod_name)}"


def tell_apart(namespace: str, *, is_scoped: bool) -> str:
    """Say what to do where a live pod of another namespace carries an id.

    Parameters
    ----------
    is_scoped: the id is of this StaticGroup alone, so somebody copied it.
    """
    waits = "the member may stay while that pod runs"
    if is_scoped:
        return f"{waits}; ask in namespace {namespace} why that pod has an id of this StaticGroup"
    other = "or, if that pod consumes in another group, create a StaticGroup for its workload there"
    return f"{waits}; for later ones add {{scope}} to spec.idTemplate, {other}"


def allow_exclusive(connection: str) -> str:
    """Say what to do where `assumeExclusive` does not count over the ClusterKafkaConnection of this name."""
    return (
        f"have the owner of ClusterKafkaConnection {connection} set allowExclusive in spec.allowedNamespaces, without "
        "which spec.assumeExclusive does not count"
    )


def bring_agent(namespace: str, workload_name: str, kind: WorkloadKind = STATEFUL_SET) -> str:
    """Say the same as RUN_AGENT where the operator injects the agent."""
    roll = _roll(namespace, workload_name, kind)
    return f"its line in the worker's log says why; if there is none: {roll}"


def make_room_for_agent(change: str) -> str:
    """Say what to change in the pod template so that the agent can be injected; `change` is a clause."""
    return f"{change}, and roll the StatefulSet, see docs/guide/kafka-connect.md"


def restart_worker(namespace: str, pod_name: str) -> str:
    """Say what brings back a Connect worker that is not in the group though its pod is Ready."""
    return f"read the log of its worker, and restart its pod: {_delete(namespace, pod_name)}"


def give_ids(namespace: str, workload_name: str, kind: WorkloadKind = STATEFUL_SET) -> str:
    """Say how pods that run without the id they should have come to it."""
    return f"new pods get theirs: {_roll(namespace, workload_name, kind)}"


def give_id(namespace: str, pod_name: str) -> str:
    """Say the same of a pod that no rollout replaces: with updateStrategy OnDelete, or below the partition."""
    return f"new pods get theirs, and no rollout replaces this one: {_delete(namespace, pod_name)}"


def shorten_ordinal(pod_name: str) -> str:
    """Say what to do with a pod of which only the name tells the ordinal, in more digits than the injection reads."""
    limit = f"an ordinal in a name has {NAMED_DIGITS_MAX} digits at most"
    return f"no roll gives {pod_name} one, because {limit}: list it under a shorter one"


def write_ids(id_template: str, *, had_others: bool) -> str:
    """Say how pods come to their ids where nothing is injected.

    Parameters
    ----------
    id_template: as issued, with `{podName}` and `{ordinal}` left.
    had_others: other ids were issued before, so that the pods may show these.
    """
    if had_others:
        return f"roll the StatefulSet, and if they show it again, compose it in the pod template as {id_template}"
    return f"compose the id of each pod in the pod template as {id_template}, and roll the StatefulSet"


def _delete(namespace: str, pod_name: str) -> str:
    return f"kubectl -n {namespace} delete pod {pod_name}"


def _roll(namespace: str, workload_name: str, kind: WorkloadKind) -> str:
    if kind is STRIMZI_POD_SET:
        return f"kubectl -n {namespace} annotate {kind.plural} {workload_name} strimzi.io/manual-rolling-update=true"
    if kind is ARGO_ROLLOUT:
        return f"kubectl argo rollouts -n {namespace} restart {workload_name}"
    return f"kubectl -n {namespace} rollout restart {kind.kind.lower()}/{workload_name}"


def _if_it_stays_out(namespace: str, pod_name: str) -> str:
    tries = "if the pod has not joined by then (librdkafka does not try again)"
    return f"{tries}: {_delete(namespace, pod_name)}"


def hint(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean …?`, to follow a refusal, or nothing where no known name is near."""
    found = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {found[0]}?" if found else ""
