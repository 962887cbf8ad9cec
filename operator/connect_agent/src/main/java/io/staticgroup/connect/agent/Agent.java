package io.staticgroup.connect.agent;

import java.io.IOException;
import java.lang.instrument.Instrumentation;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/** Begins with the worker's process: {@code -javaagent:staticgroup-connect-agent.jar[=refusal=inert|exit]}. */
public final class Agent {
    /** Exit status under {@code refusal=exit}: the process ends, because it could not get its identity. */
    public static final int REFUSED_STATUS = 81;

    private static final AtomicBoolean BEGUN = new AtomicBoolean();

    private Agent() {
    }

    /** Called by the JVM before main. */
    public static void premain(String options, Instrumentation instrumentation) {
        Consumer<String> print = Log::toStandardError;
        if (!isFirst(BEGUN, print)) {
            return;
        }
        try {
            ClassLoader loader = ClassLoader.getSystemClassLoader();
            Settings settings = accept(options, System.getenv(), HookReport.of(loader), print);
            if (settings != null) {
                Log log = new Log(loader);
                WorkerTransformer transformer = new WorkerTransformer(loader, log);
                Statistics statistics = new Statistics(settings.instanceId, log);
                statistics.register();
                Hooks.activate(settings, statistics, transformer, Runtime.getRuntime()::halt);
                instrumentation.addTransformer(transformer);
            }
        } catch (IOException | RuntimeException | LinkageError problem) {
            boolean isExit = Settings.isExitOnRefusal(options);
            print.accept((isExit ? "refused: " : "inert: ") + problem);
            if (isExit) {
                System.exit(REFUSED_STATUS);
            }
        }
    }

    /**
     * Whether this process has no agent yet.
     *
     * <p>A JVM runs an agent as often as it is named: by JAVA_TOOL_OPTIONS, KAFKA_OPTS and the options of a start
     * script. Two agents would both change the classes, and both add trailing bytes, which no leader can read.
     */
    static boolean isFirst(AtomicBoolean begun, Consumer<String> print) {
        boolean isFirst = begun.compareAndSet(false, true);
        if (!isFirst) {
            print.accept("named once more for this JVM, which changes nothing");
        }
        return isFirst;
    }

    /**
     * Decides whether to be active, and prints the decision as one line.
     *
     * @return the settings; null: be inert, because no identity is asked for
     * @throws Settings.Refused if the agent can't do what the settings ask for
     */
    static Settings accept(String options, Map<String, String> environment, HookReport hooks, Consumer<String> print) {
        if (!hooks.isConnectThere()) {
            print.accept("inert: there is no Connect worker on the class path");
            return null;
        }
        Settings settings = Settings.of(options, environment);
        if (settings.instanceId == null) {
            print.accept("inert: " + Settings.INSTANCE_ID + " is not set");
            return null;
        }
        if (!hooks.missing.isEmpty()) {
            throw new Settings.Refused(
                "this version of Connect lacks " + hooks.missing + "; the worker is a dynamic member");
        }
        print.accept("active, group.instance.id " + settings.instanceId);
        return settings;
    }

    /** The version in the jar's manifest. */
    static String version() {
        String version = Agent.class.getPackage().getImplementationVersion();
        return version == null ? "unknown" : version;
    }
}
