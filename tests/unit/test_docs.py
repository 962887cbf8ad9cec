"""Hold the documentation against the code: what a user can meet is documented, and what is documented exists.

The one idea: each page's claim that a machine can check is checked here, so that a renamed guard, metric, setting,
value or file breaks a test and not a reader's evening.
"""

import ast
import importlib.util
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from staticgroup.api import names
from staticgroup.api.injection import env_entries
from staticgroup.api.reasons import ConditionType, Reason
from staticgroup.api.resources.client import Client, ClientType
from staticgroup.core.group import KafkaProblemKind, LeaveOutcome, ReleaseOutcome
from staticgroup.core.guards import Guard
from staticgroup.core.releases import RELEASE_GUARDS, ReleaseGuard
from staticgroup.runtime.process.settings import PREFIX, Settings
from staticgroup.runtime.webhook.process import WebhookSettings
from support.sentences import too_long

README_WORDS_MAX = 700
GUIDE_WORDS_MAX = 21_400
REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
OPERATOR = REPOSITORY / "operator" / "staticgroup"
CHART = REPOSITORY / "charts" / "staticgroup"
MAKEFILE = REPOSITORY / "Makefile"
PAGES = sorted([REPOSITORY / "README.md", CHART / "README.md", *DOCS.rglob("*.md")])
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
GUIDE = sorted((DOCS / "guide").rglob("*.md"))
THREE = r"^\| `(\w+)` \| (.+?) \| (.+?) \|$"
"""A row of a table: a code span and two texts."""
ANCHORED = r'^\| <a id="(\w+)"></a>`(\w+)` \| (?:(True|Unknown)\b)?.+?\|.*\|$'
"""A row about a reason of a condition: its anchor, the reason, and the status that it stands for if not False."""
IDS = [str(page.relative_to(REPOSITORY)) for page in PAGES]


def read(*parts: str) -> str:
    return DOCS.joinpath(*parts).read_text(encoding="utf-8")


def generator() -> ModuleType:
    found = importlib.util.spec_from_file_location("reference_generator", DOCS / "reference" / "generate.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    before = list(sys.path)
    found.loader.exec_module(module)
    sys.path[:] = before
    return module


def lines(pattern: str, text: str) -> list[Any]:
    """Find a pattern whose ^ and $ are the ends of a line."""
    return re.findall(pattern, text, re.MULTILINE)


def without_blocks(text: str) -> str:
    """Return a page without its code blocks, whose brackets are no links."""
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)


def section(text: str, heading: str) -> str:
    """Return what stands below a heading, up to the next one of the same or a higher level."""
    level, _, _ = heading.partition(" ")
    found = re.search(rf"^{re.escape(heading)}\n(.*?)(?=^#{{1,{len(level)}}} |\Z)", text, re.DOTALL | re.MULTILINE)
    assert found is not None, f"no heading {heading!r}"
    return found[1]


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings, as code hosting sites make them, and those that stand in the text."""
    headings = lines(r"^#+ (.+)$", without_blocks(text))
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    written = set(re.findall(r'<a id="([\w-]+)"></a>', without_blocks(text)))
    return written | {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def broken_links(page: Path, text: str) -> list[str]:
    """Name the relative links of a page that lead nowhere."""
    broken = []
    # A link's text may hold code, so only blocks are cut out here.
    for target in re.findall(r"\]\(([^)\s]+)\)", without_blocks(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        own = text if file == page else file.read_text(encoding="utf-8") if file.is_file() else ""
        if not file.exists() or (anchor and anchor not in anchors(own)):
            broken.append(target)
    return broken


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One `head`\n", encoding="utf-8")
    text = "# One `head`\n[a](#one-head) [b](#two) [c](gone.md) [d](page.md#one-head) "
    text += "[`e`](page.md#x) [f](https://example)\n"
    assert broken_links(page, text) == ["#two", "gone.md", "page.md#x"]
    other = tmp_path / "other.md"
    other.write_text(text, encoding="utf-8")
    assert broken_links(other, text) == ["#two", "gone.md", "page.md#x"]


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_of_a_page_resolve(page: Path) -> None:
    assert broken_links(page, page.read_text(encoding="utf-8")) == []


def test_every_page_is_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    todo = [REPOSITORY / "README.md", DOCS / "design.md"]
    while todo:
        page = todo.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            file = (page.parent / target).resolve()
            todo += [file] if file.is_file() else [file / "README.md"] if (file / "README.md").is_file() else []
    assert [page for page in DOCS.rglob("*.md") if page not in seen] == []


def test_pages_that_messages_name_exist() -> None:
    sources = [*OPERATOR.rglob("*.py"), *(CHART / "templates").rglob("*.txt")]
    named = {name for source in sources for name in re.findall(r"docs/[\w/-]+\.md", source.read_text(encoding="utf-8"))}
    assert "docs/guide/kafka-connect.md" in named
    assert [name for name in sorted(named) if not (REPOSITORY / name).is_file()] == []


def test_generated_pages_are_fresh() -> None:
    for path, text in generator().pages().items():
        assert path.read_text(encoding="utf-8") == text, (
            f"{path.name} is stale: python docs/reference/generate.py --write"
        )


def test_generator_detects_a_stale_page(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    module = generator()
    assert module.main(["--check"]) == 0
    page = DOCS / "reference" / "settings.md"
    monkeypatch.setattr(module, "pages", lambda: {page: "something else"})
    assert module.main(["--check"]) == 1
    assert "docs/reference/settings.md is stale" in capsys.readouterr().err


def test_help_of_every_command_is_documented() -> None:
    module = generator()
    listed = lines(r"^    ([a-z-]+) +\w", module.help_text())
    assert tuple(listed) == module.COMMANDS
    page = read("reference", "cli.md")
    for command in listed:
        assert module.help_text(command) in section(page, f"## {command}")


@pytest.mark.parametrize("guard", Guard, ids=lambda guard: guard.value)
def test_guard_is_documented_with_its_remedy(guard: Guard) -> None:
    rows = lines(THREE, section(read("guide", "scale-down.md"), "## What holds a removal back"))
    assert len(rows) == len(Guard)
    (row,) = [row for row in rows if row[0] == guard.value]
    assert all(len(text) >= 7 for text in row[1:])


def test_guards_of_a_release_are_documented_in_their_order() -> None:
    rows = lines(THREE, section(read("guide", "crash-release.md"), "## What holds a release back"))
    known = {**Guard.__members__, **ReleaseGuard.__members__}
    assert [row[0] for row in rows] == [known[rule.__name__.upper()].value for rule in RELEASE_GUARDS]
    assert all(len(text) >= 7 for row in rows for text in row[1:])


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.value)
def test_reason_is_documented_below_its_condition(reason: Reason) -> None:
    page = read("guide", "troubleshooting.md")
    # A reason that several conditions may give is explained once, where a user meets it first.
    places = [section(page, f"### {kind.value}") for kind in ConditionType if kind in reason.types]
    rows = [row for place in places for row in lines(ANCHORED, place) if row[1] == reason.value]
    if reason.types - {ConditionType.READY} == {ConditionType.TIMEOUT_SUFFICIENT}:
        return  # explained in a page of its own: the next test
    assert rows
    assert all((status or "False") == reason.status.value for _, _, status in rows)


def test_each_reason_has_one_anchor_that_is_its_name_in_lower_case() -> None:
    """An alert or a message can lead to the row of its reason; of several rows the first has the anchor."""
    page = read("guide", "troubleshooting.md")
    found = lines(r'<a id="([\w-]+)"></a>`(\w+)`', page)
    assert sorted(found) == sorted((reason.value.lower(), reason.value) for reason in Reason)
    assert page.count("<a id=") == len(found)
    assert not {anchor for anchor, _ in found} & anchors(re.sub("<a .*?</a>", "", page)), "a heading has this anchor"
    for anchor, reason in found:
        rows = lines(rf"^\| (?:<a id=\"(\w+)\"></a>)?`{reason}` \|", page)
        assert rows[:1] in ([], [anchor])


def test_reasons_of_the_session_timeout_are_explained_in_their_own_page() -> None:
    page = section(read("guide", "timeouts.md"), "## The condition `TimeoutSufficient`")
    expected = {
        reason.value
        for reason in Reason
        if reason.types - {ConditionType.READY} == {ConditionType.TIMEOUT_SUFFICIENT}
    }  # fmt: skip
    assert set(lines(r"^\| `(\w+)` \|", page)) == expected


def test_no_page_names_a_condition_reason_that_does_not_exist() -> None:
    page = read("guide", "troubleshooting.md")
    sections = [section(page, f"### {heading.value}") for heading in ConditionType]
    named = {reason for each in sections for reason in lines(r"^\| (?:<a .*?></a>)?`(\w+)` \|", each)}
    assert len(named) > len(ConditionType)
    assert named <= set(Reason)


@pytest.mark.parametrize("kind", KafkaProblemKind, ids=lambda kind: kind.value)
def test_kind_of_kafka_problem_is_documented(kind: KafkaProblemKind) -> None:
    assert f"`{kind.value}`" in section(read("guide", "troubleshooting.md"), "### Connected")


def test_outcomes_of_a_leave_are_documented() -> None:
    metrics, audit_log = read("reference", "metrics.md"), read("reference", "audit-log.md")
    for outcome in LeaveOutcome:
        assert outcome.value in section(metrics, "## What the labels hold")
        assert f"`{outcome.value}`" in audit_log
    for released in ReleaseOutcome:
        assert released.value in section(metrics, "## What the labels hold")
        assert f"`{released.value}`" in audit_log


def strings(node: ast.AST) -> set[str]:
    return {each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)}


def calls(module: str, function: str) -> list[ast.Call]:
    tree = ast.parse((OPERATOR / module).read_text(encoding="utf-8"))
    return [each for each in ast.walk(tree) if isinstance(each, ast.Call) and ast.unparse(each.func) == function]


def test_reasons_of_events_are_documented() -> None:
    page = read("reference", "events.md")
    found = (("self._post", 2), ("self._lasting", 1))  # each with the place of the reason
    posted = {text for what, at in found for call in calls("runtime/narrator.py", what) for text in strings(call.args[at])}
    assert {"MemberRemoved", "RemovalHeld"} <= posted
    of_ready = {reason.value for reason in Reason if reason.types == {ConditionType.READY}}
    # Suspension is reported in the status alone.
    of_ready -= {Reason.SUSPENDED.value}
    assert set(re.findall(r"`(\w+)`", "".join(lines(r"^\| (`.+?) \|", page)))) == posted | of_ready


def test_fields_of_an_audit_line_are_documented() -> None:
    audits = calls("runtime/narrator.py", "_audit")
    (writer,) = [
        node
        for node in ast.walk(ast.parse((OPERATOR / "runtime" / "narrator.py").read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name == "_audit"
    ]
    keys = [key for node in ast.walk(writer) if isinstance(node, ast.Dict) for key in node.keys]
    logged = {key.value for key in keys if isinstance(key, ast.Constant)}
    logged |= {keyword.arg for call in audits for keyword in call.keywords}
    page = read("reference", "audit-log.md")
    for call in audits:
        assert f"`{ast.literal_eval(call.args[1])}`" in page
    documented = set(re.findall(r"`(\w+)`", "".join(lines(r"^\| (`.+?) \|", page))))
    assert documented == logged | {"time", "level", "logger", "message"}
    assert '"staticgroup.audit"' in page


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_metrics_settings_and_values_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    known = {row[0].strip("`") for row in generator().metric_rows()}
    assert set(re.findall(r"\bstaticgroup_[a-z_]+\b", text)) <= known
    (agent,) = env_entries(Client(type=ClientType.CONNECT))
    of_agent = {agent.instance_id_name, agent.session_timeout_name, names.REBALANCE_DELAY_VARIABLE}
    for variable in set(re.findall(rf"`({PREFIX}[A-Z_]+)`", text)) - {names.POD_NAME_VARIABLE} - of_agent:
        rows = (*generator().setting_rows(), *generator().setting_rows(WebhookSettings))
        assert variable in {row[0].strip("`") for row in rows}
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    roots = "operator|crds|injection|rbac|metrics|networkPolicy|image"
    for path in set(re.findall(rf"(?:`|--set[= ]|and )((?:{roots})\.[a-zA-Z.]+[a-zA-Z])", text)):
        assert path.endswith(".py") or has(values, path), f"the chart has no value {path}"


def has(tree: Mapping[str, Any], path: str) -> bool:
    node: Any = tree
    for part in path.split("."):
        if not isinstance(node, Mapping) or part not in node:
            return False
        node = node[part]
    return True


def test_every_setting_reads_back_from_its_documented_default() -> None:
    rows = generator().setting_rows()
    environment = {variable.strip("`"): default.strip("`") for variable, default, _, _ in rows}
    assert Settings.from_environment(environment) == Settings.from_environment({})
    in_chart = (CHART / "templates" / "_pod.tpl").read_text(encoding="utf-8")
    assert {row[0].strip("`") for row in rows} == set(re.findall(r"name: (STATICGROUP_\w+)", in_chart))


def test_rights_in_the_security_page_are_those_of_the_roles() -> None:
    page = section(read("guide", "security.md"), "## What the operator may do in Kubernetes")
    documented: dict[str, set[str]] = {}
    for resources, verbs in lines(r"^\|[^|]*\| (`[^|]+) \| ([^|]+) \|", page):
        for resource in re.findall(r"`([a-z]+(?:/status)?)`", resources):
            documented.setdefault(resource, set()).update(re.findall(r"[a-z]+", verbs.replace(" on its own", "")))
    granted: dict[str, set[str]] = {}
    manifests = yaml.safe_load_all((REPOSITORY / "deploy/operator/rbac.yaml").read_text(encoding="utf-8"))
    for role in manifests:
        if role["kind"] in ("ClusterRole", "Role") and role["metadata"]["name"].startswith("staticgroup-operator"):
            for rule in role["rules"]:
                for resource in rule["resources"]:
                    granted.setdefault(resource, set()).update(rule["verbs"])
    assert "pods" in granted
    assert documented == granted


def test_licence_is_the_one_that_the_project_names() -> None:
    text = (REPOSITORY / "LICENSE").read_text(encoding="utf-8")
    assert (PROJECT["license"], PROJECT["license-files"]) == ("Apache-2.0", ["LICENSE"])
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    for image in (REPOSITORY / "Dockerfile", REPOSITORY / "deploy" / "fleet-learner" / "Dockerfile"):
        assert f'licenses="{PROJECT["license"]}"' in image.read_text(encoding="utf-8")


def test_changelog_begins_with_what_is_unreleased_and_knows_the_present_version() -> None:
    versions = lines(r"^## (.+)$", read("CHANGELOG.md"))
    assert versions[0] == "Unreleased"
    assert versions[1].split(" ")[0] == PROJECT["version"]
    assert [v for v in versions[1:] if not re.fullmatch(r"\d+\.\d+\.\d+( – \d{4}-\d\d-\d\d)?", v)] == []
    kinds = set(lines(r"^### (.+)$", read("CHANGELOG.md")))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_glossary_gives_each_term_one_meaning_and_one_file() -> None:
    page = read("reference", "glossary.md")
    rows = lines(r"^\| \*\*(.+?)\*\* \| (.+) \| \[`([\w/.]+)`\]\(\S+/\3\) \|$", page)
    words = [word for word, _, _ in rows]
    assert len(words) >= 30
    assert words == sorted(set(words))
    assert len(lines(r"^\| \*\*", page)) == len(rows)
    assert all(30 <= len(meaning) <= 260 for _, meaning, _ in rows)
    known = "carrier, first seen, suspect, unseen, settle, unattributed, certificate, seat, barrier, holding"
    assert {*known.split(", "), "round", "plan", "guard"} <= set(words)


def test_make_targets_that_pages_name_exist() -> None:
    targets = set(lines(r"^([a-z0-9-]+):", MAKEFILE.read_text(encoding="utf-8")))
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(lines(r"(?:`|^)make ([a-z0-9-]+)", text))
    assert {"demo", "test"} <= named <= targets


def test_keys_that_quarkus_needs_for_streams_are_those_of_the_type() -> None:
    (injected,) = env_entries(Client(type=ClientType.KAFKA_STREAMS))
    declared = dict(lines(r"^kafka-streams\.([a-z.]+)=\$\{(\w+):\}$", read("guide", "first-group.md")))
    assert declared == {
        "group.instance.id": injected.instance_id_name, "session.timeout.ms": injected.session_timeout_name,
    }  # fmt: skip


def test_every_framework_has_a_source_and_says_how_it_was_tried() -> None:
    page = read("guide", "frameworks.md")
    links = set(lines(r"^\[([\w-]+)\]: https://", page))
    assert set(re.findall(r"\]\[([\w-]+)\]", page)) == links
    static = lines(r"^\| (?!framework)(.+) \|$", section(page, "## Static members"))
    others = lines(r"^\| (?!framework)(.+) \|$", section(page, "## Not applicable"))
    assert (len(static), len(others)) >= (23, 5)
    for columns in (row.split(" | ") for row in static):
        assert len(columns) == 5, columns
        tried = re.search(r"(?:Read|Tried(?:, [^:]+)?: `(tests/e2e/\w+\.py)`)$", columns[-1])
        assert tried is not None, columns[0]
        assert tried[1] is None or (REPOSITORY / tried[1]).is_file()
        assert tried[1] is not None or "][" in columns[-1], f"{columns[0]} has no source"
    assert all(len(columns) == 3 and "][" in columns[-1] for columns in (row.split(" | ") for row in others))


def test_every_type_of_client_and_every_sample_is_among_the_frameworks() -> None:
    page = read("guide", "frameworks.md")
    for each in set(ClientType) - {ClientType.CUSTOM, ClientType.OWN}:
        assert f"`type: {each.value}`" in section(page, "## Static members")
    named = set(lines(r"^\| \[[^]]+\]\(\.\./\.\./deploy/samples/([\w-]+)\.yaml\)", section(page, "## Samples")))
    assert named == {path.stem for path in (REPOSITORY / "deploy" / "samples").glob("framework-*.yaml")}


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_page_is_one_whole_version_of_itself_about_the_project_and_no_machine(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert lines(r"^(?:<{7}|={7}|>{7})(?: .*)?$", text) == [], "a merge is not finished"
    assert lines(r"^helm upgrade .*--reuse-values", text) == [], "a template that reads a new value finds none"
    assert str(REPOSITORY) not in text
    assert text.startswith(("# ", "<!--"))
    assert len(lines(r"^<!-- figures: [\w-]+ -->$", text)) == text.count("<!-- /figures -->")
    prose = re.sub(r"`[^`\n]*`", "", without_blocks(text)).splitlines()
    assert max((len(line) for line in prose if not line.startswith(("|", "*", " "))), default=0) <= 240


@pytest.mark.parametrize("page", [REPOSITORY / "README.md", *GUIDE], ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_no_sentence_needs_a_second_reading(page: Path) -> None:
    assert too_long(page.read_text(encoding="utf-8")) == []


def test_readme_and_guide_stay_short() -> None:
    def words(page: Path) -> int:
        return len(page.read_text(encoding="utf-8").split())

    assert words(REPOSITORY / "README.md") <= README_WORDS_MAX
    assert sum(map(words, GUIDE)) <= GUIDE_WORDS_MAX
