package io.staticgroup.connect.agent;

import java.nio.ByteBuffer;
import java.util.Collections;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * Connectors and tasks, in natural order; a connector itself is its task -1.
 *
 * <p>Source: ConnectProtocol.CONNECTOR_ASSIGNMENT_V0 (an array of connector name and task numbers).
 */
final class Work {
    static final int CONNECTOR_TASK = -1;
    static final int SPELLED_OUT_MAX = 40;
    static final Work NOTHING = new Work(Collections.<String, TreeSet<Integer>>emptyMap());

    private final Map<String, TreeSet<Integer>> tasks;

    private Work(Map<String, TreeSet<Integer>> tasks) {
        this.tasks = tasks;
    }

    /** Returns this and one more task. */
    Work with(String connector, int task) {
        Map<String, TreeSet<Integer>> all = copy();
        all.computeIfAbsent(connector, name -> new TreeSet<>()).add(task);
        return new Work(all);
    }

    /** Returns what is in either. */
    Work plus(Work other) {
        Map<String, TreeSet<Integer>> all = copy();
        other.tasks.forEach((name, numbers) -> all.computeIfAbsent(name, n -> new TreeSet<>()).addAll(numbers));
        return new Work(all);
    }

    /** Returns what is here and not in the other. */
    Work minus(Work other) {
        Map<String, TreeSet<Integer>> left = new TreeMap<>();
        tasks.forEach((name, numbers) -> {
            TreeSet<Integer> kept = new TreeSet<>(numbers);
            kept.removeAll(other.tasks.getOrDefault(name, new TreeSet<>()));
            if (!kept.isEmpty()) {
                left.put(name, kept);
            }
        });
        return new Work(left);
    }

    /** Returns what is here and in the other. */
    Work common(Work other) {
        return minus(minus(other));
    }

    boolean isEmpty() {
        return tasks.isEmpty();
    }

    /** Writes connectors whose instance is here first, as ConnectProtocol.Assignment.asMap does. */
    void write(Bytes to) {
        to.int32(tasks.size());
        for (boolean isInstanceHere : new boolean[] {true, false}) {
            tasks.forEach((name, numbers) -> {
                if (numbers.contains(CONNECTOR_TASK) == isInstanceHere) {
                    to.string(name).int32(numbers.size());
                    numbers.forEach(to::int32);
                }
            });
        }
    }

    /** Reads what {@link #write} wrote; an array that is null holds nothing. */
    static Work read(ByteBuffer from) {
        Map<String, TreeSet<Integer>> all = new TreeMap<>();
        for (int connectors = from.getInt(); connectors > 0; connectors--) {
            TreeSet<Integer> numbers = all.computeIfAbsent(Bytes.string(from), name -> new TreeSet<>());
            for (int count = from.getInt(); count > 0; count--) {
                numbers.add(from.getInt());
            }
        }
        all.values().removeIf(Set::isEmpty);
        return new Work(all);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Work && ((Work) other).tasks.equals(tasks);
    }

    @Override
    public int hashCode() {
        return tasks.hashCode();
    }

    /** Spelled out while it is short, because it is part of a log line. */
    @Override
    public String toString() {
        int count = tasks.values().stream().mapToInt(Set::size).sum();
        return count <= SPELLED_OUT_MAX ? tasks.toString()
            : count + " connectors and tasks of " + tasks.size() + " connectors";
    }

    private Map<String, TreeSet<Integer>> copy() {
        Map<String, TreeSet<Integer>> all = new TreeMap<>();
        tasks.forEach((name, numbers) -> all.put(name, new TreeSet<>(numbers)));
        return all;
    }
}
