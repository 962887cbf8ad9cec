"""Write the journal of a simulated fleet like a real one: into a folder of files, or a Kafka topic."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..configuration import KafkaJournal
from ..errors import JobError
from ..progress import Progress
from .fleet import cluster_facts
from .truth import FleetSettings, draw_groups


def lines(settings: FleetSettings, progress: Progress) -> Iterator[tuple[str, str]]:
    """Yield the journal's lines, and report their number after each Kubernetes cluster."""
    groups = draw_groups(settings)
    count = 0
    for cluster in range(settings.k8s_clusters):
        for line in cluster_facts(settings, cluster, groups):
            count += 1
            yield line
        progress.done(f"journal of Kubernetes cluster {cluster + 1} of {settings.k8s_clusters}: {count:,} records")


def write_files(folder: Path, settings: FleetSettings, progress: Progress) -> int:
    """Write the journal of a simulated fleet into one file, atomically; returns the number of lines."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"fleet-{settings.seed}-{settings.groups}-{settings.days}.jsonl"
    count = 0
    with path.with_name(f".{path.name}").open("w", encoding="utf-8") as file:
        for _, line in lines(settings, progress):
            file.write(f"{line}\n")
            count += 1
    path.with_name(f".{path.name}").replace(path)
    return count


def produce(kafka: KafkaJournal, settings: FleetSettings, progress: Progress) -> int:
    """Write the journal to its topic, keyed as the operator does.

    Raises
    ------
    JobError
        When the brokers did not accept every record.
    """
    from confluent_kafka import Producer

    options = {name.removeprefix("kafka."): value for name, value in kafka.options.items() if name.startswith("kafka.")}
    producer = Producer(
        {**options, "bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True, "linger.ms": 50}
    )
    failed: list[str] = []

    def delivered(error: Any, _: Any) -> None:
        if error is not None:
            failed.append(str(error))

    count = 0
    for key, line in lines(settings, progress):
        count += 1
        while True:
            try:
                producer.produce(kafka.topic, value=line.encode(), key=key.encode(), on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.5)
        producer.poll(0)
    if producer.flush(60) or failed:
        raise JobError(f"the brokers took not all records: {failed[0] if failed else 'they do not answer'}")
    return count
