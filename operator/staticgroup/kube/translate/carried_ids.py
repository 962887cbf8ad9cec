"""The instance ids and session timeouts in a pod's annotations and its environment, as the kubelet resolves it.

A variable shows a session timeout when it reads the annotation that the injection writes, or when its name contains
SESSION_TIMEOUT_MS, as in all presets and most specs, but not ZooKeeper, whose clients have sessions too
(zookeeper.session.timeout.ms of older Kafka clients and brokers). What an application sets in its code or reads from a
file is not seen.
Source: `$(VAR)` expansion as in k8s.io/kubernetes/third_party/forked/golang/expansion.
"""

import re
from collections.abc import Iterator, Mapping
from sys import intern
from types import MappingProxyType
from typing import Final, NamedTuple

from ...api.identifiers import INSTANCE_ID_LENGTH_MAX, InvalidInstanceIdError, validate_instance_id
from ...api.names import INSTANCE_ID_ANNOTATION, SESSION_TIMEOUT_ANNOTATION
from ...api.schema import TIMEOUT_MS_MAX
from .shape import Json, object_of, objects_of, remembered, text_of
from .slots import Files, file_key, files_of, is_volume_of_slot

_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")
_KEYED_FIELD = re.compile(r"metadata\.(annotations|labels)\['([^']*)'\]")
_FIXED_FIELDS: Final = ("metadata.name", "metadata.namespace", "metadata.uid")
_ANNOTATIONS: Final = "metadata.annotations"
_OF_AN_ID: Final = f"{_ANNOTATIONS}['{INSTANCE_ID_ANNOTATION}"
KINDS: Final = ("containers", "initContainers", "ephemeralContainers")
_SEPARATORS: Final = re.compile("[^A-Z0-9]")
_SEPARATOR: Final = re.compile("[^a-zA-Z0-9]+")
_NAMED: Final = "SESSION_TIMEOUT_MS"
_OF_ZOOKEEPER: Final = frozenset({"ZOOKEEPER", "ZK"})
_OF_AGENT: Final = "STATICGROUP_CONNECT_SESSION_TIMEOUT_MS"
_INJECTED: Final = f"metadata.annotations['{SESSION_TIMEOUT_ANNOTATION}']"
_DIGITS_MAX: Final = len(str(TIMEOUT_MS_MAX))
CARRIED_IDS_MAX: Final = 512
"""Ids kept of one pod. A StaticGroup gives a pod at most eight; this bounds what one pod can make us remember."""
SEARCHED_IDS_MAX: Final = 16
"""Ids that are searched for within longer texts; in a pod with more, every container may hold one."""


class Carried(NamedTuple):
    """What a pod shows of instance ids.

    Attributes
    ----------
    are_fixed: see `PodVersion`; never when not all were read.
    holders: by name, the containers that may hold one, each with the only ids that it may hold (see `ContainerView`);
        all of them when not all ids were read, or when the id is the name of the pod.
    """

    instance_ids: frozenset[str]
    are_fixed: bool
    holders: Mapping[str, frozenset[str]]


class _Holders(dict[str, frozenset[str]]):
    """By name of a container, the only ids that it may hold; empty: any."""

    def allow(self, name: str, *instance_ids: str) -> None:
        """Note that a container may hold these ids too; without any, that it may hold whatever there is."""
        known = self.get(name, frozenset(instance_ids))
        self[name] = known.union(instance_ids) if known and instance_ids else frozenset()


Environment = tuple[tuple[str, str | None, bool], ...]
"""See `resolved_env`."""


class _Environments:
    """The variables of a pod's containers, each container's resolved once."""

    def __init__(self, metadata: Json, files: Files) -> None:
        self.metadata = metadata
        self._files = files
        self._of: dict[int, Environment] = {}

    def of(self, container: Json) -> Environment:
        """Return the variables of a container, an object that lives as long as this."""
        found = self._of.get(id(container))
        if found is None:
            found = self._of[id(container)] = tuple(resolved_env(container, self.metadata, self._files))
        return found


def carried_ids(metadata: Json, spec: Json) -> Carried:
    """Collect the legal ids in a pod's annotations and environment, the first CARRIED_IDS_MAX of them."""
    annotations = object_of(metadata, "annotations", "metadata")
    is_annotated = any(key.startswith(INSTANCE_ID_ANNOTATION) for key in annotations)
    files = files_of(metadata, spec) if spec.get("initContainers") else {}
    # Those of slots first, so that no others crowd them out.
    legal = {value for value in files.values() if value and _is_legal_id(value)}
    for key, value in annotations.items():
        if len(legal) < CARRIED_IDS_MAX and key.startswith(INSTANCE_ID_ANNOTATION) and _is_legal_id(value):
            legal.add(value)
    annotated = frozenset(legal)
    shows_id, are_fixed = False, True
    holders = _Holders()
    environments = _Environments(metadata, files)
    for candidate, is_fixed in _environment_ids(environments, spec, annotated, holders):
        if len(legal) == CARRIED_IDS_MAX:
            return Carried(frozenset(legal), False, dict.fromkeys(_names(spec), frozenset[str]()))
        are_fixed = are_fixed and is_fixed
        if _is_legal_id(candidate):
            legal.add(candidate)
            shows_id = True
    shows_all = any(path == _ANNOTATIONS for _, path in _files_of_fields(spec))
    is_searched = len(legal) <= SEARCHED_IDS_MAX
    for name, ids in _mentioning(environments, spec, legal) if is_searched else ((n, ()) for n in _names(spec)):
        holders.allow(name, *ids)
    return Carried(frozenset(legal), are_fixed and (shows_id or not (is_annotated or shows_all)), holders)


def _names(spec: Json) -> frozenset[str]:
    """Return the names of all containers of a pod."""
    return frozenset(text_of(c, "name", f"spec.{kind}[]") for kind in KINDS for c in objects_of(spec, kind, "spec"))


def _mentioning(environments: _Environments, spec: Json, ids: set[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the containers that may read an id or compose one from variables and arguments, with these ids; none: any.

    The host name of every container is the name of its pod, so a container that has the rest of an id may compose it,
    perhaps in a shell that writes what stands between its parts. What is typed in an ephemeral container is not seen.
    """
    name = text_of(environments.metadata, "name", "metadata")
    rests = {i: _rest_of(i, name) for i in ids}
    for kind in KINDS if ids else ():
        for container in objects_of(spec, kind, "spec"):
            own_name = text_of(container, "name", f"spec.{kind}[]")
            made = () if kind == "ephemeralContainers" else _made(container, environments.of(container), name, rests)
            if made is not None:
                yield own_name, made


def _rest_of(instance_id: str, pod_name: str) -> tuple[str, ...]:
    """Return what an id consists of beside the name of its pod, or else beside its ordinal."""
    known = pod_name if pod_name and pod_name in instance_id else pod_name.rpartition("-")[2]
    return tuple(part for part in (instance_id.split(known) if known else [instance_id]) if part)


def _made(
    container: Json, environment: Environment, pod_name: str, rests: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...] | None:
    """Return the ids of which a container's variables and arguments show all but the pod name; (): any; None: none."""
    values = {name: value for name, value, _ in environment if value is not None}
    entries = objects_of(container, "env", "spec.containers[]")
    texts = [text_of(entry, "value", "spec.containers[].env[]") for entry in entries]
    for place in _commands(container):
        for key in ("command", "args"):
            found = place.get(key)
            texts += [text for text in found if isinstance(text, str)] if isinstance(found, list) else []
    shown = [*values.values(), *texts]
    for text in texts:
        expanded = _expanded(text, values) if "$(" in text else ""
        if expanded is None or ("$(" in expanded and pod_name in expanded):
            return ()
        shown.append(expanded)
    found = tuple(i for i, rest in rests.items() if _is_shown(rest, shown))
    return found or None


def _is_shown(rest: tuple[str, ...], texts: list[str]) -> bool:
    """Return True when texts have every part of a rest, or all between its separators, which a shell may write."""
    if all(any(part in text for text in texts) for part in rest):
        return True
    wanted = {piece for part in rest for piece in _SEPARATOR.split(part) if piece}
    whole = "\n".join(texts)
    if not all(piece in whole for piece in wanted):
        return False  # mostly, and then nothing need be split
    return wanted <= {piece for text in texts for piece in _SEPARATOR.split(text)}


def _commands(container: Json) -> Iterator[Json]:
    """Yield whatever has a command that is run in a container: itself, its hooks and its probes."""
    yield container
    hooks = object_of(container, "lifecycle", "spec.containers[]")
    places = [(hooks, "postStart"), (hooks, "preStop")]
    for place, key in (*places, *((container, f"{kind}Probe") for kind in ("startup", "liveness", "readiness"))):
        yield object_of(object_of(place, key, "spec.containers[]"), "exec", key)


@remembered
def names_an_id(variable: str) -> bool:
    """Return whether a client may take its group.instance.id from a variable of this name, in whatever spelling.

    Kubernetes takes names such as `spring.kafka.consumer.properties.group.instance.id` (IsEnvVarName). Spring's
    SystemEnvironmentPropertySource and SmallRye's EnvConfigSource try the exact name of a property first, and Camel's
    option is groupInstanceId.
    """
    return "INSTANCEID" in _SEPARATORS.sub("", variable.upper())


def _environment_ids(
    environments: _Environments, spec: Json, annotated: frozenset[str], holders: _Holders
) -> Iterator[tuple[str, bool]]:
    """Yield every value that may be an id in the environment, and whether it is fixed; "" where it is not known.

    A variable carries an id when its name says so, when it has the id of an annotation, or when it reads such an
    annotation. A container may carry any id when it has envFrom, whose variables may have any name, or when it has an
    id and a file with every annotation. `holders` is filled with the containers that may hold one.
    """
    files = tuple(_files_of_fields(spec))
    for kind in KINDS:
        place = f"spec.{kind}[]"
        for container in objects_of(spec, kind, "spec"):
            entries = objects_of(container, "env", "spec.containers[]")
            readers = (e for e in entries if _field_path(e).startswith(_OF_AN_ID) or _reads_a_slot(e))
            reads = {text_of(e, "name", "spec.containers[].env[]") for e in readers}
            own_name = intern(text_of(container, "name", place))
            carries = False
            for name, value, is_fixed in environments.of(container):
                if names_an_id(name) or value in annotated or name in reads:
                    carries = True
                    holders.allow(own_name, *([value] if is_fixed and value and _is_legal_id(value) else []))
                    yield value or "", is_fixed
            if objects_of(container, "envFrom", f"spec.{kind}[]"):
                holders.allow(own_name)
                yield "", False
            mounted = {text_of(m, "name", "volumeMounts[]") for m in objects_of(container, "volumeMounts", place)}
            if any(is_volume_of_slot(name) for name in mounted):
                holders.allow(own_name)
            if any(name in mounted for name, path in files if path == _ANNOTATIONS or path.startswith(_OF_AN_ID)):
                holders.allow(own_name)
            if carries and any(name in mounted for name, path in files if path == _ANNOTATIONS):
                yield "", False
    if any(path.startswith(_OF_AN_ID) for _, path in files):
        yield "", False


def _reads_a_slot(entry: Json) -> bool:
    return "fileKeyRef" in (entry.get("valueFrom") or ()) and file_key(entry) is not None


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


def resolved_env(
    container: Json, metadata: Json, files: Files = MappingProxyType({})
) -> Iterator[tuple[str, str | None, bool]]:
    """Yield the variables in order, each with its value and whether it is fixed; later ones may refer to earlier ones.

    A value longer than an id may be is None, as unknown: a value that refers to it is too long as well, or is not what
    the kubelet makes of it and holds characters that no id has. So a pod costs no more than its own size. A value is
    fixed when a restarted container finds it unchanged; a reference to any other variable may mean one of a Service.
    The file of a slot is written once.
    """
    known: dict[str, str] = {}
    fixed: set[str] = set()
    for entry in objects_of(container, "env", "spec.containers[]"):
        name = text_of(entry, "name", "spec.containers[].env[]")
        source = object_of(entry, "valueFrom", "spec.containers[].env[]")
        value: str | None
        if source:
            reference = object_of(source, "fieldRef", "valueFrom")
            file = file_key(entry) if files else None
            value = files.get(file) if file is not None else _field_value(reference, metadata)
            is_fixed = file in files or reference.get("fieldPath") in _FIXED_FIELDS
        else:
            text = text_of(entry, "value", "spec.containers[].env[]")
            value = _expanded(text, known) if "$" in text else text
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
    """Expand $(VAR) as the kubelet does: `$$` is a dollar sign, an unknown reference stays. None: longer than an id."""
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


def session_timeouts_ms(metadata: Json, spec: Json) -> tuple[int, ...]:
    """Collect what the containers and sidecars of a pod show as their session timeout.

    Returns
    -------
    In milliseconds, ascending, each once; empty when none is shown. Of a container that shows several, those that are
    injected count, or that the agent in a Connect worker takes in place of the worker's own.
    """
    found: set[int] = set()
    shows_any = False
    for container in _lasting(spec):
        shown = list(_shown(container, metadata))
        shows_any = shows_any or bool(shown)
        injected = [value for value, is_injected in shown if is_injected]
        found.update(value for value in injected or [value for value, _ in shown] if value is not None)
    if not shows_any:
        annotated = _milliseconds(object_of(metadata, "annotations", "metadata").get(SESSION_TIMEOUT_ANNOTATION))
        return () if annotated is None else (annotated,)
    return tuple(sorted(found))


def _lasting(spec: Json) -> Iterator[Json]:
    """Yield the containers in which a member may live: containers and sidecars."""
    yield from objects_of(spec, "containers", "spec")
    yield from (c for c in objects_of(spec, "initContainers", "spec") if c.get("restartPolicy") == "Always")


def _shown(container: Json, metadata: Json) -> Iterator[tuple[int | None, bool]]:
    """Yield the value of each variable that shows a session timeout, and whether it is or replaces the injected one."""
    path = "spec.containers[].env[]"
    entries = objects_of(container, "env", "spec.containers[]")
    named = ((text_of(entry, "name", path), entry) for entry in entries)
    relevant = [(_is_named(name), _field_path(entry) == _INJECTED or name == _OF_AGENT) for name, entry in named]
    if not any(is_named or is_injected for is_named, is_injected in relevant):
        return
    for (is_named, is_injected), (_, value, _) in zip(relevant, resolved_env(container, metadata), strict=True):
        if is_named or is_injected:
            yield _milliseconds(value), is_injected


@remembered
def _is_named(variable: str) -> bool:
    """True for a name by which a variable is a Kafka client's session timeout."""
    name = variable.upper()
    return _NAMED in name and _OF_ZOOKEEPER.isdisjoint(name.split("_"))


def _field_path(entry: Json) -> str:
    """Return the path of the field of the pod that a variable shows; "" where it shows none."""
    if not entry.get("valueFrom"):
        return ""
    reference = object_of(object_of(entry, "valueFrom", "spec.containers[].env[]"), "fieldRef", "valueFrom")
    return text_of(reference, "fieldPath", "fieldRef")


def _milliseconds(text: object) -> int | None:
    """Read a session timeout; None for what no client takes as one."""
    if not isinstance(text, str) or not (text.isascii() and text.isdigit()) or len(text) > _DIGITS_MAX:
        return None
    return int(text) if 0 < int(text) <= TIMEOUT_MS_MAX else None
