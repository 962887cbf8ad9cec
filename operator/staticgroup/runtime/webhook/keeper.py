"""Keep a trusted certificate on show: read the stored one, renew it when that is due, and hand it to the server.

Every replica does the same, without a leader: the version of the Secret decides whose renewal counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ...kube.problem import KubeProblem, KubeProblemKind
from ...kube.webhook_objects import Bundles, StoredEntries, WebhookObjects
from . import certificates
from .certificates import CERTIFICATE, KEY

log = logging.getLogger(__name__)

READ_EVERY_S: Final = 10.0
"""How often the Secret is read, and so how soon the renewal of another replica is shown."""


@dataclass(slots=True)
class Keeper:
    """The certificates of one replica.

    Parameters
    ----------
    names: DNS names under which API servers call.
    is_own: certificates are made and rotated here; False where cert-manager does both, and only reads are made.
    show: takes certificate and key, as PEM; raises ValueError when they do not fit.
    now_s: seconds since the Unix epoch. monotonic_s: a clock that never goes back.
    """

    objects: WebhookObjects
    names: Sequence[str]
    is_own: bool
    show: Callable[[bytes, bytes], None]
    now_s: Callable[[], float]
    monotonic_s: Callable[[], float]
    _shown: tuple[bytes, bytes] | None = None
    _trusted: tuple[bytes, float] | None = None
    _problem: str = ""
    _logged: str = ""

    @property
    def is_showing(self) -> bool:
        """True once a certificate is on show."""
        return self._shown is not None

    async def run(self) -> None:
        """Check periodically, until cancelled."""
        while True:
            await self.check()
            await asyncio.sleep(READ_EVERY_S)

    async def check(self) -> None:
        """Bring the shown, stored and trusted certificates one step on; what prevents that is logged once."""
        self._problem = ""
        await self._step()
        if self._problem and self._problem != self._logged:
            log.warning("webhook certificates", extra={"problem": self._problem})
        self._logged = self._problem

    async def _step(self) -> None:
        stored = await self.objects.read_entries()
        if stored is None or isinstance(stored, KubeProblem):
            missing = "the Secret of the webhook does not exist; install the chart's"
            self._problem = missing if stored is None else stored.message
            return
        if self.is_own:
            stored = await self._renewed(stored) or stored
        self._show(stored)

    async def _renewed(self, stored: StoredEntries) -> StoredEntries | None:
        """Publish and renew what is due; returns the new version of the Secret where one was written."""
        known = certificates.parsed(stored.entries)
        published = await self.objects.read_bundles()
        if published is None or isinstance(published, KubeProblem):
            self._problem = "no MutatingWebhookConfiguration is installed" if published is None else published.message
            published = {}
        trusted_for_s = self._trusted_for_s(known.bundle(), published) if known is not None else 0.0
        wanted = certificates.due(known, self.names, now_s=self.now_s(), trusted_for_s=trusted_for_s)
        written: StoredEntries | None = None
        if wanted is not None:
            problem = await self.objects.write_entries(wanted.entries(), stored)
            if problem is not None:
                if problem.kind is not KubeProblemKind.CONFLICT:  # another replica was first, and this one reads again
                    self._problem = problem.message
                return None
            log.info("webhook certificates renewed", extra={"authorities": len(wanted.authorities)})
            written, known = StoredEntries(entries=wanted.entries(), resource_version=""), wanted
        if known is not None and set(published.values()) - {known.bundle()}:
            problem = await self.objects.write_bundle(known.bundle(), published)
            if problem is not None:
                self._problem = problem.message
        return written

    def _trusted_for_s(self, bundle: bytes, published: Bundles) -> float:
        """Return for how long a bundle has been seen published without a break, seconds."""
        now_s = self.monotonic_s()
        if set(published.values()) != {bundle}:
            self._trusted = None
            return 0.0
        if self._trusted is None or self._trusted[0] != bundle:
            self._trusted = (bundle, now_s)
        return now_s - self._trusted[1]

    def _show(self, stored: StoredEntries) -> None:
        pair = (stored.entries.get(CERTIFICATE, b""), stored.entries.get(KEY, b""))
        if pair == self._shown or not all(pair):
            return
        try:
            self.show(*pair)
        except (ValueError, OSError):
            self._problem = "the Secret of the webhook holds no certificate with its key"
            return
        self._shown = pair
        log.info("webhook certificate on show")
