package org.apache.kafka.connect.runtime.distributed;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.apache.kafka.connect.util.ConnectorTaskId;

/** Stands for Connect's class of this name. */
public class ConnectProtocol {
    public static class Assignment {
        public final List<String> connectors = new ArrayList<>();
        public final List<ConnectorTaskId> tasks = new ArrayList<>();

        public Collection<String> connectors() {
            return connectors;
        }

        public Collection<ConnectorTaskId> tasks() {
            return tasks;
        }
    }
}
