package io.staticgroup.connect.agent;

import java.io.ByteArrayOutputStream;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/** A message that is being written, in Kafka's protocol types (org.apache.kafka.common.protocol.types.Type). */
final class Bytes {
    private final ByteArrayOutputStream written = new ByteArrayOutputStream();

    Bytes int16(int value) {
        written.write(value >> 8);
        written.write(value);
        return this;
    }

    Bytes int32(int value) {
        return int16(value >> 16).int16(value);
    }

    Bytes int64(long value) {
        return int32((int) (value >> 32)).int32((int) value);
    }

    Bytes string(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        if (bytes.length > Short.MAX_VALUE) {
            throw new IllegalArgumentException("a string of " + bytes.length + " bytes does not fit its int16 length");
        }
        return int16(bytes.length).raw(bytes);
    }

    Bytes raw(byte[] bytes) {
        written.write(bytes, 0, bytes.length);
        return this;
    }

    byte[] done() {
        return written.toByteArray();
    }

    /** Reads a string; BufferUnderflowException when there are too few bytes. */
    static String string(ByteBuffer from) {
        return new String(take(from, from.getShort()), StandardCharsets.UTF_8);
    }

    static byte[] take(ByteBuffer from, int count) {
        if (count < 0 || count > from.remaining()) {
            throw new BufferUnderflowException();
        }
        byte[] bytes = new byte[count];
        from.get(bytes);
        return bytes;
    }
}
