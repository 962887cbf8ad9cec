"""The generated files: fresh, structural, documented and bounded everywhere."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import Field

from staticgroup.api import crd, names, policy, slot_policy
from staticgroup.api.schema import ApiModel
from support.manifests import refused

REPOSITORY = Path(__file__).parents[3]
DEFINITIONS = {kind: crd.definition(kind) for kind in ("StaticGroup", "KafkaConnection", "ClusterKafkaConnection")}
Node = tuple[str, dict[str, Any]]


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[Node]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")


def root_of(kind: str) -> dict[str, Any]:
    root: dict[str, Any] = DEFINITIONS[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return root


ALL: list[Node] = [
    (f"{kind}{path}", node)
    for kind in DEFINITIONS
    for path, node in nodes(root_of(kind))
    if path.startswith((".spec", ".status"))
]


def test_the_committed_files_are_fresh() -> None:
    for path, text in crd.generated(Path("crds")).items():
        assert (REPOSITORY / path).read_text(encoding="utf-8") == text, f"{path.name} is stale: run the generator with --write"


def test_check_detects_a_stale_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert crd.main(["--check", "crds"]) == 1
    assert crd.main(["--write", "crds"]) == 0
    assert crd.main(["--check", "crds"]) == 0
    crd.POLICY_PATH.write_text(crd.POLICY_PATH.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    capsys.readouterr()
    assert crd.main(["--check", "crds"]) == 1
    assert capsys.readouterr().err.startswith(f"{crd.POLICY_PATH} is stale")


def test_the_files_hold_no_aliases_and_parse_to_what_was_generated() -> None:
    text = (REPOSITORY / "crds/staticgroups.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text) == DEFINITIONS["StaticGroup"]
    assert "&id" not in text


@pytest.mark.parametrize(("path", "node"), ALL, ids=[path for path, _ in ALL])
def test_a_node_is_structural_documented_and_bounded(path: str, node: dict[str, Any]) -> None:
    forbidden = {"$ref", "$defs", "anyOf", "oneOf", "allOf", "not", "title", "const"}
    assert not forbidden & node.keys()
    assert "additionalProperties" not in node or node["maxProperties"] <= 16
    assert path.endswith("[]") or len(node["description"]) > 10
    match node["type"]:
        case "string":
            assert "enum" in node or "maxLength" in node
        case "integer":
            assert "minimum" in node
            assert "maximum" in node
        case "array":
            assert node["maxItems"] <= 2000
            assert node["x-kubernetes-list-type"] in {"map", "set", "atomic"}
        case kind:
            assert kind in {"object", "boolean"}


@pytest.mark.parametrize(
    ("path", "node"), [each for each in ALL if ".status" in each[0]], ids=lambda each: str(each)[:60]
)
def test_nothing_in_a_status_has_a_default(path: str, node: dict[str, Any]) -> None:
    """A default must not stand for a field that the operator did not report."""
    assert "default" not in node


def test_every_optional_scalar_of_the_spec_says_what_its_default_is() -> None:
    silent = [
        path
        for path, node in ALL
        if ".spec" in path and node["type"] != "object" and "default" in node and "efault" not in node["description"]
        if "(default)" not in node["description"]
    ]
    assert silent == []


def test_a_default_object_says_what_its_fields_default_to() -> None:
    """The API server judges CEL rules on the default as written, before the fields' own defaults apply."""
    for path, node in ALL:
        if node["type"] == "object" and "default" in node:
            own = {name: child["default"] for name, child in node["properties"].items() if "default" in child}
            assert node["default"] == own, path


def rules_of(kind: str) -> Iterator[tuple[str, dict[str, str]]]:
    for path, node in nodes(root_of(kind)):
        for entry in node.get("x-kubernetes-validations", []):
            yield path, entry


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_a_rule_names_the_field_it_is_about(kind: str) -> None:
    for path, entry in rules_of(kind):
        field = (path + entry.get("fieldPath", "")).removeprefix(".")
        assert entry["message"].startswith(field), entry
        assert "optionalOldSelf" not in entry
        assert entry["reason"] != "FieldValueDuplicate"  # answered without the message


def test_every_rule_has_a_manifest_that_breaks_it() -> None:
    """The manifests run against a real API server; here only that none of the rules is left out."""
    expected = [case.message for case in refused().values()]
    messages = [entry["message"] for kind in DEFINITIONS for _, entry in rules_of(kind)]
    assert [message for message in messages if not any(part in message for part in expected)] == []


def test_the_resource_is_called_as_documented() -> None:
    spec = DEFINITIONS["StaticGroup"]["spec"]
    assert spec["names"] == {
        "kind": "StaticGroup", "listKind": "StaticGroupList", "plural": "staticgroups", "singular": "staticgroup",
        "shortNames": ["ksg"], "categories": ["kafka"],
    }
    (version,) = spec["versions"]
    assert (spec["scope"], version["name"], version["subresources"]) == ("Namespaced", "v1alpha1", {"status": {}})
    columns = [(each["name"], each.get("priority", 0)) for each in version["additionalPrinterColumns"]]
    names = ["Mode", "Group", "Workload", "Expected", "Joined", "Departed", "Timeout", "Ready", "Reason", "Protocol", "Age"]
    assert columns == [(name, int(name in ("Reason", "Protocol"))) for name in names]


def test_a_model_that_has_no_structural_schema_is_refused() -> None:
    class Union(ApiModel):
        either: int | str = Field(description="Either.")

    class FreeForm(ApiModel):
        anything: tuple[int, str] = Field(description="Anything.")

    with pytest.raises(ValueError, match="no unions"):
        crd.structural(Union)
    with pytest.raises(ValueError, match="prefixItems"):
        crd.structural(FreeForm)


def test_the_shipped_policy_never_keeps_a_pod_from_starting() -> None:
    shipped = (REPOSITORY / crd.POLICY_PATH).read_text(encoding="utf-8")
    assert list(yaml.safe_load_all(shipped)) == [policy.admission_policy(), policy.policy_binding()]
    assert policy.admission_policy()["spec"]["failurePolicy"] == "Ignore"
    assert policy.admission_policy(failure_policy="Fail")["spec"]["failurePolicy"] == "Fail"


def test_the_policy_writes_no_object_literal_by_json_patch() -> None:
    """A list of nothing but Object literals makes the API server of 1.36 panic, whatever failurePolicy says."""
    for body, count in ((policy.admission_policy()["spec"], 2), (slot_policy.slot_policy()["spec"], 1)):
        patches = [each["jsonPatch"]["expression"] for each in body["mutations"] if each["patchType"] == "JSONPatch"]
        assert len(patches) == count
        assert not any("Object." in text for text in (*patches, *(each["expression"] for each in body["variables"])))


def test_the_shipped_policies_of_slots_give_nothing_and_let_nobody_write_before_an_installation_fills_them_in() -> None:
    shipped = list(yaml.safe_load_all((REPOSITORY / crd.SLOT_POLICIES_PATH).read_text(encoding="utf-8")))
    assert shipped == [
        slot_policy.slot_policy(), policy.policy_binding(name=names.SLOTS_NAME),
        slot_policy.fence(), slot_policy.fence_binding(),
    ]  # fmt: skip
    injecting, _, fence, binding = (each["spec"] for each in shipped)
    empty = {each["name"] for spec in (injecting, fence) for each in spec["variables"] if each["expression"] == "''"}
    assert empty == {"slotImage", "operator"}
    assert (injecting["failurePolicy"], fence["failurePolicy"]) == ("Ignore", "Fail")
    assert binding["validationActions"] == ["Deny"]
