"""Hold the dashboard against Grafana's own schema, as its published types say it (grafana-foundation-sdk, generated
from it).

There is no Grafana here. What the types do not know is lost when they read the file and write it again, so nothing may
be lost; and each value must be of the type that the schema gives it. Panels' options and the targets' queries have
types of their own.
"""

import enum
import json
import types
import typing
from collections.abc import Iterator
from typing import Any

from test_chart_variants import CHART

FILE = CHART / "files" / "dashboard.json"


def read(text: str) -> Any:
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    return Dashboard.from_json(json.loads(text))


def written(dashboard: Any) -> dict[str, Any]:
    from grafana_foundation_sdk.cog.encoder import JSONEncoder

    content: dict[str, Any] = json.loads(json.dumps(dashboard, cls=JSONEncoder))
    return content


def lost(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Name what the one has and the other has not; what is written besides are defaults."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key not in after and value is not None:
                yield f"{path}.{key}"
            else:
                yield from lost(value, after.get(key), f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from lost(one, other, f"{path}[{number}]")
    elif before != after:
        yield path


def fits(value: Any, hint: Any) -> bool:
    """True when a value is of the type that its class declares."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, each) for each in arguments)
    if origin is typing.Literal:
        return value in arguments
    if origin is list:
        return isinstance(value, list) and all(fits(each, arguments[0]) for each in value)
    if origin is dict:
        return isinstance(value, dict) and all(fits(each, arguments[1]) for each in value.values())
    return fits_class(value, hint) if isinstance(hint, type) and hint is not object else True


def fits_class(value: Any, hint: type) -> bool:
    """True when a value is of a class, or what it is written as."""
    if issubclass(hint, enum.Enum):
        return value in {each.value for each in hint}
    if isinstance(value, dict) and hasattr(hint, "from_json"):  # left as it is by the class around it
        decoded = hint.from_json(value)
        return not any(lost(value, written(decoded))) and not any(misfits(decoded))
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    return isinstance(value, hint)


def misfits(value: Any, path: str = "") -> Iterator[str]:
    """Name every field, however deep, whose value is not of its type."""
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from misfits(each, f"{path}[{number}]")
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from misfits(each, f"{path}.{key}")
    elif hasattr(value, "to_json"):
        for name, hint in typing.get_type_hints(type(value)).items():
            field = getattr(value, name)
            if not fits(field, hint):
                yield f"{path}.{name}: {field!r}"
            yield from misfits(field, f"{path}.{name}")


def test_grafanas_types_know_every_field_and_every_value_is_of_its_type() -> None:
    text = FILE.read_text(encoding="utf-8")
    dashboard = read(text)
    assert len(dashboard.panels) > 15
    assert list(lost(json.loads(text), written(dashboard))) == []
    assert list(misfits(dashboard)) == []


def test_what_the_schema_does_not_allow_is_found() -> None:
    content = json.loads(FILE.read_text(encoding="utf-8"))
    content["panels"][1]["fieldConfig"]["defaults"]["unity"] = "s"
    content["panels"][1]["options"]["textmode"] = "value"
    content["panels"][1]["targets"][0]["expression"] = "up"
    content["refresh"] = 30
    content["panels"][1]["gridPos"]["w"] = "wide"
    content["panels"][1]["options"]["graphMode"] = "curve"
    dashboard = read(json.dumps(content))
    assert sorted(lost(content, written(dashboard))) == [
        ".panels[1].fieldConfig.defaults.unity", ".panels[1].options.textmode", ".panels[1].targets[0].expression",
    ]  # fmt: skip
    assert sorted(misfits(dashboard)) == [
        ".panels[1].grid_pos.w: 'wide'", ".panels[1].options.graph_mode: 'curve'", ".refresh: 30",
    ]  # fmt: skip


def test_panels_lie_beside_each_other_and_have_ids_of_their_own() -> None:
    panels = json.loads(FILE.read_text(encoding="utf-8"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) == 23
