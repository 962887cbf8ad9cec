"""Decide which of the webhook's certificates to make now, so that API servers always trust the one that is shown.

That follows from what is stored and from how long its authorities have been published. A new authority is first
published beside the old one, and signs only once every API server can know it; so no certificate is shown before it is
trusted, and no authority is removed while its certificate is shown.
Source: RFC 5280; `clientConfig.caBundle` of admissionregistration.k8s.io/v1 may hold several certificates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFE_S: Final = 365 * 86_400.0
CERTIFICATE_LIFE_S: Final = 90 * 86_400.0
RENEW_WHEN_LEFT: Final = 1 / 3
"""Share of its life that is left when a certificate is renewed: a month for the one that is shown."""
TRUST_SETTLES_S: Final = 60.0
"""How long a published authority must have stood before it signs: API servers learn of it by their watches."""
BACKDATED_S: Final = 300.0
"""Certificates hold from before they are made, because the clocks of machines differ."""
AUTHORITIES, AUTHORITY_KEY, CERTIFICATE, KEY = "ca.crt", "ca.key", "tls.crt", "tls.key"
"""Entries of the Secret, named as by kubernetes.io/tls and cert-manager; `ca.crt` has all authorities, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What the Secret holds.

    Parameters
    ----------
    authorities: newest first; the first one signs, the others are trusted while they hold.
    authority_key: of the first one.
    """

    authorities: tuple[x509.Certificate, ...]
    authority_key: ec.EllipticCurvePrivateKey
    shown: Pair

    def bundle(self) -> bytes:
        """Return what API servers have to trust, as PEM."""
        return b"".join(_pem(each) for each in self.authorities)

    def entries(self) -> dict[str, bytes]:
        """Return the entries of the Secret."""
        return {
            AUTHORITIES: self.bundle(), AUTHORITY_KEY: _pem_of_key(self.authority_key),
            CERTIFICATE: _pem(self.shown.certificate), KEY: _pem_of_key(self.shown.key),
        }


def parsed(entries: Mapping[str, bytes]) -> Material | None:
    """Read the entries of a Secret; None when they are not ours, or not whole."""
    try:
        authority_key = serialization.load_pem_private_key(entries[AUTHORITY_KEY], None)
        key = serialization.load_pem_private_key(entries[KEY], None)
        authorities = tuple(x509.load_pem_x509_certificates(entries[AUTHORITIES]))
        certificate = x509.load_pem_x509_certificate(entries[CERTIFICATE])
        certified = authorities[0].public_key(), certificate.public_key()
    except (KeyError, ValueError, TypeError, UnsupportedAlgorithm):
        return None
    if not isinstance(authority_key, ec.EllipticCurvePrivateKey) or not isinstance(key, ec.EllipticCurvePrivateKey):
        return None
    if certified != (authority_key.public_key(), key.public_key()):
        return None
    return Material(authorities=authorities, authority_key=authority_key, shown=Pair(certificate=certificate, key=key))


def due(known: Material | None, names: Sequence[str], *, now_s: float, trusted_for_s: float) -> Material | None:
    """Return what shall be stored in the place of what is.

    Parameters
    ----------
    known: None when nothing usable is stored.
    names: DNS names under which API servers call, at least one.
    now_s: seconds since the Unix epoch.
    trusted_for_s: how long exactly the known authorities have been seen published; 0 when they are not.

    Returns
    -------
    None while nothing is to be changed.
    """
    if known is None or (_left(known.authorities[0], now_s) <= 0 and _left(known.shown.certificate, now_s) <= 0):
        authority = _authority(now_s)
        shown = _signed(authority, names, now_s)
        return Material(authorities=(authority.certificate,), authority_key=authority.key, shown=shown)
    if _left(known.authorities[0], now_s) < RENEW_WHEN_LEFT:
        authority = _authority(now_s)
        authorities = (authority.certificate, *(a for a in known.authorities if _left(a, now_s) > 0))
        return Material(authorities=authorities, authority_key=authority.key, shown=known.shown)
    signing = Pair(certificate=known.authorities[0], key=known.authority_key)
    left, shown_names = _left(known.shown.certificate, now_s), _names(known.shown.certificate)
    is_by_newest = _is_signed_by(known.shown.certificate, signing.certificate)
    if not (is_by_newest and left >= RENEW_WHEN_LEFT and shown_names == sorted(names)):
        is_usable = left > 0 and set(names) <= set(shown_names)
        if not is_by_newest and is_usable and trusted_for_s < TRUST_SETTLES_S:
            return None
        return replace(known, shown=_signed(signing, names, now_s))
    holding = tuple(a for a in known.authorities if _left(a, now_s) > 0)
    return replace(known, authorities=holding) if holding != known.authorities else None


def _is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _left(certificate: x509.Certificate, now_s: float) -> float:
    """Return the share of a certificate's life that is left; at most 0 after its end or before its begin (RFC 5280).

    API servers refuse a certificate that a fast clock dated ahead, and by its end alone it would not be renewed.
    """
    begin, end = certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
    return (end - now_s) / (end - begin) if begin <= now_s else 0.0


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return sorted(names.get_values_for_type(x509.DNSName))


def _authority(now_s: float) -> Pair:
    """Make an authority that signs itself; its name differs from earlier ones."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"staticgroup webhook {int(now_s)}")])
    builder = _begun(name, name, key, now_s, AUTHORITY_LIFE_S)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return Pair(certificate=builder.sign(key, hashes.SHA256()), key=key)


def _signed(authority: Pair, names: Sequence[str], now_s: float) -> Pair:
    """Make the certificate that API servers are shown; it never outlives its authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    life_s = min(CERTIFICATE_LIFE_S, authority.certificate.not_valid_after_utc.timestamp() - now_s)
    builder = _begun(subject, authority.certificate.subject, key, now_s, life_s)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(n) for n in names]), critical=False)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = builder.add_extension(issuer_key, critical=False)
    return Pair(certificate=builder.sign(authority.key, hashes.SHA256()), key=key)


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now_s: float, life_s: float
) -> x509.CertificateBuilder:
    now = datetime.fromtimestamp(int(now_s), UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(seconds=BACKDATED_S))
        .not_valid_after(now + timedelta(seconds=life_s))
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_of_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    pkcs8 = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, pkcs8, serialization.NoEncryption())
