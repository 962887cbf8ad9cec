"""Find out which rights the operator's principal has, by calls that change nothing.

Why: a person who installs the operator wants one list of what to grant. One idea: make each harmless call once and
read the right off its error code; the broker checks rights before anything else.
Source: KafkaApis.handleHeartbeatRequest, ConfigHelper; Kafka's authorization reference.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from ..core.group import GroupView, KafkaProblem, KafkaProblemKind
from .bounds import BROKER_KEYS, GROUP_KEYS
from .calls.settings import BROKER_RESOURCE, GROUP_RESOURCE, alter_group_config, describe_configs, heartbeat
from .errors import Code, Refusal, problem_of
from .pool import Attempt, ClusterPool
from .wire import Api

NOBODY = "staticgroup-rights-check"
"""A member id that no coordinator ever hands out (they end in a UUID)."""
_PROVES_NOTHING = (
    *(Code.unknown_server_error, Code.request_timed_out, Code.coordinator_load_in_progress),
    *(Code.coordinator_not_available, Code.invalid_request, Code.unsupported_version),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRights:
    """Which rights the operator's principal has; None where no answer shows it.

    Parameters
    ----------
    describe_group: without it the others stay None: nobody may know who coordinates the group.
    describe_topics: None of a classic group, which does not need it.
    alter_configs_group: None where it is not asked for.
    missing: the rights that are missing, in Kafka's words.
    """

    describe_group: bool
    read_group: bool | None = None
    describe_topics: bool | None = None
    describe_configs_group: bool | None = None
    describe_configs_cluster: bool | None = None
    alter_configs_group: bool | None = None
    missing: tuple[str, ...] = ()


def rights_of(group_id: str, *, alters: bool) -> Attempt[GroupRights]:
    """Return the attempt to try the rights, READ by a heartbeat of nobody, ALTER_CONFIGS only where it `alters`."""

    async def attempt(pool: ClusterPool, deadline_s: float) -> GroupRights:
        node = (await pool.coordinators((group_id,), deadline_s))[group_id]
        if isinstance(node, Refusal):
            if node.problem.kind is not KafkaProblemKind.NOT_AUTHORIZED:
                raise node
            return GroupRights(describe_group=False, missing=(node.problem.missing_acl,))
        connection = await pool.connection_to(node, deadline_s)
        missing: list[str] = []

        def granted(api: Api, code: int) -> bool | None:
            if code in _PROVES_NOTHING:
                return None
            problem = problem_of(api, code, group_id=group_id, principal=pool.settings.principal)
            if problem.kind is KafkaProblemKind.NOT_AUTHORIZED:
                missing.append(problem.missing_acl)
            return problem.kind is not KafkaProblemKind.NOT_AUTHORIZED

        beat = await connection.call(heartbeat(group_id, NOBODY), deadline_s)
        wanted: dict[tuple[int, str], Sequence[str]] = {
            (GROUP_RESOURCE, group_id): GROUP_KEYS[:1],
            (BROKER_RESOURCE, str(node.node_id)): BROKER_KEYS,
        }
        answers = await connection.call(describe_configs(wanted), deadline_s)
        codes = {answer.resource_type: answer.error_code for answer in answers}
        altered = unknown = int(Code.unknown_server_error)
        if alters:  # takes a setting back, if it were not only tried
            call = alter_group_config(group_id, {GROUP_KEYS[0]: None}, is_tried_only=True)
            altered = await connection.call(call, deadline_s)
        return GroupRights(
            describe_group=True,
            read_group=granted(Api.HEARTBEAT, beat),
            describe_configs_group=granted(Api.DESCRIBE_CONFIGS, codes.get(GROUP_RESOURCE, unknown)),
            describe_configs_cluster=granted(Api.DESCRIBE_CONFIGS, codes.get(BROKER_RESOURCE, unknown)),
            alter_configs_group=granted(Api.INCREMENTAL_ALTER_CONFIGS, altered),
            missing=tuple(missing),
        )

    return attempt


def with_topic_right(rights: GroupRights, view: GroupView | KafkaProblem) -> GroupRights:
    """Add what a describe shows of DESCRIBE on the topics; only a KIP-848 or streams group needs that right."""
    if isinstance(view, KafkaProblem) and view.kind is KafkaProblemKind.NOT_AUTHORIZED:
        return dataclasses.replace(rights, describe_topics=False, missing=(*rights.missing, view.missing_acl))
    if isinstance(view, GroupView) and view.group_epoch is not None:
        return dataclasses.replace(rights, describe_topics=True)
    return rights
