"""The webhook's certificates in virtual time: at no moment is one shown that an API server does not trust (RFC 5280)."""

import pytest
from cryptography import x509

from staticgroup.runtime.webhook.certificates import CERTIFICATE, TRUST_SETTLES_S, Material, due, parsed
from support.trust import is_trusted

NAMES = ("one.system.svc", "two.system.svc")
BEGIN_S = 1_800_000_000.0
DAY_S = 86_400.0


def first() -> Material:
    made = due(None, NAMES, now_s=BEGIN_S, trusted_for_s=0)
    assert made is not None
    return made


def test_first_certificate_is_signed_by_the_authority_and_names_every_service() -> None:
    made = first()
    assert is_trusted(made.entries()[CERTIFICATE], made.bundle())
    names = made.shown.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [*NAMES]
    assert due(made, NAMES, now_s=BEGIN_S, trusted_for_s=0) is None


def test_what_is_stored_is_read_again() -> None:
    made = first()
    again = parsed(made.entries())
    assert again is not None
    assert again.entries() == made.entries()


@pytest.mark.parametrize("entry", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
@pytest.mark.parametrize("value", [None, b"", b"nonsense", "another's"])
def test_what_is_not_whole_is_made_anew(entry: str, value: bytes | str | None) -> None:
    entries, other = first().entries(), first().entries()
    if value is None:
        del entries[entry]
    else:
        entries[entry] = other[entry] if isinstance(value, str) else value
    known = parsed(entries)
    if known is None:
        assert due(known, NAMES, now_s=BEGIN_S, trusted_for_s=0) is not None
    else:  # a certificate of another authority whose key fits differs by its signature
        assert entry in ("tls.crt", "tls.key")


def test_in_five_years_no_certificate_is_shown_that_is_not_trusted() -> None:
    """Checked every six hours; API servers learn of a bundle when it is published, and for a day nobody can publish."""
    made, trusted, trusted_since_s = first(), b"", BEGIN_S
    renewed_authorities = renewed_certificates = 0
    for step in range(4 * 365 * 5):
        now_s = BEGIN_S + step * DAY_S / 4
        is_cut_off = step % 700 in range(350, 354)
        if trusted != made.bundle() and not is_cut_off:
            trusted, trusted_since_s = made.bundle(), now_s
        trusted_for_s = now_s - trusted_since_s if trusted == made.bundle() else 0.0
        wanted = due(made, NAMES, now_s=now_s, trusted_for_s=trusted_for_s)
        if wanted is not None:
            renewed_authorities += wanted.authorities[0] != made.authorities[0]
            renewed_certificates += wanted.shown.certificate != made.shown.certificate
            made = wanted
        if step:
            assert is_trusted(made.entries()[CERTIFICATE], trusted)
        left_s = made.shown.certificate.not_valid_after_utc.timestamp() - now_s
        assert left_s > 0
    assert renewed_authorities >= 5
    assert renewed_certificates >= 5 * 365 / 60 - 2


def test_new_authority_signs_only_once_it_is_known() -> None:
    made = first()
    now_s = BEGIN_S
    while True:  # certificates are renewed until the authority is
        now_s += DAY_S
        wanted = due(made, NAMES, now_s=now_s, trusted_for_s=1e9)
        if wanted is not None and wanted.authorities != made.authorities:
            break
        made = wanted or made
    assert wanted.authorities[1:] == made.authorities
    assert wanted.shown == made.shown
    assert due(wanted, NAMES, now_s=now_s, trusted_for_s=0) is None
    assert due(wanted, NAMES, now_s=now_s, trusted_for_s=TRUST_SETTLES_S - 1) is None
    signed = due(wanted, NAMES, now_s=now_s, trusted_for_s=TRUST_SETTLES_S)
    assert signed is not None
    assert not is_trusted(signed.entries()[CERTIFICATE], made.bundle())
    assert is_trusted(signed.entries()[CERTIFICATE], wanted.bundle())


def test_names_that_change_are_signed_at_once() -> None:
    made = first()
    more = due(made, (*NAMES, "three.system.svc"), now_s=BEGIN_S, trusted_for_s=0)
    assert more is not None
    assert more.authorities == made.authorities
    assert is_trusted(more.entries()[CERTIFICATE], made.bundle())


def test_another_clusters_bundle_is_not_trusted() -> None:
    assert not is_trusted(first().entries()[CERTIFICATE], first().bundle())


def test_what_a_clock_that_runs_ahead_made_is_made_anew() -> None:
    """API servers refuse a certificate before its time (RFC 5280 6.1.3), and nobody would see why pods come without ids."""
    ahead = due(None, NAMES, now_s=BEGIN_S + DAY_S, trusted_for_s=0)
    made = due(ahead, NAMES, now_s=BEGIN_S, trusted_for_s=DAY_S)
    assert made is not None
    for each in (made.authorities[0], made.shown.certificate):
        assert each.not_valid_before_utc.timestamp() <= BEGIN_S
    assert due(made, NAMES, now_s=BEGIN_S, trusted_for_s=DAY_S) is None


def test_a_certificate_of_a_clock_that_runs_ahead_is_signed_anew_by_the_same_authority() -> None:
    made = first()
    ahead = due(made, NAMES, now_s=BEGIN_S + 70 * DAY_S, trusted_for_s=DAY_S)
    assert ahead is not None
    again = due(ahead, NAMES, now_s=BEGIN_S, trusted_for_s=DAY_S)
    assert again is not None
    assert again.authorities == made.authorities
    assert again.shown.certificate.not_valid_before_utc.timestamp() <= BEGIN_S


def test_a_key_of_an_unknown_algorithm_is_nothing_usable() -> None:
    """An algorithm identifier that no library knows (1.2.3.4, PKCS #8) raises an error of its own."""
    unknown = b"-----BEGIN PRIVATE KEY-----\nMA4CAQAwBQYDKgMEBAIFAA==\n-----END PRIVATE KEY-----\n"
    assert parsed(first().entries() | {"ca.key": unknown}) is None
