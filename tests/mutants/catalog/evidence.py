"""What a pod version proves: certificates, the facts behind them, and ids that no edit can change."""

from __future__ import annotations

from .mutant import mutant
from .suites import CERTIFICATE, NODES, TRANSLATE

CERTIFICATES = tuple(
    mutant(name, "core/evidence/certificate.py", CERTIFICATE, *changes)
    for name, *changes in (
        ("E1 without the phase rule", ("    if not is_terminal(version):\n", "    if False:\n")),
        ("phase written by PodGC accepted", ('if version.disruption_reason == "DeletionByPodGC":', "if False:")),
        (
            "phase written by the controller manager accepted",
            ("    if version.phase_manager in PHASE_MANAGERS_REFUSED:\n", "    if False:\n"),
        ),
        (
            "phase written by the PodGC of 1.26 accepted",
            ('frozenset({"kube-controller-manager", "PodGC"})', 'frozenset({"kube-controller-manager"})'),
        ),
        (
            "only a writer called kubelet believed",
            (
                "    if version.phase_manager in PHASE_MANAGERS_REFUSED:\n",
                '    if version.phase_manager != "kubelet":\n',
            ),
        ),
        (
            "phase of a third party accepted",
            ("    if not version.phase_has_statuses:\n", "    if False:\n"),
        ),
        ("node out of service accepted", ("    if node.is_out_of_service:\n", "    if False:\n")),
        ("replaced node accepted", ("    if _was_replaced(version, node):\n", "    if False:\n")),
        ("node that took a name over accepted", ("max(node.created_at_s, int(node.other_until_s))", "node.created_at_s")),
        ("hostPID pod accepted", ("    if version.host_pid:\n", "    if False:\n")),
        ("virtual-kubelet node accepted", ("    if node.is_virtual or version.is_peer_pod:", "    if version.is_peer_pod:")),
        ("peer pod accepted", ("    if node.is_virtual or version.is_peer_pod:", "    if node.is_virtual:")),
        ("old kubelet accepted", ("node.kubelet_minor < KUBELET_MINOR_MIN:", "node.kubelet_minor < 1:")),
        (
            "kubelet of unknown version accepted",
            (
                "if node.kubelet_minor is None or node.kubelet_minor <",
                "if node.kubelet_minor is not None and node.kubelet_minor <",
            ),
        ),
        ("container rule dropped", ("        or _container_refusal(version, ever if runs_known else None)\n", "")),
        (
            "empty status list accepted, all([])",
            (
                "    for container in version.required + (version.inits if is_any_unstarted else ()):\n",
                "    for container in (c for c in version.required if c.phase is not ContainerPhase.ABSENT):\n",
            ),
        ),
        (
            "only the first container asked",
            (
                "    for container in version.required + (version.inits if is_any_unstarted else ()):\n",
                "    for container in version.required[:1]:\n",
            ),
        ),
        (
            "containerID not required",
            ("if not container.container_id or not container.finished_at:", "if not container.finished_at:"),
        ),
        (
            "finishedAt not required",
            ("if not container.container_id or not container.finished_at:", "if not container.container_id:"),
        ),
        ("never started without seen-from-birth", ("ever if runs_known else None", "ever")),
        (
            "never started after a run was shown",
            ("    if started is None or container.name in started:\n", "    if started is None:\n"),
        ),
        ("run that the last version shows forgotten", ("ever = started | version.started_containers", "ever = started")),
        ("init containers not asked", (" + (version.inits if is_any_unstarted else ())", "")),
        (
            "absent entry counts as never started",
            (
                "    return container.phase is ContainerPhase.WAITING or",
                "    return container.phase in (ContainerPhase.WAITING, ContainerPhase.ABSENT) or",
            ),
        ),
        ("end of a lost container counts as never started", ("(is_unknown and not container.finished_at)", "is_unknown")),
        ("pod whose init container ran never ran", ("    if not ever:\n", "    if not {c.name for c in version.required} & ever:\n")),
        (
            "pod that was bound certified as unbound",
            ("    if ever_bound or version.node_name:\n", "    if version.node_name:\n"),
        ),
    )
)

FACTS = (
    mutant(
        "any owner of the status counts as the writer of the phase",
        "kube/translate/pods.py",
        TRANSLATE,
        ('        if "f:phase" not in owned or ', "        if not owned or "),
    ),
    mutant(
        "oldest owner of the phase believed",
        "kube/translate/pods.py",
        TRANSLATE,
        ("at >= written_at:", "at <= (written_at or at):"),
    ),
    mutant(
        "restart count is no trace of a run",
        "kube/translate/pods.py",
        TRANSLATE,
        (' or whole_of(entry, "restartCount", "status"):', ":"),
    ),
    mutant(
        "last state is no trace of a run",
        "kube/translate/pods.py",
        TRANSLATE,
        ('    return object_of(entry, "lastState", "status").get("terminated") is not None\n', "    return False\n"),
    ),
    mutant(
        "lost container's last state without an id is no trace of a run",
        "kube/translate/pods.py",
        TRANSLATE,
        (
            '"lastState", "status").get("terminated") is not None',
            '"lastState", "status").get("terminated", {}).get("containerID") is not None',
        ),
    ),
    mutant(
        "running state is no trace of a run",
        "kube/translate/pods.py",
        TRANSLATE,
        ('if state.get("running") is not None or text_of(', "if text_of("),
    ),
    mutant(
        "peer pod of a class of another name not known",
        "kube/translate/pods.py",
        TRANSLATE,
        ("_PEER_POD_RESOURCE in object_of(", "_PEER_POD_RESOURCE is object_of("),
    ),
    mutant(
        "peer pod of the usual class not known",
        "kube/translate/pods.py",
        TRANSLATE,
        ('_PEER_POD_CLASS = "kata-remote"', '_PEER_POD_CLASS = "kata-remote-"'),
    ),
    mutant(
        "out-of-service taint not read",
        "kube/translate/nodes.py",
        TRANSLATE,
        ('any(taint.get("key") == OUT_OF_SERVICE_TAINT for taint in taints)', "False"),
    ),
    mutant(
        "facts of a node that is gone forgotten",
        "kube/nodes/store.py",
        NODES,
        ("return self._nodes.get(name) or self._vanished.get(name)", "return self._nodes.get(name)"),
    ),
    mutant(
        "facts of nodes count that may not be listed any more",
        "kube/nodes/store.py",
        NODES,
        (" if self._is_readable else None", ""),
    ),
)

FIXED_IDS = tuple(
    mutant(name, "kube/translate/carried_ids.py", TRANSLATE, *changes)
    for name, *changes in (
        (
            "id of an annotation taken for fixed",
            ('reference.get("fieldPath") in _FIXED_FIELDS', 'reference.get("fieldPath", "").startswith("metadata.")'),
        ),
        (
            "id of a ConfigMap taken for fixed",
            ('is_fixed = file in files or reference.get("fieldPath") in', 'is_fixed = not reference or file in files or reference.get("fieldPath") in'),
        ),
        (
            "id composed of what can be edited taken for fixed",
            (
                'is_fixed = "$(" not in text or all(reference in fixed for reference in _references(text))',
                "is_fixed = True",
            ),
        ),
        (
            "reference to a Service's variable taken for fixed",
            ("all(reference in fixed for", "all(reference in fixed or reference not in known for"),
        ),
        ("variable that is defined again keeps what it was", ("        fixed.discard(name)\n", "")),
        (
            "envFrom brings no id",
            ('            if objects_of(container, "envFrom", f"spec.{kind}[]"):\n', "            if False:\n"),
        ),
        (
            "variable of another name that has the id of an annotation overlooked",
            (" or value in annotated or name in reads:", " or name in reads:"),
        ),
        ("pod without an id in its environment has fixed ones", ("(shows_id or not (is_annotated or shows_all))", "True")),
        ("pod whose only id is an annotation has fixed ones", ("(is_annotated or shows_all)", "shows_all")),
        ("pod without an id that has every annotation in a file has fixed ones", ("is_annotated or shows_all", "is_annotated")),
        ("pod without an id never has fixed ones", ("shows_id or not (is_annotated or shows_all)", "shows_id")),
        ("variable that reads an id's annotation overlooked while there is none", (" or name in reads:", ":")),
        ("file of an id's annotation overlooked", ("    if any(path.startswith(_OF_AN_ID)", "    if False and any(path.startswith(_OF_AN_ID)")),
        ("file of every annotation overlooked", ("            if carries and any(", "            if False and any(")),
        ("sidecar's file of every annotation taken for the consumer's", ("            if carries and any(", "            if any(")),
        (
            "ids beyond those that are looked at taken for fixed",
            ("            return Carried(frozenset(legal), False, dict.fromkeys(_names(spec), frozenset[str]()))\n", "            break\n"),
        ),
        ("one fixed id makes all fixed", ("are_fixed = are_fixed and is_fixed", "are_fixed = is_fixed")),
    )
)
