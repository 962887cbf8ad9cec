package io.staticgroup.connect.agent;

/** What the agent decides: each is told as a line of the worker's log, and counted in JMX. */
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
    /** As leader: nobody is given or loses anything, because nobody knows what a member was given that may be away. */
    HELD_BACK,
    /** As leader: whole allocations were handed to the coordinator. */
    WHOLE_STORED,
    /** One more round is asked for. */
    ROUND_WANTED,
    /** Another process holds the identity; this one ends. */
    FENCED,
    /** The agent can't work in this process, whose worker is a dynamic member. */
    REFUSED,
    /** Something went wrong, and Connect goes on as without the agent. */
    FAILED;

    /** Whom decisions are told. */
    interface Listener {
        void decided(Decision decision, String text);
    }
}
