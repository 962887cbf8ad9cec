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
from ..doctor import KINDS
from ..findings import Finding


def carry_out(options: argparse.Namespace) -> int:
    """Run one command; returns the exit status.

    Raises
    ------
    Refused: A setting is malformed, there is no cluster, or what the command reads cannot be read.
    """
    commands = {"run": _run, "webhook": _webhook, "plan": _plan}
    with _settings_named():
        return commands[options.command](options)


def definitions() -> str:
    """Return the CustomResourceDefinitions as YAML."""
    return crd.to_yaml(crd.static_group_crd(), crd.kafka_connection_crd(), crd.cluster_kafka_connection_crd())


def status_schemas() -> dict[str, Any]:
    """Return the schema of each kind's status."""
    return {kind: crd.status_schema(kind) for kind in KINDS}


def doctor(api: ApiServer, namespace: str, show: Callable[[Finding], None]) -> None:
    """Show what `doctor` finds in the operator's pod, in a namespace, or for "" in all that are served; raises Refused."""
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


def _run(_: argparse.Namespace) -> int:
    from ...runtime.process.run import run

    return asyncio.run(run(_settings()))


def _webhook(_: argparse.Namespace) -> int:
    from ...runtime.webhook.process import WebhookSettings, run

    return asyncio.run(run(WebhookSettings.from_environment(os.environ)))


def _plan(options: argparse.Namespace) -> int:
    from .planning import plan_file, plan_now

    if options.filename is not None:
        return plan_file(options.filename)
    settings = _settings()
    namespace = options.namespace or api_server().default_namespace()
    return asyncio.run(plan_now(settings, namespace, options.name, options.snapshot))
