package io.staticgroup.connect.agent;

import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** The jar as a program: says whether the agent can work with the Connect of a class path. */
public final class SelfTest {
    private static final String HELP = String.join("\n",
        "staticgroup-connect-agent: gives Kafka Connect workers a static identity",
        "",
        "  -javaagent:staticgroup-connect-agent.jar[=refusal=inert|exit]   in KAFKA_OPTS of a worker",
        "      " + Settings.INSTANCE_ID + "          group.instance.id; without it the agent is inert",
        "      " + Settings.SESSION_TIMEOUT_MS + "   instead of session.timeout.ms",
        "      " + Settings.REBALANCE_DELAY_MS + "   instead of scheduled.rebalance.max.delay.ms",
        "      status " + Agent.REFUSED_STATUS + ": refused (with refusal=exit)",
        "      status " + Hooks.FENCED_STATUS + ": fenced, another process holds the instance id",
        "",
        "  java -jar staticgroup-connect-agent.jar --self-test CLASSPATH|DIRECTORY",
        "      each hook found or missing; status 0 when all are found, 1 when not, 2 when nothing could be read",
        "  --version, --help", "");

    private SelfTest() {
    }

    public static void main(String[] arguments) throws IOException {
        System.exit(run(arguments, System.out, System.err));
    }

    /** Runs a command line; returns the status to exit with. */
    static int run(String[] arguments, PrintStream out, PrintStream err) throws IOException {
        List<String> words = Arrays.asList(arguments);
        if (words.equals(Arrays.asList("--version"))) {
            out.println(Agent.version());
            return 0;
        }
        if (words.equals(Arrays.asList("--help"))) {
            out.print(HELP);
            return 0;
        }
        if (words.size() == 2 && words.get(0).equals("--self-test")) {
            return test(words.get(1), out, err);
        }
        err.print(HELP);
        return 2;
    }

    private static int test(String classPath, PrintStream out, PrintStream err) throws IOException {
        List<URL> urls = new ArrayList<>();
        for (String entry : classPath.split(File.pathSeparator)) {
            File file = new File(entry.endsWith("*") ? entry.substring(0, entry.length() - 1) : entry);
            if (!file.exists()) {
                err.println("there is no " + file);
                return 2;
            }
            urls.add(file.toURI().toURL());
            File[] jars = file.listFiles((folder, name) -> name.endsWith(".jar"));
            for (File jar : jars == null ? new File[0] : jars) {
                urls.add(jar.toURI().toURL());
            }
        }
        try (URLClassLoader loader = new URLClassLoader(urls.toArray(new URL[0]), null)) {
            HookReport report = HookReport.of(loader);
            for (Hook hook : Hook.values()) {
                out.println((report.missing.contains(hook) ? "MISSING  " : "found    ") + hook);
            }
            boolean isComplete = report.missing.isEmpty();
            out.println(isComplete ? "the agent can be active here" : report.isConnectThere()
                ? "the agent would refuse: " + report.missing.size() + " hooks are missing"
                : "there is no Connect worker in " + classPath);
            return isComplete ? 0 : 1;
        }
    }
}
