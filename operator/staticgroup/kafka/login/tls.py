"""Build SSL contexts from PEM texts that came out of Secrets.

Why: OpenSSL loads a client certificate only from a file, but a private key must not stay on a disk. One idea: a
nameless file in memory where the system has them, else a file of mode 0600 in a folder of mode 0700, gone after the
load. Certificates and host names are always verified.
Source: Python ssl, memfd_create(2); KIP-651 (PEM).
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal


class InvalidTlsMaterial(Exception):
    """The PEM texts cannot be used; `part` says which, the text never quotes them."""

    def __init__(self, part: Literal["ca", "client"]) -> None:
        super().__init__(part)
        self.part = part


def client_context(
    ca_pem: str | None = None, certificate_pem: str | None = None, key_pem: str | None = None
) -> ssl.SSLContext:
    """Build a verifying client context, TLS 1.2 or newer.

    Raises
    ------
    InvalidTlsMaterial: a text is no PEM, the key does not fit the certificate, or the key is encrypted.
    """
    try:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cadata=ca_pem)
    except (ssl.SSLError, ValueError):
        raise InvalidTlsMaterial("ca") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate_pem and key_pem:
        try:
            with private_file(certificate_pem.rstrip() + "\n" + key_pem) as path:
                # without a password callback OpenSSL would ask on the terminal
                context.load_cert_chain(path, password=lambda: "")
        except (ssl.SSLError, ValueError):
            raise InvalidTlsMaterial("client") from None
    return context


@contextmanager
def private_file(content: str) -> Iterator[str]:
    """Give the path of a file with this content, which is gone afterwards."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.TemporaryDirectory(prefix="tls-") as folder:  # mode 0700
        path = Path(folder, "client.pem")
        path.touch(mode=0o600)
        path.write_text(content)
        yield str(path)
