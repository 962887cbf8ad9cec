"""Tables on a real S3 server, compared with another client, the files and the server's own log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.object_store_session import DAY_MS, VERSIONS, WRITERS, small
from support.object_store import ObjectStore, object_store
from support.waiting import until

pytestmark = pytest.mark.long
BUCKET = "fleet"
ROOT = f"s3a://{BUCKET}/lake"
DEADLINE_S = 900
FLEET = ("demo", "--groups", "2", "--days", "2", "--seed", "3", "--window-days", "2")


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    """Return the server, with one empty bucket."""
    with object_store() as server:
        server.bucket(BUCKET)
        yield server


@pytest.fixture
def credentials(store: ObjectStore, tmp_path: Path) -> Path:
    """Return a file with the right keys."""
    return store.credentials_file(tmp_path / "credentials")


def environment(credentials: Path | None) -> dict[str, str]:
    """Return the environment in which the AWS SDK finds these keys and no others."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    files = {"AWS_SHARED_CREDENTIALS_FILE": str(credentials or "/nonexistent"), "AWS_CONFIG_FILE": "/nonexistent"}
    return {**clean, "AWS_EC2_METADATA_DISABLED": "true", **files}


def started(scene: str, root: str, endpoint: str, credentials: Path | None, *more: str) -> subprocess.Popen[str]:
    """Start a scene in a JVM of its own; it finds the keys as any user of the AWS SDK does."""
    command = [sys.executable, "-m", "pipeline.object_store_session", scene, root, endpoint, *more]
    return subprocess.Popen(
        command, env=environment(credentials), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )  # fmt: skip


def heard(process: subprocess.Popen[str], secrets: tuple[str, ...]) -> dict[str, Any]:
    """Return the result of a scene; no secret may be in its output or Spark's."""
    out, err = process.communicate(timeout=DEADLINE_S)
    assert out, err[-3000:]
    for secret in secrets:
        assert secret not in out + err
    answer: dict[str, Any] = json.loads(out.splitlines()[-1])
    return answer


def played(store: ObjectStore, credentials: Path, scene: str, root: str, *more: str) -> dict[str, Any]:
    """Run a scene that must succeed."""
    answer = heard(started(scene, root, store.endpoint, credentials, *more), (store.secret_key,))
    assert "error" not in answer, answer["text"]
    return answer


def active_rows(store: ObjectStore, table: str) -> list[list[Any]]:
    """Return a table's rows by Delta's protocol with Arrow's S3 client: the files that commits added and kept."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import fs

    system = store.filesystem()
    files: set[str] = set()
    names = sorted(f.path for f in system.get_file_info(fs.FileSelector(f"{BUCKET}/{table}/_delta_log")))
    for name in (name for name in names if name.endswith(".json")):
        actions = [json.loads(line) for line in system.open_input_stream(name).read().splitlines()]
        files |= {action["add"]["path"] for action in actions if "add" in action}
        files -= {action["remove"]["path"] for action in actions if "remove" in action}
    read = [pq.ParquetFile(system.open_input_file(f"{BUCKET}/{table}/{name}")).read() for name in sorted(files)]
    rows = pa.concat_tables(read).select(["id", "at_ms", "said"]).to_pylist()
    return sorted([row["id"], row["at_ms"], row["said"]] for row in rows)


def test_a_table_lives_in_s3_as_on_a_disk(store: ObjectStore, credentials: Path) -> None:
    """A table is written, merged, replaced, optimized and vacuumed; another client and reader see the same rows."""
    seen = played(store, credentials, "life", f"{ROOT}/life")

    def row(each: int, said: str) -> list[Any]:
        return [each, each % 4 * DAY_MS, said]

    first = [row(each, "first") for each in range(40)]
    expected = [row(each, "replaced" if each % 4 >= 2 else "first" if each < 40 else "merged") for each in range(60)]
    assert (seen["first"], seen["merged"], seen["before"], seen["now"]) == (first, 20, expected, expected)
    assert seen["again"] == 1, "a run that is done again finds its own commit"
    assert active_rows(store, "lake/life/silver/facts") == expected
    there = list((store.folder / "objects" / BUCKET / "lake/life/silver/facts").rglob("day=*/*.parquet"))
    assert len(there) == 4, "after OPTIMIZE and VACUUM each day is one file"


def test_of_writers_at_one_version_exactly_one_commits(store: ObjectStore, credentials: Path) -> None:
    """The log store refuses all other writers, recognises its own file, and Hadoop alone would overwrite."""
    seen = played(store, credentials, "commits", f"{ROOT}/commits")
    lost = "java.nio.file.FileAlreadyExistsException"
    assert [sorted(each) for each in seen["outcomes"]] == [[lost] * (WRITERS - 1) + ["written"]] * VERSIONS
    folder = store.folder / "objects" / BUCKET / "lake/commits/raced"
    said = [path.read_text() for path in sorted(folder.glob("*.json"))]
    assert said == [f"writer {each.index('written')}\n" for each in seen["outcomes"]]
    assert seen["lost_answer"] == ["written", "written", lost]
    refused = [path for operation, path, status in store.requests() if (operation, status) == ("PutObject", 412)]
    assert len(refused) >= VERSIONS * (WRITERS - 1), "the store refused them, not a check before"


def test_of_two_drivers_with_one_run_one_commits_it(store: ObjectStore, credentials: Path, tmp_path: Path) -> None:
    """Two JVMs append the same runs at the same time: one writes the rows of a run, and the other gets an error."""
    turns = 4
    root = f"{ROOT}/drivers"
    both = [started("writer", root, store.endpoint, credentials, name, str(tmp_path / "meeting"),
                    str(turns)) for name in "ab"]  # fmt: skip
    seen = [heard(each, (store.secret_key,)) for each in both]
    assert [each.get("text") for each in seen] == [None, None]
    rows = active_rows(store, "lake/drivers/silver/facts")
    by_run = [{said for each, _, said in rows if each // 10 == run} for run in range(turns)]
    assert (len(rows), [len(names) for names in by_run]) == (turns * 10, [1] * turns)
    outcomes = [each["outcomes"] for each in seen]
    assert {outcome for each in outcomes for outcome in each} <= {"done", "conflict"}
    for run, (winner,) in enumerate(by_run):
        assert outcomes["ab".index(winner)][run] == "done"


def learning(endpoint: str, credentials: Path | None, root: str, folder: Path, *command: str) -> subprocess.Popen[str]:
    """Start the command line, in a group of processes that can be killed as one."""
    folder.mkdir(exist_ok=True)
    configuration = folder / "fleet.yaml"
    settings = {
        "master": "local[2]", "is_replayed": False, "spark": small(endpoint), "journal_files": str(folder / "journal"),
    }  # fmt: skip
    configuration.write_text(json.dumps(settings))
    places = ["--root", root, "--output", str(folder / "output")]
    return subprocess.Popen(
        [sys.executable, "-m", "fleet_learner", *command, "--config", str(configuration), *places],
        env=environment(credentials), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip


def finished(process: subprocess.Popen[str], store: ObjectStore) -> None:
    """Wait for a run that must succeed and may not print a secret."""
    out, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, out[-3000:]
    assert store.secret_key not in out


def given_away(folder: Path) -> dict[str, bytes]:
    """Return the recommendations as other programs read them."""
    files = sorted((folder / "output" / "recommendations").rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if path.is_file()}


def test_a_run_that_was_killed_and_done_again_in_s3_comes_to_the_rows_of_one_on_a_disk(
    store: ObjectStore, credentials: Path, tmp_path: Path
) -> None:
    root, local = f"s3a://{BUCKET}/whole", str(tmp_path / "disk" / "lake")
    objects = store.folder / "objects" / BUCKET / "whole"
    killed = learning(store.endpoint, credentials, root, tmp_path / "s3", *FLEET)
    until(
        lambda: killed.poll() is not None or any(objects.glob("silver/*/_delta_log/*1.json")),
        deadline_s=DEADLINE_S,
        what="a table of facts has rows",
    )
    os.killpg(killed.pid, signal.SIGKILL)
    said = killed.communicate()[0]
    assert killed.returncode == -signal.SIGKILL, said[-3000:]
    assert not (objects / "_runs" / f"{0:012d}.json").exists(), "killed in the middle"
    finished(learning(store.endpoint, credentials, root, tmp_path / "s3", *FLEET), store)
    finished(learning(store.endpoint, credentials, root, tmp_path / "s3", "tidy"), store)
    finished(learning(store.endpoint, credentials, local, tmp_path / "disk", *FLEET), store)
    rows = played(store, credentials, "tables", root)
    assert rows == played(store, credentials, "tables", local)
    assert all(rows[name][0] for name in ("silver/outages", "gold/group_day", "gold/recommendation")), rows
    assert given_away(tmp_path / "s3") == given_away(tmp_path / "disk") != {}


CANNOT = {
    "wrong secret": (ROOT, "the store refuses the credentials that were found"),
    "no credentials": (ROOT, "no credentials were found"),
    "no such bucket": ("s3a://nowhere/lake", "the bucket nowhere is not there"),
    "no server": (ROOT, "nobody answers at http://127.0.0.1:9"),
}


@pytest.mark.parametrize("case", CANNOT)
def test_a_store_that_cannot_be_used_ends_a_run_with_one_line_and_no_secret(
    case: str, store: ObjectStore, credentials: Path, tmp_path: Path
) -> None:
    root, said = CANNOT[case]
    wrong = "not-the-secret-of-this-server"
    if case == "wrong secret":
        credentials = store.credentials_file(tmp_path / "wrong", secret_key=wrong)
    keys = None if case == "no credentials" else credentials
    endpoint = "http://127.0.0.1:9" if case == "no server" else store.endpoint
    process = learning(endpoint, keys, root, tmp_path / "run", "run")
    out, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 1, out
    assert out.splitlines()[-1].startswith(f"fleet-learner: {root}: {said}")
    assert "Traceback" not in out
    assert not [each for each in (store.secret_key, store.access_key, wrong) if each in out]


def test_a_store_that_can_be_used_is_left_as_it_was(store: ObjectStore, credentials: Path) -> None:
    assert played(store, credentials, "probed", f"{ROOT}/probed") == {}
    assert not list((store.folder / "objects" / BUCKET).glob("lake/probed/**/*.probe*"))
    answered = [(operation, status) for operation, path, status in store.requests() if "probe-1" in path]
    assert ("PutObject", 412) in answered, "the store was seen to refuse"
