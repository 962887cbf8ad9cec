package org.apache.kafka.connect.runtime.distributed;

import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.GroupRebalanceConfig;
import org.apache.kafka.clients.consumer.internals.AbstractCoordinator;
import org.apache.kafka.common.message.JoinGroupRequestData.JoinGroupRequestProtocol;
import org.apache.kafka.common.message.JoinGroupRequestData.JoinGroupRequestProtocolCollection;
import org.apache.kafka.common.message.JoinGroupResponseData.JoinGroupResponseMember;

/** Stands for Connect's class of this name. */
public class WorkerCoordinator extends AbstractCoordinator {
    public final int maxDelay;
    public Map<String, ByteBuffer> increments = new HashMap<>();
    public ByteBuffer joinedWith;
    public boolean isRejoinRequestedBeforeWorkStarts;
    private final String restUrl;
    private final Config configSnapshot = new Config();
    private ConnectProtocol.Assignment assignmentSnapshot;
    private Object leaderState;
    private boolean rejoinRequested;

    public static class Config {
        public long offset = 7;

        public long offset() {
            return offset;
        }
    }

    public WorkerCoordinator(GroupRebalanceConfig config, String restUrl, int maxDelay) {
        super();
        this.restUrl = restUrl;
        this.maxDelay = maxDelay;
    }

    public JoinGroupRequestProtocolCollection metadata() {
        JoinGroupRequestProtocolCollection offered = new JoinGroupRequestProtocolCollection();
        offered.add(new JoinGroupRequestProtocol(new byte[] {0, 2, 0, 1, 'u', 0, 0, 0, 0, 0, 0, 0, 7, -1, -1, -1, -1}));
        offered.add(new JoinGroupRequestProtocol(new byte[] {0, 0, 0, 1, 'u', 0, 0, 0, 0, 0, 0, 0, 7}));
        return offered;
    }

    protected Map<String, ByteBuffer> onLeaderElected(
            String leaderId, String protocol, List<JoinGroupResponseMember> members, boolean skipAssignment) {
        if (skipAssignment) {
            throw new IllegalStateException(
                "Can't skip assignment because Connect does not support static membership.");
        }
        leaderState = leaderId;
        return members.isEmpty() ? new HashMap<>() : increments;
    }

    protected void onJoinComplete(int generation, String memberId, String protocol, ByteBuffer memberAssignment) {
        rejoinRequested = false;
        if (assignmentSnapshot == null) {
            assignmentSnapshot = new ConnectProtocol.Assignment();
        }
        joinedWith = memberAssignment;
    }

    public Map<String, ByteBuffer> elected(
            String leaderId, String protocol, List<JoinGroupResponseMember> members, boolean skip) {
        return onLeaderElected(leaderId, protocol, members, skip);
    }

    public boolean joined(String memberId, ByteBuffer assignment) {
        onJoinComplete(1, memberId, "sessioned", assignment);
        isRejoinRequestedBeforeWorkStarts = rejoinRequested;
        poll(0);
        return rejoinRequested;
    }

    public void poll(long timeout) {
        answers += 0;
    }

    public ConnectProtocol.Assignment runs() {
        return assignmentSnapshot == null ? assignmentSnapshot = new ConnectProtocol.Assignment() : assignmentSnapshot;
    }

    public Config configSnapshot() {
        return configSnapshot;
    }

    public String restUrl() {
        return restUrl;
    }

    public Object leaderState() {
        return leaderState;
    }
}
