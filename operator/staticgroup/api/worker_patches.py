"""Write the part of the admission policy that brings the agent into a Connect worker's container.

The one idea: all of it or nothing. An init container of the operator's image copies the agent into an empty volume, the
worker's container mounts that, and `-javaagent` goes behind the text that KAFKA_OPTS has; where one of these cannot be done without
harm, none is, the pod starts as its template says, and the operator names the field (`core.agent`, which asks the
same of the pod template). So what was injected is never injected twice.

The image is named in the policy, which the installation writes: a status says only that the agent is wanted.
Sources: KEP-3962; Pod Security Standards, restricted; java.lang.instrument (a JVM runs an agent as often as it is named).
"""

from typing import Final

from . import names

AGENT_OPTION: Final = f"-javaagent:{names.AGENT_MOUNT_PATH}/{names.AGENT_JAR}"
IMAGE_VARIABLE: Final = "agentImage"
PULL_POLICY_VARIABLE: Final = "agentPullPolicy"

_OPTIONS: Final = names.JAVA_OPTIONS_VARIABLE
_WORKER: Final = "params.status.injected.worker"
# As much as the smallest container of a namespace with limits usually may have; equal, so that a Guaranteed pod stays one.
_RESOURCES: Final = "{'cpu': '100m', 'memory': '32Mi'}"


_AT: Final = "object.spec.containers[i]"


def worker_variables(indexes: str, *, image: str, pull_policy: str) -> list[dict[str, str]]:
    """Generate the policy's variables that the mutation below reads, among them lists of containers by index, of one or none.

    Parameters
    ----------
    indexes: The containers that are looked at, as a list of CEL.
    image: Of the operator, as pods name it; empty: no agent is injected. It holds no quote.
    pull_policy: Of the init container.
    """
    expressions = {
        IMAGE_VARIABLE: f"'{image}'",
        PULL_POLICY_VARIABLE: f"'{pull_policy}'",
        "workers": f"has({_WORKER}) && {_WORKER} != null ? {indexes}.filter(i, i < size(object.spec.containers) && "
        f"({_WORKER}.container == {_AT}.name || ({_WORKER}.container == '' && i == 0))) : []",
        "agentHasRoom": _has_room(),
        "takingAgent": f"variables.workers.filter(i, {_WORKER}.agent && variables.agentHasRoom && {_can_take_agent()})",
        "takingHost": f"variables.workers.filter(i, {_lacks_host()})",
        "agentContainer": _init_container(),
        "agentVolume": f"{{'name': dyn('{names.AGENT_NAME}'), 'emptyDir': dyn({{'sizeLimit': '8Mi'}})}}",
        "agentMount": f"{{'name': dyn('{names.AGENT_NAME}'), 'mountPath': dyn('{names.AGENT_MOUNT_PATH}'), 'readOnly': dyn(true)}}",
    }
    return [{"name": name, "expression": expression} for name, expression in expressions.items()]


def worker_patch() -> str:
    """Write the CEL of the mutation."""
    container = "'/spec/containers/' + string(i)"
    mount = _insert(f"has({_AT}.volumeMounts)", f"{container} + '/volumeMounts'", "-", "variables.agentMount")
    volume = _insert("has(object.spec.volumes)", "'/spec/volumes'", "-", "variables.agentVolume")
    init = _insert("has(object.spec.initContainers)", "'/spec/initContainers'", "0", "variables.agentContainer")
    return (
        "variables.workers.filter(i, i in variables.takingAgent || i in variables.takingHost)"
        f".map(i, {_add(f'{container} + {chr(39)}/env{chr(39)}', _env())})"
        + "".join(f" + variables.takingAgent.map(i, {patch})" for patch in (mount, volume, init))
    )


def _has_room() -> str:
    """Write the CEL condition that nothing of the pod has the name of what is injected, as after an injection."""
    named = f".exists(x, x.name == '{names.AGENT_NAME}')"
    return (
        f"variables.{IMAGE_VARIABLE} != '' && !object.spec.containers{named} && "
        f"(!has(object.spec.initContainers) || !object.spec.initContainers{named}) && "
        f"(!has(object.spec.volumes) || !object.spec.volumes{named})"
    )


def _can_take_agent() -> str:
    """Write the CEL condition that the agent may be brought into container `i` without harm to what it has."""
    is_options = f"o.name == '{_OPTIONS}'"
    is_text = f"!has(o.valueFrom) && !(has(o.value) && o.value.contains('{names.AGENT_JAR}'))"
    once = f"{_AT}.env.exists_one(o, {is_options}) && {_AT}.env.exists(o, {is_options} && {is_text})"
    absent = f"{_WORKER}.optionsMayBeAbsent && !has({_AT}.envFrom)"
    # Below a mount, which may be read-only, perhaps nobody can make the directory of another, and then no container starts.
    is_above = f"'{names.AGENT_MOUNT_PATH}/'.startsWith(m.mountPath.endsWith('/') ? m.mountPath : m.mountPath + '/')"
    is_taken = f"m.mountPath.startsWith('{names.AGENT_MOUNT_PATH}') || {is_above}"
    unmounted = f"(!has({_AT}.volumeMounts) || !{_AT}.volumeMounts.exists(m, {is_taken}))"
    return f"{unmounted} && (has({_AT}.env) && {_AT}.env.exists(o, {is_options}) ? {once} : {absent})"


def _lacks_host() -> str:
    """Write the CEL condition that container `i` shall get its pod's name in the headless Service, and may get it."""
    return (
        f"{_WORKER}.hostVariable != '' && has(object.spec.subdomain) && !has({_AT}.envFrom) && has({_AT}.env) && "
        f"{_AT}.env.exists(o, o.name == '{names.POD_NAME_VARIABLE}') && !{_AT}.env.exists(o, o.name == {_WORKER}.hostVariable)"
    )


def _env() -> str:
    """Write the variables of container `i`: KAFKA_OPTS in its old place, where others may refer to it, and at the end what is new."""
    is_options = f"o.name == '{_OPTIONS}'"
    text = f"(has(o.value) && o.value != '' ? o.value + ' ' : '') + '{AGENT_OPTION}'"
    extended = f"i in variables.takingAgent && {is_options} ? dyn({{'name': dyn(o.name), 'value': dyn({text})}}) : dyn(o)"
    is_new = f"i in variables.takingAgent && !(has({_AT}.env) && {_AT}.env.exists(o, {is_options}))"
    options = f"{{'name': dyn('{_OPTIONS}'), 'value': dyn('{AGENT_OPTION}')}}"
    host = f"'$({names.POD_NAME_VARIABLE}).' + object.spec.subdomain + '.' + object.metadata.namespace + '.svc'"
    host_entry = f"{{'name': dyn({_WORKER}.hostVariable), 'value': dyn({host})}}"
    return (
        f"dyn(has({_AT}.env) ? {_AT}.env.map(o, {extended}) : []) + dyn({is_new} ? [{options}] : []) + "
        f"dyn(i in variables.takingHost ? [{host_entry}] : [])"
    )


def _init_container() -> str:
    """Write the init container: it runs where the Pod Security Standard `restricted` is enforced, as any user but root.

    Notes
    -----
    A user is named only where the pod says root, which the kubelet would refuse; elsewhere that of the pod or of the image counts,
    because a platform may allow certain users only.
    """
    is_root = (
        "has(object.spec.securityContext) && has(object.spec.securityContext.runAsUser) && "
        "object.spec.securityContext.runAsUser == 0"
    )
    security = (
        "{'allowPrivilegeEscalation': dyn(false), 'readOnlyRootFilesystem': dyn(true), 'runAsNonRoot': dyn(true), "
        f"'runAsUser': {is_root} ? dyn(65532) : dyn(null), "
        "'capabilities': dyn({'drop': ['ALL']}), 'seccompProfile': dyn({'type': 'RuntimeDefault'})}"
    )
    command = f"['cp', '{names.AGENT_IN_IMAGE}', '{names.AGENT_MOUNT_PATH}/']"
    return (
        f"{{'name': dyn('{names.AGENT_NAME}'), 'image': dyn(variables.{IMAGE_VARIABLE}), "
        f"'imagePullPolicy': dyn(variables.{PULL_POLICY_VARIABLE}), 'command': dyn({command}), "
        f"'volumeMounts': dyn([{{'name': '{names.AGENT_NAME}', 'mountPath': '{names.AGENT_MOUNT_PATH}'}}]), "
        f"'resources': dyn({{'requests': {_RESOURCES}, 'limits': {_RESOURCES}}}), 'securityContext': dyn({security})}}"
    )


def _add(path: str, value: str) -> str:
    return f"JSONPatch{{op: 'add', path: {path}, value: {value}}}"


def _insert(is_there: str, path: str, place: str, value: str) -> str:
    """Write the patch that puts a value into a list, which is made where there is none."""
    return f"{is_there} ? {_add(f'{path} + {chr(39)}/{place}{chr(39)}', value)} : {_add(path, f'[{value}]')}"
