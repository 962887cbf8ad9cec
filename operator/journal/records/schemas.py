"""Generate the journal's published schemas from its models; a test fails when they are stale.

The one idea: additional properties are allowed everywhere, because readers keep what they do not know. Source: JSON
Schema 2020-12.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from .facts import DATA_TYPES, RECORD_BY_TYPE, Data, Record, schema_id, type_of


def json_schema(data_type: type[Data]) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the records of one type; additional properties are allowed everywhere."""
    model: type[BaseModel] = RECORD_BY_TYPE[type_of(data_type)]
    schema = model.model_json_schema(mode="validation")
    data = schema.pop("$defs")[data_type.__name__]
    for part in (schema, data):
        part["additionalProperties"] = True
        for field in part["properties"].values():
            field.pop("title", None)
    properties = schema["properties"] | {
        "type": schema["properties"]["type"] | {"const": type_of(data_type)},
        "dataschema": schema["properties"]["dataschema"] | {"const": schema_id(data_type)},
        "data": data,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": schema_id(data_type),
        "title": type_of(data_type),
        "description": data["description"],
        "type": "object",
        "required": schema["required"],
        "properties": {name: properties[name] for name in Record.model_fields},
        "additionalProperties": True,
    }


def generated(directory: Path) -> dict[Path, str]:
    """Return every schema file and its text."""
    return {
        directory / f"{d.noun}.schema.json": json.dumps(json_schema(d), indent=2, ensure_ascii=False) + "\n"
        for d in DATA_TYPES
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the schemas to a directory, or check that they are there and fresh.

    Returns
    -------
    0, or 1 when `--check` found a stale file.
    """
    parser = argparse.ArgumentParser(prog="python -m journal", description="Generate JSON Schemas.")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", type=Path, metavar="DIR", help="write one schema for each type to DIR")
    action.add_argument("--check", type=Path, metavar="DIR", help="fail when a schema is stale")
    options = parser.parse_args(arguments)
    files = generated(options.write or options.check)
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [path for path, text in files.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        sys.stderr.write(f"{path} is stale: run python -m journal --write {options.check}\n")
    return 1 if stale else 0
