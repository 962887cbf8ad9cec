"""What a pod of a Deployment shows of its slots: the init containers that wait, the operator's notes, and the file.

The init container that waits for a StaticGroup's slot is called after its scope, and so is the annotation with the
note. Its arguments say what it writes into the file that the containers' variables read, once the note gives a slot.
Sources: operator/slot_waiter/main.go, which reads the same note; fileKeyRef of EnvVarSource (KEP-3721).
"""

from collections.abc import Iterator, Mapping
from posixpath import normpath
from sys import intern
from typing import Final

from ...api.names import SLOT_ANNOTATION, SLOT_FILE, SLOT_NAME, SLOT_WORKLOAD_VARIABLE
from ...core.evidence.pod import SlotView
from .shape import Json, object_of, objects_of, text_of

_WAITER: Final = f"{SLOT_NAME}-"
Files = Mapping[tuple[str, str], str | None]
"""What stands in the files of slots, by volume and key; None: the pod has no slot yet."""


def waits_for_slot(raw: Json) -> bool:
    """Tell of a raw pod, of whatever shape, whether an init container of it waits for a slot."""
    spec = raw.get("spec")
    inits = spec.get("initContainers") if isinstance(spec, dict) else None
    named = (c.get("name") for c in inits if isinstance(c, dict)) if isinstance(inits, list) else ()
    return any(isinstance(name, str) and name.startswith(_WAITER) for name in named)


def slots_of(metadata: Json, spec: Json, status: Json) -> tuple[SlotView, ...]:
    """Return what a pod shows of its slots, in the order of its init containers; () of nearly every pod."""
    waiters = list(_waiters(spec))
    if not waiters:
        return ()
    entries = {text_of(e, "name", "status"): e for e in objects_of(status, "initContainerStatuses", "status")}
    return tuple(_slot(metadata, waiter, scope, entries.get(_WAITER + scope, {})) for scope, waiter in waiters)


def files_of(metadata: Json, spec: Json) -> Files:
    """Return what the variables of a pod read from the files of its slots, or will read."""
    found: dict[tuple[str, str], str | None] = {}
    for scope, waiter in _waiters(spec):
        slot, _, _ = _note(metadata, scope)
        arguments = waiter.get("args")
        for argument in arguments if isinstance(arguments, list) else ():
            key, _, template = str(argument).partition("=")
            found[_WAITER + scope, key] = template.replace("%s", slot) if slot else None
    return found


def file_key(entry: Json) -> tuple[str, str] | None:
    """Return the volume and the key of the file that a variable reads; None where it reads none of a slot."""
    source = object_of(entry, "valueFrom", "env[]") if entry.get("valueFrom") else {}
    reference = object_of(source, "fileKeyRef", "valueFrom")
    volume, path = text_of(reference, "volumeName", "fileKeyRef"), text_of(reference, "path", "fileKeyRef")
    if not is_volume_of_slot(volume) or normpath(path) != SLOT_FILE:
        return None
    return volume, text_of(reference, "key", "fileKeyRef")


def is_volume_of_slot(name: str) -> bool:
    """Tell whether a volume holds the file of a slot, which every container can read that mounts it."""
    return name.startswith(_WAITER)


def _waiters(spec: Json) -> Iterator[tuple[str, Json]]:
    """Yield the init containers that wait for a slot, each with the scope of its StaticGroup."""
    for container in objects_of(spec, "initContainers", "spec"):
        name = text_of(container, "name", "spec.initContainers[]")
        if name.startswith(_WAITER):
            yield intern(name.removeprefix(_WAITER)), container


def _slot(metadata: Json, waiter: Json, scope: str, entry: Json) -> SlotView:
    state = object_of(entry, "state", "status.initContainerStatuses[]")
    entries = objects_of(waiter, "env", "spec.initContainers[]")
    workload = (text_of(e, "value", "env[]") for e in entries if e.get("name") == SLOT_WORKLOAD_VARIABLE)
    given, claimed, count = _note(metadata, scope)
    return SlotView(
        scope=scope, workload_name=intern(next(workload, "")), given=given, claimed=claimed, count=count,
        is_waiting=state.get("running") is not None,
        has_started=state.get("running") is None and state.get("terminated") is not None,
    )


def _note(metadata: Json, scope: str) -> tuple[str, str, int]:
    """Return what the note gives this pod, what it claims for it, and its number; one for another pod says nothing."""
    text = object_of(metadata, "annotations", "metadata").get(f"{SLOT_ANNOTATION}-{scope}")
    words = text.split() if isinstance(text, str) else []
    if len(words) < 3 or words[0] != metadata.get("uid"):
        return "", "", 0
    if words[1] == "has":
        return words[2], "", _number(words[3]) if len(words) > 3 else 0
    if words[1] == "waits" and len(words) > 3:
        return "", "" if words[3] == "-" else words[3], _number(words[2])
    return "", "", 0


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
