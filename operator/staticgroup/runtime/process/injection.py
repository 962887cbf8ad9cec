"""Whether anything injects ids: reads the admission policy and the webhook, which an installation enables."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from ...kube.gateway import KubeGateway
from ...kube.problem import KubeProblem, KubeProblemKind

log = logging.getLogger(__name__)

CHECK_S = 60.0
RETRY_S = 2.0
"""While neither is there, or nobody said so yet."""


class Injection:
    """What is known of the admission policy and the webhook.

    Parameters
    ----------
    is_outage: whether the API server is known to be away, which is logged once and not here.
    on_change: is called when one came or went.
    """

    def __init__(
        self, kube: KubeGateway, *, policy_name: str, webhook_name: str, is_outage: Callable[[], bool],
        on_change: Callable[[], None],
    ) -> None:
        self.policy_served = self.webhook_served = False
        self._kube = kube
        self._policy_name, self._webhook_name = policy_name, webhook_name
        self._is_outage, self._on_change = is_outage, on_change
        self._known = asyncio.Event()
        self._logged: dict[str, str] = {}

    async def wait_known(self) -> None:
        """Return once the API server has said what is there, or that it may not be asked."""
        await self._known.wait()

    async def read(self) -> dict[str, KubeProblem]:
        """Ask once; what cannot be read stays as it was known, and is returned with why."""
        policy = await self._kube.has_policy(self._policy_name)
        webhook = await self._kube.has_webhook(self._webhook_name)
        self.policy_served = self.policy_served if isinstance(policy, KubeProblem) else policy
        self.webhook_served = self.webhook_served if isinstance(webhook, KubeProblem) else webhook
        return {what: p for what, p in (("policy", policy), ("webhook", webhook)) if isinstance(p, KubeProblem)}

    async def follow(self) -> None:
        """Ask until cancelled."""
        while True:
            before = (self.policy_served, self.webhook_served)
            problems = await self.read()
            self._tell(problems)
            if (self.policy_served, self.webhook_served) != before:
                self._on_change()
            if all(problem.kind is KubeProblemKind.FORBIDDEN for problem in problems.values()):
                self._known.set()
            await asyncio.sleep(CHECK_S if self.policy_served or self.webhook_served else RETRY_S)

    def _tell(self, problems: Mapping[str, KubeProblem]) -> None:
        for what, problem in problems.items():
            if problem.message != self._logged.get(what) and not self._is_outage():
                log.warning("injection %s cannot be read", what, extra={"problem": problem.message})
                self._logged[what] = problem.message
