"""The variants that are searched, and what each of them is about."""

from __future__ import annotations

from typing import Final

from .scenario import Scenario
from .state import Left

QUICK: Final = (
    Scenario(
        name="classic", says="scaled down and up again, three pods, crashes", pods=3, scalings=3, left=Left(crash=1),
    ),
    Scenario(
        name="classic, force", says="a force delete, fenced clients that come back, a crash",
        left=Left(force=1, crash=1),
    ),
    Scenario(
        name="classic, fail-over",
        says="a force delete, a live session that ends, a coordinator that loses its last write",
        left=Left(force=1, blip=1, fail=1),
    ),
    Scenario(
        name="classic, stale", says="a force delete, a description older than the last change",
        left=Left(force=1, stale=1),
    ),
    Scenario(
        name="classic, pauses", says="a force delete, descriptions that lie far apart", left=Left(force=1, blip=1),
        pauses=True,
    ),
    Scenario(name="classic, gap", says="the history of the watch is lost, a force delete", left=Left(force=1, gap=1)),
    Scenario(
        name="classic, first pods in a gap", says="pods come and go while nobody watches", starts_empty=True,
        left=Left(force=1, gap=1),
    ),
    Scenario(
        name="classic, hand-over", says="a force delete, a new leader by LIST or from the Lease",
        left=Left(force=1, hand=1),
    ),
    Scenario(
        name="classic, deposed", says="the same without the force delete, a deposed leader whose leave comes late",
        left=Left(hand=1, crash=1), is_late=True,
        scalings=2,
    ),
    Scenario(
        name="classic, standby", says="a second replica that watches, and leads", left=Left(standby=1, hand=1, crash=1),
    ),
    Scenario(
        name="classic, node gone", says="a force delete, then the machine is off and its Node goes",
        left=Left(force=1, node=1),
    ),
    Scenario(
        name="classic, lost run", says="a run is lost by kubelet or runtime", left=Left(lost_run=1, crash=1, blip=1),
    ),
    Scenario(
        name="classic, restored", says="etcd goes back and the operator sees it", left=Left(backup=1, restore=1),
        scalings=2,
    ),
    Scenario(
        name="consumer, force", says="KIP-848: a force delete, a live session that ends, a crash", is_consumer=True,
        left=Left(force=1, blip=1, crash=1),
    ),
    Scenario(
        name="consumer, stale", says="the same with a stale description", is_consumer=True,
        left=Left(force=1, blip=1, stale=1),
    ),
    Scenario(
        name="consumer, gap", says="KIP-848: the history of the watch is lost", is_consumer=True,
        left=Left(force=1, blip=1, gap=1),
    ),
    Scenario(name="consumer, hand-over", says="KIP-848: a new leader", is_consumer=True, left=Left(force=1, hand=1)),
    Scenario(
        name="consumer, address", says="KIP-848, members show addresses, a lost watch", is_consumer=True,
        shows_hosts=True,
        left=Left(force=1, blip=1, gap=1),
    ),
    Scenario(
        name="consumer, one address", says="the same, pods get the address of the pod before, the watch whole",
        is_consumer=True, shows_hosts=True,
        are_reused=True, starts_empty=True, left=Left(force=1, blip=1),
    ),
    Scenario(
        name="consumer, one address, gap", says="the same, pods come and go while nobody watches", is_consumer=True,
        shows_hosts=True,
        are_reused=True, starts_empty=True, left=Left(force=1, gap=1),
    ),
    Scenario(
        name="consumer, one address, hand-over", says="the same, a crash, a new leader", is_consumer=True,
        shows_hosts=True, are_reused=True,
        left=Left(force=1, hand=1, crash=1),
    ),
)  # fmt: skip
"""Each is exhausted, and none of them removes a live member outside of A1 and A2."""

BROKEN: Final = (
    Scenario(name="A2 broken, classic", says="a suspect joins after its silence", left=Left(force=1), holds_a2=False),
    Scenario(
        name="A2 broken, consumer",
        says="the same in KIP-848",
        is_consumer=True,
        left=Left(force=1, blip=1),
        holds_a2=False,
    ),
    Scenario(
        name="A1 broken",
        says="a pod that nobody saw joins after the watch was whole for settle",
        starts_empty=True,
        left=Left(force=1, gap=1),
        holds_a1=False,
    ),
    Scenario(
        name="A4 broken", says="etcd goes back and nobody sees it", left=Left(backup=1, unseen_restore=1), scalings=2
    ),
)
"""What a broken assumption costs: live removals that are counted apart."""

DEEP: Final = (
    Scenario(
        name="deep: standby", says="a second replica that watches, and leads", left=Left(force=1, standby=1, hand=1),
        is_deep=True,
    ),
    Scenario(
        name="deep: standby, three pods", says="the same with pods that come after the suspect", pods=3, scalings=3,
        left=Left(force=1, standby=1, hand=1), states_max=3_000_000, is_deep=True,
    ),
    Scenario(
        name="deep: hand-over, session", says="classic, a live session that ends",
        left=Left(force=1, hand=1, blip=1), states_max=3_000_000, is_deep=True,
    ),
    Scenario(
        name="deep: gap, session", says="classic, a live session that ends", left=Left(force=1, gap=1, blip=1),
        is_deep=True,
    ),
    Scenario(
        name="deep: first pods in a gap, stale", says="classic, a description older than the last change",
        starts_empty=True,
        left=Left(force=1, gap=1, stale=1), is_deep=True,
    ),
    Scenario(
        name="deep: force, crash, session, fail-over", says="classic",
        left=Left(force=1, crash=1, blip=1, fail=1, stale=1), is_deep=True,
    ),
    Scenario(
        name="deep: two force deletes", says="classic, three pods", pods=3, scalings=1, left=Left(force=2, blip=1),
        is_deep=True,
    ),
    Scenario(
        name="deep: force, gap, crash", says="classic", pods=3, left=Left(force=1, gap=1, crash=1, blip=1),
        is_deep=True,
    ),
    Scenario(name="deep: force, gap, hand-over", says="classic", left=Left(force=1, gap=1, hand=1), is_deep=True),
    Scenario(
        name="deep: standby, deposed", says="classic", left=Left(force=1, standby=1, hand=1, crash=1), is_late=True,
        is_deep=True,
    ),
    Scenario(
        name="deep: status emptied", says="the status emptied, a new leader", starts_empty=True,
        left=Left(force=1, hand=1, status=1), is_deep=True,
    ),
    Scenario(
        name="deep: status put back", says="somebody puts an older status back while no operator runs",
        starts_empty=True, has_backup=True,
        left=Left(force=1, hand=1, status=1), is_deep=True,
    ),
    Scenario(
        name="deep: restored, hand-over", says="classic", left=Left(backup=1, restore=1, hand=1), scalings=2,
        is_deep=True,
    ),
    Scenario(
        name="deep: lost run, force, hand-over", says="classic", left=Left(lost_run=1, force=1, hand=1), is_deep=True,
    ),
    Scenario(
        name="deep: consumer, several faults", says="KIP-848", is_consumer=True,
        left=Left(force=1, blip=2, crash=1, gap=1, stale=1), is_deep=True,
    ),
    Scenario(
        name="deep: consumer, standby", says="KIP-848", is_consumer=True,
        left=Left(force=1, blip=1, standby=1, hand=1), is_deep=True,
    ),
)  # fmt: skip

SCENARIOS: Final = (*QUICK, *BROKEN, *DEEP)


def named(name: str) -> Scenario:
    """Return the variant with a name."""
    return next(s for s in SCENARIOS if s.name == name)
