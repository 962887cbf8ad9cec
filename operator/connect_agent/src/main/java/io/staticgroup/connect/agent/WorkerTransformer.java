package io.staticgroup.connect.agent;

import java.lang.instrument.ClassFileTransformer;
import java.security.ProtectionDomain;
import java.util.EnumSet;
import java.util.Set;
import org.objectweb.asm.ClassReader;

/** Changes the few classes when one loader loads them, or another agent redefines them, and knows which have been. */
final class WorkerTransformer implements ClassFileTransformer {
    private final ClassLoader ofConnect;
    private final Log log;
    private final Set<Hook> missing = Patches.all();

    WorkerTransformer(ClassLoader ofConnect, Log log) {
        this.ofConnect = ofConnect;
        this.log = log;
    }

    /** The hooks whose class was not loaded yet, or was loaded without them. */
    synchronized Set<Hook> missing() {
        return EnumSet.copyOf(missing);
    }

    @Override
    public byte[] transform(ClassLoader loader, String name, Class<?> old, ProtectionDomain domain, byte[] bytes) {
        if (loader != ofConnect || name == null || !Patches.isOf(name)) {
            return null;
        }
        try {
            Patches.Patched patched = Patches.apply(name, new ClassReader(bytes));
            synchronized (this) {
                missing.removeAll(patched.found);
            }
            return patched.bytes;
        } catch (RuntimeException | LinkageError problem) {
            log.write("error", name + " is left as it is: " + problem);
            return null;
        }
    }
}
