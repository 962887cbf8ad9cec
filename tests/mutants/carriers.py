"""The clauses of the rule, each taken away: the search must then find a live removal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Final
from unittest.mock import patch

from simulator.carriers.catalogue import named
from simulator.carriers.found import Found
from simulator.carriers.pods import book_of
from simulator.carriers.runs import search_runs
from simulator.carriers.search import search
from staticgroup.core import guards, plan, releases
from staticgroup.core.evidence import chain
from staticgroup.core.members import carriers, memory
from staticgroup.core.members.memory import Members, Sight
from staticgroup.core.status import memory as status_memory
from staticgroup.kube.pods.book import PodBook
from staticgroup.runtime import members as gathering

Patch = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One clause.

    Parameters
    ----------
    says: one phrase for it. scenario: where it is missed; "" for that of the runs of a container.
    is_second: it only makes live removals by broken assumptions rarer.
    without: takes it away from the product. changes: takes it away from the order of steps.
    runs: of the search of runs.
    """

    name: str
    says: str
    scenario: str
    is_second: bool = False
    without: Patch = nullcontext
    changes: dict[str, Any] = field(default_factory=dict)
    runs: dict[str, Any] = field(default_factory=dict)

    def is_missed(self, found: Found) -> bool:
        """Whether its lack has shown."""
        return bool(found.trace) or (self.is_second and found.inside > search(named(self.scenario)).inside)

    def search(self) -> Found:
        """Search for the shortest live removal without it."""
        with self.without():
            book_of.cache_clear()
            found = search(replace(named(self.scenario), **self.changes)) if self.scenario else search_runs(**self.runs)
        book_of.cache_clear()
        return replace(found, scenario=f"{self.name} ({self.scenario or 'crash release'})")


def _patched(*targets: tuple[Any, str, Any]) -> Patch:
    @contextmanager
    def applied() -> Iterator[None]:
        with ExitStack() as stack:
            for owner, name, new in targets:
                stack.enter_context(patch.object(owner, name, new))
            yield

    return applied


_described, _attribute, _without_ended = plan.described, memory.attribute, memory.without_ended
_wire_members = status_memory.wire_members
_first_hit, _pod_of, _suspects_of = plan.first_hit, gathering.pod_of, gathering.SightGatherer._suspects_of
_attributed = memory._attributed


def _changed(
    before: Callable[[Members, Sight], tuple[Members, Sight]], after: Callable[[Members, Members, Any], Members]
) -> Patch:
    """Change what a description is made of, or what it leaves."""

    def described(members: Members, held: Any, sight: Sight, may_hold: Any, *, settle_s: float) -> Members:
        asked, seen = before(members, sight)
        return after(members, _described(asked, held, seen, may_hold, settle_s=settle_s), held)

    return _patched((plan, "described", described))


def _both(one: Patch, other: Patch) -> Patch:
    @contextmanager
    def applied() -> Iterator[None]:
        with one(), other():
            yield

    return applied


def _same(members: Members, sight: Sight) -> tuple[Members, Sight]:
    return members, sight


def _kept(_before: Members, after: Members, _held: Any) -> Members:
    return after


def _forgets_dropped(before: Members, after: Members, _held: Any) -> Members:
    """Take the suspects that are dropped out of the carriers of members, too."""
    dropped = {s.uid for s in before.suspects} - {s.uid for s in after.suspects}
    return replace(after, attributions={i: a.without(dropped) for i, a in after.attributions.items()})


def _forgets_unseen(_before: Members, after: Members, held: Any) -> Members:
    """Forget the members of seats that are described empty, however little is known of them."""
    return replace(after, attributions={i: a for i, a in after.attributions.items() if i in held})


def _no_suspects(members: Members, sight: Sight) -> Members:
    return replace(_without_ended(members, sight), suspects=())


def _attribution(**forced: bool) -> Patch:
    def attribute(member_id: str, **asked: Any) -> Any:
        return _attribute(member_id, **(asked | forced))

    return _patched((memory, "attribute", attribute))


def _unguarded(*gone: Any) -> Patch:
    left = tuple(guard for guard in guards.GUARDS if guard not in gone)
    return _patched((plan, "first_hit", lambda candidate: _first_hit(candidate, left)))


def _forgets_absent(self: PodBook, scope: str, listed: Any, resource_version: int) -> list[Any]:
    for record in self._absent(scope, listed, resource_version):
        self.records.remove(record)
    return []


def _known_suspects(self: Any, *asked: Any) -> Iterator[Any]:
    return (s for s in _suspects_of(self, *asked) if self.pods.get(s.uid) is not None)


def _any_end(runs: Any, since_s: float) -> bool:
    return bool(runs) and all(run.end is not None for run in runs)


CLAUSES: Final = (
    Clause(
        name="no barrier", says="between a description and its carriers the pod watch passes a consistent read",
        scenario="classic, force",
        changes={"has_barrier": False, "pods": 3, "scalings": 3},
    ),
    Clause(
        name="no carriers", says="a member is removed when its carriers have ended", scenario="classic, force",
        without=_unguarded(guards.carriers_left),
    ),
    Clause(
        name="suspects are no carriers", says="suspects are among the carriers", scenario="classic, force",
        without=_patched(
            (memory, "without_ended", _no_suspects), (plan, "without_ended", _no_suspects),
            (gathering, "without_ended", _no_suspects),
        ),
    ),
    Clause(
        name="suspects forgotten", says="suspects survive a hand-over", scenario="deep: hand-over, session",
        without=_patched(
            (
                status_memory, "wire_members",
                lambda namespace, members: _wire_members(namespace, replace(members, suspects=())),
            )
        ),
    ),
    Clause(
        name="no unseen", says="after a LIST there is `unseen`", scenario="classic, first pods in a gap",
        without=_attribution(is_watch_young=False),
    ),
    Clause(
        name="unseen until a description",
        says="`unseen` stays until `settle` has passed since this process described the group first",
        scenario="classic, first pods in a gap",
        without=_changed(
            _same, lambda _before, after, _held: replace(after, watch=after.watch_described, young_since_s=None),
        ),
    ),
    Clause(
        name="empty is enough", says="carriers are not empty, unless one ended since the description before",
        scenario="A2 broken, classic",
        without=_attribution(has_one_ended=True), is_second=True,
    ),
    Clause(
        name="time ends carriers", says="time takes no suspect out of the carriers", scenario="classic, force",
        without=_both(
            _changed(_same, _forgets_dropped), _patched((carriers, "_may_be_of", lambda _attribution, _suspect: False)),
        ),
    ),
    Clause(
        name="holder is silent", says="a suspect that holds the seat is not silent", scenario="classic, force",
        without=_patched((carriers, "_may_be_of", lambda _attribution, _suspect: False)),
    ),
    Clause(
        name="pauses count", says="a longer pause begins the silence anew", scenario="classic, pauses",
        without=_patched((memory, "PAUSE_MAX_S", 1e9)),
    ),
    Clause(
        name="lost run ended", says="a pod of which a run is lost gets no certificate", scenario="classic, lost run",
        without=_patched((chain, "shows_lost_run", lambda _version: False)),
    ),
    Clause(
        name="absent forgotten", says="a pod that a LIST does not show is a suspect", scenario="deep: gap, session",
        without=_patched((PodBook, "take_absent", _forgets_absent)),
    ),
    Clause(
        name="unknown carriers", says="a carrier that the watch does not know is a suspect",
        scenario="classic, hand-over",
        without=_patched((gathering.SightGatherer, "_suspects_of", _known_suspects)),
    ),
    Clause(
        name="guessed forgotten",
        says="whom a pod that nobody saw may hold is remembered while the seat is described empty",
        scenario="deep: first pods in a gap, stale", without=_changed(_same, _forgets_unseen),
    ),
    Clause(
        name="former forgotten",
        says="whom a pod that nobody saw may hold is remembered while another member is described in its place",
        scenario="deep: first pods in a gap, stale",
        without=_changed(_same, lambda _before, after, _held: replace(after, former={})),
    ),
    Clause(
        name="Lease before status", says="the position in the Lease follows the status",
        scenario="deep: hand-over, session",
        changes={"follows_status": False},
    ),
    Clause(
        name="adopted at once", says="a standby goes on under the leader's watch only where its own was whole before",
        scenario="deep: standby, three pods",
        changes={"adopts_always": True},
    ),
    Clause(
        name="emptied is whole", says="an emptied status is a first look", scenario="deep: status emptied",
        without=_changed(lambda m, s: (replace(m, watch=m.watch or s.watch), s), _kept),
    ),
    Clause(
        name="returned", says="a member that is described after its leave was acknowledged lives (KIP-848)",
        scenario="A2 broken, consumer",
        without=_unguarded(guards.returned),
    ),
    Clause(
        name="address of a suspect", says="an address that a suspect had tells nothing",
        scenario="consumer, one address",
        without=_patched((gathering, "pod_of", lambda member, live, _suspects, **k: _pod_of(member, live, (), **k))),
    ),
    Clause(
        name="suspect of no address", says="where a suspect has shown none, no address tells anything",
        scenario="consumer, one address, hand-over",
        without=_patched((
            gathering, "pod_of",
            lambda member, live, known, **k: _pod_of(member, live, [s for s in known if s.addresses], **k),
        )),
    ),
    Clause(
        name="address of whom nobody saw", says="an address does not tell who was unseen",
        scenario="consumer, one address, gap",
        without=_patched((
            memory, "_attributed",
            lambda *a, is_watch_young: _attributed(*a, is_watch_young=is_watch_young and a[1] not in a[3].addressed),
        )),
    ),
    Clause(
        name="address of a classic member",
        says="the address of a classic member tells nothing, not even at a first join", scenario="classic, fail-over",
        changes={"shows_hosts": True, "is_first_host_trusted": True},
    ),
    Clause(
        name="shown run", says="a crash release goes by finishedAt, not by the run that is shown", scenario="",
        without=_patched(
            (releases, "_is_over", _any_end),
            (releases, "_may_be_over", lambda _runs, member, _since_s: not member.is_away),
        ),
        runs={"steps": 1},
    ),
    Clause(
        name="margin", says="a member was first seen 10 s before the end, for clocks differ by so much", scenario="",
        without=_patched((releases, "MARGIN_S", 8.0)), runs={"steps": 2, "clock_off_s": 9.0},
    ),
)  # fmt: skip
