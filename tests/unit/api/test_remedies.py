"""Each remedy is worded in one place of the product, which every caller uses."""

import ast
from collections.abc import Iterator
from pathlib import Path

from staticgroup.api import remedies
from staticgroup.api.workloads import ARGO_ROLLOUT, STRIMZI_POD_SET

PRODUCT = Path(remedies.__file__).parents[1]
REMEDIES = (
    "with an ACL", "kubectl staticgroup crds | kubectl apply -f -", "does not come back by itself", "delete pod ",
    "rollout restart",
)


def sentences(path: Path) -> Iterator[str]:
    """Yield every text of a module that is not a docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield node.value


def test_each_remedy_is_worded_once() -> None:
    found: dict[str, list[str]] = {remedy: [] for remedy in REMEDIES}
    for path in sorted(PRODUCT.rglob("*.py")):
        for text in sentences(path):
            for remedy in REMEDIES:
                found[remedy] += [path.name] * (remedy in text)
    assert found == {remedy: ["remedies.py"] for remedy in REMEDIES}


def test_a_command_ends_its_advice_so_that_it_can_be_copied() -> None:
    texts = [
        remedies.restart_pod("shop", "web-1"),
        remedies.end_pod("shop", "web-1"),
        remedies.give_id("shop", "web-1"),
        remedies.give_ids("shop", "web"),
        remedies.bring_agent("shop", "web"),
        remedies.bring_agent("shop", "connect-connect", STRIMZI_POD_SET),
        remedies.give_ids("shop", "web", ARGO_ROLLOUT),
        remedies.APPLY_CRDS,
    ]
    assert [text.rpartition(": ")[2] for text in texts] == [
        "kubectl -n shop delete pod web-1",
        "kubectl -n shop delete pod web-1",
        "kubectl -n shop delete pod web-1",
        "kubectl -n shop rollout restart statefulset/web",
        "kubectl -n shop rollout restart statefulset/web",
        "kubectl -n shop annotate strimzipodsets connect-connect strimzi.io/manual-rolling-update=true",
        "kubectl argo rollouts -n shop restart web",
        "kubectl staticgroup crds | kubectl apply -f -",
    ]
