"""Render what a pod receives while it is created: the admission policy's decision, clause by clause, in plain Python.

The one idea: the CEL of `policy` and `slot_policy` and this module say the same, and a test asks both about the same
pods on a real API server. Like the policy, it reads only the pod, the StaticGroup's spec and `status.injected`; it
never edits its input, and what it rendered once it does not render again (reinvocation, a second StaticGroup of the
workload).
Sources: KEP-3962; EnvVar.Value in core/v1 (`$(NAME)` expands only names before it); RFC 6902.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from . import names
from .policy import AGENT_OPTION, CONTAINERS_MAX
from .resources.injected import InjectedMethod
from .workloads import NAMED_DIGITS_MAX, SLOT_KINDS, STATEFUL_SET, STRIMZI_POD_SET

Json = dict[str, Any]

_DIGITS: Final = re.compile("0|[1-9][0-9]*", re.ASCII)
_ROOT: Final = 0
_NOBODY: Final = 65532
_RESOURCES: Final = {"cpu": "100m", "memory": "32Mi"}
_HASH_LABELS: Final = {known.kind: known.hash_label for known in SLOT_KINDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentImage:
    """Name the image of an injected init container: the operator's, with the agent of Connect workers, or the waiter's.

    Parameters
    ----------
    name: As pods name it; empty: it is not injected.
    pull_policy: Of the init container.
    """

    name: str = ""
    pull_policy: str = "IfNotPresent"


def is_meant(pod: Json, group: Json, method: InjectedMethod) -> bool:
    """Tell whether a StaticGroup gives a pod its ids by this method.

    Parameters
    ----------
    pod: As it is being created. group: A StaticGroup of its namespace, with the schema's defaults.
    method: Of the injector that asks; each injects only where `status.injected` names it, so never two of them.
    """
    metadata, spec = pod["metadata"], group["spec"]
    ref, owner = spec["workloadRef"], _controller(metadata)
    kind, name, served_by = ref.get("kind", STATEFUL_SET.kind), ref["name"], str(owner.get("apiVersion"))
    is_set = kind == STATEFUL_SET.kind
    is_owned = _is_by_replica_set(metadata, name, _HASH_LABELS[kind]) if kind in _HASH_LABELS else (
        (owner.get("kind"), owner.get("name")) == (kind, name)
        # Of Strimzi's the group alone counts: an upgrade of its operator writes another version into new pods.
        and (served_by == "apps/v1" if is_set else served_by.startswith(f"{STRIMZI_POD_SET.group}/"))
        and _ordinal(metadata) is not None
    )
    is_managed = spec.get("mode", "Manage") == "Manage"
    status = group.get("status") or {}
    injected = status.get("injected") or {}
    # A status that was restored from a backup is another StaticGroup's until its operator has looked.
    is_its_own = (status.get("memory") or {}).get("staticGroupUid") in (None, group.get("metadata", {}).get("uid"))
    return is_owned and is_managed and is_its_own and injected.get("method") == method.value


def rendered(pod: Json, injected: Json, agent: AgentImage, waiter: AgentImage = AgentImage()) -> Json:
    """Return a pod that is meant (`is_meant`) with what the `status.injected` of one StaticGroup gives it."""
    metadata, spec = pod["metadata"], pod["spec"]
    timeout_ms = injected.get("sessionTimeoutMs")
    env = [e for e in injected["env"] if timeout_ms is not None or e["annotation"] != names.SESSION_TIMEOUT_ANNOTATION]
    if _controller(metadata)["kind"] == "ReplicaSet":
        return _with_slot(pod, injected, env, waiter)
    containers = [_with_env(c, i, env, "") for i, c in enumerate(spec["containers"])]
    marked = metadata | {"annotations": _annotations(metadata, injected)}
    pod = pod | {"metadata": marked, "spec": spec | {"containers": containers}}
    worker = injected.get("worker")
    return pod if not worker else _with_worker(pod, worker, agent)


def json_patch(before: Json, after: Json) -> list[Json]:
    """Write the operations of RFC 6902 that make of a pod what `rendered` made of it, once or several times."""
    places: list[tuple[str, Json, Json, tuple[str, ...]]] = [
        ("/metadata", before["metadata"], after["metadata"], ("annotations",)),
        ("/spec", before["spec"], after["spec"], ("volumes", "initContainers")),
    ]
    pairs = zip(before["spec"]["containers"], after["spec"]["containers"], strict=True)
    places += [(f"/spec/containers/{i}", old, new, ("env", "volumeMounts")) for i, (old, new) in enumerate(pairs)]
    return [
        {"op": "add", "path": f"{path}/{field}", "value": new[field]}
        for path, old, new, fields in places
        for field in fields
        if new.get(field) != old.get(field)
    ]


def _controller(metadata: Json) -> Json:
    """Return the owner that controls a pod, of which there is one at most; an empty one where there is none."""
    return next((o for o in metadata.get("ownerReferences") or () if o.get("controller")), {})


def _is_by_replica_set(metadata: Json, name: str, hash_label: str) -> bool:
    """Tell whether a ReplicaSet of this workload controls a pod: it is called after that and the pod's label."""
    owner, pod_hash = _controller(metadata), (metadata.get("labels") or {}).get(hash_label)
    found = (owner.get("apiVersion"), owner.get("kind"), owner.get("name"))
    return pod_hash is not None and found == ("apps/v1", "ReplicaSet", f"{name}-{pod_hash}")


def _ordinal(metadata: Json) -> str | None:
    """Return the ordinal of a pod named <workload>-<ordinal>, and labelled so if its controller does that, or None."""
    owner = _controller(metadata)
    workload_name, _, ordinal = metadata.get("name", "").rpartition("-")  # which may be generated later
    if workload_name != owner["name"] or not _DIGITS.fullmatch(ordinal):
        return None
    if owner["kind"] == STATEFUL_SET.kind:
        return ordinal if (metadata.get("labels") or {}).get(names.POD_INDEX_LABEL) == ordinal else None
    return ordinal if len(ordinal) <= NAMED_DIGITS_MAX else None


def _annotations(metadata: Json, injected: Json) -> Json:
    pod_id = injected["idTemplate"].replace("{podName}", metadata["name"])
    pod_id = pod_id.replace("{ordinal}", _ordinal(metadata) or "")
    ids = {entry["annotation"]: pod_id + entry["suffix"] for entry in injected["ids"]}
    return {**(metadata.get("annotations") or {})} | ids | _timeout_annotation(injected)


def _timeout_annotation(injected: Json) -> Json:
    timeout_ms = injected.get("sessionTimeoutMs")
    return {} if timeout_ms is None else {names.SESSION_TIMEOUT_ANNOTATION: str(int(timeout_ms))}


def _is_for(wanted: str, container: Json, index: int) -> bool:
    return index < CONTAINERS_MAX and (wanted == container["name"] or (not wanted and index == 0))


def _with_env(container: Json, index: int, env: list[Json], slot: str) -> Json:
    """Put our variables first, the pod's name before what is composed of it, and drop earlier ones of the same name."""
    ours = [e for e in env if _is_for(e["container"], container, index)]
    if not ours:
        return container
    added = [_variable(e, slot) for e in ours]
    if any("value" in e and "key" not in e for e in ours):
        added.insert(0, _field_ref(names.POD_NAME_VARIABLE, "metadata.name"))
    replaced = {e["name"] for e in added}
    return container | {"env": added + [e for e in container.get("env") or () if e["name"] not in replaced]}


def _variable(entry: Json, slot: str) -> Json:
    if "key" in entry:
        file = {"volumeName": slot, "path": names.SLOT_FILE, "optional": True, "key": entry["key"]}
        return {"name": entry["name"], "valueFrom": {"fileKeyRef": file}}
    if "value" in entry:
        return {"name": entry["name"], "value": entry["value"]}
    return _field_ref(entry["name"], _annotation_path(entry["annotation"]))


@lru_cache(maxsize=256)
def _annotation_path(annotation: str) -> str:
    return f"metadata.annotations['{annotation}']"


def _field_ref(name: str, field_path: str) -> Json:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field_path}}}


def _with_slot(pod: Json, injected: Json, env: list[Json], waiter: AgentImage) -> Json:
    """Bring the waiter and what its file tells the containers, all of it or nothing."""
    metadata, spec, slot = pod["metadata"], pod["spec"], f"{names.SLOT_NAME}-{injected['scope']}"
    containers, inits, volumes = spec["containers"], spec.get("initContainers") or [], spec.get("volumes") or []
    keyed = [e for e in env if "key" in e]
    has_all = all(any(_is_for(e["container"], c, i) for i, c in enumerate(containers)) for e in keyed)
    is_taken = any(x["name"] in (slot, f"{slot}-in") for each in (containers, inits, volumes) for x in each)
    is_windows = (spec.get("os") or {}).get("name") == "windows"
    if not (waiter.name and keyed and has_all) or is_taken or is_windows:
        return pod
    note = _annotation_path(f"{names.SLOT_ANNOTATION}-{injected['scope']}")
    shown = [{"path": path, "fieldRef": {"fieldPath": of}} for path, of in (("uid", "metadata.uid"), ("note", note))]
    given = {
        "containers": [_with_env(c, i, env, slot) for i, c in enumerate(containers)],
        "initContainers": [*inits, _waiter(pod, keyed, slot, waiter)],
        "volumes": [
            *volumes,
            {"name": slot, "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            {"name": f"{slot}-in", "downwardAPI": {"items": shown}},
        ],
    }
    timeout = _timeout_annotation(injected)
    marked = {"annotations": {**(metadata.get("annotations") or {})} | timeout} if timeout else {}
    return pod | {"metadata": metadata | marked, "spec": spec | given}


def _waiter(pod: Json, keyed: list[Json], slot: str, waiter: AgentImage) -> Json:
    """Write the init container that waits for the slot; its environment names the Deployment or Rollout."""
    owner, labels = _controller(pod["metadata"])["name"], pod["metadata"]["labels"]
    ends = (f"-{labels[label]}" for label in _HASH_LABELS.values() if label in labels)
    workload = next(owner.removesuffix(end) for end in ends if owner.endswith(end))
    return {
        "name": slot,
        "image": waiter.name,
        "imagePullPolicy": waiter.pull_policy,
        "args": [f"{e['key']}={e['value']}" for e in keyed],
        "env": [{"name": names.SLOT_WORKLOAD_VARIABLE, "value": workload}],
        "volumeMounts": [
            {"name": slot, "mountPath": names.SLOT_OUT_PATH},
            {"name": f"{slot}-in", "mountPath": names.SLOT_IN_PATH, "readOnly": True},
        ],
        "resources": {"requests": _RESOURCES, "limits": _RESOURCES},
        "securityContext": _security_context(pod["spec"]),
    }


def _with_worker(pod: Json, worker: Json, agent: AgentImage) -> Json:
    """Bring the agent into the worker's container, all of it or nothing, and tell the container its pod's name."""
    spec = pod["spec"]
    at = next((i for i, c in enumerate(spec["containers"]) if _is_for(worker["container"], c, i)), None)
    if at is None:
        return pod
    container = spec["containers"][at]
    takes_agent = worker["agent"] and _has_room(spec, agent) and _can_take_agent(container, worker)
    takes_host = _lacks_host(spec, container, worker)
    if takes_agent:
        container = _with_agent(container)
        inits, volumes = spec.get("initContainers") or [], spec.get("volumes") or []
        volume = {"name": names.AGENT_NAME, "emptyDir": {"sizeLimit": "8Mi"}}
        spec = spec | {"initContainers": [_init_container(spec, agent), *inits], "volumes": [*volumes, volume]}
    if takes_host:
        host = f"$({names.POD_NAME_VARIABLE}).{spec['subdomain']}.{pod['metadata']['namespace']}.svc"
        container = container | {"env": [*container["env"], {"name": worker["hostVariable"], "value": host}]}
    containers = [container if i == at else c for i, c in enumerate(spec["containers"])]
    return pod | {"spec": spec | {"containers": containers}}


def _has_room(spec: Json, agent: AgentImage) -> bool:
    """Tell whether nothing of the pod has the name of what is injected, as it has after an injection."""
    lists = (spec["containers"], spec.get("initContainers") or (), spec.get("volumes") or ())
    return bool(agent.name) and all(x["name"] != names.AGENT_NAME for each in lists for x in each)


def _can_take_agent(container: Json, worker: Json) -> bool:
    """Tell whether the agent may be brought into a container without harm to what it has."""
    path = names.AGENT_MOUNT_PATH
    for mount in (m["mountPath"] for m in container.get("volumeMounts") or ()):
        if mount.startswith(path) or f"{path}/".startswith(mount if mount.endswith("/") else f"{mount}/"):
            return False
    options = [e for e in container.get("env") or () if e["name"] == names.JAVA_OPTIONS_VARIABLE]
    if not options:
        return bool(worker["optionsMayBeAbsent"]) and not container.get("envFrom")
    text = options[0].get("value") or ""
    return len(options) == 1 and not options[0].get("valueFrom") and names.AGENT_JAR not in text


def _lacks_host(spec: Json, container: Json, worker: Json) -> bool:
    """True when a container shall get its pod's name in the headless Service, and may get it."""
    if not worker["hostVariable"] or not spec.get("subdomain") or container.get("envFrom"):
        return False
    present = {e["name"] for e in container.get("env") or ()}
    return names.POD_NAME_VARIABLE in present and worker["hostVariable"] not in present


def _with_agent(container: Json) -> Json:
    """Name the agent behind the text that KAFKA_OPTS has, in its old place, where others may refer to it."""
    options = names.JAVA_OPTIONS_VARIABLE
    env = list(container.get("env") or ())
    at = next((i for i, e in enumerate(env) if e["name"] == options), len(env))
    text = (env[at].get("value") or "") if at < len(env) else ""
    env[at : at + 1] = [{"name": options, "value": f"{text} {AGENT_OPTION}" if text else AGENT_OPTION}]
    mount = {"name": names.AGENT_NAME, "mountPath": names.AGENT_MOUNT_PATH, "readOnly": True}
    return container | {"env": env, "volumeMounts": [*(container.get("volumeMounts") or ()), mount]}


def _init_container(spec: Json, agent: AgentImage) -> Json:
    return {
        "name": names.AGENT_NAME,
        "image": agent.name,
        "imagePullPolicy": agent.pull_policy,
        "command": ["cp", names.AGENT_IN_IMAGE, f"{names.AGENT_MOUNT_PATH}/"],
        "volumeMounts": [{"name": names.AGENT_NAME, "mountPath": names.AGENT_MOUNT_PATH}],
        "resources": {"requests": _RESOURCES, "limits": _RESOURCES},
        "securityContext": _security_context(spec),
    }


def _security_context(spec: Json) -> Json:
    """Write that of an init container; a user is named only where the pod says root, which the kubelet would refuse."""
    security: Json = {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if (spec.get("securityContext") or {}).get("runAsUser") == _ROOT:
        security["runAsUser"] = _NOBODY
    return security
