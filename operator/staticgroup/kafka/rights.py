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
from .answers import BrokerNode
from .bounds import BROKER_KEYS, GROUP_KEYS
from .calls.settings import BROKER_RESOURCE, GROUP_RESOURCE, alter_group_config, describe_configs, heartbeat
from .connection import BrokerConnection
from .errors import Code, problem_of
from .wire import Api

NOBODY = "staticgroup-rights-check"
"""A member id that no coordinator ever hands out (they end in a UUID)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRights:
    """Which rights the operator's principal has; None where it could not be told.

    Parameters
    ----------
    describe_group: without it the others are not told: nobody may know who coordinates the group.
    describe_topics: only told for a KIP-848 or streams group.
    alter_configs_group: only told where it is asked for.
    missing: the rights that are missing, in Kafka's words.
    """

    describe_group: bool
    read_group: bool | None = None
    describe_topics: bool | None = None
    describe_configs_group: bool | None = None
    describe_configs_cluster: bool | None = None
    alter_configs_group: bool | None = None
    missing: tuple[str, ...] = ()


async def try_rights(
    connection: BrokerConnection, node: BrokerNode, group_id: str, principal: str, deadline_s: float, *, alters: bool = False
) -> GroupRights:
    """Try READ on the group, DESCRIBE_CONFIGS on group and cluster and, where `alters`, ALTER_CONFIGS on the group."""
    missing: list[str] = []

    def granted(api: Api, code: int) -> bool | None:
        """Read a right off an error code, and note the ACL when it is missing; None when the code tells nothing."""
        if code in _PROVES_NOTHING:
            return None
        problem = problem_of(api, code, group_id=group_id, principal=principal)
        if problem.kind is KafkaProblemKind.NOT_AUTHORIZED:
            missing.append(problem.missing_acl)
            return False
        return True

    beat = await connection.call(heartbeat(group_id, NOBODY), deadline_s)
    wanted: dict[tuple[int, str], Sequence[str]] = {
        (GROUP_RESOURCE, group_id): GROUP_KEYS[:1],
        (BROKER_RESOURCE, str(node.node_id)): BROKER_KEYS,
    }
    answers = await connection.call(describe_configs(wanted), deadline_s)
    codes = {answer.resource_type: answer.error_code for answer in answers}
    altered = None
    if alters:  # takes a setting back, if it were not only tried
        altered = await connection.call(alter_group_config(group_id, {GROUP_KEYS[0]: None}, is_tried_only=True), deadline_s)
    return GroupRights(
        describe_group=True,
        read_group=granted(Api.HEARTBEAT, beat),
        describe_configs_group=granted(Api.DESCRIBE_CONFIGS, codes.get(GROUP_RESOURCE, Code.UNKNOWN_SERVER_ERROR)),
        describe_configs_cluster=granted(
            Api.DESCRIBE_CONFIGS, codes.get(BROKER_RESOURCE, Code.UNKNOWN_SERVER_ERROR)
        ),
        alter_configs_group=None if altered is None else granted(Api.INCREMENTAL_ALTER_CONFIGS, altered),
        missing=tuple(missing),
    )


_PROVES_NOTHING = frozenset(
    {
        Code.UNKNOWN_SERVER_ERROR,
        Code.REQUEST_TIMED_OUT,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.INVALID_REQUEST,
        Code.UNSUPPORTED_VERSION,
    }
)


def with_topic_right(rights: GroupRights, view: GroupView | KafkaProblem) -> GroupRights:
    """Add what a describe tells about DESCRIBE on the topics; only a KIP-848 or streams group needs that right."""
    topics: bool | None = None
    missing = rights.missing
    if isinstance(view, KafkaProblem) and view.kind is KafkaProblemKind.NOT_AUTHORIZED:
        topics, missing = False, (*missing, view.missing_acl)
    elif isinstance(view, GroupView) and view.group_epoch is not None:
        topics = True
    return dataclasses.replace(rights, describe_topics=topics, missing=missing)
