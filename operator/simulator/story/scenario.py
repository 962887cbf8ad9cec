"""A team's own numbers as a YAML file: the workload, its timings, and what happens to it when."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

Seconds = Annotated[float, Field(ge=0, le=86_400)]
LENGTH_AFTER_LAST_S = 120.0
BETWEEN_PODS_S = 5.0
"""At most, from a pod that is Ready to the end of the next one."""


class ScenarioError(ValueError):
    """A scenario file is wrong; the message names the field and what it allows."""


class Strict(BaseModel):
    """A model that names unknown fields instead of ignoring them."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Happening(Strict):
    """One thing that happens.

    Parameters
    ----------
    at_seconds: counted from the moment in which all pods are members.
    what: roll (restart every pod, one after the other), scale (to `replicas`), crash (the process of a pod ends at
        once and is restarted in place), delete (a pod is deleted and replaced), lose_node (the node of a pod is cut off
        and the pod is force-deleted: its process lives on as a zombie).
    pod: ordinal, for crash, delete and lose_node.
    """

    at_seconds: Seconds
    what: Literal["roll", "scale", "crash", "delete", "lose_node"]
    replicas: Annotated[int, Field(ge=0, le=500)] | None = None
    pod: Annotated[int, Field(ge=0, le=499)] | None = None

    @model_validator(mode="after")
    def _has_its_argument(self) -> Happening:
        if (self.replicas is not None) != (self.what == "scale"):
            raise ValueError("`replicas` belongs to `what: scale`, and only there")
        if (self.pod is not None) != (self.what in ("crash", "delete", "lose_node")):
            raise ValueError("`pod` (an ordinal) belongs to crash, delete and lose_node, and only there")
        return self


class Scenario(Strict):
    """A workload and what happens to it.

    Parameters
    ----------
    pods, partitions: size of the workload and of its topic.
    protocol: Classic or Consumer (KIP-848).
    library: whose client reacts to fencing: java, librdkafka or sarama.
    restart_seconds: least and most seconds from the start of a container to its first join.
    stop_seconds: seconds from SIGTERM to the end of the process.
    session_timeout_seconds: of the members with the operator; without it the clients are dynamic and use
        `dynamic_session_timeout_seconds`.
    heartbeat_seconds: heartbeat.interval.ms of a classic group; a member learns of a rebalance no sooner.
    pod_management_policy: of the StatefulSet.
    happenings: in any order.
    """

    name: Annotated[str, Field(pattern="^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$")] = "orders"
    pods: Annotated[int, Field(ge=1, le=500)] = 5
    partitions: Annotated[int, Field(ge=1, le=10_000)] = 20
    protocol: Literal["Classic", "Consumer"] = "Classic"
    library: Literal["java", "librdkafka", "sarama"] = "java"
    restart_seconds: tuple[Seconds, Seconds] = (3.0, 8.0)
    stop_seconds: Seconds = 1.0
    session_timeout_seconds: Annotated[float, Field(ge=6, le=1800)] = 60.0
    dynamic_session_timeout_seconds: Annotated[float, Field(ge=6, le=1800)] = 45.0
    heartbeat_seconds: Annotated[float, Field(ge=0.5, le=600)] = 3.0
    pod_management_policy: Literal["OrderedReady", "Parallel"] = "OrderedReady"
    happenings: Annotated[tuple[Happening, ...], Field(max_length=200)] = ()

    @model_validator(mode="after")
    def _is_consistent(self) -> Scenario:
        if self.restart_seconds[0] > self.restart_seconds[1]:
            raise ValueError("restart_seconds: the first number must not be above the second")
        if self.heartbeat_seconds >= min(self.session_timeout_seconds, self.dynamic_session_timeout_seconds):
            raise ValueError("heartbeat_seconds: must be below both session timeouts")
        for n, happening in enumerate(self.happenings):
            if happening.pod is not None and happening.pod >= self.pods:
                raise ValueError(f"happenings[{n}].pod: there are only the ordinals 0 to {self.pods - 1}")
        return self

    @property
    def length_s(self) -> float:
        """Return how long to watch: the last happening, then time for sessions to run out."""
        last_s = max((h.at_seconds for h in self.happenings), default=0.0)
        longest_s = max(self.session_timeout_seconds, self.dynamic_session_timeout_seconds)
        return last_s + longest_s + LENGTH_AFTER_LAST_S


def load(path: Path) -> Scenario:
    """Read a scenario file.

    Raises
    ------
    ScenarioError: it cannot be read, is no YAML mapping, or a field is unknown or out of bounds.
    """
    return made(content_of(path), str(path))


def content_of(path: Path) -> dict[str, Any]:
    """Read the mapping that a scenario file holds.

    Raises
    ------
    ScenarioError: it cannot be read, or is no YAML mapping.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path} is not YAML: {error}") from error
    if not isinstance(content, dict):
        raise ScenarioError(f"{path}: expected a mapping such as `pods: 5`, got {type(content).__name__}")
    return content


def made(content: Mapping[str, Any], source: str) -> Scenario:
    """Return the scenario of some numbers; its happenings follow from them where none are given.

    Parameters
    ----------
    source: where they come from, for errors.

    Raises
    ------
    ScenarioError: a field is unknown or out of bounds.
    """
    try:
        scenario = Scenario.model_validate(content)
        if "happenings" not in content:
            scenario = Scenario.model_validate({**content, "happenings": happenings_of(scenario)})
    except ValidationError as error:
        raise ScenarioError(f"{source}: " + "; ".join(map(_worded, error.errors()))) from error
    return scenario


def _worded(error: ErrorDetails) -> str:
    """Name the field and what is wrong with it, for one who does not know the library that found it."""
    message = error["msg"].removeprefix("Value error, ").replace("Input should", "should")
    if error["type"] != "extra_forbidden":
        return ": ".join(filter(None, (".".join(map(str, error["loc"])), message)))
    field = str(error["loc"][-1])
    known = Scenario.model_fields if len(error["loc"]) == 1 else Happening.model_fields
    nearest = get_close_matches(field, known, n=1)
    return f"unknown field {'.'.join(map(str, error['loc']))}" + (f"; did you mean {nearest[0]}?" if nearest else "")


def happenings_of(scenario: Scenario) -> tuple[Happening, ...]:
    """Return the happenings of the story for a workload of any size: each has time to end before the next begins."""
    pods = scenario.pods
    roll_s = pods * (scenario.restart_seconds[1] + scenario.stop_seconds + BETWEEN_PODS_S)
    scale_s = 30 + max(150, roll_s)
    crash_s = scale_s + max(120, scenario.session_timeout_seconds + 30)
    lost_s = crash_s + max(120, scenario.session_timeout_seconds + 30, scenario.dynamic_session_timeout_seconds + 30)
    found = [Happening(at_seconds=30, what="roll")]
    if pods > 1:
        found.append(Happening(at_seconds=scale_s, what="scale", replicas=pods - 1))
    found.append(Happening(at_seconds=crash_s, what="crash", pod=min(1, pods - 1)))
    if pods > 2:
        found.append(Happening(at_seconds=lost_s, what="lose_node", pod=pods - 2))
        found.append(Happening(at_seconds=lost_s, what="scale", replicas=pods - 2))
    return tuple(found)
