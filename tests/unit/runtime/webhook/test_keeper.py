"""Two replicas keep one Secret: each renewal counts once, and both show it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pytest

from staticgroup.kube.problem import KubeProblem, problem_of
from staticgroup.kube.webhook_objects import Bundles, StoredEntries
from staticgroup.runtime.webhook.certificates import CERTIFICATE, KEY
from staticgroup.runtime.webhook.keeper import Keeper
from support.trust import is_trusted

NAMES = ("one.system.svc", "two.system.svc")
DAY_S = 86_400.0
REFUSED = problem_of(403, verb="patch", resource="secrets", namespace="system")


@dataclass
class Objects:
    """A gateway to the two objects, with the API server's comparison of versions."""

    entries: Mapping[str, bytes] | None = field(default_factory=dict)
    version: int = 1
    bundles: dict[str, bytes] | None = field(default_factory=lambda: {"one": b"", "two": b""})
    problem: KubeProblem | None = None
    writes: int = 0
    rival: bool = False

    async def read_entries(self) -> StoredEntries | KubeProblem | None:
        if self.entries is None:
            return None
        return StoredEntries(entries=dict(self.entries), resource_version=str(self.version))

    async def write_entries(self, entries: Mapping[str, bytes], over: StoredEntries) -> KubeProblem | None:
        if self.problem is not None:
            return self.problem
        if self.rival or over.resource_version != str(self.version):
            return problem_of(409, verb="patch", resource="secrets", namespace="system")
        self.entries, self.version, self.writes = dict(entries), self.version + 1, self.writes + 1
        return None

    async def read_bundles(self) -> Bundles | KubeProblem | None:
        return self.bundles

    async def write_bundle(self, bundle: bytes, names: Iterable[str]) -> KubeProblem | None:
        assert self.bundles is not None
        self.bundles = dict.fromkeys(names, bundle)
        return None


@dataclass
class Clock:
    now_s: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now_s


def keeper(objects: Objects, clock: Clock, shown: list[tuple[bytes, bytes]], *, is_own: bool = True) -> Keeper:
    return Keeper(
        objects=objects,  # type: ignore[arg-type]
        names=NAMES, is_own=is_own, show=lambda c, k: shown.append((c, k)), now_s=clock, monotonic_s=clock,
    )  # fmt: skip


async def test_the_first_check_makes_publishes_and_shows() -> None:
    objects, clock, shown = Objects(), Clock(), []
    one = keeper(objects, clock, shown)
    assert not one.is_showing
    await one.check()
    assert one.is_showing
    assert objects.entries is not None
    assert objects.bundles is not None
    assert shown == [(objects.entries[CERTIFICATE], objects.entries[KEY])]
    assert all(is_trusted(shown[0][0], bundle) for bundle in objects.bundles.values())


async def test_two_replicas_agree_for_two_years() -> None:
    objects, clock = Objects(), Clock()
    shown: list[list[tuple[bytes, bytes]]] = [[], []]
    both = [keeper(objects, clock, each) for each in shown]
    for _ in range(2 * 365):
        for each in both:
            await each.check()
        assert objects.bundles is not None
        assert all(is_trusted(each[-1][0], bundle) for each in shown for bundle in objects.bundles.values())
        clock.now_s += DAY_S
    assert shown[0][-1] == shown[1][-1]
    assert 10 <= objects.writes <= 20


async def test_who_loses_the_race_shows_the_winners() -> None:
    objects, clock, shown = Objects(rival=True), Clock(), []
    await keeper(objects, clock, shown).check()
    assert shown == []
    objects.rival = False
    await keeper(objects, clock, []).check()
    await keeper(objects, clock, shown).check()
    assert len(shown) == objects.writes == 1


@pytest.mark.parametrize("lacking", ["Secret", "right", "configuration"])
async def test_what_is_missing_is_reported_once_and_nothing_breaks(lacking: str, caplog: pytest.LogCaptureFixture) -> None:
    objects, clock, shown = Objects(), Clock(), []
    if lacking == "Secret":
        objects.entries = None
    elif lacking == "right":
        objects.problem = REFUSED
    else:
        objects.bundles = None
    one = keeper(objects, clock, shown)
    for _ in range(3):
        await one.check()
    assert len([r for r in caplog.records if r.message == "webhook certificates"]) == 1
    assert one.is_showing == (lacking == "configuration")


async def test_certificates_of_cert_manager_are_shown_and_never_written() -> None:
    made, clock, shown = Objects(), Clock(), []
    await keeper(made, clock, []).check()
    assert made.entries is not None
    objects = Objects(entries={k: made.entries[k] for k in (CERTIFICATE, KEY)}, bundles={"one": b"", "two": b""})
    await keeper(objects, clock, shown, is_own=False).check()
    assert len(shown) == 1
    assert (objects.writes, objects.bundles) == (0, {"one": b"", "two": b""})


async def test_a_bundle_that_somebody_took_away_is_published_again() -> None:
    objects, clock, shown = Objects(), Clock(), []
    one = keeper(objects, clock, shown)
    await one.check()
    published = dict(objects.bundles or {})
    objects.bundles = {"one": published["one"], "two": b""}
    await one.check()
    assert objects.bundles == published
