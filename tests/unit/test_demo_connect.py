"""Ticks of Connect's tasks are translated to the lines that consumers write: nothing is added, nothing is lost."""

from __future__ import annotations

from pathlib import Path

from support.demo import measure
from support.demo.connect import Teller, TickVoices


def ticks(task: int, *at_ms: int) -> list[str]:
    return [f"{at} TICK clock/{task}" for at in at_ms]


def rows(*more: str) -> list[str]:
    return sorted(more, key=lambda row: int(row.split(" ")[0]))


def test_ticks_are_records_and_starts_and_stops_are_what_is_held() -> None:
    lines = Teller().lines(
        ["1000 START clock", "1010 START clock/3", *ticks(3, 1020, 1220, 1420), "1500 STOP clock/3", "1510 STOP clock"]
    )
    assert lines == [
        {"kind": "assigned", "at_ms": 1010, "partitions": [3]},
        {"kind": "consumed", "at_ms": 1420, "partitions": {"3": {"offsets": [(0, 2)], "received": [(1020, 1420)]}}},
        {"kind": "revoked", "at_ms": 1500, "partitions": [3]},
    ]


def test_standstill_of_a_task_is_what_lies_between_its_ticks_in_two_workers() -> None:
    steady = range(0, 20_001, 200)
    here = Teller().lines(rows(*ticks(0, *steady), *ticks(1, *range(0, 5001, 200))))
    there = Teller().lines(ticks(1, *range(9000, 20_001, 200)))
    times = measure.received([*here, *there])
    (stop,) = measure.standstills(times, [0, 1], since_ms=0, until_ms=20_000)
    assert (stop.partition, stop.from_ms, stop.until_ms) == (1, 5000, 9000)
    assert measure.moves({0: measure.received(here), 1: measure.received(there)}, since_ms=0, until_ms=20_000) == 1


def test_a_second_reading_continues_the_offsets_of_the_first() -> None:
    teller = Teller()
    first, second = teller.lines(ticks(0, 0, 200)), teller.lines(ticks(0, 400, 600))
    assert measure.received([*first, *second]) == {0: [(0, 600)]}
    assert second[0]["partitions"]["0"]["offsets"] == [(2, 3)]


def test_file_is_read_on_and_a_row_that_is_still_written_is_left_for_later(tmp_path: Path) -> None:
    file, voices = tmp_path / "stock-1_0f3a-77_1000.ticks", TickVoices(tmp_path)
    assert voices.voices() == []
    file.write_text("10 START clock/0\n20 TICK clo")
    (voice,) = voices.voices()
    assert (voice.pod_name, voice.uid) == ("stock-1", "0f3a-77")
    assert [line["kind"] for line in voice.lines] == ["assigned"]
    with file.open("a") as more:
        more.write("ck/0\n220 TICK clock/0\n")
    (voice,) = voices.voices()
    assert [line["kind"] for line in voice.lines] == ["assigned", "consumed"]
    assert measure.received(voice.lines) == {0: [(20, 220)]}


def test_processes_of_one_pod_are_one_voice_and_those_of_its_successor_another(tmp_path: Path) -> None:
    for name, at_ms in (("stock-1_a_1", 100), ("stock-1_a_2", 200), ("stock-1_b_3", 300)):
        (tmp_path / f"{name}.ticks").write_text(f"{at_ms} TICK clock/0\n")
    found = {voice.uid: [line["at_ms"] for line in voice.lines] for voice in TickVoices(tmp_path).voices()}
    assert found == {"a": [100, 200], "b": [300]}
