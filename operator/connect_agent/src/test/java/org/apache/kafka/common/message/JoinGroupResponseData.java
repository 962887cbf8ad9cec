package org.apache.kafka.common.message;

/** Stands for Kafka's class of this name. */
public class JoinGroupResponseData {
    private final int generationId;

    public JoinGroupResponseData(int generationId) {
        this.generationId = generationId;
    }

    public int generationId() {
        return generationId;
    }

    public static class JoinGroupResponseMember {
        private final String memberId;
        private final String groupInstanceId;
        private byte[] metadata;

        public JoinGroupResponseMember(String memberId, String groupInstanceId, byte[] metadata) {
            this.memberId = memberId;
            this.groupInstanceId = groupInstanceId;
            this.metadata = metadata;
        }

        public String memberId() {
            return memberId;
        }

        public String groupInstanceId() {
            return groupInstanceId;
        }

        public byte[] metadata() {
            return metadata;
        }

        public JoinGroupResponseMember setMetadata(byte[] bytes) {
            metadata = bytes;
            return this;
        }
    }
}
