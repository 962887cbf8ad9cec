"""Whose an id was first, where not the template but what the client appends was edited."""

from __future__ import annotations

from typing import Any

from .test_same_ids import EARLIER, LATER, group, yields

NAMES: dict[str, Any] = {"template": "{podName}", "exclusive": True}


def test_edit_of_the_suffix_silences_nobody_who_issued_the_ids_before() -> None:
    """StatefulSets app and app-1, ids are pod names. app turns to Spring with two threads: its client makes app-1-0 of app-1,
    which is the id of the living pod app-1-0.
    """
    shard = group("app-1", LATER, template="{podName}", identity=NAMES)
    plain = group("app", EARLIER, template="{podName}", identity=NAMES)
    assert yields(plain, shard) == set()
    edited = group("app", EARLIER, template="{podName}", identity=NAMES | {"suffix": "Spring", "membersPerPod": 2})
    edited["metadata"]["generation"] = 2
    assert yields(edited, shard) == {"app"}
