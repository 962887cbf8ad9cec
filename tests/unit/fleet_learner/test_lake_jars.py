"""The jars: found in all places, never other than the tested ones, and never silently missing."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest

from fleet_learner.errors import JobError
from fleet_learner.lake import jars
from fleet_learner.lake.jars import JARS, VARIABLE, cache_folder, jar_paths, put

pytest.importorskip("pyspark")
REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home for caches and a Spark without the jars."""
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path


def false_jars(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for jar in JARS:
        (folder / jar.name).write_bytes(b"PK")
    return folder


def test_what_spark_has_already_is_not_given_to_it(elsewhere: Path) -> None:
    false_jars(elsewhere / "spark" / "jars")
    assert jar_paths() == []


@pytest.mark.parametrize("where", ["named", "cached"])
def test_a_jar_that_is_another_one_is_refused(elsewhere: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = false_jars(elsewhere / "mine" if where == "named" else cache_folder())
    if where == "named":
        monkeypatch.setenv(VARIABLE, str(folder))
    with pytest.raises(JobError, match=rf"{folder / JARS[0].name} is not the jar of {JARS[0].artifact}"):
        jar_paths()


def test_a_folder_that_lacks_one_is_named(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (false_jars(elsewhere / "mine") / JARS[1].name).unlink()
    monkeypatch.setenv(VARIABLE, str(elsewhere / "mine"))
    with pytest.raises(JobError, match=f"{VARIABLE}: {elsewhere / 'mine'} lacks .*{JARS[1].name}"):
        jar_paths()


def test_real_jars_are_put_into_an_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not all((cache_folder() / jar.name).is_file() for jar in JARS):
        pytest.skip("no session was started on this machine yet")
    brought = shutil.copytree(cache_folder(), tmp_path / "brought")
    monkeypatch.setenv(VARIABLE, str(brought))
    assert jar_paths() == [brought / jar.name for jar in JARS]
    put(tmp_path / "image")
    assert sorted(path.name for path in (tmp_path / "image").iterdir()) == sorted(jar.name for jar in JARS)


def test_the_jars_are_those_of_the_python_package() -> None:
    """Delta's Python and Java sides speak to each other by reflection: one version for both."""
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pinned = {each.partition("==")[0].partition("[")[0]: each.partition("==")[2] for each in extras["pipeline"]}
    assert pinned["delta-spark"] == jars.DELTA
    assert JARS[0].artifact == f"delta-spark_{pinned['pyspark'].rpartition('.')[0]}_2.13"
