package io.staticgroup.connect.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The agent encodes and decides as its twin in coordinator_model does: both read static.json. */
class VectorsTest {
    private static JsonObject vectors;

    @BeforeAll
    static void read() throws IOException {
        try (InputStreamReader in = new InputStreamReader(
                VectorsTest.class.getResourceAsStream("/static.json"), StandardCharsets.UTF_8)) {
            vectors = JsonParser.parseReader(in).getAsJsonObject();
        }
    }

    @Test
    void assignmentsKeepWhatTheySay() {
        for (JsonElement each : vectors.getAsJsonArray("assignments")) {
            JsonObject spelled = each.getAsJsonObject();
            Assignment read = Assignment.read(bytes(spelled.get("hex")));
            assertEquals(spelled.get("version").getAsInt(), read.version);
            assertEquals(spelled.get("error").getAsInt(), read.error);
            assertEquals(spelled.get("leader").getAsString(), read.leader);
            assertEquals(spelled.get("leaderUrl").getAsString(), read.leaderUrl);
            assertEquals(spelled.get("configOffset").getAsLong(), read.configOffset);
            assertEquals(work(spelled.get("assigned")), read.assigned);
            assertEquals(work(spelled.get("revoked")), read.revoked);
            assertEquals(spelled.get("delayMs").getAsInt(), read.delayMs);
            assertEquals(spelled.get("whole").isJsonNull(), read.whole == null);
            if (read.whole != null) {
                JsonObject whole = spelled.getAsJsonObject("whole");
                assertEquals(whole.get("leaderInstanceId").getAsString(), read.whole.leaderInstanceId);
                assertEquals(whole.get("url").getAsString(), read.whole.url);
                assertEquals(whole.get("given").isJsonNull(), read.whole.given == null);
                if (read.whole.given != null) {
                    assertEquals(whole.getAsJsonObject("given").keySet(), read.whole.given.keySet());
                    read.whole.given.forEach((id, work) ->
                        assertEquals(work(whole.getAsJsonObject("given").get(id)), work));
                }
            }
            assertEquals(spelled.get("hex").getAsString(), hex(read.write()));
        }
    }

    @Test
    void statesOfWorkersKeepWhatTheySay() {
        for (JsonElement each : vectors.getAsJsonArray("workerStates")) {
            JsonObject spelled = each.getAsJsonObject();
            WorkerState read = WorkerState.read(bytes(spelled.get("hex")));
            assertEquals(spelled.get("url").getAsString(), read.url);
            assertEquals(spelled.get("configOffset").getAsLong(), read.configOffset);
            assertEquals(spelled.get("allocation").isJsonNull(), read.allocation == null);
            if (read.allocation != null) {
                assertEquals(spelled.get("allocation").getAsString(), hex(read.allocation.write()));
            }
            assertEquals(spelled.get("lastGeneration").isJsonNull(), read.lastGeneration == null);
            if (read.lastGeneration != null) {
                JsonObject last = spelled.getAsJsonObject("lastGeneration");
                assertEquals(last.get("generation").getAsInt(), read.lastGeneration.generation);
                assertEquals(last.get("given").isJsonNull(), read.lastGeneration.given == null);
            }
            assertEquals(spelled.get("hex").getAsString(), hex(read.write()));
        }
    }

    @Test
    void membershipsDecideAsTheirTwin() {
        JsonArray memberships = vectors.getAsJsonArray("memberships");
        assertNotEquals(0, memberships.size());
        int answers = 0;
        for (JsonElement each : memberships) {
            JsonObject process = each.getAsJsonObject();
            Membership membership = new Membership(process.get("instanceId").getAsString(), (decision, text) -> { });
            for (JsonElement step : process.getAsJsonArray("steps")) {
                answer(membership, step.getAsJsonObject(), process.get("history").getAsString());
                answers++;
            }
        }
        assertTrue(answers > 100, answers + " answers");
    }

    private static void answer(Membership membership, JsonObject step, String history) {
        if (step.has("metadata")) {
            byte[] metadata = bytes(step.get("metadata")).array();
            assertEquals(step.get("sent").getAsString(), hex(membership.withLastGeneration(metadata)), history);
        } else if (step.has("view")) {
            List<Membership.Member> members = new ArrayList<>();
            for (JsonElement each : step.getAsJsonArray("view")) {
                JsonObject member = each.getAsJsonObject();
                JsonElement id = member.get("instanceId");
                members.add(new Membership.Member(member.get("memberId").getAsString(),
                    id.isJsonNull() ? null : id.getAsString(), bytes(member.get("metadata")).array()));
            }
            Map<String, String> changed = new LinkedHashMap<>();
            membership.joining(step.get("generation").getAsInt());
            String leader = step.get("leader").getAsString();
            membership.view(members, leader).forEach((id, metadata) -> changed.put(id, hex(metadata)));
            assertEquals(texts(step.getAsJsonObject("changed")), changed, history);
            Map<String, ByteBuffer> held = membership.heldBack(leader);
            assertEquals(step.get("heldBack").isJsonNull(), held == null, history);
            if (held != null) {
                assertEquals(texts(step.getAsJsonObject("heldBack")), texts(held), history);
            }
        } else if (step.has("stored")) {
            Map<String, ByteBuffer> increments = new LinkedHashMap<>();
            step.getAsJsonObject("increments").entrySet().forEach(e -> increments.put(e.getKey(), bytes(e.getValue())));
            assertEquals(texts(step.getAsJsonObject("stored")),
                texts(membership.stored(increments, step.get("leader").getAsString())), history);
        } else {
            Membership.Self self = new Membership.Self(
                step.get("memberId").getAsString(), step.get("url").getAsString(),
                step.get("configOffset").getAsLong(), work(step.get("running")), true);
            ByteBuffer shown =
                membership.received(bytes(step.get("received")), step.get("generation").getAsInt(), self);
            assertEquals(step.get("shown").getAsString(), hex(shown.array()), history);
            assertEquals(step.get("roundWanted").getAsBoolean(), membership.isRoundToBeRequested(), history);
            assertFalse(membership.isRoundToBeRequested());
        }
    }

    private static Map<String, String> texts(JsonObject from) {
        Map<String, String> texts = new LinkedHashMap<>();
        from.entrySet().forEach(entry -> texts.put(entry.getKey(), entry.getValue().getAsString()));
        return texts;
    }

    private static Map<String, String> texts(Map<String, ByteBuffer> from) {
        Map<String, String> texts = new LinkedHashMap<>();
        from.forEach((id, bytes) -> texts.put(id, hex(Bytes.take(bytes.duplicate(), bytes.remaining()))));
        return texts;
    }

    private static Work work(JsonElement spelled) {
        Work work = Work.NOTHING;
        for (Map.Entry<String, JsonElement> connector : spelled.getAsJsonObject().entrySet()) {
            for (JsonElement task : connector.getValue().getAsJsonArray()) {
                work = work.with(connector.getKey(), task.getAsInt());
            }
        }
        return work;
    }

    private static ByteBuffer bytes(JsonElement hex) {
        String text = hex.getAsString();
        byte[] bytes = new byte[text.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(text.substring(2 * i, 2 * i + 2), 16);
        }
        return ByteBuffer.wrap(bytes);
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte each : bytes) {
            text.append(String.format("%02x", each));
        }
        return text.toString();
    }
}
