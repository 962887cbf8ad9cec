"""The contributor pages: every folder has its line, and every recipe names only what exists."""

import re

import pytest

from unit.test_docs import OPERATOR, REPOSITORY, read, section


def test_the_design_names_every_folder_and_only_paths_that_exist() -> None:
    """A file's first sentence says its idea, so the page has no table of files; it stays short enough to be read as a
    whole."""
    page = read("design.md")
    assert len(page.splitlines()) <= 250
    section_of_folders = section(page, "## The folders")
    folders = {str(path.parent.relative_to(OPERATOR)) for path in OPERATOR.glob("*/**/*.py")}
    packages = {
        path.name for path in OPERATOR.parent.iterdir() if path.is_dir() and not path.name.startswith(("_", "."))
    } - {OPERATOR.name}
    assert [name for name in sorted(folders | packages) if f"`{name}`" not in section_of_folders] == []
    for path in re.findall(r"`((?:api|cli|core|kafka|kube|runtime|tests|deploy)/[\w/]+(?:\.py)?)`", page):
        assert (OPERATOR / path).exists() or (REPOSITORY / path).exists(), path


# Contributing

RECIPES = (
    "A protocol", "A type of client", "A guard", "A kind of workload", "A certificate", "A role", "A fault",
    "A conformance row", "A Spark table",
)  # fmt: skip


def named_paths(text: str) -> set[str]:
    """Return the files, and tests in them, that a text names from the repository's root, in commands too."""
    return set(re.findall(r"(?<![\w/.-])((?:operator|tests|docs|charts|crds|deploy)/[\w./-]*\w(?:::\w+)?)", text))


def is_there(named: str) -> bool:
    """Whether a path exists, and the test or function in it."""
    path, _, test = named.partition("::")
    file = REPOSITORY / path
    return file.exists() and (not test or f"def {test}(" in file.read_text(encoding="utf-8"))


def test_a_recipe_names_only_what_exists() -> None:
    text = read("CONTRIBUTING.md")
    found = named_paths(re.sub(r"\]\([^)]*\)", "", text))
    assert len(found) > 60
    assert [name for name in sorted(found) if not is_there(name)] == []
    assert not is_there("tests/unit/core/test_plan.py::test_gone")
    catalog = "".join(
        f.read_text(encoding="utf-8") for f in (REPOSITORY / "tests" / "mutants" / "catalog").glob("*.py")
    )
    mutants = set(re.findall(r'run\.py "([^"]+)"', text)) - {"NAME"}
    assert mutants
    assert [name for name in mutants if f'"{name}"' not in catalog] == []


def test_names_of_a_recipe_are_in_the_files_beside_them() -> None:
    """A row such as | file | a member of `Guard` |: a renamed member makes this test fail."""
    lost = []
    for recipe in RECIPES:
        for files, what in re.findall(
            r"^\| ([^|]+) \| ([^|]+) \|$", section(read("CONTRIBUTING.md"), f"### {recipe}"), re.MULTILINE
        ):
            cells = [files, what] if "`" in files else [what, what]
            sources = [REPOSITORY / path for path in named_paths(cells[0])]
            words = [w for w in re.findall(r"`([A-Za-z_]+)`", cells[1]) if w not in ("RemovalHeld", "Held", "select")]
            text = "".join(source.read_text(encoding="utf-8") for source in sources if source.suffix == ".py")
            lost += [f"{recipe}: {word}" for word in words if sources and text and not re.search(rf"\b{word}\b", text)]
    assert lost == []


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_says_which_files_which_test_and_how_to_run_it(recipe: str) -> None:
    text = section(read("CONTRIBUTING.md"), f"### {recipe}")
    tables = re.findall(r"^\| (?!file|question|---)", text, re.MULTILINE)
    assert len(tables) >= 2
    assert re.search(r"tests/\S+\.py", text.partition("```sh")[0])
    commands = re.findall(r"^\.venv/bin/pytest -q (tests/\S+)", text, re.MULTILINE)
    assert commands
    assert [path for path in commands if not (REPOSITORY / path).exists()] == []


def test_contributing_holds_nothing_but_these_recipes() -> None:
    assert re.findall(r"^### (.+)$", section(read("CONTRIBUTING.md"), "## How to add"), re.MULTILINE) == list(RECIPES)


# Files that the ecosystem expects
