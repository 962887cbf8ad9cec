package org.apache.kafka.common.requests;

/** Stands for Kafka's class of this name. */
public class JoinGroupResponse {
    public enum Errors { NONE, FENCED_INSTANCE_ID, UNKNOWN_MEMBER_ID }

    private final Errors error;

    public JoinGroupResponse(String error) {
        this.error = Errors.valueOf(error);
    }

    public Errors error() {
        return error;
    }
}
