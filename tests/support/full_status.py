"""A status in which every field is set to something else than its default, so that whatever loses one is found."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from pydantic import BaseModel

from staticgroup.api.names import INSTANCE_ID_ANNOTATION
from staticgroup.api.reasons import ConditionStatus, ConditionType, Reason
from staticgroup.api.resources import injected, memory
from staticgroup.api.resources import status as api
from staticgroup.api.resources.absences import Absences, CauseOfAbsences
from staticgroup.api.schema import Condition, with_conditions
from staticgroup.core.absences.samples import SAMPLES_MAX, Cause, Sample, text_of
from staticgroup.core.members.carriers import UNSEEN

T0 = datetime(2026, 1, 2, 3, 4, 5, 250_000, tzinfo=UTC)
LATER = T0 + timedelta(minutes=5)
MEMBER_ID = "orders-consumer-4.3fa9c1d2-3f2b0a52-8f5e-4b0e-9d07-0b2f5a1c9c11"
FEW = 2


def full_status(*, is_crowded: bool = False) -> api.StaticGroupStatus:
    """Return a status with every field set.

    Parameters
    ----------
    is_crowded: every list is as long as it may be, with ids of a usual length; else it has two entries.
    """

    def so_many(most: int) -> int:
        return most if is_crowded else FEW

    ids = [f"orders-consumer-{number}.3fa9c1d2" for number in range(so_many(memory.SEATS_MAX))]
    return api.StaticGroupStatus(
        observed_generation=3,
        conditions=_conditions(),
        protocol=api.GroupProtocol.CONSUMER,
        group_state="Stable",
        injected=_injected(so_many(injected.INJECTED_IDS_MAX), so_many(injected.INJECTED_ENV_MAX)),
        members=api.MembersStatus(expected=4, joined=3, away=1, missing=1, departed=1, foreign=1, dynamic=1, conflicting=1),
        issues=[_issue(i) for i in ids[: api.ISSUES_MAX]],
        last_removal=api.LastRemoval(
            at=T0, instance_id=ids[0], member_id=MEMBER_ID, evidence="e" * 300, reason="scaled 5→4", count=2
        ),
        session_timeout=api.SessionTimeoutStatus(
            summary="45s→50s", seconds=45, longest_seconds=60, next_seconds=50, recommended_seconds=50, unknown_pods=1,
            source=api.TimeoutSource.BROKER, why="w" * 300,
        ),
        slots=api.Slots(
            held=2, kept=1,
            pods=[f"orders-{n}: pod a" for n in range(so_many(api.SLOTS_SHOWN_MAX))],
            waiting=["pod b waits"] * so_many(api.SLOTS_SHOWN_MAX),
        ),
        connect=api.Connect(
            connectors=3, tasks=12, unknown=1, rebalance_delay_seconds=60, waiting=4,
            workers=[
                api.ConnectWorker(instance_id=i, connectors=1, tasks=4) for i in ids[: so_many(api.CONNECT_WORKERS_MAX)]
            ],
        ),
        memory=memory.StatusMemory(
            static_group_uid="0b6f4e2c-9d3a-4a55-8f0e-6a1d2c3b4e5f",
            issued=memory.Issued(ordinals="0-4,7", templates=["{podName}"] * so_many(memory.TEMPLATES_MAX)),
            settling=[_settling(i) for i in ids[: memory.SETTLING_MAX]],
            timeout=memory.TimeoutMemory(own_ms=50_000, written_ms=60_000, next_ms=50_000),
            absences=_absences(so_many(len(Cause)), so_many(SAMPLES_MAX)),
            unread_topics=memory.UnreadTopicsMemory(
                topics=["payments"] * so_many(memory.UNREAD_TOPICS_MAX), since=T0, rebalanced_for=["refunds"], rebalanced_at=LATER
            ),
            left_on_close=memory.LeftOnCloseMemory(instance_id=ids[0], pod_name="p", at=T0, count=2),
            watch="2026-01-02T03:04:05.3f2b0a52.9c11",
            seal="5ea1ed5ea1ed5ea1",
            seats=[_seat(n, i) for n, i in enumerate(ids)],
            suspects=[_suspect(n, i) for n, i in enumerate(ids[: memory.SUSPECTS_MAX])],
            writer=memory.Writer(lease_uid="3f2b0a52-8f5e-4b0e-9d07-0b2f5a1c9c11", lease_transitions=7),
        ),
    )  # fmt: skip


def at_default(model: BaseModel, path: str = "") -> Iterator[str]:
    """Yield the path of every field that has its default; of a list's entries, of all of them."""
    for name, field in type(model).model_fields.items():
        value, here = getattr(model, name), f"{path}.{name}"
        if not field.is_required() and value == field.get_default(call_default_factory=True):
            yield here
        elif isinstance(value, BaseModel):
            yield from at_default(value, here)
        elif isinstance(value, list) and value and isinstance(value[0], BaseModel):
            yield from set.intersection(*(set(at_default(each, f"{here}[]")) for each in value))


def _conditions() -> list[Condition]:
    found = [(kind, ConditionStatus.UNKNOWN, Reason.NOT_OBSERVED_YET, "so") for kind in ConditionType]
    return list(with_conditions((), found, observed_generation=1, now=T0))


def _injected(ids: int, env: int) -> injected.InjectedStatus:
    return injected.InjectedStatus(
        scope="3fa9c1d2",
        method=injected.InjectedMethod.POLICY,
        id_template="{podName}.3fa9c1d2",
        session_timeout_ms=45_000,
        container="app",
        ids=[injected.InjectedId(annotation=f"{INSTANCE_ID_ANNOTATION}.{n}", suffix=f"-{n}") for n in range(ids)],
        env=[
            injected.InjectedEnv(
                container="app", name=f"ID_{n}", annotation=f"{INSTANCE_ID_ANNOTATION}.{n}", value=f"$(POD)-{n}",
                key=f"ID_{n}",
            )
            for n in range(env)
        ],
        worker=injected.InjectedWorker(
            container="app", agent=True, options_may_be_absent=True, host_variable="ADVERTISED_HOST_NAME"
        ),
    )


def _issue(instance_id: str) -> api.MemberIssue:
    return api.MemberIssue(
        instance_id=instance_id, pod_name="p", kind=api.IssueKind.SUSPECT, reason="EndNotSeen", message="m" * 300,
        since=T0,
    )  # fmt: skip


def _seat(number: int, instance_id: str) -> memory.SeatMember:
    """Every other one may be held by a pod that was not seen."""
    own = f"3f2b0a52-8f5e-4b0e-9d07-{number:012d}"
    carriers = [own] if number % 2 == 0 else [own, UNSEEN]
    return memory.SeatMember(id=instance_id, member="0123456789abcdef", first_seen=T0, carriers=carriers)


def _suspect(number: int, instance_id: str) -> memory.SuspectStatus:
    return memory.SuspectStatus(
        uid=f"3f2b0a52-8f5e-4b0e-9d07-{number:012d}", pod=f"orders-consumer-{number}", namespace="elsewhere",
        ids=[instance_id], since=T0, node="node", provider="aws", machine="0123456789abcdef", lost_run=True, addresses=["10.0.0.7"],
    )  # fmt: skip


def _settling(instance_id: str) -> memory.Settling:
    return memory.Settling(
        instance_id=instance_id, member_id=MEMBER_ID, coordinator="1 (b:9092)", acknowledged_at=T0, attempts=2,
        absent_since=T0, settled_at=LATER,
    )  # fmt: skip


def _absences(causes: int, samples: int) -> Absences:
    kept = [
        Sample(at_s=1_900_000_000 + n, lot=2**32 - 1 - n, longest_ms=86_400_000, shortest_ms=86_399_000)
        for n in range(samples)
    ]
    return Absences(
        causes=[
            CauseOfAbsences(cause=cause.value, seen=9, unmeasured=2, longest_ms=86_400_000, samples=text_of(kept))
            for cause in list(Cause)[:causes]
        ],
        timeout_ms=90_000, lower_since=T0, lower_ms=60_000,
    )  # fmt: skip
