"""Every mutant can be applied: its file and its tests are there, and what it breaks is in the source exactly once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mutants.catalog import MUTANTS, Mutant

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_changes_the_source_as_it_is(mutant: Mutant, tmp_path: Path) -> None:
    source, copy = (folder / "staticgroup" / mutant.path for folder in (REPOSITORY / "operator", tmp_path))
    copy.parent.mkdir(parents=True)
    shutil.copyfile(source, copy)
    mutant.apply(tmp_path)
    compile(copy.read_text(encoding="utf-8"), mutant.path, "exec")
    assert copy.read_bytes() != source.read_bytes()


def test_mutants_differ_in_name_and_their_tests_exist() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    named = {test.partition("::")[0] for mutant in MUTANTS for test in mutant.tests}
    assert [name for name in sorted(named) if not (REPOSITORY / name).exists()] == []
