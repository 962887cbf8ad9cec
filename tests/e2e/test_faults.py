"""The real operator under faults of API server and broker: no live member is removed, and it recovers soon.

The short form plays four faults, each in another phase, beside each other; the long one is the whole table of
docs/reference/faults.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.fault_proxy.kafka_relay import KafkaFault
from support.fault_proxy.kube_proxy import KubeFault
from support.fault_proxy.relay import ByteFault
from support.faults.lane import Fault
from support.faults.phases import Phase
from support.faults.run import play_all, without_operator
from support.faults.table import ALL_FAULTS, complaints
from support.scene.figures import record
from support.scene.stage import Stage

pytestmark = [pytest.mark.e2e, pytest.mark.alone, pytest.mark.long, pytest.mark.timeout(2400)]

SHORT: dict[Fault, tuple[Phase, ...]] = {
    KubeFault.INTERNAL_ERROR: (Phase.WATCHING,), ByteFault.BLACKOUT: (Phase.DESCRIBED,),
    KafkaFault.RESET_AFTER_REQUEST: (Phase.LEAVE,), KafkaFault.GARBAGE: (Phase.VERIFICATION,),
}  # fmt: skip
LONG: dict[Fault, tuple[Phase, ...]] = dict.fromkeys(ALL_FAULTS, tuple(Phase))


@pytest.fixture
def quiet_stage(installed: Stage) -> Iterator[Stage]:
    """The stage, whose own operator is away meanwhile."""
    without_operator(installed)
    yield installed
    installed.values = {}
    installed.install()


@pytest.mark.parametrize("wanted", [pytest.param(SHORT, id="short"), pytest.param(LONG, id="long")])
def test_no_fault_costs_a_live_member_and_each_is_overcome(quiet_stage: Stage, wanted: dict[Fault, Any]) -> None:
    cells, accusations = play_all(quiet_stage, wanted, lanes=4)
    assert complaints(cells.rows, [*accusations, *cells.failures]) == []
    assert len(cells.rows) == sum(map(len, wanted.values()))
    assert all(row["is_reached"] for row in cells.rows if row["phase"] != Phase.STATUS), cells.rows
    settled_s = [row["settled_s"] for row in cells.rows]
    record("faults", cells=len(cells.rows), live_members_removed=0, slowest_recovery_s=max(settled_s))
