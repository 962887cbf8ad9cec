"""What a pod receives, resolved from the spec for the admission policy."""

import ast
import re
from pathlib import Path

import pytest

from staticgroup.api import injection
from staticgroup.api.identifiers import SuffixStyle
from staticgroup.api.injection import (
    EnvNames,
    env_entries,
    env_names,
    env_suffixes,
    follows_annotation,
    instance_id_annotation,
    resolve_injected,
    suffix_follows_preset,
    suffix_in_force,
)
from staticgroup.api.names import REBALANCE_DELAY_VARIABLE
from staticgroup.api.resources.durable import InjectedEnv, InjectedId, InjectedMethod, InjectedStatus
from staticgroup.api.resources.identity import EnvEntry, Identity, Preset
from staticgroup.api.resources.staticgroup import StaticGroupSpec

REPOSITORY = Path(__file__).parents[3]
ID = "staticgroup.io/instance-id"
TIMEOUT = "staticgroup.io/session-timeout-ms"


POD = "$(STATICGROUP_POD_NAME)"


def resolve(
    identity: Identity, session_timeout_ms: int | None = 45_000, *, template: str = "{podName}.3fa9c1d2"
) -> InjectedStatus:
    return resolve_injected(
        identity, method=InjectedMethod.POLICY, scope="3fa9c1d2", id_template=template,
        session_timeout_ms=session_timeout_ms,
    )


def test_the_default_identity_injects_the_generic_names_into_the_first_container() -> None:
    assert resolve(Identity()).to_wire() == {
        "scope": "3fa9c1d2",
        "method": "Policy",
        "idTemplate": "{podName}.3fa9c1d2",
        "sessionTimeoutMs": 45_000,
        "ids": [{"annotation": ID, "suffix": ""}],
        "env": [
            {
                "container": "", "name": "KAFKA_GROUP_INSTANCE_ID", "annotation": ID,
                "value": "$(STATICGROUP_POD_NAME).3fa9c1d2",
            },
            {"container": "", "name": "KAFKA_SESSION_TIMEOUT_MS", "annotation": TIMEOUT},
        ],
    }


def test_without_a_timeout_neither_the_number_nor_its_variable_is_there() -> None:
    """KIP-848 clients refuse to start with session.timeout.ms."""
    wire = resolve(Identity(), None).to_wire()
    assert "sessionTimeoutMs" not in wire
    assert [entry["annotation"] for entry in wire["env"]] == [ID]


def test_several_consumers_get_an_annotation_each_and_may_share_the_timeouts_variable() -> None:
    identity = Identity(
        env=[
            EnvEntry(container="app", instance_id_name="A", session_timeout_name="T"),
            EnvEntry(container="app", instance_id_name="B", session_timeout_name="T", suffix="-b.c"),
            EnvEntry(container="side", instance_id_name="C", session_timeout_name="", suffix="_c"),
        ]
    )
    result = resolve(identity)
    assert result.ids == [
        InjectedId(annotation=ID, suffix=""),
        InjectedId(annotation=f"{ID}.b.c", suffix="-b.c"),
        InjectedId(annotation=f"{ID}.c", suffix="_c"),
    ]
    assert result.env == [
        InjectedEnv(container="app", name="A", annotation=ID, value=f"{POD}.3fa9c1d2"),
        InjectedEnv(container="app", name="T", annotation=TIMEOUT),
        InjectedEnv(container="app", name="B", annotation=f"{ID}.b.c", value=f"{POD}.3fa9c1d2-b.c"),
        InjectedEnv(container="side", name="C", annotation=f"{ID}.c", value=f"{POD}.3fa9c1d2_c"),
    ]
    assert env_suffixes(identity) == ("", "-b.c", "_c")


@pytest.mark.parametrize("preset", [each for each in Preset if each is not Preset.CUSTOM])
def test_a_preset_is_one_consumer_in_the_named_container(preset: Preset) -> None:
    (entry,) = env_entries(Identity(preset=preset, container="app"))
    named = env_names(preset)
    assert named == EnvNames(instance_id=entry.instance_id_name, session_timeout=entry.session_timeout_name)
    assert (entry.container, entry.suffix) == ("app", "")
    assert entry.instance_id_name.endswith("_INSTANCE_ID")
    assert entry.session_timeout_name.endswith("SESSION_TIMEOUT_MS")


def test_the_variables_of_a_connect_worker_are_those_that_the_agent_reads() -> None:
    agent = (REPOSITORY / "operator/connect_agent/src/main/java/io/staticgroup/connect/agent/Settings.java").read_text(
        "utf-8"
    )
    read = dict(re.findall(r'static final String (\w+) = "(\w+)";', agent))
    assert env_names(Preset.CONNECT) == EnvNames(
        instance_id=read["INSTANCE_ID"], session_timeout=read["SESSION_TIMEOUT_MS"]
    )
    assert read["REBALANCE_DELAY_MS"] == REBALANCE_DELAY_VARIABLE


def test_the_custom_preset_has_no_names_of_its_own() -> None:
    assert env_names(Preset.CUSTOM) is None
    with pytest.raises(ValueError, match=r"spec\.identity\.env"):
        env_entries(Identity(preset=Preset.CUSTOM))


def test_the_longest_suffix_still_makes_a_legal_annotation_name() -> None:
    """A qualified name's last part has at most 63 characters."""
    assert len(instance_id_annotation("-" + "x" * 39).split("/")[1]) <= 63


def test_the_kubelet_expands_every_pod_name_of_a_template() -> None:
    (entry, _) = resolve(Identity(), template="a.{podName}-{podName}.b").env
    assert entry.value == f"a.{POD}-{POD}.b"


@pytest.mark.parametrize("template", ["web_{ordinal}.3fa9c1d2", "{podName}.{ordinal}.3fa9c1d2"])
def test_template_with_the_ordinal_is_read_from_the_annotation_because_labels_can_be_edited(template: str) -> None:
    """The ordinal is known only from the label apps.kubernetes.io/pod-index."""
    assert follows_annotation(Identity(), template)
    assert [entry.value for entry in resolve(Identity(), template=template).env] == [None, None]


@pytest.mark.parametrize("template", ["{podName}", "{podName}.3fa9c1d2", "a{podName}b{podName}"])
def test_template_of_pod_name_and_constants_alone_follows_no_annotation(template: str) -> None:
    assert not follows_annotation(Identity(), template)


@pytest.mark.parametrize(
    "env",
    [
        EnvEntry(container="app", instance_id_name="STATICGROUP_POD_NAME"),
        EnvEntry(container="app", instance_id_name="ID", session_timeout_name="STATICGROUP_POD_NAME"),
    ],
)
def test_variable_that_the_ids_are_composed_of_is_never_one_that_the_user_names(env: EnvEntry) -> None:
    """A timeout in it would give every pod of the workload the same id."""
    other = EnvEntry(container="app", instance_id_name="OTHER_ID", suffix="-b")
    assert follows_annotation(Identity(env=[env, other]), "{podName}.3fa9c1d2")
    assert {entry.value for entry in resolve(Identity(env=[env, other])).env} == {None}


def test_constant_that_the_kubelet_would_expand_is_not_composed() -> None:
    """No legal id holds a dollar sign; the pod is then reported without an id rather than given a made-up one."""
    assert follows_annotation(Identity(), "{podName}.$(HOME)")


def test_value_that_is_longer_than_a_status_holds_is_read_from_the_annotation() -> None:
    """Such an id has more than 249 characters and is refused anyway; the status must be written all the same."""
    assert [entry.value for entry in resolve(Identity(), template="{podName}" + "x" * 1015).env] == [None, None]


@pytest.mark.parametrize("before", [None, False, True])
@pytest.mark.parametrize("members_per_pod", [1, 2])
@pytest.mark.parametrize("style", list(SuffixStyle))
@pytest.mark.parametrize("preset", list(Preset))
def test_what_auto_stands_for_does_not_change_by_being_remembered(
    preset: Preset, style: SuffixStyle, members_per_pod: int, before: bool | None
) -> None:
    """Rounds that know the answer and rounds that do not yet must read the same ids."""
    identity = Identity(preset=preset, suffix=style, members_per_pod=members_per_pod)
    after = suffix_follows_preset(identity, before)
    assert suffix_follows_preset(identity, after) is after
    assert suffix_in_force(identity, after) is suffix_in_force(identity, before)
    assert suffix_in_force(identity, before) is not SuffixStyle.AUTO
    assert style in (SuffixStyle.AUTO, suffix_in_force(identity, before))


def test_that_auto_follows_the_preset_is_written_only_where_it_does() -> None:
    """A status that was written before the field was known must be written again without a difference."""

    def wire(follows: bool) -> dict[str, object]:
        return resolve_injected(
            Identity(), method=InjectedMethod.POLICY, scope="3fa9c1d2", id_template="{podName}.3fa9c1d2",
            session_timeout_ms=None, suffix_follows_preset=follows,
        ).to_wire()

    assert wire(True) == wire(False) | {"suffixFollowsPreset": True}
    assert "suffixFollowsPreset" not in wire(False)


def raw_identities(source: str) -> list[int]:
    """Return the lines that take spec.identity as it was written for what is in force: whole, or one of the implied
    fields."""
    tree = ast.parse(source)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "identity" and _name(node.value) in ("spec", "theirs"):
            parent = parents[node]
            if not isinstance(parent, ast.Attribute) or parent.attr in ("preset", "suffix", "env"):
                found.append(node.lineno)
    return found


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def test_role_connect_implies_the_variables_of_the_agent_and_nothing_that_was_said() -> None:
    def of(**identity: object) -> Identity:
        body = {
            "workloadRef": {"name": "w"}, "connectionRef": {"name": "k"}, "groupId": "g", "role": "Connect",
            "identity": identity,
        }
        return injection.identity_of(StaticGroupSpec.model_validate(body))

    (entry,) = env_entries(of(container="connect"))
    assert (entry.container, entry.instance_id_name) == ("connect", "STATICGROUP_CONNECT_INSTANCE_ID")
    named = [{"instanceIdName": "WORKER_INSTANCE_ID"}]
    assert env_entries(of(preset="Custom", env=named))[0].instance_id_name == "WORKER_INSTANCE_ID"


def test_only_identity_of_reads_what_a_role_implies_from_the_spec() -> None:
    """A role that was forgotten in one place would issue ids that another place does not expect."""
    assert raw_identities("f(group.spec.identity)\ng(spec.identity.template)\nh(spec.identity.env)") == [1, 3]
    package = Path(injection.__file__).parents[1]
    found = {
        str(path.relative_to(package)): lines
        for path in sorted(package.rglob("*.py"))
        if (lines := raw_identities(path.read_text(encoding="utf-8")))
    }
    assert list(found) == ["api/injection.py"]
