package counting;

import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;

/** One JSON line on standard output per thing that happened: {@code kind}, {@code at_ms} and its own fields. */
final class Lines {
    private Lines() {}

    /** Prints one line; {@code fields} are names and values in turn. */
    static void tell(String kind, Object... fields) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("kind", kind);
        line.put("at_ms", System.currentTimeMillis());
        for (int i = 0; i < fields.length; i += 2) {
            line.put((String) fields[i], fields[i + 1]);
        }
        synchronized (System.out) {
            System.out.println(json(line));
            System.out.flush();
        }
    }

    private static String json(Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            return String.valueOf(value);
        }
        if (value instanceof Map) {
            return ((Map<?, ?>) value).entrySet().stream()
                    .map(each -> json(String.valueOf(each.getKey())) + ":" + json(each.getValue()))
                    .collect(Collectors.joining(",", "{", "}"));
        }
        if (value instanceof Collection) {
            return ((Collection<?>) value).stream().map(Lines::json).collect(Collectors.joining(",", "[", "]"));
        }
        return quoted(value.toString());
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }
}
