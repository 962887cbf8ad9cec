"""The model API server of the tests of it, and its clock."""

from __future__ import annotations

import pytest

from simulator.kubernetes.api_server import ApiServer
from simulator.kubernetes.objects import (
    NAMESPACES,
)

from .served import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server(clock: Clock) -> ApiServer:
    server = ApiServer(now_s=clock)
    for namespace in ("shop", "other"):
        server.create(NAMESPACES, {"metadata": {"name": namespace}})
    return server
