"""Each rule about nodes broken once, in the product, and the scenario whose search must find the way to a living member removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

from staticgroup.core.evidence.machines import Machine, NodeRecord
from staticgroup.core.evidence.nodes import Look, NodeRules, Vigil

from simulator.evidence.nodes.scenario import NODE_SCENARIOS, NodeScenario
from staticgroup.core.evidence import machines, nodes

Patch = tuple[object, str, Any]


def node_scenario_named(name: str) -> NodeScenario:
    """Return a scenario that must be safe by its name."""
    return next(s for s in NODE_SCENARIOS if s.name == name)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMutant:
    """One broken rule.

    Parameters
    ----------
    says: what is broken. variant: where it must be found.
    patches: (owner, attribute, replacement) in the product. changes: fields of the scenario, where the rule is a setting.
    """

    name: str
    says: str
    variant: str
    patches: tuple[Patch, ...] = ()
    changes: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def applied(self) -> Iterator[NodeScenario]:
        """Break the rule for a while and give the scenario."""
        with ExitStack() as stack:
            for owner, attribute, broken in self.patches:
                stack.enter_context(patch.object(owner, attribute, broken))
            yield replace(node_scenario_named(self.variant), **self.changes)


def _mutant(name: str, says: str, variant: str, *patches: Patch, **changes: Any) -> NodeMutant:
    return NodeMutant(name=name, says=says, variant=variant, patches=patches, changes=changes)


def _long_known(original: Callable[..., NodeRecord]) -> Callable[..., NodeRecord]:
    """Take whatever machine is there for the one that was always there."""
    return lambda known, view, **more: replace(original(known, view, **more), known_since_s=0.0)


def _from_the_beginning(original: Callable[..., Vigil | None]) -> Callable[..., Vigil | None]:
    """Count grace and margin from the first look, whenever the kubelet caught up."""

    def watched_over(vigil: Vigil | None, look: Look) -> Vigil | None:
        after = original(vigil, look)
        is_steady = after is not None and after.steady_since_s is not None
        return replace(after, steady_since_s=-1_000.0) if after is not None and is_steady else after

    return watched_over


def _without_no_machine(record: NodeRecord, *rest: Any) -> str:
    return ""


def _by_catching_up_alone(record: NodeRecord, look: Look | None, vigil: Vigil | None, needed_s: float) -> str:
    is_other = vigil is None or (vigil.uid, vigil.machine) != (record.uid, record.machine)
    return "" if not is_other and vigil is not None and vigil.has_caught_up else "it has not caught up"


def _unready_exempt(original: Callable[..., str]) -> Callable[..., str]:
    """Ask nothing of a node that is not Ready."""

    def swept(span: Any, record: Any, fleet: Any, look: Look | None, *rest: Any, **more: Any) -> str:
        is_unready = look is not None and look.view is not None and not look.view.is_ready
        return "" if is_unready else original(span, record, fleet, look, *rest, **more)

    return swept


def _all_known(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda span, fleet, rules: original(span, replace(fleet, unbroken_since_s=0.0), rules)


def _any_boot(record: NodeRecord, since_s: float, vigil: Vigil | None) -> bool:
    return record.boot_since_s > record.known_since_s


def _heard_boot(record: NodeRecord, since_s: float, vigil: Vigil | None) -> bool:
    """Take a boot that was heard of after the object had gone for one that began after that."""
    return record.boot_since_s > since_s + 60.0


def _not_asked(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda suspect, fleet, look, vigil, rules: original(suspect, fleet, look, vigil, replace(rules, asks_runtime=False, trusts_kubelet=True))


def _lists_nothing(*_: Any, **__: Any) -> tuple[str, ...]:
    return ()


def _any_runtime() -> tuple[Patch, ...]:
    """Forget which container runtime served a boot."""
    booted = machines._booted
    return ((machines, "_booted", lambda *known: replace(booted(*known), runtime_since_s=0.0)),)


MUTANTS = (
    _mutant(
        "a later pod unawaited", "E3 before the kubelet has started a later pod", "reaped",
        (nodes, "_starts_later_pods", lambda vigil, look: True),
    ),
    _mutant(
        "grace from the vanish", "grace and margin run from the first look, not from when the kubelet had caught up", "reaped",
        (nodes, "watched_over", _from_the_beginning(nodes.watched_over)),
    ),
    _mutant("no grace", "the kubelet has caught up, and nothing is waited for", "reaped", (nodes, "_unsteady", _by_catching_up_alone)),
    _mutant(
        "any boot", "E3 goes on over a reboot", "rebooted",
        (nodes, "_is_other", lambda vigil, view, machine: vigil.uid != view.uid or not vigil.machine.is_same(machine)),
        (nodes, "_unsteady", lambda record, look, vigil, needed_s: _steady_in_any_boot(record, vigil, needed_s)),
    ),
    _mutant("stuck is reaped", "E3 of a pod whose deletion was overdue", "stuck", (nodes, "_no_reaping", lambda *_: "")),
    _mutant(
        "boot of any time", "E4 by a boot that was there before the object went", "stuck", (nodes, "has_rebooted", _any_boot),
    ),
    _mutant("boot heard of late", "E4 by a boot that was heard of after the object went", "stuck unseen", (nodes, "has_rebooted", _heard_boot)),
    _mutant(
        "kubelet trusted", "a kubelet's work counts without that its runtime was asked or anybody said so", "nobody asked",
        (NodeRules, "hears_kubelets", property(lambda self: True)),
    ),
    _mutant("any runtime", "a container runtime that was replaced is asked for what the one before runs", "runtime replaced", *_any_runtime()),
    _mutant(
        "swept by another runtime", "a node is swept by a container runtime that was another in the span", "sweep, runtime replaced",
        *_any_runtime(),
    ),
    _mutant(
        "any machine", "a replaced machine counts as the one that it replaced", "replaced", (Machine, "is_same", lambda self, other: True),
    ),
    _mutant(
        "replaced machine always known", "what is remembered need not reach back to the pod", "replaced",
        (nodes, "_no_machine", _without_no_machine),
    ),
    _mutant(
        "forgotten ledger", "a new process takes the machine that it finds for the one that was there", "replaced unseen",
        (machines, "merged", lambda mine, written, *, now_s: mine), (machines, "seen", _long_known(machines.seen)),
    ),
    _mutant(
        "deletion trusted", "a deleted Node counts as a machine that is gone, whatever its lifecycle", "node deleted",
        (NodeRules, "trusts_deletion", property(lambda self: True)),
    ),
    _mutant("taint trusted", "the taint counts without that anybody said so", "tainted", trusts_taint=True),
    _mutant("runtime unheard", "a runtime that still lists the pod is not listened to", "hung kill", (nodes, "judged", _not_asked(nodes.judged))),
    _mutant("strangers unheard", "a runtime that lists a pod which nobody saw is not listened to", "sweep", (nodes, "hidden_pods", _lists_nothing)),
    _mutant("unready exempt", "nothing is asked of a node that is not Ready", "sweep", (nodes, "swept", _unready_exempt(nodes.swept))),
    _mutant(
        "swept by a listing alone", "a runtime is asked before its kubelet has caught up", "sweep, rebooted", (nodes, "_unsteady", lambda *_: ""),
    ),
    _mutant(
        "came and went", "nodes that nobody saw come and go are taken for none", "sweep, came and went",
        (nodes, "nodes_to_sweep", _all_known(nodes.nodes_to_sweep)),
    ),
    _mutant(
        "swept by another machine", "a node is swept that was another machine in the span", "sweep, replaced",
        (nodes, "_no_machine", _without_no_machine), (nodes, "nodes_to_sweep", lambda span, fleet, rules: tuple(fleet.records.values())),
    ),
)  # fmt: skip


def _steady_in_any_boot(record: NodeRecord, vigil: Vigil | None, needed_s: float) -> str:
    is_same = vigil is not None and vigil.uid == record.uid and vigil.machine.is_same(record.machine)
    return "" if is_same and vigil is not None and vigil.steady_s > needed_s else "it has not worked on"
