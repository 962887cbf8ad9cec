package io.staticgroup.connect.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The changed classes call the hooks, and the hooks change what they should. */
class HooksTest {
    private static final Work TASKS = Work.NOTHING.with("a", -1).with("a", 0).with("a", 1);

    private static Settings settings() {
        Map<String, String> environment = new HashMap<>();
        environment.put(Settings.INSTANCE_ID, "w-0");
        environment.put(Settings.SESSION_TIMEOUT_MS, "45000");
        environment.put(Settings.REBALANCE_DELAY_MS, "0");
        return Settings.of("", environment);
    }

    private static Object staticWorker(PatchedWorker process) throws ReflectiveOperationException {
        return process.coordinator(process.config("CONNECT"), "http://w-0/", 300_000);
    }

    /** Joins a round of this generation. */
    private static void join(PatchedWorker process, Object coordinator, int generation)
            throws ReflectiveOperationException {
        Object answer = process.answer("JoinGroup", "NONE");
        answer.getClass().getField("generation").setInt(answer, generation);
        PatchedWorker.call(PatchedWorker.call(coordinator, "join"), "handle", answer, null);
    }

    private static ByteBuffer bytes(Assignment assignment) {
        return ByteBuffer.wrap(assignment.write());
    }

    private static Assignment assignment(Work assigned, Whole whole) {
        Assignment made = new Assignment();
        made.version = 2;
        made.leader = "w-0-old";
        made.leaderUrl = "http://w-0/";
        made.configOffset = 5;
        made.assigned = assigned;
        made.whole = whole;
        return made;
    }

    @Test
    void aWorkerGetsItsIdentityAndItsTimes() throws ReflectiveOperationException {
        PatchedWorker process = new PatchedWorker(settings(), null);
        Object config = process.config("CONNECT");
        assertEquals(Optional.of("w-0"), PatchedWorker.get(config, "groupInstanceId"));
        assertEquals(45_000, PatchedWorker.get(config, "sessionTimeoutMs"));
        assertEquals(0, PatchedWorker.get(process.coordinator(config, "http://w-0/", 300_000), "maxDelay"));
    }

    @Test
    void aConsumerInTheSameProcessKeepsItsOwn() throws ReflectiveOperationException {
        PatchedWorker process = new PatchedWorker(settings(), null);
        process.config("CONNECT");
        Object consumer = process.config("CONSUMER");
        assertEquals(Optional.of("consumer"), PatchedWorker.get(consumer, "groupInstanceId"));
        assertEquals(10_000, PatchedWorker.get(consumer, "sessionTimeoutMs"));
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "org.apache.kafka.connect.runtime.distributed.WorkerCoordinator",
        "org.apache.kafka.clients.consumer.internals.AbstractCoordinator$HeartbeatResponseHandler",
        "org.apache.kafka.clients.consumer.internals.AbstractCoordinator$SyncGroupResponseHandler"})
    void noIdentityIsGivenWhereAClassWasLoadedUnchanged(String unpatched) throws ReflectiveOperationException {
        PatchedWorker process = new PatchedWorker(settings(), unpatched);
        Object config = process.config("CONNECT");
        assertEquals(Optional.empty(), PatchedWorker.get(config, "groupInstanceId"));
        assertEquals(10_000, PatchedWorker.get(config, "sessionTimeoutMs"));
        assertEquals(Collections.singletonList(Decision.REFUSED), process.decisions);
        Object coordinator = process.coordinator(config, "http://w-0/", 300_000);
        assertEquals(300_000, PatchedWorker.get(coordinator, "maxDelay"));
        ByteBuffer bytes = ByteBuffer.wrap(assignment(TASKS, null).write());
        assertFalse((Boolean) PatchedWorker.call(coordinator, "joined", "w-0-1", bytes));
        assertSame(bytes, PatchedWorker.get(coordinator, "joinedWith"));
        assertThrows(IllegalStateException.class, () ->
            PatchedWorker.call(coordinator, "elected", "w-0-1", "sessioned", Collections.emptyList(), true));
    }

    @Test
    void theLeaderStoresWholeAllocationsAndCountsTheAbsent() throws ReflectiveOperationException {
        PatchedWorker process = new PatchedWorker(settings(), null);
        Object coordinator = staticWorker(process);
        Map<String, Work> given = new HashMap<>();
        given.put("w-1", TASKS);
        Whole whole = new Whole("w-0", "http://w-0/", given);
        assertTrue((Boolean) PatchedWorker.call(coordinator, "joined", "w-0-new", bytes(assignment(TASKS, whole))));
        assertEquals(false, PatchedWorker.get(coordinator, "isRejoinRequestedBeforeWorkStarts"));
        Assignment shown = Assignment.read((ByteBuffer) PatchedWorker.get(coordinator, "joinedWith"));
        assertEquals("w-0-new", shown.leader);
        assertEquals(7, shown.configOffset);
        assertNull(shown.whole);

        join(process, coordinator, 2);
        List<?> offered = (List<?>) PatchedWorker.call(coordinator, "metadata");
        byte[] own = (byte[]) PatchedWorker.call(offered.get(0), "metadata");
        assertEquals(given, WorkerState.read(ByteBuffer.wrap(own)).lastGeneration.given);
        assertEquals(13, ((byte[]) PatchedWorker.call(offered.get(1), "metadata")).length);
        byte[] metadata = new WorkerState((short) 2, "http://w-1/", 7, null, null).write();
        Object self = process.member("w-0-new", "w-0", own);
        Object absent = process.member("w-1-x", "w-1", metadata);
        Object dynamic = process.member("stock-x", null, metadata);
        Map<String, ByteBuffer> increments = new HashMap<>();
        Work added = Work.NOTHING.with("b", 0);
        increments.put("w-1-x", bytes(assignment(added, null)));
        increments.put("stock-x", bytes(assignment(added, null)));
        coordinator.getClass().getField("increments").set(coordinator, increments);
        List<Object> members = Arrays.asList(self, absent, dynamic);
        Map<?, ?> stored =
            (Map<?, ?>) PatchedWorker.call(coordinator, "elected", "w-0-new", "sessioned", members, false);
        byte[] ofAbsent = (byte[]) PatchedWorker.call(absent, "metadata");
        assertEquals(TASKS, WorkerState.read(ByteBuffer.wrap(ofAbsent)).reported());
        assertSame(metadata, PatchedWorker.call(dynamic, "metadata"));
        Assignment kept = Assignment.read(((ByteBuffer) stored.get("w-1-x")).duplicate());
        assertEquals(TASKS.plus(added), kept.assigned);
        assertEquals("http://w-1/", kept.whole.url);
        assertNull(Assignment.read(((ByteBuffer) stored.get("stock-x")).duplicate()).whole);
    }

    @Test
    void aLeaderWithoutTheLastAllocationsStoresThatNothingChanges() throws ReflectiveOperationException {
        PatchedWorker process = new PatchedWorker(settings(), null);
        Object coordinator = staticWorker(process);
        join(process, coordinator, 5);
        byte[] metadata = new WorkerState((short) 2, "http://w-1/", 7, assignment(TASKS, null), null).write();
        Map<String, ByteBuffer> increments = new HashMap<>();
        increments.put("w-1-x", ByteBuffer.wrap(assignment(TASKS, null).write()));
        coordinator.getClass().getField("increments").set(coordinator, increments);
        List<Object> members =
            Arrays.asList(process.member("w-0-x", "w-0", metadata), process.member("w-1-x", "w-1", metadata));
        Map<?, ?> stored = (Map<?, ?>) PatchedWorker.call(coordinator, "elected", "w-0-x", "sessioned", members, false);
        assertNull(PatchedWorker.call(coordinator, "leaderState"));
        Assignment inDoubt = Assignment.read(((ByteBuffer) stored.get("w-1-x")).duplicate());
        assertTrue(inDoubt.assigned.isEmpty() && inDoubt.revoked.isEmpty() && inDoubt.whole == null);
        assertEquals(TASKS, Assignment.read(((ByteBuffer) stored.get("w-0-x")).duplicate()).assigned);
        assertTrue(process.decisions.contains(Decision.HELD_BACK));
        assertTrue((Boolean) PatchedWorker.call(coordinator, "joined", "w-0-x", stored.get("w-0-x")));
    }

    @Test
    void aReturningLeaderAssignsNothingWhenItIsToSkip() throws ReflectiveOperationException {
        Object coordinator = staticWorker(new PatchedWorker(settings(), null));
        assertEquals(Collections.emptyMap(),
            PatchedWorker.call(coordinator, "elected", "w-0-new", "sessioned", Collections.emptyList(), true));
        assertNull(PatchedWorker.call(coordinator, "leaderState"));
        PatchedWorker.call(coordinator, "elected", "w-0-new", "default", Collections.emptyList(), true);
        assertEquals("w-0-new", PatchedWorker.call(coordinator, "leaderState"));
    }

    @Test
    void aLiveWorkerIsShownTheIncrement() throws ReflectiveOperationException {
        PatchedWorker process = new PatchedWorker(settings(), null);
        Object coordinator = staticWorker(process);
        Object runs = PatchedWorker.call(coordinator, "runs");
        @SuppressWarnings("unchecked")
        List<String> connectors = (List<String>) PatchedWorker.get(runs, "connectors");
        connectors.add("a");
        Whole whole = new Whole("w-1", "http://w-0/", Collections.emptyMap());
        assertFalse((Boolean) PatchedWorker.call(coordinator, "joined", "w-0-1", bytes(assignment(TASKS, whole))));
        Assignment shown = Assignment.read((ByteBuffer) PatchedWorker.get(coordinator, "joinedWith"));
        assertEquals(TASKS.minus(Work.NOTHING.with("a", -1)), shown.assigned);
    }

    @Test
    void bytesThatAreNoAssignmentAreLeftToConnect() throws ReflectiveOperationException {
        PatchedWorker process = new PatchedWorker(settings(), null);
        Object coordinator = staticWorker(process);
        ByteBuffer bytes = ByteBuffer.wrap(new byte[] {0, 2, 0});
        PatchedWorker.call(coordinator, "joined", "w-0-1", bytes);
        assertSame(bytes, PatchedWorker.get(coordinator, "joinedWith"));
        assertTrue(process.decisions.contains(Decision.FAILED));
    }

    @Test
    void aFencedWorkerEndsAtOnce() throws ReflectiveOperationException {
        PatchedWorker process = new PatchedWorker(settings(), null);
        Object coordinator = staticWorker(process);
        String[][] handlers = {{"heartbeat", "Heartbeat"}, {"join", "JoinGroup"}, {"sync", "SyncGroup"}};
        for (String[] each : handlers) {
            Object handler = each[0].equals("heartbeat")
                ? PatchedWorker.call(coordinator, each[0], true) : PatchedWorker.call(coordinator, each[0]);
            PatchedWorker.call(handler, "handle", process.answer(each[1], "UNKNOWN_MEMBER_ID"), null);
            assertEquals(Collections.emptyList(), process.halts, each[0]);
            PatchedWorker.call(handler, "handle", process.answer(each[1], "FENCED_INSTANCE_ID"), null);
            assertEquals(Collections.singletonList(Hooks.FENCED_STATUS), process.halts, each[0]);
            process.halts.clear();
        }
        assertEquals(6, PatchedWorker.get(coordinator, "answers"));
    }

    @Test
    void aLateAnswerToAHeartbeatOfAnEarlierMemberIdFencesNobody() throws ReflectiveOperationException {
        PatchedWorker process = new PatchedWorker(settings(), null);
        Object handler = PatchedWorker.call(staticWorker(process), "heartbeat", false);
        PatchedWorker.call(handler, "handle", process.answer("Heartbeat", "FENCED_INSTANCE_ID"), null);
        assertEquals(Collections.emptyList(), process.halts);
    }

    @Test
    void aFencedWorkerEndsAlsoWhenItsLogFails() throws ReflectiveOperationException {
        PatchedWorker process = new PatchedWorker(settings(), null);
        Object handler = PatchedWorker.call(staticWorker(process), "heartbeat", true);
        process.failingLog = new NoClassDefFoundError("an appender");
        PatchedWorker.call(handler, "handle", process.answer("Heartbeat", "FENCED_INSTANCE_ID"), null);
        assertEquals(Collections.singletonList(Hooks.FENCED_STATUS), process.halts);
    }

    /** What was reported in an earlier round may have been taken away since: to store it would give it to two. */
    @Test
    void aRoundThatTheAgentCouldNotReadIsStoredAsConnectSaysIt() throws ReflectiveOperationException {
        PatchedWorker process = new PatchedWorker(settings(), null);
        Object coordinator = staticWorker(process);
        join(process, coordinator, 1);
        byte[] reports = new WorkerState((short) 2, "http://w-1/", 7, assignment(TASKS, null), null).write();
        Map<String, ByteBuffer> increments = new HashMap<>();
        increments.put("w-1-x", ByteBuffer.wrap(assignment(Work.NOTHING, null).write()));
        coordinator.getClass().getField("increments").set(coordinator, increments);
        Object member = process.member("w-1-x", "w-1", reports);
        PatchedWorker.call(coordinator, "elected", "w-0-1", "sessioned", Collections.singletonList(member), false);
        Object unreadable = process.member("w-1-x", "w-1", null);
        Map<?, ?> stored = (Map<?, ?>) PatchedWorker.call(
            coordinator, "elected", "w-0-1", "sessioned", Collections.singletonList(unreadable), false);
        assertEquals(increments, stored);
        List<Object> notMembers = Collections.singletonList("not a member");
        PatchedWorker.call(coordinator, "elected", "w-0-1", "sessioned", Collections.singletonList(member), false);
        stored = (Map<?, ?>) PatchedWorker.call(coordinator, "elected", "w-0-1", "sessioned", notMembers, false);
        assertEquals(increments, stored);
        assertEquals(2, Collections.frequency(process.decisions, Decision.FAILED));
    }

    @Test
    void aLogThatFailsChangesNothing() throws ReflectiveOperationException {
        PatchedWorker process = new PatchedWorker(settings(), null);
        Object coordinator = staticWorker(process);
        process.failingLog = new NoClassDefFoundError("an appender");
        Whole whole = new Whole("w-0", "http://w-0/", Collections.emptyMap());
        assertTrue((Boolean) PatchedWorker.call(coordinator, "joined", "w-0-1", bytes(assignment(TASKS, whole))));
        assertEquals("w-0-1", Assignment.read((ByteBuffer) PatchedWorker.get(coordinator, "joinedWith")).leader);
        process.failingLog = null;
        assertFalse((Boolean) PatchedWorker.call(coordinator, "joined", "w-0-1", bytes(assignment(TASKS, whole))));
    }

    /** AbstractCoordinator's Heartbeat throws then, so a worker would not start because of the agent. */
    @Test
    void aSessionTimeoutThatIsNotLongerThanAHeartbeatIntervalIsRefused() throws ReflectiveOperationException {
        Map<String, String> environment = new HashMap<>();
        environment.put(Settings.INSTANCE_ID, "w-0");
        environment.put(Settings.SESSION_TIMEOUT_MS, "3000");
        PatchedWorker process = new PatchedWorker(Settings.of("", environment), null);
        Object config = process.config("CONNECT");
        assertEquals(Optional.empty(), PatchedWorker.get(config, "groupInstanceId"));
        assertEquals(10_000, PatchedWorker.get(config, "sessionTimeoutMs"));
        assertEquals(Collections.singletonList(Decision.REFUSED), process.decisions);
    }

    @Test
    void aWorkerThatIsToHaveItsIdentityOrNotBeIsEnded() throws ReflectiveOperationException {
        Map<String, String> environment = Collections.singletonMap(Settings.INSTANCE_ID, "w-0");
        PatchedWorker process = new PatchedWorker(
            Settings.of("refusal=exit", environment), "org.apache.kafka.connect.runtime.distributed.WorkerCoordinator");
        process.config("CONNECT");
        assertEquals(Collections.singletonList(Decision.REFUSED), process.decisions);
        assertEquals(Collections.singletonList(Agent.REFUSED_STATUS), process.halts);
    }

    /** MirrorMaker 2: one coordinator for each target cluster, with properties of its own. */
    @Test
    void aWorkerThatIsRefusedChangesNothingOfAnotherInItsProcess() throws ReflectiveOperationException {
        PatchedWorker process = new PatchedWorker(settings(), null);
        Object coordinator = staticWorker(process);
        Object refused = process.config("CONNECT", 45_000);
        assertEquals(Optional.empty(), PatchedWorker.get(refused, "groupInstanceId"));
        assertEquals(10_000, PatchedWorker.get(refused, "sessionTimeoutMs"));
        assertEquals(300_000, PatchedWorker.get(process.coordinator(refused, "http://w-0/", 300_000), "maxDelay"));
        assertEquals(Collections.emptyMap(),
            PatchedWorker.call(coordinator, "elected", "w-0-new", "sessioned", Collections.emptyList(), true));
    }

    @Test
    void anIdThatConnectGivesByItselfIsLeft() throws ReflectiveOperationException {
        PatchedWorker process = new PatchedWorker(settings(), null);
        Object config = process.config("CONSUMER");
        Class<?> types = process.loadClass(PatchedWorker.CONFIG + "$ProtocolType");
        Object type = types.getMethod("valueOf", String.class).invoke(null, "CONNECT");
        assertEquals(Optional.of("theirs"), Hooks.groupInstanceId(Optional.of("theirs"), config, type));
        assertEquals(10_000, Hooks.sessionTimeoutMs(10_000, config, type));
        assertEquals(Collections.singletonList(Decision.REFUSED), process.decisions);
    }

    /** Another agent may redefine a class that is loaded: its bytes come without the hooks. */
    @Test
    void aClassThatIsRedefinedIsChangedAgain() throws Exception {
        PatchedWorker process = new PatchedWorker(settings(), null);
        String name = "org/apache/kafka/clients/GroupRebalanceConfig";
        try (java.io.InputStream in = getClass().getClassLoader().getResourceAsStream(name + ".class")) {
            byte[] bytes = new byte[65_536];
            int length = in.read(bytes);
            Class<?> loaded = process.loadClass(PatchedWorker.CONFIG);
            byte[] changed = process.transformer.transform(process, name, loaded, null, Arrays.copyOf(bytes, length));
            assertTrue(changed != null && changed.length > length);
        }
    }
}
