"""What the roles call things, for the view, the narrator, the table and the promise.

The one idea: there is one storyline, and work is what it is about: partitions of a topic, or tasks. What differs in
words is here, and in nothing but words; what differs in deed is in the roles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

TAKEOVER_PROMISE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """The words of one role.

    Parameters
    ----------
    workers: what the pods are.
    piece, unit: what is shared out, and what its owner gets of it per second.
    nobody: begins the sentence about a standstill.
    done: what is said of work that does not stand still.
    roll_without, scale_without, with_it: heads of the columns.
    taken: what a rebalance does to pods that run on: the row of the table; `took` says it of the rolling restart.
    lost: the row about what went wrong with the work itself; `missed` says it of one group.
    rebalances_max: in the rolling restart with StaticGroup.
    holds_without: whether without StaticGroup a departed pod's work waits longer than with it.
    """

    role: str
    workers: str
    piece: str
    unit: str
    nobody: str
    done: str
    opened: str
    scale_question: str
    roll_without: str
    scale_without: str
    with_it: str
    taken: str
    took: str
    lost: str
    missed: str
    rebalances_max: int
    caption: str
    holds_without: bool = True

    @property
    def pieces(self) -> str:
        """Several of them."""
        return f"{self.piece}s"

    @property
    def all_run(self) -> str:
        """What is said of a moment without standstills."""
        return f"all {self.done}"

    @property
    def promise(self) -> str:
        """What is said when it was kept."""
        most = (
            "no rebalance"
            if self.rebalances_max == 0
            else f"at most {self.rebalances_max} rebalance, which moved nothing"
        )
        return (
            f"As promised: {most}, and the departed pod's {self.pieces} were taken over in less than "
            f"{TAKEOVER_PROMISE_S:.0f} s."
        )


CONSUMER = Wording(
    role="consumer",
    workers="consumers",
    piece="partition",
    unit="records/s",
    nobody="nobody consumed its partitions",
    done="consumed",
    opened="All groups are stable and consume everything.",
    scale_question="who consumes the partitions of pod 2",
    roll_without="dynamic members",
    scale_without="static ids alone",
    with_it="StaticGroup",
    taken="running consumers interrupted, times",
    took="interrupted running consumers {count} times",
    lost="Records acknowledged, not consumed",
    missed="did not receive {count} acknowledged records",
    rebalances_max=0,
    caption=(
        "A partition stands still when nobody receives a record of it for more than 1 s. With static ids the "
        "partitions of a "
        "restarting pod wait for it instead of moving: nothing is rebuilt elsewhere, and nobody else stops. So they "
        "stand still for as "
        "long as the pod is away: static membership does not shorten a restart, and where nothing is to be rebuilt and "
        "everybody polls "
        "at once it gains little time. With state: each partition has one, on a volume of the pod, of all its records, "
        "which a store "
        "takes in at 5,000 records/s; a batch takes 1.5 s, and a rebalance waits for the slowest one."
    ),
)
DEPLOYMENT = replace(
    CONSUMER,
    opened="Both groups are stable and consume everything.",
    scale_question="who consumes the partitions of the pod that goes",
    scale_without="dynamic members",
    holds_without=False,
    caption=(
        "A partition stands still when nobody receives a record of it for more than 1 s. Both Deployments have "
        "Kubernetes' default strategy, which replaces one pod of four at a time. With StaticGroup a new pod waits in "
        "an init container for the slot of a pod that ends, whose partitions wait for it instead of moving. Dynamic "
        "members leave by themselves, so their scale-down is short too."
    ),
)
STREAMS = Wording(
    role="streams",
    workers="Kafka Streams pods",
    piece="partition",
    unit="records/s",
    nobody="nobody processed its partitions",
    done="processed",
    opened="Both groups are stable and process everything.",
    scale_question="who processes the partitions of pod 2",
    roll_without="dynamic members",
    scale_without="dynamic members",
    with_it="StaticGroup",
    taken="partitions taken from running pods",
    took="took {count} partitions from running pods",
    lost="Records acknowledged, not processed",
    missed="did not process {count} acknowledged records",
    rebalances_max=1,
    caption=(
        "A partition stands still when nobody processes a record of it for more than 1 s. Kafka Streams does not leave "
        "its group "
        "when it closes (its default), so without static ids the coordinator waits for the dead threads until their "
        "session ends "
        "(45 s, the default). Records restored: read again from changelogs to rebuild state. State is on a volume of "
        "the pod."
    ),
)
CONNECT = Wording(
    role="connect",
    workers="Connect workers",
    piece="task",
    unit="ticks/s",
    nobody="nobody ran its tasks",
    done="running",
    opened="Both groups are stable and run all tasks.",
    scale_question="who runs the tasks of pod 2",
    roll_without="stock, delay 60 s",
    scale_without="stock, delay 60 s",
    with_it="static, delay 0",
    taken="tasks stopped elsewhere",
    took="stopped {count} tasks elsewhere",
    lost="Tasks that ran twice at a time",
    missed="had {count} tasks running twice at a time",
    rebalances_max=1,
    caption=(
        "A task stands still when it does not tick for more than 1 s, by its own ticks. Delay: "
        "scheduled.rebalance.max.delay.ms, "
        "for which stock Connect keeps the tasks of a worker that left; 60 s here so that it can be waited for, 300 s "
        "by default. "
        "The worker that leads may cost one rebalance when it returns, which moves and stops nothing."
    ),
)
