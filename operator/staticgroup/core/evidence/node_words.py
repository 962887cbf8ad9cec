"""What the owner of a cluster has sworn of its Nodes: that a deleted one has no machine any more, that a tainted one runs nothing.

Such a word is about one Node *object*, known by its uid, on this cluster and on this timeline of its API server. A name says nothing:
another machine may have it by now, a restored etcd lose it, and another cluster have one that is called the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .chain import Incarnation
from .machines import Fleet, NodeRecord
from .pod import NodeView
from .spans import CLOCKS_APART_S

if TYPE_CHECKING:
    from .nodes import NodeRules


def no_word(suspect: Incarnation, record: NodeRecord, fleet: Fleet) -> str:
    """Say why nothing that the cluster's owner swears of a Node is about the machine that ran a suspect; "" when it may be.

    Notes
    -----
    A Node that a restored etcd has lost, or that is of another cluster, was deleted by nobody.
    """
    if record.is_virtual or not record.machine.is_told:
        return f"node {record.name} tells of no machine"
    if suspect.created_at_s <= fleet.timeline_since_s + CLOCKS_APART_S:
        return "the pod is older than what is remembered of this cluster's nodes"
    return "" if suspect.node_uid else f"which Node of the name {record.name} it ran on was not seen in service"


def owners_word(suspect: Incarnation, record: NodeRecord, fleet: Fleet, view: NodeView | None, rules: NodeRules) -> str:
    """Return what the cluster's owner swears of a node whose object is gone or out of service (E2); "" when that is nothing.

    Parameters
    ----------
    view: the Node as it was just read; None when there is none.
    """
    if no_word(suspect, record, fleet):
        return ""
    if rules.trusts_deletion and _was_deleted(suspect, record, fleet, view):
        return f"Node {record.name} was deleted, which says that its machine is gone (nodeLifecycle {rules.lifecycle.value})"
    tainted_since_s = record.tainted_since_s
    is_sworn = (
        rules.trusts_taint and view is not None and view.uid == record.uid == suspect.node_uid and view.is_out_of_service
        and not view.is_ready and tainted_since_s is not None and tainted_since_s > suspect.placed_at_s + CLOCKS_APART_S
    )  # fmt: skip
    return f"node {record.name} is tainted out-of-service, which says that nothing runs there" if is_sworn else ""


def _was_deleted(suspect: Incarnation, record: NodeRecord, fleet: Fleet, view: NodeView | None) -> bool:
    """True when the Node that a suspect ran on was there and is not any more, and went since that says something.

    Notes
    -----
    Which Node it ran on is known by a uid that may have been old news when the pod was seen there. So where a later one has its name,
    the pod must have been bound before that was made, which the API server dates both, or have vanished before.
    """
    if view is None:
        return record.gone_since_s is not None and not _went_before(suspect, record, fleet)
    was_placed_s = suspect.bound_at_s or suspect.since_s
    is_later = view.created_at_s > max(was_placed_s, fleet.trusted_since_s) + CLOCKS_APART_S
    return view.uid == record.uid != suspect.node_uid and is_later and _came_since(suspect, fleet)


def _came_since(suspect: Incarnation, fleet: Fleet) -> bool:
    """True when a suspect came to its node after a deletion said something, so that whatever Node of the name it ran on went since."""
    return suspect.placed_at_s - CLOCKS_APART_S >= fleet.trusted_since_s


def _went_before(suspect: Incarnation, record: NodeRecord, fleet: Fleet) -> str:
    """Say why the Node that a suspect ran on may have gone before its deletion said anything, or without its machine; "" when it has not.

    Notes
    -----
    Of the Nodes of a name only the newest is remembered: when another one went is not known, nor which of them a pod ran on that is
    older than the newest. What was there later than that was made is another machine under the same object, whose end says nothing of
    the first one.
    """
    if record.earlier_until_s > max(suspect.placed_at_s, record.created_at_s + CLOCKS_APART_S):
        return "another machine had its name since the pod came to it"
    if _came_since(suspect, fleet):
        return ""
    is_of_newest = record.created_at_s <= suspect.placed_at_s
    is_since = record.gone_since_s is not None and record.gone_since_s >= fleet.trusted_since_s
    return "" if is_of_newest and is_since else "it was, or may have been, so before evidence.nodeLifecycle was set"


def unheard(suspect: Incarnation, record: NodeRecord, fleet: Fleet, rules: NodeRules) -> str:
    """Say why the deletion of a Node says nothing of a suspect where it is trusted; "" where it is not, or the Node is there."""
    if record.gone_since_s is None or not rules.trusts_deletion:
        return ""
    why = no_word(suspect, record, fleet) or _went_before(suspect, record, fleet)
    return f"Node {record.name} is deleted, but {why}" if why else f"node {record.name} has to be looked at"
