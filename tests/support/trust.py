"""Whether an API server with a bundle of authorities trusts a certificate."""

from __future__ import annotations

from cryptography import x509
from cryptography.exceptions import InvalidSignature


def is_trusted(certificate: bytes, bundle: bytes) -> bool:
    """Return whether one of the authorities of a bundle signed a certificate; both in PEM."""
    shown = x509.load_pem_x509_certificate(certificate)
    return any(_is_signed_by(shown, authority) for authority in x509.load_pem_x509_certificates(bundle))


def _is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
