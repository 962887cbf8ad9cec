package io.staticgroup.connect.agent;

import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Set;
import java.util.stream.Collectors;
import org.objectweb.asm.ClassReader;

/** Which hooks the classes of a class path have; it loads no class. */
final class HookReport {
    final Set<Hook> missing = EnumSet.allOf(Hook.class);
    private boolean isConnectThere;

    private HookReport() {
    }

    /** Applies to the classes that the loader finds the same change that is made when they are loaded. */
    static HookReport of(ClassLoader loader) throws IOException {
        HookReport report = new HookReport();
        for (String owner : Arrays.stream(Hook.values()).map(hook -> hook.owner).collect(Collectors.toSet())) {
            try (InputStream in = loader.getResourceAsStream(owner + ".class")) {
                if (in != null) {
                    report.isConnectThere |= owner.equals(Hook.Names.COORDINATOR);
                    report.missing.removeAll(Patches.apply(owner, new ClassReader(in)).found);
                }
            }
        }
        return report;
    }

    /** Whether there is a Connect worker at all; other programs are given the same options. */
    boolean isConnectThere() {
        return isConnectThere;
    }
}
