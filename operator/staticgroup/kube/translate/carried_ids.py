"""The instance ids that a pod carries in its annotations or its environment, as the kubelet resolves it.

Source: `$(VAR)` expansion as in k8s.io/kubernetes/third_party/forked/golang/expansion.
"""

import re
from collections.abc import Iterator
from typing import Final

from ...api.identifiers import INSTANCE_ID_LENGTH_MAX, InvalidInstanceIdError, validate_instance_id
from ...api.names import INSTANCE_ID_ANNOTATION
from .shape import Json, object_of, objects_of, text_of

_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")
_KEYED_FIELD = re.compile(r"metadata\.(annotations|labels)\['([^']*)'\]")
_FIXED_FIELDS: Final = ("metadata.name", "metadata.namespace", "metadata.uid")
_ANNOTATIONS: Final = "metadata.annotations"
_OF_AN_ID: Final = f"{_ANNOTATIONS}['{INSTANCE_ID_ANNOTATION}"
KINDS: Final = ("containers", "initContainers", "ephemeralContainers")
_SEPARATORS: Final = re.compile("[^A-Z0-9]")
CARRIED_IDS_MAX: Final = 512
"""Ids kept of one pod. A StaticGroup gives a pod at most eight; this bounds what one pod can make us remember."""


def carried_ids(metadata: Json, spec: Json, env_names: frozenset[str]) -> tuple[frozenset[str], bool]:
    """Collect the legal ids the pod carries in its annotations or its environment, the first CARRIED_IDS_MAX of them.

    Returns
    -------
    The ids, and whether they are fixed, see `PodVersion`; never when not all were looked at.
    """
    annotations = object_of(metadata, "annotations", "metadata")
    is_annotated = any(key.startswith(INSTANCE_ID_ANNOTATION) for key in annotations)
    legal: set[str] = set()
    for key, value in annotations.items():
        if len(legal) < CARRIED_IDS_MAX and key.startswith(INSTANCE_ID_ANNOTATION) and _is_legal_id(value):
            legal.add(value)
    annotated = frozenset(legal)
    shows_id, are_fixed = False, True
    for candidate, is_fixed in _environment_ids(metadata, spec, env_names, annotated):
        if len(legal) == CARRIED_IDS_MAX:
            return frozenset(legal), False
        are_fixed = are_fixed and is_fixed
        if _is_legal_id(candidate):
            legal.add(candidate)
            shows_id = True
    shows_all = any(path == _ANNOTATIONS for _, path in _files_of_fields(spec))
    return frozenset(legal), are_fixed and (shows_id or not (is_annotated or shows_all))


def names_an_id(variable: str) -> bool:
    """Tell whether a client may take its group.instance.id from a variable of this name, in whatever spelling.

    Notes
    -----
    Kubernetes takes names such as `spring.kafka.consumer.properties.group.instance.id` (IsEnvVarName). Spring's
    SystemEnvironmentPropertySource and SmallRye's EnvConfigSource look for the exact name of a property first, and Camel's
    option is groupInstanceId.
    """
    return "INSTANCEID" in _SEPARATORS.sub("", variable.upper())


def _environment_ids(
    metadata: Json, spec: Json, env_names: frozenset[str], annotated: frozenset[str]
) -> Iterator[tuple[str, bool]]:
    """Yield whatever stands where an id may stand in the environment, and whether it is fixed; "" where it is not known.

    A variable carries an id when its name says so, or when it says what an annotation says of an id, or would if there were
    one. Whatever envFrom brings may have any name, so a container with it may carry any id; so may one that has an id and a
    file with every annotation beside it.
    """
    for kind in KINDS:
        for container in objects_of(spec, kind, "spec"):
            reads = {name for name, path in _variables_of_fields(container) if path.startswith(_OF_AN_ID)}
            carries = False
            for name, value, is_fixed in resolved_env(container, metadata):
                if name in env_names or names_an_id(name) or value in annotated or name in reads:
                    carries = True
                    yield value or "", is_fixed
            if objects_of(container, "envFrom", f"spec.{kind}[]"):
                yield "", False
            mounted = {text_of(m, "name", "volumeMounts[]") for m in objects_of(container, "volumeMounts", f"spec.{kind}[]")}
            if carries and any(name in mounted for name, path in _files_of_fields(spec) if path == _ANNOTATIONS):
                yield "", False
    if any(path.startswith(_OF_AN_ID) for _, path in _files_of_fields(spec)):
        yield "", False


def _variables_of_fields(container: Json) -> Iterator[tuple[str, str]]:
    """Yield the variables that show a field of the pod, each with the path of the field."""
    for entry in objects_of(container, "env", "spec.containers[]"):
        reference = object_of(object_of(entry, "valueFrom", "spec.containers[].env[]"), "fieldRef", "valueFrom")
        yield text_of(entry, "name", "spec.containers[].env[]"), text_of(reference, "fieldPath", "fieldRef")


def _files_of_fields(spec: Json) -> Iterator[tuple[str, str]]:
    """Yield the volumes with files that show a field of the pod, each with the path of the field."""
    for volume in objects_of(spec, "volumes", "spec"):
        projected = object_of(volume, "projected", "spec.volumes[]")
        for place in (volume, *objects_of(projected, "sources", "spec.volumes[].projected")):
            files = object_of(place, "downwardAPI", "spec.volumes[]")
            for item in objects_of(files, "items", "spec.volumes[].downwardAPI"):
                reference = object_of(item, "fieldRef", "spec.volumes[].downwardAPI.items[]")
                yield text_of(volume, "name", "spec.volumes[]"), text_of(reference, "fieldPath", "fieldRef")


def _is_legal_id(candidate: object) -> bool:
    try:
        validate_instance_id(candidate if isinstance(candidate, str) else "")
    except InvalidInstanceIdError:
        return False
    return True


def resolved_env(container: Json, metadata: Json) -> Iterator[tuple[str, str | None, bool]]:
    """Yield the variables in order, each with its value and whether it is fixed; later ones may refer to earlier ones.

    A value longer than an id may be counts as unknown, None: whatever refers to it is too long as well, or is not what
    the kubelet makes of it and holds characters that no id has. So a pod costs no more than its own size. Fixed is what
    a container that starts again cannot find changed; a reference to none of these variables may be one to a Service's.
    """
    known: dict[str, str] = {}
    fixed: set[str] = set()
    for entry in objects_of(container, "env", "spec.containers[]"):
        name = text_of(entry, "name", "spec.containers[].env[]")
        source = object_of(entry, "valueFrom", "spec.containers[].env[]")
        value: str | None
        if source:
            reference = object_of(source, "fieldRef", "valueFrom")
            value = _field_value(reference, metadata)
            is_fixed = reference.get("fieldPath") in _FIXED_FIELDS
        else:
            text = text_of(entry, "value", "spec.containers[].env[]")
            value = _expanded(text, known)
            is_fixed = "$(" not in text or all(reference in fixed for reference in _references(text))
        fixed.discard(name)
        known.pop(name, None)
        if is_fixed:
            fixed.add(name)
        if value is not None and len(value) <= INSTANCE_ID_LENGTH_MAX:
            known[name] = value
        yield name, known.get(name), is_fixed


def _references(text: str) -> Iterator[str]:
    """Yield the names that a text refers to; `$$` begins no reference."""
    closed = text.rfind(")") + 1
    return (found[1] for found in _REFERENCE.finditer(text, 0, closed) if found[1] is not None)


def _expanded(text: str, known: dict[str, str]) -> str | None:
    """Expand $(VAR) as the kubelet does: `$$` is a dollar sign, an unknown reference stays as it is.

    Returns
    -------
    The value; None once it is longer than an id may be.
    """
    expanded, end = "", 0
    closed = text.rfind(")") + 1  # behind it nothing is a reference, and each "$(" would be searched to the end
    for found in _REFERENCE.finditer(text, 0, closed):
        expanded += text[end : found.start()] + ("$" if found[1] is None else known.get(found[1], found[0]))
        end = found.end()
        if len(expanded) > INSTANCE_ID_LENGTH_MAX:
            return None
    expanded += text[end:].replace("$$", "$")
    return expanded if len(expanded) <= INSTANCE_ID_LENGTH_MAX else None


def _field_value(reference: Json, metadata: Json) -> str | None:
    """Resolve a fieldRef into metadata; None for fields that only the kubelet knows."""
    path = text_of(reference, "fieldPath", "fieldRef")
    if path in _FIXED_FIELDS:
        return text_of(metadata, path.removeprefix("metadata."), "metadata")
    keyed = _KEYED_FIELD.fullmatch(path)
    return text_of(object_of(metadata, keyed[1], "metadata"), keyed[2], "metadata") if keyed else None
