package io.staticgroup.connect.agent;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;

/** Reads and sets members of Connect's objects by name; {@link Hook} has checked before that all of them exist. */
final class Connect {
    private Connect() {
    }

    /** The members of a round, JoinGroupResponseData.JoinGroupResponseMember. */
    static List<Membership.Member> members(List<?> joined) throws ReflectiveOperationException {
        List<Membership.Member> members = new ArrayList<>();
        for (Object each : joined) {
            members.add(new Membership.Member(
                (String) call(each, "memberId"), (String) call(each, "groupInstanceId"),
                (byte[]) call(each, "metadata")));
        }
        return members;
    }

    /** Sets the metadata of a member of a round, or of a protocol that is offered; null keeps it. */
    static void setMetadata(Object of, byte[] bytes) throws ReflectiveOperationException {
        if (bytes != null) {
            of.getClass().getMethod("setMetadata", byte[].class).invoke(of, (Object) bytes);
        }
    }

    /** What a WorkerCoordinator is and runs. */
    static Membership.Self self(Object coordinator, String memberId) throws ReflectiveOperationException {
        Object config = call(coordinator, "configSnapshot");
        long offset = config == null ? -1 : ((Number) call(config, "offset")).longValue();
        return new Membership.Self(memberId, (String) field(coordinator, "restUrl").get(coordinator), offset,
            running(field(coordinator, "assignmentSnapshot").get(coordinator)),
            field(coordinator, "leaderState").get(coordinator) != null);
    }

    private static Work running(Object assignment) throws ReflectiveOperationException {
        Work work = Work.NOTHING;
        if (assignment != null) {
            for (Object connector : (Collection<?>) call(assignment, "connectors")) {
                work = work.with((String) connector, Work.CONNECTOR_TASK);
            }
            for (Object task : (Collection<?>) call(assignment, "tasks")) {
                work = work.with((String) call(task, "connector"), (Integer) call(task, "task"));
            }
        }
        return work;
    }

    /** Lets a WorkerCoordinator join again; its own method for this has other parameters in other versions. */
    static void requestRejoin(Object coordinator) throws ReflectiveOperationException {
        field(coordinator, "rejoinRequested").setBoolean(coordinator, true);
    }

    /** Calls a public method without parameters. */
    static Object call(Object of, String method) throws ReflectiveOperationException {
        return of.getClass().getMethod(method).invoke(of);
    }

    private static Field field(Object of, String name) throws NoSuchFieldException {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }
}
