package io.staticgroup.connect.agent;

import java.lang.management.ManagementFactory;
import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import javax.management.JMException;
import javax.management.ObjectName;

/** Decisions as lines of the log, and counted in JMX. */
final class Statistics implements Decision.Listener, AgentMXBean {
    static final String NAME = "io.staticgroup.connect:type=Agent";

    private final String instanceId;
    private final Log log;
    private final Map<String, Long> counts = new ConcurrentSkipListMap<>();
    private volatile String last = "";

    Statistics(String instanceId, Log log) {
        this.instanceId = instanceId;
        this.log = log;
        for (Decision decision : Decision.values()) {
            counts.put(decision.name(), 0L);
        }
    }

    /** Shows itself to JMX; an agent without it works as well. */
    void register() {
        try {
            ManagementFactory.getPlatformMBeanServer().registerMBean(this, new ObjectName(NAME));
        } catch (JMException | RuntimeException | LinkageError problem) {
            Log.toStandardError("no JMX: " + problem);
        }
    }

    @Override
    public void decided(Decision decision, String text) {
        counts.merge(decision.name(), 1L, Long::sum);
        last = text;
        if (decision == Decision.FENCED || decision == Decision.REFUSED) {
            Log.toStandardError(text); // an appender that buffers may not live to write it
        }
        log.write(decision.compareTo(Decision.FENCED) < 0 ? "info" : "error", text);
    }

    @Override
    public String getVersion() {
        return Agent.version();
    }

    @Override
    public String getInstanceId() {
        return instanceId;
    }

    @Override
    public boolean isActive() {
        return counts.get(Decision.REFUSED.name()) == 0;
    }

    @Override
    public String getLastDecision() {
        return last;
    }

    @Override
    public Map<String, Long> getDecisions() {
        return counts;
    }
}
