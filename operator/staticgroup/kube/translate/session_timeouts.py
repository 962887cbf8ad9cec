"""The session timeouts that a pod's containers start with, as its environment shows them, or else its annotation.

A variable tells one when it reads the annotation that the injection writes, or when its name says SESSION_TIMEOUT_MS, as
those of all presets do and those that a spec names mostly, unless the name says ZooKeeper, whose clients have sessions too
(zookeeper.session.timeout.ms of older Kafka clients and brokers). What an application sets in its code or reads from a file is not seen.
"""

from collections.abc import Iterator
from typing import Final

from ...api.names import SESSION_TIMEOUT_ANNOTATION
from ...api.schema import TIMEOUT_MS_MAX
from .carried_ids import resolved_env
from .remembered import remembered
from .shape import Json, object_of, objects_of, text_of

_NAMED: Final = "SESSION_TIMEOUT_MS"
_OF_ZOOKEEPER: Final = frozenset({"ZOOKEEPER", "ZK"})
_OF_AGENT: Final = "STATICGROUP_CONNECT_SESSION_TIMEOUT_MS"
_INJECTED: Final = f"metadata.annotations['{SESSION_TIMEOUT_ANNOTATION}']"
_DIGITS_MAX: Final = len(str(TIMEOUT_MS_MAX))


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
    """Yield each variable that tells a session timeout: its value, and whether it is the injected one or in its place."""
    path = "spec.containers[].env[]"
    entries = objects_of(container, "env", "spec.containers[]")
    named = ((text_of(entry, "name", path), entry) for entry in entries)
    telling = [(_is_named(name), _field(entry) == _INJECTED or name == _OF_AGENT) for name, entry in named]
    if not any(is_named or is_injected for is_named, is_injected in telling):
        return
    for (is_named, is_injected), (_, value, _) in zip(telling, resolved_env(container, metadata), strict=True):
        if is_named or is_injected:
            yield _milliseconds(value), is_injected


@remembered
def _is_named(variable: str) -> bool:
    """True for a name by which a variable is a Kafka client's session timeout."""
    name = variable.upper()
    return _NAMED in name and _OF_ZOOKEEPER.isdisjoint(name.split("_"))


def _field(entry: Json) -> str:
    if not entry.get("valueFrom"):
        return ""
    reference = object_of(object_of(entry, "valueFrom", "spec.containers[].env[]"), "fieldRef", "valueFrom")
    return text_of(reference, "fieldPath", "fieldRef")


def _milliseconds(text: object) -> int | None:
    """Read a session timeout; None for what no client takes as one."""
    if not isinstance(text, str) or not (text.isascii() and text.isdigit()) or len(text) > _DIGITS_MAX:
        return None
    return int(text) if 0 < int(text) <= TIMEOUT_MS_MAX else None
