"""Future work of KIP-345 that no Kafka has, as switches of the model; all off by default.

*Pre-registration*: a request announces the instance ids of a group's next members. New ones wait, and
departures leave their partitions idle, until the announced set is complete or the wait is over; then the group
rebalances once, whichever way it scales. A rebalance that happens anyway takes the waiting ones along.

*Hot standby*: a group has a target size. Members beyond it join without a rebalance and are given nothing; when a
member is lost, a standby gets its assignment in the same generation, learns so from its next heartbeat, and no member
else notices.

*The remove command*: `--group-id g --group-instance-ids a,b`, a thin wrapper around LeaveGroup.

Plans live in memory only: they are lost at a fail-over, since Kafka has no record type for them.
Source: KIP-345, section Future Works, items 1 to 3; item 4 is the assignors' (see `assignors`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from ..base.errors import ErrorCode, GroupError
from ..base.messages import (
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    Request,
    Response,
)
from ..base.result import Result, Step
from ..base.shard import ErrorResponse, Expire, GroupPlan, Handler, Shard
from ..base.timers import TimerKey
from .group import ClassicGroup
from .member import is_legal_instance_id
from .plans import close, is_complete
from .rebalance import prepare_rebalance

MAX_REASON_LENGTH = 255
"""What clients cut a reason to (JoinGroupRequest.maybeTruncateReason, KIP-800)."""


class InvalidCommand(ValueError):  # it names what the user typed
    """The arguments of the remove command were not understood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanGroupRequest(Request):
    """Announce what a group is to become; needs READ on the group.

    Parameters
    ----------
    expected_instance_ids: the ids the group will consist of; None: unchanged. Empty: nothing is announced any more.
    wait_ms: how long to wait for the announced set at most.
    target_group_size: members beyond it stand by; None: unchanged, 0: no target.
    """

    api_version: int = 0
    group_id: str
    expected_instance_ids: tuple[str, ...] | None = None
    wait_ms: int = 60_000
    target_group_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanGroupResponse(Response):
    """Answer to PlanGroupRequest; waiting: how many announced ids are not there, or not gone, yet."""

    waiting: int = 0


class Entrance(Protocol):
    """What carries out requests: a coordinator."""

    def handle(self, request: Request, now_ms: int) -> Result:
        """Carry out one request."""


def plan_group(shard: Shard, step: Step, request: PlanGroupRequest) -> Response:
    """Carry out PlanGroupRequest; UNSUPPORTED_VERSION while the switch it needs is off."""
    settings = step.settings
    if request.expected_instance_ids is not None and not settings.pre_registration:
        raise GroupError(ErrorCode.UNSUPPORTED_VERSION, "pre_registration is off")
    if request.target_group_size is not None and not settings.hot_standby:
        raise GroupError(ErrorCode.UNSUPPORTED_VERSION, "hot_standby is off")
    if not all(is_legal_instance_id(i) for i in request.expected_instance_ids or ()):
        raise GroupError(ErrorCode.INVALID_REQUEST, "not a group instance id")
    plan = shard.plans.setdefault(request.group_id, GroupPlan())
    if request.target_group_size is not None:
        plan.target_size = request.target_group_size
    group = shard.groups.get(request.group_id)
    members = group.static_members if isinstance(group, ClassicGroup) else {}
    if request.expected_instance_ids is not None:
        plan.expected = frozenset(request.expected_instance_ids)
        step.arm(("classic-plan", request.group_id), request.wait_ms)
        if isinstance(group, ClassicGroup):
            _release_if_complete(shard, step, group, plan)
    return PlanGroupResponse(waiting=len(plan.expected ^ frozenset(members)) if plan.expected else 0)


def holds_join(shard: Shard, step: Step, request: JoinGroupRequest, group: ClassicGroup) -> bool:
    """Return whether a new static member's JoinGroup was set aside until all announced members are there.

    A second JoinGroup of the same instance id fences the one set aside.
    """
    plan = shard.plans.get(group.group_id)
    instance_id = request.group_instance_id
    if plan is None or instance_id is None or instance_id not in plan.expected or not group.can_rebalance:
        return False
    if instance_id in plan.held:
        _, ticket = plan.held[instance_id]
        step.complete(ticket, JoinGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
    plan.held[instance_id] = (request, step.park())
    _release_if_complete(shard, step, group, plan)
    return True


def expire_plan(shard: Shard, step: Step, key: TimerKey) -> None:
    """Stop waiting for the announced set: rebalance with the members that are present."""
    plan = shard.plans.get(key[1])
    group = shard.groups.get(key[1])
    if plan is None:
        return
    if isinstance(group, ClassicGroup):
        _release(shard, step, group, plan)


def remove_request(arguments: Iterable[str]) -> LeaveGroupRequest:
    """Return what the remove command sends for `--group-id g --group-instance-ids a,b [--reason text]`.

    Raises InvalidCommand when the arguments are not understood.
    """
    options = _options(list(arguments))
    ids = [i for i in options.get("--group-instance-ids", "").split(",") if i]
    if not options.get("--group-id") or not ids or not all(is_legal_instance_id(i) for i in ids):
        raise InvalidCommand("need --group-id <id> and --group-instance-ids <id>[,<id>…]")
    reason = options.get("--reason", "removed by command")[:MAX_REASON_LENGTH]
    members = tuple(MemberIdentity(group_instance_id=i, reason=reason) for i in ids)
    return LeaveGroupRequest(group_id=options["--group-id"], members=members)


def remove_members(coordinator: Entrance, arguments: Iterable[str], now_ms: int) -> tuple[Result, list[str]]:
    """Carry out the remove command on a coordinator; returns the step's result and one line per instance id."""
    request = remove_request(arguments)
    result = coordinator.handle(request, now_ms)
    answer = result.response
    if not isinstance(answer, LeaveGroupResponse) or answer.error_code is not ErrorCode.NONE:
        return result, [f"{request.group_id}: {answer.error_code.name if answer is not None else 'no answer'}"]
    lines = [
        f"{m.group_instance_id}: {'removed' if m.error_code is ErrorCode.NONE else m.error_code.name}"
        for m in answer.members
    ]
    return result, lines


def _options(arguments: list[str]) -> dict[str, str]:
    names = arguments[::2]
    if len(arguments) % 2 or not set(names) <= {"--group-id", "--group-instance-ids", "--reason"}:
        raise InvalidCommand(f"not understood: {' '.join(arguments)}")
    return dict(zip(names, arguments[1::2], strict=True))


def _release_if_complete(shard: Shard, step: Step, group: ClassicGroup, plan: GroupPlan) -> None:
    if is_complete(group, plan):
        _release(shard, step, group, plan)


def _release(shard: Shard, step: Step, group: ClassicGroup, plan: GroupPlan) -> None:
    close(step, group, plan)
    if (plan.held or plan.rebalance_due) and group.can_rebalance:
        prepare_rebalance(shard, step, group)


HANDLERS: dict[type[Request], Handler] = {PlanGroupRequest: plan_group}
EXPIRE: dict[str, Expire] = {"classic-plan": expire_plan}
ACCESS: dict[type[Request], str] = {PlanGroupRequest: "READ"}
ERROR_RESPONSE: dict[type[Request], ErrorResponse] = {
    PlanGroupRequest: lambda request, error: PlanGroupResponse(error_code=error.code, error_message=error.message),
}
