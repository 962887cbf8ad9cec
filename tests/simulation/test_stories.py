"""Each main story is as its golden trace.

A golden trace is documentation: read its difference before you accept it with
`pytest tests/simulation/test_stories.py --update-golden`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from simulation.stories import STORIES, Played, Story, play

GOLDEN = Path(__file__).parent / "golden"
ORDER: dict[str, tuple[str, ...]] = {
    "01-first-install": ("creates", "scope=", "container started", "joined "),
    "02-quiet-roll-classic": ("rolls", "pod deletion requested", "process ended", "pod created", "joined "),
    "03-quiet-roll-kip848": ("rolls", "pod deletion requested", "process ended", "pod created", "joined "),
    "04-scale-down": ("scales", "PodStillRunning", "phase=Succeeded", "sends LeaveGroup", "result=NONE"),
    "05-flap": ("replicas=2", "replicas=3", "process ended", "pod created", "joined "),
    "06-crash-in-place": ("exit_code=137", "run=2", "joined "),
    "07-force-delete": ("force-deletes pod", "Suspect", "kubelet thawed", "process ended", "joined "),
    "08-node-partition": ("scales", "PodStillRunning", "process ended", "phase=Succeeded", "sends LeaveGroup"),
    "09-fail-over": ("sends LeaveGroup", "coordinator changes", "coordinator loaded", "sends LeaveGroup"),
    "11-crash-release-kip848": ("exit_code=137", "sends a temporary leave", "result=NONE", "joined "),
    "12-crash-report-kip848": ("exit_code=137", "LockedOut", "UNRELEASED_INSTANCE_ID", "joined "),
    "10-watch-gap": ("operator killed", "pod object deleted", "operator starts", "Suspect", "joined "),
    "13-protocol-and-back": ("other protocol", "joined ", "epoch=", "other protocol", "joined ", "generation="),
    "14-dynamic-and-static-again": ("without ids", "joined ", "without ids", "joined "),
    "15-copied-id": ("second workload", "UNRELEASED_INSTANCE_ID", "IdCarriedTwice", "deletes workload"),
}
"""What must follow upon what; a golden trace that was accepted unread cannot lose it."""


@cache
def played(story: Story) -> Played:
    """Play a story once."""
    return play(story)


@pytest.mark.parametrize("story", STORIES, ids=lambda s: s.name)
def test_a_story_is_its_golden_trace(story: Story, request: pytest.FixtureRequest) -> None:
    """Every line is the same, to the millisecond."""
    file = GOLDEN / f"{story.name}.txt"
    if request.config.getoption("--update-golden", default=False):
        file.parent.mkdir(exist_ok=True)
        file.write_text(played(story).text, encoding="utf-8")
    assert played(story).text.splitlines() == file.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("story", STORIES, ids=lambda s: s.name)
def test_a_story_costs_what_it_claims(story: Story) -> None:
    """No oracle complains; so many members are removed, and so many rebalances happen, no more."""
    result = played(story)
    assert result.violations == ()
    assert result.removals == story.removals
    assert result.releases == story.releases
    assert result.rebalances == story.rebalances


@pytest.mark.parametrize("story", STORIES, ids=lambda s: s.name)
def test_a_story_shows_what_its_title_says(story: Story) -> None:
    """The events that the story is about happen, in this order."""
    rest = played(story).text
    for event in ORDER[story.name]:
        _, found, rest = rest.partition(event)
        assert found, f"no {event!r} where it belongs"


def test_every_golden_trace_belongs_to_a_story() -> None:
    """None is left behind after a story was renamed."""
    assert {file.stem for file in GOLDEN.glob("*.txt")} == {story.name for story in STORIES} == set(ORDER)
    assert len(STORIES) >= 10
