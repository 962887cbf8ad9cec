package io.staticgroup.connect.agent;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;

/**
 * Trailing bytes of a worker's JoinGroup metadata: the generation of its last assignment, and the work of each member
 * in it.
 *
 * <p>The leader of the next round may be a new process, so every worker sends them. Connect ignores bytes after the
 * fields that it knows. A process that has had no assignment yet sends none.
 */
final class LastGeneration {
    private static final byte[] MARK = "SGgiven1".getBytes(StandardCharsets.US_ASCII);

    final int generation;
    /** See {@link Whole#given}. */
    final Map<String, Work> given;

    LastGeneration(int generation, Map<String, Work> given) {
        this.generation = generation;
        this.given = given;
    }

    byte[] write() {
        Bytes to = new Bytes().raw(MARK).int32(generation);
        Whole.writeGiven(given, to);
        return to.done();
    }

    /** Reads the remaining bytes of a worker's state; null if they are not these trailing bytes. */
    static LastGeneration read(ByteBuffer from) {
        try {
            if (!Arrays.equals(Bytes.take(from, MARK.length), MARK)) {
                return null;
            }
            LastGeneration last = new LastGeneration(from.getInt(), Whole.readGiven(from));
            return from.hasRemaining() ? null : last;
        } catch (BufferUnderflowException cutOff) {
            return null;
        }
    }
}
