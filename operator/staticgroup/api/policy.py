"""Generate the admission policy that gives new pods their id.

The one idea: several mutations, because one cannot do it. An ApplyConfiguration may add annotations, not a fieldRef
("may not mutate atomic arrays, maps or structs"), and with failurePolicy Ignore it fails in silence; so the variables
are written by JSONPatch. They come first in the list, because `$(NAME)` in a later entry expands only names before it;
so the pod's name comes before the ids that are composed of it. A variable without a value reads its annotation.

The agent comes into a Connect worker's container whole or not at all: an init container of the operator's image copies
it into an empty volume, the worker's container mounts that, and `-javaagent` follows the text that KAFKA_OPTS has. If
one of these would do harm, all are left out, the pod starts as its template says, and the operator names the field
(`core.injection`, which asks the same of the pod template). So what was injected is never injected twice. The policy,
which the installation writes, names the image: a status says only that the agent is wanted.
Sources: KEP-3962 (MutatingAdmissionPolicy, v1 from 1.36); EnvVar.Value in core/v1; Pod Security Standards, restricted;
java.lang.instrument (a JVM runs an agent as often as it is named).
"""

from collections.abc import Iterable
from typing import Any, Final, Literal

from . import names
from .workloads import NAMED_DIGITS_MAX, STRIMZI_POD_SET

FailurePolicy = Literal["Ignore", "Fail"]

# Containers of a pod that are looked at: CEL has no ranges to count with in every supported version.
CONTAINERS_MAX: Final = 20

# Pods are called <workload>-<ordinal>, and those of a StatefulSet are labelled with that ordinal too.
_IS_INDEXED: Final = "params.spec.workloadRef.kind == 'StatefulSet'"
_OWNED: Final = (
    "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, "
    # Of Strimzi's the group alone counts: an upgrade of its operator writes another version into new pods.
    f"({_IS_INDEXED} ? o.apiVersion == 'apps/v1' : o.apiVersion.startsWith('{STRIMZI_POD_SET.group}/')) && "
    "o.kind == params.spec.workloadRef.kind && "
    "o.name == params.spec.workloadRef.name && has(o.controller) && o.controller)"
)
_ORDINAL: Final = "object.metadata.name.substring(size(params.spec.workloadRef.name) + 1)"
# A copy that keeps labels and owner of a pod has another name, and would fence that pod with its id.
_HAS_ORDINAL: Final = (
    "has(object.metadata.name) && object.metadata.name.startsWith(params.spec.workloadRef.name + '-') && "
    f"({_IS_INDEXED} ? {_ORDINAL}.matches('^(0|[1-9][0-9]*)$') && has(object.metadata.labels) && "
    f"'{names.POD_INDEX_LABEL}' in object.metadata.labels && "
    f"object.metadata.labels['{names.POD_INDEX_LABEL}'] == {_ORDINAL} : "
    f"{_ORDINAL}.matches('^(0|[1-9][0-9]{{0,{NAMED_DIGITS_MAX - 1}}})$'))"
)
# A status that was restored from a backup is another StaticGroup's until its operator has looked.
_ISSUED: Final = (
    "has(params.status) && has(params.status.injected) && params.status.injected.method == 'Policy' && "
    "(!has(params.status.memory) || !has(params.status.memory.staticGroupUid) || "
    "params.status.memory.staticGroupUid == params.metadata.uid)"
)
_ID: Final = (
    "params.status.injected.idTemplate.replace('{podName}', object.metadata.name)"
    ".replace('{ordinal}', variables.ordinal)"
)
# A null and an absent field look different to CEL: both mean that no timeout is injected.
_HAS_TIMEOUT: Final = "has(params.status.injected.sessionTimeoutMs) && params.status.injected.sessionTimeoutMs != null"
_ENV: Final = (
    "variables.hasTimeout ? params.status.injected.env : "
    f"params.status.injected.env.filter(e, e.annotation != '{names.SESSION_TIMEOUT_ANNOTATION}')"
)
_ANNOTATIONS: Final = (
    "Object{metadata: Object.metadata{annotations: "
    "params.status.injected.ids.transformMapEntry(i, entry, {entry.annotation: variables.id + entry.suffix})}}"
)
TIMEOUT_ANNOTATION: Final = (
    "variables.hasTimeout ? "
    f"Object{{metadata: Object.metadata{{annotations: {{'{names.SESSION_TIMEOUT_ANNOTATION}': "
    "string(int(params.status.injected.sessionTimeoutMs))}}} : Object{}"
)
# A map, not an `Object.spec.containers.env{}` literal: a list of nothing but such literals, as in a container without
# other variables, makes the API server panic while it converts the patch (ObjectVal.ConvertToNative of 1.36
# returns a structpb.Struct where a structpb.Value is due), and then the pod is refused whatever failurePolicy says.
# `dyn` because literals must be homogeneous.
_POD_NAME: Final = (
    f"{{'name': dyn('{names.POD_NAME_VARIABLE}'), 'valueFrom': dyn({{'fieldRef': {{'fieldPath': 'metadata.name'}}}})}}"
)
_VARIABLE: Final = (
    "has(e.value) ? {'name': dyn(e.name), 'value': dyn(e.value)} : {'name': dyn(e.name), 'valueFrom': dyn({'fieldRef': "
    "{'fieldPath': \"metadata.annotations['\" + e.annotation + \"']\"}})}"
)

AT: Final = "object.spec.containers[i]"
_MANAGED: Final = "params.spec.mode == 'Manage'"
INDEXES: Final = f"[{', '.join(str(index) for index in range(CONTAINERS_MAX))}]"


def for_container(index: str) -> str:
    """Write the CEL condition that variable `e` is meant for the container at `index`."""
    return f"(e.container == object.spec.containers[{index}].name || (e.container == '' && {index} == 0))"


def env_patch(variable: str, replaced: str, first: str = "") -> str:
    """Write the CEL that puts our variables first and drops earlier entries of the same name.

    Parameters
    ----------
    variable: the entry of a container that is made of variable `e`. replaced: condition that `e` replaces entry `old`.
    first: a list of entries that come before all others; empty: none.
    """
    env = f"{AT}.env"
    ours = f"{first}dyn(variables.env.filter(e, {for_container('i')}).map(e, {variable}))"
    is_replaced = f"variables.env.exists(e, {for_container('i')} && {replaced})"
    return (
        f"{INDEXES}.filter(i, i < size(object.spec.containers) && variables.env.exists(e, {for_container('i')}))"
        ".map(i, JSONPatch{op: 'add', path: '/spec/containers/' + string(i) + '/env', value: "
        f"{ours} + dyn(has({env}) ? {env}.filter(old, !{is_replaced}) : [])}})"
    )


def _env_patch() -> str:
    composes = f"variables.env.exists(e, {for_container('i')} && has(e.value))"
    replaced = f"(e.name == old.name || (has(e.value) && old.name == '{names.POD_NAME_VARIABLE}'))"
    return env_patch(_VARIABLE, replaced, f"dyn({composes} ? [{_POD_NAME}] : []) + ")


def admission_policy(
    *,
    name: str = names.INJECTION_NAME,
    failure_policy: FailurePolicy = "Ignore",
    agent_image: str = "",
    agent_pull_policy: str = "IfNotPresent",
) -> dict[str, Any]:
    """Generate the MutatingAdmissionPolicy, in JSON types.

    Parameters
    ----------
    failure_policy: Ignore as shipped, so that a fault never keeps a pod from starting; Fail in tests, because Ignore
        hides errors.
    agent_image: As pods name it; empty: no agent is injected. It holds no quote. The chart writes the operator's.
    agent_pull_policy: Of the init container.
    """
    return mutating_policy(
        name,
        failure_policy,
        names.POD_INDEX_LABEL,
        conditions={"owned-by-the-workload": _OWNED, "has-an-ordinal": _HAS_ORDINAL},
        variables={"ordinal": _ORDINAL, "id": _ID, **_worker_variables(agent_image, agent_pull_policy)},
        applied=[_ANNOTATIONS, TIMEOUT_ANNOTATION],
        patches=[_env_patch(), _worker_patch()],
    )


def mutating_policy(
    name: str,
    failure_policy: FailurePolicy,
    label: str,
    *,
    conditions: dict[str, str],
    variables: dict[str, str],
    applied: Iterable[str],
    patches: Iterable[str],
) -> dict[str, Any]:
    """Generate a MutatingAdmissionPolicy for new pods whose parameters are StaticGroups, in JSON types.

    Parameters
    ----------
    label: which every pod that is meant has. conditions, variables: CEL by name, those of both policies left out.
    applied, patches: the mutations, each in CEL; those of the first kind come first.
    """
    rules = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec = {
        "paramKind": {"apiVersion": names.API_VERSION, "kind": names.STATIC_GROUP_KIND},
        "matchConstraints": {
            "resourceRules": [rules],
            "objectSelector": {"matchExpressions": [{"key": label, "operator": "Exists"}]},
        },
        "matchConditions": _named(conditions | {"managed": _MANAGED, "ids-are-issued": _ISSUED}),
        "failurePolicy": failure_policy,
        "reinvocationPolicy": "IfNeeded",
        "variables": _named({"hasTimeout": _HAS_TIMEOUT, "env": _ENV} | variables),
        "mutations": [
            *({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}} for text in applied),
            *({"patchType": "JSONPatch", "jsonPatch": {"expression": text}} for text in patches),
        ],
    }
    return admission_object("MutatingAdmissionPolicy", name, spec)


def _named(expressions: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "expression": expression} for name, expression in expressions.items()]


def policy_binding(*, name: str = names.INJECTION_NAME) -> dict[str, Any]:
    """Generate the binding of the policy of the same name: every StaticGroup of the pod's namespace is a parameter."""
    spec = {"policyName": name, "paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"}}
    return admission_object("MutatingAdmissionPolicyBinding", name, spec)


def admission_object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Write an object of the API group admissionregistration.k8s.io."""
    metadata = {"name": name}
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


AGENT_OPTION: Final = f"-javaagent:{names.AGENT_MOUNT_PATH}/{names.AGENT_JAR}"
_OPTIONS: Final = names.JAVA_OPTIONS_VARIABLE
_WORKER: Final = "params.status.injected.worker"
# What the smallest container of a namespace with limits usually may have; equal, so that a Guaranteed pod stays one.
RESOURCES: Final = "{'cpu': '100m', 'memory': '32Mi'}"


def _worker_variables(image: str, pull_policy: str) -> dict[str, str]:
    """Write the policy's variables that the mutation reads, among them lists of one container index or none."""
    return {
        "agentImage": f"'{image}'",
        "agentPullPolicy": f"'{pull_policy}'",
        "workers": f"has({_WORKER}) && {_WORKER} != null ? {INDEXES}.filter(i, i < size(object.spec.containers) && "
        f"({_WORKER}.container == {AT}.name || ({_WORKER}.container == '' && i == 0))) : []",
        "agentHasRoom": _has_room(),
        "takingAgent": f"variables.workers.filter(i, {_WORKER}.agent && variables.agentHasRoom && {_can_take_agent()})",
        "takingHost": f"variables.workers.filter(i, {_lacks_host()})",
        "agentContainer": _init_container(),
        "agentVolume": f"{{'name': dyn('{names.AGENT_NAME}'), 'emptyDir': dyn({{'sizeLimit': '8Mi'}})}}",
        "agentMount": f"{{'name': dyn('{names.AGENT_NAME}'), "
        f"'mountPath': dyn('{names.AGENT_MOUNT_PATH}'), 'readOnly': dyn(true)}}",
    }


def _worker_patch() -> str:
    """Write the CEL of the mutation."""
    container = "'/spec/containers/' + string(i)"
    mount = insert(f"has({AT}.volumeMounts)", f"{container} + '/volumeMounts'", "-", "variables.agentMount")
    volume = insert("has(object.spec.volumes)", "'/spec/volumes'", "-", "variables.agentVolume")
    init = insert("has(object.spec.initContainers)", "'/spec/initContainers'", "0", "variables.agentContainer")
    return (
        "variables.workers.filter(i, i in variables.takingAgent || i in variables.takingHost)"
        f".map(i, {add(f'{container} + {chr(39)}/env{chr(39)}', _env())})"
        + "".join(f" + variables.takingAgent.map(i, {patch})" for patch in (mount, volume, init))
    )


def _has_room() -> str:
    """Write the CEL condition that nothing of the pod has the name of what is injected, as after an injection."""
    named = f".exists(x, x.name == '{names.AGENT_NAME}')"
    return (
        f"variables.agentImage != '' && !object.spec.containers{named} && "
        f"(!has(object.spec.initContainers) || !object.spec.initContainers{named}) && "
        f"(!has(object.spec.volumes) || !object.spec.volumes{named})"
    )


def _can_take_agent() -> str:
    """Write the CEL condition that the agent may be brought into container `i` without harm to what it has."""
    is_options = f"o.name == '{_OPTIONS}'"
    is_text = f"!has(o.valueFrom) && !(has(o.value) && o.value.contains('{names.AGENT_JAR}'))"
    once = f"{AT}.env.exists_one(o, {is_options}) && {AT}.env.exists(o, {is_options} && {is_text})"
    absent = f"{_WORKER}.optionsMayBeAbsent && !has({AT}.envFrom)"
    # Below a mount, which may be read-only, the runtime may be unable to make another one's directory: nothing starts.
    is_above = f"'{names.AGENT_MOUNT_PATH}/'.startsWith(m.mountPath.endsWith('/') ? m.mountPath : m.mountPath + '/')"
    is_taken = f"m.mountPath.startsWith('{names.AGENT_MOUNT_PATH}') || {is_above}"
    unmounted = f"(!has({AT}.volumeMounts) || !{AT}.volumeMounts.exists(m, {is_taken}))"
    return f"{unmounted} && (has({AT}.env) && {AT}.env.exists(o, {is_options}) ? {once} : {absent})"


def _lacks_host() -> str:
    """Write the CEL condition that container `i` shall get its pod's name in the headless Service, and may get it."""
    return (
        f"{_WORKER}.hostVariable != '' && has(object.spec.subdomain) && !has({AT}.envFrom) && has({AT}.env) && "
        f"{AT}.env.exists(o, o.name == '{names.POD_NAME_VARIABLE}') && "
        f"!{AT}.env.exists(o, o.name == {_WORKER}.hostVariable)"
    )


def _env() -> str:
    """Write the variables of container `i`: KAFKA_OPTS in its old place, as others may refer to it, new ones last."""
    is_options = f"o.name == '{_OPTIONS}'"
    text = f"(has(o.value) && o.value != '' ? o.value + ' ' : '') + '{AGENT_OPTION}'"
    appended = f"dyn({{'name': dyn(o.name), 'value': dyn({text})}})"
    extended = f"i in variables.takingAgent && {is_options} ? {appended} : dyn(o)"
    is_new = f"i in variables.takingAgent && !(has({AT}.env) && {AT}.env.exists(o, {is_options}))"
    options = f"{{'name': dyn('{_OPTIONS}'), 'value': dyn('{AGENT_OPTION}')}}"
    host = f"'$({names.POD_NAME_VARIABLE}).' + object.spec.subdomain + '.' + object.metadata.namespace + '.svc'"
    host_entry = f"{{'name': dyn({_WORKER}.hostVariable), 'value': dyn({host})}}"
    return (
        f"dyn(has({AT}.env) ? {AT}.env.map(o, {extended}) : []) + dyn({is_new} ? [{options}] : []) + "
        f"dyn(i in variables.takingHost ? [{host_entry}] : [])"
    )


def _init_container() -> str:
    """Write the init container that brings the agent."""
    command = f"['cp', '{names.AGENT_IN_IMAGE}', '{names.AGENT_MOUNT_PATH}/']"
    return (
        f"{{'name': dyn('{names.AGENT_NAME}'), 'image': dyn(variables.agentImage), "
        f"'imagePullPolicy': dyn(variables.agentPullPolicy), 'command': dyn({command}), "
        f"'volumeMounts': dyn([{{'name': '{names.AGENT_NAME}', 'mountPath': '{names.AGENT_MOUNT_PATH}'}}]), "
        f"'resources': dyn({{'requests': {RESOURCES}, 'limits': {RESOURCES}}}), "
        f"'securityContext': dyn({security_context()})}}"
    )


def security_context() -> str:
    """Write that of an init container: it runs where the Pod Security Standard `restricted` is enforced, never as root.

    A user is named only where the pod says root, which the kubelet would refuse; elsewhere the pod's or the image's
    counts, because a platform may allow certain users only.
    """
    is_root = (
        "has(object.spec.securityContext) && has(object.spec.securityContext.runAsUser) && "
        "object.spec.securityContext.runAsUser == 0"
    )
    return (
        "{'allowPrivilegeEscalation': dyn(false), 'readOnlyRootFilesystem': dyn(true), 'runAsNonRoot': dyn(true), "
        f"'runAsUser': {is_root} ? dyn(65532) : dyn(null), "
        "'capabilities': dyn({'drop': ['ALL']}), 'seccompProfile': dyn({'type': 'RuntimeDefault'})}"
    )


def add(path: str, value: str) -> str:
    """Write the patch that adds a value at a path, both in CEL."""
    return f"JSONPatch{{op: 'add', path: {path}, value: {value}}}"


def insert(is_there: str, path: str, place: str, value: str) -> str:
    """Write the patch that puts a value into a list, which is made where there is none."""
    return f"{is_there} ? {add(f'{path} + {chr(39)}/{place}{chr(39)}', value)} : {add(path, f'[{value}]')}"
