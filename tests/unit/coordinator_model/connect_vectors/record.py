"""Write the vectors that the agent's tests and its Python twin's both read: `python -m ... record.py --write`.

Messages are listed with their bytes; memberships are the calls of the twin in random histories of the model, for the
processes that show a rare decision.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.answers import answered
from coordinator_model.connect.protocol import (
    Assignment,
    AssignmentError,
    ConnectProtocolCompatibility,
    WorkerState,
    encode_metadata,
)
from coordinator_model.connect.static import (
    HELD_BACK_ROUNDS,
    Given,
    LastGeneration,
    Received,
    RoundMember,
    StaticMembership,
    Whole,
    encode_last_generation,
    encode_stored,
)
from coordinator_model.connect.static_cluster import StaticConnectCluster
from coordinator_model.connect.work import NOTHING, ConnectorsAndTasks, ConnectorTaskId

FILE = Path(__file__).parent / "static.json"
HISTORIES = 60
ENOUGH = 3
"""Processes that show the same."""

OF_CONNECT = {
    0: (
        "000000000005772d302d310010687474703a2f2f772d303a383038332f00000000000000070000000300016100000003"
        "ffffffff000000000000000300016200000001ffffffff0001630000000100000002"
    ),
    1: (
        "000100000005772d302d310010687474703a2f2f772d303a383038332f00000000000000070000000300016100000003"
        "ffffffff000000000000000300016200000001ffffffff00016300000001000000020000000100016400000002ffffff"
        "ff000000010000ea60"
    ),
    2: (
        "000200000005772d302d310010687474703a2f2f772d303a383038332f00000000000000070000000300016100000003"
        "ffffffff000000000000000300016200000001ffffffff00016300000001000000020000000100016400000002ffffff"
        "ff000000010000ea60"
    ),
}
"""Assignments by version, as ConnectProtocol and IncrementalCooperativeConnectProtocol 4.3.1 serialized them."""
STATES_OF_CONNECT = (
    (1, (
        "00010010687474703a2f2f772d313a383038332f000000000000000800000069000100000005772d302d310010687474"
        "703a2f2f772d303a383038332f00000000000000070000000300016100000003ffffffff000000000000000300016200"
        "000001ffffffff00016300000001000000020000000100016400000002ffffffff000000010000ea60"
    )),
    (1, (
        "00010010687474703a2f2f772d313a383038332f0000000000000008ffffffff"
    )),
    (2, (
        "00020010687474703a2f2f772d313a383038332f000000000000000800000069000200000005772d302d310010687474"
        "703a2f2f772d303a383038332f00000000000000070000000300016100000003ffffffff000000000000000300016200"
        "000001ffffffff00016300000001000000020000000100016400000002ffffffff000000010000ea60"
    )),
    (2, (
        "00020010687474703a2f2f772d313a383038332f0000000000000008ffffffff"
    )),
    (0, (
        "00000010687474703a2f2f772d313a383038332f0000000000000008"
    )),
)
"""States of workers as the same classes serialized them, with and without an allocation."""


def work(spec: Mapping[str, list[int]]) -> ConnectorsAndTasks:
    return ConnectorsAndTasks.of(
        (name for name in sorted(spec) if -1 in spec[name]),
        (ConnectorTaskId(name, task) for name in sorted(spec) for task in sorted(spec[name]) if task >= 0),
    )


def spell(work: ConnectorsAndTasks) -> dict[str, list[int]]:
    spec: dict[str, list[int]] = {name: [-1] for name in work.connectors}
    for task in work.tasks:
        spec.setdefault(task.connector, []).append(task.task)
    return {name: sorted(spec[name]) for name in sorted(spec)}


def spell_whole(whole: Whole | None) -> dict[str, Any] | None:
    if whole is None:
        return None
    return {"leaderInstanceId": whole.leader_instance_id, "url": whole.url, "given": spell_given(whole.given)}


def spell_given(given: Given | None) -> dict[str, Any] | None:
    return None if given is None else {name: spell(each) for name, each in sorted(given.items())}


def spell_last_generation(last: LastGeneration | None) -> dict[str, Any] | None:
    return None if last is None else {"generation": last.generation_id, "given": spell_given(last.given)}


def spell_assignment(assignment: Assignment, whole: Whole | None) -> dict[str, Any]:
    return {
        "hex": encode_stored(assignment, whole).hex(), "version": assignment.version, "error": int(assignment.error),
        "leader": assignment.leader, "leaderUrl": assignment.leader_url, "configOffset": assignment.config_offset,
        "assigned": spell(assignment.assigned), "revoked": spell(assignment.revoked), "delayMs": assignment.delay_ms,
        "whole": spell_whole(whole),
    }


def assignments() -> list[dict[str, Any]]:
    given = {"w-0": work({"a": [-1, 0, 3]}), "w-1": work({"a": [1], "büro": [-1, 0]}), "w-2": NOTHING}
    whole = Whole("w-0", "http://w-1:8083/", given)
    fields = {"error": AssignmentError.NO_ERROR, "leader": "w-0-1", "leader_url": "http://w-0:8083/"}
    mixed = work({"a": [1, 12], "z": [-1], "b": [-1, 0, 1]})
    of_connect = [
        spell_assignment(
            Assignment(
                version=version, config_offset=7, assigned=work({"a": [-1, 0, 3], "b": [-1], "c": [2]}),
                revoked=work({"d": [-1, 1]}) if version else NOTHING, delay_ms=60_000 if version else 0, **fields,
            ),
            None,
        )
        | {"hex": data}
        for version, data in OF_CONNECT.items()
    ]
    return [
        *of_connect,
        spell_assignment(Assignment(version=0, config_offset=7, assigned=mixed, **fields), None),
        spell_assignment(Assignment(version=1, config_offset=-1, **fields), None),
        spell_assignment(
            Assignment(
                version=2, config_offset=2**40, assigned=mixed, revoked=work({"c": [2]}), delay_ms=300_000, **fields
            ),
            None,
        ),
        spell_assignment(Assignment(version=1, config_offset=7, assigned=given["w-1"], **fields), whole),
        spell_assignment(
            Assignment(version=2, config_offset=7, assigned=mixed, revoked=work({"c": [-1]}), delay_ms=5, **fields),
            Whole("w-0", "http://w-1:8083/", None),
        ),
        spell_assignment(Assignment(2, AssignmentError.CONFIG_MISMATCH, "w-0-1", "http://w-0:8083/", 9, mixed), whole),
    ]


def worker_states() -> list[dict[str, Any]]:
    allocation = Assignment(2, AssignmentError.NO_ERROR, "w-0-1", "http://w-0:8083/", 7, work({"a": [-1, 0], "b": [2]}))
    given = {"w-0": work({"a": [-1, 0]}), "w-1": work({"b": [2]}), "w-2": NOTHING}
    found = []
    for mode in ConnectProtocolCompatibility:
        for held, last in (
            (None, None),
            (allocation, None),
            (allocation, LastGeneration(7, given)),
            (None, LastGeneration(2**31 - 1)),
        ):
            state = WorkerState("http://w-1:8083/", 8, held)
            if last is not None and mode is ConnectProtocolCompatibility.EAGER:
                continue
            found.append(
                {
                    "hex": (encode_metadata(state, mode) + (encode_last_generation(last) if last else b"")).hex(),
                    "lastGeneration": spell_last_generation(last),
                    "version": mode.version,
                    "url": state.url,
                    "configOffset": state.config_offset,
                    "allocation": encode_stored(held, None).hex() if held and mode.version else None,
                }
            )
    return [
        *found,
        *({
            "hex": data,
            "lastGeneration": None,
            "version": version,
            "url": "http://w-1:8083/",
            "configOffset": 8,
            "allocation": OF_CONNECT[version] if OF_CONNECT[version] in data else None,
        }
        for version, data in STATES_OF_CONNECT),
    ]


class Recorded(StaticMembership):
    """A membership that records its calls and their results."""

    def __init__(self, instance_id: str, steps: list[dict[str, Any]]) -> None:
        super().__init__(instance_id)
        self.steps = steps

    def with_last_generation(self, metadata: bytes) -> bytes:
        sent = super().with_last_generation(metadata)
        self.steps.append({"metadata": metadata.hex(), "sent": sent.hex()})
        return sent

    def view(self, members: Sequence[RoundMember], generation_id: int, leader_member_id: str) -> dict[str, bytes]:
        seen = super().view(members, generation_id, leader_member_id)
        asked = [{"memberId": m.member_id, "instanceId": m.instance_id, "metadata": m.metadata.hex()} for m in members]
        changed = {m.member_id: seen[m.member_id].hex() for m in members if seen[m.member_id] != m.metadata}
        held = self.held_back(leader_member_id)
        self.steps.append(
            {
                "view": asked,
                "generation": generation_id,
                "leader": leader_member_id,
                "changed": changed,
                "heldBack": None if held is None else {m: data.hex() for m, data in held.items()},
            }
        )
        return seen

    def stored(self, increments: Mapping[str, bytes], leader_member_id: str) -> dict[str, bytes]:
        stored = super().stored(increments, leader_member_id)
        self.steps.append(
            {
                "increments": {m: data.hex() for m, data in increments.items()},
                "leader": leader_member_id,
                "stored": {m: data.hex() for m, data in stored.items()},
            }
        )
        return stored

    def received(
        self, data: bytes, generation_id: int, member_id: str, url: str, config_offset: int, running: ConnectorsAndTasks
    ) -> Received:
        received = super().received(data, generation_id, member_id, url, config_offset, running)
        self.steps.append(
            {
                "received": data.hex(), "generation": generation_id, "memberId": member_id, "url": url,
                "configOffset": config_offset, "running": spell(running), "shown": received.shown.hex(),
                "roundWanted": received.round_wanted,
            }
        )
        return received


def history(name: str, seed: int, mode: ConnectProtocolCompatibility) -> list[dict[str, Any]]:
    """A short history in which members are away, come back, are new, and lose answers; each process' calls."""
    rng = random.Random(seed)
    processes: list[dict[str, Any]] = []

    def identify(instance_id: str) -> StaticMembership:
        steps: list[dict[str, Any]] = []
        processes.append({"history": name, "instanceId": instance_id, "steps": steps})
        return Recorded(instance_id, steps)

    cluster = StaticConnectCluster(
        mode=mode, max_delay_ms=rng.choice([0, 5_000]), session_timeout_ms=rng.choice([30_000, 300_000]),
        identify=identify, choose=rng.choice,
    )
    cluster.start("w-0")
    cluster.configure("a", 2)
    if seed % 4 == 0:  # the only member that knows the allocations ends, so no other can send them
        cluster.kill("w-0")
    cluster.start("w-1")
    cluster.advance(70_000)
    cluster.configure("b", 1)
    names = ("w-0", "w-1", "w-2", "w-3")
    for _ in range(9):
        away = [each for each in names if each not in cluster.workers]
        step = rng.choice(["stop", "start", "start", "stock", "configure", "wait", "pause", "unsynced", "lose"])
        if step == "stop" and len(cluster.workers) > 1:
            cluster.stop(rng.choice(list(cluster.workers)))
        elif step == "start" and away:
            cluster.start(rng.choice(away))
        elif step == "stock" and len(away) > 2:
            cluster.start_stock(rng.choice(away))
        elif step == "configure":
            cluster.configure(rng.choice("ab"), rng.randint(1, 3))
        elif step == "pause":
            cluster.pause()
        elif step == "unsynced":
            cluster.unsynced.add(rng.choice(list(cluster.workers)))
        elif step == "lose":
            cluster.lose_coordinator(rng.choice(list(cluster.workers)))
        else:
            cluster.advance(rng.choice([1_000, 70_000]))
    return processes


def decisions(steps: Sequence[Mapping[str, Any]]) -> set[str]:
    """What these calls show that others do not."""
    return {name for step in steps for name in ("changed", "roundWanted", "heldBack") if step.get(name)} | {
        f"{name} {int(step['received'][:4], 16)}"
        for step in steps
        if "received" in step
        for name in (["kept"] if step["received"] == step["shown"] else ["rewritten"])
    }


def doubtful() -> dict[str, Any]:
    """A leader with one member that never sends its last generation, for more rounds than the leader asks for."""
    steps: list[dict[str, Any]] = []
    leader = Recorded("w-0", steps)
    mode = ConnectProtocolCompatibility.SESSIONED
    members = [
        RoundMember(f"w-{n}-x", f"w-{n}", encode_metadata(WorkerState(f"http://w-{n}/", 7), mode)) for n in (0, 1)
    ]
    for generation_id in range(6, 6 + HELD_BACK_ROUNDS + 2):
        leader.view(members, generation_id, "w-0-x")
        held = answered(leader.held_back("w-0-x"))
        leader.received(held["w-0-x"], generation_id, "w-0-x", "http://w-0/", 7, NOTHING)
    return {"history": "in doubt", "instanceId": "w-0", "steps": steps}


def memberships() -> list[dict[str, Any]]:
    """Processes whose calls show something new or rare, out of many short histories."""
    kept = [doubtful()]
    seen: Counter[str] = Counter()
    for seed in range(HISTORIES):
        mode = list(ConnectProtocolCompatibility)[seed % 3]
        for process in history(f"{mode.protocol} {seed}", seed, mode):
            shows = decisions(process["steps"])
            if any(seen[each] < ENOUGH for each in shows):
                kept.append(process)
                seen.update(shows)
    return kept


def vectors() -> dict[str, Any]:
    return {"assignments": assignments(), "workerStates": worker_states(), "memberships": memberships()}


def text() -> str:
    lines = []
    for name, found in vectors().items():
        rows = ",\n".join(f"  {json.dumps(each, ensure_ascii=False)}" for each in found)
        lines.append(f'"{name}": [\n{rows}\n]')
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: record.py --write")
    FILE.write_text(text(), encoding="utf-8")
