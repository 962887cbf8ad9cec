"""Generate the admission policy that gives new pods their id.

The one idea: several mutations, because one cannot do it. An ApplyConfiguration may add annotations, not a fieldRef
("may not mutate atomic arrays, maps or structs"), and with failurePolicy Ignore it fails in silence; so the variables
are written by JSONPatch. They come first in the list, because `$(NAME)` in a later entry expands only names before it;
so the pod's name comes before the ids that are composed of it. A variable without a value reads its annotation.
Sources: KEP-3962 (MutatingAdmissionPolicy, v1 from 1.36); EnvVar.Value in core/v1.
"""

from typing import Any, Final, Literal

from . import names
from .worker_patches import worker_patch, worker_variables
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
    f"'{names.POD_INDEX_LABEL}' in object.metadata.labels && object.metadata.labels['{names.POD_INDEX_LABEL}'] == {_ORDINAL} : "
    f"{_ORDINAL}.matches('^(0|[1-9][0-9]{{0,{NAMED_DIGITS_MAX - 1}}})$'))"
)
# A status that was restored from a backup is another StaticGroup's until its operator has looked.
_ISSUED: Final = (
    "has(params.status) && has(params.status.injected) && params.status.injected.method == 'Policy' && "
    "(!has(params.status.staticGroupUid) || params.status.staticGroupUid == params.metadata.uid)"
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
_TIMEOUT_ANNOTATION: Final = (
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


_INDEXES: Final = f"[{', '.join(str(index) for index in range(CONTAINERS_MAX))}]"


def _for_container(index: str) -> str:
    """Write the CEL condition that variable `e` is meant for the container at `index`."""
    return f"(e.container == object.spec.containers[{index}].name || (e.container == '' && {index} == 0))"


def _env_patch() -> str:
    """Write the CEL that puts our variables first and drops earlier entries of the same name."""
    composes = f"variables.env.exists(e, {_for_container('i')} && has(e.value))"
    pod_name = f"dyn({composes} ? [{_POD_NAME}] : [])"
    ours = f"dyn(variables.env.filter(e, {_for_container('i')}).map(e, {_VARIABLE}))"
    replaced = (
        f"variables.env.exists(e, {_for_container('i')} && "
        f"(e.name == old.name || (has(e.value) && old.name == '{names.POD_NAME_VARIABLE}')))"
    )
    theirs = f"dyn(has(object.spec.containers[i].env) ? object.spec.containers[i].env.filter(old, !{replaced}) : [])"
    return (
        f"{_INDEXES}.filter(i, i < size(object.spec.containers) && variables.env.exists(e, {_for_container('i')}))"
        ".map(i, JSONPatch{op: 'add', path: '/spec/containers/' + string(i) + '/env', value: "
        f"{pod_name} + {ours} + {theirs}}})"
    )


def admission_policy(
    *,
    name: str = names.POLICY_NAME,
    failure_policy: FailurePolicy = "Ignore",
    agent_image: str = "",
    agent_pull_policy: str = "IfNotPresent",
) -> dict[str, Any]:
    """Generate the MutatingAdmissionPolicy, in JSON types.

    Parameters
    ----------
    failure_policy: Ignore as shipped, so that a fault never keeps a pod from starting; Fail in tests, because Ignore
        hides errors.
    agent_image, agent_pull_policy: See `worker_patches.worker_variables`; the chart writes those of the operator.
    """
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "paramKind": {"apiVersion": names.API_VERSION, "kind": names.STATIC_GROUP_KIND},
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                ],
                "objectSelector": {"matchExpressions": [{"key": names.POD_INDEX_LABEL, "operator": "Exists"}]},
            },
            "matchConditions": [
                {"name": "owned-by-the-workload", "expression": _OWNED},
                {"name": "has-an-ordinal", "expression": _HAS_ORDINAL},
                {"name": "managed", "expression": "params.spec.mode == 'Manage' && !params.spec.suspend"},
                {"name": "ids-are-issued", "expression": _ISSUED},
            ],
            "failurePolicy": failure_policy,
            "reinvocationPolicy": "IfNeeded",
            "variables": [
                {"name": "ordinal", "expression": _ORDINAL},
                {"name": "id", "expression": _ID},
                {"name": "hasTimeout", "expression": _HAS_TIMEOUT},
                {"name": "env", "expression": _ENV},
                *worker_variables(_INDEXES, image=agent_image, pull_policy=agent_pull_policy),
            ],
            "mutations": [
                {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": _ANNOTATIONS}},
                {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": _TIMEOUT_ANNOTATION}},
                {"patchType": "JSONPatch", "jsonPatch": {"expression": _env_patch()}},
                {"patchType": "JSONPatch", "jsonPatch": {"expression": worker_patch()}},
            ],
        },
    }


def policy_binding(*, name: str = names.POLICY_NAME) -> dict[str, Any]:
    """Generate the binding of the policy of the same name: every StaticGroup of the pod's namespace is a parameter."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"}},
    }
