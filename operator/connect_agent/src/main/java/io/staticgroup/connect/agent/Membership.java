package io.staticgroup.connect.agent;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * What one worker knows of its static membership, and what it changes in a round because of it. It handles bytes only.
 *
 * <p>A static member that comes back while its group is stable gets its stored assignment, and no round happens.
 * Connect stores increments, so what is stored must become whole allocations; and a leader must not take the work of a
 * member that is away for lost. All methods run in the herder's thread.
 */
final class Membership {
    /**
     * Limit of the allocations of all members, summed over all copies: above it only the leader gets one, or no member.
     *
     * <p>They are stored twice, in assignments and in JoinGroup metadata, in one record of a broker's log.
     */
    static final int GIVEN_MAX_BYTES = 128 * 1024;
    /** How often the leader asks for a round because of the same doubt; after that only the members in doubt end it. */
    static final int HELD_BACK_ROUNDS = 3;
    private static final int FIRST_GENERATION = 1;

    private final String instanceId;
    private final Decision.Listener decisions;
    private String memberId = "";
    /** What it sends when it joins; null: it has had no assignment yet. */
    private LastGeneration lastGeneration;
    /** The generation of the round that it joins. */
    private int generation = -1;
    private Map<String, Seat> seats = Collections.emptyMap();
    private boolean isIdleRevoked;
    private boolean isHeldBack;
    /** Metadata of the members in doubt in the last round that this worker led, by member id. */
    private Map<String, ByteBuffer> doubts = Collections.emptyMap();
    private int roundsInDoubt;
    /** Why a round is needed; null: none is. */
    private String roundWanted;

    Membership(String instanceId, Decision.Listener decisions) {
        this.instanceId = instanceId;
        this.decisions = decisions;
    }

    /** One member of a round as JoinGroup shows it to the leader; the instance id of a dynamic one is null. */
    static final class Member {
        final String memberId;
        final String instanceId;
        final byte[] metadata;

        Member(String memberId, String instanceId, byte[] metadata) {
            this.memberId = memberId;
            this.instanceId = instanceId;
            this.metadata = metadata;
        }
    }

    private static final class Seat {
        final String instanceId;
        final WorkerState state;
        final Work reported;
        final Work claimed;
        /** It may not have joined this round, and may run, or get back, other work than it reports. */
        final boolean isDoubtful;

        Seat(String instanceId, WorkerState state, Work claimed, boolean isDoubtful) {
            this.instanceId = instanceId;
            this.state = state;
            this.reported = state.reported();
            this.claimed = claimed;
            this.isDoubtful = isDoubtful;
        }
    }

    /** What this worker is and runs when an assignment reaches it. */
    static final class Self {
        final String memberId;
        final String url;
        final long configOffset;
        final Work running;
        final boolean hasLeaderState;

        Self(String memberId, String url, long configOffset, Work running, boolean hasLeaderState) {
            this.memberId = memberId;
            this.url = url;
            this.configOffset = configOffset;
            this.running = running;
            this.hasLeaderState = hasLeaderState;
        }
    }

    /** Returns the metadata of one protocol with what this worker knows; the eager one has no room for it. */
    byte[] withLastGeneration(byte[] metadata) {
        boolean hasRoom = Assignment.isIncremental(ByteBuffer.wrap(metadata).getShort());
        return lastGeneration == null || !hasRoom ? metadata
            : new Bytes().raw(metadata).raw(lastGeneration.write()).done();
    }

    /** Notes the generation of the round that it joins. */
    void joining(int ofGeneration) {
        generation = ofGeneration;
    }

    /**
     * Lets the leader see what absent members own: metadata by member id, only of those whose metadata changes.
     *
     * <p>A member that is away, or whose process is new, owns its work of the last generation besides what it
     * reports; but never what another member reports, because a member runs what it reports.
     */
    Map<String, byte[]> view(List<Member> members, String leaderMemberId) {
        seats = new LinkedHashMap<>();
        List<WorkerState> states = new ArrayList<>();
        Work everyReport = Work.NOTHING;
        Map<String, Work> given = generation == FIRST_GENERATION ? Collections.<String, Work>emptyMap() : null;
        for (Member member : members) {
            WorkerState state = WorkerState.read(ByteBuffer.wrap(member.metadata));
            states.add(state);
            everyReport = everyReport.plus(state.reported());
            given = given == null && isPrevious(state.lastGeneration) ? state.lastGeneration.given : given;
        }
        Map<String, byte[]> changed = new LinkedHashMap<>();
        Map<String, ByteBuffer> inDoubt = new TreeMap<>();
        for (int i = 0; i < members.size(); i++) {
            Member member = members.get(i);
            WorkerState state = states.get(i);
            if (!Assignment.isIncremental(state.version)) {
                continue;
            }
            boolean isStatic = member.instanceId != null;
            Work claimed = given == null || !isStatic ? Work.NOTHING
                : given.getOrDefault(member.instanceId, Work.NOTHING).minus(everyReport);
            boolean hasJoined = member.memberId.equals(leaderMemberId) || isPrevious(state.lastGeneration);
            if (!claimed.isEmpty()) {
                changed.put(member.memberId, state.owning(state.reported().plus(claimed)).write());
                decisions.decided(Decision.ABSENT_COUNTED,
                    member.instanceId + " counts as owner of " + claimed + ", which it got before and does not report");
            }
            boolean isDoubtful = given == null && isStatic && !hasJoined;
            seats.put(member.memberId, new Seat(member.instanceId, state, claimed, isDoubtful));
            if (isDoubtful) {
                inDoubt.put(member.memberId, ByteBuffer.wrap(member.metadata));
            }
        }
        isHeldBack = !inDoubt.isEmpty();
        roundsInDoubt = inDoubt.equals(doubts) ? roundsInDoubt + 1 : 1;
        doubts = inDoubt;
        return changed;
    }

    private boolean isPrevious(LastGeneration each) {
        return each != null && each.generation == generation - 1;
    }

    /**
     * Returns what to store while the last work of a member that may be away is not known; null: let Connect assign.
     *
     * <p>Every member goes on with what it runs, and no work moves. A member in doubt gets an empty increment, so that
     * its next process asks for a round instead of starting work that others may have by now.
     */
    Map<String, ByteBuffer> heldBack(String leaderMemberId) {
        if (!isHeldBack) {
            return null;
        }
        long newest = seats.values().stream().mapToLong(seat -> seat.state.configOffset).max().getAsLong();
        List<String> inDoubt = new ArrayList<>();
        Map<String, ByteBuffer> stored = new LinkedHashMap<>();
        seats.forEach((id, seat) -> {
            Assignment nothing = new Assignment();
            nothing.version = seat.state.version;
            nothing.leader = leaderMemberId;
            nothing.leaderUrl = seats.get(leaderMemberId).state.url;
            nothing.configOffset = newest;
            if (seat.isDoubtful) {
                inDoubt.add(seat.instanceId);
            } else if (seat.instanceId != null) {
                nothing.assigned = seat.reported;
                nothing.whole = new Whole(instanceId, seat.state.url, null);
            }
            stored.put(id, ByteBuffer.wrap(nothing.write()));
        });
        decisions.decided(Decision.HELD_BACK, "as leader: no work moves, because no worker here knows the last work of "
            + inDoubt + "; this ends when they are back, or no longer members");
        return stored;
    }

    /**
     * Makes the increments that the leader computed for the last {@link #view} into whole allocations, marked as such.
     *
     * <p>Dynamic members, which never come back to what is stored, and the eager protocol keep increments. A member
     * keeps claimed work that is revoked from it: it may be away, or run it and not have joined this round, so it first
     * has to report it. Work that is revoked before any member had it is free at once; the leader asks for the round
     * that assigns it, because no other member does.
     */
    Map<String, ByteBuffer> stored(Map<String, ByteBuffer> increments, String leaderMemberId) {
        Map<String, Assignment> wholes = new LinkedHashMap<>();
        Map<String, Work> all = new TreeMap<>();
        isIdleRevoked = false;
        increments.forEach((id, bytes) -> {
            Seat seat = seats.get(id);
            Assignment whole = Assignment.read(bytes.duplicate());
            if (seat != null && seat.instanceId != null && whole.isIncremental()) {
                isIdleRevoked |= !whole.revoked.minus(seat.reported).minus(seat.claimed).isEmpty();
                whole.assigned = seat.reported.plus(whole.assigned).minus(whole.revoked).plus(seat.claimed);
                wholes.put(id, whole);
                all.put(seat.instanceId, whole.assigned);
            }
        });
        Map<String, ByteBuffer> stored = new LinkedHashMap<>(increments);
        long size = sizeOf(all);
        wholes.forEach((id, whole) -> {
            long copies = id.equals(leaderMemberId) ? 1 : wholes.size();
            whole.whole = new Whole(instanceId, seats.get(id).state.url, copies * size <= GIVEN_MAX_BYTES ? all : null);
            stored.put(id, ByteBuffer.wrap(whole.write()));
        });
        if (!wholes.isEmpty()) {
            decisions.decided(Decision.WHOLE_STORED, "as leader: whole allocations are stored: " + all);
        }
        return stored;
    }

    /**
     * Turns the stored assignment into what Connect expects: an increment for a live worker, everything for a new
     * process.
     *
     * <p>On return the leader's old member id becomes the new one. An older config offset becomes the worker's own: no
     * round took place, because a round's offset is never older; and Connect would rejoin until they are equal.
     */
    ByteBuffer received(ByteBuffer bytes, int ofGeneration, Self self) {
        boolean isReturned = !self.memberId.equals(memberId);
        memberId = self.memberId;
        roundWanted = isHeldBack && roundsInDoubt <= HELD_BACK_ROUNDS ? "a member may know it now"
            : isIdleRevoked ? "work that was revoked before any member had it is free" : null;
        forgetRound();
        Assignment assignment = Assignment.read(bytes.duplicate());
        lastGeneration = new LastGeneration(ofGeneration, assignment.whole == null ? null : assignment.whole.given);
        if (assignment.version != 0 && assignment.whole == null) {
            roundWanted = isReturned ? "only the last increment is stored: the leader runs no agent" : roundWanted;
            return bytes;
        }
        if (assignment.whole != null) {
            // Connect joins again after a revocation. If it stops nothing, that is the same JoinGroup, answered by the
            // same assignment, without end: only a leader, or a member with other metadata, causes a round.
            Work idle = assignment.revoked.minus(self.running);
            if (!(isReturned ? idle : idle.common(assignment.assigned)).isEmpty()) {
                roundWanted = "this worker does not run what it has to stop";
            }
            assignment.revoked = assignment.revoked.common(self.running).minus(assignment.assigned);
            assignment.assigned = assignment.assigned.minus(self.running);
        }
        if (assignment.error == Assignment.NO_ERROR && assignment.configOffset < self.configOffset) {
            decisions.decided(Decision.OFFSET_LIFTED, "config offset of the stored assignment lifted from "
                + assignment.configOffset + " to " + self.configOffset);
            assignment.configOffset = self.configOffset;
        }
        if (isReturned) {
            comeBack(assignment, self);
        }
        decisions.decided(isReturned ? Decision.RETURNED : Decision.TOOK_PART,
            (isReturned ? "joined as " + memberId : "took part")
                + ": starts " + assignment.assigned + ", stops " + assignment.revoked);
        assignment.whole = null;
        return ByteBuffer.wrap(assignment.write());
    }

    private void comeBack(Assignment assignment, Self self) {
        boolean led = assignment.whole != null ? assignment.whole.leaderInstanceId.equals(instanceId)
            : isMine(assignment.leader);
        if (led && !assignment.leader.equals(self.memberId)) {
            decisions.decided(Decision.LEADER_RETURNED,
                "leads again: " + assignment.leader + " is now " + self.memberId);
            assignment.leader = self.memberId;
            roundWanted = assignment.whole == null ? roundWanted : "the leader is back";
        }
        String known = assignment.whole != null ? assignment.whole.url : led ? assignment.leaderUrl : self.url;
        if (!known.equals(self.url)) {
            roundWanted = "the advertised address is " + self.url + " and was " + known;
        }
        if (roundWanted == null && assignment.leader.equals(self.memberId) && !self.hasLeaderState) {
            roundWanted = "the leader does not know which worker runs what";
        }
    }

    /** Whether to ask for a round now: once for each assignment that needs one. */
    boolean isRoundToBeRequested() {
        if (roundWanted == null) {
            return false;
        }
        decisions.decided(Decision.ROUND_WANTED, "asks for a round: " + roundWanted);
        roundWanted = null;
        return true;
    }

    /** Forgets the round that is being assigned, so that Connect's own increments are stored. */
    void forgetRound() {
        seats = Collections.emptyMap();
        isIdleRevoked = isHeldBack = false;
    }

    /** Whether the coordinator made this member id for this identity (GroupCoordinator: instance id, '-', a UUID). */
    private boolean isMine(String id) {
        return id.startsWith(instanceId + "-") && id.length() == instanceId.length() + 37;
    }

    private static int sizeOf(Map<String, Work> all) {
        Bytes to = new Bytes();
        Whole.writeGiven(all, to);
        return to.done().length;
    }
}
