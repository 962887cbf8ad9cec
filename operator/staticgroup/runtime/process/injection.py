"""Whether anything injects ids: reads the admission policies and the webhook, which an installation enables."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from ...kube.gateway import KubeGateway
from ...kube.problem import KubeProblem, KubeProblemKind

Read = Callable[[], Awaitable[bool | KubeProblem]]

log = logging.getLogger(__name__)

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
        self._served = dict.fromkeys(("policy", "webhook"), False)
        self._reads: dict[str, Read] = {
            "policy": partial(kube.has_policy, policy_name), "webhook": partial(kube.has_webhook, webhook_name)
        }
        if slots_name:
            self._reads["slots policy"] = partial(kube.has_policy, slots_name)
            self._reads["fence"] = partial(kube.has_fence, slots_name)
        self._is_outage, self._on_change = is_outage, on_change
        self._known = asyncio.Event()
        self._logged: dict[str, str] = {}

    @property
    def policy_served(self) -> bool:
        """Whether the admission policy is there."""
        return self._served["policy"]

    @property
    def webhook_served(self) -> bool:
        """Whether the webhook is there, which serves pods of Deployments too."""
        return self._served["webhook"]

    @property
    def slots_policy_served(self) -> bool:
        """Whether the policy for pods of Deployments is there."""
        return self._served.get("slots policy", False)

    @property
    def fence_served(self) -> bool:
        """Whether the fence is there, without which no note may be written into a pod."""
        return self._served.get("fence", False)

    async def wait_known(self) -> None:
        """Return once the API server has said what is there, or that it may not be asked."""
        await self._known.wait()

    async def read(self) -> dict[str, KubeProblem]:
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
        for_slots = self.fence_served and (self.slots_policy_served or self.webhook_served)
        return (self.policy_served or self.webhook_served) and (for_slots or "fence" not in self._reads)

    def _tell(self, problems: Mapping[str, KubeProblem]) -> None:
        for what, problem in problems.items():
            if problem.message != self._logged.get(what) and not self._is_outage():
                log.warning("injection %s cannot be read", what, extra={"problem": problem.message})
                self._logged[what] = problem.message
