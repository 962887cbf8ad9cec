package counting;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts the records of its partition in a store that outlives the process, each offset once.
 *
 * <p>The store keeps how many records were counted and which offset comes next. For a topic that is read from its
 * beginning the two are equal as long as no record is missed and no state is lost; records that are read again change
 * neither. Both are in one entry, so no crash comes between them, neither here nor in the changelog.
 */
final class Counting implements Processor<byte[], byte[], Void, Void> {
    static final String STORE = "counts";
    private static final String KEPT = "kept";
    private static final boolean REPORTS_TIMES = "true".equalsIgnoreCase(System.getenv("REPORT_TIMES"));
    private static final Map<Integer, List<Long>> CHANGED = new ConcurrentHashMap<>();

    private ProcessorContext<Void, Void> context;
    private KeyValueStore<String, String> store;
    private int partition;
    private long count;
    private long next;

    /** Returns the supplier of processors with their persistent store, whose changelog is a topic. */
    static ProcessorSupplier<byte[], byte[], Void, Void> supplier() {
        return new ProcessorSupplier<>() {
            @Override
            public Processor<byte[], byte[], Void, Void> get() {
                return new Counting();
            }

            @Override
            public Set<StoreBuilder<?>> stores() {
                return Set.of(Stores.keyValueStoreBuilder(
                        Stores.persistentKeyValueStore(STORE), Serdes.String(), Serdes.String()));
            }
        };
    }

    /** Prints count and next offset of each partition read since the last call, and received records if asked for. */
    static synchronized void tellChanges() {
        Received.tell();
        Map<Integer, List<Long>> changed = new TreeMap<>();
        for (Integer each : CHANGED.keySet()) {
            changed.put(each, CHANGED.remove(each));
        }
        if (!changed.isEmpty()) {
            Lines.tell("counted", "partitions", changed);
        }
    }

    @Override
    public void init(ProcessorContext<Void, Void> given) {
        context = given;
        store = context.getStateStore(STORE);
        partition = context.taskId().partition();
        String kept = store.get(KEPT);
        String[] numbers = (kept == null ? "0 0" : kept).split(" ");
        count = Long.parseLong(numbers[0]);
        next = Long.parseLong(numbers[1]);
        Lines.tell("opened", "partition", partition, "count", count, "next", next);
    }

    @Override
    public void process(Record<byte[], byte[]> record) {
        long offset = context.recordMetadata().map(RecordMetadata::offset).orElseThrow();
        if (REPORTS_TIMES) {
            Received.note(partition, offset);
        }
        if (offset < next) {
            return;
        }
        count += 1;
        next = offset + 1;
        store.put(KEPT, count + " " + next);
        CHANGED.put(partition, List.of(count, next));
    }

    /** Prints the last counts before another process gets the partition and prints newer ones. */
    @Override
    public void close() {
        tellChanges();
    }
}
