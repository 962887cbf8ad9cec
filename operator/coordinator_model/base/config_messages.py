"""Requests and answers about the configuration of groups."""

from __future__ import annotations

from dataclasses import dataclass, field

from .messages import Request, Response


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterGroupConfigRequest(Request):
    """IncrementalAlterConfigs (api 44) of one GROUP resource.

    Parameters
    ----------
    configs: name to value; None deletes the override.
    validate_only: check whether the change is valid, and change nothing.
    """

    api_version: int = 1
    group_id: str
    configs: tuple[tuple[str, str | None], ...] = field(default=())
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterGroupConfigResponse(Response):
    """Answer to AlterGroupConfigRequest."""
