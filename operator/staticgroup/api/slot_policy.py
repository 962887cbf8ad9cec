"""Generate the two admission policies for pods of Deployments: what they are given, and who may write their notes.

The first brings the waiter: an init container, its two volumes and the variables that read what it wrote. They come by
one JSONPatch, so all of them or nothing, and never twice: a pod with two volumes of one name is refused, whatever the
failure policy says. The init container is the last one: the others have done their work when it begins to wait.

The second, the fence, keeps notes and pods apart: only the operator writes a note, and only into the pod whose uid it
begins with; what it gave it cannot change; and the operator, which may patch pods for that, can change nothing else.
A copy of a pod brings no note, and pods/binding and pods/status are covered too, because annotations come by them.
Sources: KEP-3962 and KEP-3488 (the two kinds of policy), KEP-3721 (`fileKeyRef`); registry/core/pod of Kubernetes
(`BindingREST` copies annotations, podStatusStrategy keeps them).
"""

from typing import Any, Final

from . import names
from .policy import (
    INDEXES,
    RESOURCES,
    TIMEOUT_ANNOTATION,
    FailurePolicy,
    add,
    admission_object,
    env_patch,
    for_container,
    insert,
    mutating_policy,
    security_context,
)
from .workloads import DEPLOYMENT, SLOT_KINDS

_SLOT: Final = f"'{names.SLOT_NAME}-' + params.status.injected.scope"


def slot_policy(
    *,
    name: str = names.SLOTS_NAME,
    failure_policy: FailurePolicy = "Ignore",
    image: str = "",
    pull_policy: str = "IfNotPresent",
) -> dict[str, Any]:
    """Generate the MutatingAdmissionPolicy for pods of Deployments, in JSON types; its binding is `policy_binding`.

    Parameters
    ----------
    failure_policy: Ignore as shipped, so that a fault never keeps a pod from starting; Fail in tests.
    image: The waiter's, as pods name it; empty: nothing is injected. It holds no quote. The chart writes it.
    pull_policy: Of the init container.
    """
    return mutating_policy(
        name,
        failure_policy,
        DEPLOYMENT.hash_label,  # a selector knows no "or": the chart leaves it out where other kinds are served too
        conditions={
            "of-the-workload": _OF_THE_WORKLOAD,
            "runs-linux": "!has(object.spec.os) || object.spec.os.name != 'windows'",
            "not-injected-yet": _not_injected_yet(),
        },
        variables={
            "slotImage": f"'{image}'",
            "slotPullPolicy": f"'{pull_policy}'",
            "slotName": _SLOT,
            "takesSlot": _takes_slot(),
            "waiter": _waiter(),
        },
        applied=[f"!variables.takesSlot ? Object{{}} : {TIMEOUT_ANNOTATION}"],
        patches=[_patch()],
    )


# Nothing of a pod names its Deployment or Rollout, but its ReplicaSet is called after that and a label of the pod.
_IS_CALLED: Final = " || ".join(
    f"(params.spec.workloadRef.kind == '{known.kind}' && '{known.hash_label}' in object.metadata.labels && "
    f"o.name == params.spec.workloadRef.name + '-' + object.metadata.labels['{known.hash_label}'])"
    for known in SLOT_KINDS
)
_OF_THE_WORKLOAD: Final = (
    "has(object.metadata.labels) && has(object.metadata.ownerReferences) && "
    "object.metadata.ownerReferences.exists(o, o.apiVersion == 'apps/v1' && o.kind == 'ReplicaSet' && "
    f"has(o.controller) && o.controller && ({_IS_CALLED}))"
)


def _not_injected_yet() -> str:
    """Write the condition that nothing of the pod has a name of what is injected."""
    taken = f".exists(x, x.name in [{_SLOT}, {_SLOT} + '-in'])"
    optional = (f"(!has(object.spec.{each}) || !object.spec.{each}{taken})" for each in ("initContainers", "volumes"))
    return " && ".join((f"!object.spec.containers{taken}", *optional))


def _takes_slot() -> str:
    """Write the condition that all can be injected: there is an image, and each id has its container."""
    has_container = f"{INDEXES}.exists(i, i < size(object.spec.containers) && {for_container('i')})"
    return (
        "variables.slotImage != '' && variables.env.exists(e, has(e.key)) && "
        f"variables.env.all(e, !has(e.key) || {has_container})"
    )


def _waiter() -> str:
    """Write the init container. Maps instead of typed literals, and `dyn`, for the reasons that `policy` gives."""
    return (
        "{'name': dyn(variables.slotName), 'image': dyn(variables.slotImage), "
        "'imagePullPolicy': dyn(variables.slotPullPolicy), "
        "'args': dyn(params.status.injected.env.filter(e, has(e.key)).map(e, e.key + '=' + e.value)), "
        f"'env': dyn([{{'name': dyn('{names.SLOT_WORKLOAD_VARIABLE}'), 'value': dyn(params.spec.workloadRef.name)}}]), "
        f"'volumeMounts': dyn([{{'name': dyn(variables.slotName), 'mountPath': dyn('{names.SLOT_OUT_PATH}')}}, "
        f"{{'name': dyn(variables.slotName + '-in'), 'mountPath': dyn('{names.SLOT_IN_PATH}'), "
        "'readOnly': dyn(true)}]), "
        f"'resources': dyn({{'requests': {RESOURCES}, 'limits': {RESOURCES}}}), "
        f"'securityContext': dyn({security_context()})}}"
    )


def _patch() -> str:
    """Write the one mutation: both volumes, the init container behind all others, and the variables."""
    out = "{'name': dyn(variables.slotName), 'emptyDir': dyn({'medium': 'Memory', 'sizeLimit': '1Mi'})}"
    note = f'"metadata.annotations[\'{names.SLOT_ANNOTATION}-" + params.status.injected.scope + "\']"'
    shown = (
        f"{{'name': dyn(variables.slotName + '-in'), 'downwardAPI': dyn({{'items': ["
        "{'path': dyn('uid'), 'fieldRef': dyn({'fieldPath': 'metadata.uid'})}, "
        f"{{'path': dyn('note'), 'fieldRef': dyn({{'fieldPath': {note}}})}}]}})}}"
    )
    patches = (
        insert("has(object.spec.volumes)", "'/spec/volumes'", "-", out),
        add("'/spec/volumes/-'", shown),
        insert("has(object.spec.initContainers)", "'/spec/initContainers'", "-", "variables.waiter"),
    )
    return f"!variables.takesSlot ? [] : [{', '.join(patches)}] + {_env_patch()}"


def _env_patch() -> str:
    file = (
        f"{{'volumeName': dyn(variables.slotName), 'path': dyn('{names.SLOT_FILE}'), 'key': dyn(e.key), "
        "'optional': dyn(true)}"
    )
    annotation = "{'fieldPath': \"metadata.annotations['\" + e.annotation + \"']\"}"
    variable = (
        f"{{'name': dyn(e.name), 'valueFrom': has(e.key) ? dyn({{'fileKeyRef': {file}}}) : "
        f"dyn({{'fieldRef': {annotation}}})}}"
    )
    return env_patch(variable, "e.name == old.name")


_PREFIX: Final = f"{names.SLOT_ANNOTATION}-"
_OLD: Final = "oldObject != null && has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {}"
_NEW: Final = "has(object.metadata) && has(object.metadata.annotations) ? object.metadata.annotations : {}"
_CHANGED: Final = (
    f"variables.new.filter(k, k.startsWith('{_PREFIX}') && "
    "!(k in variables.old && variables.old[k] == variables.new[k])) + "
    f"variables.old.filter(k, k.startsWith('{_PREFIX}') && !(k in variables.new))"
)
# Words by single spaces, so that both ends read the same ones.
_IS_NOTE: Final = "matches('^[!-~]+ (waits [0-9]+ [!-~]+|has [!-~]+( [0-9]+)?)$')"
_GIVES: Final = "startsWith(object.metadata.uid + ' has ')"
# What a pod consists of beside annotations, its status (which an update of pods leaves alone), and what nobody can set.
_ELSE: Final = ("spec", "metadata.labels", "metadata.finalizers", "metadata.ownerReferences")


def fence(*, name: str = names.SLOTS_NAME, operator: str = "") -> dict[str, Any]:
    """Generate the ValidatingAdmissionPolicy over the annotations with notes, in JSON types.

    Parameters
    ----------
    operator: User name of the operator's account, `system:serviceaccount:<namespace>:<name>`; it holds no quote. Empty:
        nobody writes a note. The chart writes it.
    """
    rules = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"]}
    spec = {
        "matchConstraints": {"resourceRules": [rules | {"resources": ["pods", "pods/*"]}]},
        "failurePolicy": "Fail",
        "variables": [
            {"name": "operator", "expression": f"'{operator}'"},
            {"name": "isOperator", "expression": "request.userInfo.username == variables.operator"},
            {"name": "old", "expression": _OLD},
            {"name": "new", "expression": _NEW},
            {"name": "changed", "expression": _CHANGED},
        ],
        "validations": [
            {
                "expression": "size(variables.changed) == 0 || (variables.isOperator && oldObject != null)",
                "message": f"annotations {_PREFIX}... are written by the StaticGroup operator alone, into a pod "
                "that exists; leave them out",
            },
            {
                "expression": "variables.changed.all(k, k in variables.new && "
                f"variables.new[k].startsWith(object.metadata.uid + ' ') && variables.new[k].{_IS_NOTE})",
                "message": f"annotations {_PREFIX}... hold a note that begins with the pod's own uid",
            },
            {
                "expression": f"variables.changed.all(k, !(k in variables.old && variables.old[k].{_GIVES}) || "
                f"(k in variables.new && variables.new[k].{_GIVES} && "
                "variables.new[k].split(' ')[2] == variables.old[k].split(' ')[2]))",
                "message": "a pod keeps the slot that it has",
            },
            {
                "expression": "!variables.isOperator || (oldObject != null && !has(request.subResource) && "
                f"{' && '.join(map(_is_same, _ELSE))} && "
                f"variables.new.all(k, k.startsWith('{_PREFIX}') || "
                "(k in variables.old && variables.old[k] == variables.new[k])) && "
                "variables.old.all(k, k in variables.new))",
                "message": f"the StaticGroup operator may write annotations {_PREFIX}... of pods and nothing else",
            },
        ],
    }
    return admission_object("ValidatingAdmissionPolicy", name, spec)


def fence_binding(*, name: str = names.SLOTS_NAME) -> dict[str, Any]:
    """Generate the binding of the fence of the same name."""
    spec = {"policyName": name, "validationActions": ["Deny"]}
    return admission_object("ValidatingAdmissionPolicyBinding", name, spec)


def _is_same(field: str) -> str:
    """Write the condition that a field of the pod, perhaps absent, is as it was."""
    new, old = f"object.{field}", f"oldObject.{field}"
    return f"has({new}) == has({old}) && (!has({new}) || {new} == {old})"
