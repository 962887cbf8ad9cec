package counting;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.StateRestoreListener;

/** Tells each store that was read again from its changelog: from which offset to which, and how many records. */
final class TellingRestores implements StateRestoreListener {
    private final Map<TopicPartition, long[]> ranges = new ConcurrentHashMap<>();

    @Override
    public void onRestoreStart(TopicPartition changelog, String store, long from, long to) {
        ranges.put(changelog, new long[] {from, to});
    }

    @Override
    public void onBatchRestored(TopicPartition changelog, String store, long endOffset, long count) {}

    @Override
    public void onRestoreEnd(TopicPartition changelog, String store, long records) {
        tell("restored", changelog, records);
    }

    @Override
    public void onRestoreSuspended(TopicPartition changelog, String store, long records) {
        tell("restore_suspended", changelog, records);
    }

    private void tell(String kind, TopicPartition changelog, long records) {
        long[] range = ranges.getOrDefault(changelog, new long[] {-1, -1});
        Lines.tell(kind, "partition", changelog.partition(), "from", range[0], "to", range[1], "records", records);
    }
}
