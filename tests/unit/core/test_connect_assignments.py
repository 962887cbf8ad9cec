"""Connectors and tasks of Connect workers, the rebalance delay, and the journal of their group."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticgroup.api.names import REBALANCE_DELAY_VARIABLE
from staticgroup.api.resources import status as api
from staticgroup.cli.operator.plan_in_words import explained
from staticgroup.core.group import GroupType
from staticgroup.core.outcomes import Executed
from staticgroup.core.plan import plan
from staticgroup.core.snapshot import Snapshot
from staticgroup.core.status.projection import project
from unit.core.plans import present
from unit.journal.observer import Observer, kinds

from .builders import NOW_S, departure, group, history, id_of, member, spec, workload
from .plans import NOW
from .workers import WELL, cluster, completeness, decide, projected, stock, wish, worker, world

# what they hold -------------------------------------------------------------------------------------------------------


def test_the_status_shows_connectors_and_tasks_of_each_worker() -> None:
    found = projected(world(worker(0), worker(1, 3), replace(stock(7), member_id="s"))).connect
    assert found == api.Connect(
        connectors=3,
        tasks=11,
        unknown=0,
        rebalance_delay_seconds=0,
        waiting=0,
        workers=[
            api.ConnectWorker(instance_id=id_of(0), connectors=1, tasks=4),
            api.ConnectWorker(instance_id=id_of(1), connectors=1, tasks=3),
        ],
    )


def test_of_many_workers_the_first_are_listed_and_all_are_counted() -> None:
    found = present(projected(world(*(worker(n) for n in range(80)), workload=workload(80))).connect)
    assert (found.tasks, len(found.workers)) == (320, api.CONNECT_WORKERS_MAX)
    assert found.workers[-1].instance_id == id_of(api.CONNECT_WORKERS_MAX - 1)


def test_other_groups_show_no_workers() -> None:
    snapshot = departure(group=group(member(0), member(1)))
    decided = plan(spec(), snapshot, history(), NOW_S)
    assert project(spec(), snapshot, decided, Executed(), None, NOW).connect is None
    assert decide(departure(group=cluster())).history.connect_work is None


UNKNOWN = {"connectors": None, "tasks": None, "is_whole": False}


def test_a_rebalance_keeps_the_last_counts() -> None:
    first = projected(WELL)
    during = world(worker(0, **UNKNOWN), worker(1, **UNKNOWN), state="PreparingRebalance")
    assert projected(during, first).connect == first.connect
    assert projected(during).connect is None


def test_one_worker_of_odd_bytes_is_counted_as_unknown() -> None:
    found = present(projected(world(worker(0), worker(1, **UNKNOWN))).connect)
    assert (found.connectors, found.tasks, found.unknown, found.waiting) == (1, 4, 1, None)
    assert [w.instance_id for w in found.workers] == [id_of(0)]


def test_what_waits_for_a_lost_worker_is_counted_from_what_was_held_before() -> None:
    before = decide(world(worker(0), worker(1), stock(7))).history
    assert before.connect_work == 15
    lost = world(worker(0, delay_ms=60_000), worker(1, delay_ms=60_000))
    during = decide(lost, before)
    assert during.history.connect_work == 15
    found = present(projected(lost, memory=before).connect)
    assert (found.rebalance_delay_seconds, found.waiting) == (60, 5)
    message = completeness(lost, before).message
    assert "5 connectors and tasks wait for a worker that was lost" in message
    assert completeness(world(worker(0, delay_ms=59_000), worker(1, delay_ms=60_000)), before).message == message
    after = decide(world(worker(0, 7), worker(1, 6)), during.history)
    assert after.history.connect_work == 15
    fewer = decide(world(worker(0), worker(1)), after.history).history
    assert fewer.connect_work == 10


def test_what_waits_is_not_known_to_an_operator_that_has_just_begun() -> None:
    lost = world(worker(0, delay_ms=60_000), worker(1))
    found = present(projected(lost).connect)
    assert (found.rebalance_delay_seconds, found.waiting) == (60, None)
    assert "wait for a worker" not in completeness(lost).message


def test_explain_shows_what_each_worker_holds() -> None:
    text = explained(wish(), WELL, decide(WELL), NOW_S)
    assert f"  {id_of(0)}: Joined, 1 connectors and 4 tasks, advertised as web-0.web.shop.svc.\n" in text


# the delay ------------------------------------------------------------------------------------------------------------

OWN = {REBALANCE_DELAY_VARIABLE: "60000"}
OF_IMAGE = {"CONNECT_SCHEDULED_REBALANCE_MAX_DELAY_MS": "300000"}


@pytest.mark.parametrize(
    ("delay", "figure"), [(OWN, "60 s"), (OF_IMAGE, "300 s"), (OF_IMAGE | OWN, "60 s"), (OWN | OF_IMAGE, "60 s")]
)
def test_once_every_worker_is_static_no_delay_is_needed(delay: dict[str, str], figure: str) -> None:
    message = completeness(world(worker(0), worker(1), delay=delay)).message
    assert f"scheduled.rebalance.max.delay.ms is {figure}" in message
    assert f"Set {REBALANCE_DELAY_VARIABLE} to 0 in the pod template" in message


def test_a_delay_that_is_seen_is_advised_against_without_a_figure() -> None:
    message = completeness(world(worker(0, delay_ms=41_000), worker(1))).message
    assert "scheduled.rebalance.max.delay.ms is not 0" in message
    assert "41" not in message


@pytest.mark.parametrize(
    "snapshot",
    [
        WELL,
        world(worker(0), worker(1), delay=OWN | {REBALANCE_DELAY_VARIABLE: "0"}),
        world(worker(0), worker(1), delay=OF_IMAGE | {REBALANCE_DELAY_VARIABLE: "0"}),
        world(worker(0), worker(1), delay={REBALANCE_DELAY_VARIABLE: "soon"}),
        world(worker(0), worker(1), stock(7), delay=OWN),
        world(worker(0), worker(1), replace(worker(7), instance_id=None), delay=OWN),
        world(worker(0), worker(1, is_whole=False), delay=OWN),
        world(worker(0), worker(1, **UNKNOWN), delay=OWN),
        world(worker(0), delay=OWN),
    ],
    ids=[
        "not known", "none", "none by the agent", "odd", "a stock worker", "one without id", "an increment", "unknown",
        "one is away",
    ],
)
def test_the_delay_is_left_alone_where_it_may_be_needed_or_is_not_known(snapshot: Snapshot) -> None:
    assert "scheduled.rebalance.max.delay.ms" not in completeness(snapshot).message


# the journal ----------------------------------------------------------------------------------------------------------


def test_a_rebalance_that_moved_only_tasks_is_recorded() -> None:
    observer = Observer()
    observer.look(WELL, spec=wish())
    assert "group.rebalanced" not in kinds(observer.look(WELL, spec=wish()))
    (rebalanced,) = [
        f for f in observer.look(world(worker(0, 6), worker(1, 2)), spec=wish()) if f.data.noun == "group.rebalanced"
    ]
    assert (rebalanced.data.members, rebalanced.data.partitions_total, rebalanced.data.protocol) == (2, None, "Classic")


def test_the_first_facts_of_workers_are_of_a_classic_group() -> None:
    absent = departure(workload=workload(2), group=cluster(group_type=GroupType.ABSENT, state="Dead", protocol_type=""))
    assert Observer().look(absent, spec=wish()) == []
    observer = Observer()
    observer.look(absent, spec=wish())
    assert observer.picture is not None
    assert observer.picture.protocol == "Classic"
