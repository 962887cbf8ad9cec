package io.staticgroup.connect.agent;

import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;

/** The stand-ins of Kafka's classes, loaded anew through the transformer; every instance is a process of its own. */
final class PatchedWorker extends ClassLoader {
    static final String CONFIG = "org.apache.kafka.clients.GroupRebalanceConfig";
    final WorkerTransformer transformer = new WorkerTransformer(this, new Log(PatchedWorker.class.getClassLoader()));
    final List<Decision> decisions = new ArrayList<>();
    final List<Integer> halts = new ArrayList<>();
    /** Thrown by the listener of decisions: a log may fail. */
    Error failingLog;
    private final String unpatched;

    /** Begins a process; the class of the name `unpatched`, if any, is loaded as it is. */
    PatchedWorker(Settings settings, String unpatched) {
        super(PatchedWorker.class.getClassLoader());
        this.unpatched = unpatched;
        Hooks.activate(settings, (decision, text) -> {
            decisions.add(decision);
            if (failingLog != null) {
                throw failingLog;
            }
        }, transformer, halts::add);
    }

    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
        Class<?> loaded = findLoadedClass(name);
        if (loaded != null || !name.startsWith("org.apache.kafka.")) {
            return loaded != null ? loaded : super.loadClass(name, resolve);
        }
        String internal = name.replace('.', '/');
        try (InputStream in = getParent().getResourceAsStream(internal + ".class")) {
            byte[] bytes = new byte[65_536];
            int length = 0;
            for (int count = in.read(bytes); count >= 0; count = in.read(bytes, length, bytes.length - length)) {
                length += count;
            }
            bytes = java.util.Arrays.copyOf(bytes, length);
            byte[] changed = name.equals(unpatched) ? null : transformer.transform(this, internal, null, null, bytes);
            byte[] used = changed == null ? bytes : changed;
            return defineClass(name, used, 0, used.length);
        } catch (IOException problem) {
            throw new ClassNotFoundException(name, problem);
        }
    }

    /** new GroupRebalanceConfig(config, type); its fields are read by name. */
    Object config(String type, int heartbeatIntervalMs) throws ReflectiveOperationException {
        Class<?> types = loadClass(CONFIG + "$ProtocolType");
        Object chosen = types.getMethod("valueOf", String.class).invoke(null, type);
        return loadClass(CONFIG).getConstructor(Object.class, types).newInstance(heartbeatIntervalMs, chosen);
    }

    Object config(String type) throws ReflectiveOperationException {
        return config(type, 3_000);
    }

    Object coordinator(Object config, String url, int maxDelay) throws ReflectiveOperationException {
        return loadClass("org.apache.kafka.connect.runtime.distributed.WorkerCoordinator")
            .getConstructor(loadClass(CONFIG), String.class, int.class).newInstance(config, url, maxDelay);
    }

    Object member(String memberId, String instanceId, byte[] metadata) throws ReflectiveOperationException {
        return loadClass("org.apache.kafka.common.message.JoinGroupResponseData$JoinGroupResponseMember")
            .getConstructor(String.class, String.class, byte[].class).newInstance(memberId, instanceId, metadata);
    }

    Object answer(String request, String error) throws ReflectiveOperationException {
        Class<?> type = loadClass("org.apache.kafka.common.requests." + request + "Response");
        return type.getConstructor(String.class).newInstance(error);
    }

    static Object get(Object of, String field) throws ReflectiveOperationException {
        return of.getClass().getField(field).get(of);
    }

    /** Calls the only public method of this name; what it throws is thrown. */
    static Object call(Object of, String name, Object... arguments) throws ReflectiveOperationException {
        for (Class<?> type = of.getClass(); type != null; type = type.getSuperclass()) {
            for (Method method : type.getDeclaredMethods()) {
                boolean hasCount = method.getParameterCount() == arguments.length;
                if (method.getName().equals(name) && hasCount && !method.isBridge()) {
                    method.setAccessible(true);
                    try {
                        return method.invoke(of, arguments);
                    } catch (InvocationTargetException thrown) {
                        if (thrown.getCause() instanceof RuntimeException) {
                            throw (RuntimeException) thrown.getCause();
                        }
                        throw thrown;
                    }
                }
            }
        }
        throw new NoSuchMethodException(name);
    }
}
