"""The method behind each figure, as the report explains it."""

from __future__ import annotations

from collections.abc import Sequence

from journal.recommendations import EstimateMethod

from .model import Method

METHOD_NAMES = {
    EstimateMethod.KAPLAN_MEIER: "Found on the group's own survival curve.",
    EstimateMethod.ORDER_STATISTIC: "Bounded by an order statistic of the group's own stops.",
    EstimateMethod.POOLED: "Found with the help of similar workloads, because its own stops are few.",
    EstimateMethod.STRUCTURAL: "Taken from the deadlines in the pod's own specification.",
    EstimateMethod.RENT_OR_BUY: "κ/ν, at most twice as expensive as the best: nothing is known about its restarts.",
}

_METHODS = (
    Method(
        name="Partition time",
        text="The unit of every cost: partitions without consumption × how long. One partition for one hour is one "
        "partition-h, or 3,600 partition-s.",
    ),
    Method(
        name="Restarts",
        text="An outage begins when a member's process ends and is over when the group has the member back, as the "
        "operator saw it; the container's start is a part of it. One that was not over at the end, or was "
        "ended by a removal, counts as longer than what was seen; one during which nobody watched is counted, "
        "but in no duration. Whether the group let it pass is what its members reported, never the length "
        "alone.",
    ),
    Method(
        name="Rebalances",
        text="Steps of the generation or the group epoch that the operator saw. How long one stops a partition is "
        "measured, stated in the configuration or assumed, for all partitions of a classic group and for the "
        "moved ones of a KIP-848 group; where it is only assumed, no timeout is chosen by it.",
    ),
    Method(
        name="Absorbed restarts",
        text="Rejoins under a known group.instance.id without a rebalance in between (KIP-345). What dynamic members "
        "would have cost comes from the same timeline replayed through a model of Kafka's group coordinator.",
    ),
    Method(
        name="Waiting",
        text="Time a place was kept for an absent member: within the session timeout it is wanted; beyond it the "
        "timeout in force was another one; for a member that was removed in the end it is the time until its removal.",
    ),
    Method(
        name="Survival curve",
        text="Product-limit estimate (Kaplan and Meier 1958) of the share of stops that last longer, with the "
        "pointwise log-log band at 95 % on Greenwood's variance. Session timeouts do not distort it: a pod comes back "
        "whether or not its member was expelled.",
    ),
    Method(
        name="Bounds",
        text="A bound that states 90 % held for 85 to 96 % of simulated workloads whose gaps are lognormal, come in "
        "rollouts or are partly unseen; for 80 to 95 % where one gap in a hundred comes from a heavy tail that "
        "no model knows (80 to 88 % up to 100 restarts); and for 69 to 87 % where tail, rollouts and unseen "
        "ends came together: the longest gaps are then the unseen ones, and more data do not mend it.",
    ),
    Method(
        name="Cost of a timeout",
        text="Per stop: κ, an eviction that was not needed, times the chance that the stop outlasts the timeout, "
        "plus ν, the partitions of one member, times the expected wait. Waiting pays while the chance of "
        "return per second is above ν/κ. The timer runs from the last heartbeat, which comes off every timeout.",
    ),
    Method(
        name="Savings",
        text="What is in force and what is advised are priced under each of many laws that the restarts allow, at "
        "both ends of the price's own interval; the page states the quantiles 5 % and 95 % of the difference. "
        "A change is advised only by a price that was measured or stated, and only when that whole interval is "
        "above zero; else it says that not enough is known.",
    ),
    Method(
        name="Detection",
        text="The session timeout is also how long a member can be dead before its group notices. Pods that the "
        "operator can prove dead are removed before that; a node that is gone, or a process that hangs, waits "
        "for it.",
    ),
    Method(
        name="The bill",
        text="From __consumer_offsets: how long a partition committed no progress around each rebalance and outage, "
        "less what is usual for it, known to about one commit interval. It needs no operator.",
    ),
    Method(
        name="Coverage",
        text="Operators report every 30 s that they are watching. Time without such a report is no evidence, and "
        "counts for no group.",
    ),
)


def methods(versions: Sequence[tuple[str, str]]) -> tuple[Method, ...]:
    """Return the methods of every report, and the versions behind the figures.

    Parameters
    ----------
    versions: by name, in the order of the text.
    """
    if not versions:
        return _METHODS
    names = ", ".join(f"{name} {version}" for name, version in versions)
    return (*_METHODS, Method(name="Made with", text=f"{names}."))
