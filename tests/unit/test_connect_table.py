"""The table of restarts shows medians of times and the worst of counts, by name."""

from __future__ import annotations

from support.connect.table import rows


def restart(name: str, down_s: float, generations: int = 0, moved: int = 0) -> dict[str, object]:
    return {
        "name": name, "restart_s": down_s - 0.1, "own_tasks_down_s": down_s, "generations": generations,
        "others_stopped": 0, "moved": moved,
    }


def test_a_row_holds_all_runs_of_a_name_and_the_worst_of_them() -> None:
    printed = [
        restart("leader", 4.0, generations=1),
        restart("follower", 9.0),
        restart("leader", 6.0, generations=3, moved=2),
        restart("leader", 5.0, generations=1),
        {"name": "something else", "seconds": 1},
    ]
    assert rows(printed) == [
        "| leader | 3 | 3 | 4.9 s | 5.0 s (6.0 s) | 0 | 2 |",
        "| follower | 1 | 0 | 8.9 s | 9.0 s (9.0 s) | 0 | 0 |",
    ]
