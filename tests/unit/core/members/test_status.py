"""The durable form: what the next process reads holds as much or more, never less."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from staticgroup.api.resources import memory as api
from staticgroup.api.resources.memory import StatusMemory
from staticgroup.core.members.carriers import UNATTRIBUTED, UNSEEN, digest_of
from staticgroup.core.members.memory import Members
from staticgroup.core.status.memory import members_from, wire_members
from unit.core.builders import NOW_S, WATCH, attributed, id_of, members, suspect


def written(memory: Members) -> StatusMemory:
    return StatusMemory(**wire_members("shop", memory))


def through_the_api_server(memory: Members, **edits: object) -> Members:
    return members_from("shop", StatusMemory.model_validate({**written(memory).to_wire(), **edits}))


def test_members_their_carriers_and_suspects_come_back() -> None:
    whole = suspect(
        node_name="n7", provider="aws", machine="0123456789abcdef", has_lost_run=True, addresses=frozenset({"10.0.0.7"})
    )
    far = suspect("y", namespace="bill", pod_name="canary-0")
    memory = members({1: ["u1", UNSEEN], 2: [UNATTRIBUTED]}, suspects=(whole, far), watch_described="")
    assert through_the_api_server(memory) == memory


@pytest.mark.parametrize(
    "edit",
    [{"seats": []}, {"suspects": []}, {"suspects": [], "seats": []}, {"watch": "another"}, {"seal": None}],
    ids=str,
)
def test_only_the_suspects_of_an_edited_memory_are_believed(edit: dict[str, object]) -> None:
    """Suspects only hold removals. The holder of a seat may be of an unseen pod, as after an emptied status."""
    memory = members(suspects=(suspect(),), watch_described="")
    assert through_the_api_server(memory) == memory
    assert through_the_api_server(memory, **edit) == Members(suspects=() if "suspects" in edit else memory.suspects)


def test_where_nothing_is_remembered_nothing_is_sealed() -> None:
    assert wire_members("shop", Members())["seal"] is None


def test_missing_status_gives_neither_memory_nor_watch() -> None:
    assert members_from("shop", StatusMemory()) == Members()


def test_only_a_digest_of_a_member_id_is_written() -> None:
    (seat, *_) = wire_members("shop", members())["seats"]
    assert seat.member == digest_of("m0")
    assert "m0" not in seat.to_wire().values()


def test_silence_is_not_written_so_that_it_begins_anew() -> None:
    (read,) = through_the_api_server(members(suspects=(suspect(silent_since_s=5.0),))).suspects
    assert read.silent_since_s is None


def test_member_is_never_written_as_seen_earlier_than_it_was() -> None:
    """An end is compared with it, and a status has whole seconds."""
    (seat,) = wire_members("shop", Members(attributions={id_of(2): attributed("m2", "u2", first_seen_s=NOW_S + 0.25)}))[
        "seats"
    ]
    assert seat.first_seen == datetime.fromtimestamp(NOW_S + 1, tz=UTC)


def test_member_with_more_carriers_than_there_is_room_for_is_one_that_no_pod_explains() -> None:
    most = [f"u{n}" for n in range(api.CARRIERS_MAX)]
    (fits,) = wire_members("shop", Members(attributions={id_of(2): attributed("m2", *most)}))["seats"]
    assert fits.carriers == sorted(most)
    (seat,) = wire_members("shop", Members(attributions={id_of(2): attributed("m2", *most, "one-more")}))["seats"]
    assert seat.carriers == [UNATTRIBUTED]


def full(**special: object) -> Members:
    """As many plain members as a status has room for, and one more with a suspect beside it."""
    held = {id_of(n): attributed(f"m{n}", f"u{n}") for n in range(api.SEATS_MAX)}
    return Members(attributions=held | {"zz": attributed("mz", "u", "z")}, watch=WATCH)


def test_seats_without_room_are_plain_ones_which_the_next_process_attributes_to_the_same_pods() -> None:
    memory = full()
    written = {seat.id for seat in wire_members("shop", memory)["seats"]}
    assert len(written) == api.SEATS_MAX
    assert "zz" in written
    assert wire_members("shop", memory)["watch"] == WATCH


def test_where_a_seat_that_is_not_plain_has_no_room_the_next_process_begins_as_if_it_remembered_nothing() -> None:
    many = Members(
        attributions={id_of(n): attributed(f"m{n}", f"u{n}", "z") for n in range(api.SEATS_MAX + 1)}, watch=WATCH
    )
    assert len(wire_members("shop", many)["seats"]) == api.SEATS_MAX
    assert wire_members("shop", many)["watch"] is wire_members("shop", many)["seal"] is None


@pytest.mark.parametrize("carriers", [(), (UNSEEN,), (UNATTRIBUTED,)], ids=["dead", "unseen", "unattributed"])
def test_seat_of_no_pod_or_a_guessed_one_is_not_plain(carriers: tuple[str, ...]) -> None:
    """The next process would take it for that of the pod that is there by then, or for one without a known pod."""
    held = {id_of(n): attributed(f"m{n}", *carriers) for n in range(api.SEATS_MAX + 1)}
    assert wire_members("shop", Members(attributions=held, watch=WATCH))["watch"] is None


def test_suspects_without_room_leave_no_watch_behind() -> None:
    lost = tuple(suspect(f"z{n}") for n in range(api.SUSPECTS_MAX + 1))
    room = api.SUSPECTS_LENGTH_MAX // 1_000
    assert room <= len(wire_members("shop", members(suspects=lost))["suspects"]) < len(lost)
    assert wire_members("shop", members(suspects=lost))["watch"] is None
    assert wire_members("shop", members(suspects=lost[:room]))["watch"] == WATCH


@pytest.mark.parametrize(
    "changes",
    [
        {"instance_ids": frozenset(f"i{n}" for n in range(api.SUSPECT_IDS_MAX + 1))},
        {"addresses": frozenset(f"10.0.0.{n}" for n in range(api.ADDRESSES_MAX + 1))},
    ],
    ids=["ids", "addresses"],
)
def test_suspect_of_which_not_all_can_be_written_leaves_no_watch_behind(changes: dict[str, object]) -> None:
    assert wire_members("shop", members(suspects=(suspect(**changes),)))["suspects"] == []
    assert wire_members("shop", members(suspects=(suspect(**changes),)))["watch"] is None


def test_a_suspect_without_room_leaves_that_of_the_others_alone() -> None:
    lost = (suspect("y", instance_ids=frozenset(f"i{n}" for n in range(api.SUSPECT_IDS_MAX + 1))), suspect("z"))
    assert [s.uid for s in wire_members("shop", members(suspects=lost))["suspects"]] == ["z"]


def test_longest_status_can_be_stored() -> None:
    """A request to etcd has 1.5 MiB, and a status holds other things beside."""
    ids = frozenset(f"{'i' * 240}{n:03}" for n in range(api.SUSPECT_IDS_MAX))
    lost = tuple(suspect(f"{'z' * 30}{n}", instance_ids=ids) for n in range(50))
    held = {
        f"{'i' * 240}{n}": attributed(f"m{n}", *(f"{'u' * 34}{c}" for c in range(api.CARRIERS_MAX)))
        for n in range(api.SEATS_MAX)
    }
    status = StatusMemory(**wire_members("shop", Members(attributions=held, suspects=lost)))
    assert len(json.dumps(status.to_wire(), separators=(",", ":"))) < 1_200_000
