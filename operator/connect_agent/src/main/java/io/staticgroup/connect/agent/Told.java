package io.staticgroup.connect.agent;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;

/**
 * Trailing bytes of what a worker says in JoinGroup: of which generation its last assignment was, and what it knows of it.
 *
 * <p>The leader of the next round may be a new process, so everybody tells it. Connect ignores what follows the fields that
 * it knows. A process that has had no assignment yet tells nothing.
 */
final class Told {
    private static final byte[] MARK = "SGgiven1".getBytes(StandardCharsets.US_ASCII);

    final int generation;
    /** See {@link Whole#given}. */
    final Map<String, Work> given;

    Told(int generation, Map<String, Work> given) {
        this.generation = generation;
        this.given = given;
    }

    byte[] write() {
        Bytes to = new Bytes().raw(MARK).int32(generation);
        Whole.writeGiven(given, to);
        return to.done();
    }

    /** Reads all that is left of a worker's state; null when that is anything else than such bytes. */
    static Told read(ByteBuffer from) {
        try {
            if (!Arrays.equals(Bytes.take(from, MARK.length), MARK)) {
                return null;
            }
            Told told = new Told(from.getInt(), Whole.readGiven(from));
            return from.hasRemaining() ? null : told;
        } catch (BufferUnderflowException cutOff) {
            return null;
        }
    }
}
