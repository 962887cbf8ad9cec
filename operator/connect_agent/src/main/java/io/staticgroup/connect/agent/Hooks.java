package io.staticgroup.connect.agent;

import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.function.IntConsumer;

/**
 * What the changed classes call. Nothing is thrown from here: a hook that fails leaves Connect to itself.
 *
 * <p>One process may have several coordinators (MirrorMaker 2 has one for each target cluster); each has its membership.
 */
public final class Hooks {
    /** Status of a process that was fenced; another process holds its identity. */
    public static final int FENCED_STATUS = 82;

    /** The configurations that were given the identity; a process may have others, which were refused. */
    private static final Set<Object> ISSUED = Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<>()));
    private static final Map<Object, Membership> MEMBERSHIPS = Collections.synchronizedMap(new WeakHashMap<>());
    private static Settings settings;
    private static Decision.Listener decisions;
    private static WorkerTransformer transformer;
    private static IntConsumer halt;
    private static volatile boolean isIssued;

    private Hooks() {
    }

    static void activate(Settings asked, Decision.Listener toTell, WorkerTransformer changes, IntConsumer howToHalt) {
        settings = asked;
        decisions = toTell;
        transformer = changes;
        halt = howToHalt;
        isIssued = false;
        ISSUED.clear();
        MEMBERSHIPS.clear();
    }

    /**
     * GroupRebalanceConfig: the instance id of a Connect worker, which Connect drops ("Static membership is only
     * introduced in consumer API"). It is given only once every class is seen to be changed, because a static id
     * without the rest loses tasks.
     */
    public static Optional<?> groupInstanceId(Optional<?> own, Object config, Object protocolType) {
        if (settings == null || !isConnect(protocolType)) {
            return own;
        }
        try {
            String reason = own.isPresent() ? "Connect gives itself the instance id " + own.get() : reasonToRefuse(config);
            if (reason == null) {
                ISSUED.add(config);
                isIssued = true;
                return Optional.of(settings.instanceId);
            }
            refuse(reason);
        } catch (ReflectiveOperationException | RuntimeException | LinkageError problem) {
            refuse(problem.toString());
        }
        return own;
    }

    private static String reasonToRefuse(Object config) throws ReflectiveOperationException {
        for (Hook hook : Patches.all()) {
            Class.forName(hook.owner.replace('/', '.'), false, config.getClass().getClassLoader());
        }
        Set<Hook> missing = transformer.missing();
        if (!missing.isEmpty()) {
            return "not changed when they were loaded: " + missing;
        }
        int heartbeatMs = config.getClass().getField("heartbeatIntervalMs").getInt(config);
        return settings.sessionTimeoutMs == null || settings.sessionTimeoutMs > heartbeatMs ? null
            : Settings.SESSION_TIMEOUT_MS + "=" + settings.sessionTimeoutMs + " is not longer than heartbeat.interval.ms="
                + heartbeatMs + ": use three times as much at least";
    }

    /** GroupRebalanceConfig: the session timeout of a static worker, in ms. */
    public static int sessionTimeoutMs(int own, Object config, Object protocolType) {
        return ISSUED.contains(config) && settings.sessionTimeoutMs != null ? settings.sessionTimeoutMs : own;
    }

    /** WorkerCoordinator: scheduled.rebalance.max.delay.ms of a static worker. */
    public static int rebalanceDelayMs(int own, Object config) {
        return ISSUED.contains(config) && settings.rebalanceDelayMs != null ? settings.rebalanceDelayMs : own;
    }

    /**
     * WorkerCoordinator.onLeaderElected: the assignments of a returning leader, who must not assign; null: go on.
     *
     * <p>The group is stable, so the coordinator answers its SyncGroup with what is stored, whatever is in it. In the
     * eager protocol Connect computes its LeaderState from an assignment, which comes out as the one that is stored.
     */
    public static Map<?, ?> skipped(String protocol, boolean isSkipped) {
        return isSkipped && isIssued && !"default".equals(protocol) ? Collections.emptyMap() : null;
    }

    /** WorkerCoordinator.onLeaderElected: Connect throws when it is to skip ("does not support static membership"). */
    public static boolean skipAssignment(boolean isSkipped) {
        return isSkipped && !isIssued;
    }

    /** WorkerCoordinator.metadata: adds what this worker knows of the last generation to what it says in JoinGroup. */
    public static void telling(Iterable<?> protocols, Object coordinator) {
        attempt("telling what was given", coordinator, null, membership -> {
            for (Object protocol : protocols) {
                Connect.setMetadata(protocol, membership.telling((byte[]) Connect.call(protocol, "metadata")));
            }
            return null;
        });
    }

    /**
     * WorkerCoordinator.onLeaderElected or performAssignment: the members as the leader is to see them.
     *
     * <p>Returns what is to be stored where Connect must not assign; null: go on.
     */
    public static Map<String, ByteBuffer> view(Object coordinator, List<?> members, String leader) {
        return attempt("showing the leader what absent members own", coordinator, null, membership -> {
            Map<String, byte[]> changed = membership.view(Connect.members(members), leader);
            for (Object each : members) {
                Connect.setMetadata(each, changed.get((String) Connect.call(each, "memberId")));
            }
            return membership.heldBack(leader);
        });
    }

    /** WorkerCoordinator.onLeaderElected or performAssignment: the assignments as they are to be stored. */
    public static Map<String, ByteBuffer> stored(Map<String, ByteBuffer> increments, Object coordinator, String leader) {
        return attempt("storing whole allocations", coordinator, increments,
            membership -> membership.stored(increments, leader));
    }

    /** WorkerCoordinator.onJoinComplete: the assignment as Connect is to see it. */
    public static ByteBuffer received(Object coordinator, int generation, String memberId, ByteBuffer assignment) {
        return attempt("reading an assignment", coordinator, assignment,
            membership -> membership.received(assignment, generation, Connect.self(coordinator, memberId)));
    }

    /**
     * WorkerCoordinator.poll, when it returns: asks for the round that is needed.
     *
     * <p>Not sooner: joinGroupIfNeeded goes on while a rejoin is asked for, and the herder starts the work of an assignment
     * after it. Not later: the herder handles requests next, for which a leader that knows nothing must seem to rejoin.
     */
    public static void polled(Object coordinator) {
        attempt("asking for a round", coordinator, null, membership -> {
            if (membership.isRoundToBeRequested()) {
                Connect.requestRejoin(coordinator);
            }
            return null;
        });
    }

    /**
     * AbstractCoordinator's handlers of Heartbeat, JoinGroup and SyncGroup: a fenced worker stops at once, and a leader learns
     * the generation of its round.
     *
     * <p>Left to itself it would join anew with an empty member id, take the identity back and so kill its successor.
     */
    public static void answered(Object handler, Object coordinator, Object answer) {
        if (!isIssued || !coordinator.getClass().getName().equals(Hook.Names.COORDINATOR.replace('/', '.'))) {
            return;
        }
        try {
            if (((Enum<?>) Connect.call(answer, "error")).name().equals("FENCED_INSTANCE_ID") && !isOfEarlierGeneration(handler)) {
                tell(Decision.FENCED, "FENCED (" + handler.getClass().getSimpleName() + "): another process holds "
                    + settings.instanceId + "; this worker ends now, with status " + FENCED_STATUS);
                halt.accept(FENCED_STATUS);
            }
            if (handler.getClass().getSimpleName().startsWith("JoinGroup")) {
                int generation = (Integer) Connect.call(Connect.call(answer, "data"), "generationId");
                attempt("noting the generation", coordinator, null, membership -> {
                    membership.joining(generation);
                    return null;
                });
            }
        } catch (ReflectiveOperationException | RuntimeException | LinkageError problem) {
            failed("reading an answer", problem);
        }
    }

    /** A late answer to a heartbeat sent under a member id that this very process has given up (since 2.7). */
    private static boolean isOfEarlierGeneration(Object handler) throws ReflectiveOperationException {
        if (!handler.getClass().getSimpleName().startsWith("Heartbeat")) {
            return false;
        }
        try {
            Method unchanged = handler.getClass().getSuperclass().getDeclaredMethod("generationUnchanged");
            unchanged.setAccessible(true);
            return !(Boolean) unchanged.invoke(handler);
        } catch (NoSuchMethodException olderThanThat) {
            return false;
        }
    }

    private interface Step<T> {
        T of(Membership membership) throws ReflectiveOperationException;
    }

    /** Does something for a static worker; what Connect has by itself when it is none, or when that fails. */
    private static <T> T attempt(String doing, Object coordinator, T otherwise, Step<T> step) {
        if (!isIssued) {
            return otherwise;
        }
        Membership membership =
            MEMBERSHIPS.computeIfAbsent(coordinator, any -> new Membership(settings.instanceId, Hooks::tell));
        try {
            return step.of(membership);
        } catch (ReflectiveOperationException | RuntimeException | LinkageError problem) {
            membership.forgetRound();
            failed(doing, problem);
            return otherwise;
        }
    }

    private static void failed(String doing, Throwable problem) {
        tell(Decision.FAILED, doing + " failed, Connect goes on without it: " + problem);
    }

    private static void refuse(String reason) {
        if (settings.isExitOnRefusal) {
            tell(Decision.REFUSED, "refused: " + reason);
            halt.accept(Agent.REFUSED_STATUS);
        } else {
            tell(Decision.REFUSED, "inert, this worker is a dynamic member: " + reason);
        }
    }

    /** Tells a decision; it stands whether or not it can be told. */
    private static void tell(Decision decision, String text) {
        try {
            decisions.decided(decision, text);
        } catch (RuntimeException | LinkageError unheard) {
            Log.toStandardError(text);
        }
    }

    private static boolean isConnect(Object protocolType) {
        return protocolType instanceof Enum && ((Enum<?>) protocolType).name().equals("CONNECT");
    }
}
