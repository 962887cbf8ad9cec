"""The roles by the name that `--role` takes."""

from __future__ import annotations

from support.demo.connect import ConnectWorkers
from support.demo.consumers import Consumers
from support.demo.role import Role
from support.demo.streams import StreamsPods

ROLES: dict[str, type[Role]] = {each.wording.role: each for each in (Consumers, ConnectWorkers, StreamsPods)}
