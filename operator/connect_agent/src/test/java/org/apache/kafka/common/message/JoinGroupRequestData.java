package org.apache.kafka.common.message;

/** Stands for Kafka's class of this name. */
public class JoinGroupRequestData {
    public static class JoinGroupRequestProtocol {
        private byte[] metadata;

        public JoinGroupRequestProtocol(byte[] metadata) {
            this.metadata = metadata;
        }

        public byte[] metadata() {
            return metadata;
        }

        public JoinGroupRequestProtocol setMetadata(byte[] bytes) {
            metadata = bytes;
            return this;
        }
    }

    public static class JoinGroupRequestProtocolCollection extends java.util.ArrayList<JoinGroupRequestProtocol> {
        private static final long serialVersionUID = 1;
    }
}
