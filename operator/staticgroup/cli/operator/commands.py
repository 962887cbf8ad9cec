"""What the commands that need the operator's libraries do."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...api import crd
from ...runtime.process.settings import Settings, SettingsError
from ..api_server import ApiServer, Refused, api_server
from ..doctor import KINDS, CheckResult


def carry_out(options: argparse.Namespace) -> int:
    """Run one command; returns the exit status.

    Raises
    ------
    Refused: A setting is malformed, there is no cluster, or what the command reads cannot be read.
    """
    with _settings_named():
        if options.command == "plan":
            return _plan(options)
        if options.command == "webhook":
            from ...runtime.webhook import process

            return asyncio.run(process.run(process.WebhookSettings.from_environment(os.environ)))
        from ...runtime.process.run import run

        return asyncio.run(run(_settings()))


def definitions() -> str:
    """Return the CustomResourceDefinitions as YAML."""
    return crd.to_yaml(*(crd.definition(kind) for kind in KINDS))


def status_schemas() -> dict[str, Any]:
    """Return the schema of each kind's status."""
    return {kind: crd.status_schema(kind) for kind in KINDS}


def doctor(api: ApiServer, namespace: str, show: Callable[[CheckResult], None]) -> None:
    """Show what `doctor` finds in the operator's pod, in a namespace, or for "" in all served; raises Refused."""
    from .brokers import examine

    with _settings_named():
        asyncio.run(examine(api, _settings(), namespace, status_schemas(), show))


@contextmanager
def _settings_named() -> Iterator[None]:
    """Refuse a malformed setting as wrong usage."""
    try:
        yield
    except SettingsError as error:
        raise Refused(str(error), status=2) from error


def _settings() -> Settings:
    from ...runtime.process.run import default_identity

    return Settings.from_environment({"STATICGROUP_IDENTITY": default_identity(), **os.environ})


def _plan(options: argparse.Namespace) -> int:
    from .planning import plan_now, print_plan
    from .snapshot_file import read_snapshot_file

    if options.filename is not None:
        print_plan(read_snapshot_file(options.filename))
    else:
        settings = _settings()
        namespace = options.namespace or api_server().default_namespace()
        asyncio.run(plan_now(settings, namespace, options.name, options.snapshot))
    return 0
