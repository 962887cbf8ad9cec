"""Connect workers: whose seat is whose, what their bytes say, and what may be advised."""

from __future__ import annotations

from .mutant import mutant

_WORKERS = ("tests/unit/core/test_connect.py",)
_BYTES = ("tests/unit/kafka/test_connect_protocol.py", "tests/unit/kafka/test_wire.py")

CONNECT = tuple(
    mutant(name, path, tests, *changes)
    for path, tests, name, *changes in (
        (
            "core/roles.py",
            _WORKERS,
            "a worker without an id holds a seat",
            ("        return member.instance_id\n", "        return member.instance_id or member.member_id\n"),
        ),
        (
            "core/roles.py",
            _WORKERS,
            "workers in a group of another type",
            (
                "is_of_type = not group.members or group.group_type in self.group_types",
                "is_of_type = True",
            ),
        ),
        (
            "core/roles.py",
            _WORKERS,
            "first workers without their session timeout",
            ("    return role_of(spec).protocol or spec.protocol\n", "    return spec.protocol\n"),
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
            ("(reported | told.assigned) - told.revoked", "reported | told.assigned"),
        ),
        (
            "kafka/connect_protocol.py",
            _BYTES,
            "what a worker reported is forgotten",
            ("(reported | told.assigned) - told.revoked", "told.assigned - told.revoked"),
        ),
        (
            "kafka/connect_protocol.py",
            _BYTES,
            "a whole allocation counts as an increment",
            (" and not told.is_whole:", ":"),
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
            "core/connect.py",
            _WORKERS,
            "delay advised against while a worker is dynamic",
            ("m.instance_id is not None and _is_whole(m.worker)", "_is_whole(m.worker)"),
        ),
        (
            "core/connect.py",
            _WORKERS,
            "delay advised against while an increment is stored",
            ("m.instance_id is not None and _is_whole(m.worker)", "m.instance_id is not None"),
        ),
        (
            "core/connect.py",
            _WORKERS,
            "what is held during a delay counts as all",
            ("    if load is None or load.unknown or load.delay_ms:\n", "    if load is None or load.unknown:\n"),
        ),
        (
            "core/findings/connect.py",
            _WORKERS,
            "agent missed before a worker can have joined",
            ("missing = table.of(Standing.MISSING)", "missing = table.wanted"),
        ),
        (
            "kube/translate/session_timeouts.py",
            ("tests/unit/kube/test_translate.py",),
            "session timeout of a worker's own believed beside the agent's",
            (" or name == _OF_AGENT", ""),
        ),
    )
)
