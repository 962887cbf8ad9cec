package io.staticgroup.connect.agent;

import java.util.Map;
import java.util.regex.Pattern;

/** What the environment and the agent's options ask for. */
final class Settings {
    static final String INSTANCE_ID = "STATICGROUP_CONNECT_INSTANCE_ID";
    static final String SESSION_TIMEOUT_MS = "STATICGROUP_CONNECT_SESSION_TIMEOUT_MS";
    static final String REBALANCE_DELAY_MS = "STATICGROUP_CONNECT_REBALANCE_DELAY_MS";

    private static final String EXIT = "refusal=exit";

    /** Whether the process is to end rather than to go on without its identity. */
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

    /** Reads the agent's options and the environment; throws Refused with what to do where a value can't be understood. */
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
            // told below
        }
        throw new Refused(name + "='" + text + "' is not understood: use milliseconds, a whole number from "
            + minimum + " to " + Integer.MAX_VALUE + ", or unset it");
    }

    /** Why there can be no static identity; its text is for the user. */
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
