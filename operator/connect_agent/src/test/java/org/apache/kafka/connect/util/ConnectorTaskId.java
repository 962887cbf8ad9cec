package org.apache.kafka.connect.util;

/** Stands for Connect's class of this name. */
public class ConnectorTaskId {
    private final String connector;
    private final int task;

    public ConnectorTaskId(String connector, int task) {
        this.connector = connector;
        this.task = task;
    }

    public String connector() {
        return connector;
    }

    public int task() {
        return task;
    }
}
