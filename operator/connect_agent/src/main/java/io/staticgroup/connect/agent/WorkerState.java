package io.staticgroup.connect.agent;

import java.nio.ByteBuffer;

/**
 * A worker's JoinGroup metadata, which the leader reads.
 *
 * <p>Source: IncrementalCooperativeConnectProtocol.serializeMetadata (CONFIG_STATE_V1, ALLOCATION_V1).
 */
final class WorkerState {
    final short version;
    final String url;
    final long configOffset;
    /** Null when the worker holds no assignment: a new process, or one that dropped everything. */
    final Assignment allocation;
    /** Null when the metadata has no such trailing bytes. */
    final LastGeneration lastGeneration;

    WorkerState(short version, String url, long configOffset, Assignment allocation, LastGeneration lastGeneration) {
        this.version = version;
        this.url = url;
        this.configOffset = configOffset;
        this.allocation = allocation;
        this.lastGeneration = lastGeneration;
    }

    Work reported() {
        return allocation == null ? Work.NOTHING : allocation.assigned;
    }

    /** Returns the same worker with another allocation. */
    WorkerState owning(Work work) {
        Assignment owned = new Assignment();
        owned.version = version;
        owned.configOffset = configOffset;
        if (allocation != null) {
            owned.leader = allocation.leader;
            owned.leaderUrl = allocation.leaderUrl;
            owned.configOffset = allocation.configOffset;
        }
        owned.assigned = work;
        return new WorkerState(version, url, configOffset, owned, null);
    }

    byte[] write() {
        Bytes to = new Bytes().int16(version).string(url).int64(configOffset);
        if (version > 0) {
            byte[] bytes = allocation == null ? null : allocation.write();
            to.int32(bytes == null ? -1 : bytes.length).raw(bytes == null ? new byte[0] : bytes);
        }
        if (lastGeneration != null) {
            to.raw(lastGeneration.write());
        }
        return to.done();
    }

    static WorkerState read(ByteBuffer from) {
        short version = from.getShort();
        String url = Bytes.string(from);
        long configOffset = from.getLong();
        int length = version > 0 && from.hasRemaining() ? from.getInt() : -1;
        Assignment allocation = length < 0 ? null : Assignment.read(ByteBuffer.wrap(Bytes.take(from, length)));
        boolean hasTrailing = Assignment.isIncremental(version) && from.hasRemaining();
        return new WorkerState(version, url, configOffset, allocation, hasTrailing ? LastGeneration.read(from) : null);
    }
}
