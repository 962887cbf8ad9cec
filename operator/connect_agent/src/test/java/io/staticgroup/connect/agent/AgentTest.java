package io.staticgroup.connect.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.net.URL;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import javax.management.openmbean.TabularData;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Whether the agent is active, and what it says when it is not. */
class AgentTest {
    private final List<String> said = new ArrayList<>();

    private static Map<String, String> environment(String... pairs) {
        Map<String, String> environment = new HashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            environment.put(pairs[i], pairs[i + 1]);
        }
        return environment;
    }

    /** A loader of the stand-ins from which one class is missing or changed. */
    private static ClassLoader without(String name, String text, String replacement) {
        return new ClassLoader(AgentTest.class.getClassLoader()) {
            @Override
            public InputStream getResourceAsStream(String path) {
                if (!path.equals(name + ".class")) {
                    return super.getResourceAsStream(path);
                }
                if (text == null) {
                    return null;
                }
                try (InputStream in = super.getResourceAsStream(path)) {
                    byte[] bytes = new byte[65_536];
                    int length = in.read(bytes);
                    // names in a class file are modified UTF-8; of the same length nothing else changes
                    String all = new String(bytes, 0, length, java.nio.charset.StandardCharsets.ISO_8859_1);
                    assertTrue(all.contains(text), text);
                    return new java.io.ByteArrayInputStream(
                        all.replace(text, replacement).getBytes(java.nio.charset.StandardCharsets.ISO_8859_1));
                } catch (IOException problem) {
                    throw new IllegalStateException(problem);
                }
            }
        };
    }

    private static HookReport complete() throws IOException {
        return HookReport.of(AgentTest.class.getClassLoader());
    }

    @Test
    void itBeginsOnceInAProcessHoweverOftenItIsNamed() {
        AtomicBoolean begun = new AtomicBoolean();
        assertTrue(Agent.isFirst(begun, said::add));
        assertEquals(Collections.emptyList(), said);
        assertFalse(Agent.isFirst(begun, said::add));
        assertEquals(Collections.singletonList("named once more for this JVM, which changes nothing"), said);
    }

    @Test
    void itIsActiveWhereEveryHookIsFound() throws Exception {
        Settings settings = Agent.accept("", environment(Settings.INSTANCE_ID, "w-0"), complete(), said::add);
        assertEquals("w-0", settings.instanceId);
        assertNull(settings.sessionTimeoutMs);
        assertEquals(Collections.singletonList("active, group.instance.id w-0"), said);
    }

    @Test
    void withoutAnIdItIsInert() throws Exception {
        assertNull(Agent.accept("refusal=exit", environment(Settings.INSTANCE_ID, ""), complete(), said::add));
        assertEquals(Collections.singletonList("inert: STATICGROUP_CONNECT_INSTANCE_ID is not set"), said);
    }

    @ParameterizedTest
    @CsvSource({
        "STATICGROUP_CONNECT_INSTANCE_ID, a b, is no group.instance.id",
        "STATICGROUP_CONNECT_INSTANCE_ID, .., is no group.instance.id",
        "STATICGROUP_CONNECT_SESSION_TIMEOUT_MS, 0, 'whole number from 1'",
        "STATICGROUP_CONNECT_SESSION_TIMEOUT_MS, 30s, is not understood",
        "STATICGROUP_CONNECT_REBALANCE_DELAY_MS, -1, 'whole number from 0'",
        "STATICGROUP_CONNECT_REBALANCE_DELAY_MS, 99999999999, or unset it"})
    void aValueThatIsNotUnderstoodIsRefused(String name, String value, String reason) throws Exception {
        Map<String, String> environment = environment(Settings.INSTANCE_ID, "w-0", name, value);
        Settings.Refused refused = assertThrows(Settings.Refused.class, () ->
            Agent.accept(null, environment, complete(), said::add));
        assertTrue(refused.toString().startsWith(name + "='" + value + "'"), refused.toString());
        assertTrue(refused.toString().contains(reason), refused.toString());
    }

    @Test
    void anUnknownOptionIsRefused() throws Exception {
        Settings.Refused refused = assertThrows(Settings.Refused.class, () ->
            Agent.accept("naive", environment(Settings.INSTANCE_ID, "w-0"), complete(), said::add));
        assertTrue(refused.toString().contains("use refusal=inert or refusal=exit"), refused.toString());
    }

    @ParameterizedTest
    @CsvSource({
        "org/apache/kafka/clients/GroupRebalanceConfig, groupInstanceId, groupInstanceNo, config-instance-id",
        "org/apache/kafka/connect/runtime/distributed/WorkerCoordinator, onJoinComplete, onJoinFinished, assignment",
        "org/apache/kafka/connect/runtime/distributed/WorkerCoordinator, onLeaderElected, onLeaderSelected, leader",
        "org/apache/kafka/connect/runtime/distributed/WorkerCoordinator,"
            + " (Ljava/lang/String;Ljava/lang/String;Ljava/util/List;Z),"
            + " (Ljava/lang/Object;Ljava/lang/String;Ljava/util/List;Z), leader",
        "org/apache/kafka/clients/consumer/internals/AbstractCoordinator$HeartbeatResponseHandler,"
            + " Lorg/apache/kafka/clients/consumer/internals/AbstractCoordinator;,"
            + " Lorg/apache/kafka/clients/consumer/internals/ConcreteCoordinator;, heartbeat-outer",
        "org/apache/kafka/connect/runtime/distributed/WorkerCoordinator, metadata, metadato, metadata",
        "org/apache/kafka/common/message/JoinGroupResponseData, generationId, generationNo, join-generation",
        "org/apache/kafka/connect/util/ConnectorTaskId, task, tusk, task-number",
        "org/apache/kafka/common/requests/SyncGroupResponse, error, arrow, sync-error"})
    void oneHookThatIsMissingMakesItRefuse(String owner, String member, String other, String hook) throws Exception {
        String sameLength = (other + "________").substring(0, member.length());
        HookReport report = HookReport.of(without(owner, member, sameLength));
        assertEquals(hook, report.missing.iterator().next().toString().split(" ")[0]);
        Settings.Refused refused = assertThrows(Settings.Refused.class, () ->
            Agent.accept("", environment(Settings.INSTANCE_ID, "w-0"), report, said::add));
        assertTrue(refused.toString().startsWith("this version of Connect lacks [" + hook), refused.toString());
    }

    @Test
    void aProgramWithoutConnectIsNeverEnded() throws Exception {
        HookReport report = HookReport.of(without(Hook.Names.COORDINATOR, null, null));
        assertNull(Agent.accept("refusal=exit", environment(Settings.INSTANCE_ID, "w-0"), report, said::add));
        assertEquals(Collections.singletonList("inert: there is no Connect worker on the class path"), said);
    }

    @Test
    void theProgramTellsWhatItFinds(@TempDir Path empty) throws IOException {
        URL classes = AgentTest.class.getProtectionDomain().getCodeSource().getLocation();
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        PrintStream printOut = new PrintStream(out);
        PrintStream printErr = new PrintStream(err);
        String[] arguments = {"--self-test", classes.getPath()};
        assertEquals(0, SelfTest.run(arguments, printOut, printErr), out::toString);
        assertFalse(out.toString().contains("MISSING"));
        assertEquals(1, SelfTest.run(new String[] {"--self-test", empty.toString()}, printOut, printErr));
        assertTrue(out.toString().contains(
            "MISSING  leader (org.apache.kafka.connect.runtime.distributed.WorkerCoordinator)"));
        assertTrue(out.toString().contains("there is no Connect worker in " + empty));
        String[] nowhere = {"--self-test", empty.resolve("nowhere").toString()};
        assertEquals(2, SelfTest.run(nowhere, printOut, printErr));
        assertEquals(2, SelfTest.run(new String[0], printOut, printErr));
        assertEquals(0, SelfTest.run(new String[] {"--version"}, printOut, printErr));
        assertEquals(0, SelfTest.run(new String[] {"--help"}, printOut, printErr));
        assertTrue(out.toString().contains(Settings.REBALANCE_DELAY_MS));
        assertTrue(Files.isDirectory(empty));
    }

    @Test
    void aLineOfTheLogStaysShort() {
        Work work = Work.NOTHING.with("a", -1).with("a", 0);
        assertEquals("{a=[-1, 0]}", work.toString());
        for (int task = 0; task < 1000; task++) {
            work = work.with("b", task);
        }
        assertEquals("1002 connectors and tasks of 2 connectors", work.toString());
    }

    @Test
    void everyDecisionIsCountedInJmx() throws JMException {
        Statistics statistics = new Statistics("w-0", new Log(new ClassLoader(null) { }));
        statistics.register();
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        ObjectName name = new ObjectName(Statistics.NAME);
        for (Decision decision : Decision.values()) {
            statistics.decided(decision, "text of " + decision);
            TabularData counted = (TabularData) server.getAttribute(name, "Decisions");
            assertEquals(1L, counted.get(new Object[] {decision.name()}).get("value"));
            assertEquals("text of " + decision, server.getAttribute(name, "LastDecision"));
            assertEquals(decision.compareTo(Decision.REFUSED) < 0, server.getAttribute(name, "Active"));
        }
        assertEquals("w-0", server.getAttribute(name, "InstanceId"));
        server.unregisterMBean(name);
    }
}
