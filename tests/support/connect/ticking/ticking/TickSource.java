package ticking;

import java.io.FileWriter;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/**
 * A source whose tasks write a line every 200 ms, to the file named by TICK_FILE: so the task itself shows whether it
 * ran.
 *
 * <p>A line is {@code <ms since 1970> START|TICK|STOP <connector>/<number>}; a connector's own lines have no number.
 */
public class TickSource extends SourceConnector {
    private static PrintWriter file;
    private Map<String, String> config;

    static synchronized void write(String what, String work) {
        try {
            if (file == null) {
                file = new PrintWriter(new FileWriter(System.getenv("TICK_FILE"), true));
            }
        } catch (IOException problem) {
            throw new IllegalStateException(problem);
        }
        file.println(System.currentTimeMillis() + " " + what + " " + work);
        file.flush();
    }

    @Override
    public void start(Map<String, String> given) {
        config = given;
        write("START", config.get("name"));
    }

    @Override
    public void stop() {
        write("STOP", config.get("name"));
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Ticking.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int count) {
        List<Map<String, String>> configs = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Map<String, String> each = new HashMap<>(config);
            each.put("number", String.valueOf(i));
            configs.add(each);
        }
        return configs;
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public String version() {
        return "1";
    }

    /** One task. */
    public static class Ticking extends SourceTask {
        private String id;

        @Override
        public void start(Map<String, String> given) {
            id = given.get("name") + "/" + given.get("number");
            write("START", id);
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            write("TICK", id);
            Thread.sleep(200);
            return null;
        }

        @Override
        public void stop() {
            write("STOP", id);
        }

        @Override
        public String version() {
            return "1";
        }
    }
}
