"""A snapshot file holds one round's whole input: what is planned from the file is what was planned on the cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from staticgroup.cli.api_server import Refused
from staticgroup.cli.operator import snapshot_file
from staticgroup.cli.operator.snapshot_file import SnapshotFile, read_snapshot_file, write_snapshot_file
from staticgroup.core.evidence.chain import PodState
from staticgroup.core.group import KafkaProblem, KafkaProblemKind
from staticgroup.core.plan import plan
from staticgroup.core.snapshot import RemovalRecord, Snapshot
from unit.core.builders import COORDINATOR, NOW_S, departure, group, history, id_of, known_pod, member, spec
from unit.runtime.operator_world import CANARY, KEY, OperatorWorld

RECORD = RemovalRecord(instance_id=id_of(2), member_id="m2", coordinator=COORDINATOR, acknowledged_at_s=NOW_S - 3.25)


@pytest.mark.parametrize(
    "snapshot",
    [
        departure(),
        departure(workload=None, overlaps=("shop/twin",)),
        departure(group=KafkaProblem(kind=KafkaProblemKind.NOT_AUTHORIZED, message="m", missing_acl="READ")),
        departure(chains={id_of(2): (known_pod(state=PodState.SUSPECT), known_pod(uid="u9"))}),
        departure(group=group(member(0, member_epoch=-2), group_epoch=4, assignment_epoch=3)),
    ],
    ids=["departure", "workload gone", "unreadable group", "suspect", "KIP-848"],
)
def test_round_trip_keeps_everything_that_the_plan_reads(snapshot: Snapshot, tmp_path: Path) -> None:
    memory = history(removals=(RECORD,), sightings={id_of(2): (("m2", "u2", NOW_S),)}, departed_since_s={id_of(2): 1.5})
    taken = SnapshotFile(spec=spec(mode="Observe"), snapshot=snapshot, history=memory, now_s=NOW_S)
    write_snapshot_file(taken, tmp_path / "snapshot.json")
    read = read_snapshot_file(tmp_path / "snapshot.json")
    assert read == taken
    assert plan(read.spec, read.snapshot, read.history, read.now_s) == plan(taken.spec, snapshot, memory, NOW_S)


async def test_snapshot_file_of_a_real_round_holds_no_credential(tmp_path: Path) -> None:
    world = await OperatorWorld().started()
    wish, snapshot = await world.reconciler.snapshot_of(world.stores.groups[KEY])
    assert CANARY in {s.sasl.password.reveal() for s in world.kafka.settings_seen if s.sasl}
    write_snapshot_file(SnapshotFile(spec=wish, snapshot=snapshot, history=history(), now_s=NOW_S), tmp_path / "snapshot.json")
    assert CANARY not in (tmp_path / "snapshot.json").read_text()
    assert read_snapshot_file(tmp_path / "snapshot.json").snapshot == snapshot


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"none\.json cannot be read: No such file"):
        read_snapshot_file(tmp_path / "none.json")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"spec": 1}'])
def test_file_that_is_no_snapshot_file_says_so(text: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is no snapshot of `staticgroup plan --snapshot`"):
        read_snapshot_file(written(tmp_path / "p.json", text))


def test_wrong_field_is_named_without_its_value(tmp_path: Path) -> None:
    taken = SnapshotFile(spec=spec(), snapshot=departure(), history=history(), now_s=NOW_S)
    body = json.loads(taken.model_dump_json())
    body["snapshot"]["policy_served"] = CANARY
    with pytest.raises(Refused, match=r"snapshot\.policy_served") as caught:
        read_snapshot_file(written(tmp_path / "p.json", json.dumps(body)))
    assert CANARY not in str(caught.value)


def test_unknown_field_is_refused_so_that_a_newer_file_is_not_half_read(tmp_path: Path) -> None:
    body = json.loads(SnapshotFile(spec=spec(), snapshot=departure(), history=history(), now_s=NOW_S).model_dump_json())
    with pytest.raises(Refused, match="more"):
        read_snapshot_file(written(tmp_path / "p.json", json.dumps(body | {"more": 1})))


def test_huge_file_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_file, "SNAPSHOT_FILE_BYTES_MAX", 10)
    with pytest.raises(Refused, match="larger than 10 bytes"):
        read_snapshot_file(written(tmp_path / "p.json", "x" * 11))
