"""Make the TLS material of one test cluster with openssl.

Why: tests need a certificate authority of their own, a broker certificate for the very address that is bound, and
client certificates for mutual TLS. One idea: everything lies in one folder that goes with the cluster.
"""

from __future__ import annotations

import ipaddress
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from support.devcluster.kafka_config import STORE_PASSWORD

_DAYS = "30"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCertificate:
    """The PEM files of one client; Kafka's principal is `User:<common name>`."""

    certificate: Path
    key: Path
    ca: Path


def make_authority(folder: Path, common_name: str) -> None:
    """Make ca.pem and ca.key in `folder`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", _DAYS, "-subj", f"/CN={common_name}"),
        *("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign"),
        *("-keyout", str(folder / "ca.key"), "-out", str(folder / "ca.pem")),
    )


def make_broker_store(folder: Path, address: str) -> None:
    """Make broker.p12 in `folder`, valid for exactly `address` (subject alternative name)."""
    certificate = _issue(folder, "broker", address, f"subjectAltName={_alternative_name(address)}")
    _openssl(
        *("pkcs12", "-export", "-name", "broker", "-in", str(certificate.certificate)),
        *("-inkey", str(certificate.key), "-certfile", str(certificate.ca)),
        *("-out", str(folder / "broker.p12"), "-passout", "env:STORE_PASSWORD"),
    )


def make_client(folder: Path, common_name: str) -> ClientCertificate:
    """Return a client certificate of this cluster's authority, made on first use."""
    files = _client_files(folder, common_name)
    if files.certificate.exists():
        return files
    return _issue(folder, f"client-{common_name}", common_name, "extendedKeyUsage=clientAuth")


def _client_files(folder: Path, common_name: str) -> ClientCertificate:
    stem = folder / f"client-{common_name}"
    return ClientCertificate(
        certificate=stem.with_name(f"{stem.name}.pem"), key=stem.with_name(f"{stem.name}.key"), ca=folder / "ca.pem"
    )


def _issue(folder: Path, file_name: str, common_name: str, extension: str) -> ClientCertificate:
    key, request, certificate = (folder / f"{file_name}.{kind}" for kind in ("key", "csr", "pem"))
    extensions = folder / f"{file_name}.ext"
    extensions.write_text(extension + "\n")
    _openssl(
        *("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={common_name}"),
        *("-keyout", str(key), "-out", str(request)),
    )
    scratch = folder / f"{file_name}.tmp"
    _openssl(
        *("x509", "-req", "-days", _DAYS, "-in", str(request), "-extfile", str(extensions)),
        *("-CA", str(folder / "ca.pem"), "-CAkey", str(folder / "ca.key"), "-CAcreateserial", "-out", str(scratch)),
    )
    scratch.rename(certificate)
    request.unlink()
    extensions.unlink()
    return ClientCertificate(certificate=certificate, key=key, ca=folder / "ca.pem")


def _alternative_name(address: str) -> str:
    try:
        return f"IP:{ipaddress.ip_address(address)}"
    except ValueError:
        return f"DNS:{address}"


def _openssl(*arguments: str) -> None:
    environment = {**os.environ, "STORE_PASSWORD": STORE_PASSWORD}
    outcome = subprocess.run(
        ["openssl", *arguments], capture_output=True, text=True, check=False, timeout=60, env=environment
    )
    if outcome.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]} failed: {outcome.stderr.strip()[-300:]}")
