"""The source stays readable: no circle of imports, and no folder with too many files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
OPERATOR = REPOSITORY / "operator"
PACKAGES = tuple(sorted(p.parent.name for p in OPERATOR.glob("*/__init__.py")))
MODULES_MAX = 18
"""About fifteen; the fleet learner's folder is larger and waits for its own folders."""


def module_of(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield every statement, wherever it stands, also what only a type checker reads."""
    for node in body:
        yield node
        for name in ("body", "orelse", "finalbody", "handlers"):
            for inner in getattr(node, name, []):
                yield from statements(inner.body if isinstance(inner, ast.ExceptHandler) else [inner])


def imports(root: Path) -> Mapping[str, set[str]]:
    """Return for each module the modules below `root` that it imports, in functions too."""
    paths = {module_of(path, root): path for path in root.rglob("*.py")}
    found: dict[str, set[str]] = {}
    for module, path in paths.items():
        package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
        named: set[str] = set()
        for node in statements(ast.parse(path.read_text(encoding="utf-8")).body):
            if isinstance(node, ast.Import):
                named |= {a.name for a in node.names}
            elif isinstance(node, ast.ImportFrom):
                above = package[: len(package) - node.level + 1] if node.level else []
                base = ".".join([*above, *([node.module] if node.module else [])])
                named |= {f"{base}.{a.name}" if f"{base}.{a.name}" in paths else base for a in node.names}
        found[module] = {name for name in named & paths.keys() if name != module}
    return found


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return one circle of imports, or nothing."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_by_a_way_around() -> None:
    graph = imports(OPERATOR)
    assert len(graph) > 400
    assert graph["staticgroup.core.plan"] >= {"staticgroup.core.seats", "staticgroup.core.evidence.chain"}
    assert circle(graph) == []


def test_a_circle_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "a.py").write_text("from .b import B\n")
    (folder / "b.py").write_text("def late() -> None:\n    from . import a\n")
    assert set(circle(imports(tmp_path))) == {"one.a", "one.b"}
    (folder / "b.py").write_text("if TYPE_CHECKING:\n    from . import a\n")
    assert set(circle(imports(tmp_path))) == {"one.a", "one.b"}


def test_a_name_of_a_class_is_one_idea() -> None:
    names = [
        node.name
        for path in (OPERATOR / "staticgroup").rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert {name for name in names if names.count(name) > 1} == set()


@pytest.mark.parametrize("package", [p for p in PACKAGES if p != "fleet_learner"])
def test_no_folder_is_crowded(package: str) -> None:
    folders = {path.parent for path in (OPERATOR / package).rglob("*.py")}
    sizes = {str(f.relative_to(OPERATOR)): sum(not p.name.startswith("__") for p in f.glob("*.py")) for f in folders}
    assert {folder: size for folder, size in sizes.items() if size > MODULES_MAX} == {}


@pytest.mark.parametrize("package", [p for p in PACKAGES if p != "fleet_learner"])
def test_a_prefix_that_three_files_share_is_a_folder(package: str) -> None:
    for folder in {path.parent for path in (OPERATOR / package).rglob("*.py")}:
        first = [p.stem.split("_")[0] for p in folder.glob("*.py") if not p.name.startswith("__")]
        assert {word for word in first if first.count(word) > 2} == set(), folder


def test_every_folder_of_tests_is_in_a_target_and_make_full_has_all_of_make_test() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    folders = {path.relative_to(REPOSITORY).parts[1] for path in (REPOSITORY / "tests").rglob("test_*.py")}
    assert [folder for folder in folders if f"tests/{folder}" not in makefile] == []
    both = re.search(r'tests/beside.sh "make (\w+)" "make ([\w -]+)"', makefile)
    full = re.search(r"LONG_DRILLS=1 .*\$\(MAKE\) (.+)", makefile)
    assert both is not None
    assert full is not None
    assert {"check", *both[1].split(), *both[2].split()} - {"unit"} <= set(full[1].split())
