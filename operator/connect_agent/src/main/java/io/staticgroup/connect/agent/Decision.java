package io.staticgroup.connect.agent;

/** What the agent decides: each decision is logged in the worker's log and counted in JMX. */
enum Decision {
    /** An assignment reached this worker under a new member id: a new process, or one that lost its session. */
    RETURNED,
    /** An assignment reached this worker in a round that it took part in. */
    TOOK_PART,
    /** The leader came back, and leads again. */
    LEADER_RETURNED,
    /** The stored assignment was of an older config offset than this worker's own. */
    OFFSET_LIFTED,
    /** As leader: work counts as owned by a member that does not report it. */
    ABSENT_COUNTED,
    /** As leader: no work moves, because the last work of a member that may be away is not known. */
    HELD_BACK,
    /** As leader: whole allocations were handed to the coordinator. */
    WHOLE_STORED,
    /** This worker asks for one more round. */
    ROUND_WANTED,
    /** Another process holds the identity; this one ends. */
    FENCED,
    /** The agent can't work in this process, whose worker is a dynamic member. */
    REFUSED,
    /** A hook failed, and Connect goes on as without the agent. */
    FAILED;

    /** Receives the decisions. */
    interface Listener {
        void decided(Decision decision, String text);
    }
}
