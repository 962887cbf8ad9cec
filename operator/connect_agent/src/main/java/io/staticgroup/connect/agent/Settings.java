package io.staticgroup.connect.agent;

import java.util.Map;
import java.util.regex.Pattern;

/** The agent's settings, from the environment and its options. */
final class Settings {
    static final String INSTANCE_ID = "STATICGROUP_CONNECT_INSTANCE_ID";
    static final String SESSION_TIMEOUT_MS = "STATICGROUP_CONNECT_SESSION_TIMEOUT_MS";
    static final String REBALANCE_DELAY_MS = "STATICGROUP_CONNECT_REBALANCE_DELAY_MS";

    private static final String EXIT = "refusal=exit";

    /** Whether the process ends if it cannot get its identity. */
    final boolean isExitOnRefusal;
    /** Null: no static identity is asked for. */
    final String instanceId;
    /** In ms, at least 1; null: the worker's own session.timeout.ms. */
    final Integer sessionTimeoutMs;
    /** In ms, at least 0; null: the worker's own scheduled.rebalance.max.delay.ms. */
    final Integer rebalanceDelayMs;

    private Settings(boolean isExitOnRefusal, String instanceId, Integer sessionTimeoutMs, Integer rebalanceDelayMs) {
        this.isExitOnRefusal = isExitOnRefusal;
        this.instanceId = instanceId;
        this.sessionTimeoutMs = sessionTimeoutMs;
        this.rebalanceDelayMs = rebalanceDelayMs;
    }

    /** Reads the agent's options and the environment; Refused says how to correct a value that is not valid. */
    static Settings of(String options, Map<String, String> environment) {
        if (options != null && !options.isEmpty() && !options.equals("refusal=inert") && !isExitOnRefusal(options)) {
            throw new Refused("option '" + options + "' is unknown: use refusal=inert or " + EXIT);
        }
        String id = environment.get(INSTANCE_ID);
        if (id == null || id.isEmpty()) {
            return new Settings(isExitOnRefusal(options), null, null, null);
        }
        // JoinGroupRequest.validateGroupInstanceId, which is Topic.validate
        if (!Pattern.matches("[a-zA-Z0-9._-]{1,249}", id) || id.equals(".") || id.equals("..")) {
            throw new Refused(INSTANCE_ID + "='" + id + "' is no group.instance.id: "
                + "use 1 to 249 letters, digits, '.', '_' and '-', and not '.' or '..' alone");
        }
        return new Settings(isExitOnRefusal(options), id,
            milliseconds(environment, SESSION_TIMEOUT_MS, 1), milliseconds(environment, REBALANCE_DELAY_MS, 0));
    }

    static boolean isExitOnRefusal(String options) {
        return EXIT.equals(options);
    }

    private static Integer milliseconds(Map<String, String> environment, String name, int minimum) {
        String text = environment.get(name);
        if (text == null || text.isEmpty()) {
            return null;
        }
        try {
            int value = Integer.parseInt(text);
            if (value >= minimum) {
                return value;
            }
        } catch (NumberFormatException notANumber) {
            // refused below
        }
        throw new Refused(name + "='" + text + "' is not understood: use milliseconds, a whole number from "
            + minimum + " to " + Integer.MAX_VALUE + ", or unset it");
    }

    /** Why there can be no static identity; the user reads its message. */
    static final class Refused extends RuntimeException {
        private static final long serialVersionUID = 1L;

        Refused(String reason) {
            super(reason);
        }

        @Override
        public String toString() {
            return getMessage();
        }
    }
}
