"""Which pods an injector may change: no pod gets an id that is not its own."""

from __future__ import annotations

from .mutant import mutant

_RENDERING = ("tests/unit/api/test_rendering.py",)

INJECTORS = tuple(
    mutant(name, "api/rendering.py", _RENDERING, change)
    for name, change in (
        ("pod of another owner given an id", ("    return is_owned and is_managed and", "    return is_managed and")),
        ("pod of a StatefulSet that only owns it beside others given an id", (' if o.get("controller")), {})', "), {})")),
        ("id injected in mode Observe", ('spec.get("mode", "Manage") == "Manage"', 'spec.get("mode", "Manage") != "Suspended"')),
        ("id injected while suspended", ('spec.get("mode", "Manage") == "Manage"', 'spec.get("mode", "Manage") != "Observe"')),
        (
            "id injected by the name of another injector",
            (' and injected.get("method") == method.value\n', ' and bool(injected.get("method"))\n'),
        ),
        (
            "pod without an ordinal given an id",
            ("        and _ordinal(metadata) is not None\n", ""),
        ),
        (
            "copy that keeps labels and owner of a pod given the pod's id",
            (" if workload_name != owner[\"name\"] or not", " if not"),
        ),
        (
            "copy that has a number given the id of the pod whose label it keeps",
            ("return ordinal if (metadata.get(\"labels\") or {}).get(names.POD_INDEX_LABEL) == ordinal else None", "return (metadata.get(\"labels\") or {}).get(names.POD_INDEX_LABEL)"),
        ),
        ("pod of any ReplicaSet given a slot", ('"ReplicaSet", f"{name}-{pod_hash}")', '"ReplicaSet", owner.get("name"))')),
        ("pod whose label is another's given a slot", ("    return pod_hash is not None and found ==", "    return True or found ==")),
        ("slot injected twice", (" or is_taken or is_windows", " or is_windows")),
        ("slot injected in part", ("waiter.name and keyed and has_all", "waiter.name and keyed")),
    )
)

_HOOK = "tests/unit/runtime/webhook"

WEBHOOK = tuple(
    mutant(name, f"runtime/webhook/{path}", (f"{_HOOK}/test_{path}",), change)
    for name, path, change in (
        (
            "pod kept from starting by a fault of the webhook",
            "review.py",
            ("            outcome = Outcome.FAILED\n        return", "            raise\n        return"),
        ),
        (
            "id given by the webhook that the policy gives too",
            "review.py",
            ("is_meant(pod, group, InjectedMethod.WEBHOOK)", "is_meant(pod, group, InjectedMethod.POLICY)"),
        ),
        ("id given to a pod that is changed", "review.py", ('request.get("operation") == "CREATE" and ', "")),
        (
            "what was read before the question taken for an answer",
            "shared_reads.py",
            (
                "        if running is None:\n",
                "        if running is not None:\n            return await asyncio.shield(running)\n        if running is None:\n",
            ),
        ),
        (
            "authority that nobody trusts yet signs",
            "certificates.py",
            ("        if not is_by_newest and is_usable and trusted_for_s < TRUST_SETTLES_S:\n", "        if False:\n"),
        ),
        (
            "authority that is still needed not published",
            "certificates.py",
            (
                "        authorities = (authority.certificate, *(a for a in known.authorities if _left(a, now_s) > 0))\n",
                "        authorities = (authority.certificate,)\n",
            ),
        ),
        ("certificate of cert-manager written over", "keeper.py", ("        if self.is_own:\n", "        if True:\n")),
        (
            "certificate shown that was not stored",
            "keeper.py",
            (
                '                return None\n            log.info("webhook certificates renewed"',
                '                pass\n            log.info("webhook certificates renewed"',
            ),
        ),
    )
)
