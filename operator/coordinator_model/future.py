"""Future work of KIP-345 that no Kafka has, as switches of the model; all off by default.

*Pre-registration*: somebody announces the instance ids that a group is about to consist of. New ones wait, and
departures leave their partitions idle, until the announced set is complete or the wait is over; then the group
rebalances once, whichever way it scales. A rebalance that happens anyway takes the waiting ones along.

*Hot standby*: a group has a target size. Members beyond it join without a rebalance and are given nothing; when a
member is lost, a standby gets its assignment in the same generation, learns so from its next heartbeat, and nobody
else notices.

*The remove command*: `--group-id g --group-instance-ids a,b`, a thin wrapper around LeaveGroup.

Plans live in memory only: they are lost at a fail-over, since Kafka has no record type for them.
Source: KIP-345, section Future Works, items 1 to 3; item 4 is the assignors' (see `assignors`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .classic_group import STABLE, ClassicGroup
from .classic_member import ClassicMember, is_legal_instance_id, new_member
from .errors import ErrorCode, GroupError
from .messages import (
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    Request,
    Response,
)
from .result import Result, Step
from .timers import TimerKey

if TYPE_CHECKING:
    from .coordinator import Expire, GroupCoordinator, Handler


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


@dataclass(slots=True)
class GroupPlan:
    """What was announced for one group.

    Parameters
    ----------
    held: instance id → JoinGroup that waits for the others, and its ticket.
    rebalance_due: a departure has not been followed by a rebalance yet.
    """

    expected: frozenset[str] = frozenset()
    held: dict[str, tuple[JoinGroupRequest, int]] = field(default_factory=dict)
    rebalance_due: bool = False
    target_size: int = 0


def plan_group(coordinator: GroupCoordinator, step: Step, request: PlanGroupRequest) -> Response:
    """Carry out PlanGroupRequest; UNSUPPORTED_VERSION while the switch it needs is off."""
    settings = step.settings
    if request.expected_instance_ids is not None and not settings.pre_registration:
        raise GroupError(ErrorCode.UNSUPPORTED_VERSION, "pre_registration is off")
    if request.target_group_size is not None and not settings.hot_standby:
        raise GroupError(ErrorCode.UNSUPPORTED_VERSION, "hot_standby is off")
    if not all(is_legal_instance_id(i) for i in request.expected_instance_ids or ()):
        raise GroupError(ErrorCode.INVALID_REQUEST, "not a group instance id")
    plan = coordinator.plans.setdefault(request.group_id, GroupPlan())
    if request.target_group_size is not None:
        plan.target_size = request.target_group_size
    group = coordinator.groups.get(request.group_id)
    members = group.static_members if isinstance(group, ClassicGroup) else {}
    if request.expected_instance_ids is not None:
        plan.expected = frozenset(request.expected_instance_ids)
        step.arm(("classic-plan", request.group_id), request.wait_ms)
        if isinstance(group, ClassicGroup):
            _release_if_complete(coordinator, step, group, plan)
    return PlanGroupResponse(waiting=len(plan.expected ^ frozenset(members)) if plan.expected else 0)


def holds_join(coordinator: GroupCoordinator, step: Step, request: JoinGroupRequest, group: ClassicGroup) -> bool:
    """Return whether a new static member's JoinGroup was set aside until all announced members are there.

    A second JoinGroup of the same instance id fences the one set aside.
    """
    plan = coordinator.plans.get(group.group_id)
    instance_id = request.group_instance_id
    if plan is None or instance_id is None or instance_id not in plan.expected or not group.can_rebalance:
        return False
    if instance_id in plan.held:
        _, ticket = plan.held[instance_id]
        step.complete(ticket, JoinGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
    plan.held[instance_id] = (request, step.park())
    _release_if_complete(coordinator, step, group, plan)
    return True


def absorbs_removal(
    coordinator: GroupCoordinator, step: Step, group: ClassicGroup, removed: list[ClassicMember]
) -> bool:
    """Return whether the group goes on without a rebalance although it has lost these members."""
    plan = coordinator.plans.get(group.group_id)
    if plan is None or group.state != STABLE:
        return False
    if plan.expected and all(m.is_static and m.group_instance_id not in plan.expected for m in removed):
        plan.rebalance_due = True
        _release_if_complete(coordinator, step, group, plan)
        return True
    lost = [m for m in removed if m.assignment]
    if plan.target_size == 0 or len(lost) > len(group.standbys):
        return False
    _swap(coordinator, step, group, lost)
    return True


def admits_standby(coordinator: GroupCoordinator, step: Step, group: ClassicGroup, member: ClassicMember) -> bool:
    """Return whether a newcomer was taken in as a standby, in the generation that runs."""
    plan = coordinator.plans.get(group.group_id)
    if plan is None or plan.target_size == 0 or group.state != STABLE:
        return False
    if len(group.members) - len(group.standbys) < plan.target_size:
        return False
    if not any(p.name == group.protocol_name for p in member.protocols):
        return False
    member.is_new = False
    group.add(member)
    group.standbys.add(member.member_id)
    step.arm(("classic-session", group.group_id, member.member_id), member.session_timeout_ms)
    if coordinator.append(step, group.metadata_record()) is not ErrorCode.NONE:
        group.remove(member.member_id)
        return False
    return True


def before_rebalance(coordinator: GroupCoordinator, step: Step, group: ClassicGroup) -> None:
    """Take the members that were set aside into the round that begins."""
    group.swapped.clear()
    plan = coordinator.plans.get(group.group_id)
    if plan is None:
        return
    plan.rebalance_due = False
    for instance_id, (request, ticket) in plan.held.items():
        member = new_member(request, instance_id, f"{instance_id}-{step.new_uuid()}")
        group.add(member, ticket)
        key = ("classic-session", group.group_id, member.member_id)
        step.arm(key, step.settings.new_member_join_timeout_ms)
    plan.held.clear()


def choose_standbys(coordinator: GroupCoordinator, group: ClassicGroup) -> None:
    """Decide who stands by in the next generation: those beyond the target size, the leader and old hands last."""
    plan = coordinator.plans.get(group.group_id)
    group.standbys = set()
    if plan is None or plan.target_size == 0:
        return
    by_claim = sorted(group.members.values(), key=lambda m: (m.member_id != group.leader, not m.assignment))
    group.standbys = {m.member_id for m in by_claim[plan.target_size :]}


def expire_plan(coordinator: GroupCoordinator, step: Step, key: TimerKey) -> None:
    """Stop waiting for the announced set: rebalance with whoever is there."""
    plan = coordinator.plans.get(key[1])
    group = coordinator.groups.get(key[1])
    if plan is None:
        return
    if isinstance(group, ClassicGroup):
        _release(coordinator, step, group, plan)


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


def remove_members(coordinator: GroupCoordinator, arguments: Iterable[str], now_ms: int) -> tuple[Result, list[str]]:
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


def _release_if_complete(coordinator: GroupCoordinator, step: Step, group: ClassicGroup, plan: GroupPlan) -> None:
    present = frozenset(group.static_members) | frozenset(plan.held)
    if present == plan.expected:
        _release(coordinator, step, group, plan)


def _release(coordinator: GroupCoordinator, step: Step, group: ClassicGroup, plan: GroupPlan) -> None:
    from .classic_rebalance import prepare_rebalance  # the other way round it is imported at the top

    step.cancel(("classic-plan", group.group_id))
    plan.expected = frozenset()
    if (plan.held or plan.rebalance_due) and group.can_rebalance:
        prepare_rebalance(coordinator, step, group)


def _swap(coordinator: GroupCoordinator, step: Step, group: ClassicGroup, lost: list[ClassicMember]) -> None:
    waiting = [m for m in group.members.values() if m.member_id in group.standbys]
    for gone, standby in zip(lost, waiting, strict=False):
        standby.assignment = gone.assignment
        group.standbys.discard(standby.member_id)
        group.swapped.add(standby.member_id)
    coordinator.append(step, group.metadata_record())


HANDLERS: dict[type[Request], Handler] = {PlanGroupRequest: plan_group}
EXPIRE: dict[str, Expire] = {"classic-plan": expire_plan}
ACCESS: dict[type[Request], str] = {PlanGroupRequest: "READ"}
ERROR_RESPONSE: dict[type[Request], Callable[[Any, GroupError], Response]] = {
    PlanGroupRequest: lambda request, error: PlanGroupResponse(error_code=error.code, error_message=error.message),
}
