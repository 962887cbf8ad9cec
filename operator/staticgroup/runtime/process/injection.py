"""Whether anything injects ids: reads the admission policies and the webhook, which an installation enables."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from functools import partial

from ...kube.gateway import KubeGateway
from ...kube.problem import KubeProblem, KubeProblemKind
from ...kube.transport import MUTATING_POLICIES, VALIDATING_POLICIES

Read = Callable[[], Awaitable[bool | KubeProblem]]

log = logging.getLogger(__name__)


class Part(StrEnum):
    """What may be installed; the webhook is for pods of every kind, the last two are for those of Deployments."""

    POLICY = "policy"
    WEBHOOK = "webhook"
    SLOTS_POLICY = "slots policy"
    FENCE = "fence"


CHECK_S = 60.0
RETRY_S = 2.0
"""While what injects is not there, or nobody said so yet."""


class Injection:
    """What is known of the admission policies and the webhook.

    Parameters
    ----------
    slots_name: of the policy for pods of Deployments and of the fence around their notes; empty: neither is asked for.
    is_outage: whether the API server is known to be away, which is logged once and not here.
    on_change: is called when one came or went.
    """

    def __init__(
        self, kube: KubeGateway, *, policy_name: str, webhook_name: str, slots_name: str = "",
        is_outage: Callable[[], bool], on_change: Callable[[], None],
    ) -> None:
        self._served: dict[Part, bool] = {}
        self._reads: dict[Part, Read] = {
            Part.POLICY: partial(kube.has_policy, MUTATING_POLICIES, policy_name),
            Part.WEBHOOK: partial(kube.has_webhook, webhook_name),
        }
        if slots_name:
            self._reads[Part.SLOTS_POLICY] = partial(kube.has_policy, MUTATING_POLICIES, slots_name)
            self._reads[Part.FENCE] = partial(kube.has_policy, VALIDATING_POLICIES, slots_name)
        self._is_outage, self._on_change = is_outage, on_change
        self._known = asyncio.Event()
        self._logged: dict[str, str] = {}

    def serves(self, part: Part) -> bool:
        """Return whether a part is there, as far as is known."""
        return self._served.get(part, False)

    async def wait_known(self) -> None:
        """Return once the API server has said what is there, or that it may not be asked."""
        await self._known.wait()

    async def read(self) -> dict[Part, KubeProblem]:
        """Ask once; what cannot be read stays as it was known, and is returned with why."""
        answers = {what: await read() for what, read in self._reads.items()}
        self._served |= {what: a for what, a in answers.items() if not isinstance(a, KubeProblem)}
        return {what: a for what, a in answers.items() if isinstance(a, KubeProblem)}

    async def follow(self) -> None:
        """Ask until cancelled."""
        while True:
            before = dict(self._served)
            problems = await self.read()
            self._tell(problems)
            if self._served != before:
                self._on_change()
            if all(problem.kind is KubeProblemKind.FORBIDDEN for problem in problems.values()):
                self._known.set()
            await asyncio.sleep(CHECK_S if self._is_whole() else RETRY_S)

    def _is_whole(self) -> bool:
        """Return whether pods of every kind that is served are injected into."""
        is_policy, is_webhook, is_slots_policy, is_fence = map(self.serves, Part)
        is_for_slots = is_fence and (is_slots_policy or is_webhook)
        return (is_policy or is_webhook) and (is_for_slots or Part.FENCE not in self._reads)

    def _tell(self, problems: Mapping[Part, KubeProblem]) -> None:
        for what, problem in problems.items():
            if problem.message != self._logged.get(what) and not self._is_outage():
                log.warning("injection %s cannot be read", what, extra={"problem": problem.message})
                self._logged[what] = problem.message
