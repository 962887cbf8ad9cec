package listening;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.listener.ConsumerAwareRebalanceListener;

/**
 * Listeners of Spring for Apache Kafka as a pod runs them, configured by Spring Boot; only the second names its id
 * itself.
 *
 * <p>Two listeners that both took the id of {@code spring.kafka.consumer.properties} would have one id, which is well
 * as long as their groups differ. In one group they would fence each other.
 *
 * <p>One JSON line on standard output for each assignment. Variables: BOOTSTRAP, TOPIC, GROUP; CONCURRENCY of each
 * listener (1); SECOND_GROUP (none: only one listener), with SECOND_GROUP_INSTANCE_ID and SECOND_SESSION_TIMEOUT_MS;
 * READY_FILE (exists once every consumer has partitions, for a readiness probe).
 */
@SpringBootApplication
public class ListeningApplication implements ConsumerAwareRebalanceListener {
    private final Set<String> joined = new TreeSet<>();
    private final int expected;
    private final String readyFile;

    public ListeningApplication(
            @Value("${CONCURRENCY:1}") int concurrency,
            @Value("${SECOND_GROUP:}") String secondGroup,
            @Value("${READY_FILE:}") String readyFile) {
        this.expected = secondGroup.isEmpty() ? concurrency : 2 * concurrency;
        this.readyFile = readyFile;
    }

    public static void main(String[] arguments) {
        SpringApplication.run(ListeningApplication.class, arguments);
    }

    @KafkaListener(id = "first", groupId = "${GROUP}", topics = "${TOPIC}", concurrency = "${CONCURRENCY:1}")
    public void first(ConsumerRecord<Object, Object> record) {}

    @KafkaListener(
            id = "second",
            groupId = "${SECOND_GROUP:none}",
            topics = "${TOPIC}",
            concurrency = "${CONCURRENCY:1}",
            autoStartup = "#{'${SECOND_GROUP:}' != ''}",
            properties = {
                "group.instance.id=${SECOND_GROUP_INSTANCE_ID:}",
                "session.timeout.ms=${SECOND_SESSION_TIMEOUT_MS:45000}"
            })
    public void second(ConsumerRecord<Object, Object> record) {}

    @Override
    public synchronized void onPartitionsAssigned(Consumer<?, ?> consumer, Collection<TopicPartition> partitions) {
        String group = consumer.groupMetadata().groupId();
        String instanceId = consumer.groupMetadata().groupInstanceId().orElse("");
        System.out.printf(
                "{\"kind\":\"assigned\",\"at_ms\":%d,\"group\":\"%s\",\"instance_id\":\"%s\",\"partitions\":%s}%n",
                System.currentTimeMillis(),
                group,
                instanceId,
                partitions.stream().map(TopicPartition::partition).sorted().toList());
        joined.add(group + "/" + instanceId);
        if (joined.size() == expected && !readyFile.isEmpty()) {
            try {
                Files.write(Path.of(readyFile), new byte[0]);
            } catch (IOException problem) {
                throw new IllegalStateException(problem);
            }
        }
    }
}
