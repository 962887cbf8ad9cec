package consuming;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A consumer as a pod runs it, which ends with whatever its client throws, as most applications on a JVM do.
 *
 * <p>One JSON line on standard output per thing that happened: {@code started} (pid, instance_id, protocol),
 * {@code assigned}, {@code revoked}, {@code lost} (partitions), {@code error} (error, text, fatal), {@code closed}.
 *
 * <p>Variables: BOOTSTRAP, GROUP, TOPIC (or several, with commas), GROUP_PROTOCOL (classic or consumer); KAFKA_GROUP_INSTANCE_ID (empty: a
 * dynamic member), KAFKA_SESSION_TIMEOUT_MS, PARTITION_ASSIGNMENT_STRATEGY (a class); READY_FILE (exists while partitions are assigned, for a readiness probe);
 * LEAVE_ON_CLOSE (true: also a static member leaves when it is closed, KIP-1092).
 *
 * <p>Exit code: 0 after SIGTERM, 1 after an exception, for instance UnreleasedInstanceIdException (KIP-848).
 */
public final class ConsumingApplication implements ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(10);
    private static final Map<String, String> SETTINGS = Map.of(
            "BOOTSTRAP", ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG,
            "GROUP", ConsumerConfig.GROUP_ID_CONFIG,
            "GROUP_PROTOCOL", ConsumerConfig.GROUP_PROTOCOL_CONFIG,
            "KAFKA_GROUP_INSTANCE_ID", ConsumerConfig.GROUP_INSTANCE_ID_CONFIG,
            "KAFKA_SESSION_TIMEOUT_MS", ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG,
            "PARTITION_ASSIGNMENT_STRATEGY", ConsumerConfig.PARTITION_ASSIGNMENT_STRATEGY_CONFIG);

    private final String readyFile;

    private ConsumingApplication(String readyFile) {
        this.readyFile = readyFile;
    }

    /** Consumes until SIGTERM or until the client throws. */
    public static void main(String[] arguments) {
        Map<String, String> environment = System.getenv();
        Properties config = config(environment);
        tell("started", "\"pid\":" + ProcessHandle.current().pid()
                + ",\"instance_id\":" + quoted(config.getProperty(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG))
                + ",\"protocol\":" + quoted(config.getProperty(ConsumerConfig.GROUP_PROTOCOL_CONFIG)));
        Consumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(consumer, main)));
        try {
            consumer.subscribe(List.of(environment.get("TOPIC").split(",")),
                    new ConsumingApplication(environment.get("READY_FILE")));
            while (true) {
                consumer.poll(POLL);
            }
        } catch (WakeupException stopped) {
            consumer.close(closing(environment));
            tell("closed", "");
        } catch (RuntimeException problem) {
            tell("error", "\"error\":" + quoted(problem.getClass().getSimpleName())
                    + ",\"text\":" + quoted(problem.getMessage()) + ",\"fatal\":true");
            Runtime.getRuntime().halt(1);  // its hook would wait for this thread
        }
    }

    private static void stop(Consumer<byte[], byte[]> consumer, Thread main) {
        consumer.wakeup();
        try {
            main.join(CLOSE_TIMEOUT.toMillis());
        } catch (InterruptedException impatience) {
            Thread.currentThread().interrupt();
        }
        Runtime.getRuntime().halt(0);  // or SIGTERM would make it 143
    }

    private static CloseOptions closing(Map<String, String> environment) {
        CloseOptions options = CloseOptions.timeout(CLOSE_TIMEOUT);
        boolean leaves = Boolean.parseBoolean(environment.get("LEAVE_ON_CLOSE"));
        return leaves ? options.withGroupMembershipOperation(GroupMembershipOperation.LEAVE_GROUP) : options;
    }

    private static Properties config(Map<String, String> environment) {
        Properties config = new Properties();
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        SETTINGS.forEach((variable, name) -> {
            String value = environment.getOrDefault(variable, "");
            if (!value.isEmpty()) {
                config.put(name, value);
            }
        });
        return config;
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        tell("assigned", numbers(partitions));
        showReadiness(true);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        tell("revoked", numbers(partitions));
        showReadiness(false);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        tell("lost", numbers(partitions));
        showReadiness(false);
    }

    private void showReadiness(boolean ready) {
        if (readyFile == null) {
            return;
        }
        try {
            if (ready) {
                Files.write(Path.of(readyFile), new byte[0]);
            } else {
                Files.deleteIfExists(Path.of(readyFile));
            }
        } catch (IOException problem) {
            tell("error", "\"text\":" + quoted(problem.toString()) + ",\"fatal\":false");
        }
    }

    private static String numbers(Collection<TopicPartition> partitions) {
        return "\"partitions\":" + partitions.stream().map(TopicPartition::partition).sorted().toList();
    }

    private static void tell(String kind, String fields) {
        String rest = fields.isEmpty() ? "" : "," + fields;
        System.out.println("{\"kind\":\"" + kind + "\",\"at_ms\":" + System.currentTimeMillis() + rest + "}");
    }

    private static String quoted(String text) {
        return text == null ? "null"
                : '"' + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + '"';
    }
}
