"""Turn raw API objects into the views that the decisions use."""

from .pods import MalformedObject, node_view, pod_version, workload_view

__all__ = ["MalformedObject", "node_view", "pod_version", "workload_view"]
