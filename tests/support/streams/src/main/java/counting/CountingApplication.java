package counting;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KafkaStreams.State;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/**
 * A Kafka Streams application with state, as a pod runs it.
 *
 * <p>Lines on standard output:
 *
 * <pre>
 * started   pid, group, instance_id, session_timeout_ms, threads
 * state     before, now (of the client)             error    text
 * assigned, revoked, lost   instance_id, member_id, generation, partitions (of one stream thread)
 * restored, restore_suspended   partition, from, to, records (of the changelog)
 * opened    partition, count, next (what its store held when it was opened)
 * counted   once per second, and before a partition is given up: partitions {"3": [count, next]} of those that were
 * read consumed  with REPORT_TIMES=true, as often: partitions {"3": {offsets, received}} as ranges: which records came,
 * and           from when to when without a pause above 250 ms
 * closed    elapsed_ms, complete
 * </pre>
 *
 * <p>Variables: BOOTSTRAP, GROUP, TOPIC (one, or several with commas), STATE_DIR, NUM_STREAM_THREADS; KAFKA_STREAMS_GROUP_INSTANCE_ID (empty: dynamic
 * members), KAFKA_STREAMS_SESSION_TIMEOUT_MS; READY_FILE (exists while the client is RUNNING, for a readiness probe);
 * REPORT_TIMES.
 *
 * <p>On SIGTERM its members stay in the group (CloseOptions, KIP-812, KAFKA-18193). Exit code: 1 once all threads have
 * failed.
 */
public final class CountingApplication {
    private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(15);
    private static final long REPORT_MS = 1_000;
    private static final Map<String, String> OPTIONAL = Map.of(
            "KAFKA_STREAMS_GROUP_INSTANCE_ID", "group.instance.id",
            "KAFKA_STREAMS_SESSION_TIMEOUT_MS", "session.timeout.ms",
            "NUM_STREAM_THREADS", StreamsConfig.NUM_STREAM_THREADS_CONFIG,
            "STATE_DIR", StreamsConfig.STATE_DIR_CONFIG);

    private CountingApplication() {}

    /** Runs until SIGTERM, or until all threads have failed. */
    public static void main(String[] arguments) throws InterruptedException {
        Map<String, String> environment = System.getenv();
        Properties config = config(environment);
        Lines.tell("started", "pid", ProcessHandle.current().pid(), "group", environment.get("GROUP"),
                "instance_id", config.get("group.instance.id"), "session_timeout_ms", config.get("session.timeout.ms"),
                "threads", config.get(StreamsConfig.NUM_STREAM_THREADS_CONFIG));
        KafkaStreams streams = new KafkaStreams(topology(environment.get("TOPIC")), config, new TellingClients());
        streams.setGlobalStateRestoreListener(new TellingRestores());
        streams.setStateListener((now, before) -> {
            Lines.tell("state", "before", before, "now", now);
            showReadiness(environment.get("READY_FILE"), now == State.RUNNING);
        });
        streams.setUncaughtExceptionHandler(problem -> {
            Lines.tell("error", "text", problem);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> close(streams)));
        streams.start();
        while (streams.state() != State.ERROR) {
            Thread.sleep(REPORT_MS);
            Counting.tellChanges();
        }
        System.exit(1);
    }

    private static Properties config(Map<String, String> environment) {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, environment.get("GROUP"));
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, environment.get("BOOTSTRAP"));
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1_000);
        OPTIONAL.forEach((variable, name) -> {
            String value = environment.getOrDefault(variable, "");
            if (!value.isEmpty()) {
                config.put(name, value);
            }
        });
        return config;
    }

    private static Topology topology(String topics) {
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        return new Topology().addSource("records", bytes, bytes, topics.split(","))
                .addProcessor("counting", Counting.supplier(), "records");
    }

    private static void close(KafkaStreams streams) {
        long began = System.nanoTime();
        boolean complete = streams.close(CloseOptions.timeout(CLOSE_TIMEOUT)
                .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP));
        Counting.tellChanges();
        Lines.tell("closed", "elapsed_ms", (System.nanoTime() - began) / 1_000_000, "complete", complete);
    }

    private static void showReadiness(String file, boolean ready) {
        if (file == null) {
            return;
        }
        try {
            if (ready) {
                Files.write(Path.of(file), new byte[0]);
            } else {
                Files.deleteIfExists(Path.of(file));
            }
        } catch (IOException problem) {
            Lines.tell("error", "text", problem);
        }
    }
}
