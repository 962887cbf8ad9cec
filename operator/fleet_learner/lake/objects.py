"""Small objects in one folder, each created once and atomically: on a POSIX file system, or on any of Hadoop's.

The one idea: two writers compete for a name. On a disk or a shared volume a hard link of a complete, synced file takes
the name or fails; on an object store a conditional PUT does, on HDFS a rename that never overwrites. So exactly one of
two writers gets the name, and no reader sees half an object. Source: Hadoop's FileSystem specification
(`fs.option.create.conditional.overwrite`, rename).
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..errors import ConflictError
from .locations import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONDITIONAL: Final = "fs.option.create.conditional.overwrite"


class Objects(Protocol):
    """The objects of one folder, by name."""

    def names(self) -> list[str]:
        """Return the names, sorted; none when the folder is missing."""

    def read(self, name: str) -> bytes:
        """Return an object; FileNotFoundError when there is none."""

    def create(self, name: str, content: bytes) -> None:
        """Create an object, whole and durable; ConflictError when the name is taken."""

    def delete(self, name: str) -> None:
        """Delete an object; a missing object is no error."""

    def modified_ms(self, name: str) -> int:
        """Return when an object was created, Unix milliseconds."""

    def where(self, name: str) -> str:
        """Return an object's location, for messages."""


def objects_in(spark: SparkSession | None, uri: str) -> Objects:
    """Return the objects of a folder; without a session only on the local file system."""
    folder = local_path(uri)
    if folder is not None:
        return LocalObjects(folder)
    assert spark is not None, uri
    return HadoopObjects(spark, uri)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def draft_of(path: Path) -> Path:
    """Return a unique hidden name beside a file; a pid is not unique, because pods may share a volume."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")


class LocalObjects:
    """Files of one folder of a POSIX file system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> list[str]:
        """Return the names, sorted."""
        if not self.folder.is_dir():
            return []
        return sorted(path.name for path in self.folder.iterdir() if path.is_file() and not path.name.startswith("."))

    def read(self, name: str) -> bytes:
        """Return a file's bytes."""
        return (self.folder / name).read_bytes()

    def create(self, name: str, content: bytes) -> None:
        """Create a file by a link of its complete draft."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / name
        draft = draft_of(path)
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError as error:
            raise ConflictError(f"{path} exists") from error
        finally:
            draft.unlink()
        sync_folder(self.folder)

    def delete(self, name: str) -> None:
        """Delete a file."""
        (self.folder / name).unlink(missing_ok=True)

    def modified_ms(self, name: str) -> int:
        """Return the file's time."""
        return int((self.folder / name).stat().st_mtime * 1000)

    def where(self, name: str) -> str:
        """Return the path."""
        return str(self.folder / name)


class HadoopObjects:
    """Objects of one folder of a file system that Hadoop knows, with the session's own access to it."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self.uri = uri
        self._jvm: Any = spark._jvm
        self._folder = self._jvm.org.apache.hadoop.fs.Path(uri)
        jsc: Any = spark.sparkContext._jsc
        self._fs: Any = self._folder.getFileSystem(jsc.hadoopConfiguration())

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._folder, name)

    def names(self) -> list[str]:
        """Return the names, sorted."""
        if not self._fs.exists(self._folder):
            return []
        found = (status.getPath().getName() for status in self._fs.listStatus(self._folder) if status.isFile())
        return sorted(name for name in found if not name.startswith("."))

    def read(self, name: str) -> bytes:
        """Return an object's bytes."""
        path = self._path(name)
        if not self._fs.exists(path):
            raise FileNotFoundError(self.where(name))
        stream = self._fs.open(path)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def create(self, name: str, content: bytes) -> None:
        """Create an object by a conditional PUT, or by a rename that does not overwrite."""
        path = self._path(name)
        if self._fs.exists(path):
            raise ConflictError(f"{self.where(name)} exists")
        if self._fs.hasPathCapability(path, _CONDITIONAL):
            self._put_if_absent(path, content)
            return
        draft = self._path(f".{name}.{uuid.uuid4().hex}.tmp")
        stream = self._fs.create(draft, False)
        stream.write(content)
        stream.close()
        if not self._fs.rename(draft, path):
            self._fs.delete(draft, False)
            raise ConflictError(f"{self.where(name)} exists")

    def _put_if_absent(self, path: Any, content: bytes) -> None:
        from py4j.protocol import Py4JJavaError

        try:
            stream = self._fs.createFile(path).overwrite(True).recursive().must(_CONDITIONAL, True).build()
            stream.write(content)
            stream.close()
        except Py4JJavaError as error:
            if self._fs.exists(path):
                raise ConflictError(f"{path} exists") from error
            raise

    def delete(self, name: str) -> None:
        """Delete an object."""
        self._fs.delete(self._path(name), False)

    def modified_ms(self, name: str) -> int:
        """Return the object's time."""
        return int(self._fs.getFileStatus(self._path(name)).getModificationTime())

    def where(self, name: str) -> str:
        """Return the URI."""
        return f"{self.uri}/{name}"
