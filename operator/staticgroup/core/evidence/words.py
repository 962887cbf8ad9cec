"""A person's word that the process of one suspect has ended: which incarnation it is about, and since when it counts.

A word about a gap is only translated here; what it closes stands in `core.evidence.continuity`.

A word closes a suspicion and nothing else. It is about one UID; it never touches a pod whose object exists; and it
counts only for a suspicion that is older than the word: whoever said it before the object vanished, or before the object
came back and vanished again, could not know what the process has done since. Who may say it is not decided here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ...api.resources.confirmation import PodEndConfirmation
from ...api.resources.gapconfirmation import WatchGapConfirmation
from .certificate import Certificate, CertificateKind, RefusalReason
from .chain import Incarnation, IncarnationState, died
from .spans import GapWord

STATEMENT_MAX = 300
"""Bound of the certificate's statement, as that of evidence in a ledger."""
UNREADABLE = "(nothing readable)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One PodEndConfirmation, as far as decisions and reports need it.

    Parameters
    ----------
    said_by, statement: for people only; one line of printable characters.
    said_at_s: creation of the object, whole seconds since the Unix epoch, the API server's clock; minus
        infinity, by which nothing is confirmed, when it is not known.
    """

    namespace: str
    pod_name: str
    pod_uid: str
    said_by: str
    statement: str
    said_at_s: float


def word_of(confirmation: PodEndConfirmation) -> Word:
    """Translate a resource; its free texts become one line of printable characters each."""
    spec, metadata = confirmation.spec, confirmation.metadata
    created = metadata.creation_timestamp
    return Word(
        namespace=metadata.namespace,
        pod_name=spec.pod_name,
        pod_uid=spec.pod_uid,
        said_by=_line(spec.by) or UNREADABLE,
        statement=_line(spec.statement) or UNREADABLE,
        said_at_s=created.timestamp() if created is not None else float("-inf"),
    )


def gap_word_of(confirmation: WatchGapConfirmation) -> GapWord:
    """Translate a resource; its free texts become one line of printable characters each."""
    spec, created = confirmation.spec, confirmation.metadata.creation_timestamp
    return GapWord(
        since_s=spec.since.timestamp(),
        until_s=spec.until.timestamp(),
        said_at_s=created.timestamp() if created is not None else float("-inf"),
        said_by=_line(spec.by) or UNREADABLE,
        statement=_line(spec.statement) or UNREADABLE,
    )


def _line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def applies(word: Word, known: Incarnation) -> bool:
    """Decide whether a word closes the suspicion of an incarnation.

    Notes
    -----
    The API server's clock has whole seconds and so has a ledger, so both are compared as whole seconds.
    """
    return (
        known.state is IncarnationState.SUSPECT
        and not known.object_present
        and (word.namespace, word.pod_name, word.pod_uid) == (known.namespace, known.pod_name, known.uid)
        and word.said_at_s >= int(known.since_s)
    )


def confirmed(known: Incarnation, words: Iterable[Word]) -> Incarnation:
    """Return the incarnation with the first word that applies; as it was when none does.

    Notes
    -----
    It is dead since the word was said, not since it was heard: so every process that hears it says the same.
    """
    for word in words:
        if applies(word, known):
            certificate = Certificate(
                kind=CertificateKind.CONFIRMED,
                resource_version=known.resource_version,
                statement=f"confirmed by {word.said_by}: {word.statement}"[:STATEMENT_MAX],
                said_by=word.said_by,
            )
            return died(replace(known, since_s=word.said_at_s), certificate)
    return known


def taken_back(known: Incarnation, *, now_s: float) -> Incarnation:
    """Void a word or evidence of a node, because the object of the incarnation was seen again; as it was when neither closed it."""
    if known.certificate is None or not known.certificate.is_of_gone:
        return known
    who = known.certificate.said_by or known.certificate.kind.value
    refusal = f"its object was seen again after {who} had confirmed its end"
    return replace(
        known, state=IncarnationState.SUSPECT, certificate=None, refusal=refusal,
        refusal_reason=RefusalReason.END_UNSEEN.value, since_s=now_s,
    )


def still_holds(entry: Incarnation, known: Incarnation) -> bool:
    """Decide whether the certificate of a ledger's entry may be taken over for an incarnation that is known already.

    Returns
    -------
    True for every certificate that an object version gave; for a word, or evidence of a node, under the same rule as when it
    was given, so that an outdated ledger does not bring back what the object's return made void.
    """
    if entry.certificate is None or not entry.certificate.is_of_gone:
        return True
    return known.state is IncarnationState.SUSPECT and entry.since_s >= int(known.since_s)
