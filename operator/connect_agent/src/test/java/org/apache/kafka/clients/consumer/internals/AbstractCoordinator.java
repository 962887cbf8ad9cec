package org.apache.kafka.clients.consumer.internals;

import org.apache.kafka.common.requests.HeartbeatResponse;
import org.apache.kafka.common.requests.JoinGroupResponse;
import org.apache.kafka.common.requests.SyncGroupResponse;

/** Stands for Kafka's class of this name. */
public abstract class AbstractCoordinator {
    public int answers;

    public Object heartbeat(boolean isOfThisGeneration) {
        return new HeartbeatResponseHandler(isOfThisGeneration);
    }

    public Object join() {
        return new JoinGroupResponseHandler();
    }

    public Object sync() {
        return new SyncGroupResponseHandler();
    }

    class CoordinatorResponseHandler {
        boolean isOfThisGeneration = true;

        boolean generationUnchanged() {
            return isOfThisGeneration;
        }
    }

    class HeartbeatResponseHandler extends CoordinatorResponseHandler {
        HeartbeatResponseHandler(boolean isOfThisGeneration) {
            this.isOfThisGeneration = isOfThisGeneration;
        }

        public void handle(HeartbeatResponse answer, Object future) {
            answers++;
        }
    }

    class JoinGroupResponseHandler extends CoordinatorResponseHandler {
        public void handle(JoinGroupResponse answer, Object future) {
            answers++;
        }
    }

    class SyncGroupResponseHandler extends CoordinatorResponseHandler {
        public void handle(SyncGroupResponse answer, Object future) {
            answers++;
        }
    }
}
