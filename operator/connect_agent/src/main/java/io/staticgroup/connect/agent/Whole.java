package io.staticgroup.connect.agent;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;

/**
 * Trailing bytes of an assignment, which mark that it holds the member's whole allocation, not an increment.
 *
 * <p>Connect ignores what follows the fields that it knows (Schema.read). Only versions 1 and 2 may have them: in
 * version 0 Connect reads on and would take them for revocations (ASSIGNMENT_V1 tolerates missing fields).
 */
final class Whole {
    private static final byte[] MARK = "SGwhole1".getBytes(StandardCharsets.US_ASCII);
    /** In place of a count. */
    private static final int NOT_KNOWN = -1;

    /** Instance id of the leader that wrote it, by which a returning leader recognizes its former member id. */
    final String leaderInstanceId;
    /** The member's own REST address as the leader knows it. */
    final String url;
    /** The work of each static member in this generation, by instance id; null: not known, or too large. */
    final Map<String, Work> given;

    Whole(String leaderInstanceId, String url, Map<String, Work> given) {
        this.leaderInstanceId = leaderInstanceId;
        this.url = url;
        this.given = given;
    }

    void write(Bytes to) {
        writeGiven(given, to.raw(MARK).string(leaderInstanceId).string(url));
    }

    static void writeGiven(Map<String, Work> given, Bytes to) {
        to.int32(given == null ? NOT_KNOWN : given.size());
        if (given != null) {
            new TreeMap<>(given).forEach((instanceId, work) -> work.write(to.string(instanceId)));
        }
    }

    static Map<String, Work> readGiven(ByteBuffer from) {
        int count = from.getInt();
        Map<String, Work> given = new TreeMap<>();
        for (int i = 0; i < count; i++) {
            given.put(Bytes.string(from), Work.read(from));
        }
        return count == NOT_KNOWN ? null : given;
    }

    /** Reads the remaining bytes of an assignment; null if they are not these trailing bytes. */
    static Whole read(ByteBuffer from) {
        try {
            if (!Arrays.equals(Bytes.take(from, MARK.length), MARK)) {
                return null;
            }
            String leader = Bytes.string(from);
            String url = Bytes.string(from);
            Map<String, Work> given = readGiven(from);
            return from.hasRemaining() ? null : new Whole(leader, url, given);
        } catch (BufferUnderflowException cutOff) {
            return null;
        }
    }
}
