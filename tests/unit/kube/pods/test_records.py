"""A record gives the facts that were put last, however many others were read in between."""

from dataclasses import replace

from staticgroup.core.evidence.chain import Incarnation, IncarnationState
from staticgroup.kube.pods.records import UNPACKED_MAX, PodRecords


def incarnation(number: int) -> Incarnation:
    return Incarnation(
        namespace="shop", pod_name=f"web-{number}", uid=f"uid-{number}", instance_ids=frozenset({f"web-{number}"}), node_name="n1",
        state=IncarnationState.LIVE, since_s=1.0, resource_version=number + 1,
    )  # fmt: skip


def test_each_of_more_records_than_are_kept_unpacked_says_what_was_put() -> None:
    records, count = PodRecords(), UNPACKED_MAX + 50
    for number in range(count):
        records.put(incarnation(number))
    for _ in range(3):
        for number in range(count):
            record = records.get(f"uid-{number}")
            assert record is not None
            assert record.incarnation() == incarnation(number)


def test_record_that_is_put_again_and_again_says_the_last() -> None:
    """Each put gives up what was unpacked, so one record may be what is kept of the newest and the oldest."""
    records = PodRecords()
    for version in range(1, 2 * UNPACKED_MAX + 3):
        record = records.put(replace(incarnation(0), resource_version=version))
        assert record.incarnation().resource_version == version
        assert record.incarnation() is record.incarnation()


def test_version_that_is_forgotten_is_not_told_any_more() -> None:
    record = PodRecords().put(incarnation(0))
    assert record.incarnation().resource_version == 1
    record.forget_version()
    assert record.incarnation().resource_version == 0
