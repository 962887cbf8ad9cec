package io.staticgroup.connect.agent;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * What one worker knows of its static membership, and what it therefore changes in a round. It knows bytes only.
 *
 * <p>A static member that comes back while its group is stable is given what is stored for it, and no round happens.
 * Connect stores increments, so what is stored must become whole allocations; and a leader must not take the work of a
 * member that is away for lost. All is done by the herder's thread.
 */
final class Membership {
    /**
     * Above this, over all members, what everybody was given goes to the leader only, and to nobody if it is as large alone.
     *
     * <p>It is stored twice, in assignments and in what members say when they join, in one record of a broker's log.
     */
    static final int GIVEN_MAX_BYTES = 128 * 1024;
    /** How often the leader asks for a round because of the same doubt; later only who is in doubt can end it, and does. */
    static final int HELD_BACK_ROUNDS = 3;
    private static final int FIRST_GENERATION = 1;

    private final String instanceId;
    private final Decision.Listener decisions;
    private String memberId = "";
    /** What it says when it joins; null: it has had no assignment yet. */
    private Told told;
    /** The generation of the round that it joins. */
    private int generation = -1;
    private Map<String, Seat> seats = Collections.emptyMap();
    private boolean isIdleRevoked;
    private boolean isHeldBack;
    /** Of the last round that this worker led: what the members in doubt said, by member id. */
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
        /** It may not have joined this round, and may run, or be given back, another thing than it reports. */
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
    byte[] telling(byte[] metadata) {
        boolean hasRoom = Assignment.isIncremental(ByteBuffer.wrap(metadata).getShort());
        return told == null || !hasRoom ? metadata : new Bytes().raw(metadata).raw(told.write()).done();
    }

    /** Has been told of which generation the round is that it joins. */
    void joining(int ofGeneration) {
        generation = ofGeneration;
    }

    /**
     * Lets the leader see what absent members own: metadata by member id, only of those whose metadata changes.
     *
     * <p>A member that is away, or whose process is new, owns what it was given in the last generation besides what it
     * reports; but never what another member reports, because who reports a task runs it.
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
            given = given == null && isOfLastGeneration(state.told) ? state.told.given : given;
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
            boolean hasJoined = member.memberId.equals(leaderMemberId) || isOfLastGeneration(state.told);
            if (!claimed.isEmpty()) {
                changed.put(member.memberId, state.owning(state.reported().plus(claimed)).write());
                decisions.decided(Decision.ABSENT_COUNTED,
                    member.instanceId + " counts as owner of " + claimed + ", which it was given and does not report");
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

    private boolean isOfLastGeneration(Told each) {
        return each != null && each.generation == generation - 1;
    }

    /**
     * Returns what to store while nobody knows what a member was given that may be away; null: let Connect assign.
     *
     * <p>Everybody goes on with what it runs, and nobody is given or loses anything. A member in doubt finds an increment of
     * nothing, so that its next process asks for a round instead of starting what others may have by now.
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
        decisions.decided(Decision.HELD_BACK, "as leader: nobody is given or loses anything, because nobody here knows what "
            + inDoubt + " had; it ends when they are back, or no longer members");
        return stored;
    }

    /**
     * Makes the increments that the leader computed for the last {@link #view} into whole allocations, marked as such.
     *
     * <p>Dynamic members, who never come back to what is stored, and the eager protocol keep theirs. A member keeps what
     * is revoked from it and only claimed: it may be away, or run it and not have joined this round, so it first has to
     * come and report it. What is revoked before anybody had it is free at once; the leader asks for the round that gives
     * it away, because nobody else will.
     */
    Map<String, ByteBuffer> stored(Map<String, ByteBuffer> increments, String leaderMemberId) {
        Map<String, Assignment> wholes = new LinkedHashMap<>();
        Map<String, Work> all = new TreeMap<>();
        isIdleRevoked = false;
        increments.forEach((id, bytes) -> {
            Seat seat = seats.get(id);
            Assignment told = Assignment.read(bytes.duplicate());
            if (seat != null && seat.instanceId != null && told.isIncremental()) {
                isIdleRevoked |= !told.revoked.minus(seat.reported).minus(seat.claimed).isEmpty();
                told.assigned = seat.reported.plus(told.assigned).minus(told.revoked).plus(seat.claimed);
                wholes.put(id, told);
                all.put(seat.instanceId, told.assigned);
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
     * Makes what is stored into what Connect expects: an increment for a live worker, everything for a new process.
     *
     * <p>On return the leader's old member id becomes the new one. An older config offset becomes the worker's own: a
     * round's is never older, so none took place; and Connect would join again and again to make them equal.
     */
    ByteBuffer received(ByteBuffer bytes, int ofGeneration, Self self) {
        boolean isReturned = !self.memberId.equals(memberId);
        memberId = self.memberId;
        roundWanted = isHeldBack && roundsInDoubt <= HELD_BACK_ROUNDS ? "somebody may know now"
            : isIdleRevoked ? "what was revoked before anybody had it is free" : null;
        forgetRound();
        Assignment told = Assignment.read(bytes.duplicate());
        this.told = new Told(ofGeneration, told.whole == null ? null : told.whole.given);
        if (told.version != 0 && told.whole == null) {
            roundWanted = isReturned ? "only the last increment is stored: the leader runs no agent" : roundWanted;
            return bytes;
        }
        if (told.whole != null) {
            // Connect joins again after a revocation; of nothing that would be the same JoinGroup, answered by the same
            // assignment, without end. Only a leader or a member with news gets a round.
            Work idle = told.revoked.minus(self.running);
            if (!(isReturned ? idle : idle.common(told.assigned)).isEmpty()) {
                roundWanted = "this worker does not run what it is to stop";
            }
            told.revoked = told.revoked.common(self.running).minus(told.assigned);
            told.assigned = told.assigned.minus(self.running);
        }
        if (told.error == Assignment.NO_ERROR && told.configOffset < self.configOffset) {
            decisions.decided(Decision.OFFSET_LIFTED, "config offset of the stored assignment lifted from "
                + told.configOffset + " to " + self.configOffset);
            told.configOffset = self.configOffset;
        }
        if (isReturned) {
            comeBack(told, self);
        }
        decisions.decided(isReturned ? Decision.RETURNED : Decision.TOOK_PART,
            (isReturned ? "joined as " + memberId : "took part") + ": starts " + told.assigned + ", stops " + told.revoked);
        told.whole = null;
        return ByteBuffer.wrap(told.write());
    }

    private void comeBack(Assignment told, Self self) {
        boolean led = told.whole != null ? told.whole.leaderInstanceId.equals(instanceId) : isMine(told.leader);
        if (led && !told.leader.equals(self.memberId)) {
            decisions.decided(Decision.LEADER_RETURNED, "leads again: " + told.leader + " is now " + self.memberId);
            told.leader = self.memberId;
            roundWanted = told.whole == null ? roundWanted : "the leader is back";
        }
        String known = told.whole != null ? told.whole.url : led ? told.leaderUrl : self.url;
        if (!known.equals(self.url)) {
            roundWanted = "the advertised address is " + self.url + " and was " + known;
        }
        if (roundWanted == null && told.leader.equals(self.memberId) && !self.hasLeaderState) {
            roundWanted = "the leader does not know who runs what";
        }
    }

    /** Whether a round is to be asked for now: once for each assignment that needs one. */
    boolean isRoundToBeRequested() {
        if (roundWanted == null) {
            return false;
        }
        decisions.decided(Decision.ROUND_WANTED, "asks for a round: " + roundWanted);
        roundWanted = null;
        return true;
    }

    /** Knows nothing of the round that is being assigned: what then is stored are Connect's own increments. */
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
