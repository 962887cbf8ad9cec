"""The package `journal` is not imported with default settings."""

from __future__ import annotations

import subprocess
import sys

import pytest

MAKE_AN_OPERATOR = """
import sys

import staticgroup.cli
from staticgroup.kube.transport import connect
from staticgroup.runtime.operator import Operator
from staticgroup.runtime.process.settings import Settings
from kubernetes.aio.client import Configuration
import asyncio

async def main():
    transport = connect(Configuration(host="http://127.0.0.1:1"))
    Operator(Settings({settings}), transport)
    await transport.close()

asyncio.run(main())
print(*(name for name in sys.modules if name.partition(".")[0] == "journal"))
"""


@pytest.mark.parametrize(
    ("settings", "is_imported"),
    [("", False), ("journal_files_path='/var/journal'", True), ("recommendations_source='/recommendations'", True)],
)
def test_package_is_imported_only_when_a_setting_asks_for_it(settings: str, is_imported: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MAKE_AN_OPERATOR.format(settings=settings)],
        check=False, capture_output=True, text=True, env={"PYTHONPATH": "operator"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = done.stdout.split()
    assert bool(found) is is_imported, found
