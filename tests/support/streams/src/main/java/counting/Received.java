package counting;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** The records since the last line, by partition: offsets and times of receipt, both as closed ranges. */
final class Received {
    private static final long PAUSE_MS = 250;
    private static Map<Integer, Received> since = new TreeMap<>();

    private final List<long[]> offsets = new ArrayList<>();
    private final List<long[]> times = new ArrayList<>();

    private Received() {}

    /** Notes a record that came just now. */
    static synchronized void note(int partition, long offset) {
        Received found = since.computeIfAbsent(partition, ignored -> new Received());
        prolong(found.offsets, offset, 1);
        prolong(found.times, System.currentTimeMillis(), PAUSE_MS);
    }

    /** Prints what was noted since the last call. */
    static synchronized void tell() {
        Map<Integer, Object> noted = new LinkedHashMap<>();
        since.forEach((partition, each) -> {
            Map<String, Object> content = new LinkedHashMap<>();
            content.put("offsets", pairs(each.offsets));
            content.put("received", pairs(each.times));
            noted.put(partition, content);
        });
        since = new TreeMap<>();
        if (!noted.isEmpty()) {
            Lines.tell("consumed", "partitions", noted);
        }
    }

    private static void prolong(List<long[]> ranges, long number, long reach) {
        long[] last = ranges.isEmpty() ? null : ranges.get(ranges.size() - 1);
        if (last != null && number >= last[1] && number - last[1] <= reach) {
            last[1] = number;
        } else {
            ranges.add(new long[] {number, number});
        }
    }

    private static List<List<Long>> pairs(List<long[]> ranges) {
        return ranges.stream().map(each -> List.of(each[0], each[1])).toList();
    }
}
