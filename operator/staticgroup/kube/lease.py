"""Hold the Lease of the active replica, and keep on it what the next one needs to resume the watch.

The one idea: the holder's right ends by its own monotonic clock, not by an answer. `holds()` is False as soon as the
renew deadline has passed since the last *sent* renewal that succeeded, even when no reply ever comes; a candidate
takes over only after it has seen the Lease unchanged for the whole lease duration by its own clock. The renew deadline
is shorter than the lease duration, so the two periods cannot overlap, whatever the wall clocks say.

A process that was frozen may find the Lease free again, or even in its own name, although another one held it
meanwhile. So a holding is one Lease object and one number of transitions, which each acquisition raises, also after one
of the same name: a Lease that shows another number is lost first, and acquired only by a later attempt.

The holder renews with one request, over the version that it wrote last. Another write in between makes that a 409, and
then the Lease is read before it is written again.

Source: client-go tools/leaderelection. Its times are 15 s / 10 s / 2 s, so a group whose holder was killed waits 20 s.
A third of them makes that 7 s, for three requests, one of them a write, in two seconds from two replicas.
Losing the Lease in an outage of 4 s costs nothing: a standby keeps its watches.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from .pods.position import WatchPosition
from .problem import KubeProblem, KubeProblemKind
from .transport import LEASES, Json, Transport

_log = logging.getLogger(__name__)

_OTHER_VERSION: Final = (KubeProblemKind.CONFLICT, KubeProblemKind.NOT_FOUND)
"""What a write answers when the Lease is no longer as it was."""
RELEASE_PAUSES_S: Final = (0.0, 0.1, 0.4, 0.8)
"""Waits before each try to release the Lease; another replica tries each second, and waits for its duration at most."""
POSITION_ANNOTATION: Final = "staticgroup.io/watch-position"
"""What a later process goes on from; a Lease without it, as one that was deleted, begins new watches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSettings:
    """Times of the Lease.

    Parameters
    ----------
    is_election_enabled: False for a single replica; the Lease then only keeps the position of the pod watch.
    """

    namespace: str
    name: str = "staticgroup-operator"
    lease_duration_s: float = 5.0
    renew_deadline_s: float = 3.5
    retry_period_s: float = 1.0
    is_election_enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What distinguishes one holding of the Lease from every other.

    Parameters
    ----------
    lease_uid: metadata.uid of the Lease. transitions: its spec.leaseTransitions while it is held.
    """

    lease_uid: str
    transitions: int


class ActiveLease:
    """Acquire, renew and release the Lease.

    Parameters
    ----------
    identity: unique name of this replica.
    position: what to store with each renewal; None keeps what is stored.
    on_went_back: called with a reason when the Lease is read in a version older than one that was seen.
    clock_s: monotonic seconds; now_s: seconds since the Unix epoch, only for the times shown to people.
    sleep: waits between attempts and between readings that failed, seconds.

    Attributes
    ----------
    holding: of this replica, with a lower number than any later one; None while it has none.
    """

    def __init__(
        self, transport: Transport, settings: LeaseSettings, *, identity: str,
        position: Callable[[], WatchPosition | None], clock_s: Callable[[], float], now_s: Callable[[], float],
        sleep: Callable[[float], Any] = asyncio.sleep, on_went_back: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._transport = transport
        self._settings = settings
        self._on_went_back = on_went_back
        self._identity = identity
        self._position = position
        self._clock_s = clock_s
        self._now_s = now_s
        self._sleep = sleep
        self._observed = ("", 0.0)
        """The version of the Lease seen last, and when that was first seen, monotonic seconds."""
        self._renewed_s: float | None = None
        self._begun_s: float | None = None
        self.holding: Holding | None = None
        self._written: Json | None = None
        self._transitions_seen = -1
        self._version_seen = ""

    def holds(self) -> bool:
        """True while this replica may act; ends by itself when renewals stay without success."""
        if not self._settings.is_election_enabled:
            return True
        return self._renewed_s is not None and self._clock_s() - self._renewed_s < self._settings.renew_deadline_s

    async def read_position(self) -> WatchPosition | None:
        """Read what the last holder stored, asking again until the API server answers.

        Returns
        -------
        None when the Lease does not exist or holds nothing readable: then new watches begin. A refusal or no answer is
        no such result, because new watches would hold removals back.
        """
        while isinstance(raw := await self._read(), KubeProblem):
            _log.warning("waiting for the Lease to be readable", extra={"problem": raw.message})
            await self._sleep(self._settings.retry_period_s)
        self._take_reading(raw)
        text = (((raw or {}).get("metadata") or {}).get("annotations") or {}).get(POSITION_ANNOTATION)
        return WatchPosition.from_json(text) if isinstance(text, str) else None

    async def run(self, *, on_acquired: Callable[[], None], on_lost: Callable[[], None]) -> None:
        """Try to hold the Lease until cancelled, then release it.

        Parameters
        ----------
        on_acquired, on_lost: called at each change of `holds()` that this loop notices, and both, in the order lost,
            acquired, when another process held the Lease between two attempts; `holds()` is False until then.
        """
        held = False
        try:
            while True:
                if held and self.holding is None and self._settings.is_election_enabled:
                    held = False  # a round has found that somebody else had it (`confirm`)
                    on_lost()
                await self.attempt()
                if self.holds() != held:
                    held = not held
                    (on_acquired if held else on_lost)()
                await self._sleep(self._pause_s())
        finally:
            await asyncio.shield(self.release())

    def _pause_s(self) -> float:
        """Renew twice before the deadline; after a failure, or while another holds the Lease, retry as configured."""
        settings, is_renewed = self._settings, self._renewed_s is not None and self._renewed_s == self._begun_s
        return max(settings.retry_period_s, settings.renew_deadline_s / 2) if is_renewed else settings.retry_period_s

    async def attempt(self) -> bool:
        """Take or renew the Lease when that is due; the answer is `holds()`."""
        begun_s = self._begun_s = self._clock_s()
        # No answer in time changes nothing: `holds` ends by our own clock.
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.renew_deadline_s):
                await self._attempt(begun_s)
        return self.holds()

    async def _attempt(self, begun_s: float) -> None:
        written, self._written, before = self._written, None, self.holding
        if written is not None and self.holding is not None:
            answer = await self._put(written)
            if not isinstance(answer, KubeProblem):
                self._accept(answer, begun_s)
            if not isinstance(answer, KubeProblem) or answer.kind not in _OTHER_VERSION:
                return
        raw = await self._read()
        if isinstance(raw, KubeProblem):
            return
        if self._is_overtaken(raw) or self.holding != before:  # also where a round has found so meanwhile (`confirm`)
            # Lost first and acquired by a later attempt: what the other holder wrote is to be read again.
            self._lose()
            return
        if raw is None:
            await self._write(None, begun_s)
            return
        self._observe(raw)
        spec = raw.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder in ("", self._identity) or self._is_expired(spec) or not self._settings.is_election_enabled:
            await self._write(raw, begun_s)

    def _is_overtaken(self, raw: Json | None) -> bool:
        """True when this replica had the Lease and somebody else may have had it since."""
        return self._settings.is_election_enabled and self.holding not in (None, self._holding_in(raw))

    def _holding_in(self, raw: Json | None) -> Holding | None:
        """Return the holding that a version of the Lease shows; None when it is not in this replica's name."""
        if raw is None or (raw.get("spec") or {}).get("holderIdentity") != self._identity:
            return None
        return Holding(lease_uid=raw["metadata"].get("uid", ""), transitions=_transitions_in(raw))

    def _lose(self) -> None:
        self._renewed_s = self.holding = self._written = None

    async def _read(self) -> Json | KubeProblem | None:
        """Read the Lease; None when it does not exist."""
        raw = await self._transport.call("get", LEASES, namespace=self._settings.namespace, name=self._settings.name)
        return None if isinstance(raw, KubeProblem) and raw.kind is KubeProblemKind.NOT_FOUND else raw

    def _observe(self, raw: Json) -> None:
        self._transitions_seen = max(self._transitions_seen, _transitions_in(raw))
        resource_version = raw["metadata"]["resourceVersion"]
        self._take_reading(raw)
        if self._observed[0] != resource_version:
            self._observed = resource_version, self._clock_s()

    def _take_reading(self, raw: Json | None) -> None:
        """Compare a reading with those before, also the one that the pod watch goes on from."""
        version = raw["metadata"]["resourceVersion"] if raw is not None else ""
        if is_older(version, seen := self._version_seen):
            self._on_went_back(f"the Lease was read at resourceVersion {version} after {seen} (etcd restored?)")
        self._version_seen = version or self._version_seen

    async def confirm(self) -> bool:
        """Ask the API server whether this replica's holding is still the present one; it is lost when it is not.

        Returns
        -------
        False also when there was no answer, which by itself loses nothing.
        """
        raw = await self._read()
        if isinstance(raw, KubeProblem):
            return False
        if self.holding is None or self._holding_in(raw) != self.holding:
            self._lose()
            return False
        return True

    def _is_expired(self, spec: Json) -> bool:
        """True when the Lease stayed unchanged for its whole duration by our own clock."""
        duration_s = spec.get("leaseDurationSeconds")
        duration_s = duration_s if isinstance(duration_s, int) and duration_s > 0 else self._settings.lease_duration_s
        return self._clock_s() - self._observed[1] >= duration_s

    async def _write(self, raw: Json | None, begun_s: float) -> None:
        answer = await self._put(raw)
        if not isinstance(answer, KubeProblem):
            self._accept(answer, begun_s)
        elif answer.kind is KubeProblemKind.CONFLICT:
            self._lose()

    async def _put(self, raw: Json | None, **changes: object) -> Json | KubeProblem:
        """Write the Lease, with changes of what we want of its spec, over a version of it; None creates it."""
        own, body = self._settings, self._body(raw)
        body["spec"] |= changes
        if raw is None:
            return await self._transport.call("create", LEASES, namespace=own.namespace, body=body)
        return await self._transport.call("update", LEASES, namespace=own.namespace, name=own.name, body=body)

    def _accept(self, answer: Json, begun_s: float) -> None:
        """Take note of a version that we wrote."""
        self._observe(answer)
        self.holding = self._holding_in(answer)
        self._written = answer
        # The deadline runs from before the request: the server may have granted it as early as that.
        self._renewed_s = begun_s

    def _body(self, raw: Json | None) -> Json:
        """Build the Lease as we want it; its resourceVersion makes the write conditional."""
        spec = dict((raw or {}).get("spec") or {})
        now = datetime.fromtimestamp(self._now_s(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if self.holding is None or self._holding_in(raw) != self.holding:
            # Above every number seen, so that a Lease that was deleted and made again counts on.
            spec["leaseTransitions"] = self._transitions_seen + 1
            spec["acquireTime"] = now
        spec |= {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, int(self._settings.lease_duration_s)),
            "renewTime": now,
        }
        # The whole metadata goes back, resourceVersion and other people's labels included.
        metadata = {k: v for k, v in ((raw or {}).get("metadata") or {}).items() if k != "managedFields"}
        metadata |= {"name": self._settings.name, "namespace": self._settings.namespace}
        annotations = dict(metadata.get("annotations") or {})
        position = self._position()
        if position is not None:
            annotations[POSITION_ANNOTATION] = position.to_json()
        body: Json = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec}
        body["metadata"] = metadata | {"annotations": annotations}
        return body

    async def release(self) -> bool:
        """Give the Lease up so that the next replica need not wait; True when it was ours and is free now.

        It retries while the Lease is ours: a busy API server refuses calls, and a renewal under way may land in
        between. After the duration there is nothing to give up.
        """
        if self._renewed_s is None:
            return False
        self._renewed_s = None
        try:
            async with asyncio.timeout(self._settings.lease_duration_s):
                for pause_s in RELEASE_PAUSES_S:
                    await self._sleep(pause_s)
                    is_free = await self._released()
                    if is_free is not None:
                        return is_free
        except TimeoutError:
            _log.warning("the Lease could not be given up")
        finally:
            self._lose()
        return False

    async def _released(self) -> bool | None:
        """Try to give the Lease up once; None when another try makes sense."""
        raw = await self._read()
        if isinstance(raw, KubeProblem):
            return None
        if raw is None or self._holding_in(raw) != self.holding:
            return False
        answer = await self._put(raw, holderIdentity="", leaseDurationSeconds=1)
        return None if isinstance(answer, KubeProblem) else True


def is_older(read: str, seen: str) -> bool:
    """Compare two resourceVersions of one object, which only grow (KEP-5504); what is no number is never older."""
    return read.isdigit() and seen.isdigit() and int(read) < int(seen)


def _transitions_in(raw: Json) -> int:
    found = (raw.get("spec") or {}).get("leaseTransitions")
    return found if isinstance(found, int) else 0
