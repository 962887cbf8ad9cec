"""An S3 server of its own on loopback: versitygw, which keeps objects as files of a folder.

One idea: the server is private. It is built by the Go tool from its module, listens on one port of 127.0.0.1,
knows one pair of keys that was made for it, and afterwards the folder is gone. Its objects can be read past it, as
files, and its access log says which requests came: what a client claims can be held against both.
"""

from __future__ import annotations

import re
import secrets
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.devcluster.cache import built
from support.devcluster.process import Process
from support.devcluster.programs import run_go
from support.fault_proxy.free_port import free_port
from support.waiting import until

VERSION = "v1.8.0"
MODULE = "github.com/versity/versitygw"
REGION = "us-east-1"
START_DEADLINE_S = 30.0
_HEALTH = "/health"
_REQUEST = re.compile(r" s3_(?P<operation>\w+) \S+ (?P<path>/\S*) (?P<status>\d{3}) ")


def gateway_program() -> Path:
    """Return the server's program; build it first when it is missing."""

    def build(directory: Path) -> None:
        run_go(["install", "-trimpath", "-ldflags=-s -w", f"{MODULE}/cmd/versitygw@{VERSION}"],
               f"build versitygw {VERSION}", Path("/"), {"GOBIN": str(directory)})  # fmt: skip

    return built(f"versitygw-{VERSION}", build) / "versitygw"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStore:
    """A running server; make one with `object_store`."""

    folder: Path
    port: int
    access_key: str
    secret_key: str

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def process(self) -> Process:
        return Process(name="versitygw", directory=self.folder)

    def credentials_file(self, path: Path, *, secret_key: str | None = None) -> Path:
        """Write the keys as a file for AWS_SHARED_CREDENTIALS_FILE; another secret makes it a wrong one."""
        path.touch(mode=0o600)
        path.write_text(
            f"[default]\naws_access_key_id = {self.access_key}\naws_secret_access_key = "
            f"{secret_key or self.secret_key}\n"
        )
        return path

    def bucket(self, name: str) -> Path:
        """Make a bucket and return the folder that holds its objects as files."""
        self.filesystem().create_dir(name)
        return self.folder / "objects" / name

    def filesystem(self):  # type: ignore[no-untyped-def]
        """Return Arrow's own client of S3, which shares no code with Hadoop's."""
        from pyarrow import fs

        return fs.S3FileSystem(
            access_key=self.access_key, secret_key=self.secret_key, endpoint_override=self.endpoint, region=REGION,
            allow_bucket_creation=True,
        )  # fmt: skip

    def requests(self) -> list[tuple[str, str, int]]:
        """Return what was asked of it so far: operation (`PutObject`), path and status, in the order of the answers."""
        text = (self.folder / "access.log").read_text()
        return [(each["operation"], each["path"], int(each["status"])) for each in _REQUEST.finditer(text)]

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(self.endpoint + _HEALTH, timeout=2) as answer:
                return int(answer.status) == 200
        except (urllib.error.URLError, OSError):
            if self.process.pid() is None:
                raise AssertionError(f"versitygw ended: {self.process.last_lines()}") from None
            return False

    def _start(self, environment: Mapping[str, str]) -> None:
        objects = self.folder / "objects"
        objects.mkdir()
        options = {
            "--port": f"127.0.0.1:{self.port}", "--region": REGION, "--health": _HEALTH,
            "--access-log": str(self.folder / "access.log"),
        }  # fmt: skip
        self.process.start(
            [gateway_program(), *(word for option in options.items() for word in option), "--quiet", "posix", objects],
            environment=environment,
        )
        until(self._is_healthy, deadline_s=START_DEADLINE_S, what="versitygw answers", poll_s=0.05)


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Run a server without buckets while the block lasts."""
    store = ObjectStore(
        folder=Path(tempfile.mkdtemp(prefix="object-store-")), port=free_port(),
        access_key=secrets.token_hex(8).upper(), secret_key=secrets.token_urlsafe(30),
    )  # fmt: skip
    # Not on the command line, which every user of the machine can read.
    keys = {"ROOT_ACCESS_KEY_ID": store.access_key, "ROOT_SECRET_ACCESS_KEY": store.secret_key}
    try:
        store._start({"PATH": "/usr/bin:/bin", "HOME": str(store.folder), **keys})
        yield store
    finally:
        store.process.stop()
        shutil.rmtree(store.folder)
