"""What a pod receives, resolved from the spec for the admission policy."""

import pytest

from staticgroup.api.identity import EnvEntry, Identity, Preset
from staticgroup.api.injection import EnvNames, env_entries, env_names, env_suffixes, injected
from staticgroup.api.names import instance_id_annotation
from staticgroup.api.status import Injected, InjectedEnv, InjectedId, InjectedMethod

ID = "staticgroup.io/instance-id"
TIMEOUT = "staticgroup.io/session-timeout-ms"


def resolve(identity: Identity, session_timeout_ms: int | None = 45_000) -> Injected:
    return injected(
        identity,
        method=InjectedMethod.POLICY,
        scope="3fa9c1d2",
        watch_epoch="7",
        id_template="{podName}.3fa9c1d2",
        session_timeout_ms=session_timeout_ms,
    )


def test_the_default_identity_injects_the_generic_names_into_the_first_container() -> None:
    assert resolve(Identity()).to_wire() == {
        "scope": "3fa9c1d2",
        "watchEpoch": "7",
        "method": "Policy",
        "idTemplate": "{podName}.3fa9c1d2",
        "sessionTimeoutMs": 45_000,
        "ids": [{"annotation": ID, "suffix": ""}],
        "env": [
            {"container": "", "name": "KAFKA_GROUP_INSTANCE_ID", "annotation": ID},
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
        InjectedEnv(container="app", name="A", annotation=ID),
        InjectedEnv(container="app", name="T", annotation=TIMEOUT),
        InjectedEnv(container="app", name="B", annotation=f"{ID}.b.c"),
        InjectedEnv(container="side", name="C", annotation=f"{ID}.c"),
    ]
    assert env_suffixes(identity) == ("", "-b.c", "_c")


@pytest.mark.parametrize("preset", [each for each in Preset if each is not Preset.CUSTOM])
def test_a_preset_is_one_consumer_in_the_named_container(preset: Preset) -> None:
    (entry,) = env_entries(Identity(preset=preset, container="app"))
    named = env_names(preset)
    assert named == EnvNames(instance_id=entry.instance_id_name, session_timeout=entry.session_timeout_name)
    assert (entry.container, entry.suffix) == ("app", "")
    assert entry.instance_id_name.endswith("GROUP_INSTANCE_ID")
    assert entry.session_timeout_name.endswith("SESSION_TIMEOUT_MS")


def test_the_custom_preset_has_no_names_of_its_own() -> None:
    assert env_names(Preset.CUSTOM) is None
    with pytest.raises(ValueError, match=r"spec\.identity\.env"):
        env_entries(Identity(preset=Preset.CUSTOM))


def test_the_longest_suffix_still_makes_a_legal_annotation_name() -> None:
    """A qualified name's last part has at most 63 characters."""
    assert len(instance_id_annotation("-" + "x" * 39).split("/")[1]) <= 63
