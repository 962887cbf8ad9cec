"""Connect workers: their seats, their metadata, and the advice about them."""

from __future__ import annotations

from .mutant import mutant

_WORKERS = ("tests/unit/core/test_connect.py", "tests/unit/core/test_connect_assignments.py")
_AGENT = ("tests/unit/core/test_agent.py",)
_BYTES = ("tests/unit/kafka/test_connect_protocol.py", "tests/unit/kafka/test_wire.py")

CONNECT = tuple(
    mutant(name, path, tests, *changes)
    for path, tests, name, *changes in (
        (
            "core/seats.py",
            _WORKERS,
            "a worker without an id holds a seat",
            ("        if member.instance_id is not None:\n", "        if True:\n"),
            ("held.setdefault(member.instance_id, [])", "held.setdefault(member.instance_id or member.member_id, [])"),
        ),
        (
            "core/protocols.py",
            _WORKERS,
            "workers in a group of another type",
            (
                "is_of_type = not group.members or group.group_type in self.group_types",
                "is_of_type = True",
            ),
        ),
        (
            "core/protocols.py",
            _WORKERS,
            "first workers without their session timeout",
            ("    return role_of(spec).protocol or spec.group_protocol\n", "    return spec.group_protocol\n"),
        ),
        (
            "kafka/connect_protocol.py",
            _BYTES,
            "odd bytes of a worker refuse its group",
            ("        return WorkerView(host=host)\n", "        raise\n"),
        ),
        (
            "kafka/connect_protocol.py",
            _BYTES,
            "what a worker was to give up counts as held",
            ("(reported | given.assigned) - given.revoked", "reported | given.assigned"),
        ),
        (
            "kafka/connect_protocol.py",
            _BYTES,
            "what a worker reported is forgotten",
            ("(reported | given.assigned) - given.revoked", "given.assigned - given.revoked"),
        ),
        (
            "kafka/connect_protocol.py",
            _BYTES,
            "a whole allocation counts as an increment",
            (" and not given.is_whole:", ":"),
        ),
        (
            "kafka/connect_protocol.py",
            _BYTES,
            "a mark believed whatever follows it",
            ("        reader.text()  # instance id of the leader\n", "        return True\n"),
        ),
        (
            "kafka/connect_protocol.py",
            _BYTES,
            "a version believed that no Connect writes",
            ("        if not _EAGER <= version <= _SESSIONED:\n", "        if False:\n"),
        ),
        (
            "core/group.py",
            _WORKERS,
            "delay advised against while a worker is dynamic",
            ("m.instance_id is not None and m.worker is not None", "m.worker is not None"),
        ),
        (
            "core/group.py",
            _WORKERS,
            "delay advised against while an increment is stored",
            (" and m.worker is not None and m.worker.is_whole for m", " for m"),
        ),
        (
            "core/group.py",
            _WORKERS,
            "what is held during a delay counts as all",
            ("    if load is None or load.unknown or load.delay_ms:\n", "    if load is None or load.unknown:\n"),
        ),
        (
            "core/findings/members.py",
            _WORKERS,
            "agent missed before a worker can have joined",
            ("    missing = [seat for seat in wanted if seat.standing is Standing.MISSING]\n", "    missing = list(wanted)\n"),
        ),
        *(
            ("core/injection.py", _AGENT, name, *changes)
            for name, *changes in (
                (
                    "options that an image may set are replaced",
                    ("container.java_options is JavaOptions.ABSENT and options_may_be_absent(spec.client)",
                     "container.java_options is JavaOptions.ABSENT"),
                ),
                (
                    "agent said to come where its names are taken",
                    ("    if workload.agent_names:\n", "    if False:\n"),
                ),
                (
                    "agent said to come where its place is taken",
                    ("    if container.has_agent_mount:\n", "    if False:\n"),
                ),
                (
                    "agent looked for in a container that is not the worker's",
                    ("if c.name == name)", "if True)"),
                ),
                (
                    "init container of the agent takes no time",
                    ("workload.init_container_count + 1", "workload.init_container_count"),
                ),
            )
        ),
        *(
            ("kube/translate/workloads.py", _AGENT, name, *changes)
            for name, *changes in (
                (
                    "two agents in one worker",
                    ("return JavaOptions.WITH_AGENT if AGENT_JAR in", "return JavaOptions.TEXT if AGENT_JAR in"),
                ),
                (
                    "agent said to come below what is mounted",
                    ("    return is_above or mount_path", "    return mount_path"),
                ),
                (
                    "options by reference taken for text",
                    ("        return JavaOptions.REFERENCE\n", "        return JavaOptions.TEXT\n"),
                ),
                (
                    "options from elsewhere taken for none",
                    ('JavaOptions.PERHAPS_FROM_ELSEWHERE if objects_of(container, "envFrom", path) else', ""),
                ),
            )
        ),
        *(
            ("api/injection.py", _AGENT, name, *changes)
            for name, *changes in (
                (
                    "policy assumes that no image sets options",
                    ("    return client.type is ClientType.DEBEZIUM\n", "    return True\n"),
                ),
                (
                    "policy asked for an agent that is provided",
                    ("        agent=is_injected,\n", "        agent=True,\n"),
                ),
            )
        ),
        (
            "kube/translate/carried_ids.py",
            ("tests/unit/kube/translate/test_translated_ids.py",),
            "session timeout of a worker's own believed beside the agent's",
            (" or name == _OF_AGENT", ""),
        ),
    )
)
