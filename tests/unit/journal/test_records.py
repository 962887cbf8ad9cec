"""The journal's records: one line each, valid by their JSON Schema, tolerant of what a newer operator adds."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

import pytest
from annotated_types import Ge, Le, Lt, MaxLen, MinLen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import StringConstraints
from pydantic.fields import FieldInfo

from journal import records as journal
from journal.records import DATA_TYPES, CoverageBeat, Data, Defect, GroupData, JournalError, MemberFenced

SCHEMAS = Path(__file__).parents[3] / "docs" / "reference" / "journal"
NOUNS = [d.noun for d in DATA_TYPES]
VALIDATORS = {d: Draft202012Validator(journal.json_schema(d)) for d in DATA_TYPES}
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def values_of(info: FieldInfo) -> st.SearchStrategy[Any]:
    """Return a strategy for one field, from its annotation and bounds."""
    annotation, metadata = info.annotation, list(info.metadata)
    arms = get_args(annotation)
    if type(None) in arms:
        (arm,) = (a for a in arms if a is not type(None))
        return st.none() | values_of(FieldInfo.from_annotation(arm))
    if annotation is bool:
        return st.booleans()
    if annotation is int:
        low = next(m.ge for m in metadata if isinstance(m, Ge))
        high = next((m.le for m in metadata if isinstance(m, Le)), None)
        below = next((m.lt for m in metadata if isinstance(m, Lt)), None)
        return st.integers(low, high if high is not None else below - 1)
    if annotation is str:
        sizes = [m for m in metadata if isinstance(m, StringConstraints | MinLen | MaxLen)]
        least = max((getattr(m, "min_length", None) or 0 for m in sizes), default=0)
        most = min((getattr(m, "max_length", None) or 1000 for m in sizes), default=1000)
        return st.text(min_size=least, max_size=min(most, 40))
    assert str(annotation).startswith("list["), annotation
    return st.lists(values_of(FieldInfo.from_annotation(arms[0])), max_size=4)


def data_of(data_type: type[Data]) -> st.SearchStrategy[Data]:
    fields = {name: values_of(info) for name, info in data_type.model_fields.items()}
    return st.fixed_dictionaries(fields).map(lambda values: data_type(**values))


ANY_DATA = st.sampled_from(DATA_TYPES).flatmap(data_of)


def enveloped(data: Data) -> journal.Record[Any]:
    if isinstance(data, CoverageBeat):
        return journal.beat_record("k8s", data)
    assert isinstance(data, GroupData)
    return journal.group_record("k8s", "fact", data)


def fenced(**changes: Any) -> dict[str, Any]:
    """A valid event as plain JSON."""
    data: dict[str, Any] = {
        "operator_id": "op", "seq": 0, "observed_at_ms": 1_763_741_225_123, "kafka_cluster_id": "c", "group_id": "g",
        "namespace": "n", "static_group": "s", "workload": "w", "protocol": "Classic", "instance_id": "i",
        "member_id": "m",
    }  # fmt: skip
    event: dict[str, Any] = json.loads(journal.write(enveloped(MemberFenced(**data))))
    event["data"] |= {k: v for k, v in changes.items() if v is not ...}
    for gone in [k for k, v in changes.items() if v is ...]:
        del event["data"][gone]
    return event


def defect_of(line: str | bytes) -> Defect:
    with pytest.raises(JournalError) as caught:
        journal.read(line)
    return caught.value.defect


@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(ANY_DATA)
def test_a_record_is_one_line_that_its_schema_allows_and_that_reads_back_the_same(data: Data) -> None:
    """CloudEvents JSON format: structured mode; the line is ASCII, so no byte of it is a line's end."""
    record = enveloped(data)
    line = journal.write(record)
    assert line.isascii()
    assert line.isprintable()
    VALIDATORS[type(data)].validate(json.loads(line))
    read = journal.read(line.encode())
    assert read.model_dump() == record.model_dump() == json.loads(line)
    assert type(read.data) is type(data)
    assert journal.write(read) == line


@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(ANY_DATA, st.dictionaries(st.text(min_size=1), JSON_VALUES, max_size=3), st.booleans())
def test_what_a_newer_operator_adds_survives(data: Data, added: dict[str, Any], in_data: bool) -> None:
    """CloudEvents: unknown extension attributes are passed on; the contract: unknown fields survive."""
    event = json.loads(journal.write(enveloped(data)))
    target = event["data"] if in_data else event
    target.update({f"x{name}": value for name, value in added.items()})
    VALIDATORS[type(data)].validate(event)
    assert json.loads(journal.write(journal.read(json.dumps(event)))) == event


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(ANY_DATA, st.data())
def test_reader_and_schema_refuse_the_same_events(data: Data, draw: st.DataObject) -> None:
    """The contract in both directions: drop or change a field, and schema and reader agree.

    Left out: a whole number written as 1.0, an integer for JSON Schema and none for the reader.
    """
    event = json.loads(journal.write(enveloped(data)))
    part = draw.draw(st.sampled_from([event, event["data"]]))
    name = draw.draw(st.sampled_from(sorted(part)))
    if draw.draw(st.booleans()):
        del part[name]
    else:
        value = draw.draw(JSON_VALUES.filter(lambda v: not isinstance(v, float) or not v.is_integer()))
        part[name] = value
    allowed = VALIDATORS[type(data)].is_valid(event)
    try:
        journal.read(json.dumps(event))
    except JournalError:
        assert not allowed
    else:
        assert allowed


@pytest.mark.parametrize(
    ("line", "defect"),
    [
        ("", Defect.NOT_JSON),
        ("{", Defect.NOT_JSON),
        (b"\xff\xfe\xfd", Defect.NOT_JSON),
        ('{"a":NaN}', Defect.NOT_JSON),
        ("[" * 100_000, Defect.NOT_JSON),
        ("[]", Defect.NOT_AN_EVENT),
        ("{}", Defect.NOT_AN_EVENT),
        ('{"specversion":"0.3","type":"io.staticgroup.member.up.v1"}', Defect.NOT_AN_EVENT),
        ('{"specversion":"1.0","type":7}', Defect.NOT_AN_EVENT),
        ('{"specversion":"1.0","type":"io.staticgroup.member.up.v2"}', Defect.UNKNOWN_TYPE),
        ('{"specversion":"1.0","type":"io.staticgroup.member.up.v1"}', Defect.INVALID),
        (json.dumps(fenced(seq=-1)), Defect.INVALID),
        (json.dumps(fenced(seq="1")), Defect.INVALID),
        (json.dumps(fenced(seq=True)), Defect.INVALID),
        (json.dumps(fenced(member_id=...)), Defect.INVALID),
        (json.dumps(fenced() | {"time": "yesterday"}), Defect.INVALID),
        (json.dumps(fenced() | {"dataschema": "urn:staticgroup:journal:member.up:1"}), Defect.INVALID),
    ],
)
def test_a_line_that_is_no_record_says_why(line: str | bytes, defect: Defect) -> None:
    assert defect_of(line) is defect


def test_a_defect_names_the_field_and_not_its_value() -> None:
    """A value may be any bytes of a topic; quarantine and logs must not repeat it."""
    with pytest.raises(JournalError) as caught:
        journal.read(json.dumps(fenced(member_id={"password": "s3cr3t-canary"})))
    assert "data.member_id" in caught.value.detail
    assert "s3cr3t-canary" not in str(caught.value)


@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 253_402_300_799_999))
def test_time_is_the_operators_clock_in_rfc_3339(unix_ms: int) -> None:
    text = journal.timestamp(unix_ms)
    parsed = datetime.fromisoformat(text)
    assert text.endswith("Z")
    assert round(parsed.timestamp() * 1000) == unix_ms


def test_envelope_of_a_group_and_of_a_beat() -> None:
    """CloudEvents 1.0 attributes; the partitioning extension maps partitionkey to the key of the Kafka record."""
    event = fenced()
    assert event | {"data": None} == {
        "specversion": "1.0", "id": "fact", "source": "/k8s/k8s/ns/n/staticgroup/s",
        "type": "io.staticgroup.member.fenced.v1", "subject": "c/g/i", "time": "2025-11-21T16:07:05.123Z",
        "datacontenttype": "application/json", "dataschema": "urn:staticgroup:journal:member.fenced:1",
        "partitionkey": "c/g", "data": None,
    }  # fmt: skip
    beat = journal.beat_record(
        "k8s", CoverageBeat(operator_id="op", seq=3, observed_at_ms=7, static_groups=1, watch_epoch="e")
    )
    assert (beat.id, beat.partitionkey, beat.source) == ("k8s/op/7/beat", "k8s/op", "/k8s/k8s/operator/op")


def test_a_fact_is_the_same_whoever_tells_it_and_when() -> None:
    one = journal.read(json.dumps(fenced()))
    other = journal.read(json.dumps(fenced(operator_id="two", seq=9, observed_at_ms=5, time_lo_ms=1, time_hi_ms=5)))
    assert journal.fact_of(one) == journal.fact_of(other)
    assert journal.fact_of(one) != journal.fact_of(journal.read(json.dumps(fenced(member_id="m2"))))


@pytest.mark.parametrize("data_type", DATA_TYPES, ids=NOUNS)
def test_schema_is_a_schema_and_names_itself(data_type: type[Data]) -> None:
    schema = journal.json_schema(data_type)
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == schema["properties"]["dataschema"]["const"] == f"urn:staticgroup:journal:{data_type.noun}:1"
    assert schema["properties"]["type"]["const"] == f"io.staticgroup.{data_type.noun}.v1"
    assert schema["additionalProperties"] is schema["properties"]["data"]["additionalProperties"] is True
    missing = [n for n, f in schema["properties"]["data"]["properties"].items() if not f.get("description")]
    assert missing == []


def test_published_schemas_are_fresh(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert journal.main(["--check", str(SCHEMAS)]) == 0
    assert {p.name for p in SCHEMAS.glob("*.schema.json")} == {f"{noun}.schema.json" for noun in NOUNS}
    assert journal.main(["--write", str(tmp_path / "new")]) == 0
    stale = tmp_path / "new" / "member.up.schema.json"
    stale.write_text(stale.read_text(encoding="utf-8").replace("member.up", "member.down"), encoding="utf-8")
    assert journal.main(["--check", str(tmp_path / "new")]) == 1
    assert "member.up.schema.json is stale" in capsys.readouterr().err


def test_the_scope_of_an_operator_is_the_same_text_in_whatever_order_and_never_a_long_one() -> None:
    assert journal.watch_scope_of(()) == ""
    assert journal.watch_scope_of(["shop", "pay", "shop"]) == journal.watch_scope_of(("pay", "shop")) == "pay,shop"
    many = [f"namespace-{n}" for n in range(300)]
    assert len(journal.watch_scope_of(many)) < 100
    assert journal.watch_scope_of(many) != journal.watch_scope_of(many[1:])
