"""The signature of a release: over the checksums of its files, by a key of who publishes it.

Its form is that of `cosign sign-blob`: the base64 of what the key's algorithm says of SHA-256, so `cosign verify-blob --key
SHA256SUMS.pub --signature SHA256SUMS.sig SHA256SUMS` takes it, and openssl too.
"""

import base64
import subprocess
import tempfile
from pathlib import Path


def sign(folder: Path, key: Path) -> None:
    """Write SHA256SUMS.sig and the public key that verifies it, SHA256SUMS.pub, and verify it.

    Raises
    ------
    RuntimeError
        When openssl takes the key for none, or does not verify what it signed.
    """
    sums, public = folder / "SHA256SUMS", folder / "SHA256SUMS.pub"
    public.write_bytes(_openssl("pkey", "-in", key, "-pubout"))
    signature = _openssl("dgst", "-sha256", "-sign", key, sums)
    (folder / "SHA256SUMS.sig").write_bytes(base64.b64encode(signature) + b"\n")
    with tempfile.NamedTemporaryFile() as binary:
        binary.write(signature)
        binary.flush()
        _openssl("dgst", "-sha256", "-verify", public, "-signature", binary.name, sums)


def _openssl(*arguments: str | Path) -> bytes:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
