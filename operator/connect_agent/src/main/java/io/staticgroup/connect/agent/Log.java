package io.staticgroup.connect.agent;

/** The worker's own log, found when the first line is written; standard error where there is no slf4j. */
final class Log {
    private final ClassLoader loader;
    private Object logger;
    private Class<?> type;
    private boolean isLookedFor;

    Log(ClassLoader loader) {
        this.loader = loader;
    }

    /** Writes one line; level is a method of org.slf4j.Logger. */
    synchronized void write(String level, String text) {
        try {
            if (!isLookedFor) {
                isLookedFor = true;
                Class<?> factory = Class.forName("org.slf4j.LoggerFactory", true, loader);
                type = Class.forName("org.slf4j.Logger", false, loader);
                logger = factory.getMethod("getLogger", String.class).invoke(null, "io.staticgroup.connect.agent");
            }
            if (logger != null) {
                type.getMethod(level, String.class).invoke(logger, "staticgroup-connect-agent: " + text);
                return;
            }
        } catch (ReflectiveOperationException | LinkageError absent) {
            logger = null;
        }
        toStandardError(text);
    }

    static void toStandardError(String text) {
        System.err.println("staticgroup-connect-agent " + Agent.version() + ": " + text);
    }
}
