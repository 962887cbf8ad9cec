"""A Node as the decisions use it.

Sources: Node of the core/v1 API; virtual nodes as virtual-kubelet, Liqo (liqoNodeProvider, which shows the nodeInfo of
another cluster's node), Kosmos, interLink, vCluster (a fake node for each real one) and Tencent's eklet register them.
"""

import re
from sys import intern

from ...api.names import OUT_OF_SERVICE_TAINT
from ...core.evidence.pod import NodeView
from .shape import Json, MalformedObject, object_of, objects_of, required_text_of, text_of, time_s_of, translated

_KUBELET_MINOR = re.compile(r"v?1\.(\d+)")
_VIRTUAL_LABELS = frozenset({
    ("type", "virtual-kubelet"), ("liqo.io/type", "virtual-node"), ("kosmos.io/node", "true"),
    ("virtual-node.interlink/type", "virtual-kubelet"), ("node.kubernetes.io/instance-type", "eklet"),
    ("vcluster.loft.sh/fake-node", "true"),
})  # fmt: skip
_VIRTUAL_TAINTS = frozenset({
    "virtual-kubelet.io/provider", "virtual-node.liqo.io/not-allowed", "kosmos.io/node",
    "virtual-node.interlink/no-schedule", "eks.tke.cloud.tencent.com/eklet",
})  # fmt: skip
_VIRTUAL_VERSION = re.compile(r"(?:^|[-+._])vk(?:[-+._]|\d|$)")


def node_view(raw: object) -> NodeView | MalformedObject:
    """Translate a Node object as the API server sent it, or say which field has the wrong shape."""
    return translated("Node", raw, _node_view)


def _node_view(raw: Json) -> NodeView:
    metadata, spec, status = (object_of(raw, key, "") for key in ("metadata", "spec", "status"))
    system = object_of(status, "nodeInfo", "status")
    version = text_of(system, "kubeletVersion", "status.nodeInfo")
    minor = _KUBELET_MINOR.match(version)
    labels = object_of(metadata, "labels", "metadata")
    taints = objects_of(spec, "taints", "spec")
    is_virtual = (
        any(labels.get(key) == value for key, value in _VIRTUAL_LABELS)
        or any(text_of(taint, "key", "spec.taints[]") in _VIRTUAL_TAINTS for taint in taints)
        or bool(_VIRTUAL_VERSION.search(version))
    )
    is_out_of_service = any(taint.get("key") == OUT_OF_SERVICE_TAINT for taint in taints)
    return NodeView(
        name=required_text_of(metadata, "name", "metadata"),
        uid=required_text_of(metadata, "uid", "metadata"),
        kubelet_version=version,
        kubelet_minor=int(minor[1]) if minor else None,
        is_virtual=is_virtual,
        is_out_of_service=is_out_of_service,
        machine="/".join(text_of(system, key, "status.nodeInfo") for key in ("machineID", "systemUUID")).strip("/"),
        created_at_s=time_s_of(metadata, "creationTimestamp", "metadata") or 0.0,
        provider=_provider(spec, labels),
    )


def _provider(spec: Json, labels: Json) -> str:
    """Return the scheme of spec.providerID; "" of a node that Karpenter made, which deletes Node objects itself."""
    if any(key.partition("/")[0] == "karpenter.sh" for key in labels):
        return ""
    scheme, separator, _ = text_of(spec, "providerID", "spec").partition("://")
    return intern(scheme) if separator else ""
