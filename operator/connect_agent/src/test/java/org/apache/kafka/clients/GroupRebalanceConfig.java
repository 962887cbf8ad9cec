package org.apache.kafka.clients;

import java.util.Optional;

/** Stands for Kafka's class of this name, as far as the agent knows it. */
public class GroupRebalanceConfig {
    public enum ProtocolType { CONSUMER, CONNECT }

    public final int sessionTimeoutMs;
    public final int heartbeatIntervalMs;
    public final Optional<String> groupInstanceId;

    public GroupRebalanceConfig(Object config, ProtocolType protocolType) {
        this.sessionTimeoutMs = 10_000;
        this.heartbeatIntervalMs = config instanceof Integer ? (Integer) config : 3_000;
        if (protocolType == ProtocolType.CONSUMER) {
            this.groupInstanceId = Optional.of("consumer");
        } else {
            this.groupInstanceId = Optional.empty();
        }
    }
}
