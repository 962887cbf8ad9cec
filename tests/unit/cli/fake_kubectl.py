"""A kubectl that answers from a table, as the real one does: exit status, output, and refusals on the error output."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]
REFUSED = 'Error from server (Forbidden): {} is forbidden: User "ann" cannot do that'


class FakeKubectl:
    """Answer `get --raw`, and access reviews; write JSON, which is YAML, where YAML is asked for.

    Parameters
    ----------
    objects: by path without its query. Strings are what kubectl prints when it fails.
    may: what access reviews say, by (verb, resource); the rest is allowed.
    """

    def __init__(self, objects: dict[str, Json | str], *, may: dict[tuple[str, str], bool] | None = None) -> None:
        self.objects, self.may = objects, may or {}
        self.commands: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str], stdin: str) -> tuple[int, str, str]:
        self.commands.append(command)
        rest = [word for word in command[1:] if not word.startswith("--context")]
        if rest[:2] == ["config", "view"]:
            return 0, "shop", ""
        if rest[0] == "patch":
            return 0, f"{stdin}\n", ""
        path = rest[2].partition("?")[0]
        if rest[0] == "create":
            return self._review(json.loads(stdin))
        found = self.objects.get(path, "Error from server (NotFound): the server could not find the requested resource")
        return (1, "", found) if isinstance(found, str) else (0, json.dumps(found), "")

    def _review(self, body: Json) -> tuple[int, str, str]:
        asked = body["spec"]["resourceAttributes"]
        status = {"allowed": self.may.get((asked["verb"], asked["resource"]), True)}
        return 0, json.dumps(body | {"status": status}), ""
