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
 * The methods that the changed classes call. None throws: if a hook fails, Connect goes on as without it.
 *
 * <p>One process may have several coordinators (MirrorMaker 2 has one for each target
 * cluster); each has its membership.
 */
public final class Hooks {
    /** Status of a process that was fenced; another process holds its identity. */
    public static final int FENCED_STATUS = 82;

    /** The configurations that got the identity; a process may have others, which were refused. */
    private static final Set<Object> ISSUED =
        Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<>()));
    private static final Map<Object, Membership> MEMBERSHIPS = Collections.synchronizedMap(new WeakHashMap<>());
    private static Settings settings;
    private static Decision.Listener decisions;
    private static WorkerTransformer transformer;
    private static IntConsumer halt;
    private static volatile boolean isIssued;

    private Hooks() {
    }

    static void activate(Settings asked, Decision.Listener listener, WorkerTransformer changes, IntConsumer howToHalt) {
        settings = asked;
        decisions = listener;
        transformer = changes;
        halt = howToHalt;
        isIssued = false;
        ISSUED.clear();
        MEMBERSHIPS.clear();
    }

    /**
     * GroupRebalanceConfig: the instance id of a Connect worker, which Connect drops ("Static membership is only
     * introduced in consumer API"). The worker gets it only after every class was changed, because a static id
     * without the other changes loses tasks.
     */
    public static Optional<?> groupInstanceId(Optional<?> own, Object config, Object protocolType) {
        if (settings == null || !isConnect(protocolType)) {
            return own;
        }
        try {
            String reason = own.isPresent() ? "Connect sets its own instance id, " + own.get() : reasonToRefuse(config);
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
            : Settings.SESSION_TIMEOUT_MS + "=" + settings.sessionTimeoutMs
                + " is not longer than heartbeat.interval.ms=" + heartbeatMs + ": use at least three times as much";
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
     * WorkerCoordinator.onLeaderElected: the assignments of a returning leader, which must not assign; null: go on.
     *
     * <p>The group is stable, so the coordinator answers its SyncGroup with what is stored, whatever is in it. In the
     * eager protocol Connect computes its LeaderState from an assignment, which comes out as the one that is stored.
     */
    public static Map<?, ?> skipped(String protocol, boolean isSkipped) {
        return isSkipped && isIssued && !"default".equals(protocol) ? Collections.emptyMap() : null;
    }

    /** WorkerCoordinator.onLeaderElected: Connect throws if the flag is set ("does not support static membership"). */
    public static boolean skipAssignment(boolean isSkipped) {
        return isSkipped && !isIssued;
    }

    /** WorkerCoordinator.metadata: adds what this worker knows of the last generation to its JoinGroup metadata. */
    public static void addLastGeneration(Iterable<?> protocols, Object coordinator) {
        attempt("adding the last generation", coordinator, null, membership -> {
            for (Object protocol : protocols) {
                byte[] metadata = (byte[]) Connect.call(protocol, "metadata");
                Connect.setMetadata(protocol, membership.withLastGeneration(metadata));
            }
            return null;
        });
    }

    /**
     * WorkerCoordinator.onLeaderElected or performAssignment: shows the leader what absent members own.
     *
     * <p>Returns what to store if Connect must not assign; null: go on.
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

    /** WorkerCoordinator.onLeaderElected or performAssignment: the assignments to store. */
    public static Map<String, ByteBuffer> stored(
            Map<String, ByteBuffer> increments, Object coordinator, String leader) {
        return attempt("storing whole allocations", coordinator, increments,
            membership -> membership.stored(increments, leader));
    }

    /** WorkerCoordinator.onJoinComplete: the assignment as Connect expects it. */
    public static ByteBuffer received(Object coordinator, int generation, String memberId, ByteBuffer assignment) {
        return attempt("reading an assignment", coordinator, assignment,
            membership -> membership.received(assignment, generation, Connect.self(coordinator, memberId)));
    }

    /**
     * WorkerCoordinator.poll, when it returns: asks for the round that is needed.
     *
     * <p>Earlier would be wrong, because joinGroupIfNeeded loops while a rejoin is requested, and the herder starts
     * assigned work only after it. Later would be wrong, because the herder handles requests next, and a leader without
     * state must then count as rejoining.
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
     * AbstractCoordinator's handlers of Heartbeat, JoinGroup and SyncGroup: a fenced worker ends at once, and a leader
     * learns the generation of its round.
     *
     * <p>Otherwise the fenced worker would join again with an empty member id, take the identity back and fence its
     * successor.
     */
    public static void answered(Object handler, Object coordinator, Object answer) {
        if (!isIssued || !coordinator.getClass().getName().equals(Hook.Names.COORDINATOR.replace('/', '.'))) {
            return;
        }
        try {
            if (((Enum<?>) Connect.call(answer, "error")).name().equals("FENCED_INSTANCE_ID")
                    && !isOfEarlierGeneration(handler)) {
                report(Decision.FENCED, "FENCED (" + handler.getClass().getSimpleName() + "): another process holds "
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

    /** Whether it is a late answer to a heartbeat of a member id that this process has given up (since 2.7). */
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

    /** Runs a step for a static worker; returns Connect's own value if the worker is dynamic or the step fails. */
    private static <T> T attempt(String doing, Object coordinator, T otherwise, Step<T> step) {
        if (!isIssued) {
            return otherwise;
        }
        Membership membership =
            MEMBERSHIPS.computeIfAbsent(coordinator, any -> new Membership(settings.instanceId, Hooks::report));
        try {
            return step.of(membership);
        } catch (ReflectiveOperationException | RuntimeException | LinkageError problem) {
            membership.forgetRound();
            failed(doing, problem);
            return otherwise;
        }
    }

    private static void failed(String doing, Throwable problem) {
        report(Decision.FAILED, doing + " failed, Connect goes on without it: " + problem);
    }

    private static void refuse(String reason) {
        if (settings.isExitOnRefusal) {
            report(Decision.REFUSED, "refused: " + reason);
            halt.accept(Agent.REFUSED_STATUS);
        } else {
            report(Decision.REFUSED, "inert, this worker is a dynamic member: " + reason);
        }
    }

    /** Reports a decision, which holds even if reporting fails. */
    private static void report(Decision decision, String text) {
        try {
            decisions.decided(decision, text);
        } catch (RuntimeException | LinkageError notReported) {
            Log.toStandardError(text);
        }
    }

    private static boolean isConnect(Object protocolType) {
        return protocolType instanceof Enum && ((Enum<?>) protocolType).name().equals("CONNECT");
    }
}
