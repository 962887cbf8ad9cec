"""What a pod receives, resolved from the spec for the admission policy."""

import re
from pathlib import Path

import pytest

from staticgroup.api.injection import (
    client_suffixes,
    env_entries,
    env_suffixes,
    follows_annotation,
    injector,
    instance_id_annotation,
    resolve_injected,
)
from staticgroup.api.names import REBALANCE_DELAY_VARIABLE
from staticgroup.api.resources.client import CONCURRENCY_MAX, Client, ClientType, EnvEntry
from staticgroup.api.resources.injected import InjectedEnv, InjectedId, InjectedMethod, InjectedStatus

REPOSITORY = Path(__file__).parents[3]
ID = "staticgroup.io/instance-id"
TIMEOUT = "staticgroup.io/session-timeout-ms"


POD = "$(STATICGROUP_POD_NAME)"


def resolve(
    client: Client, session_timeout_ms: int | None = 45_000, *, template: str = "{podName}.3fa9c1d2"
) -> InjectedStatus:
    return resolve_injected(
        client, method=InjectedMethod.POLICY, scope="3fa9c1d2", id_template=template,
        session_timeout_ms=session_timeout_ms,
    )


def test_the_default_client_injects_the_generic_names_into_the_first_container() -> None:
    assert resolve(Client()).to_wire() == {
        "scope": "3fa9c1d2",
        "method": "Policy",
        "idTemplate": "{podName}.3fa9c1d2",
        "sessionTimeoutMs": 45_000,
        "container": "",
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
    wire = resolve(Client(), None).to_wire()
    assert "sessionTimeoutMs" not in wire
    assert [entry["annotation"] for entry in wire["env"]] == [ID]


def test_several_consumers_get_an_annotation_each_and_may_share_the_timeouts_variable() -> None:
    client = Client(
        type=ClientType.CUSTOM,
        env=[
            EnvEntry(container="app", instance_id_name="A", session_timeout_name="T"),
            EnvEntry(container="app", instance_id_name="B", session_timeout_name="T", suffix="-b.c"),
            EnvEntry(container="side", instance_id_name="C", session_timeout_name="", suffix="_c"),
        ],
    )
    result = resolve(client)
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
    assert env_suffixes(client) == ("", "-b.c", "_c")


@pytest.mark.parametrize("kind", [each for each in ClientType if each is not ClientType.CUSTOM])
def test_a_type_is_one_consumer_in_the_named_container(kind: ClientType) -> None:
    (entry,) = env_entries(Client(type=kind, container="app"))
    assert (entry.container, entry.suffix) == ("app", "")
    assert entry.instance_id_name.endswith("_INSTANCE_ID")
    assert entry.session_timeout_name.endswith("SESSION_TIMEOUT_MS")


def test_the_variables_of_a_connect_worker_are_those_that_the_agent_reads() -> None:
    agent = (REPOSITORY / "operator/connect_agent/src/main/java/io/staticgroup/connect/agent/Settings.java").read_text(
        "utf-8"
    )
    read = dict(re.findall(r'static final String (\w+) = "(\w+)";', agent))
    for kind in (ClientType.CONNECT, ClientType.DEBEZIUM):
        (entry,) = env_entries(Client(type=kind))
        assert entry.instance_id_name == read["INSTANCE_ID"]
        assert entry.session_timeout_name == read["SESSION_TIMEOUT_MS"]
    assert read["REBALANCE_DELAY_MS"] == REBALANCE_DELAY_VARIABLE


def test_the_type_custom_has_no_names_of_its_own() -> None:
    with pytest.raises(ValueError, match=r"spec\.client\.env"):
        env_entries(Client(type=ClientType.CUSTOM))


@pytest.mark.parametrize("kind", [ClientType.CUSTOM, ClientType.KAFKA_STREAMS, ClientType.CONNECT, ClientType.OWN])
def test_variables_that_the_user_names_take_the_place_of_those_of_the_type(kind: ClientType) -> None:
    named = [EnvEntry(container="worker", instance_id_name="WORKER_INSTANCE_ID", session_timeout_name="")]
    assert env_entries(Client(type=kind, env=named)) == tuple(named)


@pytest.mark.parametrize("count", [1, 3, CONCURRENCY_MAX])
def test_kafka_streams_counts_from_one_and_spring_from_zero_a_single_member_too(count: int) -> None:
    """StreamThread.create names threads from 1, and StreamsConfig.getMainConsumerConfigs appends the number always;
    ConcurrentMessageListenerContainer names its children from 0, as long as alwaysClientIdSuffix is true."""
    streams, spring = (
        client_suffixes(Client(type=kind, concurrency=count))
        for kind in (ClientType.KAFKA_STREAMS, ClientType.SPRING_BOOT)
    )
    assert streams == tuple(f"-{number}" for number in range(1, count + 1))
    assert spring == tuple(f"-{number}" for number in range(count))


@pytest.mark.parametrize("kind", ClientType)
def test_all_other_clients_append_nothing_unless_it_is_said(kind: ClientType) -> None:
    if kind not in (ClientType.KAFKA_STREAMS, ClientType.SPRING_BOOT):
        assert client_suffixes(Client(type=kind)) == ("",)
    assert client_suffixes(Client(type=kind, suffixes=["-in", "-out"])) == ("-in", "-out")
    assert client_suffixes(Client(type=kind, suffixes=[""])) == ("",)


@pytest.mark.parametrize(
    ("policy", "webhook", "chosen"),
    [
        (True, True, InjectedMethod.POLICY),
        (True, False, InjectedMethod.POLICY),
        (False, True, InjectedMethod.WEBHOOK),
        (False, False, InjectedMethod.NONE),
    ],
)
def test_the_policy_injects_where_it_is_served_else_the_webhook(
    policy: bool, webhook: bool, chosen: InjectedMethod
) -> None:
    assert injector(policy_served=policy, webhook_served=webhook) is chosen


def test_the_longest_suffix_still_makes_a_legal_annotation_name() -> None:
    """A qualified name's last part has at most 63 characters."""
    assert len(instance_id_annotation("-" + "x" * 39).split("/")[1]) <= 63


def test_the_kubelet_expands_every_pod_name_of_a_template() -> None:
    (entry, _) = resolve(Client(), template="a.{podName}-{podName}.b").env
    assert entry.value == f"a.{POD}-{POD}.b"


@pytest.mark.parametrize("template", ["web_{ordinal}.3fa9c1d2", "{podName}.{ordinal}.3fa9c1d2"])
def test_template_with_the_ordinal_is_read_from_the_annotation_because_labels_can_be_edited(template: str) -> None:
    """The ordinal is known only from the label apps.kubernetes.io/pod-index."""
    assert follows_annotation(Client(), template)
    assert [entry.value for entry in resolve(Client(), template=template).env] == [None, None]


@pytest.mark.parametrize("template", ["{podName}", "{podName}.3fa9c1d2", "a{podName}b{podName}"])
def test_template_of_pod_name_and_constants_alone_follows_no_annotation(template: str) -> None:
    assert not follows_annotation(Client(), template)


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
    assert follows_annotation(Client(type=ClientType.CUSTOM, env=[env, other]), "{podName}.3fa9c1d2")
    assert {entry.value for entry in resolve(Client(type=ClientType.CUSTOM, env=[env, other])).env} == {None}


def test_constant_that_the_kubelet_would_expand_is_not_composed() -> None:
    """No legal id holds a dollar sign; the pod is then reported without an id rather than given a made-up one."""
    assert follows_annotation(Client(), "{podName}.$(HOME)")


def test_value_that_is_longer_than_a_status_holds_is_read_from_the_annotation() -> None:
    """Such an id has more than 249 characters and is refused anyway; the status must be written all the same."""
    assert [entry.value for entry in resolve(Client(), template="{podName}" + "x" * 1015).env] == [None, None]
