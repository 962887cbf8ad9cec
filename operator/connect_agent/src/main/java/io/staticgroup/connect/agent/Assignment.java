package io.staticgroup.connect.agent;

import java.nio.ByteBuffer;

/**
 * What the leader assigns to one member in SyncGroup.
 *
 * <p>Source: ConnectProtocol.ASSIGNMENT_V0, IncrementalCooperativeConnectProtocol.ASSIGNMENT_V1 (of versions 1 and 2).
 */
final class Assignment {
    /** Any other code, such as CONFIG_MISMATCH: the leader could not assign (ConnectProtocol.Assignment). */
    static final short NO_ERROR = 0;

    short version;
    short error;
    String leader = "";
    String leaderUrl = "";
    long configOffset;
    Work assigned = Work.NOTHING;
    Work revoked = Work.NOTHING;
    int delayMs;
    /** Null when the assignment is an increment, as Connect's own are. */
    Whole whole;

    /** Whether increments exist in this version, and whether its bytes are known: compatible and sessioned. */
    boolean isIncremental() {
        return isIncremental(version);
    }

    static boolean isIncremental(short version) {
        return version == 1 || version == 2;
    }

    byte[] write() {
        Bytes to = new Bytes().int16(version).int16(error).string(leader).string(leaderUrl).int64(configOffset);
        assigned.write(to);
        if (version > 0) {
            revoked.write(to);
            to.int32(delayMs);
        }
        if (whole != null) {
            if (!isIncremental()) {
                throw new IllegalStateException("version " + version + " has no room for trailing bytes");
            }
            whole.write(to);
        }
        return to.done();
    }

    /** Reads an assignment of any version; throws BufferUnderflowException if the bytes are cut off. */
    static Assignment read(ByteBuffer from) {
        Assignment a = new Assignment();
        a.version = from.getShort();
        a.error = from.getShort();
        a.leader = Bytes.string(from);
        a.leaderUrl = Bytes.string(from);
        a.configOffset = from.getLong();
        a.assigned = Work.read(from);
        if (a.version > 0) {
            // versions 0 and 1 are read by one schema, in which fields at the end may be missing
            a.revoked = from.hasRemaining() ? Work.read(from) : Work.NOTHING;
            a.delayMs = from.hasRemaining() ? from.getInt() : 0;
            a.whole = a.isIncremental() && from.hasRemaining() ? Whole.read(from) : null;
        }
        return a;
    }
}
