"""`convert`: the StatefulSet that takes the place of a Deployment, and in words what cannot be the same.

Name, labels, selector and pods stay, so that Services and budgets keep matching; what the API server added is left out.
Both select the same pods without harm: their controllers leave alone what another one owns.
Sources: k8s.io/api/apps/v1; Kubernetes' PodControllerRefManager.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import quote

from ..kube.problem import KubeProblem
from .api_server import ApiServer, Json, Refused, Run

Services = Sequence[Json] | KubeProblem
_NAME: Final = re.compile(r"[a-z](?:[a-z0-9-]{0,50}[a-z0-9])?")
"""Names of which pods, their Service, and the label controller-revision-hash can be made."""
_NOT_WRITTEN_BY_HAND: Final = ("deployment.kubernetes.io/", "kubectl.kubernetes.io/")
_STEPS: Final = """
1. Create this StaticGroup, with your connection and group.id, and wait until it says WorkloadFound=False:

   apiVersion: staticgroup.io/v1alpha1
   kind: StaticGroup
   metadata: {{name: {name}{where}}}
   spec:
     workloadRef: {{name: {name}}}
     connectionRef: {{name: kafka}}
     groupId: {name}

2. Apply the StatefulSet. Its pods join beside the Deployment's; a few rebalances follow. Both may run for long.
3. Move autoscalers (HPA, KEDA) to the StatefulSet; do not add a second HPA, because each counts the pods of both.
4. Scale the Deployment to zero, then delete it: kubectl{option} scale deployment/{name} --replicas=0"""


def read_cluster(api: ApiServer, namespace: str, name: str) -> tuple[Json, Services]:
    """Return a Deployment and the Services of its namespace; raises Refused when the former cannot be read."""
    path = f"/apis/apps/v1/namespaces/{quote(namespace)}/deployments/{quote(name)}"
    found = api.read(path, resource="deployments.apps", namespace=namespace)
    if isinstance(found, KubeProblem):
        raise Refused(found.message)
    return found, api.items("/api/v1", "services", namespace=namespace)


def read_file(file: str, stdin: str, run: Run) -> tuple[Json, Services]:
    """Return the Deployment and the Services of a file.

    Parameters
    ----------
    file: its path, or `-` for `stdin`. Raises Refused when it does not hold exactly one Deployment.
    """
    text, found = _by_kubectl("json", file, stdin, run), list[Json]()
    while text := text.lstrip():
        each, end = json.JSONDecoder().raw_decode(text)
        found, text = [*found, each], text[end:]
    needed = {"selector", "template"}
    deployments = [each for each in found if each["kind"] == "Deployment" and needed <= each.get("spec", {}).keys()]
    if len(deployments) != 1:
        raise Refused(f"{file} holds {len(deployments)} Deployments; one is converted at a time", status=2)
    return deployments[0], [each for each in found if each["kind"] == "Service"]


def as_yaml(objects: Sequence[Json], run: Run) -> str:
    """Return objects as the text of one file, in JSON, which is YAML too, where kubectl cannot be run."""
    try:
        return "---\n".join(_by_kubectl("yaml", "-", json.dumps(each), run) for each in objects)
    except Refused:
        return "---\n".join(json.dumps(each, indent=2, ensure_ascii=False) + "\n" for each in objects)


def _by_kubectl(output: str, file: str, stdin: str, run: Run) -> str:
    """Return what a file holds in another format, without a call to a cluster."""
    command = ["kubectl", "patch", "--local", "--type=merge", "-p={}", f"-o={output}", "-f", file]
    status, text, errors = run(command, stdin)
    if status:
        raise Refused(" ".join(errors.split()))
    return text


def convert(deployment: Json, services: Services) -> tuple[list[Json], str]:
    """Return the objects to apply, and what to know and do, as a text.

    Parameters
    ----------
    services: of its namespace; a problem counts as none, and is said.
    """
    spec, metadata, notes = deployment["spec"], _own(deployment["metadata"]), list(_notes(deployment))
    template = {"metadata": _own(spec["template"].get("metadata") or {}), "spec": spec["template"]["spec"]}
    labels, name = template["metadata"].get("labels") or {}, metadata["name"]
    if isinstance(services, KubeProblem):
        notes.append(f"Services: {services.message}. If the pods have a headless one, name it as serviceName.")
        services = []
    taken = {each["metadata"]["name"] for each in services}
    nothing = {"": ""}  # a Service without a selector selects no pods
    fitting = [each for each in services if (each["spec"].get("selector") or nothing).items() <= labels.items()]
    headless = [each["metadata"]["name"] for each in fitting if each["spec"].get("clusterIP") == "None"]
    service = min(headless) if headless else f"{name}-pods" if name in taken else name
    new = {"serviceName": service, "podManagementPolicy": "Parallel", "updateStrategy": {"type": "RollingUpdate"}}
    same = ("replicas", "minReadySeconds", "revisionHistoryLimit", "selector")
    objects = [{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata}]
    objects[0]["spec"] = {key: spec[key] for key in same if key in spec} | new | {"template": template}
    if not headless:
        own = {key: value for key, value in metadata.items() if key != "annotations"} | {"name": service}
        what = {"clusterIP": "None", "selector": spec["selector"].get("matchLabels") or labels}
        objects.insert(0, {"apiVersion": "v1", "kind": "Service", "metadata": own, "spec": what})
    where = f", namespace: {metadata['namespace']}" if "namespace" in metadata else ""
    steps = _STEPS.format(name=name, where=where, option=where.replace(", namespace:", " -n"))
    return objects, "\n".join([*(f"* {note}" for note in notes), steps])


def _own(metadata: Json) -> Json:
    """Return what of an object's metadata its author wrote."""
    kept = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != "pod-template-hash"}
    notes = {k: v for k, v in (metadata.get("annotations") or {}).items() if not k.startswith(_NOT_WRITTEN_BY_HAND)}
    return kept | ({"labels": labels} if labels else {}) | ({"annotations": notes} if notes else {})


def _notes(deployment: Json) -> Iterator[str]:
    """Yield what of a Deployment has no counterpart, and what its StatefulSet cannot work with."""
    metadata, spec, pod = deployment["metadata"], deployment["spec"], deployment["spec"]["template"]["spec"]
    one_by_one = "a StatefulSet ends one pod, then starts its successor"
    if (spec.get("strategy") or {}).get("type") == "Recreate":
        yield f"strategy Recreate has no counterpart: {one_by_one}, so pods of both versions run at once."
    else:
        yield f"maxSurge and maxUnavailable are not taken over: {one_by_one}."
    if spec.get("progressDeadlineSeconds", 600) != 600:  # what the API server writes where nobody did
        yield "progressDeadlineSeconds has no counterpart: a rollout that is stuck waits, and no condition says so."
    if spec.get("paused"):
        yield "paused has no counterpart: updateStrategy OnDelete holds a rollout back."
    for volume in pod.get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            claim = volume["persistentVolumeClaim"].get("claimName")
            yield f"Volume {volume['name']}: all pods share the claim {claim}, those of the Deployment too."
    for owner in metadata.get("ownerReferences") or ():
        yield f"{owner['kind']} {owner['name']} owns the Deployment, and may make it again."
    if not _NAME.fullmatch(metadata["name"]):
        yield "Choose another name: at most 52 characters of a-z, 0-9 and -, a letter first; pod names are made of it."

