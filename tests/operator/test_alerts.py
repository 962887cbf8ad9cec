"""Hold the chart's alerts and its dashboard against a real Prometheus that scrapes the real operator.

The operator lives in the simulated world, and its own metrics page is served on loopback: whenever the world has moved
on it waits until Prometheus has looked again. So every alert has been raised, and every query of the dashboard has had
an answer, by what an operator really says. Alerts are also tried with series of their own by `promtool test rules`.
"""

import asyncio
import json
import math
import re
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from test_chart_variants import CHART, REPOSITORY, of_kind, render, the

from coordinator_model.base.settings import BrokerSettings
from simulation.stories import STORIES
from simulator.engine.log_capture import captured_logs
from simulator.engine.loop import run as run_simulation
from simulator.faults import FAULTS
from simulator.kubernetes.objects import DEPLOYMENTS, STATIC_GROUPS
from simulator.world.settings import deployed_team, plain_team
from simulator.world.teams import TOPIC, Team
from simulator.world.world import NAMESPACE, WORKLOAD, World, WorldSettings
from staticgroup.runtime.process.health import HealthServer
from staticgroup.runtime.process.metrics import Metrics
from support.fault_proxy.free_port import free_port
from support.prometheus import Prometheus, promtool, running
from support.waiting import until

ON = ("--set", "prometheusRule.enabled=true")
SYSTEM = "staticgroup-system"
"""What service discovery attaches as `namespace` to everything that is scraped from the operator's pods."""
STORY = {story.name: story for story in STORIES}
STEP_S = 8.0
"""Virtual seconds between two looks of Prometheus, which take a fifth of a real one each."""


def alerts(*options: str) -> dict[str, Any]:
    """Return the rules that the chart renders, by the name of the alert."""
    spec = the(render("default", *ON, *options), "PrometheusRule")["spec"]
    return {rule["alert"]: rule for group in spec["groups"] for rule in group["rules"]}


def rule_file(folder: Path) -> Path:
    path = folder / "rules.yaml"
    path.write_text(yaml.safe_dump(the(render("default", *ON), "PrometheusRule")["spec"]))
    return path


def dashboard() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((CHART / "files" / "dashboard.json").read_text(encoding="utf-8"))
    return content


def queries() -> list[tuple[str, str]]:
    """Return (title, expression) of every query of the dashboard, as Grafana would send it with everything chosen."""
    found = []
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"].removesuffix(" or vector(0)")
            for name, value in {
                "$namespace": ".*", "$staticgroup": ".*", "$__rate_interval": "5s", "$__range": "10m",
            }.items():  # fmt: skip
                expression = expression.replace(name, value)
            assert "$" not in expression
            found.append((panel["title"], expression))
    return found


# the operator, as Prometheus sees it


class Page:
    """The metrics page of whichever operator is shown, served on loopback by a thread of its own."""

    def __init__(self) -> None:
        self.scrapes = 0
        self.refresh: Callable[[], None] = lambda: None
        self.lock = threading.Lock()
        self.loop = asyncio.new_event_loop()
        self.server = HealthServer(
            port=free_port(), registry=Metrics().registry, watch_age_s=lambda: 0.0, is_ready=lambda: True,
            refresh=self._scraped, host="127.0.0.1",
        )  # fmt: skip

    def _scraped(self) -> None:
        with self.lock:
            self.refresh()
            self.scrapes += 1

    def show(self, world: World) -> None:
        """Wait until Prometheus has looked at the operator that lives, as it is now."""
        if not world.living:
            return
        operator = world.living[-1].operator
        with self.lock:
            self.server.registry, self.refresh = operator.metrics.registry, operator.refresh_gauges
            seen = self.scrapes
        until(lambda: self.scrapes > seen, deadline_s=20, what="a scrape", poll_s=0.005)
        with self.lock:
            self.refresh = lambda: None
        # the page is written in the step that counted the scrape; then the world goes on
        self.wait_for(asyncio.sleep(0))

    def wait_for(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout=10)

    @classmethod
    @contextmanager
    def served(cls) -> Iterator["Page"]:
        page = cls()
        thread = threading.Thread(target=page.loop.run_forever, daemon=True)
        thread.start()
        try:
            page.wait_for(page.server.start())
            yield page
        finally:
            page.wait_for(page.server.stop())
            page.loop.call_soon_threadsafe(page.loop.stop)
            thread.join(timeout=10)


Tell = Callable[[World], Coroutine[Any, Any, None]]
TeamOf = Callable[[WorldSettings], Team]


def play(
    page: Page, tell: Tell, *, spec: dict[str, Any] | None = None, team_of: TeamOf = plain_team, **settings: Any
) -> None:
    """Bring a world up and tell a story in it, looked at by Prometheus every few virtual seconds."""

    async def main() -> None:
        base = WorldSettings(**{"partitions": 6, "session_timeout_s": 30, "heartbeat_s": 3.0, **settings})
        team = team_of(base)
        world = World(replace(base, team=replace(team, spec=team.spec | (spec or {}))), seed="seen")

        async def looking() -> None:
            while True:
                page.show(world)
                await asyncio.sleep(STEP_S)

        looker = asyncio.ensure_future(looking())
        await tell(world)
        page.show(world)
        looker.cancel()

    with captured_logs():
        run_simulation(main, seed="seen", until_s=20_000)


def of_story(name: str, page: Page) -> None:
    story = STORY[name]

    async def tell(world: World) -> None:
        await world.populate()
        await story.tell(world)
        await asyncio.sleep(5)

    play(page, tell, protocol=story.protocol, replicas=story.replicas, spec={"removal": story.removal})


async def lost_rights(world: World) -> None:
    """The principal may not remove any more, and a pod goes; then nothing can be read, then no broker answers."""
    await world.populate()
    world.kafka.deny("User:operator", "READ")
    world.users.scale(NAMESPACE, WORKLOAD, 1)
    await asyncio.sleep(20)
    world.kafka.grant("User:operator", "READ")
    heal = FAULTS["all_brokers_are_down"].begin(world, Random(1))
    assert heal is not None
    await asyncio.sleep(60)
    heal()


async def silence(world: World) -> None:
    """The API server refuses statuses, and later nothing comes through."""
    await world.populate()
    world.server.deny("operator", ("patch",), f"{STATIC_GROUPS}/status")
    world.users.scale(NAMESPACE, WORKLOAD, 1)
    await asyncio.sleep(120)
    FAULTS["operator_is_cut_off"].begin(world, Random(1))
    await asyncio.sleep(150)


async def lost_policy(world: World) -> None:
    """Ids were issued, and then a pod starts without its own."""
    await world.populate()
    FAULTS["injection_policy_is_missing"].begin(world, Random(1))
    world.users.delete_pod(NAMESPACE, f"{WORKLOAD}-1")
    await asyncio.sleep(90)


async def nothing_to_read(world: World) -> None:
    """The members subscribe a topic that does not exist, so none of them has a partition."""
    world.kafka.image = world.kafka.image.without_topic(TOPIC)
    await world.populate()
    await asyncio.sleep(30)


async def low_bound(world: World) -> None:
    """The brokers allow no session that outlasts a restart."""
    world.start_operator()
    world.create_group()
    world.create_workload()
    await asyncio.sleep(30)


def slow_team(settings: WorldSettings) -> Team:
    """A Deployment whose pods take up to an hour to end."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    pod_spec = {"terminationGracePeriodSeconds": 3600}
    return replace(deployed_team(settings), set_spec={"strategy": strategy}, pod_spec=pod_spec)


async def slow_end(world: World) -> None:
    """A pod waits for the slot of one that takes half an hour to close its consumer."""
    await world.populate()
    await asyncio.sleep(20)
    world.users.roll(NAMESPACE, WORKLOAD, resource=DEPLOYMENTS)
    await asyncio.sleep(700)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Prometheus, float]]:
    """A Prometheus that has seen operators in good and in bad times, and since when."""
    folder = tmp_path_factory.mktemp("prometheus")
    (monitor,) = of_kind(render("prometheus-operator"), "ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    with Page.served() as page:
        address = f"127.0.0.1:{page.server.port}"
        job = {
            "job_name": "operator",
            "metrics_path": endpoint["path"],
            "honor_labels": endpoint["honorLabels"],
            "static_configs": [{"targets": [address], "labels": {"namespace": SYSTEM}}],
        }
        with running(folder, job, [rule_file(folder)]) as prometheus:
            begin_s = time.time()
            for name in ("02-quiet-roll-classic", "04-scale-down", "07-force-delete", "11-crash-release-kip848"):
                of_story(name, page)
            play(page, lost_rights, replicas=2)
            play(page, silence, replicas=3)
            play(page, lost_policy, replicas=2)
            play(page, nothing_to_read, replicas=1)
            play(page, slow_end, replicas=2, close_s=1800.0, session_timeout_s=1700, team_of=slow_team)
            low = BrokerSettings(group_max_session_timeout_ms=20_000)
            play(page, low_bound, replicas=1, brokers=low, spec={"sessionTimeout": {"seconds": 60}})
            yield prometheus, begin_s


def test_every_alert_was_raised_by_an_operator_that_had_cause(seen: tuple[Prometheus, float]) -> None:
    prometheus, begin_s = seen
    raised = prometheus.over("ALERTS", begin_s=begin_s, end_s=time.time(), step_s=0.2)
    assert {series["metric"]["alertname"] for series in raised} == set(alerts())


def test_every_query_of_the_dashboard_has_had_an_answer(seen: tuple[Prometheus, float]) -> None:
    prometheus, begin_s = seen
    empty = []
    for title, expression in queries():
        found = prometheus.over(expression, begin_s=begin_s, end_s=time.time(), step_s=0.5)
        if not any(not math.isnan(float(value)) for series in found for _, value in series["values"]):
            empty.append((title, expression))
    assert empty == []


def test_series_keep_the_namespace_of_their_staticgroup(seen: tuple[Prometheus, float]) -> None:
    """Service discovery attaches the operator's own under the same label (Prometheus: honor_labels)."""
    prometheus, _ = seen
    (groups,) = prometheus.query("count by (namespace) (max_over_time(staticgroup_ready[10m]))")
    assert groups["metric"] == {"namespace": NAMESPACE}
    (leads,) = prometheus.query("count by (namespace) (max_over_time(staticgroup_lease_held[10m]))")
    assert leads["metric"] == {"namespace": SYSTEM}


def test_restarts_of_a_quiet_roll_are_counted_exactly(seen: tuple[Prometheus, float]) -> None:
    """The first story rolls two pods; the second restarts nobody."""
    prometheus, begin_s = seen
    (series,) = prometheus.over("staticgroup_static_rejoins_total", begin_s=begin_s, end_s=time.time(), step_s=0.2)
    values = [float(value) for _, value in series["values"]]
    assert values[: values.index(2.0) + 1].count(0.0) > 0
    first_fall = next((n for n in range(1, len(values)) if values[n] < values[n - 1]), len(values))
    assert max(values[:first_fall]) == 2


# without an operator


def test_promtool_finds_no_fault_in_the_rules(tmp_path: Path) -> None:
    assert f"{len(alerts())} rules found" in promtool("check", "rules", rule_file(tmp_path))


def rule_test(case: dict[str, Any]) -> dict[str, Any]:
    """Return a row of alerts.yaml as `promtool test rules` reads it, with the rule's own words for its labels."""
    labels = case.get("labels", {"namespace": "shop", "staticgroup": "orders"})
    series = case.get("series")
    if series is None:
        kind, status, reason = case["condition"].split()
        own = f'namespace="shop",staticgroup="orders",type="{kind}",status="{status}",reason="{reason}"'
        series = {f"staticgroup_condition{{{own}}}": "1x60"}

    def said(text: str) -> str:
        for name, value in labels.items():
            text = text.replace(f"{{{{ $labels.{name} }}}}", value)
        return re.sub(r"\{\{ \$value.*? \}\}", str(case.get("value")), text)

    asked = [{"alertname": case["alert"], "eval_time": f"{case.get('fires', 60) - 1}m"}]
    if "fires" in case:
        words = {name: said(text) for name, text in alerts()[case["alert"]]["annotations"].items()}
        raised = {"exp_labels": labels | {"severity": case["severity"]}, "exp_annotations": words}
        asked += [{"alertname": case["alert"], "eval_time": f"{case['fires']}m", "exp_alerts": [raised]}]
    rows = [{"series": name, "values": values} for name, values in series.items()]
    return {"interval": "1m", "input_series": rows, "alert_rule_test": asked}


def test_each_alert_fires_when_it_should_and_not_before(tmp_path: Path) -> None:
    """`promtool test rules` on tests/operator/alerts.yaml, which names every alert."""
    rule_file(tmp_path)
    cases = yaml.safe_load((REPOSITORY / "tests" / "operator" / "alerts.yaml").read_text(encoding="utf-8"))
    for fires in (True, False):
        assert {case["alert"] for case in cases if ("fires" in case) is fires} == set(alerts())
    tests = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [rule_test(case) for case in cases]}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests))
    assert "SUCCESS" in promtool("test", "rules", tmp_path / "tests.yaml")


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    page = (REPOSITORY / "docs" / "guide" / "runbooks.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## (\w+)$", page, re.MULTILINE)) == set(alerts())
    for name, rule in alerts().items():
        assert rule["annotations"]["runbook"] == f"docs/guide/runbooks.md#{name.lower()}"
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) == {"runbook", "summary", "description"}


def test_values_change_labels_severities_times_and_leave_alerts_out() -> None:
    rule = the(render("prometheus-operator"), "PrometheusRule")
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    rendered = {each["alert"]: each for group in rule["spec"]["groups"] for each in group["rules"]}
    assert set(alerts()) - set(rendered) == {"StaticGroupSuspects"}
    missing = rendered["StaticGroupMembersMissing"]
    assert (missing["for"], missing["labels"]) == ("10m", {"severity": "warning", "team": "streaming"})
    assert missing["expr"] == alerts()["StaticGroupMembersMissing"]["expr"]
    assert missing["annotations"]["runbook_url"] == (
        "https://docs.example/staticgroup/guide/runbooks.html#staticgroupmembersmissing"
    )
    assert rendered["StaticGroupNotReady"]["for"] == alerts()["StaticGroupNotReady"]["for"]
    assert all(each["labels"]["team"] == "streaming" for each in rendered.values())


def test_dashboard_is_found_by_grafanas_sidecar_and_is_the_file() -> None:
    (found,) = [
        each for each in of_kind(render("prometheus-operator"), "ConfigMap") if "staticgroup.json" in each["data"]
    ]
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert (found["metadata"]["namespace"], found["metadata"]["annotations"]) == (
        "monitoring",
        {"grafana_folder": "Kafka"},
    )
    assert json.loads(found["data"]["staticgroup.json"]) == dashboard()
    assert [each for each in of_kind(render("default"), "ConfigMap") if "staticgroup.json" in each["data"]] == []
