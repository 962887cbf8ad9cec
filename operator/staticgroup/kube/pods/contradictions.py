"""Find out that the watch must have missed something, or that the API server went back in time.

On one timeline a uid never comes back, a terminal phase is never left, and a complete LIST shows exactly what the watch
has delivered. What says otherwise is told in words; nothing here changes what is known.
"""

from collections.abc import Mapping

from ...core.evidence.pod import PodVersion
from .records import PodRecord, PodRecords


def absent(records: PodRecords, scope: str, listed: Mapping[str, int], resource_version: int) -> list[PodRecord]:
    """Return the present objects that a complete LIST does not show.

    Parameters
    ----------
    scope: namespace of the LIST; "" for all.
    listed: uid to resourceVersion, everything the LIST showed.
    resource_version: of the LIST; what was seen in a newer version is left alone.
    """
    return [
        r for r in records.in_scope(scope)
        if r.object_present and r.resource_version <= resource_version and r.uid not in listed
    ]


def contradiction(records: PodRecords, scope: str, listed: Mapping[str, int], resource_version: int) -> str:
    """Compare a complete LIST with the records, which must hold everything up to it; parameters as for `absent`.

    Returns
    -------
    What the watch must have missed, in words; "" when both agree.
    """
    for uid, listed_version in listed.items():
        record = records.get(uid)
        if record is None:
            return f"a LIST shows pod uid {uid}, which the watch never delivered"
        if record.resource_version < listed_version:
            return (f"a LIST shows pod {record.namespace}/{record.pod_name} at resourceVersion {listed_version}, "
                    f"the watch stopped at {record.resource_version}")
    missing = absent(records, scope, listed, resource_version)
    if missing:
        return f"a LIST no longer shows pod {missing[0].namespace}/{missing[0].pod_name}, whose end the watch never delivered"
    return ""


def comes_back(records: PodRecords, version: PodVersion) -> str:
    """Tell whether a version shows a pod that this process saw gone, or saw ended, to live again.

    Returns
    -------
    What happened, in words, which no API server can show that did not go back in time: a uid never comes back, and a
    terminal phase is never left. "" when nothing of the kind did.
    """
    record = records.get(version.uid)
    if record is None or record.seen_in < 0 or version.is_terminal or version.resource_version <= record.resource_version:
        return ""
    if not record.object_present:
        return f"pod {version.namespace}/{version.name} (uid {version.uid}) is back after its deletion"
    certificate = record.certificate
    is_proof = certificate is not None and not certificate.is_of_gone
    if is_proof and certificate is not None and certificate.resource_version < version.resource_version:
        return f"pod {version.namespace}/{version.name} (uid {version.uid}) runs after its end was certified"
    return ""


def belies(record: PodRecord, version: PodVersion) -> bool:
    """True for a version that lives on after an end that others have certified: it was of another timeline.

    Notes
    -----
    On one timeline a terminal phase is never left. Where this process has seen the end itself, see `comes_back`.
    """
    proof = record.certificate
    is_proof = proof is not None and not proof.is_of_gone and record.seen_in < 0
    return is_proof and proof is not None and proof.resource_version < version.resource_version and not version.is_terminal
