"""What is known of a kind of workload; what is unknown removes no member."""

from __future__ import annotations

from .mutant import mutant

_READ = ("tests/unit/kube/translate/test_pod_sets.py",)
_ROUNDS = ("tests/unit/runtime/test_pod_sets.py",)

WORKLOADS = tuple(
    mutant(name, path, tests, *changes)
    for path, tests, name, *changes in (
        (
            "core/workload.py",
            _ROUNDS,
            "list of pods read as a range",
            (
                "        if self.listed is None:\n            return (range(",
                "        if self.listed is None or self.listed:\n            return (range(",
            ),
        ),
        (
            "kube/gateway.py",
            _READ,
            "kind that is not served read as one without the object",
            ("        if resource.plural in plurals:\n", "        if plurals or True:\n"),
        ),
        (
            "kube/translate/pod_sets.py",
            _READ,
            "list that is not there read as an empty one",
            ('    if not isinstance(spec.get("pods"), list):\n        raise WrongShapeError("spec.pods", spec.get("pods"))\n', ""),
        ),
        (
            "kube/translate/pod_sets.py",
            _READ,
            "listed pods of one name taken for one",
            ("    if len(listed) < len(pods):\n        raise WrongShapeError(\"spec.pods[].metadata.name\", pods)\n", ""),
        ),
        (
            "runtime/gather.py",
            _ROUNDS,
            "StatefulSet of the same name taken for the workload",
            ("self.stores.workloads.get((namespace, ref.name)) if ref.kind == STATEFUL_SET.kind else None", "self.stores.workloads.get((namespace, ref.name))"),
        ),
        (
            "core/issuance.py",
            _ROUNDS,
            "ids of another StaticGroup injected on while the workload cannot be read",
            ("    return bool(snapshot.prior_claims) or ", "    return "),
        ),
        (
            "core/issuance.py",
            _ROUNDS,
            "ambiguous ids injected on while the workload cannot be read",
            ("    except AmbiguousIdentityError:\n        return True\n    except", "    except AmbiguousIdentityError:\n        return False\n    except"),
        ),
        (
            "core/guards.py",
            _ROUNDS,
            "listed pods that nobody makes said to come for ever",
            ("1.0, is_lasting=is_lasting)", "1.0)"),
        ),
        (
            "runtime/rivals.py",
            _ROUNDS,
            "StaticGroup of another kind of workload taken for one of the same pods",
            (" if stores.groups[k].spec.workload_ref.kind == ref.kind)", ")"),
        ),
        (
            "kafka/login/tokens.py",
            ("tests/unit/kafka/test_tokens.py",),
            "link to the token of another namespace followed",
            ("path.is_relative_to(folder))", "path.is_relative_to(root))"),
        ),
    )
)
