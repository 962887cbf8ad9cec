package io.staticgroup.connect.agent;

import java.util.regex.Pattern;

/**
 * Every member of Kafka and Connect that the agent depends on, from 2.4 to 4.x.
 *
 * <p>The agent is active only if all of them exist. Classes are named as text, so one jar serves all versions.
 */
enum Hook {
    // changed when the class is loaded, see Patches
    /** Keeps group.instance.id, which its constructor drops for ProtocolType.CONNECT, and sets the session timeout. */
    IDENTITY(Names.CONFIG, "<init>\\(.*\\$ProtocolType;\\)V"),
    /** Sets scheduled.rebalance.max.delay.ms, the last parameter. */
    REBALANCE_DELAY(Names.COORDINATOR, "<init>\\(L" + Names.CONFIG + ";.*I\\)V"),
    /** The leader's round: onLeaderElected since 3.2 (KIP-814), performAssignment before. */
    LEADER(Names.COORDINATOR,
        "(onLeaderElected" + Names.ROUND + "Z|performAssignment" + Names.ROUND + ")\\)Ljava/util/Map;"),
    /** An assignment has come from SyncGroup. */
    ASSIGNMENT(Names.COORDINATOR, "onJoinComplete\\(ILjava/lang/String;Ljava/lang/String;Ljava/nio/ByteBuffer;\\)V"),
    /** The worker's metadata in JoinGroup. */
    METADATA(Names.COORDINATOR, "metadata\\(\\)L.*;"),
    /** A poll has ended, after the join that may have been part of it. */
    POLL(Names.COORDINATOR, "poll\\(J.*\\)V"),
    /** FENCED_INSTANCE_ID in Heartbeat: AbstractCoordinator.HeartbeatResponseHandler.handle. */
    HEARTBEAT(Names.ABSTRACT + "$HeartbeatResponseHandler", "handle\\(L[^;]*/HeartbeatResponse;L[^;]*;\\)V"),
    /** The same in JoinGroup. */
    JOIN(Names.ABSTRACT + "$JoinGroupResponseHandler", "handle\\(L[^;]*/JoinGroupResponse;L[^;]*;\\)V"),
    /** The same in SyncGroup. */
    SYNC(Names.ABSTRACT + "$SyncGroupResponseHandler", "handle\\(L[^;]*/SyncGroupResponse;L[^;]*;\\)V"),

    // read by the patches, Hooks.java and Connect.java
    CONFIG_INSTANCE_ID(Names.CONFIG, "groupInstanceId Ljava/util/Optional;"),
    CONFIG_SESSION(Names.CONFIG, "sessionTimeoutMs I"),
    CONFIG_HEARTBEAT(Names.CONFIG, "heartbeatIntervalMs I"),
    HEARTBEAT_OUTER(Names.ABSTRACT + "$HeartbeatResponseHandler", "this\\$0 L" + Names.ABSTRACT + ";"),
    JOIN_OUTER(Names.ABSTRACT + "$JoinGroupResponseHandler", "this\\$0 L" + Names.ABSTRACT + ";"),
    SYNC_OUTER(Names.ABSTRACT + "$SyncGroupResponseHandler", "this\\$0 L" + Names.ABSTRACT + ";"),
    REST_URL(Names.COORDINATOR, "restUrl Ljava/lang/String;"),
    SNAPSHOT(Names.COORDINATOR, "assignmentSnapshot L.*"),
    REJOIN(Names.COORDINATOR, "rejoinRequested Z"),
    LEADER_STATE(Names.COORDINATOR, "leaderState L.*"),
    CONFIG_SNAPSHOT(Names.COORDINATOR, "configSnapshot\\(\\)L.*"),
    CONNECTORS(Names.DISTRIBUTED + "ConnectProtocol$Assignment", "connectors\\(\\)Ljava/util/Collection;"),
    TASKS(Names.DISTRIBUTED + "ConnectProtocol$Assignment", "tasks\\(\\)Ljava/util/Collection;"),
    TASK_CONNECTOR("org/apache/kafka/connect/util/ConnectorTaskId", "connector\\(\\)Ljava/lang/String;"),
    TASK_NUMBER("org/apache/kafka/connect/util/ConnectorTaskId", "task\\(\\)I"),
    PROTOCOL_METADATA(Names.PROTOCOL, "metadata\\(\\)\\[B"),
    PROTOCOL_SET_METADATA(Names.PROTOCOL, "setMetadata\\(\\[B\\)L.*"),
    MEMBER_ID(Names.MEMBER, "memberId\\(\\)Ljava/lang/String;"),
    MEMBER_INSTANCE_ID(Names.MEMBER, "groupInstanceId\\(\\)Ljava/lang/String;"),
    MEMBER_METADATA(Names.MEMBER, "metadata\\(\\)\\[B"),
    MEMBER_SET_METADATA(Names.MEMBER, "setMetadata\\(\\[B\\)L.*"),
    HEARTBEAT_ERROR("org/apache/kafka/common/requests/HeartbeatResponse", "error\\(\\)L.*"),
    JOIN_DATA("org/apache/kafka/common/requests/JoinGroupResponse", "data\\(\\)L.*/JoinGroupResponseData;"),
    JOIN_GENERATION("org/apache/kafka/common/message/JoinGroupResponseData", "generationId\\(\\)I"),
    JOIN_ERROR("org/apache/kafka/common/requests/JoinGroupResponse", "error\\(\\)L.*"),
    SYNC_ERROR("org/apache/kafka/common/requests/SyncGroupResponse", "error\\(\\)L.*");

    /** Internal name of the class, with slashes. */
    final String owner;
    private final Pattern member;

    Hook(String owner, String member) {
        this.owner = owner;
        this.member = Pattern.compile(member);
    }

    /** Whether a member is it: a method's name and descriptor, a field's with a blank between them. */
    boolean isMember(String text) {
        return member.matcher(text).matches();
    }

    @Override
    public String toString() {
        return name().toLowerCase(java.util.Locale.ROOT).replace('_', '-') + " (" + owner.replace('/', '.') + ")";
    }

    /** Names of classes, which an enum's constants may use before it is complete. */
    static final class Names {
        static final String CONFIG = "org/apache/kafka/clients/GroupRebalanceConfig";
        static final String ABSTRACT = "org/apache/kafka/clients/consumer/internals/AbstractCoordinator";
        static final String DISTRIBUTED = "org/apache/kafka/connect/runtime/distributed/";
        static final String COORDINATOR = DISTRIBUTED + "WorkerCoordinator";
        /** The leader's member id, the protocol and the members: patches count on the places of these parameters. */
        static final String ROUND = "\\(Ljava/lang/String;Ljava/lang/String;Ljava/util/List;";
        static final String PROTOCOL = "org/apache/kafka/common/message/JoinGroupRequestData$JoinGroupRequestProtocol";
        static final String MEMBER = "org/apache/kafka/common/message/JoinGroupResponseData$JoinGroupResponseMember";

        private Names() {
        }
    }
}
