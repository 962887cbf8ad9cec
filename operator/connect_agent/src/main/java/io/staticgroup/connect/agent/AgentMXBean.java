package io.staticgroup.connect.agent;

import java.util.Map;

/** What the agent shows in JMX; its counters begin with the process. */
public interface AgentMXBean {
    String getVersion();

    String getInstanceId();

    /** Whether the worker has its identity, as far as is known: false once it was refused. */
    boolean isActive();

    /** The last line of the log. */
    String getLastDecision();

    /** How often each was decided. */
    Map<String, Long> getDecisions();
}
