"""The chart's webhook under a real API server: install it, create pods at a pace, and read each pod's id.

The pods name a scheduler that does not run, so no kubelet starts them: what is tried is their creation.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from staticgroup.api import names

Json = dict[str, Any]
CREATORS = 8
"""Pods that are created at the same time, as by as many controllers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """What the API server answered to one creation.

    Parameters
    ----------
    instance_id: of the pod's annotation; "" where it got none.
    seconds: from the request to the answer.
    """

    pod_name: str
    instance_id: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """Everything that was created, in the order of the ordinals."""

    created: tuple[Created, ...]

    def without_id(self, scope: str) -> list[str]:
        """Name the pods that did not get just their own id."""
        return [each.pod_name for each in self.created if each.instance_id != f"{each.pod_name}.{scope}"]

    def figures(self) -> str:
        """Say how long creations took, in milliseconds."""
        times = sorted(each.seconds * 1000 for each in self.created)
        p99 = statistics.quantiles(times, n=100)[98]
        return (
            f"{len(times)} pods: median {statistics.median(times):.0f} ms, p99 {p99:.0f} ms, longest {times[-1]:.0f} ms"
        )


class PodCreator:
    """Create pods over connections that are kept, as controllers do.

    Parameters
    ----------
    kubeconfig: of one context with a token and the authority of the API server.
    """

    def __init__(self, kubeconfig: str) -> None:
        body = yaml.safe_load(Path(kubeconfig).read_text(encoding="utf-8"))
        cluster = body["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._server = urlsplit(cluster["server"])
        self._context = ssl.create_default_context(cadata=authority)
        self._headers = {
            "Authorization": f"Bearer {body['users'][0]['user']['token']}", "Content-Type": "application/json"
        }
        self._own = threading.local()

    def create(self, pod: Json) -> Created:
        if not hasattr(self._own, "connection"):
            self._own.connection = http.client.HTTPSConnection(
                str(self._server.hostname), self._server.port, context=self._context, timeout=30
            )
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        began_s = time.monotonic()
        self._own.connection.request("POST", f"/api/v1/namespaces/{namespace}/pods", json.dumps(pod), self._headers)
        answer = self._own.connection.getresponse()
        text = answer.read().decode()
        seconds = time.monotonic() - began_s
        assert answer.status == 201, f"{name}: {answer.status} {text}"
        annotations = json.loads(text)["metadata"].get("annotations", {})
        return Created(
            pod_name=name, instance_id=annotations.get(names.INSTANCE_ID_ANNOTATION, ""), seconds=seconds
        )


def drill(
    creator: PodCreator, pods: Sequence[Json], *, every_s: float, troubles: Mapping[int, Callable[[], object]]
) -> Drill:
    """Create pods one after the other at a pace, and make trouble meanwhile.

    Parameters
    ----------
    every_s: from one creation to the next, seconds; those that take longer go on beside the next ones.
    troubles: what is done just before the pod of that index, in the thread that paces.
    """
    begin_s = time.monotonic()
    with ThreadPoolExecutor(CREATORS) as pool:
        waiting = []
        for index, pod in enumerate(pods):
            if index in troubles:
                troubles[index]()
            time.sleep(max(0.0, begin_s + index * every_s - time.monotonic()))  # the pace is the load, not a wait
            waiting.append(pool.submit(creator.create, pod))
        return Drill(created=tuple(each.result() for each in waiting))


def stateful_pod(namespace: str, workload: str, ordinal: int, **metadata: Any) -> Json:
    """A pod as the StatefulSet controller writes it, which no scheduler takes."""
    owner = {
        "apiVersion": "apps/v1", "kind": "StatefulSet", "name": workload, "uid": f"{workload}-uid", "controller": True
    }
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": f"{workload}-{ordinal}", "namespace": namespace,
            "labels": {names.POD_INDEX_LABEL: str(ordinal)}, "ownerReferences": [owner], **metadata,
        },
        "spec": {
            "schedulerName": "nobody", "serviceAccountName": "app", "automountServiceAccountToken": False,
            "containers": [{"name": "app", "image": "app"}],
        },
    }  # fmt: skip


def webhook_objects(manifests: Sequence[Json]) -> Iterator[Json]:
    """Yield what a rendered chart installs for the webhook, and not for the operator."""
    for each in manifests:
        if each["metadata"].get("labels", {}).get("app.kubernetes.io/component") == "webhook":
            yield each
