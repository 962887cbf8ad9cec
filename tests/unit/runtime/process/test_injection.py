"""What is known of the policies, the webhook and the fence, from answers that come, fail and change."""

import pytest

from staticgroup.kube.gateway import KubeGateway
from staticgroup.kube.problem import KubeProblem, KubeProblemKind
from staticgroup.kube.transport import MUTATING_POLICIES, Resource
from staticgroup.runtime.process.injection import Injection, Part

SILENT = KubeProblem(
    kind=KubeProblemKind.UNAVAILABLE, verb="get", resource="policies", namespace="", status=503, message="away"
)


class Answers(KubeGateway):
    """The gateway, with answers by what is asked for."""

    def __init__(self, **answers: bool | KubeProblem) -> None:
        self.answers, self.asked = answers, []

    async def _answer(self, what: str) -> bool | KubeProblem:
        self.asked.append(what)
        return self.answers.get(what, False)

    async def has_policy(self, resource: Resource, name: str) -> bool | KubeProblem:
        return await self._answer(f"{'policy' if resource is MUTATING_POLICIES else 'fence'}_{name}")

    async def has_webhook(self, name: str) -> bool | KubeProblem:
        return await self._answer(f"webhook_{name}")


def injection(kube: Answers, slots_name: str = "slots") -> Injection:
    return Injection(
        kube, policy_name="inject", webhook_name="inject", slots_name=slots_name, is_outage=lambda: False,
        on_change=lambda: None,
    )  # fmt: skip


async def test_each_of_the_four_is_read_by_its_name() -> None:
    kube = Answers(policy_inject=True, policy_slots=True, fence_slots=True)
    known = injection(kube)
    assert [part for part in Part if known.serves(part)] == []
    assert await known.read() == {}
    assert [part for part in Part if known.serves(part)] == [Part.POLICY, Part.SLOTS_POLICY, Part.FENCE]


async def test_without_deployments_nothing_of_slots_is_asked_for() -> None:
    """There is no right to read it then."""
    kube = Answers(policy_inject=True, policy_slots=True, fence_slots=True)
    known = injection(kube, slots_name="")
    assert await known.read() == {}
    assert [part for part in Part if known.serves(part)] == [Part.POLICY]
    assert kube.asked == ["policy_inject", "webhook_inject"]


async def test_what_cannot_be_read_stays_as_it_was_known() -> None:
    kube = Answers(policy_inject=True, policy_slots=True, fence_slots=True)
    known = injection(kube)
    await known.read()
    kube.answers |= {"fence_slots": SILENT, "policy_slots": False}
    assert await known.read() == {"fence": SILENT}
    assert [part for part in Part if known.serves(part)] == [Part.POLICY, Part.FENCE]


@pytest.mark.parametrize(
    ("answers", "is_whole"),
    [
        ({"policy_inject": True, "policy_slots": True, "fence_slots": True}, True),
        ({"webhook_inject": True, "fence_slots": True}, True),
        ({"policy_inject": True, "policy_slots": True}, False),
        ({"policy_inject": True, "fence_slots": True}, False),
        ({"policy_slots": True, "fence_slots": True}, False),
    ],
)
async def test_it_asks_seldom_only_once_all_kinds_of_pods_are_served(
    answers: dict[str, bool], is_whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    class Enough(Exception):
        pass

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        raise Enough

    monkeypatch.setattr("staticgroup.runtime.process.injection.asyncio.sleep", sleep)
    with pytest.raises(Enough):
        await injection(Answers(**answers)).follow()
    assert waited == ([60.0] if is_whole else [2.0])
