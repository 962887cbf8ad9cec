package io.staticgroup.connect.agent;

import java.util.EnumSet;
import java.util.Set;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.FieldVisitor;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;

/** The few instructions that are put into Kafka's and Connect's classes: each calls a method of {@link Hooks}. */
final class Patches {
    private static final Set<Hook> PATCHED = EnumSet.range(Hook.IDENTITY, Hook.SYNC);
    private static final String HOOKS = Type.getInternalName(Hooks.class);
    private static final String OBJECT = "Ljava/lang/Object;";
    private static final String STRING = "Ljava/lang/String;";
    private static final String MAP = "Ljava/util/Map;";
    private static final String BUFFER = "Ljava/nio/ByteBuffer;";

    private Patches() {
    }

    /** A changed class, and which hooks it has. */
    static final class Patched {
        final byte[] bytes;
        final Set<Hook> found;

        Patched(byte[] bytes, Set<Hook> found) {
            this.bytes = bytes;
            this.found = found;
        }
    }

    /** The hooks for which classes are changed. */
    static Set<Hook> all() {
        return EnumSet.copyOf(PATCHED);
    }

    /** Whether this class (internal name) is changed. */
    static boolean isOf(String owner) {
        return PATCHED.stream().anyMatch(hook -> hook.owner.equals(owner));
    }

    /** Changes one class, and finds the hooks that it has. */
    static Patched apply(String owner, ClassReader reader) {
        Set<Hook> found = EnumSet.noneOf(Hook.class);
        ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
        reader.accept(new ClassVisitor(Opcodes.ASM9, writer) {
            @Override
            public MethodVisitor visitMethod(int access, String name, String descriptor, String sig, String[] thrown) {
                MethodVisitor next = super.visitMethod(access, name, descriptor, sig, thrown);
                boolean hasCode = (access & (Opcodes.ACC_ABSTRACT | Opcodes.ACC_STATIC)) == 0;
                Hook hook = hasCode ? find(name + descriptor) : null;
                return PATCHED.contains(hook) ? new Patch(next, hook, descriptor) : next;
            }

            @Override
            public FieldVisitor visitField(int access, String name, String descriptor, String sig, Object value) {
                find(name + " " + descriptor);
                return super.visitField(access, name, descriptor, sig, value);
            }

            private Hook find(String member) {
                for (Hook hook : Hook.values()) {
                    if (hook.owner.equals(owner) && hook.isMember(member)) {
                        found.add(hook);
                        return hook;
                    }
                }
                return null;
            }
        }, 0);
        return new Patched(writer.toByteArray(), found);
    }

    /** One method: something is called where it begins, where it returns, or both. */
    private static final class Patch extends MethodVisitor {
        private final Hook hook;
        private final boolean hasSkipFlag;
        private final int lastParameter;

        Patch(MethodVisitor next, Hook hook, String descriptor) {
            super(Opcodes.ASM9, next);
            this.hook = hook;
            this.hasSkipFlag = descriptor.contains("Z)");
            Type[] parameters = Type.getArgumentTypes(descriptor);
            int slot = 1;
            for (int i = 0; i < parameters.length - 1; i++) {
                slot += parameters[i].getSize();
            }
            this.lastParameter = slot;
        }

        @Override
        public void visitCode() {
            super.visitCode();
            switch (hook) {
                case REBALANCE_DELAY:
                    super.visitVarInsn(Opcodes.ILOAD, lastParameter);
                    load(1);
                    call("rebalanceDelayMs", "(I" + OBJECT + ")I");
                    super.visitVarInsn(Opcodes.ISTORE, lastParameter);
                    break;
                case LEADER:
                    if (hasSkipFlag) {
                        load(2);
                        super.visitVarInsn(Opcodes.ILOAD, 4);
                        call("skipped", "(" + STRING + "Z)" + MAP);
                        returnUnlessNull();
                        super.visitVarInsn(Opcodes.ILOAD, 4);
                        call("skipAssignment", "(Z)Z");
                        super.visitVarInsn(Opcodes.ISTORE, 4);
                    }
                    load(0, 3, 1);
                    call("view", "(" + OBJECT + "Ljava/util/List;" + STRING + ")" + MAP);
                    returnUnlessNull();
                    break;
                case ASSIGNMENT:
                    load(0);
                    super.visitVarInsn(Opcodes.ILOAD, 1);
                    load(2, 4);
                    call("received", "(" + OBJECT + "I" + STRING + BUFFER + ")" + BUFFER);
                    super.visitVarInsn(Opcodes.ASTORE, 4);
                    break;
                case HEARTBEAT:
                case JOIN:
                case SYNC:
                    load(0, 0);
                    super.visitFieldInsn(Opcodes.GETFIELD, hook.owner, "this$0", "L" + Hook.Names.ABSTRACT + ";");
                    load(1);
                    call("answered", "(" + OBJECT + OBJECT + OBJECT + ")V");
                    break;
                default: // only where it returns
            }
        }

        /** Returns the assignments on top of the stack as they are, unless there are none. */
        private void returnUnlessNull() {
            Label assign = new Label();
            super.visitInsn(Opcodes.DUP);
            super.visitJumpInsn(Opcodes.IFNULL, assign);
            super.visitInsn(Opcodes.ARETURN);
            super.visitLabel(assign);
            super.visitFrame(Opcodes.F_SAME1, 0, null, 1, new Object[] {"java/util/Map"});
            super.visitInsn(Opcodes.POP);
        }

        @Override
        public void visitInsn(int opcode) {
            if (hook == Hook.IDENTITY && opcode == Opcodes.RETURN) {
                setAgain("groupInstanceId", "Ljava/util/Optional;");
                setAgain("sessionTimeoutMs", "I");
            } else if (hook == Hook.LEADER && opcode == Opcodes.ARETURN) {
                load(0, 1);
                call("stored", "(" + MAP + OBJECT + STRING + ")" + MAP);
            } else if (hook == Hook.METADATA && opcode == Opcodes.ARETURN) {
                super.visitInsn(Opcodes.DUP);
                load(0);
                call("addLastGeneration", "(Ljava/lang/Iterable;" + OBJECT + ")V");
            } else if (hook == Hook.POLL && opcode == Opcodes.RETURN) {
                load(0);
                call("polled", "(" + OBJECT + ")V");
            }
            super.visitInsn(opcode);
        }

        /** GroupRebalanceConfig.&lt;init&gt; sets a final field once more as its last act. */
        private void setAgain(String field, String type) {
            load(0, 0);
            super.visitFieldInsn(Opcodes.GETFIELD, hook.owner, field, type);
            load(0, lastParameter);
            call(field, "(" + type + OBJECT + OBJECT + ")" + type);
            super.visitFieldInsn(Opcodes.PUTFIELD, hook.owner, field, type);
        }

        private void call(String method, String descriptor) {
            super.visitMethodInsn(Opcodes.INVOKESTATIC, HOOKS, method, descriptor, false);
        }

        private void load(int... slots) {
            for (int slot : slots) {
                super.visitVarInsn(Opcodes.ALOAD, slot);
            }
        }
    }
}
