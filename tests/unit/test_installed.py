"""What people get who install the package into a Python of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_simulate_runs_from_a_clean_python(tmp_path: Path) -> None:
    """`pipx run --spec . staticgroup simulate` does the same: a new environment, and nothing else that is installed."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    programs = tmp_path / "venv" / "bin"
    subprocess.run([programs / "pip", "install", "--quiet", REPOSITORY], check=True, cwd=tmp_path)
    picture = tmp_path / "mine.svg"
    done = subprocess.run(
        [programs / "staticgroup", "simulate", "--pods", "4", "--picture", picture],
        check=True, capture_output=True, text=True, cwd=tmp_path, env={"PATH": str(programs)},
    )  # fmt: skip
    assert "orders: 4 pods" in done.stdout
    assert picture.read_text(encoding="utf-8").startswith("<svg")
    plugin = subprocess.run(
        [programs / "kubectl-staticgroup", "--help"], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    assert plugin.stdout.startswith("usage: kubectl staticgroup")
