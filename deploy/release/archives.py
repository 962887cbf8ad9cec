"""Archives whose bytes depend on what is in them alone: names in order, one time, one owner."""

import gzip
import io
import tarfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path


def tar_gz(files: Mapping[str, tuple[bytes, int]], at_s: int) -> bytes:
    """Pack files.

    Parameters
    ----------
    files: by name, content and mode. at_s: their time, seconds since the Unix epoch.
    """
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, (content, mode) in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.mtime = len(content), mode, at_s
            tar.addfile(member, io.BytesIO(content))
    squeezed = io.BytesIO()
    with gzip.GzipFile(fileobj=squeezed, mode="wb", mtime=0, filename="") as out:
        out.write(packed.getvalue())
    return squeezed.getvalue()


def repacked(package: Path, at_s: int) -> bytes:
    """Pack the files of a .tar.gz again, in the order in which they are there: Chart.yaml comes first in a chart."""
    with tarfile.open(package) as tar:
        members = [(m, tar.extractfile(m)) for m in tar.getmembers() if m.isfile()]
        return tar_gz({m.name: (content.read(), m.mode & 0o777) for m, content in members if content is not None}, at_s)


def program(modules: Mapping[str, bytes], at_s: int) -> bytes:
    """Pack Python modules into one file that python3 runs (PEP 441).

    Parameters
    ----------
    modules: by path inside, among them `__main__.py`.
    """
    packed = io.BytesIO()
    moment = time.gmtime(at_s)[:6]
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(modules):
            member = zipfile.ZipInfo(name, date_time=moment)
            member.external_attr, member.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(member, modules[name])
    return b"#!/usr/bin/env python3\n" + packed.getvalue()
