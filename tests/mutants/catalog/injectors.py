"""Which pods an injector may touch: nobody gets an id that was not meant for it."""

from __future__ import annotations

from .mutant import mutant

_RENDERING = ("tests/unit/api/test_rendering.py",)

INJECTORS = tuple(
    mutant(name, "api/rendering.py", _RENDERING, change)
    for name, change in (
        ("pod of another owner given an id", ("    return is_owned and is_managed and", "    return is_managed and")),
        ("pod of a StatefulSet that only owns it beside others given an id", ('        and o.get("controller")\n', "")),
        ("id injected in mode Observe", ('spec.get("mode", "Manage") == "Manage" and not', "not")),
        ("id injected while suspended", (' == "Manage" and not spec.get("suspend")\n', ' == "Manage"\n')),
        (
            "id injected by the name of another injector",
            (' and injected.get("method") == method.value\n', ' and bool(injected.get("method"))\n'),
        ),
        (
            "pod without an ordinal given an id",
            ('    if names.POD_INDEX_LABEL not in (metadata.get("labels") or {}):\n', "    if False:\n"),
        ),
        (
            "pod whose name is still to be generated given an id",
            ('    if not metadata.get("name"):  # still to be generated: two such pods would get one id\n', "    if False:\n"),
        ),
    )
)
