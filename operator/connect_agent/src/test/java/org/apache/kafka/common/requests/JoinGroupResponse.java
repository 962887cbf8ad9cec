package org.apache.kafka.common.requests;

import org.apache.kafka.common.message.JoinGroupResponseData;

/** Stands for Kafka's class of this name. */
public class JoinGroupResponse {
    public enum Errors { NONE, FENCED_INSTANCE_ID, UNKNOWN_MEMBER_ID }

    public int generation = -1;
    private final Errors error;

    public JoinGroupResponse(String error) {
        this.error = Errors.valueOf(error);
    }

    public JoinGroupResponseData data() {
        return new JoinGroupResponseData(generation);
    }

    public Errors error() {
        return error;
    }
}
