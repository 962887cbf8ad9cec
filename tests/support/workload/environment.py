"""What the workload's two programs share: settings from the environment, and one JSON line per event.

The one idea: an environment variable goes to the client unchanged, as in the applications this stands for. A value that
the client refuses is refused here too (session.timeout.ms with group.protocol=consumer, KIP-848), and is seen as such.
"""

import json
import logging
import sys
import threading
import time
from collections.abc import Mapping

# Environment variable to librdkafka's name. An empty value counts as unset.
CONNECTION = {
    "BOOTSTRAP": "bootstrap.servers", "CLIENT_ID": "client.id", "SECURITY_PROTOCOL": "security.protocol",
    "SASL_MECHANISM": "sasl.mechanism", "SASL_USERNAME": "sasl.username", "SASL_PASSWORD": "sasl.password",
    "SSL_CA_LOCATION": "ssl.ca.location",
}  # fmt: skip
CONSUMER = {
    "GROUP": "group.id", "GROUP_PROTOCOL": "group.protocol", "KAFKA_GROUP_INSTANCE_ID": "group.instance.id",
    "KAFKA_SESSION_TIMEOUT_MS": "session.timeout.ms", "PARTITION_ASSIGNMENT_STRATEGY": "partition.assignment.strategy",
}  # fmt: skip

_stdout = threading.Lock()


def required(environment: Mapping[str, str], name: str) -> str:
    """Return a variable."""
    if not environment.get(name):
        raise SystemExit(f"{name} is not set")
    return environment[name]


def client_settings(environment: Mapping[str, str], *tables: Mapping[str, str]) -> dict[str, str | int]:
    """Translate the variables that are set into librdkafka's settings."""
    return {
        name: environment[variable] for table in tables for variable, name in table.items() if environment.get(variable)
    }


def now_ms() -> int:
    """Return milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def tell(kind: str, **content: object) -> None:
    """Print one event as one JSON line."""
    line = json.dumps({"kind": kind, "at_ms": now_ms(), **content}, separators=(",", ":"))
    with _stdout:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


class _JsonLines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        tell("log", level=record.levelname, text=record.getMessage())


def client_logger() -> logging.Logger:
    """Return the logger that turns librdkafka's own messages into lines of kind `log`."""
    logger = logging.getLogger("librdkafka")
    if not logger.handlers:
        logger.addHandler(_JsonLines())
        logger.setLevel(logging.INFO)
        logger.propagate = False
    return logger
