"""Applications of real frameworks as users write them: the ids of their clients, and the cost of a restart.

The one idea: what a client makes of the id that it is given is read from DescribeGroups, never from the spec. An
application may be several members of a group, and its pods members of several groups; each group has a StaticGroup of
its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
import yaml

from support.devcluster.cluster import Cluster
from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEvent, GroupEventKind
from support.frameworks.images import FRANZ_IMAGE, SPRING_IMAGE, load_franz_image, load_spring_image
from support.jvm_workload.image import JVM_WORKLOAD_IMAGE, load_jvm_workload_image
from support.scene.figures import prompt_s, record, spread
from support.scene.play import Play
from support.scene.stage import REPOSITORY
from support.scene.witnesses import ProcessTable, is_operators
from support.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(400)]

PODS: Final = 2
SESSION: Final = {"sessionTimeout": {"seconds": 120}}
REMOVED_WITHIN_S: Final = 60.0
"""Half a session: what takes longer was not the operator's work."""
ACKNOWLEDGED_S_MAX: Final = prompt_s(3.0, otherwise_s=30)
DEPARTURES: Final = (GroupEventKind.REMOVED, GroupEventKind.LEFT, GroupEventKind.SESSION_EXPIRED, GroupEventKind.FENCED)
Json = dict[str, Any]


def sampled_client(name: str) -> Json:
    """Return the client that a sample asks for, so that no sample says anything else than what was tried."""
    text = (REPOSITORY / "deploy" / "samples" / f"framework-{name}.yaml").read_text(encoding="utf-8")
    (group,) = [body for body in yaml.safe_load_all(text) if body["kind"] == "StaticGroup"]
    client: Json = group["spec"].get("client", {})
    return client


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """The members of one group in a pod.

    Parameters
    ----------
    group: what its name adds to the play's; also that of its StaticGroup.
    appended: what the ids of a pod have behind what `status.injected.idTemplate` says; of the frameworks' sources, not
        of the spec.
    """

    client: Json
    appended: Sequence[str]
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """What pods run. `environment` may name the play by {play}."""

    image: str
    load: Callable[[Cluster], None]
    groups: Sequence[Members]
    environment: Mapping[str, str] = field(default_factory=dict)


def consumer(prefix: str, suffix: str) -> Json:
    """Return an entry of client.env: the variables and the suffix of one consumer."""
    return {
        "instanceIdName": f"{prefix}_GROUP_INSTANCE_ID", "sessionTimeoutName": f"{prefix}_SESSION_TIMEOUT_MS",
        "suffix": suffix,
    }  # fmt: skip


SPRING_ALONE: Final = Members(client={"type": "SpringBoot"}, appended=("-0",))
SPRING_PAIR: Final = Members(client=sampled_client("spring-boot"), appended=("-0", "-1"))
SECOND_PAIR: Final = Members(
    client={"type": "Custom", "suffixes": ["-0", "-1"], "env": [consumer("SECOND", "-second")]},
    appended=("-second-0", "-second-1"),
    group="-second",
)
FRANZ_PAIRS: Final = tuple(
    Members(
        client={
            "type": "Custom",
            "env": [consumer(f"{p}_A", f"-{p.lower()}-a"), consumer(f"{p}_B", f"-{p.lower()}-b")],
        },
        appended=(f"-{p.lower()}-a", f"-{p.lower()}-b"), group=group,
    )
    for p, group in (("ORDERS", ""), ("AUDIT", "-audit"))
)  # fmt: skip
APPLICATIONS: Final[Mapping[str, Application]] = {
    "plain Java": Application(
        image=JVM_WORKLOAD_IMAGE, load=load_jvm_workload_image,
        groups=[Members(client=sampled_client("plain-java"), appended=("",))],
    ),
    "franz-go": Application(
        image=FRANZ_IMAGE, load=load_franz_image,
        groups=[Members(client=sampled_client("franz-go"), appended=("",))],
    ),
    "Spring Boot, concurrency 1": Application(image=SPRING_IMAGE, load=load_spring_image, groups=[SPRING_ALONE]),
    "Spring Boot, concurrency 2": Application(
        image=SPRING_IMAGE, load=load_spring_image, groups=[SPRING_PAIR], environment={"CONCURRENCY": "2"}
    ),
    "Spring Boot, two groups of two listeners": Application(
        image=SPRING_IMAGE, load=load_spring_image, groups=[SPRING_PAIR, SECOND_PAIR],
        environment={"CONCURRENCY": "2", "SECOND_GROUP": "{play}-second"},
    ),
    "franz-go, two groups of two clients": Application(
        image=FRANZ_IMAGE,
        load=load_franz_image,
        groups=FRANZ_PAIRS,
        environment={"CONSUMERS": "{play}/ORDERS_A {play}/ORDERS_B {play}-audit/AUDIT_A {play}-audit/AUDIT_B"},
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Group:
    """One of the groups of a play, as its brokers tell."""

    game: Play
    members: Members

    @property
    def name(self) -> str:
        return f"{self.game.name}{self.members.group}"

    def declare(self, **client: Any) -> None:
        """Apply its StaticGroup; `client` replaces fields."""
        wish = self.game.static_group(client=self.members.client | client, groupId=self.name, **SESSION)
        wish["metadata"]["name"] = self.name
        self.game.stage.apply(wish)

    def status(self) -> Json:
        found: Json = (self.game.stage.get("ksg", self.name, self.game.name) or {}).get("status") or {}
        return found

    def condition(self, kind: str) -> Json:
        return next((c for c in self.status().get("conditions", []) if c["type"] == kind), {})

    def expected(self, ordinals: Sequence[int]) -> set[str]:
        """Return the ids of some pods, of the template that was issued and of what the frameworks append."""
        template = self.status()["injected"]["idTemplate"]
        bases = [template.replace("{podName}", f"{self.game.name}-{n}") for n in ordinals]
        return {base + text for base, text in itertools.product(bases, self.members.appended)}

    def held(self) -> dict[str, str]:
        """Return instance id to member id, once the group is stable; every member of these pods has to have one."""
        group = self.game.admin.describe_group(self.name)
        return {m.instance_id or m.member_id: m.member_id for m in group.members} if group.state == "Stable" else {}

    def events(self, since_ms: int, *kinds: GroupEventKind) -> list[GroupEvent]:
        return [e for e in self.game.brokers.group_log.events(self.name, since_ms=since_ms) if e.kind in kinds]

    def removals(self, since_ms: int) -> list[GroupEvent]:
        return [e for e in self.events(since_ms, GroupEventKind.REMOVED) if is_operators(e)]

    def rebalances(self, since_ms: int) -> int:
        return self.game.brokers.group_log.count_rebalances(self.name, since_ms)


def start(game: Play, application: Application, pods: int) -> list[Group]:
    """Apply StaticGroups, then the application once ids are issued; wait until all members have joined."""
    application.load(game.stage.cluster)
    groups = [Group(game, members) for members in application.groups]
    for group in groups:
        group.declare()
    for group in groups:
        what = f"ids of {group.name} to be issued"
        until(lambda g=group: g.status().get("injected"), deadline_s=30, what=what)  # type: ignore[misc]
    environment = {name: text.replace("{play}", game.name) for name, text in application.environment.items()}
    workload = game.stateful_set(pods, env=environment, grace_s=20, podManagementPolicy="Parallel")
    workload["spec"]["template"]["spec"]["containers"][0]["image"] = application.image
    game.stage.apply(workload)
    await_members(groups, range(pods), deadline_s=120)
    game.stage.kubectl("rollout", "status", f"statefulset/{game.name}", "-n", game.name, "--timeout=90s")
    return groups


def await_members(groups: Sequence[Group], ordinals: Sequence[int], deadline_s: float) -> None:
    """Wait until each group is stable and has exactly the members of these pods."""
    for group in groups:
        wanted = group.expected(ordinals)

        def joined(group: Group = group, wanted: set[str] = wanted) -> bool:
            return group.held().keys() == wanted

        until(joined, deadline_s=deadline_s, what=f"{sorted(wanted)} in {group.name}", poll_s=0.3)


def leave(game: Play, groups: Sequence[Group], table: ProcessTable) -> list[float]:
    """Scale the last pod away; returns the seconds from its visible end to each removal, by the brokers' log."""
    since_ms, leaving = now_ms(), {g.name: {i: g.held()[i] for i in g.expected([PODS - 1])} for g in groups}
    with game.watched() as watch:
        (pod,) = [p for p in game.pods() if p["metadata"]["name"] == f"{game.name}-{PODS - 1}"]
        game.scale(PODS - 1)
        for group in groups:
            gone = set(leaving[group.name].values())
            until(
                lambda g=group, gone=gone: {e.member_id for e in g.removals(since_ms)} == gone,  # type: ignore[misc]
                deadline_s=REMOVED_WITHIN_S,
                what=f"{len(gone)} members of {group.name} to be removed",
            )
        until(lambda: pod["metadata"]["uid"] in watch.pods, deadline_s=5, what="the watch to have seen the pod")
        terminal_at_ms = until(
            lambda: watch.pods[pod["metadata"]["uid"]].terminal_at_ms,
            deadline_s=10,
            what="the end of the pod in the watch",
        )
    removals = [e for g in groups for e in g.removals(since_ms)]
    ended_ms = max(
        life.last_seen_ms
        for ids in leaving.values()
        for i in ids
        for life in table.lives()
        if i.startswith(life.instance_id)
    )
    assert ended_ms < min(e.at_ms for e in removals)
    return [(e.at_ms - terminal_at_ms) / 1000 for e in removals]


@pytest.mark.parametrize("kind", APPLICATIONS)
def test_a_framework_joins_with_its_ids_is_rolled_quietly_and_let_go_at_once(
    new_play: Callable[..., Play], process_table: ProcessTable, kind: str
) -> None:
    game = new_play()
    application = APPLICATIONS[kind]
    groups = start(game, application, PODS)
    assert all(g.rebalances(game.since_ms) > 0 for g in groups)  # so the brokers' log does tell of rebalances
    for group in groups:
        until(
            lambda g=group: g.condition("MembershipComplete").get("status") == "True",
            deadline_s=40,
            what="a complete group",
        )  # type: ignore[misc]

    rolled_at_ms, before = now_ms(), [g.held() for g in groups]
    game.roll()
    await_members(groups, range(PODS), deadline_s=60)
    rolled_s = round((now_ms() - rolled_at_ms) / 1000, 1)
    replaced = [len(g.events(rolled_at_ms, GroupEventKind.STATIC_MEMBER_REPLACED)) for g in groups]
    rebalances = [g.rebalances(rolled_at_ms) for g in groups]
    departed = [e for g in groups for e in g.events(rolled_at_ms, *DEPARTURES)]
    assert not {m for held in before for m in held.values()} & {m for g in groups for m in g.held().values()}

    acknowledged_s = leave(game, groups, process_table)
    await_members(groups, range(PODS - 1), deadline_s=60)
    record(
        kind, pods=PODS, members_per_pod=[len(g.members.appended) for g in groups], roll_s=rolled_s,
        members_replaced=replaced, rebalances_of_the_roll=rebalances, departures_of_the_roll=len(departed),
        acknowledged_s=spread(acknowledged_s),
    )  # fmt: skip
    assert replaced == [PODS * len(g.members.appended) for g in groups]
    assert rebalances == [0] * len(groups)
    assert departed == []
    assert max(acknowledged_s) <= ACKNOWLEDGED_S_MAX
    assert [e for g in groups for e in g.events(game.since_ms, GroupEventKind.SESSION_EXPIRED)] == []


def test_more_listeners_than_the_spec_expects_are_named_with_the_field_to_set(new_play: Callable[..., Play]) -> None:
    """A container with concurrency 2 that is said to have 1: no member is removed, and the status names the remedy."""
    game = new_play()
    (group,) = start(game, APPLICATIONS["Spring Boot, concurrency 2"], 1)
    members = group.held()
    group.declare(concurrency=1)
    until(
        lambda: group.condition("MembershipComplete").get("reason") == "SuffixMismatch",
        deadline_s=40,
        what="the suffix to be named",
    )
    said = group.condition("MembershipComplete")["message"]
    assert f"1 members nearly match, such as {max(members)} for pod {game.name}-0" in said
    assert "Set spec.client.concurrency to 2" in said
    assert [(e["kind"], e["reason"], e["podName"]) for e in group.status["issues"]] == [
        ("Foreign", "UnknownSuffix", f"{game.name}-0")
    ]
    group.declare(concurrency=2)
    until(lambda: group.condition("MembershipComplete").get("status") == "True", deadline_s=40, what="a complete group")
    assert group.held() == members
    assert group.removals(game.since_ms) == []
