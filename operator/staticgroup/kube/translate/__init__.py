"""Turn raw API objects into the views that the decisions use.

The one idea: parse once, here, and totally. Absent optional fields become the cautious default (an absent status
entry is a container that may live); a field of the wrong type makes the whole object a `MalformedObject`, because
a pod that cannot be read may carry an id that nobody else knows of.
"""

from .deployments import deployment_view
from .nodes import node_view
from .pod_sets import pod_set_view
from .pods import pod_version
from .rollouts import rollout_view
from .shape import MalformedObject
from .workloads import workload_view

__all__ = [
    "MalformedObject",
    "deployment_view",
    "node_view",
    "pod_set_view",
    "pod_version",
    "rollout_view",
    "workload_view",
]
